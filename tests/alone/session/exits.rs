//! How a run ends, as its caller sees it: codes, deaths by signal, own failures (PR-1, PR-2, R61).

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Stdio;

use crate::Case;
use crate::support::{BOXES, Dir, EVERY, boxed, script, stderr, stdout};

pub(crate) const CASES: &[Case] = &[
    ("exit codes are the command's", codes),
    ("death by signal is relayed as death", deaths),
    ("real-time signals too", real_time_death),
    ("not found and not executable differ", not_started),
    ("set-up failures are ours and say why", own_failures),
    ("arguments and environment arrive byte for byte", bytes),
    ("scripts without #! run as execvp runs them", plain_script),
    ("standard streams are the caller's", streams),
    ("standard input may be closed", closed_stdin),
    ("generated files are there", generated),
    ("nothing is printed on a clean run", silent),
];

fn codes() {
    let dir = Dir::new();
    for way in EVERY {
        for code in [0, 1, 42, 125, 126, 127, 137, 255] {
            let status = script(&dir.0, way, &format!("exit {code}"))
                .status()
                .unwrap();
            assert_eq!(status.code(), Some(code), "{way:?}");
        }
    }
}

fn deaths() {
    let dir = Dir::new();
    for way in EVERY {
        for n in [1, 2, 3, 6, 9, 11, 13, 14, 15] {
            let mut run = boxed(&dir.0, way, &["sh", "-c", &format!("kill -{n} $$")]);
            let status = run.stderr(Stdio::null()).status().unwrap();
            assert_eq!(status.signal(), Some(n), "{way:?} {n}");
            assert!(!status.core_dumped());
        }
    }
}

fn real_time_death() {
    let dir = Dir::new();
    for way in EVERY {
        let status = script(&dir.0, way, "kill -40 $$").status().unwrap();
        assert_eq!(status.signal(), Some(40), "{way:?}");
    }
}

fn not_started() {
    let dir = Dir::new();
    for way in EVERY {
        for (command, code) in [
            ("/nonexistent", 127),
            ("no-such-command-xyz", 127),
            ("/etc/passwd/x", 126),
            ("/etc/passwd", 126),
            ("/etc", 126),
            ("", 127),
        ] {
            let out = boxed(&dir.0, way, &[command]).output().unwrap();
            assert_eq!(
                out.status.code(),
                Some(code),
                "{way:?} {command} {}",
                stderr(&out)
            );
            assert_eq!(stderr(&out).lines().count(), 1);
        }
    }
}

fn own_failures() {
    let dir = Dir::new();
    // The broker's tree is that directory, and missed first.
    for way in EVERY.into_iter().filter(|way| !way.contains(&"--broker")) {
        let out = boxed(
            &dir.0,
            &[way, &["--cwd", "/no/such/dir"]].concat(),
            &["true"],
        )
        .output()
        .unwrap();
        assert_eq!(out.status.code(), Some(125), "{way:?}");
        assert!(
            stderr(&out).contains("working directory `/no/such/dir`"),
            "{}",
            stderr(&out)
        );
        let out = boxed(&dir.0, &[way, &["--keep-fd", "77"]].concat(), &["true"])
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(125));
        assert!(stderr(&out).contains("--keep-fd 77"), "{}", stderr(&out));
    }
    for way in BOXES {
        let out = boxed(
            &dir.0,
            &[way, &["--pin", "/etc"]].concat(),
            &["echo", "STARTED"],
        )
        .output()
        .unwrap();
        assert_eq!(out.status.code(), Some(125), "{way:?}");
        assert!(
            stderr(&out).contains("`/etc` was replaced"),
            "{}",
            stderr(&out)
        );
        assert_eq!(stdout(&out), "");

        if way.contains(&"--builtin") {
            continue;
        }
        let out = boxed(
            &dir.0,
            &[way, &["--bwrap", "/no/bwrap"]].concat(),
            &["true"],
        )
        .output()
        .unwrap();
        assert_eq!(out.status.code(), Some(125));
        let said = stderr(&out);
        assert!(
            said.contains("not installed at `/no/bwrap`") && said.contains("package `bubblewrap`"),
            "{said}"
        );

        let missing = [
            way,
            &[
                "--arg",
                "--ro-bind",
                "--arg",
                "/no/such/source",
                "--arg",
                "/x",
            ],
        ]
        .concat();
        let out = boxed(&dir.0, &missing, &["echo", "STARTED"])
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(125));
        assert!(stderr(&out).contains("/no/such/source"), "{}", stderr(&out));
        assert_eq!(stderr(&out).lines().count(), 1, "{}", stderr(&out));
        assert_eq!(stdout(&out), "");
    }
}

