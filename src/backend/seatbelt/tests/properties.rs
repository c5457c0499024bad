//! What holds for every spec: more rules never open anything, order says nothing, text stays text, and no sequence of moves carries a
//! protected file away.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::evaluator::{Rule, TAG, decide, parse};
use super::model::{DIRS, Dice, Spec, below, host, mac};
use super::{OPS, RunFacts, directed, probe, render, specs, text};
use crate::plan::fixture::{bind, dispatch, entry, origin};
use crate::plan::seatbelt;
use crate::policy::path::PathEntry;
use crate::policy::{Caches, Policy, Ruled, View};

fn rules(spec: &Spec) -> Vec<Rule> {
    parse(&text(spec).unwrap()).unwrap()
}

fn allowed(rules: &[Rule], op: &str, path: &str) -> bool {
    let answers = [false, true]
        .map(|fold| decide(rules, fold, op, path))
        .concat();
    assert!(
        answers.iter().all(|a| *a == answers[0]),
        "{op} {path} {answers:?}"
    );
    answers[0]
}

/// What `after` allows and `before` does not. Expressions of exceptions match another case in one of the two modes: left out.
fn opened(before: &Spec, after: &Spec, seed: u64) -> Vec<String> {
    let (old, new) = (rules(before), rules(after));
    let mut d = Dice(seed);
    let random = (0..60).map(|_| (OPS[d.roll(OPS.len())], probe(&mut d)));
    let asked = random.chain(directed(after)).collect::<Vec<_>>();
    let lost = asked
        .iter()
        .filter(|(_, p)| !p.to_lowercase().contains("node_modules"));
    lost.filter(|(op, p)| allowed(&new, op, p) && !allowed(&old, op, p))
        .map(|(op, p)| format!("{op} {p}"))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Another entry in a list of refusals never opens anything. What is protected may be run where programs are not (it is as good
    /// as the rest of the system), and what is hidden takes no part in it.
    #[test]
    fn another_refusal_opens_nothing(seed in any::<u64>(), kind in 0..4usize) {
        let before = specs(seed, 1).remove(0);
        let mut after = before.clone();
        let mut d = Dice(seed);
        let path = d.pick(&DIRS).to_owned();
        match kind {
            0 => after.protected.push(path),
            1 => after.hides.push(path),
            2 => after.patterns.push("k?y".to_owned()),
            _ => after.hidden_names.push("*.pem".to_owned()),
        }
        prop_assume!(seatbelt::rules(&after.policy(), &host(), &mac(), Path::new(super::TMP)).is_ok());
        let found = opened(&before, &after, seed);
        let found: Vec<_> = found.into_iter().filter(|f| kind != 0 || !f.starts_with("process-exec*")).collect();
        prop_assert!(found.is_empty(), "{:?} {:?}", found, after);
    }

    /// A read-only mode writes less, never more.
    #[test]
    fn a_read_only_mode_opens_no_write(seed in any::<u64>()) {
        let mut before = specs(seed, 1).remove(0);
        before.read_only = false;
        let mut after = before.clone();
        after.read_only = true;
        let both = [&before, &after].map(|s| seatbelt::rules(&s.policy(), &host(), &mac(), Path::new(super::TMP)));
        prop_assume!(both.iter().all(Result::is_ok));
        let found = opened(&before, &after, seed);
        let found: Vec<_> = found.into_iter().filter(|f| !f.starts_with("process-exec*")).collect();
        prop_assert!(found.is_empty(), "{:?} {:?}", found, after);
    }

    /// The order of entries in a list says nothing.
    #[test]
    fn order_of_entries_says_nothing(seed in any::<u64>()) {
        let before = specs(seed, 1).remove(0);
        let mut after = before.clone();
        for list in [&mut after.protected, &mut after.hides, &mut after.patterns, &mut after.hidden_names] {
            list.reverse();
        }
        after.grants.reverse();
        prop_assert!(opened(&before, &after, seed).is_empty());
        prop_assert!(opened(&after, &before, seed).is_empty());
    }

    /// A path survives the way into a profile byte for byte, or the profile is refused: it never becomes another path, and no text
    /// becomes a rule.
    #[test]
    fn odd_names_arrive_or_are_refused(name in odd_name()) {
        let path = Path::new("/Users/dev/w/proj").join(&name);
        let protected = |path: PathBuf| {
            let mut p = plain();
            p.fs.protected.push(Ruled { value: PathEntry::Exact(path.clone()), origin: origin(1) });
            p.fs.deny_read.push(Ruled { value: PathEntry::Exact(path.join("r")), origin: origin(1) });
            profile(&p)
        };
        let harmless = parse(&protected("/Users/dev/w/proj/harmless".into()).unwrap()).unwrap();
        let written = name.to_str().filter(|n| !n.chars().any(char::is_control));
        match (protected(path.clone()), written) {
            (Ok(text), Some(_)) => {
                let parsed = parse(&text).unwrap();
                prop_assert_eq!(parsed.len(), harmless.len());
                for (a, b) in parsed.iter().zip(&harmless) {
                    prop_assert_eq!((&a.ops, a.allow), (&b.ops, b.allow));
                }
                let path = path.to_str().unwrap();
                for (op, at) in [("file-write-create", path.to_owned()), ("file-write-data", format!("{path}/x")), ("file-read-data", format!("{path}/r"))] {
                    for fold in [false, true] {
                        prop_assert_eq!(decide(&parsed, fold, op, &at), [false; 3], "{} {}", op, at);
                    }
                }
            }
            // Refused: what is not text, and what is longer than a path can be, one of its spellings included.
            (Err(_), None) => {}
            (Err(_), Some(_)) => prop_assert!(path.as_os_str().len() * 2 > 900),
            (Ok(_), None) => prop_assert!(false, "{:?} became text", name),
        }
    }

    /// A small file system whose every step the profile decides: after any sequence of creations, moves, links and writes each
    /// protected file is where it was, with its content, and no secret is to be read.
    #[test]
    fn no_sequence_of_moves_carries_a_protected_file_away(seed in any::<u64>()) {
        let mut p = plain();
        p.fs.binds.push(bind("/Users/dev/w", false));
        p.fs.allow_write.push(entry("/opt/data"));
        p.fs.protected.push(entry("/Users/dev/w/a/b/keep"));
        p.fs.protected.push(entry("/Users/dev/w/n/m/absent"));
        p.fs.deny_read.push(entry("/Users/dev/w/a/secret"));
        let rules = parse(&profile(&p).unwrap()).unwrap();
        let mut tree = Tree::new(&PLACES);
        let mut d = Dice(seed);
        for _ in 0..60 {
            tree.step(&mut d, &rules);
        }
        prop_assert_eq!(tree.content("/Users/dev/w/a/b/keep"), Some("KEEP"));
        prop_assert_eq!(tree.content("/Users/dev/w/n/m/absent"), None);
        let readable = tree.files().filter(|(path, _)| allowed(&rules, "file-read-data", path));
        for (path, content) in readable {
            prop_assert!(content != "SECRET", "{} {}", path, content);
        }
        prop_assert_eq!(tree.content("/Users/dev/w/a/secret/s"), Some("SECRET"));
    }
}

fn plain() -> Policy {
    let mut p = dispatch();
    p.fs.view = View::Host;
    p.fs.caches = Caches::None;
    p.fs.terminal_secrets_only = true;
    p.fs.binds.push(bind("/Users/dev/w/proj", false));
    p
}

fn profile(p: &Policy) -> Result<String, String> {
    let fs = mac()
        .file("/Users/dev/w/a/b/keep", "")
        .dir("/Users/dev/w/a/secret")
        .dir("/Users/dev/w/n");
    let rules = seatbelt::rules(p, &host(), &fs, Path::new(super::TMP)).map_err(|e| e.message)?;
    let run = RunFacts {
        tag: TAG.to_owned(),
        proxy_port: 51234,
        terminals: Vec::new(),
    };
    render(&rules, &run).map_err(|e| e.to_string())
}

/// Names of marks that mean something somewhere, of any letters, of bytes that are no text, and as long as a path can be.
fn odd_name() -> impl Strategy<Value = std::ffi::OsString> {
    use std::os::unix::ffi::OsStringExt;
    let marks =
        proptest::string::string_regex(r#"["\\()\[\]{}^$.|?*+;:,<>#'`!&%@~ -]{1,40}"#).unwrap();
    let letters = "[^/\u{0}]{1,60}";
    let long = (900usize..1100).prop_map(|n| "x".repeat(n));
    prop_oneof![
        marks.prop_map(Into::into),
        letters.prop_map(Into::into),
        long.prop_map(Into::into),
        proptest::collection::vec(1u8..=255, 1..40)
            .prop_map(|v| v
                .into_iter()
                .map(|b| if b == b'/' { b'_' } else { b })
                .collect())
            .prop_map(|v: Vec<u8>| std::ffi::OsString::from_vec(v)),
    ]
    .prop_filter("a name", |n: &std::ffi::OsString| n != "." && n != "..")
}

/// What stands where: files with content, directories without. A hard link is one content under two names.
#[derive(Debug)]
struct Tree {
    nodes: BTreeMap<String, Option<usize>>,
    contents: Vec<&'static str>,
    /// Where the steps go.
    places: &'static [&'static str],
}

const PLACES: [&str; 14] = [
    "/Users/dev/w",
    "/Users/dev/w/a",
    "/Users/dev/w/a/b",
    "/Users/dev/w/a/b/keep",
    "/Users/dev/w/a/secret",
    "/Users/dev/w/a/secret/s",
    "/Users/dev/w/n",
    "/Users/dev/w/n/m",
    "/Users/dev/w/n/m/absent",
    "/Users/dev/w/x",
    "/Users/dev/w/x/m",
    "/Users/dev/w/x/m/absent",
    "/opt/data/y",
    "/opt/data/y/z",
];

impl Tree {
    fn new(places: &'static [&'static str]) -> Self {
        let mut nodes = BTreeMap::new();
        for dir in [
            "/Users/dev/w",
            "/Users/dev/w/a",
            "/Users/dev/w/a/b",
            "/Users/dev/w/a/secret",
            "/Users/dev/w/n",
            "/opt/data",
        ] {
            nodes.insert(dir.to_owned(), None);
        }
        nodes.insert("/Users/dev/w/a/b/keep".to_owned(), Some(0));
        nodes.insert("/Users/dev/w/a/secret/s".to_owned(), Some(1));
        Self {
            nodes,
            contents: vec!["KEEP", "SECRET"],
            places,
        }
    }

    fn content(&self, path: &str) -> Option<&'static str> {
        Some(self.contents[(*self.nodes.get(path)?)?])
    }

    fn files(&self) -> impl Iterator<Item = (&str, &'static str)> {
        let files = self
            .nodes
            .iter()
            .filter_map(|(p, f)| Some((p.as_str(), (*f)?)));
        files.map(|(p, f)| (p, self.contents[f]))
    }

    fn has_dir(&self, path: &str) -> bool {
        self.nodes.get(path) == Some(&None)
    }

    fn can_take(&self, path: &str) -> bool {
        !self.nodes.contains_key(path)
            && path
                .rsplit_once('/')
                .is_some_and(|(up, _)| self.has_dir(up))
    }

    fn step(&mut self, d: &mut Dice, rules: &[Rule]) {
        let may = |op: &str, path: &str| allowed(rules, op, path);
        let (from, to) = (
            d.pick(self.places).to_owned(),
            d.pick(self.places).to_owned(),
        );
        match d.roll(6) {
            0 if self.can_take(&to) && may("file-write-create", &to) => {
                self.nodes.insert(to, None);
            }
            1 if self.can_take(&to) && may("file-write-create", &to) => {
                self.contents.push("new");
                self.nodes.insert(to, Some(self.contents.len() - 1));
            }
            2 => {
                if let (Some(Some(file)), true) = (self.nodes.get(&to), may("file-write-data", &to))
                {
                    self.contents[*file] = "changed";
                }
            }
            // A second name, and a copy.
            3 if self.can_take(&to) && may("file-link", &from) && may("file-write-create", &to) => {
                if let Some(Some(file)) = self.nodes.get(&from) {
                    self.nodes.insert(to, Some(*file));
                }
            }
            4 if self.can_take(&to)
                && may("file-clone", &from)
                && may("file-write-create", &to) =>
            {
                if let Some(content) = self.content(&from) {
                    self.contents.push(content);
                    self.nodes.insert(to, Some(self.contents.len() - 1));
                }
            }
            // A move: of a directory only that one is looked at. Over something only where that is empty.
            _ => {
                let inside = |path: &str| self.nodes.keys().any(|k| k != path && below(k, path));
                let free = self.can_take(&to)
                    || self.nodes.contains_key(&to)
                        && !inside(&to)
                        && self.has_dir(&from) == self.has_dir(&to);
                if !self.nodes.contains_key(&from) || below(&to, &from) || !free {
                    return;
                }
                if !(may("file-write-unlink", &from) && may("file-write-create", &to)) {
                    return;
                }
                let moved = self.nodes.iter().filter(|(k, _)| below(k, &from));
                let moved: Vec<(String, Option<usize>)> =
                    moved.map(|(k, v)| (k.clone(), *v)).collect();
                for (path, node) in moved {
                    self.nodes.remove(&path);
                    let end = path.strip_prefix(&from).unwrap_or_default();
                    self.nodes.insert(format!("{to}{end}"), node);
                }
            }
        }
    }
}

/// The sequence would be found: without pins the same steps carry the file away.
#[test]
fn the_small_file_system_finds_what_is_missing() {
    let mut p = plain();
    p.fs.binds.push(bind("/Users/dev/w", false));
    p.fs.protected.push(entry("/Users/dev/w/a/b/keep"));
    p.fs.protected.push(entry("/Users/dev/w/n/m/absent"));
    p.fs.deny_read.push(entry("/Users/dev/w/a/secret"));
    let right = parse(&profile(&p).unwrap()).unwrap();
    for (op, lost, places) in [
        ("file-write-unlink", "/Users/dev/w/a/b/keep", &PLACES[..10]),
        (
            "file-write-create",
            "/Users/dev/w/n/m/absent",
            &PLACES[7..12],
        ),
    ] {
        let mut wrong = right.clone();
        wrong.retain(|r| !(r.ops[0].starts_with("file-write-") && r.ops.iter().any(|o| o == op)));
        let found = (0..400).any(|seed| {
            let (mut tree, mut d) = (Tree::new(places), Dice(seed));
            let before = tree.content(lost);
            (0..60).for_each(|_| tree.step(&mut d, &wrong));
            tree.content(lost) != before
        });
        assert!(found, "{op}");
    }
}
