//! Memory: the sum of the proportional set sizes of ccbox's own processes (ccbox, bwrap's monitor, the inner stage)
//! while a command runs and after its first tunnel. The command's own processes do not count.
//!
//! `cargo bench --bench memory [-- --guard]`
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark ends by panicking"
)]
#![allow(missing_docs, reason = "a program")]

#[allow(dead_code, reason = "one value needs no statistics")]
mod common;
#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/lab/lab.rs"]
mod lab;

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{ExitCode, Stdio};

use lab::{CCBOX, Caller, Lab};

const BUDGET_MIB: f64 = 12.0;

/// pid, parent and name of the executable of every process.
fn processes() -> HashMap<u32, (u32, String)> {
    let mut all = HashMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        let Ok(status) = fs::read_to_string(entry.path().join("status")) else {
            continue;
        };
        let parent = status
            .lines()
            .find_map(|l| l.strip_prefix("PPid:"))
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let exe = fs::read_link(entry.path().join("exe")).unwrap_or_default();
        let name = exe
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        all.insert(pid, (parent, name));
    }
    all
}

fn pss_kib(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
        .expect("readable, which needs root: ccbox is not dumpable");
    let line = text.lines().find_map(|l| l.strip_prefix("Pss:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn main() -> ExitCode {
    common::without_inherited_descriptors();
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let script = format!(
        "curl -s --cacert {} https://allowed.test/; curl -s http://allowed.test/; echo up; cat",
        lab::CA
    );
    let run = desk.boxed(&["allowed.test"], &["sh", "-c", &script]);
    let mut child = run
        .to_command()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|l| l.unwrap() == "up"), "the command runs");

    let all = processes();
    let below = |mut pid: u32| {
        while let Some((parent, _)) = all.get(&pid) {
            if *parent == child.id() {
                return true;
            }
            pid = *parent;
        }
        false
    };
    let mut own: Vec<u32> = all
        .keys()
        .copied()
        .filter(|p| below(*p) && ["ccbox", "bwrap"].contains(&all[p].1.as_str()))
        .collect();
    own.sort_unstable();
    assert!(
        own.iter().any(|p| all[p].1 == "ccbox"),
        "{CCBOX} runs below {}",
        child.id()
    );
    let mut sum = 0;
    for pid in own {
        let pss = pss_kib(pid);
        println!("{pid:8} {:6} {pss:6} KiB", all[&pid].1);
        sum += pss;
    }
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    #[allow(clippy::cast_precision_loss, reason = "a size to print")]
    let mib = sum as f64 / 1024.0;
    common::verdict("memory of ccbox's own processes", mib, BUDGET_MIB, "MiB")
}
