//! The long tier: what only shows after many tries. Run by `tests/soak/run`, one test at a time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends by panicking"
)]
#![allow(missing_docs, reason = "a program")]

#[allow(dead_code, reason = "the gate uses the rest")]
#[path = "../lab/lab.rs"]
mod lab;

mod engines;
mod git_attacker;
mod git_config;
mod kills;
mod runs;
#[path = "../lab/kills.rs"]
mod storms;

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lab::{Caller, Desk, Lab};

fn spawn(command: &lab::LabCommand) -> Child {
    started(command.to_command())
}

fn started(mut command: Command) -> Child {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn text(child: Child) -> (Option<i32>, String, String) {
    let out = child.wait_with_output().unwrap();
    (
        out.status.code(),
        String::from_utf8_lossy(&out.stdout).into_owned(),
        String::from_utf8_lossy(&out.stderr).into_owned(),
    )
}

/// pids of processes whose command line holds `word`.
fn processes_with(word: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|n| n.parse::<u32>().ok())
        else {
            continue;
        };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains(word) {
            found.push(pid);
        }
    }
    found
}

/// Waits until no process has `word` on its command line.
fn gone(word: &str) {
    let start = Instant::now();
    while !processes_with(word).is_empty() {
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "still there: {:?}",
            processes_with(word)
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn get(desk: &Desk<'_>, allow: &str) -> lab::LabCommand {
    desk.boxed(
        &[allow],
        &[
            "curl",
            "-s",
            "-m10",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "http://allowed.test/",
        ],
    )
}

/// PT-1: the first call works each time, while both processors are busy.
#[test]
fn the_first_call_works_three_hundred_times() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let mut busy: Vec<Child> = (0..3)
        .map(|_| {
            spawn(&lab.command(
                Caller::User,
                &["timeout", "200", "sh", "-c", "while :; do :; done"],
            ))
        })
        .collect();
    for n in 0..300 {
        let out = get(&desk, "allowed.test").output();
        assert_eq!(
            (out.code, out.stdout.as_str()),
            (Some(0), "200"),
            "run {n}: {out}"
        );
    }
    for child in &mut busy {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// PR-4, CL-2: SIGKILL at any moment of the start leaves nothing running.
#[test]
fn a_storm_of_kills_leaves_nothing() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        for n in 0..400_u64 {
            let word = format!("{}.{n}", 70_000 + std::process::id() % 10_000);
            let mut child = started(
                desk.boxed(&["allowed.test"], &["sleep", &word])
                    .to_bare_command(),
            );
            // From before the first exec to well after the command has started, in steps that are no multiple of each other.
            std::thread::sleep(Duration::from_micros(n * 137 % 40_000));
            child.kill().unwrap();
            text(child);
            gone(&word);
        }
        assert_eq!(
            fs::read_dir(desk.outer.join("ws")).unwrap().count(),
            0,
            "no litter"
        );
    }
}

/// R40, CL-4: many runs at once, each with its own list.
#[test]
fn many_runs_at_once_keep_to_their_lists() {
    let lab = Lab::start();
    let desks: Vec<Desk<'_>> = (0..24).map(|_| lab.desk(Caller::User)).collect();
    for _ in 0..8 {
        let children: Vec<(bool, Child)> = desks
            .iter()
            .enumerate()
            .map(|(n, d)| {
                (
                    n % 2 == 0,
                    spawn(&get(
                        d,
                        if n % 2 == 0 {
                            "allowed.test"
                        } else {
                            "denied.test"
                        },
                    )),
                )
            })
            .collect();
        for (open, child) in children {
            let (code, stdout, stderr) = text(child);
            assert_eq!(
                (code, stdout.as_str()),
                (Some(0), if open { "200" } else { "403" }),
                "{stderr}"
            );
        }
    }
}

/// R45: a rebinding name is never dialled at loopback, however often it is tried and however many try at once.
#[test]
fn a_rebinding_name_under_load() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let script = "seq 400 | xargs -P16 -I{} curl -s -m10 -o /dev/null -w '%{http_code}\\n' http://flip.test:80/ | sort | uniq -c | tr -s ' '; true";
    let out = desk
        .boxed(&["flip.test"], &["sh", "-c", script])
        .output()
        .success();
    assert!(
        out.stdout
            .lines()
            .all(|l| l.ends_with(" 200") || l.ends_with(" 403")),
        "{out}"
    );
    assert_eq!(lab.hits_of("LOOPBACK"), Vec::<String>::new());
    assert_eq!(lab.hits_of("DNS flip.test type=1").len(), 400);
}

/// Load on one proxy: thousands of requests beside hundreds of idle connections, and the answers stay right.
#[test]
fn one_proxy_under_load() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let script = "import concurrent.futures, os, socket, urllib.parse, urllib.request
u = urllib.parse.urlparse(os.environ['http_proxy'])
idle = [socket.create_connection((u.hostname, u.port)) for _ in range(300)]
def get(n):
    host = 'allowed.test' if n % 3 else 'denied.test'
    try: return urllib.request.urlopen(f'http://{host}/{n}', timeout=20).status
    except urllib.error.HTTPError as e: return e.code
with concurrent.futures.ThreadPoolExecutor(40) as pool:
    got = list(pool.map(get, range(6000)))
print(got.count(200), got.count(403))
";
    let out = desk
        .boxed(&["allowed.test"], &["/usr/bin/python3", "-c", script])
        .output()
        .success();
    assert_eq!(out.stdout, "4000 2000\n", "{out}");
    assert!(
        out.stderr
            .lines()
            .filter(|l| l.starts_with("ccbox: "))
            .count()
            < 10,
        "a storm is one line with a count: {out}"
    );
}

/// CL-6: many runs leave no trace in /tmp, in the workspace or in the mount table.
#[test]
fn many_runs_leave_no_trace() {
    let lab = Lab::start();
    // Whatever else goes on here comes and goes in the machine's own. The laboratory stays where it is.
    let own =
        "exec 9<\"$1\"; for dir in /tmp /dev/shm; do mount -t tmpfs -o mode=1777 tmpfs $dir; done
        mkdir -p \"$1\"; mount --bind /proc/self/fd/9 \"$1\"";
    let place = lab.outer("");
    lab.administer(&["sh", "-euc", own, "sh", place.to_str().unwrap()]);
    let desk = lab.desk(Caller::User);
    let look = || {
        let out = lab
            .command(
                Caller::User,
                &[
                    "sh",
                    "-c",
                    "ls -A /tmp /dev/shm | sort; cat /proc/self/mountinfo",
                ],
            )
            .output()
            .success();
        out.stdout
    };
    let before = look();
    for _ in 0..200 {
        get(&desk, "allowed.test").output().success();
    }
    assert_eq!(look(), before);
    assert_eq!(fs::read_dir(desk.outer.join("ws")).unwrap().count(), 0);
}
