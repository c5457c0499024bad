//! Signals reach the command once, with time to clean up (PR-3, PR-5, R62).

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Case;
use crate::support::{
    Dir, EVERY, boxed, eventually, kill, kill_group, nothing_left, script, shell_code, spawn_group,
    stdout, survivors,
};

pub(crate) const CASES: &[Case] = &[
    ("SIGTERM lets the command clean up", terminate),
    ("a command deaf to SIGTERM is killed after the grace", grace),
    ("a signal to ccbox alone reaches the command once", alone),
    ("a signal to the group reaches the command once", group),
    ("Ctrl-C: the command decides the exit status", interrupt),
    ("stop and continue are followed", stop),
    ("a stop that is over leaves nothing stopped", brief_stops),
    ("signals ignored by the caller stay ignored", nohup),
    ("the caller's mask and default SIGPIPE arrive", mask),
    (
        "SIGCHLD ignored by the caller changes nothing",
        sigchld_ignored,
    ),
    ("a signal during set-up ends the run", early),
];

/// Starts a script that creates `ready` when its handlers stand.
fn started(dir: &Dir, way: &[&str], text: &str) -> Child {
    let ready = dir.0.join("ready");
    let _ = std::fs::remove_file(&ready);
    let child = spawn_group(script(&dir.0, way, text));
    eventually("ready", || ready.exists());
    child
}

fn terminate() {
    let dir = Dir::new();
    for way in EVERY {
        let mut run = started(
            &dir,
            way,
            "trap 'echo cleaned > done; exit 5' TERM; > ready; sleep 4001 & wait",
        );
        kill(run.id(), libc::SIGTERM);
        assert_eq!(run.wait().unwrap().code(), Some(5), "{way:?}");
        assert_eq!(
            std::fs::read_to_string(dir.0.join("done")).unwrap(),
            "cleaned\n"
        );
        std::fs::remove_file(dir.0.join("done")).unwrap();
        nothing_left(run.id(), "sleep 4001");
    }
}

fn grace() {
    let dir = Dir::new();
    // All at once: each waits for ten seconds.
    let runs: Vec<_> = EVERY
        .iter()
        .map(|way| started(&dir, way, "trap '' TERM; > ready; sleep 4002; sleep 4002"))
        .collect();
    let begin = Instant::now();
    for run in &runs {
        kill(run.id(), libc::SIGTERM);
    }
    for mut run in runs {
        assert_eq!(run.wait().unwrap().signal(), Some(libc::SIGKILL));
        let took = begin.elapsed();
        assert!(
            took > Duration::from_secs(9) && took < Duration::from_secs(14),
            "{took:?}"
        );
        nothing_left(run.id(), "sleep 4002");
    }
}

const COUNT: &str = "trap 'echo x >> got' USR1 INT TERM HUP; > ready; \
    until [ -e stop ]; do sleep 0.02; done; wc -l < got";

fn counted(dir: &Dir, way: &[&str], send: impl Fn(u32)) {
    for name in ["got", "stop"] {
        let _ = std::fs::remove_file(dir.0.join(name));
    }
    let ready = dir.0.join("ready");
    let _ = std::fs::remove_file(&ready);
    let mut c = script(&dir.0, way, COUNT);
    c.stdout(Stdio::piped());
    let run = spawn_group(c);
    eventually("ready", || ready.exists());
    // Both directions of a wrong order would show as a second line, so give that line time to appear.
    for (seen, n) in [libc::SIGUSR1, libc::SIGINT, libc::SIGHUP]
        .into_iter()
        .enumerate()
    {
        send_one(&send, run.id(), n);
        eventually("a line", || lines(dir) > seen);
        std::thread::sleep(Duration::from_millis(60));
    }
    std::fs::write(dir.0.join("stop"), "").unwrap();
    let out = run.wait_with_output().unwrap();
    assert_eq!(stdout(&out).trim(), "3", "{way:?}");
}

fn send_one(send: &impl Fn(u32), pid: u32, signal: i32) {
    SIGNAL.with(|s| s.set(signal));
    send(pid);
}

thread_local! {
    static SIGNAL: std::cell::Cell<i32> = const { std::cell::Cell::new(0) };
}

fn lines(dir: &Dir) -> usize {
    std::fs::read_to_string(dir.0.join("got"))
        .unwrap_or_default()
        .lines()
        .count()
}

fn alone() {
    let dir = Dir::new();
    for way in EVERY {
        counted(&dir, way, |pid| {
            kill(pid, SIGNAL.with(std::cell::Cell::get));
        });
    }
}

fn group() {
    let dir = Dir::new();
    for way in EVERY {
        counted(&dir, way, |pid| {
            kill_group(pid, SIGNAL.with(std::cell::Cell::get));
        });
    }
}

fn interrupt() {
    let dir = Dir::new();
    for way in EVERY {
        for to_group in [true, false] {
            for (text, code) in [
                ("trap 'exit 7' INT; > ready; sleep 4003 & wait", 7),
                ("trap '' INT; > ready; sleep 0.3; exit 4", 4),
                ("> ready; exec sleep 4003", 130),
            ] {
                let mut run = started(&dir, way, text);
                // `exec sleep` comes a moment after `ready`; both die of SIGINT by default.
                if to_group {
                    kill_group(run.id(), libc::SIGINT);
                } else {
                    kill(run.id(), libc::SIGINT);
                }
                let status = run.wait().unwrap();
                assert_eq!(shell_code(status), code, "{way:?} {to_group} {text}");
                assert_eq!(status.signal().is_some(), code == 130);
                nothing_left(run.id(), "sleep 4003");
            }
        }
    }
}

