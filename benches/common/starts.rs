//! Starting commands in turns and timing them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::common::Spread;

/// Milliseconds from the start of a command to its end.
pub(crate) fn time(command: &mut Command) -> f64 {
    let start = Instant::now();
    let status = command.status().expect("the program starts");
    let elapsed = start.elapsed();
    assert!(status.success(), "{command:?}: {status}");
    elapsed.as_secs_f64() * 1e3
}

/// A command with nothing of this process but its directory.
pub(crate) fn clean(program: &str, home: &Path, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", home);
    command.current_dir(dir).stdin(Stdio::null());
    command
}

/// How the first of two commands compares with the second.
#[derive(Debug, Clone, Copy)]
#[allow(dead_code, reason = "each benchmark looks at one of them")]
pub(crate) struct Cost {
    /// What it takes more, in ms.
    pub(crate) more: f64,
    /// How many times as long it takes.
    pub(crate) times: f64,
}

/// Times both commands in turns and prints what they cost.
pub(crate) fn compare(pairs: usize, [first, second]: [(&str, &mut Command); 2]) -> Cost {
    let ((ours_name, ours), (theirs_name, theirs)) = (first, second);
    for _ in 0..10 {
        time(ours);
        time(theirs);
    }
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for n in 0..pairs {
        if n % 2 == 0 {
            a.push(time(ours));
            b.push(time(theirs));
        } else {
            b.push(time(theirs));
            a.push(time(ours));
        }
    }
    let differences: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
    let (a, b, d) = (Spread::of(&a), Spread::of(&b), Spread::of(&differences));
    println!("{:<20}   min       p50", format!("{pairs} pairs"));
    println!("{ours_name:<20}{:7.2}   {:7.2} ms", a.min, a.p50);
    println!("{theirs_name:<20}{:7.2}   {:7.2} ms", b.min, b.p50);
    println!(
        "{:<20}{:7.2}   {:7.2} ms   (of the minima; median of the pairs)",
        "difference",
        a.min - b.min,
        d.p50
    );
    println!(
        "{:<20}{:7.2}   {:7.2}",
        "ratio",
        a.min / b.min,
        a.p50 / b.p50
    );
    // Load on the machine moves the median of both; the minima are the quiet moments. One of them within is within.
    Cost {
        more: d.p50.min(a.min - b.min),
        times: (a.min / b.min).min(a.p50 / b.p50),
    }
}

/// The same sandbox by hand: every namespace, a read-only root, fresh `/dev`, `/proc` and `/tmp`, and a workspace.
pub(crate) fn bubblewrap(home: &Path, ws: &Path) -> Command {
    let mut bwrap = clean("bwrap", home, ws);
    bwrap.args(
        "--unshare-all --die-with-parent --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --bind"
            .split(' '),
    );
    bwrap.arg(ws).arg(ws).arg("true");
    bwrap
}
