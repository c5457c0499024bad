//! Rendered argument vectors given to the real bubblewrap, as an ordinary user and, where the tests run as root, as uid 0 too.
//!
//! The inner stage is replaced by a shell, so these are the plans of a kernel without a creation broker; everything else is what a run
//! gets. bubblewrap must be installed.

use std::ffi::OsString;
use std::fs;
use std::io::{Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;
use crate::host::RealFs;
use crate::plan::fixture::{bind, dev, dispatch, entry, without_broker};
use crate::policy::{Policy, Ruled};

/// An ordinary uid nobody has: its user database entries are generated too.
const ORDINARY: u32 = 54_321;

/// A world below a directory of its own: `home`, `ws`.
struct World {
    dir: tempfile::TempDir,
    uid: u32,
}

impl World {
    fn new(uid: u32) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("ccbox-plan-")
            .tempdir()
            .unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let w = Self { dir, uid };
        w.own(w.dir.path());
        w.mkdir("home");
        w.mkdir("ws");
        w
    }
    fn at(&self, rel: impl AsRef<Path>) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(rel)
    }
    fn own(&self, p: &Path) {
        if nix::unistd::getuid().is_root() {
            chown(p, Some(self.uid), Some(self.uid)).unwrap();
        }
    }
    fn mkdir(&self, rel: impl AsRef<Path>) {
        let mut at = self.dir.path().to_path_buf();
        for c in rel.as_ref().components() {
            at.push(c);
            if !at.exists() {
                fs::create_dir(&at).unwrap();
                self.own(&at);
            }
        }
    }
    fn file(&self, rel: impl AsRef<Path>, text: &str) {
        self.mkdir(rel.as_ref().parent().unwrap());
        fs::write(self.at(rel.as_ref()), text).unwrap();
        self.own(&self.at(rel));
    }
    fn link(&self, rel: &str, target: impl AsRef<Path>) {
        symlink(target, self.at(rel)).unwrap();
    }
    fn text(&self, rel: impl AsRef<Path>) -> String {
        fs::read_to_string(self.at(rel)).unwrap()
    }
    fn host(&self) -> HostFacts {
        let mut h = without_broker();
        h.uid = self.uid;
        h.gid = self.uid;
        "somebody".clone_into(&mut h.user);
        h.home = self.at("home");
        h.home_real.clone_from(&h.home);
        for (k, v) in &mut h.env {
            if k == "HOME" {
                *v = h.home.clone().into_os_string();
            }
        }
        h.cwd = self.at("ws");
        h.cwd_real.clone_from(&h.cwd);
        h.state_dir = self.at("home/.local/state/ccbox");
        h.config_dir = self.at("home/.config/ccbox");
        h.exe = PathBuf::from("/bin/true");
        h
    }
    fn path(&self, rel: &str) -> Ruled<crate::policy::path::PathEntry> {
        let mut e = entry("/");
        e.value = crate::policy::path::PathEntry::Exact(self.at(rel));
        e
    }
    fn bind(&self, rel: &str, ro: bool) -> Ruled<crate::policy::Bind> {
        let mut b = bind("/", ro);
        b.value.host_path = self.at(rel);
        b
    }
    fn run(&self, policy: &Policy, host: &HostFacts, script: &str) -> Output {
        let plan = Plan::resolve(policy, host, &[OsString::from("sh")], &RealFs).unwrap();
        for d in &plan.state_dirs {
            let rel = d.strip_prefix(self.at("")).unwrap();
            self.mkdir(rel);
        }
        run(&plan, host, self.uid, script)
    }
}

struct Output {
    out: String,
    err: String,
    ok: bool,
}

/// An inheritable descriptor with this content.
fn content(bytes: &[u8]) -> OwnedFd {
    let mut f = tempfile::tempfile().unwrap();
    f.write_all(bytes).unwrap();
    f.rewind().unwrap();
    nix::unistd::dup(&f).unwrap()
}

fn run(plan: &Plan, host: &HostFacts, uid: u32, script: &str) -> Output {
    let i = render(plan, host, Path::new("/usr/bin/bwrap"), NetSetup::Inner);
    let mut fds = Vec::new();
    let mut args: Vec<u8> = Vec::new();
    for a in &i.args {
        match a {
            EngineArg::Text(t) if t == "--" => break,
            EngineArg::Text(t) => args.extend_from_slice(t.as_bytes()),
            EngineArg::Data(d) => {
                let fd = content(d);
                args.extend_from_slice(fd.as_raw_fd().to_string().as_bytes());
                fds.push(fd);
            }
            EngineArg::SelfExe => unreachable!(),
        }
        args.push(0);
    }
    let args = content(&args);
    let mut cmd = Command::new("/usr/bin/bwrap");
    cmd.args([
        "--args",
        &args.as_raw_fd().to_string(),
        "--",
        "/bin/sh",
        "-c",
    ])
    .arg("cd \"$0\" && eval \"$1\"")
    .arg(&plan.cwd)
    .arg(script)
    .env_clear()
    .envs(plan.env.iter().map(|(k, v)| (k, v)))
    .current_dir("/");
    if nix::unistd::getuid().is_root() && uid != 0 {
        // `Command::uid` drops supplementary groups itself.
        cmd.uid(uid).gid(uid);
    }
    let got = cmd.output().unwrap();
    Output {
        out: String::from_utf8_lossy(&got.stdout).into_owned(),
        err: String::from_utf8_lossy(&got.stderr).into_owned(),
        ok: got.status.success(),
    }
}

