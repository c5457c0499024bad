//! Looks at the machine by doing: namespaces and bubblewrap are tried in child processes.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use super::super::broker::{self, BrokerHost};
use super::super::bwrap::{self, Bwrap, Missing};
use super::super::platform::Platform;
use super::super::{FsView, RealFs, is_nested};
use super::remedy::Obstacle;
use crate::sys::libc;
use crate::sys::namespaces::{self, CloneFlags};
use crate::sys::process::{Change, Forked, WaitFor, exit_now, fork_into, wait};

/// The hidden first argument with which this executable tries one thing as a child of the probe.
pub const CHILD_ARG: &str = "__probe";

/// A trial that hangs is a trial that failed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether something that was really tried worked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// It did.
    Works,
    /// What the tool or the kernel said.
    Fails(String),
}

/// os-release(5), as far as it matters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OsRelease {
    /// `ID`.
    pub id: String,
    /// `ID_LIKE`, split.
    pub like: Vec<String>,
    /// `PRETTY_NAME`.
    pub pretty_name: Option<String>,
}

impl OsRelease {
    /// Reads the file's text.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut out = Self::default();
        for line in text.lines() {
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            let value = value.trim().trim_matches(['"', '\'']);
            match key.trim() {
                "ID" => value.clone_into(&mut out.id),
                "ID_LIKE" => out.like = value.split_whitespace().map(str::to_owned).collect(),
                "PRETTY_NAME" => out.pretty_name = Some(value.to_owned()),
                _ => {}
            }
        }
        out
    }

    /// This machine's.
    #[must_use]
    pub fn read(fs: &dyn FsView) -> Self {
        ["/etc/os-release", "/usr/lib/os-release"]
            .iter()
            .find_map(|p| fs.read(Path::new(p)))
            .map(|t| Self::parse(&String::from_utf8_lossy(&t)))
            .unwrap_or_default()
    }
}

/// Everything that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// System.
    pub platform: Platform,
    /// `uname -r`.
    pub kernel: String,
    /// The caller.
    pub uid: u32,
    /// Distribution.
    pub os: OsRelease,
    /// `docker`, `podman`, `lxc`, …
    pub container: Option<String>,
    /// The mark of a ccbox sandbox is there.
    pub nested: bool,
    /// bubblewrap on disk.
    pub bwrap: Result<Bwrap, Missing>,
    /// `bwrap --version`.
    pub bwrap_version: Option<String>,
    /// bubblewrap with every namespace and a fresh /proc.
    pub bwrap_trial: Trial,
    /// The same without /proc, tried where the first failed.
    pub bwrap_without_proc: Option<Trial>,
    /// A user namespace made by ccbox itself, with a network namespace in it.
    pub userns: Trial,
    /// The same with a process namespace and a fresh /proc, as engine `builtin` makes them.
    pub builtin: Trial,
    /// `kernel.yama.ptrace_scope`, where the kernel has it.
    pub yama: Option<u8>,
    /// Landlock ABI, 0 for none.
    pub landlock_abi: i32,
    /// `/proc/sys/kernel/seccomp/actions_avail`.
    pub seccomp_actions: Option<String>,
    /// The creation broker can work.
    pub broker: BrokerHost,
    /// `Seccomp: 2` in `/proc/self/status`.
    pub seccomp_filtered: bool,
    /// `NoNewPrivs: 1`.
    pub no_new_privs: bool,
    /// Opening /dev/fuse.
    pub fuse: Result<(), nix::errno::Errno>,
    /// `kernel.apparmor_restrict_unprivileged_userns` is on.
    pub apparmor_restricts: bool,
    /// `user.max_user_namespaces`.
    pub max_user_namespaces: Option<u64>,
    /// `kernel.unprivileged_userns_clone` (Debian and others).
    pub unprivileged_userns_clone: Option<u64>,
    /// `/dev/kvm` is there.
    pub kvm: bool,
    /// Whether macOS applies a profile; tried on macOS only.
    pub seatbelt: Option<Result<(), Obstacle>>,
    /// `--deep`.
    pub deep: Option<Deep>,
}

/// A whole run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deep {
    /// Its end.
    pub run: Trial,
    /// Its length.
    pub millis: u64,
}

