//! Each row of the decision, one name at a time.

use super::*;

/// `depth:name` pairs of entries, and which depths are project git directories and old work trees.
#[derive(Default)]
pub(super) struct Said {
    pub(super) holds: Vec<(usize, &'static str)>,
    pub(super) old: Vec<usize>,
}

impl Facts for Said {
    fn holds(&self, depth: usize, name: &str) -> bool {
        self.holds.iter().any(|(d, n)| *d == depth && *n == name)
    }

    fn is_project_git_dir(&self, _: usize) -> bool {
        false
    }

    fn is_old_work_tree(&self, depth: usize) -> bool {
        self.old.contains(&depth)
    }
}

/// Asks `with` about a path below `/w`.
fn at<T>(
    set: &RuleSet,
    facts: &Said,
    path: &str,
    kind: Kind,
    with: impl FnOnce(&Target<'_>) -> T,
) -> T {
    let parts = bytes(path);
    let (name, dir) = parts.split_last().unwrap();
    let below: Vec<&[u8]> = dir[1..].iter().map(Vec::as_slice).collect();
    let dir = Dir::new(set, 0, &below).unwrap();
    with(&Target {
        dir: &dir,
        name,
        kind,
        facts,
    })
}

pub(super) fn ask(set: &RuleSet, action: Action, path: &str, kind: Kind) -> Verdict {
    at(set, &Said::default(), path, kind, |t| {
        decide(set, action, t)
    })
}

fn rename(set: &RuleSet, from: (&str, Kind), to: (&str, Kind), flags: RenameFlags) -> Verdict {
    let facts = Said::default();
    at(set, &facts, from.0, from.1, |f| {
        at(set, &facts, to.0, to.1, |t| decide_rename(set, f, t, flags))
    })
}

const MOVE: RenameFlags = RenameFlags {
    exchange: false,
    whiteout: false,
};
const EXCHANGE: RenameFlags = RenameFlags {
    exchange: true,
    whiteout: false,
};
pub(super) const RULE: fn(usize) -> Verdict = |i| Verdict::Deny(Reason::Rule(i));
const WALK: Verdict = Verdict::NeedsSubtreeWalk(None);

pub(super) fn plain(rules: Vec<Rule>) -> RuleSet {
    RuleSet::new(vec![root("/w")], rules, vec![], GitRules::Off)
}

pub(super) const ALL: [Action; 12] = [
    Action::Write,
    Action::Mkdir,
    Action::Mknod,
    Action::Bind,
    Action::Symlink,
    Action::LinkTo(Kind::File),
    Action::LinkFrom,
    Action::RenameTo(Kind::File),
    Action::RenameFrom,
    Action::Unlink,
    Action::Rmdir,
    CHMOD,
];

#[test]
fn an_exact_rule_covers_the_object_and_everything_below_in_any_case() {
    let set = plain(vec![exact("/w/a/b")]);
    for action in ALL {
        for path in [
            "/w/a/b",
            "/w/A/B",
            "/w/a/b/c",
            "/w/a/b/c/d",
            "/w/a/\u{200c}b",
        ] {
            for kind in [Kind::Absent, Kind::File, Kind::Dir, Kind::Symlink] {
                assert_eq!(ask(&set, action, path, kind), RULE(0), "{action:?} {path}");
            }
        }
        for path in ["/w/b", "/w/ab", "/w/a/bc", "/w/x/a/b"] {
            assert_eq!(
                ask(&set, action, path, Kind::File),
                Verdict::Allow,
                "{action:?} {path}"
            );
        }
    }
}

#[test]
fn an_ancestor_of_an_exact_rule_does_not_move_and_is_no_link() {
    let set = plain(vec![exact("/w/a/b/c")]);
    for path in ["/w/a", "/w/a/b", "/w/A"] {
        for kind in [Kind::Dir, Kind::Symlink, Kind::File] {
            assert_eq!(ask(&set, Action::RenameFrom, path, kind), RULE(0), "{path}");
        }
        for action in [
            Action::Symlink,
            Action::RenameTo(Kind::Symlink),
            Action::LinkTo(Kind::Symlink),
        ] {
            assert_eq!(ask(&set, action, path, Kind::Absent), RULE(0), "{path}");
        }
        assert_eq!(
            rename(&set, ("/w/x", Kind::Dir), (path, Kind::Absent), MOVE),
            WALK,
            "{path}"
        );
        assert_eq!(
            rename(&set, ("/w/x", Kind::Dir), (path, Kind::Dir), EXCHANGE),
            RULE(0),
            "{path}"
        );
        // What neither moves it nor makes it lead elsewhere is ordinary work.
        for action in [
            Action::Mkdir,
            Action::Rmdir,
            CHMOD,
            Action::Unlink,
            Action::RenameTo(Kind::File),
        ] {
            assert_eq!(ask(&set, action, path, Kind::Absent), Verdict::Allow);
        }
    }
}

#[test]
fn a_name_pattern_holds_at_any_depth_and_for_every_kind_of_entry() {
    let set = plain(vec![pattern(".env"), pattern("*.key")]);
    for action in ALL {
        for (path, rule) in [
            ("/w/.env", 0),
            ("/w/x/y/.ENV", 0),
            ("/w/.env/below", 0),
            ("/w/x/A.KEY", 1),
        ] {
            assert_eq!(
                ask(&set, action, path, Kind::Absent),
                RULE(rule),
                "{action:?} {path}"
            );
        }
    }
    // Directories and links around them are free: the rule says the same wherever they stand.
    assert_eq!(
        rename(&set, ("/w/x", Kind::Dir), ("/w/y", Kind::Absent), MOVE),
        Verdict::Allow
    );
    assert_eq!(
        ask(&set, Action::Symlink, "/w/x", Kind::Absent),
        Verdict::Allow
    );
}

#[test]
fn a_path_pattern_is_not_entered_by_a_link_or_a_rename() {
    let set = plain(vec![pattern("**/.git/hooks/**")]);
    for path in [
        "/w/.git/hooks",
        "/w/x/.git/hooks/pre-commit",
        "/w/.GIT/Hooks/a/b",
    ] {
        assert_eq!(ask(&set, Action::Write, path, Kind::Absent), RULE(0));
    }
    assert_eq!(ask(&set, Action::Symlink, "/w/.git", Kind::Absent), RULE(0));
    assert_eq!(
        ask(
            &set,
            Action::LinkTo(Kind::Symlink),
            "/w/x/.git",
            Kind::Absent
        ),
        RULE(0)
    );
    for flags in [MOVE, EXCHANGE] {
        for (from, to) in [("/w/x", "/w/.git"), ("/w/.git", "/w/x")] {
            assert_eq!(
                rename(&set, (from, Kind::Dir), (to, Kind::Dir), flags),
                WALK,
                "{from} {to}"
            );
        }
    }
    for (from, to) in [("/w/x", "/w/.git/hooks"), ("/w/.git/hooks", "/w/x")] {
        assert_eq!(
            rename(&set, (from, Kind::Dir), (to, Kind::Dir), MOVE),
            RULE(0)
        );
    }
    assert_eq!(
        rename(&set, ("/w/x", Kind::Dir), ("/w/y", Kind::Dir), MOVE),
        Verdict::Allow
    );
    assert_eq!(
        rename(&set, ("/w/x", Kind::File), ("/w/.git", Kind::Absent), MOVE),
        Verdict::Allow
    );
}

#[test]
fn a_double_star_inside_a_pattern_starts_below_every_directory_it_spans() {
    let set = plain(vec![pattern("src/**/x.key")]);
    assert_eq!(
        ask(&set, Action::Symlink, "/w/src/a/b", Kind::Absent),
        RULE(0)
    );
    assert_eq!(
        rename(
            &set,
            ("/w/d", Kind::Dir),
            ("/w/src/a/d", Kind::Absent),
            MOVE
        ),
        WALK
    );
    assert_eq!(
        ask(&set, Action::Symlink, "/w/a/b", Kind::Absent),
        Verdict::Allow
    );
}

#[test]
fn a_double_star_at_the_top_of_the_root_says_the_same_everywhere() {
    let set = plain(vec![pattern("./**/*.key"), pattern("./**/a/x.pem")]);
    for (path, want) in [
        ("/w/x.key", RULE(0)),
        ("/w/d/X.key", RULE(0)),
        ("/w/d/a/x.pem", RULE(1)),
        ("/w/d/x.pem", Verdict::Allow),
    ] {
        assert_eq!(ask(&set, Action::Write, path, Kind::Absent), want, "{path}");
    }
    // So links and renames below are ordinary, but for the component that follows.
    assert_eq!(
        ask(&set, Action::Symlink, "/w/d/l", Kind::Absent),
        Verdict::Allow
    );
    assert_eq!(
        rename(&set, ("/w/d", Kind::Dir), ("/w/e", Kind::Absent), MOVE),
        Verdict::Allow
    );
    assert_eq!(ask(&set, Action::Symlink, "/w/d/a", Kind::Absent), RULE(1));
    assert_eq!(
        rename(&set, ("/w/d", Kind::Dir), ("/w/e/a", Kind::Absent), MOVE),
        WALK
    );
}

#[test]
fn patterns_fold_as_far_as_names_do() {
    let set = plain(vec![pattern("stra\u{df}e*.key"), pattern("\u{131}d_[a-c]")]);
    for name in [
        "stra\u{df}e.key",
        "STRASSE1.KEY",
        "stra\u{1e9e}e\u{ad}.\u{212a}ey",
    ] {
        let path = format!("/w/{name}");
        assert_eq!(
            ask(&set, Action::Write, &path, Kind::Absent),
            RULE(0),
            "{name}"
        );
    }
    assert_eq!(ask(&set, Action::Write, "/w/ID_B", Kind::Absent), RULE(1));
}

#[test]
fn exchange_is_two_renames_and_whiteout_is_refused() {
    let set = plain(vec![exact("/w/a")]);
    for (from, to) in [("/w/x", "/w/a"), ("/w/a", "/w/x")] {
        assert_eq!(
            rename(&set, (from, Kind::File), (to, Kind::File), EXCHANGE),
            RULE(0)
        );
    }
    let whiteout = RenameFlags {
        whiteout: true,
        ..MOVE
    };
    assert_eq!(
        rename(&set, ("/w/x", Kind::File), ("/w/y", Kind::Absent), whiteout),
        Verdict::Deny(Reason::Unsupported)
    );
}

#[test]
fn a_hard_link_is_refused_at_both_ends() {
    let set = plain(vec![exact("/w/a")]);
    let facts = Said::default();
    let link = |from: &str, to: &str| {
        at(&set, &facts, from, Kind::File, |f| {
            at(&set, &facts, to, Kind::Absent, |t| {
                decide_link(&set, Some(f), t)
            })
        })
    };
    assert_eq!(link("/w/a", "/w/b"), RULE(0));
    assert_eq!(link("/w/b", "/w/a"), RULE(0));
    assert_eq!(link("/w/b", "/w/c"), Verdict::Allow);
    let unnamed = |to: &str| {
        at(&set, &facts, to, Kind::Absent, |t| {
            decide_link(&set, None, t)
        })
    };
    assert_eq!(unnamed("/w/a"), RULE(0));
    assert_eq!(unnamed("/w/b"), Verdict::Allow);
}

#[test]
fn an_unnamed_file_is_not_made_in_a_denied_directory() {
    let set = plain(vec![exact("/w/a"), pattern(".env")]);
    let unnamed = |below: &[&[u8]]| {
        decide_unnamed(&set, &Dir::new(&set, 0, below).unwrap(), &Said::default())
    };
    assert_eq!(unnamed(&[]), Verdict::Allow);
    assert_eq!(unnamed(&[b"b"]), Verdict::Allow);
    assert_eq!(unnamed(&[b"a"]), RULE(0));
    assert_eq!(unnamed(&[b"b", b".ENV", b"c"]), RULE(1));
}

#[test]
fn an_exception_lifts_built_in_entries_only_and_in_its_own_case() {
    let lifts = exceptions(&["node_modules/**/*.pem"]);
    let set = RuleSet::new(
        vec![root("/w")],
        vec![built_in("*.pem"), pattern("secret.pem")],
        lifts,
        GitRules::Off,
    );
    for (path, want) in [
        ("/w/node_modules/x/a.pem", Verdict::Allow),
        ("/w/node_modules/a.pem", Verdict::Allow),
        ("/w/a.pem", RULE(0)),
        ("/w/NODE_MODULES/a.pem", RULE(0)),
        ("/w/node_modules/x/a.PEM", RULE(0)),
        ("/w/node_modules/secret.pem", RULE(1)),
        ("/w/k.pem/node_modules/a.pem", RULE(0)),
    ] {
        assert_eq!(ask(&set, Action::Write, path, Kind::Absent), want, "{path}");
    }
    // What is lifted does not leave, and takes nothing along that would be.
    for (from, to) in [
        ("/w/node_modules", "/w/x"),
        ("/w/node_modules/x", "/w/x"),
        ("/w/x", "/w/node_modules/x"),
    ] {
        assert_eq!(
            rename(&set, (from, Kind::Dir), (to, Kind::Absent), MOVE),
            WALK,
            "{from} {to}"
        );
    }
    let facts = Said::default();
    let entry = |rel: &[&[u8]]| {
        at(&set, &facts, "/w/node_modules", Kind::Dir, |f| {
            at(&set, &facts, "/w/x", Kind::Absent, |t| {
                entry_may_move(&set, f, t, rel, Kind::File)
            })
        })
    };
    assert_eq!(entry(&[b"y", b"a.pem"]), Some(Reason::Rule(0)));
    assert_eq!(entry(&[b"y", b"a.txt"]), None);
}

#[test]
fn the_first_rule_is_named() {
    let set = plain(vec![exact("/w/a/b"), pattern("b"), exact("/w/a")]);
    assert_eq!(ask(&set, Action::Write, "/w/a/b", Kind::File), RULE(0));
    assert_eq!(ask(&set, Action::Write, "/w/a/x/b", Kind::File), RULE(1));
    assert_eq!(ask(&set, Action::Write, "/w/a/x", Kind::File), RULE(2));
}

#[test]
fn a_rule_of_repositories_holds_below_old_work_trees_only() {
    let set = plain(vec![Rule::Repository(bytes(".claude/settings.json"))]);
    let facts = Said {
        old: vec![2],
        ..Said::default()
    };
    let ask = |action, path: &str, kind| at(&set, &facts, path, kind, |t| decide(&set, action, t));
    assert_eq!(
        ask(Action::Write, "/w/old/.claude/settings.json", Kind::File),
        RULE(0)
    );
    assert_eq!(
        ask(Action::RenameFrom, "/w/old/.claude", Kind::Dir),
        RULE(0)
    );
    assert_eq!(
        ask(Action::Symlink, "/w/old/.claude", Kind::Absent),
        RULE(0)
    );
    for path in ["/w/.claude/settings.json", "/w/old/x/.claude/settings.json"] {
        assert_eq!(ask(Action::Write, path, Kind::Absent), Verdict::Allow);
    }
    // The work tree itself moves with everything in it.
    assert_eq!(ask(Action::RenameFrom, "/w/old", Kind::Dir), Verdict::Allow);
}

#[test]
fn a_bare_repository_is_not_started_at_the_top_of_a_root() {
    let mut folding = root("/w");
    folding.ignores_case = true;
    let plain = RuleSet::new(vec![root("/w")], vec![], vec![], GitRules::Preset);
    let folding = RuleSet::new(vec![folding], vec![], vec![], GitRules::Preset);
    let bare = Verdict::Deny(Reason::BareRepository);
    for name in ["HEAD", "objects", "refs"] {
        for action in [
            Action::Write,
            Action::Mkdir,
            Action::Symlink,
            Action::LinkTo(Kind::File),
        ] {
            assert_eq!(
                ask(&plain, action, &format!("/w/{name}"), Kind::Absent),
                bare
            );
        }
        // Nothing is deleted, and what exists is a file of the project.
        for action in [Action::Write, Action::Unlink, CHMOD] {
            assert_eq!(
                ask(&plain, action, &format!("/w/{name}"), Kind::File),
                Verdict::Allow
            );
        }
        assert_eq!(
            ask(&plain, Action::Mkdir, &format!("/w/x/{name}"), Kind::Absent),
            Verdict::Allow
        );
    }
    for name in ["head", "Refs"] {
        let path = format!("/w/{name}");
        assert_eq!(
            ask(&plain, Action::Write, &path, Kind::Absent),
            Verdict::Allow
        );
        assert_eq!(ask(&folding, Action::Write, &path, Kind::Absent), bare);
    }
    for name in ["config", "hooks"] {
        let path = format!("/w/{name}");
        assert_eq!(
            ask(&plain, Action::Mkdir, &path, Kind::Absent),
            Verdict::Allow
        );
    }
    // A root that is a git directory itself follows the git preset.
    let facts = Said {
        holds: vec![(1, "HEAD"), (1, "refs")],
        ..Said::default()
    };
    let verdict = at(&plain, &facts, "/w/objects", Kind::Absent, |t| {
        decide(&plain, Action::Mkdir, t)
    });
    assert_eq!(verdict, Verdict::Allow);
}

#[test]
fn windows_file_systems_have_more_names_for_one_object() {
    let set = RuleSet::new(
        vec![Root {
            path: bytes("/w"),
            top: 1,
            names: NameRules::Windows,
            ignores_case: true,
            git_only: false,
        }],
        vec![exact("/w/a/.env"), pattern("*.key")],
        vec![],
        GitRules::Preset,
    );
    for path in ["/w/a/.env.", "/w/a/.env::$DATA", "/w/A/.ENV ", "/w/a./.env"] {
        assert_eq!(
            ask(&set, Action::Write, path, Kind::Absent),
            RULE(0),
            "{path}"
        );
    }
    assert_eq!(ask(&set, Action::Write, "/w/x.key.", Kind::Absent), RULE(1));
    for path in ["/w/ENV~1", "/w/GIT~1/config", "/w/x/PROGRA~1/y"] {
        assert_eq!(
            ask(&set, Action::Write, path, Kind::Absent),
            Verdict::Deny(Reason::ShortName),
            "{path}"
        );
    }
    assert_eq!(
        ask(
            &set,
            Action::Write,
            "/w/.git/hooks/pre-commit:x.sample",
            Kind::Absent
        ),
        ask(
            &set,
            Action::Write,
            "/w/.git/hooks/pre-commit",
            Kind::Absent
        )
    );
    // Elsewhere these are ordinary names.
    let unix = plain(vec![exact("/w/.env")]);
    for path in ["/w/.env.", "/w/.env:x", "/w/ENV~1"] {
        assert_eq!(
            ask(&unix, Action::Write, path, Kind::Absent),
            Verdict::Allow
        );
    }
}
