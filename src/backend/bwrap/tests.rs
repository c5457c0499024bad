use std::fmt::Write as _;
use std::path::Path;

use super::*;
use crate::host::fs_view::FakeFs;
use crate::plan::fixture::{self, bind, bind_at, debian, dev, dispatch, facts, planned, terminal};
use crate::policy::{Mode, Policy};

/// One option with its arguments a line, as a reader would write it.
fn lines(i: &Invocation) -> String {
    let mut out = String::new();
    for arg in &i.args {
        match arg {
            EngineArg::Text(t) => {
                let t = format!("{t:?}");
                let plain = t.trim_matches('"').to_owned();
                let option = plain.starts_with("--") && !out.ends_with("--perms ");
                if option {
                    out.push('\n');
                }
                let quoted = if plain.contains(['\\', ' ']) {
                    t
                } else {
                    plain
                };
                write!(out, "{quoted} ").unwrap();
            }
            EngineArg::Data(d) => {
                write!(out, "<{}> ", String::from_utf8_lossy(d).escape_debug()).unwrap();
            }
            EngineArg::SelfExe => out.push_str("/proc/self/fd/<self> "),
        }
    }
    for m in &i.premounts {
        match m {
            PreMount::Overlay(o) => write!(
                out,
                "\noverlay at {} upper {} work {}",
                o.at.display(),
                o.upper.display(),
                o.work.display()
            ),
            PreMount::Guest { mount, devices } => write!(out, "\nguest {mount:?} {devices}"),
        }
        .unwrap();
    }
    out.lines()
        .map(|l| l.trim_end().to_owned() + "\n")
        .collect()
}

fn argv(policy: &Policy, host: &HostFacts, fs: &FakeFs, net: NetSetup) -> String {
    lines(&render(
        &planned(policy, host, fs),
        host,
        Path::new("/usr/bin/bwrap"),
        net,
    ))
}

#[test]
fn bound_spec() {
    let mut p = dispatch();
    p.fs.binds.push(bind("/home/me/proj", false));
    insta::assert_snapshot!(argv(&p, &facts(), &debian(), NetSetup::Inner));
}

#[test]
fn host_view_without_a_spec() {
    insta::assert_snapshot!(argv(&dev(), &facts(), &debian(), NetSetup::PreStage));
}

#[test]
fn host_view_with_used_caches() {
    let fs = debian()
        .dir("/home/me/.cache/google-chrome")
        .dir("/home/me/.npm")
        .dir("/home/me/.cargo/registry")
        .dir("/home/me/.cargo/git")
        .file("/home/me/.cargo/credentials.toml", "token")
        .dir("/home/me/go/bin");
    let pre = argv(&dev(), &facts(), &fs, NetSetup::PreStage);
    let inner = argv(&dev(), &facts(), &fs, NetSetup::Inner);
    insta::assert_snapshot!(pre);
    // Without a pre-stage: the network is bwrap's, caches are empty private directories, nothing is covered in them.
    assert!(inner.contains("\n--unshare-net\n"));
    assert!(
        inner.contains("--bind /home/me/.local/state/ccbox/caches/xdg/plain /home/me/.cache\n")
    );
    assert!(!inner.contains("google-chrome"));
    assert!(!inner.contains("overlay at"));
}

#[test]
fn review_mode() {
    let mut p = dispatch();
    p.mode = Mode::Review;
    p.fs.binds.push(bind("/home/me/proj", false));
    p.fs.runner_state_dirs.push(fixture::entry("/home/me/st"));
    let fs = debian().dir("/home/me/st");
    insta::assert_snapshot!(argv(&p, &facts(), &fs, NetSetup::PreStage));
}

#[test]
fn terminal_profile() {
    insta::assert_snapshot!(argv(
        &terminal("/home/me"),
        &facts(),
        &debian(),
        NetSetup::Host
    ));
}

#[test]
fn linked_worktree() {
    let fs = debian()
        .file(
            "/home/me/wt/.git",
            "gitdir: /home/me/proj/.git/worktrees/wt\n",
        )
        .file("/home/me/proj/.git/worktrees/wt/commondir", "../..\n")
        .file(
            "/home/me/proj/.git/worktrees/wt/gitdir",
            "/home/me/wt/.git\n",
        );
    let mut host = facts();
    fixture::set_cwd(&mut host, "/home/me/wt");
    insta::assert_snapshot!(argv(&dev(), &host, &fs, NetSetup::Inner));
}

#[test]
fn home_and_cwd_reached_through_links() {
    let fs = debian()
        .link("/u", "/data/users")
        .dir("/data/users/me/real")
        .link("/data/users/me/work", "real")
        .file("/data/users/me/.prot", "KEEP");
    let mut host = facts();
    host.home = "/u/me".into();
    host.home_real = "/data/users/me".into();
    host.state_dir = "/u/me/.local/state/ccbox".into();
    host.config_dir = "/u/me/.config/ccbox".into();
    host.cwd = "/u/me/work".into();
    host.cwd_real = "/data/users/me/real".into();
    let mut p = dispatch();
    p.fs.binds.push(bind("/u/me/work", false));
    p.fs.protected.push(fixture::entry("/u/me/.prot"));
    insta::assert_snapshot!(argv(&p, &host, &fs, NetSetup::PreStage));
}