fn state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().chars().next().unwrap()
}

fn stop() {
    let dir = Dir::new();
    for way in EVERY {
        // The command stops itself, or its caller stops the group or ccbox alone.
        let mut run = started(&dir, way, "> ready; kill -STOP $$; exit 9");
        eventually("stopped", || state(run.id()) == 'T');
        kill(run.id(), libc::SIGCONT);
        assert_eq!(run.wait().unwrap().code(), Some(9), "{way:?}");

        for to_group in [true, false] {
            // Not an orphaned process group, or the kernel would not stop it: our own group is in the same session.
            let mut run = started(
                &dir,
                way,
                "> ready; while [ ! -e go ]; do sleep 0.02; done; exit 8",
            );
            if to_group {
                kill_group(run.id(), libc::SIGTSTP);
            } else {
                kill(run.id(), libc::SIGTSTP);
            }
            eventually("stopped", || state(run.id()) == 'T');
            std::fs::write(dir.0.join("go"), "").unwrap();
            std::thread::sleep(Duration::from_millis(100));
            assert_eq!(state(run.id()), 'T', "{way:?}");
            if to_group {
                kill_group(run.id(), libc::SIGCONT);
            } else {
                kill(run.id(), libc::SIGCONT);
            }
            assert_eq!(run.wait().unwrap().code(), Some(8), "{way:?}");
            std::fs::remove_file(dir.0.join("go")).unwrap();
        }
    }
}

/// Stopped and continued in quick order: the whole group, or the command behind ccbox's back.
fn brief_stops() {
    let dir = Dir::new();
    for way in EVERY {
        for to_group in [true, false] {
            let text = "> ready; exec sleep 0.4";
            let mut run = started(&dir, way, text);
            let command = || {
                survivors(run.id(), "")
                    .iter()
                    .find(|l| l.contains("(sleep ") || l.contains("(bash "))
                    .and_then(|l| l.split(' ').next()?.parse::<u32>().ok())
            };
            for round in 0..60 {
                if let (false, Some(pid)) = (to_group, command()) {
                    kill(pid, libc::SIGSTOP);
                    std::thread::sleep(Duration::from_micros(100 * (round % 9)));
                    kill(pid, libc::SIGCONT);
                } else if to_group {
                    kill_group(run.id(), libc::SIGTSTP);
                    std::thread::sleep(Duration::from_micros(100 * (round % 9)));
                    kill_group(run.id(), libc::SIGCONT);
                }
            }
            let id = run.id();
            eventually("the end", || run.try_wait().unwrap().is_some());
            assert_eq!(run.wait().unwrap().code(), Some(0), "{way:?} {id}");
        }
    }
}

fn ignored_line(options: &[&str], prefix: &str) -> String {
    let dir = Dir::new();
    let inner = options.join(" ");
    let line = format!(
        "{prefix} {} box {inner} -- grep -E '^(SigIgn|SigBlk):' /proc/self/status",
        crate::support::exe().display()
    );
    let out = Command::new("bash")
        .arg("-c")
        .arg(line)
        .current_dir(&dir.0)
        .output()
        .unwrap();
    stdout(&out)
}

fn nohup() {
    for way in EVERY {
        let bare = Command::new("bash")
            .args([
                "-c",
                "trap '' HUP INT USR1 CHLD TSTP; grep -E '^(SigIgn|SigBlk):' /proc/self/status",
            ])
            .output()
            .unwrap();
        assert_eq!(
            ignored_line(way, "trap '' HUP INT USR1 CHLD TSTP; exec"),
            stdout(&bare),
            "{way:?}"
        );
        // An ignored SIGTERM stays ignored, and starts no grace.
        let dir = Dir::new();
        let me = crate::support::exe();
        let line = format!(
            "trap '' TERM; exec {} box {} -- bash -c '> ready; sleep 0.3; exit 3'",
            me.display(),
            way.join(" ")
        );
        let mut c = Command::new("bash");
        c.arg("-c").arg(line).current_dir(&dir.0);
        let mut run = spawn_group(c);
        eventually("ready", || dir.0.join("ready").exists());
        kill(run.id(), libc::SIGTERM);
        assert_eq!(run.wait().unwrap().code(), Some(3), "{way:?}");
    }
}

fn mask() {
    for way in EVERY {
        let bare = Command::new("bash")
            .args(["-c", "exec grep -E '^(SigIgn|SigBlk):' /proc/self/status"])
            .output()
            .unwrap();
        assert_eq!(ignored_line(way, "exec"), stdout(&bare), "{way:?}");
    }
}

fn sigchld_ignored() {
    let dir = Dir::new();
    for way in EVERY {
        let line = format!(
            "trap '' CHLD; exec {} box {} -- bash -c 'exit 6'",
            crate::support::exe().display(),
            way.join(" ")
        );
        let status = Command::new("bash")
            .arg("-c")
            .arg(line)
            .current_dir(&dir.0)
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(6), "{way:?}");
    }
}

fn early() {
    let dir = Dir::new();
    for way in EVERY {
        for delay in 0..12 {
            let mut c = boxed(&dir.0, way, &["sleep", "4004"]);
            c.process_group(0).stderr(Stdio::null());
            let mut run = c.spawn().unwrap();
            std::thread::sleep(Duration::from_millis(delay));
            kill(run.id(), libc::SIGTERM);
            assert_eq!(
                run.wait().unwrap().signal(),
                Some(libc::SIGTERM),
                "{way:?} {delay}"
            );
            nothing_left(run.id(), "sleep 4004");
        }
    }
}
