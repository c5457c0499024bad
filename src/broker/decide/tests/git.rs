//! Property: whatever the child does, git finds no settings of the child's own making in any directory it takes for a git
//! directory. The oracle is git's own rule for what one is, written down apart from `git_paths`.

use proptest::prelude::*;

use super::super::model::{Broker, Fs, Inode, Op};
use super::*;
use crate::broker::gate;

const SAFE: &str = "[core]\n\tbare = false\n";
const EVIL: &str = "[core]\n\tfsmonitor = evil\n";

fn set() -> RuleSet {
    RuleSet::new(vec![root("/w")], vec![], vec![], GitRules::Preset)
}

/// What git reads settings from at `dir`, if it takes it for a git directory: the directory itself and the common one.
fn git_reads(fs: &Fs, dir: &str) -> Option<(String, String)> {
    let inode = fs.resolve(dir)?;
    let head = fs.child(inode, "HEAD")?;
    let common = match fs.resolve(&format!("{dir}/commondir")) {
        Some(file) => {
            let text = String::from_utf8(fs.content(Some(file))?.to_vec()).ok()?;
            let text = text.trim_end_matches('\n').to_owned();
            if text.starts_with('/') {
                text
            } else {
                format!("{dir}/{text}")
            }
        }
        None => dir.to_owned(),
    };
    fs.resolve(&format!("{common}/objects"))?;
    fs.resolve(&format!("{common}/refs"))?;
    (fs.kind(Some(head)) != Kind::Dir).then(|| (dir.to_owned(), common))
}

/// What in it would run or select what the child made.
fn finds(fs: &Fs, (dir, common): &(String, String)) -> Option<String> {
    let touched = |path: &str| -> Vec<(String, Inode)> {
        fs.resolve(path)
            .map_or(vec![], |i| fs.entries(i))
            .into_iter()
            .filter(|(name, i)| {
                !name.ends_with(".sample")
                    && fs.kind(fs.resolve(&format!("{path}/{name}"))) != Kind::Dir
                    && (fs.touched.contains(i)
                        || fs
                            .resolve(&format!("{path}/{name}"))
                            .is_some_and(|i| fs.touched.contains(&i)))
            })
            .collect()
    };
    for path in [
        format!("{common}/config"),
        format!("{dir}/config.worktree"),
        format!("{common}/config.worktree"),
    ] {
        if let Some(config) = fs.content(fs.resolve(&path))
            && gate::compare(b"", config).is_err()
        {
            return Some(path);
        }
    }
    for path in ["hooks", "remotes", "branches"] {
        let path = format!("{common}/{path}");
        if !touched(&path).is_empty() {
            return Some(path);
        }
    }
    let attributes = format!("{common}/info/attributes");
    fs.resolve(&attributes)
        .is_some_and(|i| fs.touched.contains(&i))
        .then_some(attributes)
}

/// Directories that git takes for git directories, and the first that the child got at.
fn look(fs: &Fs) -> (usize, Option<String>) {
    let mut taken = 0;
    for (path, inode) in fs.walk() {
        if fs.kind(Some(inode)) == Kind::Dir
            && let Some(reads) = git_reads(fs, &format!("/{}", path.join("/")))
        {
            taken += 1;
            if let Some(found) = finds(fs, &reads) {
                return (taken, Some(format!("{found} of {}", reads.0)));
            }
        }
    }
    (taken, None)
}

const NAMES: [&str; 22] = [
    ".git",
    ".git",
    "HEAD",
    "refs",
    "objects",
    "config",
    "config.lock",
    "config.worktree",
    "hooks",
    "worktrees",
    "worktrees",
    "commondir",
    "info",
    "attributes",
    "remotes",
    "pre-commit",
    "a.sample",
    "x",
    "y",
    "z",
    "HEAD",
    "refs",
];
const CONTENTS: [&str; 7] = [SAFE, EVIL, EVIL, "../..\n", "../..", "../x", "/w/y"];

type Pick = (u8, u8, u8, u8, u8, u8);

