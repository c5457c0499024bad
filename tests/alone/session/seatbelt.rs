//! Runs whose sandbox another program makes, with a stand-in for `sandbox-exec`: it notes what it was asked, and can refuse.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use ccbox::session::seatbelt::log::Denial;
use ccbox::session::seatbelt::{self, Job, Outfit, Tools, Witness};

use crate::Case;
use crate::boxed;
use crate::support::{
    Dir, boxed as run_boxed, eventually, kill, nothing_left, script, spawn_group, stderr, stdout,
};

pub(crate) const CASES: &[Case] = &[
    (
        "sandbox-exec gets the profile and the command",
        command_line,
    ),
    ("a refused profile is ccbox's own failure", refused),
    (
        "the proxies listen on both loopbacks before the command",
        proxies,
    ),
    ("ccbox killed ends the command and its helpers", killed),
    ("the command's denials are told", denials),
    (
        "nothing of ccbox's own descriptors reaches the command",
        descriptors,
    ),
];

/// As `/usr/bin/sandbox-exec -p PROFILE -- COMMAND…`, with its exit codes and words.
const STAND_IN: &str = r#"#!/bin/sh
here=$(dirname "$0")
[ "$1" = -f ] && [ -f "$2" ] && cat "$2" >"$here/profile" || printf '%s' "$2" >"$here/profile"
printf '%s\n' "$1" "$3" "$5" >"$here/asked"
case $(cat "$here/profile") in
*reject*) echo 'sandbox-exec: <input string>:2:1: unbound variable: reject' >&2; exit 65 ;;
*nested*) echo 'sandbox-exec: sandbox_apply: Operation not permitted' >&2; exit 71 ;;
*silent*) exit 1 ;;
*missing*) exit 0 ;;
esac
shift 3
exec "$@"
"#;

/// As `/usr/bin/log`.
const LOG: &str = r#"#!/bin/sh
here=$(dirname "$0")
tag=$(printf '%s' "$*" | sed -n 's/.*\(ccbox-[0-9a-f]*\).*/\1/p')
echo $$ >"$here/log.pid"
echo 'Filtering the log data using "x"'
printf '{"processID":0,"senderImagePath":"/x/Sandbox","eventMessage":"Sandbox: cat(7) deny(1) file-read-data /secret\\n%s"}\n' "$tag"
exec sleep 4300
"#;

fn write(path: &Path, text: &str) -> PathBuf {
    let new = path.with_extension(std::process::id().to_string());
    std::fs::write(&new, text).unwrap();
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
    // Whole at any time, for runs beside this one.
    std::fs::rename(&new, path).unwrap();
    path.to_owned()
}

struct Say;

impl Witness for Say {
    fn denied(&self, denial: Denial) {
        eprintln!("denied: {} {}", denial.action, denial.target);
    }
    fn blind(&self, why: &str) {
        eprintln!("blind: {why}");
    }
}

/// `box --seatbelt`: the run itself.
pub(crate) fn main(
    profile: &str,
    with_log: bool,
    serve: bool,
    cwd: PathBuf,
    keep_fds: Vec<i32>,
    command: Vec<OsString>,
) -> ExitCode {
    let here = std::env::temp_dir().join(format!("seatbelt-{}", std::process::id()));
    std::fs::create_dir_all(&here).unwrap();
    let tools = Tools {
        sandbox_exec: write(&here.join("sandbox-exec"), STAND_IN),
        log: if with_log {
            write(&here.join("log"), LOG)
        } else {
            here.join("no-log")
        },
    };
    let profile = profile.to_owned();
    let result = seatbelt::run(Job {
        tools,
        exe: std::env::current_exe().unwrap(),
        argv: command,
        cwd,
        keep_fds,
        proxies: serve,
        state_dir: here.clone(),
        scratch: None,
        equip: Box::new(move |listeners, secrets| {
            let mut env: Vec<(OsString, OsString)> = std::env::vars_os().collect();
            if let Some(first) = listeners.first() {
                let port = first.local_addr().unwrap().port();
                env.push(("PROXY_PORT".into(), port.to_string().into()));
            }
            for listener in listeners {
                std::thread::spawn(move || {
                    while let Ok((mut peer, _)) = listener.accept() {
                        let _ = peer.write_all(b"served\n");
                    }
                });
            }
            Ok(Outfit {
                profile: Some(format!("(version 1) ; {} {profile}", secrets.tag)),
                env,
                served: Box::new(()),
            })
        }),
        witness: with_log.then(|| Arc::new(Say) as Arc<dyn Witness>),
        on_ready: Box::new(|| ()),
    });
    let keep = std::env::var_os("KEEP_STAND_IN").is_some();
    if keep {
        for name in ["asked", "profile", "log.pid"] {
            let _ = std::fs::copy(here.join(name), format!("{name}.seen"));
        }
    }
    let _ = std::fs::remove_dir_all(&here);
    boxed::end(result.map_err(Into::into))
}

