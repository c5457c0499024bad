//! The whole path of a run: ccbox, pre-stage, bubblewrap, inner stage, command. Owns its process: it forks before any
//! thread, changes process groups and terminals, and plays ccbox's part itself (`box`, `__inner`).
//!
//! Run as root it checks everything twice, the second time as an ordinary user. `SOAK=n` multiplies the kill storms.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::exit)]

#[path = "session/boxed.rs"]
mod boxed;
#[path = "session/exits.rs"]
mod exits;
#[path = "session/isolation.rs"]
mod isolation;
#[path = "session/lifetime.rs"]
mod lifetime;
#[path = "session/signals.rs"]
mod signals;
#[path = "session/support.rs"]
mod support;
#[path = "session/terminal.rs"]
mod terminal;

use std::process::ExitCode;

/// A named check.
type Case = (&'static str, fn());

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next().as_deref().and_then(|a| a.to_str()) {
        Some("__inner") => {
            let rest: Vec<_> = args.collect();
            ExitCode::from(ccbox::session::inner::main(&rest))
        }
        Some("box") => boxed::main(args.collect()),
        filter => run_all(filter.unwrap_or("")),
    }
}

fn run_all(filter: &str) -> ExitCode {
    let cases: Vec<Case> = [
        exits::CASES,
        signals::CASES,
        lifetime::CASES,
        isolation::CASES,
        terminal::CASES,
    ]
    .concat();
    let mut failed = 0;
    for (name, case) in cases.iter().filter(|(n, _)| n.contains(filter)) {
        let before = std::time::Instant::now();
        if std::panic::catch_unwind(case).is_ok() {
            let took = before.elapsed().as_millis();
            println!("ok   {} {name} ({took} ms)", support::user());
        } else {
            println!("FAIL {} {name}", support::user());
            failed += 1;
        }
    }
    if support::is_root() {
        let status = support::as_ordinary_user(filter);
        if !status.success() {
            failed += 1;
        }
    }
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
