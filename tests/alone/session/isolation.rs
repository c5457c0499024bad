//! What the command gets of the world around it: descriptors, capabilities, network, the machinery itself (PR-9, EN-2,
//! CO-1).

use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::Case;
use crate::support::{BOXES, Dir, WAYS, boxed, script, stderr, stdout};

pub(crate) const CASES: &[Case] = &[
    ("no descriptor of the caller passes", descriptors),
    ("kept descriptors pass under their number", kept),
    ("a job server and named pipes pass", pipes),
    ("activation sockets pass with the right pid", activation),
    (
        "a directory as a standard stream is refused",
        standard_directory,
    ),
    (
        "no capabilities, no new privileges, own network",
        privileges,
    ),
    ("pid 1 shows nothing", first_process),
    ("core files are off", core_files),
    (
        "listeners of the child's network are served outside",
        listeners,
    ),
];

fn descriptors() {
    let dir = Dir::new();
    std::fs::create_dir(dir.0.join("h")).unwrap();
    std::fs::write(dir.0.join("h/s"), "SECRET").unwrap();
    let me = crate::support::exe();
    for way in WAYS {
        let line = format!(
            "exec 7<h 8>>out 9<h/s 200<h; exec {} box {} -- bash -c 'cat <&9; echo leak >&8; ls /proc/self/fd; ls -l /proc/$PPID/fd /proc/1/fd 2>/dev/null'",
            me.display(),
            way.join(" ")
        );
        let out = Command::new("bash")
            .arg("-c")
            .arg(line)
            .current_dir(&dir.0)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = stdout(&out);
        assert!(!text.contains("SECRET"), "{way:?} {text}");
        assert!(text.starts_with("0\n1\n2\n3\n"), "{way:?} {text}");
        assert_eq!(
            std::fs::read_to_string(dir.0.join("out")).unwrap(),
            "",
            "{way:?}"
        );
        assert_eq!(
            text.lines().filter(|l| l.parse::<u32>().is_ok()).count(),
            4,
            "{way:?} {text}"
        );
    }
}

fn kept() {
    let dir = Dir::new();
    let me = crate::support::exe();
    for way in WAYS {
        let line = format!(
            "exec 9>kept; exec {} box {} --keep-fd 9 -- bash -c 'echo through >&9; ls /proc/self/fd'",
            me.display(),
            way.join(" ")
        );
        let out = Command::new("bash")
            .arg("-c")
            .arg(line)
            .current_dir(&dir.0)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(stdout(&out), "0\n1\n2\n3\n9\n", "{way:?} {}", stderr(&out));
        assert_eq!(
            std::fs::read_to_string(dir.0.join("kept")).unwrap(),
            "through\n"
        );
        let refused = format!(
            "exec 9</; exec {} box {} --keep-fd 9 -- true",
            me.display(),
            way.join(" ")
        );
        let out = Command::new("bash")
            .arg("-c")
            .arg(refused)
            .current_dir(&dir.0)
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(125));
        assert!(stderr(&out).contains("directory"), "{}", stderr(&out));
    }
}

fn pipes() {
    let dir = Dir::new();
    let me = crate::support::exe();
    std::fs::write(
        dir.0.join("Makefile"),
        "all: a b c d\na b c d:\n\t+@$(BOX) make -s -f inner.mk X=$@\n",
    )
    .unwrap();
    std::fs::write(dir.0.join("inner.mk"), "all: p q\np q:\n\t@echo $(X)-$@\n").unwrap();
    for way in WAYS {
        let run = format!("{} box {} --", me.display(), way.join(" "));
        let out = Command::new("bash")
            .arg("-c")
            .arg(format!("exec {run} diff <(echo a) <(echo a)"))
            .current_dir(&dir.0)
            .output()
            .unwrap();
        assert_eq!(
            out.status.code(),
            Some(0),
            "{way:?} {}{}",
            stdout(&out),
            stderr(&out)
        );
        let out = Command::new("make")
            .args(["-s", "-j3", &format!("BOX={run}")])
            .current_dir(&dir.0)
            .output()
            .unwrap();
        assert_eq!(stdout(&out).lines().count(), 8, "{way:?} {}", stderr(&out));
        assert!(
            !stderr(&out).contains("jobserver"),
            "{way:?} {}",
            stderr(&out)
        );
    }
}

