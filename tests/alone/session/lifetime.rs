//! Nothing survives: neither ccbox's death at any moment nor the command's end leaves a process (PR-4, PR-6, PR-7).

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Case;
use crate::support::{
    BOXES, Dir, WAYS, boxed, eventually, kill, nothing_left, rounds, script, spawn_group, stdout,
    survivors,
};

pub(crate) const CASES: &[Case] = &[
    ("background processes end with the command", background),
    ("daemons do not survive ccbox", daemons),
    (
        "SIGKILL of ccbox in its first moments leaves nothing",
        storm,
    ),
    (
        "SIGKILL of any process in between leaves nothing",
        storm_between,
    ),
    (
        "the end of the starting thread is not the end of the run",
        thread_started,
    ),
    ("no zombie is left to the caller", zombies),
    ("the caller's own children are left alone", other_children),
    ("many runs at once", many),
];

fn background() {
    let dir = Dir::new();
    for way in WAYS {
        let begin = Instant::now();
        let mut c = script(
            &dir.0,
            way,
            "sleep 4101 & setsid sleep 4101 & (setsid sh -c 'sleep 4101' &); echo hi; exit 3",
        );
        // A survivor would hold this pipe open, and reading to its end would hang.
        let run = {
            c.stdout(Stdio::piped());
            spawn_group(c)
        };
        let id = run.id();
        let out = run.wait_with_output().unwrap();
        assert_eq!(
            (stdout(&out).as_str(), out.status.code()),
            ("hi\n", Some(3)),
            "{way:?}"
        );
        assert!(begin.elapsed() < Duration::from_secs(5));
        assert_eq!(survivors(id, "sleep 4101"), Vec::<String>::new(), "{way:?}");
    }
}

fn daemons() {
    let dir = Dir::new();
    for way in WAYS {
        let ready = dir.0.join("ready");
        let _ = std::fs::remove_file(&ready);
        let text =
            "(setsid sleep 4102 &); (setsid sh -c 'sleep 4102; true' &); > ready; sleep 4102 | cat";
        let mut run = spawn_group(script(&dir.0, way, text));
        eventually("ready", || ready.exists());
        kill(run.id(), libc::SIGKILL);
        run.wait().unwrap();
        nothing_left(run.id(), "sleep 4102");
    }
}

/// Spread over the first 60 ms, denser at the start.
pub(crate) fn moment(round: u32) -> Duration {
    let x = u64::from(round) * 7919 % 600;
    Duration::from_micros(if round.is_multiple_of(2) {
        x * 100
    } else {
        x * 20
    })
}

fn start(dir: &Dir, way: &[&str]) -> Child {
    let mut c = boxed(&dir.0, way, &["sleep", "4103"]);
    c.stderr(Stdio::null()).process_group(0);
    c.spawn().unwrap()
}

fn storm() {
    for way in WAYS {
        storm_of(way, 100);
    }
}

pub(crate) fn storm_of(way: &[&str], count: u32) {
    let dir = Dir::new();
    for round in 0..rounds(count) {
        let mut run = start(&dir, way);
        std::thread::sleep(moment(round));
        kill(run.id(), libc::SIGKILL);
        run.wait().unwrap();
        nothing_left(run.id(), "sleep 4103");
    }
}

/// The pids of the run's process group, ccbox excepted.
fn between(group: u32) -> Vec<u32> {
    survivors(group, "")
        .iter()
        .filter_map(|line| line.split(' ').next()?.parse().ok())
        .filter(|pid| *pid != group)
        .collect()
}

fn storm_between() {
    storm_between_of(&BOXES, 60);
}

pub(crate) fn storm_between_of(ways: &[&[&str]], count: u32) {
    let dir = Dir::new();
    for &way in ways {
        for round in 0..rounds(count) {
            let mut run = start(&dir, way);
            std::thread::sleep(moment(round));
            let pids = between(run.id());
            if let Some(victim) = pids.get(usize::try_from(round).unwrap() % pids.len().max(1)) {
                kill(*victim, libc::SIGKILL);
                // ccbox notices by itself; killing the command is the command's death.
                let status = run.wait().unwrap();
                assert!(!status.success(), "{way:?}");
            } else {
                kill(run.id(), libc::SIGKILL);
                run.wait().unwrap();
            }
            nothing_left(run.id(), "sleep 4103");
        }
    }
}

fn thread_started() {
    let dir = Dir::new();
    for way in WAYS {
        let path = dir.0.clone();
        let run = std::thread::spawn(move || {
            script(&path, way, "sleep 0.4; echo survived")
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .join()
        .unwrap();
        let out = run.wait_with_output().unwrap();
        assert_eq!(
            (stdout(&out).as_str(), out.status.code()),
            ("survived\n", Some(0)),
            "{way:?}"
        );
    }
}

#[cfg(target_os = "linux")]
fn inherit_orphans(on: bool) {
    nix::sys::prctl::set_child_subreaper(on).unwrap();
}

#[cfg(not(target_os = "linux"))]
fn inherit_orphans(_on: bool) {}

fn zombies() {
    let dir = Dir::new();
    for way in WAYS {
        // As the subreaper this process would inherit whatever ccbox does not wait for.
        inherit_orphans(true);
        for text in [
            "true",
            "sleep 4104 & true",
            "(setsid sleep 4104 &) ; kill -9 $$",
        ] {
            let _ = script(&dir.0, way, text).status().unwrap();
            let left = nix::sys::wait::waitpid(None, Some(nix::sys::wait::WaitPidFlag::WNOHANG));
            assert_eq!(left, Err(nix::errno::Errno::ECHILD), "{way:?} {text}");
        }
    }
    inherit_orphans(false);
}

fn other_children() {
    let dir = Dir::new();
    for way in WAYS {
        // `exec` makes the background sleep a child of ccbox.
        let line = format!(
            "sleep 60 & echo $!; exec {} box {} -- true",
            crate::support::exe().display(),
            way.join(" ")
        );
        let mut c = Command::new("bash");
        c.arg("-c")
            .arg(line)
            .current_dir(&dir.0)
            .stdout(Stdio::piped());
        let mut run = c.spawn().unwrap();
        assert!(run.wait().unwrap().success());
        let mut line = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(run.stdout.take().unwrap()),
            &mut line,
        )
        .unwrap();
        let pid: u32 = line.trim().parse().unwrap();
        // It may not have come to its execve yet; what counts is that it lives.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        kill(pid, libc::SIGKILL);
        assert!(
            stat.contains(") S ") || stat.contains(") R "),
            "{way:?} {stat}"
        );
    }
}

fn many() {
    let dir = Dir::new();
    let runs: Vec<Child> = (0..40)
        .map(|n| {
            let way = WAYS[n % WAYS.len()];
            script(&dir.0, way, &format!("exit {n}")).spawn().unwrap()
        })
        .collect();
    for (n, mut run) in runs.into_iter().enumerate() {
        assert_eq!(run.wait().unwrap().code(), Some(i32::try_from(n).unwrap()));
    }
}
