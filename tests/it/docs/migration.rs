//! `docs/migration.md`: each job with both tools, after a try without a sandbox.

use std::fmt::Write as _;

use super::{Section, in_project, page, prepare};
use crate::net::lab::{Caller, Lab};
use crate::support::program;

/// What a job may name: the words of the page, what the command tries, and how the host tells afterwards that it was done
/// (where that can be seen from outside).
const TRIES: &[(&str, &str, &str)] = &[
    ("write here", "echo x >made", "test -e ~/src/app/made"),
    (
        "write build",
        "echo x >build/made",
        "test -e ~/src/app/build/made",
    ),
    ("write home", "echo x >~/made", "test -e ~/made"),
    (
        "write home/build",
        "mkdir -p ~/build && echo x >~/build/made",
        "test -e ~/build/made",
    ),
    (
        "write /tmp",
        "echo x >/tmp/ccbox-page-$$ && rm /tmp/ccbox-page-$$",
        "",
    ),
    ("read ~/notes", "grep -q notes ~/notes", ""),
    ("read ~/private", "grep -q diary ~/private/diary", ""),
    ("read ~/.ssh", "grep -q key ~/.ssh/id", ""),
    ("reach registry.npmjs.org", "reach registry.npmjs.org", ""),
    ("reach another host", "reach denied.test", ""),
];

/// The command behind `make` on the page: tries everything, prints `yes` and the words for what went well.
fn tries() -> String {
    let mut script = "reach() { code=$(curl -s -m10 -o /dev/null -w '%{http_code}' \"http://$1/\"); [ \"$code\" != 000 ] && [ \"$code\" != 403 ]; }\n"
        .to_owned();
    for (words, inside, _) in TRIES {
        writeln!(script, "({inside}) 2>/dev/null && echo 'yes {words}'").unwrap();
    }
    script + "true\n"
}

/// The words after `Works:` or `Closed:`.
fn listed<'s>(section: &'s Section, head: &str) -> Vec<&'s str> {
    let Some((_, rest)) = section.prose.split_once(head) else {
        return Vec::new();
    };
    let sentence = rest.split(". ").next().unwrap();
    let sentence = sentence.split(".\n").next().unwrap();
    let words: Vec<&str> = sentence.split(", ").map(str::trim).collect();
    for word in &words {
        assert!(TRIES.iter().any(|(w, ..)| w == word), "no try for `{word}`");
    }
    words
}

/// A job of the page.
struct Job<'s> {
    section: &'s Section,
    works: Vec<&'s str>,
    closed: Vec<&'s str>,
    /// The files it shows.
    files: Vec<(&'s str, &'s str)>,
    /// What it does first.
    before: String,
    /// The other tool's command, and ccbox's.
    theirs: Option<&'s str>,
    ours: &'s str,
}

fn jobs(sections: &[Section]) -> Vec<Job<'_>> {
    let mut out = Vec::new();
    // Files shown right below a tool's heading are those of all its jobs.
    let mut shared = Vec::new();
    for section in sections {
        let own = section
            .blocks
            .iter()
            .filter_map(|b| Some((b.file.as_deref()?, b.text.as_str())));
        let lines = |text: &str| text.starts_with("ccbox ") || text.starts_with("~/bin/srt ");
        let Some(pair) = section
            .blocks
            .iter()
            .find(|b| b.language == "sh" && b.text.lines().any(lines))
        else {
            shared = own.collect();
            continue;
        };
        let commands: Vec<&str> = pair.text.lines().collect();
        assert!(commands.len() <= 2, "{}", pair.text);
        let others = section.blocks.iter().filter(|b| b.text != pair.text);
        out.push(Job {
            section,
            works: listed(section, "Works: "),
            closed: listed(section, "Closed: "),
            files: shared.iter().copied().chain(own).collect(),
            before: others
                .filter(|b| b.language == "sh")
                .map(|b| b.text.as_str())
                .collect(),
            theirs: (commands.len() == 2).then(|| commands[0]),
            ours: commands.last().unwrap(),
        });
    }
    out
}

/// Runs of neighbouring words that are replaced, added or dropped between two commands: the words outside of a longest
/// common subsequence, in groups.
fn edits(from: &str, to: &str) -> usize {
    let (a, b): (Vec<&str>, Vec<&str>) = (from.split(' ').collect(), to.split(' ').collect());
    let mut best = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            best[i][j] = if a[i] == b[j] {
                best[i + 1][j + 1] + 1
            } else {
                best[i + 1][j].max(best[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut groups, mut inside) = (0, 0, 0, false);
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            (i, j, inside) = (i + 1, j + 1, false);
            continue;
        }
        groups += usize::from(!inside);
        inside = true;
        if j == b.len() || (i < a.len() && best[i + 1][j] >= best[i][j + 1]) {
            i += 1;
        } else {
            j += 1;
        }
    }
    groups
}

