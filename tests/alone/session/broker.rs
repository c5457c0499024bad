//! The hand-over to the broker: floor and filter inside, listener and supervisor outside, and that nothing survives either.

use std::process::Stdio;

use ccbox::session::harden::install_broker_filter;
use ccbox::sys::bpf::Assembler;

use crate::Case;
use crate::lifetime::{moment, storm_of};
use crate::support::{
    Dir, boxed, eventually, kill, kill_group, nothing_left, rounds, script, spawn_group, stderr,
    stdout, survivors,
};

pub(crate) const CASES: &[Case] = &[
    ("the command runs under the broker", runs),
    ("what is denied fails and leaves nothing", denied),
    ("the floor is under every process of the run", every_process),
    ("a grant above a covered tree is refused", above),
    ("another name of what lies above is refused", alias),
    ("an exempt mount in a covered tree is free", exempt),
    ("a supervised process starts no supervised run", nested),
    ("pid 1 never traps", first_process),
    (
        "the end of the supervisor is the end of the run",
        unanswered,
    ),
    ("signals and exit codes are the same", ends),
    (
        "SIGKILL of ccbox leaves nothing of a supervised run",
        killed,
    ),
    (
        "SIGKILL of everything between leaves nothing",
        killed_between,
    ),
    (
        "SIGKILL while calls are answered leaves nothing",
        killed_busy,
    ),
    ("SIGKILL of the group leaves nothing", killed_group),
];

/// The ways a supervised run is started.
pub(crate) const WAYS: [&[&str]; 3] = [
    &["--broker"],
    &["--inner", "--broker"],
    &["--host", "--broker"],
];

fn runs() {
    let dir = Dir::new();
    for way in WAYS {
        let options: Vec<&str> = way.iter().copied().chain(["--announce"]).collect();
        let text = "cat /proc/self/status | grep Seccomp:; echo x > /dev/null && ls -d . && exit 7";
        let out = script(&dir.0, &options, text).output().unwrap();
        assert_eq!(stdout(&out), "Seccomp:\t2\n.\n", "{way:?} {}", stderr(&out));
        assert_eq!(out.status.code(), Some(7), "{way:?}");
        let said = stderr(&out);
        assert!(said.contains("uninterrupted: true"), "{way:?} {said}");
        // Control: without write rules nobody answers.
        let options: Vec<&str> = options.into_iter().filter(|o| *o != "--broker").collect();
        let out = script(&dir.0, &options, text).output().unwrap();
        assert!(stderr(&out).contains("broker: None"), "{}", stderr(&out));
    }
}

fn denied() {
    let dir = Dir::new();
    for way in WAYS {
        for attack in [
            "echo x > closed",
            "mkdir closed",
            "ln -s /etc/passwd closed",
            "mkfifo closed",
            "cp /etc/passwd closed",
            "python3 -c 'import os; os.mknod(\"closed\")'",
        ] {
            let out = script(&dir.0, way, attack).output().unwrap();
            assert!(!out.status.success(), "{way:?} {attack}");
            assert!(
                stderr(&out).contains("Permission denied"),
                "{way:?} {attack} {}",
                stderr(&out)
            );
            assert!(!dir.0.join("closed").exists(), "{way:?} {attack}");
            // Control: without the broker it works.
            let plain: Vec<&str> = way.iter().copied().filter(|o| *o != "--broker").collect();
            let out = script(&dir.0, &plain, attack).output().unwrap();
            assert!(out.status.success(), "{way:?} {attack}");
            let made = dir.0.join("closed");
            if made.is_dir() {
                std::fs::remove_dir(made).unwrap();
            } else {
                std::fs::remove_file(made).unwrap();
            }
        }
    }
}

fn every_process() {
    let dir = Dir::new();
    for text in [
        "(setsid sh -c 'echo x > closed'); [ ! -e closed ]",
        "python3 -c 'import threading; t = threading.Thread(target=lambda: open(\"closed\", \"w\")); t.start(); t.join()'; [ ! -e closed ]",
        "perl -e 'exit 0 if !open(F, \">\", \"closed\"); exit 1'",
        "sh -c 'exec sh -c \"exec 3> closed\"'; [ ! -e closed ]",
    ] {
        let out = script(&dir.0, &["--broker"], text).output().unwrap();
        assert!(out.status.success(), "{text} {}", stderr(&out));
        assert!(!dir.0.join("closed").exists());
    }
}

