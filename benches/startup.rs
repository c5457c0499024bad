//! Start-up: `ccbox run -- true` against an equivalent bare `bwrap` call, in pairs that take turns in going first.
//!
//! `cargo bench --bench startup [-- --guard] [-- PAIRS]`
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark ends by panicking"
)]
#![allow(missing_docs, reason = "a program")]

mod common;

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// What ccbox may cost on top of bwrap.
const BUDGET_MS: f64 = 3.0;

fn time(command: &mut Command) -> f64 {
    let start = Instant::now();
    let status = command.status().expect("the program starts");
    let elapsed = start.elapsed();
    assert!(status.success(), "{command:?}: {status}");
    elapsed.as_secs_f64() * 1e3
}

fn clean(program: &str, home: &Path, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", home);
    command.current_dir(dir).stdin(Stdio::null());
    command
}

fn main() -> ExitCode {
    let pairs = std::env::args().find_map(|a| a.parse().ok()).unwrap_or(300);
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (home, ws) = (place.path().join("home"), place.path().join("ws"));
    std::fs::create_dir(&home).unwrap();
    std::fs::create_dir(&ws).unwrap();
    let binary =
        std::env::var("CCBOX_TEST_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_ccbox").to_owned());
    let mut ccbox = clean(&binary, &home, &ws);
    ccbox.args(["run", "--", "true"]);
    let mut bwrap = clean("bwrap", &home, &ws);
    bwrap.args(
        "--unshare-all --die-with-parent --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --bind"
            .split(' '),
    );
    bwrap.arg(&ws).arg(&ws).arg("true");

    for _ in 0..10 {
        time(&mut ccbox);
        time(&mut bwrap);
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for n in 0..pairs {
        if n % 2 == 0 {
            ours.push(time(&mut ccbox));
            theirs.push(time(&mut bwrap));
        } else {
            theirs.push(time(&mut bwrap));
            ours.push(time(&mut ccbox));
        }
    }
    let differences: Vec<f64> = ours.iter().zip(&theirs).map(|(a, b)| a - b).collect();
    let (a, b, d) = (
        common::Spread::of(&ours),
        common::Spread::of(&theirs),
        common::Spread::of(&differences),
    );
    println!("{pairs} pairs           min       p50");
    println!("ccbox run -- true  {:7.2}   {:7.2} ms", a.min, a.p50);
    println!("bwrap … true       {:7.2}   {:7.2} ms", b.min, b.p50);
    println!(
        "difference         {:7.2}   {:7.2} ms   (of the minima; median of the pairs)",
        a.min - b.min,
        d.p50
    );
    println!(
        "ratio              {:7.2}   {:7.2}",
        a.min / b.min,
        a.p50 / b.p50
    );
    // Load on the machine moves the median of both; the minima are the quiet moments. One of them within is within.
    common::verdict(
        "start-up over bwrap",
        d.p50.min(a.min - b.min),
        BUDGET_MS,
        "ms",
    )
}