/// Looks and tries. `exe` is this executable.
#[must_use]
pub fn observe(exe: &Path, deep: bool) -> Observed {
    let fs = RealFs;
    let number = |p: &str| small(p).and_then(|t| t.trim().parse::<u64>().ok());
    let status = small("/proc/self/status").unwrap_or_default();
    let has = |key: &str, value: &str| {
        status.lines().any(|l| {
            l.split_once(':')
                .is_some_and(|(k, v)| k == key && v.trim() == value)
        })
    };
    let bwrap = bwrap::find(&fs);
    let (bwrap_trial, bwrap_without_proc, bwrap_version) = match &bwrap {
        Ok(b) => {
            let full = try_bwrap(b, exe, true);
            let bare = (full != Trial::Works).then(|| try_bwrap(b, exe, false));
            (full, bare, bwrap_version(&b.path))
        }
        Err(_) => (Trial::Fails("no bubblewrap".to_owned()), None, None),
    };
    Observed {
        platform: Platform::detect(),
        kernel: nix::sys::utsname::uname()
            .map(|u| u.release().to_string_lossy().into_owned())
            .unwrap_or_default(),
        uid: nix::unistd::getuid().as_raw(),
        os: OsRelease::read(&fs),
        container: container(&fs),
        nested: is_nested(&fs),
        bwrap,
        bwrap_version,
        bwrap_trial,
        bwrap_without_proc,
        userns: try_self(exe, "userns"),
        builtin: try_self(exe, "builtin"),
        yama: broker::yama(&fs),
        landlock_abi: landlock_abi(),
        seccomp_actions: small("/proc/sys/kernel/seccomp/actions_avail"),
        broker: broker::look(&fs),
        seccomp_filtered: has("Seccomp", "2"),
        no_new_privs: has("NoNewPrivs", "1"),
        fuse: std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .map(drop)
            .map_err(|e| nix::errno::Errno::from_raw(e.raw_os_error().unwrap_or(0))),
        apparmor_restricts: number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
            == Some(1),
        max_user_namespaces: number("/proc/sys/user/max_user_namespaces"),
        unprivileged_userns_clone: number("/proc/sys/kernel/unprivileged_userns_clone"),
        kvm: Path::new("/dev/kvm").exists(),
        seatbelt: None,
        deep: deep.then(|| try_run(exe)),
    }
}

fn small(path: &str) -> Option<String> {
    RealFs
        .read(Path::new(path))
        .map(|t| String::from_utf8_lossy(&t).into_owned())
}

fn landlock_abi() -> i32 {
    crate::sys::landlock::abi()
}

/// Names the container by the marks its manager leaves.
fn container(fs: &dyn FsView) -> Option<String> {
    let there = |p: &str| fs.kind(Path::new(p)).is_some();
    if there("/.dockerenv") {
        return Some("docker".to_owned());
    }
    if there("/run/.containerenv") {
        return Some("podman".to_owned());
    }
    // systemd and lxc write the manager's name there (systemd.io/CONTAINER_INTERFACE).
    if let Some(text) = fs.read(Path::new("/run/systemd/container")) {
        return Some(String::from_utf8_lossy(&text).trim().to_owned());
    }
    let groups = fs.read(Path::new("/proc/1/cgroup"))?;
    let groups = String::from_utf8_lossy(&groups).into_owned();
    ["kubepods", "docker", "lxc"]
        .into_iter()
        .find(|n| groups.contains(n))
        .map(str::to_owned)
}

fn try_bwrap(b: &Bwrap, exe: &Path, proc: bool) -> Trial {
    let mut args: Vec<OsString> = [
        // Not --unshare-all: as uid 0 that does without a user namespace where none can be made, and a run does not.
        "--unshare-user",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
        "--die-with-parent",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
    ]
    .iter()
    .map(OsString::from)
    .collect();
    if proc {
        args.extend(["--proc".into(), "/proc".into()]);
    }
    // This executable may lie in the /tmp that is covered above.
    let inside = OsString::from("/tmp/ccbox");
    args.extend([
        "--ro-bind".into(),
        exe.into(),
        inside.clone(),
        "--".into(),
        inside,
    ]);
    args.extend([CHILD_ARG.into(), "alive".into()]);
    tried(&b.path, &args)
}

fn try_self(exe: &Path, what: &str) -> Trial {
    tried(exe, &[CHILD_ARG.into(), what.into()])
}

fn try_run(exe: &Path) -> Deep {
    let start = Instant::now();
    let args: Vec<OsString> = ["run", "-p", "mode = \"chat\"", "--chdir", "/", "--"]
        .iter()
        .map(OsString::from)
        .chain([exe.into(), CHILD_ARG.into(), "alive".into()])
        .collect();
    let run = tried(exe, &args);
    Deep {
        run,
        millis: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
    }
}

/// `0.8.0`, from `bwrap --version`.
#[must_use]
pub fn bwrap_version(program: &Path) -> Option<String> {
    let out = finished(program, &["--version".into()]).ok()?;
    let version = out.stdout.trim().strip_prefix("bubblewrap ")?;
    Some(version.to_owned())
}

struct Finished {
    success: bool,
    stdout: String,
    stderr: String,
}

fn tried(program: &Path, args: &[OsString]) -> Trial {
    match finished(program, args) {
        Ok(f) if f.success => Trial::Works,
        Ok(f) => {
            // The last line is the one that ended it.
            let last = f.stderr.lines().rev().find(|l| !l.trim().is_empty());
            Trial::Fails(
                last.unwrap_or("it failed and did not say why")
                    .trim()
                    .to_owned(),
            )
        }
        Err(e) => Trial::Fails(e.to_string()),
    }
}