fn above() {
    let dir = Dir::new();
    for way in WAYS {
        for exempt in ["/tmp", "/"] {
            let options: Vec<&str> = way.iter().copied().chain(["--exempt", exempt]).collect();
            let out = boxed(&dir.0, &options, &["echo", "STARTED"])
                .output()
                .unwrap();
            assert_eq!(out.status.code(), Some(125), "{way:?}");
            assert_eq!(stdout(&out), "");
            assert!(
                stderr(&out).contains("cannot be writable without rules"),
                "{}",
                stderr(&out)
            );
        }
    }
}

/// The covered tree's parent, bound at another path: its inode carries the grant wherever it is seen.
fn alias() {
    let dir = Dir::new();
    let inner = dir.0.join("ws");
    std::fs::create_dir(&inner).unwrap();
    let parent = dir.0.to_str().unwrap();
    // The engine mounts it below the private /tmp; the working directory lies in the same host directory.
    let mount = ["--arg", "--bind", "--arg", parent, "--arg", "/tmp/alias"];
    let covered = ["--arg", "--bind", "--arg", parent, "--arg", parent];
    let way = |exempt: &'static str| -> Vec<&str> {
        ["--broker"]
            .into_iter()
            .chain(covered)
            .chain(mount)
            .chain(["--exempt", exempt])
            .collect()
    };
    let out = boxed(&inner, &way("/tmp/alias"), &["echo", "STARTED"])
        .output()
        .unwrap();
    assert_eq!((out.status.code(), stdout(&out).as_str()), (Some(125), ""));
    assert!(
        stderr(&out).contains("cannot be writable without rules"),
        "{}",
        stderr(&out)
    );
    // Control: without that grant it runs.
    let out = boxed(&inner, &way("/tmp/none"), &["echo", "STARTED"])
        .output()
        .unwrap();
    assert_eq!(stdout(&out), "STARTED\n", "{}", stderr(&out));
}

fn exempt() {
    let dir = Dir::new();
    let (ws, cache) = (dir.0.join("ws"), dir.0.join("cache"));
    for path in [&ws, &cache, &ws.join("cache"), &ws.join("plain")] {
        std::fs::create_dir(path).unwrap();
    }
    let at = ws.join("cache");
    let options = [
        "--broker",
        "--arg",
        "--bind",
        "--arg",
        cache.to_str().unwrap(),
        "--arg",
        at.to_str().unwrap(),
        "--exempt",
        at.to_str().unwrap(),
    ];
    let text = "cd cache && mkdir a b && echo x > a/closed && mv a/closed b/ && ln b/closed l && rm l && cat b/closed";
    let out = script(&ws, &options, text).output().unwrap();
    assert_eq!(stdout(&out), "x\n", "{}", stderr(&out));
    assert!(cache.join("b/closed").exists());
    // Not a mount of its own: refused.
    let plain = ws.join("plain");
    let out = boxed(
        &ws,
        &["--broker", "--exempt", plain.to_str().unwrap()],
        &["echo", "STARTED"],
    )
    .output()
    .unwrap();
    assert_eq!((out.status.code(), stdout(&out).as_str()), (Some(125), ""));
    assert!(
        stderr(&out).contains("no mount of its own"),
        "{}",
        stderr(&out)
    );
}

/// One task has one listener. Under somebody else's the write rules cannot be held, and that is said; without write rules there
/// is nothing to refuse.
fn nested() {
    let dir = Dir::new();
    for (options, code) in [(&["--broker"][..], 125), (&[], 0)] {
        let command = |dir: &Dir| boxed(&dir.0, options, &["echo", "STARTED"]);
        assert!(command(&dir).output().unwrap().status.success(), "control");
        let mut command = command(&dir);
        let out = std::thread::spawn(move || {
            let mut asm = Assembler::new();
            let allow = asm.ret(0x7fff_0000); // SECCOMP_RET_ALLOW
            let _listener = install_broker_filter(&asm.finish(allow).unwrap()).unwrap();
            command.output().unwrap()
        })
        .join()
        .unwrap();
        assert_eq!(out.status.code(), Some(code), "{}", stderr(&out));
        if code == 125 {
            assert_eq!(stdout(&out), "");
            let said = stderr(&out);
            assert!(said.contains("already inside a sandbox"), "{said}");
        }
    }
}

fn first_process() {
    let dir = Dir::new();
    // Each process of its own chain: pid 1 has one filter, the command another one, and not both.
    let out = script(
        &dir.0,
        &["--broker"],
        "grep Seccomp_filters /proc/1/status /proc/self/status | tr -d '\\t'",
    )
    .output()
    .unwrap();
    assert_eq!(
        stdout(&out),
        "/proc/1/status:Seccomp_filters:1\n/proc/self/status:Seccomp_filters:1\n",
        "{}",
        stderr(&out)
    );
}

