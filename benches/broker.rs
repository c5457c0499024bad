//! What the creation broker costs: work on 20,000 small files inside ccbox against the same inside a bare `bwrap`.
//!
//! A third column is the same in `bwrap` when the same calls trap and are let through, which is the least that a broker can cost.
//!
//! The files lie on tmpfs, where the work itself is cheapest and the broker's share is largest; `DIR` names another file
//! system, whose figures are printed and not judged. The time is taken inside, around the work alone. Pairs take turns.
//!
//! `cargo bench --bench broker -- [--guard] [ROUNDS] [DIR] [WORK...]`; `--guard` fails only at twice a limit.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::format_push_string,
    reason = "a benchmark ends by panicking"
)]
#![allow(missing_docs, reason = "a program")]

#[allow(dead_code, reason = "the verdict here is a table")]
mod common;
#[path = "common/trap.rs"]
mod trap;
#[path = "common/work.rs"]
mod work;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;

/// What tar does by itself unless it runs as root: owners and modes are not set again, file by file.
const AS_USER: [&str; 2] = ["--no-same-owner", "--no-same-permissions"];
/// What the run asks for: names, a path of several components, and exceptions. None is hit by the work.
const RULES: &str = r#"
[filesystem]
deny_write = [".env", "*.pem", "**/conf/*.key", ".secrets/**"]
"#;

/// One kind of work, and what it may cost at most as a multiple of bwrap's time.
struct Work {
    name: &'static str,
    limit: f64,
}

const WORKS: [Work; 8] = [
    Work {
        name: "untar",
        limit: 2.2,
    },
    Work {
        name: "checkout",
        limit: 2.0,
    },
    Work {
        name: "copy",
        limit: 1.8,
    },
    Work {
        name: "remove",
        limit: 3.0,
    },
    // Nothing but the calls that trap, which no program makes without others.
    Work {
        name: "times",
        limit: 12.0,
    },
    Work {
        name: "owner",
        limit: 12.0,
    },
    Work {
        name: "read",
        limit: 1.10,
    },
    Work {
        name: "open",
        limit: 1.2,
    },
];

fn sh(dir: &Path, program: &str, args: &[&str]) {
    let status = Command::new(program)
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .expect("the program starts");
    assert!(status.success(), "{program} {args:?}: {status}");
}

/// Work inside the sandbox.
fn inner(work: &str, ws: &Path) {
    match work {
        "untar" => sh(
            ws,
            "tar",
            &[&AS_USER[..], &["-xf", "files.tar", "-C", "out"]].concat(),
        ),
        "checkout" => sh(ws, "git", &["-C", "clone", "checkout", "-q", "-f", "HEAD"]),
        "copy" => sh(ws, "cp", &["-r", "files", "out/copy"]),
        "remove" => sh(ws, "rm", &["-rf", "out/copy"]),
        "times" => {
            for n in 0..work::FILES {
                let path = ws.join(work::file(n));
                let at = TimeSpec::new(1_000_000_000, 0);
                utimensat(AT_FDCWD, &path, &at, &at, UtimensatFlags::NoFollowSymlink).unwrap();
            }
        }
        "owner" => {
            for n in 0..work::FILES {
                std::os::unix::fs::lchown(ws.join(work::file(n)), None, None).unwrap();
            }
        }
        "build" => sh(&ws.join("crate"), "cargo", &["build", "--offline", "-q"]),
        _ => panic!("{work}"),
    }
}

fn fixture(ws: &Path) {
    work::plant(ws);
    sh(ws, "tar", &["-cf", "files.tar", "files"]);
    sh(ws, "cp", &["-r", "files", "source"]);
    let source = ws.join("source");
    sh(&source, "git", &["init", "-q"]);
    sh(&source, "git", &["add", "-A"]);
    let who = ["-c", "user.name=b", "-c", "user.email=b@example.org"];
    sh(
        &source,
        "git",
        &[&who[..], &["commit", "-q", "-m", "files"]].concat(),
    );
    fs::create_dir(ws.join("out")).unwrap();
    fs::create_dir_all(ws.join("crate/src")).unwrap();
    fs::write(
        ws.join("crate/Cargo.toml"),
        "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
    )
    .unwrap();
    let (mut modules, mut calls) = (String::new(), String::new());
    for n in 0..20 {
        modules +=
            &format!("mod m{n} {{ pub fn f(x: u64) -> String {{ format!(\"{{x}}{n}\") }} }}\n");
        calls += &format!("println!(\"{{}}\", m{n}::f({n}));\n");
    }
    let main = format!("{modules}fn main() {{ {calls} }}\n");
    fs::write(ws.join("crate/src/main.rs"), main).unwrap();
}

/// Brings the tree into the state before the work, from outside.
fn prepare(work: &str, ws: &Path) {
    let out = ws.join("out");
    match work {
        "untar" | "copy" => {
            fs::remove_dir_all(&out).unwrap();
            fs::create_dir(&out).unwrap();
        }
        "checkout" => {
            let clone = ws.join("clone");
            if clone.exists() {
                fs::remove_dir_all(&clone).unwrap();
            }
            sh(
                ws,
                "git",
                &["clone", "-q", "-s", "--no-checkout", "source", "clone"],
            );
        }
        "remove" => {
            fs::remove_dir_all(&out).unwrap();
            fs::create_dir(&out).unwrap();
            sh(ws, "cp", &["-r", "files", "out/copy"]);
        }
        "build" if ws.join("crate/target").exists() => {
            fs::remove_dir_all(ws.join("crate/target")).unwrap();
        }
        _ => {}
    }
}

