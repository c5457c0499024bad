//! The review of each key, against the table and against the keys that the installed gits know.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

const REVIEW: &str = include_str!("../review.txt");

/// Values that some key somewhere takes for a program, a place or an option.
const BAD: [&str; 8] = [
    "!touch x",
    "ext::sh -c x",
    "-x",
    "/tmp/x",
    "~/x",
    "a\nb",
    "x;y",
    "\u{1b}[31m",
];
/// Values that most keys take.
const PLAIN: [&str; 8] = [
    "true",
    "1",
    "main",
    "auto",
    "x",
    "https://x.test/r",
    "warn",
    "",
];

#[derive(Debug)]
struct Row {
    key: String,
    /// The example, where the key is open.
    value: Option<String>,
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for line in REVIEW.lines() {
        let mut words = line.splitn(3, ' ');
        let (verdict, key, rest) = (words.next(), words.next(), words.next());
        let value = match verdict {
            None | Some("" | "#") => continue,
            Some("open") => {
                let (value, reason) = rest.unwrap().split_once("  ").unwrap_or_else(|| {
                    // A long row has one blank only.
                    rest.unwrap().split_once(' ').unwrap()
                });
                assert!(!reason.trim().is_empty(), "{line}");
                Some(value.trim().to_owned())
            }
            Some("shut") => {
                assert!(!rest.unwrap().trim().is_empty(), "{line}");
                None
            }
            Some(other) => panic!("{other}: {line}"),
        };
        rows.push(Row {
            key: key.unwrap().to_owned(),
            value,
        });
    }
    rows
}

/// `section.<name>.key` with a name, `section.*` with some keys of the section.
fn names(key: &str) -> Vec<String> {
    if let Some(section) = key.strip_suffix(".*") {
        return ["x", "statusHints", "ui", "someNewName"]
            .iter()
            .map(|k| format!("{section}.{k}"))
            .collect();
    }
    match (key.find('<'), key.find('>')) {
        (Some(from), Some(to)) => vec![format!("{}x{}", &key[..from], &key[to + 1..])],
        _ => vec![key.to_owned()],
    }
}

#[test]
fn each_open_key_takes_its_example_and_nothing_bad() {
    let texts = ["description", "active", "suppressDest", "name", "email"];
    for row in rows() {
        let Some(value) = &row.value else { continue };
        for name in names(&row.key) {
            allowed(&[&format!("{name}={value}")]);
            refused(&[&format!("{name}=\u{1b}[31m")]);
            if texts.iter().any(|t| name.ends_with(t)) {
                continue;
            }
            for bad in ["ext::sh -c 'x'", "a\nb", "-x"] {
                // Of a sort key it means the other way round.
                if !(name == "branch.sort" && bad == "-x") {
                    refused(&[&format!("{name}={bad}")]);
                }
            }
        }
    }
}

#[test]
fn each_shut_key_takes_nothing() {
    for row in rows().iter().filter(|r| r.value.is_none()) {
        for name in names(&row.key) {
            refused(&[&name]);
            for value in BAD.iter().chain(&PLAIN) {
                refused(&[&format!("{name}={value}")]);
            }
        }
    }
}

/// No key of the table without a row, and no row twice.
#[test]
fn every_allowed_key_was_reviewed() {
    let mut reviewed = BTreeMap::new();
    for row in rows() {
        let key = row.key.to_ascii_lowercase();
        assert!(
            reviewed.insert(key, row.value.is_some()).is_none(),
            "{}",
            row.key
        );
    }
    // Written by hosting tools, not by git.
    let tools = [
        "gh-resolved",
        "vscode-merge-base",
        "gh-merge-base",
        "github-pr-owner-number",
    ];
    for group in TABLE {
        let Keys::Listed(keys) = group.keys else {
            assert_eq!(reviewed.get(&format!("{}.*", group.section)), Some(&true));
            continue;
        };
        for (key, _) in keys.iter().filter(|(k, _)| !tools.contains(k)) {
            let plain = format!("{}.{key}", group.section);
            let with = |sub: &str| format!("{}.<{sub}>.{key}", group.section);
            let forms: &[String] = match group.sub {
                Sub::None => &[plain],
                Sub::Any | Sub::Named(_) => &[with("name")],
                Sub::Both => &[plain, with("pattern")],
            };
            for form in forms {
                assert_eq!(reviewed.get(form), Some(&true), "{form}");
            }
        }
    }
}

/// Every key that an installed git knows: reviewed where its section has allowed keys, shut where it has none.
#[test]
fn every_key_of_git_was_reviewed_or_is_shut() {
    let rows = rows();
    let reviewed: BTreeSet<String> = rows.iter().map(|r| r.key.to_ascii_lowercase()).collect();
    let sections: BTreeSet<&str> = TABLE.iter().map(|g| g.section).collect();
    let (mut known, mut others) = (0, 0);
    for git in Git::all() {
        let out = git.output(".", &["help", "--config"]);
        assert!(out.status.success());
        for key in String::from_utf8(out.stdout).unwrap().lines() {
            let Some((section, rest)) = key.split_once('.') else {
                continue;
            };
            let section = section.to_ascii_lowercase();
            if !sections.contains(section.as_str()) {
                others += 1;
                // `gpg.<format>.program`, `man.<tool>.path`, `pager.<cmd>`, `alias.*`
                let name = names(&key.replace('*', "<x>")).remove(0);
                for value in BAD.iter().chain(&PLAIN) {
                    refused(&[&format!("{name}={value}")]);
                }
                continue;
            }
            known += 1;
            let whole = format!("{section}.*");
            let key = key.to_ascii_lowercase();
            assert!(
                reviewed.contains(&key) || reviewed.contains(&whole),
                "{key} ({rest}) of {git:?} was not reviewed"
            );
        }
    }
    assert!(known > 200 && others > 400, "{known} {others}");
}