fn activation() {
    let dir = Dir::new();
    let me = crate::support::exe();
    let path = dir.0.join("service.sock");
    let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
    for way in WAYS {
        let fd = listener.as_raw_fd();
        let take = if fd == 3 {
            String::new()
        } else {
            format!("exec 3<&{fd} {fd}<&-; ")
        };
        // Bash has no way to open a listening socket, so it takes ours through /proc.
        let line = format!(
            "export LISTEN_FDS=1 LISTEN_PID=$$; exec {} box {} -- bash -c 'echo $LISTEN_PID $$ $LISTEN_FDS; readlink /proc/self/fd/3'",
            me.display(),
            way.join(" ")
        );
        let mut c = Command::new("bash");
        c.arg("-c").arg(format!("{take}{line}")).current_dir(&dir.0);
        nix::fcntl::fcntl(
            &listener,
            nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()),
        )
        .unwrap();
        let out = c.output().unwrap();
        let text = stdout(&out);
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(words.len(), 4, "{way:?} {text}{}", stderr(&out));
        assert_eq!((words[0], words[2]), (words[1], "1"), "{way:?}");
        assert!(words[3].starts_with("socket:"), "{way:?} {text}");
    }
}

fn standard_directory() {
    let dir = Dir::new();
    for way in WAYS {
        let mut c = boxed(&dir.0, way, &["echo", "STARTED"]);
        c.stdin(std::fs::File::open("/").unwrap());
        let out = c.output().unwrap();
        assert_eq!(
            (out.status.code(), stdout(&out).as_str()),
            (Some(125), ""),
            "{way:?}"
        );
        assert!(stderr(&out).contains("standard input is a directory"));
    }
}

fn privileges() {
    let dir = Dir::new();
    for way in BOXES {
        let out = script(
            &dir.0,
            way,
            "grep -E '^(Cap...|NoNewPrivs|Uid|Gid):' /proc/self/status; id -u; cat /proc/net/dev | grep -c :; \
             unshare -U true 2>/dev/null && echo NESTED; touch /etc/x 2>/dev/null && echo WROTE; exit 0",
        )
        .output()
        .unwrap();
        let text = stdout(&out);
        let uid = nix::unistd::getuid();
        for line in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert!(
                text.contains(&format!("{line}:\t0000000000000000")),
                "{way:?} {text}"
            );
        }
        assert!(text.contains("NoNewPrivs:\t1"), "{text}");
        assert!(
            text.contains(&format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}")),
            "{text}"
        );
        assert!(
            !text.contains("NESTED") && !text.contains("WROTE"),
            "{way:?} {text}"
        );
        if way != ["--host"] {
            assert!(text.ends_with(&format!("{uid}\n1\n")), "{way:?} {text}");
        }
    }
}

fn first_process() {
    let dir = Dir::new();
    for way in BOXES {
        let mut c = script(
            &dir.0,
            way,
            "cat /proc/1/environ /proc/1/maps /proc/1/stack; readlink /proc/1/exe /proc/1/root /proc/1/fd/0 /proc/1/fd/3 /proc/1/fd/5; \
             cat /proc/1/cmdline | tr '\\0' ' '; ls -d /proc/[0-9]* | wc -l; kill -9 1; kill -TERM 1; cat /proc/[0-9]*/environ | grep -c TOPSECRET",
        );
        let out = c
            .env_remove("TOKEN")
            .stderr(Stdio::null())
            .output()
            .unwrap();
        let text = stdout(&out);
        // Its command line, the number of processes (pid 1, the shell, ls, wc), no secret.
        assert_eq!(text.lines().count(), 2, "{way:?} {text}");
        if way.contains(&"--builtin") {
            let words: Vec<&str> = text.split_whitespace().collect();
            assert!(matches!(words[..], ["ccbox", _, _]), "{way:?} {text}");
        } else {
            assert!(text.starts_with("/proc/self/fd/"), "{way:?} {text}");
            assert!(
                text.contains(" __inner ") && text.len() < 60,
                "{way:?} {text}"
            );
        }
        assert!(text.trim_end().ends_with('0'), "{way:?} {text}");
    }
}

fn core_files() {
    let dir = Dir::new();
    for way in WAYS {
        let mut c = script(&dir.0, way, "ulimit -Hc; ulimit -Sc");
        c.arg0("ccbox");
        let out = c.output().unwrap();
        assert_eq!(stdout(&out), "0\n0\n", "{way:?}");
    }
}

fn listeners() {
    let dir = Dir::new();
    for way in [&[][..], &["--inner"]] {
        for host in ["127.0.0.1", "::1"] {
            let mut c = script(
                &dir.0,
                &[way, &["--serve"]].concat(),
                &format!("cat < /dev/tcp/{host}/3128"),
            );
            let out = c.output().unwrap();
            assert_eq!(stdout(&out), "served\n", "{way:?} {host} {}", stderr(&out));
        }
        // The child's own servers work, privileged ports are nobody's.
        let out = script(
            &dir.0,
            way,
            "exec 3<>/dev/tcp/127.0.0.1/3129 || echo refused",
        )
        .output()
        .unwrap();
        assert_eq!(stdout(&out), "refused\n", "{way:?}");
    }
}
