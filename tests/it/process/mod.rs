//! The wrapped process as its caller sees it, with the real binary: codes, signals, descriptors, nothing left (PR-1 to PR-13).
//! `tests/alone/session` asks the same of the session alone, in every network set-up.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use crate::support::Box;

mod lifetime;
mod signals;
mod streams;

/// `ccbox run --spec … -- bash -c TEXT`.
fn script(b: &Box, text: &str) -> Command {
    b.ccbox(&["run", "--spec", "../spec.toml", "--", "bash", "-c", text])
}

/// A script in a process group of its own, once it has made the file `ready`.
fn started(b: &Box, text: &str) -> Child {
    let ready = b.ws().join("ready");
    let _ = std::fs::remove_file(&ready);
    let child = script(b, text).process_group(0).spawn().unwrap();
    eventually("ready", || ready.exists());
    child
}

/// The end as a shell sees it.
fn code(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap())
}

fn pid(child: &Child) -> nix::unistd::Pid {
    nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap())
}

/// Waits for a condition; the time limit only bounds a failure.
#[track_caller]
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < limit, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// `sleep` for an hour and some, told from those of all other tests by its argument.
fn nap(number: u32) -> String {
    format!("sleep {number}.{}", std::process::id())
}

/// Living processes with these words on their command line, this one excepted.
fn living(words: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let of = |name: &str| {
            let bytes = std::fs::read(entry.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', " ")
        };
        let stat = of("stat");
        let state = stat.rsplit(") ").next().unwrap_or_default();
        if of("cmdline").contains(words) && !state.starts_with(['Z', 'X']) {
            found.push(stat);
        }
    }
    found
}

#[track_caller]
fn nothing_left(words: &str) {
    eventually(&format!("the end of `{words}`"), || {
        living(words).is_empty()
    });
}