struct Place {
    ws: PathBuf,
    home: PathBuf,
    spec: PathBuf,
}

impl Place {
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("HOME", &self.home)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .current_dir(&self.ws)
            .stdin(Stdio::null());
        command
    }

    fn boxed(&self, binary: &str) -> Command {
        let mut command = self.command(binary);
        command.args(["run", "--spec"]).arg(&self.spec).arg("--");
        command
    }

    fn bare(&self) -> Command {
        let mut command = self.command("bwrap");
        work::bare(&mut command, &self.ws);
        command
    }

    /// Bare `bwrap` once more, for a `trapped` bench inside.
    fn trapped(&self, work: &str) -> f64 {
        prepare(work, &self.ws);
        work::time_with(self.bare(), &["--trapped"], work, &self.ws)
    }

    fn time(&self, mut command: Command, work: &str) -> f64 {
        prepare(work, &self.ws);
        if let ("build", Some(home)) = (work, std::env::var_os("HOME")) {
            // The toolchain is the user's own.
            command.env("HOME", home);
        }
        work::time(command, work, &self.ws)
    }
}

/// The ratio of the minima and the median one, where traps alone were timed.
fn least(traps: &[f64], bare: &[f64]) -> String {
    if traps.is_empty() {
        return String::new();
    }
    let ratios: Vec<f64> = traps.iter().zip(bare).map(|(a, b)| a / b).collect();
    let (traps, bare) = (common::Spread::of(traps), common::Spread::of(bare));
    format!(
        "{:6.2}    {:6.2}",
        traps.min / bare.min,
        common::Spread::of(&ratios).p50
    )
}

fn main() -> ExitCode {
    common::without_inherited_descriptors();
    let args: Vec<String> = std::env::args().collect();
    if args.iter().any(|a| a == "--trapped") {
        trap::trapped(move || {
            work::inside(&args, inner);
        });
        return ExitCode::SUCCESS;
    }
    if work::inside(&args, inner) {
        return ExitCode::SUCCESS;
    }
    let rounds: usize = args.iter().find_map(|a| a.parse().ok()).unwrap_or(5);
    let dir = args.iter().skip(1).find(|a| a.starts_with('/'));
    let judged = dir.is_none();
    let top = dir.map_or("/dev/shm", String::as_str);
    let top = tempfile::tempdir_in(top).unwrap();
    let place = Place {
        ws: top.path().join("ws"),
        home: top.path().join("home"),
        spec: top.path().join("spec.toml"),
    };
    fs::create_dir(&place.ws).unwrap();
    fs::create_dir(&place.home).unwrap();
    let allow = format!("allow_write = [\"{}\"]\n", place.ws.display());
    fs::write(&place.spec, format!("profile = \"dev\"\n{RULES}{allow}")).unwrap();
    fixture(&place.ws);
    let binary =
        std::env::var("CCBOX_TEST_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_ccbox").to_owned());

    println!(
        "{rounds} pairs, minima in ms, ratio of minima and median ratio of pairs, in {}",
        top.path().display()
    );
    println!("work        bwrap     ccbox   ratio  of pairs  (limit)   traps  of pairs");
    let mut over = false;
    let build = Work {
        name: "build",
        limit: 1.03,
    };
    let all = WORKS.iter().chain([&build]);
    let wanted = |work: &&Work| args.iter().any(|a| a == work.name);
    let some = all.clone().any(|work| wanted(&work));
    for work in all.filter(|work| !some || wanted(work)) {
        let (mut ours, mut theirs, mut traps) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..rounds {
            if n % 2 == 0 {
                ours.push(place.time(place.boxed(&binary), work.name));
                theirs.push(place.time(place.bare(), work.name));
            } else {
                theirs.push(place.time(place.bare(), work.name));
                ours.push(place.time(place.boxed(&binary), work.name));
            }
            if !matches!(work.name, "build" | "read" | "open") {
                traps.push(place.trapped(work.name));
            }
        }
        let (a, b) = (common::Spread::of(&ours), common::Spread::of(&theirs));
        let ratio = a.min / b.min;
        let pairs: Vec<f64> = ours.iter().zip(&theirs).map(|(a, b)| a / b).collect();
        let pairs = common::Spread::of(&pairs).p50;
        let least = least(&traps, &theirs);
        println!(
            "{:9} {:8.1}  {:8.1}  {ratio:6.2}    {pairs:6.2}  ({:.2})  {least}",
            work.name, b.min, a.min, work.limit
        );
        // On a machine that does other things meanwhile either figure alone may be somebody else's.
        let factor = if common::guarded() { 2.0 } else { 1.0 };
        over |= judged && ratio.min(pairs) > work.limit * factor;
    }
    if over {
        println!(
            "OVER {}",
            if common::guarded() {
                "twice a limit"
            } else {
                "a limit"
            }
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