/// Its first refusal makes the supervisor panic; what traps from there on would wait for ever.
fn unanswered() {
    let dir = Dir::new();
    for way in WAYS {
        let options: Vec<&str> = way
            .iter()
            .map(|o| match *o {
                "--broker" => "--failing-broker",
                other => other,
            })
            .collect();
        let text = "mkdir open && echo made; mkdir closed; sleep 4107; echo SURVIVED";
        let mut c = script(&dir.0, &options, text);
        c.stdout(Stdio::piped()).stderr(Stdio::piped());
        let run = spawn_group(c);
        let id = run.id();
        let out = run.wait_with_output().unwrap();
        assert_eq!(stdout(&out), "made\n", "{way:?}");
        assert_eq!(out.status.code(), Some(125), "{way:?}");
        let said = stderr(&out);
        assert!(
            said.contains("the supervisor of the write rules ended"),
            "{said}"
        );
        nothing_left(id, "sleep 4107");
        std::fs::remove_dir(dir.0.join("open")).unwrap();
    }
}

fn ends() {
    let dir = Dir::new();
    for way in WAYS {
        for (text, code) in [
            ("exit 0", 0),
            ("exit 125", 125),
            ("kill -9 $$", 137),
            ("kill -TERM $$", 143),
            ("trap 'exit 9' TERM; kill -TERM $$; sleep 5", 9),
        ] {
            let status = script(&dir.0, way, text).status().unwrap();
            assert_eq!(crate::support::shell_code(status), code, "{way:?} {text}");
        }
        let out = boxed(&dir.0, way, &["/no/such/program"]).output().unwrap();
        assert_eq!(out.status.code(), Some(127), "{way:?}");
        let out = boxed(&dir.0, way, &["/etc/passwd"]).output().unwrap();
        assert_eq!(out.status.code(), Some(126), "{way:?}");
        // A signal that arrives while the command's process is being prepared is the command's.
        for round in 0..rounds(12) {
            let mut run = spawn_group(boxed(&dir.0, way, &["sleep", "4105"]));
            std::thread::sleep(moment(round));
            kill(run.id(), libc::SIGTERM);
            let status = run.wait().unwrap();
            assert_eq!(crate::support::shell_code(status), 143, "{way:?} {round}");
            nothing_left(run.id(), "sleep 4105");
        }
    }
}

fn killed() {
    // The first way is one of those every check has.
    for way in &WAYS[1..] {
        storm_of(way, 60);
    }
}

fn killed_between() {
    crate::lifetime::storm_between_of(&WAYS[1..], 40);
}

/// Every moment is one in which somebody waits for an answer, allowed or not.
const BUSY: &str = "for i in 1 2 3 4; do
    (while :; do mkdir closed; : > closed; : > a$i; mv a$i b$i; mkdir c$i; mv -T c$i d$i; rm -r b$i d$i; umask 22; done 2>/dev/null) &
done; sleep 4106";

/// What those runs left has names they gave. It makes room for the next one.
fn only_their_own(dir: &Dir) {
    for entry in std::fs::read_dir(&dir.0).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let own = name.len() == 2 && name.starts_with(['a', 'b', 'c', 'd']);
        assert!(own, "{name}");
        let path = dir.0.join(name);
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
    }
}

fn killed_busy() {
    let dir = Dir::new();
    for way in WAYS {
        for round in 0..rounds(25) {
            let mut c = script(&dir.0, way, BUSY);
            c.stderr(Stdio::null());
            let mut run = spawn_group(c);
            eventually("busy", || survivors(run.id(), "sleep 4106").len() > 5);
            std::thread::sleep(moment(round) / 4);
            match round % 3 {
                0 => kill(run.id(), libc::SIGKILL),
                1 => kill(run.id(), libc::SIGTERM),
                _ => {
                    let line = survivors(run.id(), "");
                    let sleep = line.iter().find(|l| l.contains("sleep 4106"));
                    if let Some(pid) = sleep.and_then(|l| l.split(' ').next()?.parse().ok()) {
                        kill(pid, libc::SIGKILL);
                    }
                }
            }
            run.wait().unwrap();
            nothing_left(run.id(), "sleep 4106");
            only_their_own(&dir);
        }
    }
}

fn killed_group() {
    let dir = Dir::new();
    for way in WAYS {
        for round in 0..rounds(25) {
            let mut c = script(&dir.0, way, BUSY);
            c.stderr(Stdio::null());
            let mut run = spawn_group(c);
            std::thread::sleep(moment(round));
            kill_group(run.id(), libc::SIGKILL);
            run.wait().unwrap();
            nothing_left(run.id(), "sleep 4106");
            only_their_own(&dir);
        }
    }
}