/// The uids to run as.
fn uids() -> Vec<u32> {
    let me = nix::unistd::getuid().as_raw();
    if me == 0 { vec![0, ORDINARY] } else { vec![me] }
}

#[test]
fn a_bound_run_sees_its_bind_and_nothing_else() {
    for uid in uids() {
        let w = World::new(uid);
        w.file("sib", "SECRET");
        w.file("home/x", "SECRET");
        let mut p = dispatch();
        p.fs.binds.push(w.bind("ws", false));
        let got = w.run(
            &p,
            &w.host(),
            "pwd; touch here && echo wrote; cat ../sib ~/x; ls -A ~; mktemp >/dev/null && echo tmp; id -un; grep CapEff /proc/self/status; \
             for d in / ~ /usr /etc /sys; do touch $d/t 2>/dev/null && echo BAD $d; done; \
             for f in sys/kernel/core_pattern sysrq-trigger irq/default_smp_affinity; do ( exec 3>>/proc/$f ) 2>/dev/null && echo BAD $f; done; ls /proc | grep -c '^[0-9]'; cat /run/ccbox; exit 0",
        );
        assert!(got.ok, "{}", got.err);
        assert!(
            got.out
                .starts_with(&format!("{}\nwrote\ntmp\n", w.at("ws").display())),
            "{}",
            got.out
        );
        assert!(
            !got.out.contains("SECRET") && !got.out.contains("BAD"),
            "{}",
            got.out
        );
        assert!(got.out.contains("CapEff:\t0000000000000000"), "{}", got.out);
        assert!(
            // The uid of the pretended host is in no user database; a real caller keeps his name.
            got.out.contains(
                match uid {
                    0 => "root".to_owned(),
                    ORDINARY => "somebody".to_owned(),
                    own =>
                        nix::unistd::User::from_uid(own.into())
                            .unwrap()
                            .unwrap()
                            .name,
                }
                .as_str()
            ),
            "{}",
            got.out
        );
        assert!(w.at("ws/here").exists());
        assert!(fs::read_dir(w.at("home")).unwrap().count() <= 2);
    }
}

#[test]
fn renaming_above_a_protected_file_is_refused() {
    for uid in uids() {
        let w = World::new(uid);
        w.file("ws/dir/deep/prot", "KEEP");
        let mut p = dispatch();
        p.fs.binds.push(w.bind("ws", false));
        p.fs.protected.push(w.path("ws/dir/deep/prot"));
        // Control: without the rule the rename goes through.
        let script = "mv dir d2 && mkdir -p dir/deep && echo evil > dir/deep/prot; echo rc=$?; mkdir free; mv free f2 && rmdir f2; echo rc2=$?";
        let got = w.run(&p, &w.host(), script);
        assert!(
            !got.out.contains("rc=0") && got.out.contains("rc2=0"),
            "{} {}",
            got.out,
            got.err
        );
        assert_eq!(w.text("ws/dir/deep/prot"), "KEEP");
        p.fs.protected.clear();
        assert!(w.run(&p, &w.host(), script).out.contains("rc=0"));
    }
}

#[test]
fn hidden_things_are_neither_read_written_nor_moved() {
    for uid in uids() {
        let w = World::new(uid);
        w.file("ws/vault/k", "SECRET");
        w.file("ws/secret", "SECRET");
        let mut p = dispatch();
        p.fs.binds.push(w.bind("ws", false));
        p.fs.deny_read
            .extend([w.path("ws/vault"), w.path("ws/secret")]);
        let got = w.run(
            &p,
            &w.host(),
            "cat secret vault/k; ls vault; cp secret c; mv vault v2; mv secret s2; ln secret l; echo x > vault/n; chmod 777 vault secret; umount vault; \
             tar c . 2>/dev/null | grep -ac SECRET; ls >/dev/null; echo ls=$?",
        );
        assert!(
            !got.out.contains("SECRET") && got.out.contains("ls=0"),
            "{}",
            got.out
        );
        assert!(got.out.contains("0\n"));
        assert_eq!(fs::read_dir(w.at("ws/vault")).unwrap().count(), 1);
        assert_eq!(w.text("ws/secret"), "SECRET");
    }
}

