//! Random operations on git directories, from many processes and two sandboxes at once: git outside finds nothing of them.

use crate::lab::{Caller, Desk, Lab};

const ATTACKER: &str = include_str!("../it/git/attacker.py");
const ORACLE: &str = include_str!("../it/git/oracle.py");

/// `workers` processes in the workspace, each with its own seed.
fn attack(seed: usize, workers: usize, inner: &str) -> [String; 3] {
    let seeds = (0..workers)
        .map(|w| format!("{}", seed * 100 + w))
        .collect::<Vec<_>>()
        .join(" ");
    let script =
        format!("for s in {seeds}; do /usr/bin/python3 {inner}/attacker.py $s 600 & done; wait");
    ["sh".into(), "-c".into(), script]
}

/// What the host's git would run or believe, and how many directories it takes for git directories.
fn found(desk: &Desk<'_>) -> (usize, Vec<String>) {
    let oracle = format!("{}/oracle.py", desk.inner);
    let out = desk
        .control(&["/usr/bin/python3", &oracle, "/usr/bin/git"])
        .output()
        .success();
    let mut lines: Vec<String> = out.stdout.lines().map(str::to_owned).collect();
    let taken = lines.pop().unwrap().parse().unwrap();
    (taken, lines)
}

fn desk(lab: &Lab) -> Desk<'_> {
    let desk = lab.desk(Caller::User);
    desk.write("attacker.py", ATTACKER)
        .write("oracle.py", ORACLE);
    desk
}

/// The control: outside something is found.
#[test]
fn random_attacks_outside_are_found() {
    let lab = Lab::start();
    let mut finds = 0;
    for seed in 0..8 {
        let desk = desk(&lab);
        desk.control(&attack(seed, 1, &desk.inner))
            .output()
            .success();
        finds += found(&desk).1.len();
    }
    assert!(finds > 4, "{finds}");
}

#[test]
fn random_attacks_from_many_processes_leave_nothing_that_git_believes() {
    let lab = Lab::start();
    let mut taken = 0;
    for seed in 0..80 {
        let desk = desk(&lab);
        let argv = attack(seed, 1 + seed % 4, &desk.inner);
        let out = desk.boxed(&[], &argv).output().success();
        assert_eq!(
            out.stdout.matches("__done__").count(),
            1 + seed % 4,
            "{out}"
        );
        let (git_dirs, finds) = found(&desk);
        taken += git_dirs;
        assert!(finds.is_empty(), "seed {seed}: {finds:#?}");
    }
    assert!(taken > 40, "they still make git directories: {taken}");
}

/// Two runs on one tree decide as one.
#[test]
fn random_attacks_from_two_sandboxes_leave_nothing_that_git_believes() {
    let lab = Lab::start();
    for seed in 1000..1040 {
        let desk = desk(&lab);
        let other = desk.boxed(&[], &attack(seed, 2, &desk.inner));
        let other = crate::spawn(&other);
        let out = desk
            .boxed(&[], &attack(seed + 500, 2, &desk.inner))
            .output()
            .success();
        assert_eq!(out.stdout.matches("__done__").count(), 2, "{out}");
        let (code, stdout, stderr) = crate::text(other);
        assert_eq!(
            (code, stdout.matches("__done__").count()),
            (Some(0), 2),
            "{stderr}"
        );
        let finds = found(&desk).1;
        assert!(finds.is_empty(), "seed {seed}: {finds:#?}");
    }
}
