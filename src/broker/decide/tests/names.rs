//! Property: no sequence of operations brings anything the child made or wrote under a denied name, or takes anything
//! denied from it.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::model::{Broker, Fs, Inode, Op};
use super::*;

const NAMES: [&str; 13] = [
    "a",
    "A",
    "b",
    "c",
    "p",
    "q",
    "r",
    ".env",
    ".ENV",
    "k.pem",
    "node_modules",
    "lock.json",
    "zz",
];

fn set() -> RuleSet {
    RuleSet::new(
        vec![root("/w")],
        vec![
            exact("/w/a/b"),
            exact("/w/c/a/q"),
            Rule::Repository(bytes("c/lock.json")),
            pattern(".env"),
            pattern("**/p/q/r"),
            pattern("a/**/r"),
            pattern("./**/zz"),
            pattern("/w/b/*.pem"),
            built_in("*.pem"),
        ],
        exceptions(&["node_modules/**/*.pem"]),
        GitRules::Off,
    )
}

/// Not a file extension: the bytes at the end of a name.
fn ends(name: &str, end: &str) -> bool {
    name.as_bytes().ends_with(end.as_bytes())
}

/// The same rules once more, written down plainly: the oracle. `old` are the work trees.
fn denied(path: &[String], old: &[Vec<String>]) -> bool {
    let low: Vec<String> = path
        .iter()
        .map(|c| String::from_utf8(fold(c.as_bytes(), NameRules::Unix).into_owned()).unwrap())
        .collect();
    let below = |rule: &str| {
        let rule = super::super::model::split(rule);
        low.len() >= rule.len() && low.iter().zip(rule).all(|(a, b)| a == b)
    };
    let old_file = old.iter().any(|top| {
        path.starts_with(top) && {
            let rel = &low[top.len()..];
            rel.len() >= 2 && rel[0] == "c" && rel[1] == "lock.json"
        }
    });
    let named = (2..=low.len()).any(|n| {
        let name = &low[n - 1];
        let pem = ends(name, ".pem");
        let lifted = (2..=n).any(|m| {
            ends(&path[m - 1], ".pem") && path[..m - 1].iter().any(|c| c == "node_modules")
        });
        name == ".env"
            || name == "zz"
            || n >= 3 && low[n - 3..n] == ["p", "q", "r"]
            || name == "r" && low[..n - 1].contains(&"a".to_owned())
            || pem && n == 3 && low[1] == "b"
            || pem && !lifted
    });
    below("/w/a/b") || below("/w/c/a/q") || old_file || named
}

/// Paths on the way of the rules: half of all operations are about them.
const WAYS: [&str; 20] = [
    "/w/a",
    "/w/a/b",
    "/w/a/b/keep",
    "/w/c",
    "/w/c/a",
    "/w/c/a/q",
    "/w/c/c",
    "/w/c/c/lock.json",
    "/w/p",
    "/w/p/q",
    "/w/p/q/r",
    "/w/q",
    "/w/q/p",
    "/w/q/p/q",
    "/w/q/p/q/r",
    "/w/q/q",
    "/w/q/r",
    "/w/q/c",
    "/w/q/c/lock.json",
    "/w/b/k.pem",
];

/// One operation by numbers, which shrink well: kind, directory and name, twice.
type Pick = (u8, u8, u8, u8, u8);

fn op(fs: &Fs, (kind, dir, name, dir2, name2): Pick) -> Op {
    let folders: Vec<String> = fs
        .walk()
        .into_iter()
        .filter(|(_, i)| fs.kind(Some(*i)) == Kind::Dir)
        .map(|(p, _)| format!("/{}", p.join("/")))
        .collect();
    let path = |dir: u8, name: u8| {
        if dir >= 128 {
            return WAYS[name as usize % WAYS.len()].to_owned();
        }
        let parent = &folders[dir as usize % folders.len()];
        format!("{parent}/{}", NAMES[name as usize % NAMES.len()])
    };
    let one = path(dir, name);
    let two = path(dir2, name2);
    match kind % 12 {
        0 | 1 => Op::Write(one, b"new".to_vec()),
        2 | 3 => Op::Mkdir(one),
        4 => Op::Symlink(one, folders[dir2 as usize % folders.len()].clone()),
        5 => Op::Unlink(one),
        6 => Op::Rmdir(one),
        7 => Op::Link(one, two),
        8 => Op::Exchange(one, two),
        9 => Op::WriteOpen(name as usize, b"new".to_vec()),
        _ => Op::Rename(one, two),
    }
}

fn host() -> Fs {
    let mut fs = Fs::new();
    for (path, content) in [
        ("/w/a/b/keep", "old"),
        ("/w/c/c/lock.json", "old"),
        ("/w/.env", "old"),
        ("/w/p/q/r", "old"),
        ("/w/b/k.pem", "old"),
        ("/w/node_modules/p/k.pem", "old"),
        ("/w/p/a/", ""),
        ("/w/c/a/", ""),
        ("/w/q/c/", ""),
    ] {
        fs.host(path, content);
    }
    let old = fs.at(&["w", "c"]).unwrap();
    fs.old_work_trees.insert(old);
    fs
}

