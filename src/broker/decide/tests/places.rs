//! Rules that hold at some places and not at others.

use super::table::*;
use super::*;

#[test]
fn all_but_leaves_what_lies_below_its_open_directories() {
    let set = plain(vec![Rule::AllBut {
        path: bytes("/w/h"),
        open: vec![bytes("/w/h/cache"), bytes("/w/h/a/b")],
    }]);
    for action in ALL {
        for path in [
            "/w/h",
            "/w/h/x",
            "/w/h/Cache",
            "/w/h/Cache/x",
            "/w/h/a",
            "/w/h/a/c",
        ] {
            assert_eq!(
                ask(&set, action, path, Kind::Dir),
                RULE(0),
                "{action:?} {path}"
            );
        }
        for path in [
            "/w/h/cache",
            "/w/h/cache/x",
            "/w/h/cache/y/z",
            "/w/h/a/b",
            "/w/h/a/b/c",
            "/w/g",
        ] {
            assert_eq!(
                ask(&set, action, path, Kind::File),
                Verdict::Allow,
                "{action:?} {path}"
            );
        }
    }
}

#[test]
fn a_piece_mounted_on_its_own_is_judged_as_part_of_its_root() {
    let inner = Root {
        top: 1,
        ..root("/w/out/a")
    };
    let facts = Said {
        old: vec![1],
        ..Said::default()
    };
    let asked = |rules: Vec<Rule>, name: &[u8]| {
        let set = RuleSet::new(vec![inner.clone()], rules, vec![], GitRules::Preset);
        let dir = Dir::new(&set, 0, &[]).unwrap();
        decide(
            &set,
            Action::Write,
            &Target {
                dir: &dir,
                name,
                kind: Kind::Absent,
                facts: &facts,
            },
        )
    };
    assert_eq!(asked(vec![pattern("out/**")], b"x"), RULE(0));
    let repository = || vec![Rule::Repository(bytes("out/a/b"))];
    assert_eq!(asked(repository(), b"b"), RULE(0));
    // The top of a root is where it is, not where the piece is mounted.
    assert_eq!(asked(repository(), b"HEAD"), Verdict::Allow);
}

#[test]
fn without_the_preset_git_keeps_its_mandatory_places() {
    let git = |rules| RuleSet::new(vec![root("/w")], vec![], vec![], rules);
    let asked = |rules, path| {
        let verdict = ask(&git(rules), Action::Write, path, Kind::File);
        matches!(verdict, Verdict::Deny(Reason::Git(_)))
    };
    for (path, places, preset) in [
        ("/w/.git/hooks/pre-commit", true, true),
        ("/w/.git/config", true, true),
        ("/w/.git/commondir", true, true),
        ("/w/.git/info/attributes", false, true),
        ("/w/.git/remotes/origin", false, true),
        ("/w/.git/index", false, false),
    ] {
        assert!(!asked(GitRules::Off, path), "{path}");
        assert_eq!(asked(GitRules::Places, path), places, "{path}");
        assert_eq!(asked(GitRules::Preset, path), preset, "{path}");
    }
}
