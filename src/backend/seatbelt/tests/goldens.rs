//! Whole profiles to look at when they change, one for each kind of rule; the evaluator reads each of them too.

use std::path::Path;
use std::time::{Duration, Instant};

use super::cases::{chat, profile};
use super::evaluator::parse;
use super::model::{HOME, mac};
use crate::host::fs_view::FakeFs;
use crate::plan::fixture::{bind, entry, origin};
use crate::policy::path::{ListKind, PathEntry};
use crate::policy::{NetworkMode, Policy, Ruled};

const PROJ: &str = "/Users/dev/w/proj";

/// The profile, and nothing that its reader does not know.
#[track_caller]
fn shown(p: &Policy, fs: &FakeFs) -> String {
    let text = profile(p, fs).unwrap();
    assert!(parse(&text).unwrap().len() > 15);
    text
}

fn pattern(text: &str) -> Ruled<PathEntry> {
    let value = PathEntry::parse(
        text,
        false,
        ListKind::DenyWrite,
        Path::new(PROJ),
        Path::new(HOME),
    );
    Ruled {
        value: value.unwrap(),
        origin: origin(3),
    }
}

#[test]
fn read_only_inside_writable_and_writable_inside_that() {
    let mut p = chat();
    p.fs.binds.push(bind("/Users/dev/w/proj/vendor", true));
    p.fs.binds.push(bind("/Users/dev/w/proj/vendor/gen", false));
    insta::assert_snapshot!(
        "nested",
        shown(&p, &mac().dir("/Users/dev/w/proj/vendor/gen"))
    );
}

#[test]
fn a_protected_checkout_with_a_worktree_elsewhere() {
    let main = "/Users/dev/w/main/.git";
    let link = "gitdir: /Users/dev/w/main/.git/worktrees/tree\n";
    let fs = mac()
        .file("/Users/dev/w/tree/.git", link)
        .file(format!("{main}/HEAD"), "ref: refs/heads/main\n")
        .dir(format!("{main}/objects"))
        .dir(format!("{main}/refs"))
        .dir(format!("{main}/hooks"))
        .file(format!("{main}/config"), "[core]\n")
        .file(format!("{main}/worktrees/tree/commondir"), "../..\n")
        .file(
            format!("{main}/worktrees/tree/gitdir"),
            "/Users/dev/w/tree/.git\n",
        );
    let mut p = chat();
    p.fs.binds.push(bind("/Users/dev/w/tree", false));
    p.fs.protected.push(entry("/Users/dev/w/main"));
    insta::assert_snapshot!("worktree", shown(&p, &fs));
}

#[test]
fn a_secret_behind_a_link_and_one_that_is_missing() {
    let fs = mac()
        .dir("/Users/dev/dot/gh")
        .link("/Users/dev/cfg", "/Users/dev/dot/gh");
    let mut p = chat();
    p.fs.deny_read.push(entry("/Users/dev/cfg"));
    p.fs.deny_read.push(entry("/Users/dev/gone/key"));
    insta::assert_snapshot!("secrets", shown(&p, &fs));
}

#[test]
fn names_and_patterns() {
    let mut p = chat();
    for name in [".env", "*.pem", "**/.husky", "src/*/secret"] {
        p.fs.deny_write.push(pattern(name));
    }
    insta::assert_snapshot!("patterns", shown(&p, &mac()));
}

#[test]
fn programs_that_are_granted() {
    let mut p = chat();
    p.exec_deny_writable = true;
    p.fs.exec_grant_roots
        .push(entry("/Users/dev/w/proj/target"));
    insta::assert_snapshot!(
        "programs",
        shown(&p, &mac().dir("/Users/dev/w/proj/target"))
    );
}

#[test]
fn a_network_that_is_off_and_one_that_is_open() {
    let mut p = chat();
    let only_network = |text: &str| {
        let at = text.find("; 8.").unwrap();
        text[at..].to_owned()
    };
    p.net.mode = NetworkMode::Off;
    let off = only_network(&shown(&p, &mac()));
    p.macos.dns = false;
    let silent = only_network(&shown(&p, &mac()));
    p.macos.dns = true;
    p.net.mode = NetworkMode::Open;
    let open = only_network(&shown(&p, &mac()));
    insta::assert_snapshot!("network", format!("{off}\n{silent}\n{open}"));
}

#[test]
fn strange_characters() {
    let mut p = chat();
    for name in [
        "a\") (allow default) (\"b",
        "back\\slash",
        "sp ace",
        "[b]{c}",
        "ünï",
        "'",
    ] {
        p.fs.protected.push(entry(&format!("{PROJ}/{name}")));
    }
    let text = shown(&p, &mac());
    let of_these: Vec<&str> = text
        .lines()
        .filter(|l| {
            ["a\\\"", "back", "sp ace", "[b]", "n", "'"]
                .iter()
                .any(|w| l.contains(&format!("{PROJ}/{w}")))
                || l.contains("ünï")
        })
        .collect();
    insta::assert_snapshot!("strange", of_these.join("\n"));
}

/// The bounds are those of a slow machine and a build without optimisation: nothing in it is quadratic.
#[test]
fn two_thousand_protected_paths() {
    let mut p = chat();
    for n in 0..2000 {
        p.fs.protected
            .push(entry(&format!("{PROJ}/some/where/{n:04}/in/a/file")));
    }
    let begun = Instant::now();
    let text = profile(&p, &mac()).unwrap();
    let took = begun.elapsed();
    assert!(text.len() < 2000 * 600, "{}", text.len());
    assert!(took < Duration::from_mins(1), "{took:?}");
    // Each once, in each rule.
    let one = format!("(subpath \"{PROJ}/some/where/0007/in/a/file\")");
    let rules = parse(&text).unwrap().len();
    assert!(text.matches(&one).count() <= rules);
    assert_eq!(
        text.matches(&format!("(literal \"{PROJ}/some/where\")"))
            .count(),
        1
    );
}