fn old_trees(fs: &Fs) -> Vec<Vec<String>> {
    fs.walk()
        .into_iter()
        .filter(|(_, i)| fs.old_work_trees.contains(i))
        .map(|(p, _)| p)
        .collect()
}

/// What has a denied name, by inode, and how often.
fn denied_inodes(fs: &Fs) -> BTreeMap<Inode, usize> {
    let old = old_trees(fs);
    let mut found = BTreeMap::new();
    for (path, inode) in fs.walk() {
        if denied(&path, &old) {
            *found.entry(inode).or_default() += 1;
        }
    }
    found
}

fn holds(fs: &Fs, before: &BTreeMap<Inode, usize>) -> Result<(), String> {
    let now = denied_inodes(fs);
    if let Some(inode) = now.keys().find(|i| fs.touched.contains(i)) {
        return Err(format!("inode {inode} of the child has a denied name"));
    }
    if now != *before {
        return Err(format!("denied objects changed: {before:?} {now:?}"));
    }
    let old = old_trees(fs);
    for (path, inode) in fs.walk() {
        if before.contains_key(&inode) && !denied(&path, &old) {
            return Err(format!("/{} is an alias", path.join("/")));
        }
    }
    // Through links: the host opens these paths.
    let mut paths = vec!["/w/a/b".to_owned(), "/w/c/a/q".to_owned()];
    for (dir, inode) in fs.walk() {
        if fs.kind(Some(inode)) == Kind::Dir {
            paths.push(format!("/{}/p/q/r", dir.join("/")));
        }
        if fs.old_work_trees.contains(&inode) {
            paths.push(format!("/{}/c/lock.json", dir.join("/")));
        }
    }
    for path in paths {
        if let Some(inode) = fs.resolve(&path)
            && fs.touched.contains(&inode)
        {
            return Err(format!("{path} leads to inode {inode} of the child"));
        }
    }
    Ok(())
}

/// Runs the operations; tells how many were carried out.
fn play(picks: &[Pick]) -> Result<usize, String> {
    let set = set();
    let mut broker = Broker {
        set: &set,
        root: "/w",
        fs: host(),
    };
    let before = denied_inodes(&broker.fs);
    let mut done = 0;
    let mut trace = Vec::new();
    for pick in picks {
        let op = op(&broker.fs, *pick);
        if broker.run(&op) {
            done += 1;
            trace.push(op);
            holds(&broker.fs, &before).map_err(|e| format!("{e} after {trace:#?}"))?;
        }
    }
    Ok(done)
}

#[test]
fn no_sequence_of_operations_reaches_a_denied_name() {
    let done = std::cell::Cell::new(0);
    let cases = std::env::var("CCBOX_FUZZ_CASES").map_or(600, |n| n.parse().unwrap());
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    runner
        .run(&prop::collection::vec(any::<Pick>(), 1..60), |picks| {
            done.set(done.get() + play(&picks).map_err(TestCaseError::fail)?);
            Ok(())
        })
        .unwrap();
    // Otherwise the generator has gone blind.
    assert!(done.get() > cases as usize * 3, "{}", done.get());
}

/// An empty file system.
struct Nothing;

impl Facts for Nothing {
    fn holds(&self, _: usize, _: &str) -> bool {
        false
    }

    fn is_project_git_dir(&self, _: usize) -> bool {
        false
    }

    fn is_old_work_tree(&self, _: usize) -> bool {
        false
    }
}

proptest! {
    /// The decision on one name agrees with the plain reading of the rules, whatever is asked.
    #[test]
    fn deny_always_wins(
        dirs in prop::collection::vec(prop::sample::select(NAMES.to_vec()), 0..5),
        name in prop::sample::select(NAMES.to_vec()),
        which in 0_usize..10,
    ) {
        let set = set();
        let below: Vec<&[u8]> = dirs.iter().map(|c| c.as_bytes()).collect();
        let dir = Dir::new(&set, 0, &below).unwrap();
        let at = Target { dir: &dir, name: name.as_bytes(), kind: Kind::File, facts: &Nothing };
        let action = [
            Action::Write, Action::Mkdir, Action::Mknod, Action::Bind, Action::LinkTo(Kind::File), Action::LinkFrom,
            Action::RenameTo(Kind::File), Action::Unlink, Action::Rmdir, CHMOD,
        ][which];
        let path: Vec<String> = std::iter::once("w").chain(dirs.iter().copied()).chain([name]).map(str::to_owned).collect();
        let verdict = decide(&set, action, &at);
        prop_assert_eq!(matches!(verdict, Verdict::Deny(_)), denied(&path, &[]), "{:?} {:?}", path, verdict);
        let unnamed = decide_unnamed(&set, &dir, &Nothing);
        prop_assert_eq!(matches!(unnamed, Verdict::Deny(_)), denied(&path[..path.len() - 1], &[]), "{:?}", path);
    }
}
