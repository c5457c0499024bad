//! Property: where nothing can be hidden in a directory that cannot be read, nothing below it would have been refused.

use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::*;

/// Repositories everywhere or nowhere.
struct Old(bool);

impl Facts for Old {
    fn holds(&self, _: usize, _: &str) -> bool {
        self.0
    }

    fn is_project_git_dir(&self, _: usize) -> bool {
        self.0
    }

    fn is_old_work_tree(&self, _: usize) -> bool {
        self.0
    }
}

fn set() -> RuleSet {
    RuleSet::new(
        vec![root("/w")],
        vec![
            exact("/w/a/b"),
            Rule::Repository(bytes("c/q")),
            pattern(".env"),
            pattern("**/p/q/r"),
            pattern("a/**/r"),
            pattern("./b/*/zz"),
            built_in("*.pem"),
        ],
        exceptions(&["node_modules/**/*.pem"]),
        GitRules::Preset,
    )
}

fn path(most: usize) -> impl Strategy<Value = Vec<&'static str>> {
    let name = prop::sample::select(vec![
        "a",
        "b",
        "c",
        "p",
        "q",
        "r",
        "x",
        "zz",
        ".env",
        "k.pem",
        "node_modules",
        "info",
        "attributes",
        "worktrees",
        "commondir",
    ]);
    prop::collection::vec(name, 0..most)
}

#[test]
fn what_hides_nothing_could_have_moved() {
    let mut hides = [0, 0];
    let strategy = (path(3), path(3), path(3), path(4), any::<bool>());
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..20_000 {
        let (from, to, hidden, below, old) = strategy.new_tree(&mut runner).unwrap().current();
        let set = set();
        let dir = |path: &[&str]| {
            let below: Vec<&[u8]> = path.iter().map(|c| c.as_bytes()).collect();
            Dir::new(&set, 0, &below).unwrap()
        };
        let (Some((from_name, from)), Some((to_name, to))) = (from.split_last(), to.split_last())
        else {
            continue;
        };
        let (from, to, facts) = (dir(from), dir(to), Old(old));
        let target = |dir, name: &'static str| Target {
            dir,
            name: name.as_bytes(),
            kind: Kind::Dir,
            facts: &facts,
        };
        let (from, to) = (target(&from, from_name), target(&to, to_name));
        let mut rel: Vec<&[u8]> = hidden.iter().map(|c| c.as_bytes()).collect();
        let may = may_hide(&set, &from, &to, &rel);
        hides[usize::from(may)] += 1;
        for name in below {
            rel.push(name.as_bytes());
            for kind in [Kind::File, Kind::Dir, Kind::Symlink] {
                let refused = entry_may_move(&set, &from, &to, &rel, kind);
                assert!(may || refused.is_none(), "{from:?} {to:?} {refused:?}");
            }
        }
    }
    assert!(hides.iter().all(|n| *n > 1000), "{hides:?}");
}
