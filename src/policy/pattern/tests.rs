use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::fold;
use crate::policy::path::{ListKind, PathEntry};

fn pattern(text: &str, kind: ListKind) -> super::PathPattern {
    match PathEntry::parse(text, false, kind, Path::new("/base"), Path::new("/home/u")) {
        Ok(PathEntry::Pattern(p)) => p,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn matching() {
    let table: &[(&str, &[&str], &[&str])] = &[
        (
            "*.key",
            &[
                "/ws/a.key",
                "/ws/.key",
                "/a.key",
                "/ws/A.KEY",
                "/ws/d/x.Key",
            ],
            &["/ws/a.keys", "/ws/key", "/ws/a.key/x", "/"],
        ),
        (
            ".env",
            &["/ws/.env", "/ws/a/.ENV"],
            &["/ws/.env.local", "/ws/x.env", "/ws/env"],
        ),
        (
            ".env.*.local",
            &[
                "/ws/.env.dev.local",
                "/ws/.env.a.b.local",
                "/ws/.env..local",
            ],
            &["/ws/.env.local", "/ws/.env.dev.locals"],
        ),
        (
            ".git/hooks/**",
            &[
                "/ws/.git/hooks",
                "/ws/.git/hooks/pre-commit",
                "/ws/s/.git/hooks/a/b",
            ],
            &["/ws/.git", "/ws/git/hooks/x", "/ws/.git/x/hooks"],
        ),
        (
            "**/.git/hooks/**",
            &[
                "/.git/hooks",
                "/ws/.git/hooks/pre-commit",
                "/ws/s/.git/hooks/a/b",
            ],
            &["/ws/.git/hook", "/ws/x.git/hooks/x"],
        ),
        (
            "/x/**/y",
            &["/x/y", "/x/a/y", "/x/a/b/y"],
            &["/x/a", "/z/x/y", "/x/a/y/b"],
        ),
        (
            "./*.key",
            &["/base/a.key"],
            &["/base/s/a.key", "/other/a.key"],
        ),
        (
            "a?c",
            &["/a-c", "/ws/abc", "/ws/a\u{7f}c"],
            &["/ws/ac", "/ws/abbc", "/ws/a/c"],
        ),
        ("[a-c]x", &["/ax", "/cx", "/Bx"], &["/dx", "/x", "/aax"]),
        ("[!a-c]x", &["/dx", "/1x"], &["/ax", "/Bx", "/x"]),
        ("[^a]x", &["/dx"], &["/ax"]),
        ("[]x]y", &["/]y", "/xy"], &["/y"]),
        ("[a-]y", &["/ay", "/-y"], &["/by"]),
        ("[*]y", &["/*y"], &["/ay"]),
        ("{a,b}*", &["/{a,b}", "/{a,b}x"], &["/a", "/b"]),
        ("a\\*", &["/a\\", "/a\\bc"], &["/a*", "/ab"]),
        ("a**b", &["/ab", "/axxb"], &["/a/b"]),
        ("a*b*c", &["/abc", "/aXbXbXc", "/abbc"], &["/acb", "/ab"]),
        ("**/**/z", &["/z", "/a/b/z"], &["/a"]),
        ("d/*", &["/x/d/a"], &["/x/d", "/x/d/a/b"]),
        ("Ärger*", &["/ärger", "/ÄRGER1"], &["/arger"]),
        ("*ſ", &["/s", "/aS"], &["/t"]),
    ];
    for (text, yes, no) in table {
        let p = pattern(text, ListKind::DenyWrite);
        for path in *yes {
            assert!(p.matches(Path::new(path)), "{text} should match {path}");
        }
        for path in *no {
            assert!(
                !p.matches(Path::new(path)),
                "{text} should not match {path}"
            );
        }
    }
}

#[test]
fn names_are_bytes() {
    let path = PathBuf::from(OsStr::from_bytes(b"/ws/a\xff.key"));
    assert!(pattern("*.key", ListKind::DenyWrite).matches(&path));
    assert!(pattern("a?.key", ListKind::DenyWrite).matches(&path));
    assert!(pattern("A?.KEY", ListKind::DenyWrite).matches(&path));
    assert!(!pattern("a.key?", ListKind::DenyWrite).matches(&path));
}

#[test]
fn exceptions_do_not_fold_case() {
    let p = pattern("fixtures/*.pem", ListKind::AllowCreate);
    assert!(p.matches(Path::new("/ws/fixtures/a.pem")));
    assert!(!p.matches(Path::new("/ws/fixtures/A.PEM")));
    assert!(!p.matches(Path::new("/ws/Fixtures/a.pem")));
}

#[test]
fn a_matched_directory_covers_its_contents_but_not_from_above_the_root() {
    let p = pattern("*.key", ListKind::DenyWrite);
    let root = Path::new("/ws.key/ws");
    assert!(p.covers(Path::new("/ws.key/ws/d.key/x"), root));
    assert!(p.covers(Path::new("/ws.key/ws/a.key"), root));
    assert!(!p.covers(Path::new("/ws.key/ws/x"), root));
    assert!(!p.covers(Path::new("/other/a.key"), root));
    assert!(
        p.covers(Path::new("/r.key/x"), Path::new("/r.key")),
        "the root's own name counts"
    );
    let hooks = pattern(".git/hooks/**", ListKind::DenyWrite);
    assert!(hooks.covers(Path::new("/ws/.git/hooks/x"), Path::new("/ws/.git/hooks")));
}

#[test]
fn broken_classes_are_refused() {
    for text in ["a[", "a[]", "a[!]", "x[z-a]", "[[:alpha:]]", "[a/b]"] {
        let got = PathEntry::parse(
            text,
            false,
            ListKind::DenyWrite,
            Path::new("/b"),
            Path::new("/h"),
        );
        assert!(got.is_err(), "{text}: {got:?}");
    }
}

#[test]
fn folding_joins_what_unicode_joins() {
    for (a, b) in [
        ("ABC", "abc"),
        ("Ä", "ä"),
        ("ſ", "s"),
        ("ς", "Σ"),
        ("\u{212a}", "k"),
        ("µ", "μ"),
    ] {
        assert_eq!(fold(a.as_bytes()), fold(b.as_bytes()), "{a} {b}");
    }
    assert_ne!(fold("ı".as_bytes()), fold(b"i"));
    assert_ne!(fold("ß".as_bytes()), fold(b"ss"));
    assert_eq!(fold(b"A\xffB"), b"a\xffb");
}

/// The obvious exponential matcher, to compare with.
fn slow(p: &[u8], s: &[u8]) -> bool {
    match (p.split_first(), s.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => {
            slow(rest, s) || s.split_first().is_some_and(|(_, t)| slow(p, t))
        }
        (Some((b'?', p)), Some((_, s))) => slow(p, s),
        (Some((a, p)), Some((b, s))) => a == b && slow(p, s),
        _ => false,
    }
}

proptest! {
    #[test]
    fn agrees_with_the_obvious_matcher(p in "[ab?*]{1,8}", s in "[ab]{1,8}") {
        prop_assume!(p.contains(['*', '?']) && p != "**");
        let got = pattern(&format!("/{p}"), ListKind::Protected).matches(Path::new(&format!("/{s}")));
        prop_assert_eq!(got, slow(p.as_bytes(), s.as_bytes()));
    }

    #[test]
    fn folding_is_idempotent_and_keeps_slashes(s in "\\PC{0,20}") {
        let once = fold(s.as_bytes());
        prop_assert_eq!(fold(&once), once.clone());
        prop_assert_eq!(once.split(|b| *b == b'/').count(), s.split('/').count());
    }

    #[test]
    fn a_deny_matches_every_case_of_a_name(name in "[a-zA-Zäöü]{1,10}") {
        let p = pattern(&format!("{name}*"), ListKind::DenyWrite);
        for name in [name.to_uppercase(), name.to_lowercase()] {
            let path = PathBuf::from(format!("/ws/{name}"));
            prop_assert!(p.matches(&path));
        }
    }

    #[test]
    fn matching_never_runs_long(stars in 1usize..40, len in 1usize..250) {
        let p = pattern(&format!("{}b", "a*".repeat(stars)), ListKind::DenyWrite);
        let got = p.matches(Path::new(&format!("/{}", "a".repeat(len))));
        prop_assert!(!got);
    }
}

/// The components of a path, folded as the policy folds.
fn components(path: &str) -> Vec<Vec<u8>> {
    path.split('/')
        .filter(|c| !c.is_empty())
        .map(|c| fold(c.as_bytes()))
        .collect()
}

#[test]
fn a_prefix_of_a_pattern_is_where_a_match_may_lie_below() {
    let table: &[(&str, &[&str], &[&str])] = &[
        (".env", &[], &["/base", "/base/x", "/base/.env"]),
        ("**/.env", &[], &["/base", "/base/x"]),
        (
            "**/.git/hooks/**",
            &["/base/.git", "/base/x/.GIT"],
            &["/base/x", "/base/.git/x"],
        ),
        (
            "**/a/b/c",
            &["/base/a", "/base/x/a/b"],
            &["/base/a/x", "/base/b"],
        ),
        (
            "a/**/b",
            &["/base/a", "/base/x/a/y", "/base/a/y/z"],
            &["/base/x"],
        ),
        (
            "./a/**/b",
            &["/base/a", "/base/a/y"],
            &["/base/x/a/y", "/base/x"],
        ),
        ("./**/*.key", &[], &["/base/x", "/base/x/y"]),
        ("./**/a/*.key", &["/base/a", "/base/x/a"], &["/base/x"]),
        ("/*/a", &[], &["/base/a", "/base/x"]),
    ];
    for (text, starts, not) in table {
        let pattern = pattern(text, ListKind::DenyWrite);
        for (paths, want) in [(starts, true), (not, false)] {
            for path in *paths {
                let path = components(path);
                let path: Vec<&[u8]> = path.iter().map(Vec::as_slice).collect();
                assert_eq!(
                    pattern.starts_at_components(&path, 1),
                    want,
                    "{text} {path:?}"
                );
            }
        }
    }
}

proptest! {
    /// Asked by components the answer is the same, and refolding by the same fold changes nothing.
    #[test]
    fn components_are_matched_as_paths_are(
        text in "(\\*\\*/)?([abAB*.]|\\*\\*|a\\*|[a-b]|.env)(/([abAB*]|\\*\\*|b)){0,3}",
        path in "(/[abAB.]{1,3}){0,5}",
    ) {
        let parsed = PathEntry::parse(&text, false, ListKind::DenyWrite, Path::new("/base"), Path::new("/home/u"));
        let Ok(PathEntry::Pattern(pattern)) = parsed else { return Ok(()); };
        let split = components(&path);
        let split: Vec<&[u8]> = split.iter().map(Vec::as_slice).filter(|c| *c != b".").collect();
        let want = !split.is_empty() && pattern.matches(Path::new(&path));
        prop_assert_eq!(pattern.names_components(&split), want);
        prop_assert_eq!(pattern.refolded(fold).names_components(&split), want);
        // Who does not look like the edge is not named.
        if let Some((name, dir)) = split.split_last()
            && let Some((byte, first)) = pattern.edge_components(dir)
            && want
        {
            let edge = if first { name.first() } else { name.last() };
            prop_assert_eq!(edge, Some(&byte));
        }
    }
}

#[test]
fn patterns_tell_how_names_begin_or_end() {
    let dir: &[&[u8]] = &[b"base", b"x"];
    for (text, edge) in [
        (".env", Some((b'.', true))),
        ("*.pem", Some((b'm', false))),
        ("a*b", Some((b'a', true))),
        ("**/conf/*.key", Some((b'y', false))),
        ("y/**", Some((b'y', true))),
        ("x/**", None),
        ("*a*", None),
        ("[ab]", None),
    ] {
        let pattern = pattern(text, ListKind::DenyWrite);
        assert_eq!(pattern.edge_components(dir), edge, "{text}");
    }
}

#[test]
fn the_directory_before_the_first_wildcard_can_be_spelled_differently() {
    let p = pattern("./Conf/a/*.key", ListKind::DenyWrite);
    assert_eq!(p.fixed(), Some(Path::new("/base/Conf/a")));
    let moved = p.with_fixed(Path::new("/real/B"));
    assert!(moved.matches(Path::new("/real/b/x.KEY")));
    assert!(!moved.matches(Path::new("/base/conf/a/x.key")));
    assert_eq!(moved.text, p.text);
    let any = pattern("/a/**/b", ListKind::DenyWrite).with_fixed(Path::new("/"));
    assert!(any.matches(Path::new("/x/y/b")) && any.matches(Path::new("/b")));
    let tail = pattern("a/*.key", ListKind::DenyWrite);
    assert_eq!(tail.fixed(), None);
    assert_eq!(tail.with_fixed(Path::new("/x")), tail);
}