#[test]
fn nixos_layout() {
    let fs = FakeFs::new()
        .link("/bin/sh", "/nix/store/bash/bin/sh")
        .dir("/usr/bin")
        .link("/usr/bin/env", "/nix/store/coreutils/bin/env")
        .dir("/nix/store/bash/bin")
        .file("/nix/store/cacert/ca.crt", "PEM")
        .link(
            "/etc/ssl/certs/ca-certificates.crt",
            "/etc/static/ssl/certs/ca.crt",
        )
        .link("/etc/static", "/nix/store/etc")
        .link(
            "/nix/store/etc/ssl/certs/ca.crt",
            "/nix/store/cacert/ca.crt",
        )
        .file(
            "/etc/passwd",
            "me:x:1000:1000::/home/me:/run/current-system/sw/bin/bash\n",
        )
        .file("/etc/group", "users:x:100:\n")
        .file("/etc/resolv.conf", "nameserver 192.0.2.1\n")
        .link("/run/current-system", "/nix/store/system")
        .dir("/nix/store/system/sw/bin")
        .link("/run/booted-system", "/nix/store/system")
        .dir("/sys")
        .dir("/dev")
        .dir("/proc")
        .dir("/tmp")
        .dir("/var/tmp")
        .dir("/home/me/proj")
        .file("/nix/store/ccbox/bin/ccbox", "");
    let mut host = facts();
    host.exe = "/nix/store/ccbox/bin/ccbox".into();
    let mut p = dispatch();
    p.fs.binds.push(bind("/home/me/proj", true));
    insta::assert_snapshot!(argv(&p, &host, &fs, NetSetup::PreStage));
}

#[test]
fn odd_names_pass_as_bytes() {
    use std::os::unix::ffi::OsStrExt;
    let odd = Path::new("/home/me").join(std::ffi::OsStr::from_bytes(b"w s \xff'\"\n-x"));
    let inner = odd.join("-rf");
    let fs = debian().dir(&odd).file(&inner, "K");
    let mut p = dispatch();
    let mut b = bind("/", false);
    b.value.host_path.clone_from(&odd);
    p.fs.binds.push(b);
    let mut e = fixture::entry("/");
    e.value = crate::policy::path::PathEntry::Exact(inner.clone());
    p.fs.protected.push(e);
    let mut host = facts();
    host.cwd.clone_from(&odd);
    host.cwd_real.clone_from(&odd);
    let got = render(
        &planned(&p, &host, &fs),
        &host,
        Path::new("/usr/bin/bwrap"),
        NetSetup::Inner,
    );
    let text = |p: &Path| EngineArg::Text(p.into());
    let has = |option: &str, p: &Path| {
        got.args
            .windows(3)
            .any(|w| w == [EngineArg::Text(option.into()), text(p), text(p)])
    };
    assert!(has("--bind", &odd));
    assert!(has("--ro-bind", &inner));
    assert_eq!(got.inner.cwd, odd);
}

#[test]
fn other_guest_path() {
    let mut p = dispatch();
    p.fs.binds.push(bind_at("/home/me/proj", "/srv/app", false));
    p.fs.deny_read.push(fixture::entry("/home/me/proj/main.c"));
    p.workdir = Some(crate::policy::Ruled {
        value: "/srv/app".into(),
        origin: fixture::origin(3),
    });
    insta::assert_snapshot!(argv(&p, &facts(), &debian(), NetSetup::PreStage));
}

#[test]
fn disabled_file_rules() {
    let mut p = dispatch();
    p.fs.disabled = true;
    let got = argv(&p, &facts(), &debian(), NetSetup::PreStage);
    assert!(
        got.contains("--dev-bind /dev /\n--proc /proc\n-- "),
        "{got}"
    );
    assert!(
        got.contains(r#"guest Bind { src: "/", dst: "/" } true"#),
        "{got}"
    );
}

#[test]
fn none_keeps_the_callers_places() {
    let plan = planned(&dev(), &facts(), &debian());
    let got = crate::backend::none::render(&plan);
    assert_eq!(got.engine, Engine::None);
    assert!(got.args.is_empty() && !got.inner.confine);
    let has =
        |env: &[(std::ffi::OsString, std::ffi::OsString)], k: &str| env.iter().any(|(n, _)| n == k);
    assert!(!has(&got.inner.env, "TMPDIR") && !has(&got.inner.env, "LD_PRELOAD"));
    assert!(has(&plan.env, "TMPDIR"));
}
