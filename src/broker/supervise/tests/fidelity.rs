//! On names that are allowed a confined thread sees what the kernel does: the same calls outside and inside give the same results, the
//! same errnos and the same tree.

mod ops;

use std::path::Path;

use proptest::prelude::*;

use super::harness::{Setup, scratch};
use ops::{Op, prepare, run, tree};

/// What the operations leave and answer, in a fresh directory.
fn outside(ops: &[Op]) -> (Vec<String>, Vec<String>) {
    let (_keep, dir) = scratch();
    prepare(&dir);
    let ops = ops.to_vec();
    let setup = Setup::new(&dir);
    let results = setup.outside(move || run(&ops));
    (results, tree(&dir))
}

fn inside(ops: &[Op], setup: impl FnOnce(&Path) -> Setup) -> (Vec<String>, Vec<String>) {
    let (_keep, dir) = scratch();
    prepare(&dir);
    let ops = ops.to_vec();
    let (results, denials) = setup(&dir).run(move || run(&ops));
    assert_eq!(denials, []);
    (results, tree(&dir))
}

/// Without the long names.
fn brief(op: &Op) -> String {
    format!("{op:?}")
        .replace(&"./".repeat(50), "")
        .replace(&"n".repeat(50), "")
}

/// What differs, in words.
fn differences(ops: &[Op]) -> Vec<String> {
    let expected = outside(ops);
    let got = inside(ops, |dir| {
        Setup::new(dir).pattern("*.denied").pattern("deny/*/x")
    });
    let mut all = Vec::new();
    for ((op, expected), got) in ops.iter().zip(&expected.0).zip(&got.0) {
        if got != expected {
            all.push(format!("{}: {got}, not {expected}", brief(op)));
        }
    }
    if all.is_empty() && got.1 != expected.1 {
        all.push(format!(
            "after {ops:?}: {:#?}, not {:#?}",
            got.1, expected.1
        ));
    }
    all
}

#[test]
fn every_operation_on_every_kind_of_path() {
    let all = ops::table();
    assert!(all.len() > 1500, "{}", all.len());
    // A fresh tree for a few, so that one does not hide the next.
    let wrong: Vec<String> = all.chunks(100).flat_map(differences).collect();
    assert!(
        wrong.is_empty(),
        "{} of {}\n{}",
        wrong.len(),
        all.len(),
        wrong.join("\n")
    );
}

/// Files of other owners and files with flags, which only root can make: `theirs` of uid 1, `flags` with what chattr(1) knows. On a drop
/// the flags are gone, or nothing could be removed.
struct Others(Option<std::path::PathBuf>);

impl Others {
    fn new(dir: &Path) -> Self {
        if !nix::unistd::geteuid().is_root() {
            return Self(None);
        }
        // The places are the caller's, where whoever owns one could do more.
        let script = "
            set -e
            cd \"$1\"
            mkdir -m 755 theirs; mkdir -m 1777 theirs/sticky; mkdir theirs/group; mkdir flags
            for d in theirs theirs/sticky; do
                echo x >$d/closed; echo x >$d/open; mkdir $d/dir; ln -s open $d/link
                chmod 600 $d/closed; chmod 666 $d/open; chmod 777 $d/dir
                chown -h 1:1 $d/closed $d/open $d/dir $d/link
            done
            chown 1:1 theirs/sticky; chown 0:1 theirs/group; chmod 2777 theirs/group
            for f in append immutable; do
                echo x >flags/$f; mkdir flags/$f-dir; echo x >flags/$f-dir/file
            done
            chattr +a flags/append flags/append-dir; chattr +i flags/immutable flags/immutable-dir";
        let made = std::process::Command::new("/bin/sh")
            .args(["-c", script, "sh"])
            .arg(dir)
            .output()
            .unwrap();
        // On a file system without such flags the rest is compared.
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(made.status.success() || said.contains("chattr"), "{said}");
        Self(Some(dir.join("flags")))
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        if let Some(flags) = &self.0 {
            let done = std::process::Command::new("chattr")
                .args(["-R", "-f", "-a", "-i"])
                .arg(flags)
                .status();
            assert!(done.is_ok());
        }
    }
}

/// A program with everything that is no single operation: descriptors, limits, modes, long chains, threads.
#[test]
fn a_program_sees_the_same() {
    let run = || {
        let out = std::process::Command::new("/usr/bin/python3")
            .args(["-c", include_str!("fidelity/calls.py")])
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(out.status.success(), "{}", text(&out.stderr));
        text(&out.stdout)
    };
    let (_keep, dir) = scratch();
    let _others = Others::new(&dir);
    let expected = Setup::new(&dir).outside(run);
    assert!(expected.lines().count() > 300, "{expected}");
    let (_keep, other) = scratch();
    let _others = Others::new(&other);
    let setup = Setup::new(&other).pattern("*.denied").pattern("deny/*/x");
    let (got, denials) = setup.run(run);
    let pairs = got.lines().zip(expected.lines());
    let wrong: Vec<_> = pairs.filter(|(got, expected)| got != expected).collect();
    assert!(wrong.is_empty(), "inside and outside: {wrong:#?}");
    assert_eq!(got.lines().count(), expected.lines().count());
    assert_eq!(denials, []);
    assert_eq!(tree(&other), tree(&dir));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn random_sequences(ops in prop::collection::vec(ops::any(), 1..60)) {
        let wrong = differences(&ops);
        prop_assert!(wrong.is_empty(), "{}\n{ops:#?}", wrong.join("\n"));
    }
}
