//! The pages for each kind of user: their files are written, their commands run, in the order of the page, and print what the page shows.

use std::fmt::Write as _;

use super::{Block, in_project, page, prepare, write};
use crate::net::lab::{Caller, Lab};

/// Between the output of two commands.
const MARK: &str = "\u{1e}";

/// A command of a transcript and the lines it shows.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    command: String,
    shown: Vec<String>,
}

impl Step {
    /// Whether it printed what is shown. Lines of ccbox come when something is refused, beside those of the command: each are in order.
    fn as_shown(&self, lines: &[&str]) -> bool {
        let ours = |line: &str| line.starts_with("ccbox: ");
        [true, false].into_iter().all(|which| {
            let shown: Vec<&str> = self.shown.iter().map(String::as_str).collect();
            let shown: Vec<&str> = shown.into_iter().filter(|l| ours(l) == which).collect();
            let lines: Vec<&str> = lines.iter().copied().filter(|l| ours(l) == which).collect();
            all_like(&shown, &lines)
        })
    }
}

/// `$ COMMAND`, `> ` before its further lines, then what it prints.
fn steps(transcript: &str) -> Vec<Step> {
    let mut out: Vec<Step> = Vec::new();
    for line in transcript.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            out.push(Step {
                command: command.to_owned(),
                shown: Vec::new(),
            });
        } else {
            let last = out.last_mut().expect("a transcript starts with `$ `");
            match line.strip_prefix("> ") {
                Some(more) if last.shown.is_empty() => {
                    last.command.push('\n');
                    last.command.push_str(more);
                }
                _ => last.shown.push(line.to_owned()),
            }
        }
    }
    out
}

/// One shell for the whole transcript, so that `$?` and variables are those of a prompt.
fn script(steps: &[Step]) -> String {
    let mut out = "exec 2>&1\nset -o pipefail\n".to_owned();
    for step in steps {
        writeln!(out, "{}\nrc=$?; printf '{MARK}'; (exit $rc)", step.command).unwrap();
    }
    out
}

/// Numbers of processes are those of the day.
fn without_numbers(line: &str) -> String {
    let Some((head, rest)) = line.split_once(" [") else {
        return line.to_owned();
    };
    match rest.split_once(']') {
        Some((inside, tail)) if line.starts_with("ccbox: denied ") => {
            let name = inside.rsplit_once(' ').map_or(inside, |(name, _)| name);
            format!("{head} [{name} N]{tail}")
        }
        _ => line.to_owned(),
    }
}

/// Whether a line is as shown, where `…` stands for any text.
fn like(shown: &str, line: &str) -> bool {
    let (shown, line) = (without_numbers(shown), without_numbers(line));
    let mut parts = shown.split('…');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap()) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    true
}

/// Whether the lines are as shown; a line that is only `…` stands for any number of lines.
fn all_like(shown: &[&str], lines: &[&str]) -> bool {
    match shown.split_first() {
        None => lines.is_empty(),
        Some((&"…", rest)) => (0..=lines.len()).any(|n| all_like(rest, &lines[n..])),
        Some((first, rest)) => lines
            .split_first()
            .is_some_and(|(line, lines)| like(first, line) && all_like(rest, lines)),
    }
}

#[test]
fn transcripts_are_compared_line_by_line() {
    let step = |command: &str, shown: &[&str]| Step {
        command: command.to_owned(),
        shown: shown.iter().map(|&s| s.to_owned()).collect(),
    };
    assert_eq!(
        steps("$ a\n$ b \\\n> c\n1\n> 2\n"),
        [step("a", &[]), step("b \\\nc", &["1", "> 2"])]
    );
    for (shown, line, same) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("a…", "ab", true),
        ("a…c", "abc", true),
        ("a…c", "abd", false),
        ("a…c…e", "abcde", true),
        ("a…c…e", "acde", true),
        ("a…x…e", "abcde", false),
        (
            "ccbox: denied x [sh 1]: y",
            "ccbox: denied x [sh 22]: y",
            true,
        ),
        (
            "ccbox: denied x [sh 1]: y",
            "ccbox: denied x [cat 1]: y",
            false,
        ),
        ("x [sh 1]", "x [sh 2]", false),
    ] {
        assert_eq!(like(shown, line), same, "{shown} / {line}");
    }
    assert!(all_like(&["a", "…", "d"], &["a", "b", "c", "d"]));
    assert!(all_like(&["…"], &[]));
    assert!(!all_like(&["a"], &["a", "b"]));
    assert!(!all_like(&["a", "b"], &["a"]));
    let mixed = step("", &["ccbox: x", "a"]);
    assert!(mixed.as_shown(&["a", "ccbox: x"]) && !mixed.as_shown(&["a"]));
}

/// Files that the projects of the pages have already, so that `make` and `npm test` do something.
const PROJECT: &[(&str, &str)] = &[
    ("Makefile", "all:\n\t@echo built | tee out\n.PHONY: all\n"),
    (
        "package.json",
        "{\"name\":\"app\",\"version\":\"1.0.0\",\"scripts\":{\"test\":\"echo tested\"}}\n",
    ),
    ("README", "An app.\n"),
    ("~/.ssh/id_ed25519", "key\n"),
    ("~/.config/gh/hosts.yml", "oauth_token: x\n"),
];

/// Follows a page from its first line to its last, as an ordinary user.
fn follow(name: &str) {
    let lab = Lab::start();
    let caller = Caller::User;
    let (home, _) = lab.home(caller);
    let user = lab.user().name.clone();
    prepare(&lab, caller, PROJECT);
    in_project(&lab, caller, "git add -A && git commit -qm start").success();
    let (mut ran, mut wrong) = (0, String::new());
    for section in page(name) {
        for block in &section.blocks {
            let Block {
                language,
                file,
                text,
            } = block;
            match (language.as_str(), file) {
                (_, Some(file)) => {
                    assert!(
                        section.prose.contains(&format!("`{file}`")),
                        "{name}: {file}"
                    );
                    write(&lab, caller, file, text);
                }
                ("sh", None) => {
                    let out = in_project(&lab, caller, &format!("set -eu\n{text}"));
                    assert_eq!(out.code, Some(0), "{name}: {text}\n{out}");
                    ran += text.lines().count();
                }
                ("console", None) => {
                    let steps = steps(text);
                    let out = in_project(&lab, caller, &script(&steps));
                    let said = out.stdout.replace(&home, "/home/ada").replace(&user, "ada");
                    let parts: Vec<&str> = said.split(MARK).collect();
                    assert_eq!(parts.len(), steps.len() + 1, "{name}: {text}\n{out}");
                    for (step, part) in steps.iter().zip(parts) {
                        let lines: Vec<&str> = part.lines().collect();
                        if !step.as_shown(&lines) {
                            writeln!(wrong, "{name}: $ {}\n{part}", step.command).unwrap();
                        }
                        ran += 1;
                    }
                }
                // What somebody else's program prints or takes.
                ("text", None) => {}
                (other, None) => panic!("{name}: a block of {other} that is no file"),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(ran >= 8, "{name}: {ran} commands");
}

#[test]
fn the_page_for_developers_is_true() {
    follow("for-developers.md");
}

#[test]
fn the_page_for_builds_is_true() {
    follow("for-builds.md");
}

#[test]
fn the_page_for_agents_is_true() {
    follow("for-agents.md");
}

#[test]
fn the_page_for_machines_is_true() {
    follow("for-ci.md");
}