fn ops(fs: &Fs, (kind, dir, name, dir2, name2, content): Pick) -> Vec<Op> {
    let folders: Vec<String> = fs
        .walk()
        .into_iter()
        .filter(|(_, i)| fs.kind(Some(*i)) == Kind::Dir)
        .map(|(p, _)| format!("/{}", p.join("/")))
        .collect();
    let everything: Vec<String> = fs
        .walk()
        .into_iter()
        .filter(|(p, _)| p.len() > 1)
        .map(|(p, _)| format!("/{}", p.join("/")))
        .collect();
    let within = |dir: u8| folders[dir as usize % folders.len()].clone();
    let path =
        |dir: u8, name: u8| format!("{}/{}", within(dir), NAMES[name as usize % NAMES.len()]);
    let existing = |at: u8| everything[at as usize % everything.len()].clone();
    let one = path(dir, name);
    let two = path(dir2, name2);
    let bytes = |n: u8| CONTENTS[n as usize % CONTENTS.len()].as_bytes().to_vec();
    match kind % 16 {
        0 => vec![Op::Write(one, bytes(content))],
        1 => vec![Op::Mkdir(one)],
        2 => vec![Op::Symlink(one, within(dir2))],
        3 => vec![Op::Symlink(one, existing(dir2))],
        4 => vec![Op::Unlink(existing(dir)), Op::Rmdir(existing(dir2))],
        5 => vec![Op::Link(existing(dir), two)],
        6 => vec![Op::Exchange(existing(dir), existing(dir2))],
        7 => vec![Op::WriteOpen(name as usize, bytes(content))],
        8 => vec![Op::Unlink(format!("{}/HEAD", within(dir)))],
        9 | 10 => vec![Op::Rename(existing(dir), two)],
        11 => vec![
            Op::Write(format!("{}/config.lock", within(dir)), bytes(content)),
            Op::Rename(
                format!("{}/config.lock", within(dir)),
                format!("{}/config", within(dir)),
            ),
        ],
        // What a repository is made of, in an order of its own.
        _ => plant(&within(dir), name, name2, &bytes(content)),
    }
}

fn plant(dir: &str, which: u8, order: u8, content: &[u8]) -> Vec<Op> {
    let file = |name: &str, content: &[u8]| Op::Write(format!("{dir}/{name}"), content.to_vec());
    let make = |name: &str| Op::Mkdir(format!("{dir}/{name}"));
    let mut all = vec![
        vec![file("HEAD", b"ref: refs/heads/main\n")],
        vec![make("refs")],
        vec![make("objects")],
        vec![file("config", EVIL.as_bytes())],
        vec![make("hooks"), file("hooks/pre-commit", b"evil")],
        vec![file("commondir", content)],
        vec![
            make("worktrees"),
            make("worktrees/x"),
            file("worktrees/x/commondir", b"../..\n"),
            file("worktrees/x/HEAD", b""),
        ],
        vec![make("info"), file("info/attributes", b"evil")],
    ];
    let mut picked = Vec::new();
    let mut order = order as usize;
    while !all.is_empty() {
        let at = order % all.len();
        order = order / 2 + at + 1;
        let (bit, ops) = (all.len(), all.remove(at));
        if which >> (bit - 1) & 1 == 0 {
            picked.extend(ops);
        }
    }
    picked
}

fn host() -> Fs {
    let mut fs = Fs::new();
    for (path, content) in [
        ("/w/.git/HEAD", "ref: refs/heads/main\n"),
        ("/w/.git/config", SAFE),
        ("/w/.git/refs/", ""),
        ("/w/.git/objects/", ""),
        ("/w/.git/hooks/pre-commit", "the user's"),
        ("/w/.git/info/exclude", ""),
        ("/w/.git/refs/remotes/origin/HEAD", "ref: x\n"),
        ("/w/.git/worktrees/x/HEAD", "ref: x\n"),
        ("/w/.git/worktrees/x/commondir", "../..\n"),
        ("/w/x/", ""),
        ("/w/y/z/", ""),
    ] {
        fs.host(path, content);
    }
    let git = fs.at(&["w", ".git"]).unwrap();
    fs.project_git_dirs.insert(git);
    fs
}

fn play(picks: &[Pick]) -> Result<usize, String> {
    let set = set();
    let mut broker = Broker {
        set: &set,
        root: "/w",
        fs: host(),
    };
    let mut trace = Vec::new();
    let mut most = 0;
    for pick in picks {
        for op in ops(&broker.fs, *pick) {
            if broker.run(&op) {
                trace.push(op);
                let (taken, found) = look(&broker.fs);
                most = most.max(taken);
                if let Some(found) = found {
                    return Err(format!("git reads {found} after {trace:#?}"));
                }
            }
        }
    }
    Ok(most)
}

#[test]
fn git_never_finds_settings_of_the_child() {
    let made = std::cell::Cell::new(0);
    let cases = std::env::var("CCBOX_FUZZ_CASES").map_or(600, |n| n.parse().unwrap());
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    });
    runner
        .run(&prop::collection::vec(any::<Pick>(), 1..24), |picks| {
            let most = play(&picks).map_err(TestCaseError::fail)?;
            // The host's own two are always there.
            made.set(made.get() + u32::from(most > 2));
            Ok(())
        })
        .unwrap();
    // The child must be able to make repositories, or the property says nothing.
    assert!(made.get() * 25 > cases, "{}", made.get());
}
