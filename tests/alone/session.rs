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
#[path = "session/broker.rs"]
mod broker;
#[path = "session/exits.rs"]
mod exits;
#[path = "session/isolation.rs"]
mod isolation;
#[path = "session/lifetime.rs"]
mod lifetime;
#[path = "session/mac.rs"]
mod mac;
#[path = "session/mounts.rs"]
mod mounts;
#[path = "session/refusals.rs"]
mod refusals;
#[path = "session/seatbelt.rs"]
mod seatbelt;
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
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let words: Vec<&str> = args.iter().filter_map(|a| a.to_str()).collect();
    match words.as_slice() {
        ["__inner", ..] => ExitCode::from(ccbox::session::inner::main(&args[1..])),
        ["__stage", ..] => ExitCode::from(ccbox::session::seatbelt::stage_main(&args[1..])),
        ["__guard", ..] => ExitCode::from(ccbox::session::seatbelt::guard_main(&args[1..])),
        ["mac", ..] => mac::main(&args[1..]),
        ["box", ..] => boxed::main(args[1..].to_vec()),
        // As the test programs of libtest, for whoever runs each test in a process of its own.
        ["--list", rest @ ..] => {
            if !rest.contains(&"--ignored") {
                for (name, _) in cases() {
                    println!("{name}: test");
                }
            }
            ExitCode::SUCCESS
        }
        ["--exact", name, ..] => run(|n| n == *name),
        _ => {
            let filter = words.iter().find(|w| !w.starts_with('-')).unwrap_or(&"");
            let ours = run(|n| n.contains(filter));
            if support::is_root() && !support::as_ordinary_user(filter).success() {
                return ExitCode::FAILURE;
            }
            ours
        }
    }
}

fn cases() -> Vec<Case> {
    [
        exits::CASES,
        signals::CASES,
        lifetime::CASES,
        isolation::CASES,
        mounts::CASES,
        refusals::CASES,
        terminal::CASES,
        broker::CASES,
        seatbelt::CASES,
        mac::CASES,
    ]
    .concat()
}

fn run(wanted: impl Fn(&str) -> bool) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for (name, case) in cases().iter().filter(|(n, _)| wanted(n)) {
        let before = std::time::Instant::now();
        if std::panic::catch_unwind(case).is_ok() {
            let took = before.elapsed().as_millis();
            println!("ok   {} {name} ({took} ms)", support::user());
        } else {
            println!("FAIL {} {name}", support::user());
            code = ExitCode::FAILURE;
        }
    }
    code
}
