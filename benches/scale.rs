//! What a start with the built-in engine costs against bare `bwrap`, and what it does not cost more where there is much: protected
//! paths, repositories, files, and other runs at the same time.
//!
//! `cargo bench --bench scale [-- --guard] [-- PAIRS]`
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

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use starts::{bubblewrap, clean, compare};

/// A start with everything attached, as a multiple of bare bwrap's (ADR 20).
const START_BUDGET: f64 = 1.6;
/// Runs one after the other, and at the same time, as a multiple of bare bwrap's time (ADR 20).
const BURST_BUDGET: f64 = 1.6;
const CONCURRENT_BUDGET: f64 = 3.0;
/// What a start may take more with a thousand protected paths, in ms (ADR 20; the goal is 5).
const PROTECTED_BUDGET_MS: f64 = 8.0;
/// With two hundred repositories, and with 50,000 files and name patterns.
const TREE_BUDGET_MS: f64 = 2.0;

const PROTECTED: usize = 1000;
const REPOSITORIES: usize = 200;
const FILES: usize = 50_000;
const BURST: usize = 300;
const CONCURRENT: usize = 64;

/// Name patterns, so that every tree is looked after by the broker.
const PATTERNS: &str = "deny_write = [\"**/*.pem\", \"**/.env*\"]\n";

/// A directory to work in and the specs for it.
struct Desk {
    home: PathBuf,
    ws: PathBuf,
    place: PathBuf,
}

impl Desk {
    fn new(place: &Path, name: &str) -> Self {
        let place = place.join(name);
        let (home, ws) = (place.join("home"), place.join("ws"));
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(&ws).unwrap();
        Self { home, ws, place }
    }

    /// A run whose spec has these lines at the top and in `[filesystem]`.
    fn run(&self, name: &str, top: &str, filesystem: &str) -> Command {
        let path = self.place.join(name);
        let text = format!(
            "{top}\n[[bind_mounts]]\nhost_path = \"ws\"\n[filesystem]\n{filesystem}\n[network]\nallowed_domains = [\"a.test\"]\n"
        );
        fs::write(&path, text).unwrap();
        let call = |options: &[&str]| {
            let mut command = clean(env!("CARGO_BIN_EXE_ccbox"), &self.home, &self.ws);
            command
                .args(["run", "--engine", "builtin", "--spec"])
                .arg(&path);
            command.args(options).args(["--", "true"]);
            command
        };
        // What is timed is everything attached.
        let said = call(&["-v"]).output().unwrap();
        let line = String::from_utf8_lossy(&said.stderr).into_owned();
        for word in [
            "engine=builtin",
            "fs=mounts+broker",
            "net=proxy+caught",
            "reads=covers",
        ] {
            assert!(line.contains(word), "{word}: {line}");
        }
        call(&[])
    }
}

/// Milliseconds for all of `count` runs, one after the other.
fn in_turn(command: &mut Command, count: usize) -> f64 {
    let start = Instant::now();
    for _ in 0..count {
        assert!(command.status().unwrap().success());
    }
    start.elapsed().as_secs_f64() * 1e3
}

/// Milliseconds for all of `count` runs at the same time.
fn at_once(command: &mut Command, count: usize) -> f64 {
    let start = Instant::now();
    let running: Vec<_> = (0..count).map(|_| command.spawn().unwrap()).collect();
    for mut child in running {
        assert!(child.wait().unwrap().success());
    }
    start.elapsed().as_secs_f64() * 1e3
}

/// The smallest ratio of `rounds` paired rounds, and what is printed of it.
fn rate(
    what: &str,
    rounds: usize,
    [ours, theirs]: [&mut Command; 2],
    measure: impl Fn(&mut Command) -> f64,
) -> f64 {
    let mut best = f64::INFINITY;
    for n in 0..rounds {
        let (a, b) = if n % 2 == 0 {
            let a = measure(ours);
            (a, measure(theirs))
        } else {
            let b = measure(theirs);
            (measure(ours), b)
        };
        println!(
            "{what}: ccbox {a:.0} ms, bwrap {b:.0} ms, {:.2} times",
            a / b
        );
        best = best.min(a / b);
    }
    println!();
    best
}

fn repositories(ws: &Path) {
    for n in 0..REPOSITORIES {
        let git = ws.join(format!("group{}/repo{n}/.git", n % 10));
        fs::create_dir_all(git.join("objects")).unwrap();
        fs::create_dir_all(git.join("refs/heads")).unwrap();
        fs::create_dir_all(git.join("hooks")).unwrap();
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(git.join("config"), "[core]\n\tbare = false\n").unwrap();
    }
}

fn files(ws: &Path) {
    for n in 0..FILES {
        let dir = ws.join(format!("d{}/e{}", n % 50, n % 500));
        if n < 500 {
            fs::create_dir_all(&dir).unwrap();
        }
        fs::write(dir.join(format!("f{n}.txt")), "").unwrap();
    }
}

fn main() -> ExitCode {
    common::without_inherited_descriptors();
    let pairs = std::env::args().find_map(|a| a.parse().ok()).unwrap_or(60);
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let plain = Desk::new(place.path(), "plain");
    let mut ccbox = plain.run("spec.toml", "", PATTERNS);
    let mut bwrap = bubblewrap(&plain.home, &plain.ws);
    let start = compare(
        pairs * 3,
        [
            ("everything attached", &mut ccbox),
            ("bwrap … true", &mut bwrap),
        ],
    );
    println!();
    let burst = rate("300 in turn", 2, [&mut ccbox, &mut bwrap], |c| {
        in_turn(c, BURST)
    });
    let concurrent = rate("64 at once", 4, [&mut ccbox, &mut bwrap], |c| {
        at_once(c, CONCURRENT)
    });

    let mut list = String::from("protected_paths = [");
    for n in 0..PROTECTED {
        let _ = write!(list, "\"ws/prot{n}\", ");
        fs::write(plain.ws.join(format!("prot{n}")), "").unwrap();
    }
    list.push(']');
    let mut many = plain.run("protected.toml", &list, PATTERNS);
    let protected = compare(
        pairs,
        [("1,000 protected", &mut many), ("none", &mut ccbox)],
    );
    println!();

    let desk = Desk::new(place.path(), "repositories");
    repositories(&desk.ws);
    let mut many = desk.run("spec.toml", "", PATTERNS);
    let repositories = compare(
        pairs,
        [("200 repositories", &mut many), ("none", &mut ccbox)],
    );
    println!();

    let desk = Desk::new(place.path(), "files");
    files(&desk.ws);
    let mut many = desk.run("spec.toml", "", PATTERNS);
    let files = compare(pairs, [("50,000 files", &mut many), ("none", &mut ccbox)]);
    println!();

    let verdicts = [
        common::verdict("a start over bwrap's", start.times, START_BUDGET, "times"),
        common::verdict("runs in turn", burst, BURST_BUDGET, "times"),
        common::verdict("runs at once", concurrent, CONCURRENT_BUDGET, "times"),
        common::verdict(
            "1,000 protected paths",
            protected.more,
            PROTECTED_BUDGET_MS,
            "ms",
        ),
        common::verdict("200 repositories", repositories.more, TREE_BUDGET_MS, "ms"),
        common::verdict("50,000 files", files.more, TREE_BUDGET_MS, "ms"),
    ];
    if verdicts.iter().all(|v| *v == ExitCode::SUCCESS) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