/// Runs a program with an empty environment to its end. What it says is short: it cannot fill the pipes.
fn finished(program: &Path, args: &[OsString]) -> std::io::Result<Finished> {
    let mut child = Command::new(program)
        .args(args)
        .env_clear()
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let end = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() >= end {
            child.kill()?;
            child.wait()?;
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let mut out = Finished {
        success: status.success(),
        stdout: String::new(),
        stderr: String::new(),
    };
    if let Some(mut pipe) = child.stdout.take() {
        pipe.read_to_string(&mut out.stdout)?;
    }
    if let Some(mut pipe) = child.stderr.take() {
        pipe.read_to_string(&mut out.stderr)?;
    }
    Ok(out)
}

/// The child's side of a trial. The answer is the exit status and, for people, the error text the parent hands on.
///
/// # Errors
/// What failed, in words.
pub fn child(what: Option<&OsStr>) -> Result<ExitCode, String> {
    match what.and_then(OsStr::to_str) {
        Some("alive") => Ok(ExitCode::SUCCESS),
        Some("userns") => make_namespaces().map(|()| ExitCode::SUCCESS),
        Some("builtin") => make_namespaces()
            .and_then(|()| mount_proc())
            .map(|()| ExitCode::SUCCESS),
        _ => Err("unknown trial".to_owned()),
    }
}

/// What the pre-stage of a run does (D6): a user namespace with a network namespace in it. AppArmor's restriction lets the
/// first step pass and takes the capabilities away, so only the second tells.
#[cfg(target_os = "linux")]
fn make_namespaces() -> Result<(), String> {
    use nix::sched::unshare;
    let said = |what: &str, e: &dyn std::fmt::Display| format!("{what}: {e}");
    let (uid, gid) = (nix::unistd::getuid(), nix::unistd::getgid());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|e| said("unshare(CLONE_NEWUSER)", &e.desc()))?;
    let write = |file: &str, text: String| {
        std::fs::write(Path::new("/proc/self").join(file), text)
            .map_err(|e| said(&format!("writing {file}"), &e))
    };
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{uid} {uid} 1"))?;
    write("gid_map", format!("{gid} {gid} 1"))?;
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC)
        .map_err(|e| said("unshare(CLONE_NEWNET)", &e.desc()))
}

/// /proc shows the process namespace of who mounts it: a child's.
fn mount_proc() -> Result<(), String> {
    let said = |e: std::io::Error| format!("mounting a fresh /proc: {}", crate::exit::reason(&e));
    namespaces::make_mounts_private().map_err(said)?;
    match fork_into(CloneFlags::CLONE_NEWPID).map_err(said)? {
        Forked::Child => {
            let failed = namespaces::mount_proc().err();
            let errno = failed.map_or(0, |e| e.raw_os_error().unwrap_or(libc::EIO));
            exit_now(u8::try_from(errno).unwrap_or(u8::MAX))
        }
        Forked::Parent(pid) => match wait(pid.as_raw(), WaitFor::End).map_err(said)? {
            Some((_, Change::Exited(0))) => Ok(()),
            Some((_, Change::Exited(errno))) => {
                Err(said(std::io::Error::from_raw_os_error(errno.into())))
            }
            _ => Err("mounting a fresh /proc: the trial did not end".to_owned()),
        },
    }
}

#[cfg(not(target_os = "linux"))]
fn make_namespaces() -> Result<(), String> {
    Err("this system has no namespaces".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fs_view::FakeFs;

    #[test]
    fn os_release_with_and_without_quotes() {
        let ubuntu =
            OsRelease::parse("PRETTY_NAME=\"Ubuntu 24.04 LTS\"\nID=ubuntu\nID_LIKE=debian\n#x\n");
        assert_eq!(ubuntu.id, "ubuntu");
        assert_eq!(ubuntu.like, ["debian"]);
        assert_eq!(ubuntu.pretty_name.as_deref(), Some("Ubuntu 24.04 LTS"));
        let rocky = OsRelease::parse("ID='rocky'\nID_LIKE=\"rhel centos fedora\"\n");
        assert_eq!((rocky.id.as_str(), rocky.like.len()), ("rocky", 3));
    }

    #[test]
    fn containers_are_known_by_their_marks() {
        let table = [
            (FakeFs::new().file("/.dockerenv", ""), Some("docker")),
            (FakeFs::new().file("/run/.containerenv", ""), Some("podman")),
            (
                FakeFs::new().file("/run/systemd/container", "lxc\n"),
                Some("lxc"),
            ),
            (
                FakeFs::new().file("/proc/1/cgroup", "0::/kubepods.slice/x\n"),
                Some("kubepods"),
            ),
            (
                FakeFs::new().file("/proc/1/cgroup", "0::/init.scope\n"),
                None,
            ),
            (FakeFs::new(), None),
        ];
        for (fs, want) in table {
            assert_eq!(container(&fs).as_deref(), want);
        }
    }

    #[test]
    fn a_trial_reports_the_last_words_and_the_end() {
        let sh = Path::new("/bin/sh");
        let run = |script: &str| tried(sh, &["-c".into(), script.into()]);
        assert_eq!(run("exit 0"), Trial::Works);
        assert_eq!(
            run("echo first >&2; echo last >&2; exit 1"),
            Trial::Fails("last".into())
        );
        assert!(matches!(
            tried(Path::new("/nonexistent"), &[]),
            Trial::Fails(_)
        ));
    }
}
