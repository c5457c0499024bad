//! Start-up, in pairs that take turns in going first: `ccbox run -- true` against an equivalent bare `bwrap` call, and through
//! bubblewrap with the creation broker against without it.
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
#[path = "common/starts.rs"]
mod starts;

use std::process::ExitCode;

use starts::{bubblewrap, clean, compare};

/// What ccbox may cost on top of bwrap.
const BUDGET_MS: f64 = 3.0;
/// What the broker may cost on top of a run without it.
const BROKER_BUDGET_MS: f64 = 1.5;
/// What catching connections without a proxy may cost on top of a run that does not.
const CATCH_BUDGET_MS: f64 = 1.0;
/// The workspace is the only place that can be written; in a read-only mode there is none, and so no broker.
const SPEC: &str = "network_enabled = false\n[[bind_mounts]]\nhost_path = \"ws\"\n[filesystem]\nview = \"host\"\ncaches = \"none\"\n";

fn main() -> ExitCode {
    common::without_inherited_descriptors();
    let pairs = std::env::args().find_map(|a| a.parse().ok()).unwrap_or(300);
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (home, ws) = (place.path().join("home"), place.path().join("ws"));
    std::fs::create_dir(&home).unwrap();
    std::fs::create_dir(&ws).unwrap();
    let binary =
        std::env::var("CCBOX_TEST_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_ccbox").to_owned());
    let mut ccbox = clean(&binary, &home, &ws);
    ccbox.args(["run", "--", "true"]);
    let mut bwrap = bubblewrap(&home, &ws);
    let over_bwrap = compare(
        pairs,
        [
            ("ccbox run -- true", &mut ccbox),
            ("bwrap … true", &mut bwrap),
        ],
    );

    let spec = |name: &str, top: &str, broker: bool| {
        let path = place.path().join(name);
        std::fs::write(&path, format!("{top}{SPEC}")).unwrap();
        let call = |options: &[&str]| {
            let mut command = clean(&binary, &home, &ws);
            command
                .args(["run", "--engine", "bwrap", "--spec"])
                .arg(&path);
            command.args(options).args(["--", "true"]);
            command
        };
        // What is compared is what is meant.
        let said = call(&["-v"]).output().unwrap();
        let line = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(line.contains("fs=mounts+broker"), broker, "{line}");
        call(&[])
    };
    let mut with = spec("with.toml", "", true);
    let mut without = spec("without.toml", "mode = \"review\"\n", false);
    println!();
    let broker = compare(
        pairs,
        [
            ("bwrap + broker", &mut with),
            ("bwrap, no broker", &mut without),
        ],
    );

    let caught = |name: &str, line: &str| {
        let path = place.path().join(name);
        let spec = "[[bind_mounts]]\nhost_path = \"ws\"\n[network]\nallowed_domains = [\"a.test\", \"db.test:5432\", \"192.0.2.7:6379\"]\n";
        std::fs::write(&path, format!("{spec}{line}\n")).unwrap();
        let call = |options: &[&str]| {
            let mut command = clean(&binary, &home, &ws);
            command.args(["run", "--spec"]).arg(&path);
            command.args(options).args(["--", "true"]);
            command
        };
        let said = call(&["-v"]).output().unwrap();
        let words = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(words.contains("+caught"), line.is_empty(), "{words}");
        call(&[])
    };
    let mut on = caught("on.toml", "");
    let mut off = caught("off.toml", "transparent_ports = []");
    println!();
    let catch = compare(pairs, [("caught", &mut on), ("not caught", &mut off)]);

    println!();
    let verdicts = [
        common::verdict("start-up over bwrap", over_bwrap.more, BUDGET_MS, "ms"),
        common::verdict("the broker's start-up", broker.more, BROKER_BUDGET_MS, "ms"),
        common::verdict("the catch's start-up", catch.more, CATCH_BUDGET_MS, "ms"),
    ];
    if verdicts.iter().all(|v| *v == ExitCode::SUCCESS) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