fn bytes() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let dir = Dir::new();
    for way in EVERY {
        let odd: [&[u8]; 7] = [b"a b", b"", b"$HOME", b"*", b"new\nline", b"--", b"\xff\""];
        let mut run = boxed(&dir.0, way, &["printf", "[%s]"]);
        run.args(odd.iter().map(|b| OsStr::from_bytes(b)));
        let out = run.output().unwrap();
        let expected: Vec<u8> = odd.iter().flat_map(|b| [b"[", *b, b"]"].concat()).collect();
        assert_eq!(out.stdout, expected);

        let mut run = boxed(&dir.0, way, &["sh", "-c", "printf %s \"$ODD\""]);
        let out = run
            .env("ODD", OsStr::from_bytes(b"\xfe=\n x"))
            .output()
            .unwrap();
        assert_eq!(out.stdout, b"\xfe=\n x");
    }
    let odd_dir = dir.0.join(OsStr::from_bytes(b"\xff \n"));
    std::fs::create_dir(&odd_dir).unwrap();
    let out = boxed(&odd_dir, &[], &["/bin/pwd"]).output().unwrap();
    assert_eq!(out.stdout, [odd_dir.as_os_str().as_bytes(), b"\n"].concat());
}

fn plain_script() {
    use std::os::unix::fs::PermissionsExt;
    let dir = Dir::new();
    let path = dir.0.join("plain");
    std::fs::write(&path, "echo plain $1").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    for way in EVERY {
        let out = boxed(&dir.0, way, &["./plain", "x"]).output().unwrap();
        assert_eq!(stdout(&out), "plain x\n", "{way:?} {}", stderr(&out));
    }
}

fn streams() {
    let dir = Dir::new();
    for way in EVERY {
        let mut run = script(&dir.0, way, "cat; echo e >&2");
        let mut child = run
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        {
            use std::io::Write;
            child.stdin.take().unwrap().write_all(b"hi").unwrap();
        }
        let out = child.wait_with_output().unwrap();
        assert_eq!(
            (stdout(&out).as_str(), stderr(&out).as_str()),
            ("hi", "e\n"),
            "{way:?}"
        );
        // SIGPIPE is not ignored inside.
        let me = crate::support::exe();
        let line = format!(
            "{} box {} -- yes | head -1; echo ${{PIPESTATUS[0]}}",
            me.display(),
            way.join(" ")
        );
        let out = std::process::Command::new("bash")
            .arg("-c")
            .arg(line)
            .current_dir(&dir.0)
            .output()
            .unwrap();
        assert_eq!(stdout(&out), "y\n141\n", "{way:?} {}", stderr(&out));
    }
}

fn closed_stdin() {
    let dir = Dir::new();
    let me = crate::support::exe();
    for way in EVERY {
        let line = format!(
            "exec {} box {} -- sh -c 'exec 0<&-; echo noin' <&-",
            me.display(),
            way.join(" ")
        );
        let out = std::process::Command::new("bash")
            .arg("-c")
            .arg(line)
            .current_dir(&dir.0)
            .output()
            .unwrap();
        assert_eq!(stdout(&out), "noin\n", "{way:?} {}", stderr(&out));
    }
}

fn generated() {
    let dir = Dir::new();
    for way in BOXES {
        let out = boxed(&dir.0, way, &["cat", "/tmp/generated"])
            .output()
            .unwrap();
        assert_eq!(stdout(&out), "generated\n", "{way:?} {}", stderr(&out));
    }
}

fn silent() {
    let dir = Dir::new();
    for way in EVERY {
        let mut run = boxed(&dir.0, way, &["true"]);
        run.arg0("ccbox");
        let out = run.output().unwrap();
        assert_eq!(
            (out.stdout.len(), stderr(&out)),
            (0, String::new()),
            "{way:?}"
        );
    }
}