#[test]
fn a_narrow_grant_inside_a_hidden_directory() {
    for uid in uids() {
        let w = World::new(uid);
        for f in ["a", ".env"] {
            w.file(
                format!("home/proj/{f}"),
                if f == "a" { "A" } else { "SECRET" },
            );
        }
        w.file("home/other/s", "SECRET");
        let mut p = dispatch();
        p.fs.binds.push(w.bind("ws", false));
        p.fs.binds.push(w.bind("home", true));
        p.fs.deny_read
            .extend([w.path("home"), w.path("home/proj/.env")]);
        p.fs.allow_read.push(w.path("home/proj"));
        let got = w.run(&p, &w.host(), "cd ~/proj && cat a; cat .env; cat ~/other/s; ls -A ~; touch ~/n && echo BAD; pwd; exit 0");
        assert!(got.out.starts_with('A'), "{} {}", got.out, got.err);
        assert!(
            !got.out.contains("SECRET") && !got.out.contains("BAD") && !got.out.contains("other")
        );
    }
}

#[test]
fn links_on_the_way_and_links_as_protected_paths() {
    for uid in uids() {
        let w = World::new(uid);
        w.file("real/f", "KEEP");
        w.link("lnk", "real");
        w.file("ws/target", "KEEP");
        w.link("ws/prot", "target");
        let mut p = dispatch();
        p.fs.binds.push(w.bind("ws", false));
        p.fs.binds.push(w.bind("lnk", false));
        p.fs.protected.extend([w.path("ws/prot"), w.path("lnk/f")]);
        let mut host = w.host();
        host.cwd = w.at("lnk");
        host.cwd_real = w.at("real");
        let got = w.run(
            &p,
            &host,
            &format!("pwd; touch ok; touch $PWD/ok2; echo e > f; cd {}; echo e > prot; echo e > target; mv target t; exit 0", w.at("ws").display()),
        );
        assert_eq!(
            got.out.trim(),
            w.at("lnk").display().to_string(),
            "{}",
            got.err
        );
        assert!(w.at("real/ok").exists() && w.at("real/ok2").exists());
        assert_eq!(
            (w.text("real/f"), w.text("ws/target")),
            ("KEEP".into(), "KEEP".into())
        );
    }
}

#[test]
fn odd_names_reach_bubblewrap_as_they_are() {
    for uid in uids() {
        let w = World::new(uid);
        let odd = Path::new(std::ffi::OsStr::from_bytes(b"w s \xff\xc3\xbc'\"\n-x")).to_path_buf();
        w.file(odd.join("-rf/p \nq"), "K");
        let mut p = dispatch();
        let mut b = w.bind("ws", false);
        b.value.host_path = w.at(&odd);
        p.fs.binds.push(b);
        let mut e = w.path("ws");
        e.value = crate::policy::path::PathEntry::Exact(w.at(odd.join("-rf/p \nq")));
        p.fs.protected.push(e);
        let mut host = w.host();
        host.cwd = w.at(&odd);
        host.cwd_real.clone_from(&host.cwd);
        let got = w.run(
            &p,
            &host,
            "touch ok; for f in ./-rf/*; do echo e > \"$f\"; done; exit 0",
        );
        assert!(got.ok, "{}", got.err);
        assert!(w.at(odd.join("ok")).exists());
        assert_eq!(w.text(odd.join("-rf/p \nq")), "K");
    }
}

#[test]
fn the_host_view_of_zero_configuration() {
    for uid in uids() {
        let w = World::new(uid);
        w.file("ws/.git/hooks/pre-commit.sample", "");
        w.file("ws/.git/config", "[core]\n");
        w.file("ws/.git/HEAD", "ref: refs/heads/main\n");
        w.mkdir("ws/.git/objects");
        w.mkdir("ws/.git/refs");
        let got = w.run(
            &dev(),
            &w.host(),
            "touch made && echo wrote; echo e > .git/hooks/pre-commit; mv .git g; echo e >> .git/config; touch .git/index && echo index; \
             cat /etc/shadow; touch /usr/x; touch $XDG_CACHE_HOME/c && echo cache; test -r /etc/passwd && echo passwd; exit 0",
        );
        assert!(got.ok, "{}", got.err);
        assert_eq!(got.out, "wrote\nindex\ncache\npasswd\n", "{}", got.err);
        assert!(!w.at("ws/.git/hooks/pre-commit").exists());
        assert_eq!(w.text("ws/.git/config"), "[core]\n");
    }
}