#[test]
fn the_commands_of_the_page_differ_little() {
    assert_eq!(edits("a b c d", "a b c d"), 0);
    assert_eq!(edits("a b c d", "x y b d e"), 3);
    let page = page("migration.md");
    let jobs = jobs(&page);
    assert!(jobs.len() >= 12, "{} jobs", jobs.len());
    for tool in ["sandbox-exec", "bwrap", "firejail", "srt"] {
        assert!(
            jobs.iter()
                .any(|j| j.theirs.is_some_and(|c| c.starts_with(tool))),
            "{tool}"
        );
    }
    for job in &jobs {
        if let Some(theirs) = job.theirs {
            let n = edits(theirs, job.ours);
            assert!(n <= 3, "{n} edits between\n{theirs}\n{}", job.ours);
            // What is wrapped stays as it is.
            let last = |c: &str| c.rsplit(' ').next().unwrap().to_owned();
            assert_eq!(last(theirs), last(job.ours));
        }
        assert!(!job.works.is_empty(), "{}", job.section.title);
    }
}

/// A command of the page, tried in a fresh home.
fn attempt(lab: &Lab, caller: Caller, job: &Job<'_>, command: &str, told: bool) {
    let tries = tries();
    let mut files = job.files.clone();
    files.extend([
        ("Makefile", "all:\n\t@sh ./tries\n.PHONY: all\n"),
        ("tries", &tries),
    ]);
    prepare(lab, caller, &files);
    let out = in_project(lab, caller, &format!("{}\n{command}", job.before));
    let what = format!("{}: {command}\n{out}", job.section.title);
    assert_eq!(out.code, Some(0), "{what}");
    let done = |words: &str| {
        let (_, _, outside) = TRIES.iter().find(|(w, ..)| *w == words).unwrap();
        let said = out.stdout.lines().any(|l| l == format!("yes {words}"));
        let seen = outside.is_empty() || in_project(lab, caller, outside).code == Some(0);
        (said, seen)
    };
    for words in &job.works {
        assert_eq!(done(words), (true, true), "`{words}` works with {what}");
    }
    for words in &job.closed {
        // A tool may let the command write to a directory that is thrown away.
        let (said, seen) = done(words);
        let outside = TRIES.iter().any(|(w, _, o)| w == words && !o.is_empty());
        assert!(
            if outside { !seen } else { !said },
            "`{words}` is closed with {what}"
        );
    }
    if told {
        assert!(out.stderr.contains("ccbox: denied "), "{what}");
    }
}

/// Whether the other tool's command can be run here.
fn runs(lab: &Lab, caller: Caller, command: &str) -> bool {
    match command.split(' ').next().unwrap() {
        name @ ("bwrap" | "srt") => program(name).exists(),
        // Set-user-ID root: not in a user namespace, where an ordinary user's laboratory lives.
        "firejail" => {
            program("firejail");
            lab.callers().len() == 2 && caller == Caller::User
        }
        _ => false,
    }
}

#[test]
fn each_job_of_the_page_is_the_same_with_both_tools() {
    let lab = Lab::start();
    let page = page("migration.md");
    for &caller in lab.callers() {
        let mut compared = 0;
        for job in jobs(&page) {
            // Without a sandbox all of it works.
            let all: Vec<&str> = job.works.iter().chain(&job.closed).copied().collect();
            let control = Job {
                works: all,
                closed: Vec::new(),
                before: job.before.clone(),
                files: job.files.clone(),
                ..job
            };
            attempt(&lab, caller, &control, "make", false);
            if let Some(theirs) = job.theirs.filter(|c| runs(&lab, caller, c)) {
                attempt(&lab, caller, &job, theirs, false);
                compared += 1;
            }
            attempt(&lab, caller, &job, job.ours, !job.closed.is_empty());
        }
        assert!(compared >= 4);
    }
}

/// What cannot be run here is at least whole: settings are read, a profile's brackets close.
#[test]
fn the_files_of_the_page_are_well_formed() {
    for section in page("migration.md") {
        let commands: String = section
            .blocks
            .iter()
            .filter(|b| b.language == "sh")
            .map(|b| b.text.as_str())
            .collect();
        for block in &section.blocks {
            let Some(name) = &block.file else { continue };
            assert!(section.prose.contains(&format!("`{name}`")), "{name}");
            match block.language.as_str() {
                "json" => {
                    serde_json::from_str::<serde_json::Value>(&block.text).unwrap();
                }
                "toml" => {
                    block.text.parse::<toml_edit::DocumentMut>().unwrap();
                }
                "scheme" => {
                    let count = |c: char| block.text.matches(c).count();
                    assert_eq!(count('('), count(')'), "{name}");
                    assert!(block.text.starts_with("(version 1)\n"), "{name}");
                    // Every parameter is given on the command line beside it.
                    for part in block.text.split("(param \"").skip(1) {
                        let key = part.split('"').next().unwrap();
                        assert!(commands.contains(&format!("-D {key}=")), "{key}");
                    }
                }
                other => panic!("{name}: {other}"),
            }
        }
    }
}

/// Every option that a table of the page names exists.
#[test]
fn the_tables_of_the_page_name_options_that_exist() {
    let tree = ccbox::cli::args::command();
    let run = tree.find_subcommand("run").unwrap();
    let mut seen = 0;
    for section in page("migration.md") {
        for row in section.prose.lines().filter(|l| l.starts_with("| ")) {
            let ours = row.split(" | ").nth(1).unwrap();
            for code in ours.split('`').skip(1).step_by(2) {
                if let Some(long) = code.split([' ', '=']).next().unwrap().strip_prefix("--") {
                    assert!(
                        run.get_arguments().any(|a| a.get_long() == Some(long)),
                        "--{long}: {row}"
                    );
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 15, "{seen}");
}