fn command_line() {
    let dir = Dir::new();
    let exe = crate::support::exe();
    let out = run_boxed(
        &dir.0,
        &["--seatbelt"],
        &["sh", "-c", "echo $0 \"$@\"", "-x", "a b", "--"],
    )
    .env("KEEP_STAND_IN", "1")
    .output()
    .unwrap();
    assert_eq!(stdout(&out), "-x a b --\n", "{}", stderr(&out));
    assert_eq!(stderr(&out), "");
    let seen = |name: &str| std::fs::read_to_string(dir.0.join(format!("{name}.seen"))).unwrap();
    assert_eq!(seen("asked"), format!("-p\n--\n{}\n", "__stage"));
    assert!(seen("profile").starts_with("(version 1) ; ccbox-"));
    assert!(exe.is_absolute());
    // Longer than what fits on a command line.
    let long = format!("--seatbelt-profile={}", "x".repeat(100_000));
    let out = run_boxed(&dir.0, &["--seatbelt", &long, "--longer"], &["echo", "ran"])
        .env("KEEP_STAND_IN", "1")
        .output()
        .unwrap();
    assert_eq!(
        (stdout(&out).as_str(), stderr(&out).as_str()),
        ("ran\n", "")
    );
    assert!(seen("asked").starts_with("-f\n"));
    assert!(seen("profile").len() > 300_000);
}

fn refused() {
    let dir = Dir::new();
    for (profile, words) in [
        (
            "reject",
            "ccbox: error: macOS rejects the profile (sandbox-exec says: `<input string>:2:1: unbound variable: reject`)",
        ),
        (
            "nested",
            "ccbox: error: already inside a sandbox, and macOS applies no second one (sandbox-exec says: `sandbox_apply: Operation not permitted`)",
        ),
        (
            "silent",
            "ccbox: error: sandbox-exec made no sandbox: it ended with 1 and said `nothing`",
        ),
        (
            "missing",
            "ccbox: error: sandbox-exec made no sandbox: it ended with 0 and said `nothing`",
        ),
    ] {
        let ran = dir.0.join("ran");
        let option = format!("--seatbelt-profile={profile}");
        let out = run_boxed(&dir.0, &["--seatbelt", &option], &["touch", "ran"])
            .output()
            .unwrap();
        assert!(stderr(&out).starts_with(words), "{}", stderr(&out));
        assert_eq!(
            (stderr(&out).lines().count(), out.status.code()),
            (1, Some(125))
        );
        assert!(!ran.exists());
    }
    // The command may end with the same codes and say the same.
    for code in [64, 65, 71] {
        let text =
            format!("echo 'sandbox-exec: sandbox_apply: Operation not permitted' >&2; exit {code}");
        let out = script(&dir.0, &["--seatbelt"], &text).output().unwrap();
        assert_eq!(out.status.code(), Some(code));
        assert_eq!(
            stderr(&out),
            "sandbox-exec: sandbox_apply: Operation not permitted\n"
        );
    }
}

fn proxies() {
    let dir = Dir::new();
    let ask = "exec 3<>/dev/tcp/127.0.0.1/$PROXY_PORT; cat <&3; exec 3<>/dev/tcp/::1/$PROXY_PORT; cat <&3";
    let out = script(
        &dir.0,
        &["--seatbelt", "--serve"],
        &format!("timeout 5 bash -c '{ask}'"),
    )
    .output()
    .unwrap();
    let answer = stdout(&out);
    assert!(answer.starts_with("served\n"), "{answer} {}", stderr(&out));
}

fn killed() {
    let dir = Dir::new();
    let mut run = spawn_group(script(
        &dir.0,
        &["--seatbelt", "--log"],
        "setsid sleep 4301 & > ready; sleep 4301",
    ));
    eventually("ready", || dir.0.join("ready").exists());
    let here = std::env::temp_dir().join(format!("seatbelt-{}", run.id()));
    let mut log = String::new();
    eventually("the log is read", || {
        log = std::fs::read_to_string(here.join("log.pid")).unwrap_or_default();
        log.ends_with('\n')
    });
    let reads = || {
        let line = std::fs::read(format!("/proc/{}/cmdline", log.trim())).unwrap_or_default();
        line.starts_with(b"sleep\x004300")
    };
    eventually("the log is read", reads);
    kill(run.id(), libc::SIGKILL);
    run.wait().unwrap();
    nothing_left(run.id(), "sleep 4301");
    eventually("the log is read no more", || !reads());
    std::fs::remove_dir_all(here).unwrap();
}

fn denials() {
    let dir = Dir::new();
    let out = script(&dir.0, &["--seatbelt", "--log"], "echo out; exit 3")
        .output()
        .unwrap();
    assert_eq!(
        (stdout(&out).as_str(), out.status.code()),
        ("out\n", Some(3))
    );
    assert_eq!(stderr(&out), "denied: file-read-data /secret\n");
}

fn descriptors() {
    let dir = Dir::new();
    let out = script(
        &dir.0,
        &["--seatbelt", "--log", "--serve"],
        "ls /proc/self/fd",
    )
    .output()
    .unwrap();
    // The fourth is ls's own.
    assert_eq!(stdout(&out), "0\n1\n2\n3\n");
    let mut kept = String::new();
    let (reader, writer) = std::io::pipe().unwrap();
    let number = writer.as_raw_fd();
    nix::fcntl::fcntl(
        &writer,
        nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()),
    )
    .unwrap();
    let keep = number.to_string();
    let text = format!("echo kept >&{keep}");
    let status = script(&dir.0, &["--seatbelt", "--keep-fd", &keep], &text)
        .status()
        .unwrap();
    assert!(status.success());
    drop(writer);
    (&reader).read_to_string(&mut kept).unwrap();
    assert_eq!(kept, "kept\n");
}
