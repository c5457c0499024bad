//! The reader of git configuration and the gate against the installed gits, many files long.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ccbox::broker::gate::compare;
use ccbox::broker::gate::config::{Entry, parse};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Files per property.
const FILES: u32 = 15_000;

/// The installed gits of different versions.
fn gits() -> Vec<PathBuf> {
    let mut versions = Vec::new();
    let mut found = Vec::new();
    for dir in ["/usr/bin", "/usr/local/bin"] {
        let program = Path::new(dir).join("git");
        if let Ok(out) = Command::new(&program).arg("--version").output()
            && !versions.contains(&out.stdout)
        {
            versions.push(out.stdout);
            found.push(program);
        }
    }
    assert!(!found.is_empty(), "no git is installed");
    found
}

/// `git config --list -z` of the file; `None` where git refuses it.
fn list(git: &Path, file: &Path) -> Option<Vec<u8>> {
    let out = Command::new(git)
        .args(["config", "--no-includes", "--list", "-z", "--file"])
        .arg(file)
        .env_clear()
        .stderr(Stdio::null())
        .output()
        .unwrap();
    out.status.success().then_some(out.stdout)
}

fn listed(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::new();
    for e in entries {
        out.extend(e.name());
        if let Some(value) = &e.value {
            out.push(b'\n');
            out.extend_from_slice(value);
        }
        out.push(0);
    }
    out
}

/// What git itself writes, and what people do.
const CORPUS: [&str; 6] = [
    "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n[remote \"origin\"]\n\turl = git@x.test:o/r.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n",
    "[alias]\n\tl = \"!f() { git log \\\"$@\\\" | cat; }; f\" # c\n\tx = status ; y\n[include]\n\tpath = ~/x\n",
    "# c\n; d\n[a]b=c\n[a \"b.c\"]\r\n  d = \" e \\t\\\"f\\\" \" g \\\n\th\r\n[x]\ny\nz=\n",
    "[submodule \"libs/s\"]\n\tactive = true\n\turl = https://x.test/s\n[user]\n\tname = A \\\"B\\\" C\n\temail = \"a;b#c\"\n",
    "[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n\trequired = true\n[core]\n\thooksPath = .husky\n",
    "\u{feff}[a]\n\tb = \\\\\\\\ \\n\n[c \"\\\\ \\\" d\"]\n\te = f=g\n",
];

/// A file of the corpus, some bytes of it changed for ones that mean something.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    const BYTES: &[u8] = b"\"\\\n\r\t #;[]=.-aA1\0\x01\x7f\xef\xbb\xbf\xc3\xa4!";
    let change = (
        any::<prop::sample::Index>(),
        0_u8..4,
        prop::sample::select(BYTES),
        any::<prop::sample::Index>(),
    );
    (
        prop::sample::select(&CORPUS[..]),
        prop::collection::vec(change, 0..6),
    )
        .prop_map(|(text, changes)| {
            let mut file = text.as_bytes().to_vec();
            for (at, how, byte, other) in changes {
                if file.is_empty() {
                    break;
                }
                let (at, other) = (at.index(file.len()), other.index(file.len()));
                match how {
                    0 => file[at] = byte,
                    1 => file.insert(at, byte),
                    2 => drop(file.remove(at)),
                    // A piece from elsewhere.
                    _ => {
                        let piece: Vec<u8> = file[at..].iter().copied().take(other % 20).collect();
                        file.splice(other..other, piece);
                    }
                }
            }
            file
        })
}

/// Two files that differ by a few lines, moved, gone or new.
fn edits() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    const LINES: [&str; 18] = [
        "[core]\n",
        "[Core]\n",
        "[core \"x\"]\n",
        "[user]\n",
        "[alias]\n",
        "[remote \"o\"]\n",
        "[filter \"f\"]\n",
        "\tbare = true\n",
        "\tname = n\n",
        "\turl = ../o\n",
        "\turl = ext::x\n",
        "\tfsmonitor = x\n",
        "\thooksPath = y\n",
        "\ta = b \\\n c\n",
        "\tname = \"a # b\"\n",
        "# c\n",
        "\tname = \"a\n",
        "\tl\n",
    ];
    let line = || prop::sample::select(&LINES[..]);
    let place = any::<prop::sample::Index>;
    let edit = (0_u8..4, place(), place(), line());
    (
        prop::collection::vec(line(), 1..8),
        prop::collection::vec(edit, 0..3),
    )
        .prop_map(|(old, edits)| {
            let mut new = old.clone();
            for (how, at, other, line) in edits {
                let (at, other) = (at.index(new.len() + 1), other.index(new.len() + 1));
                match how {
                    0 => new.insert(at, line),
                    1 if at < new.len() => drop(new.remove(at)),
                    2 if at < new.len() && other < new.len() => new.swap(at, other),
                    _ => new.insert(at, "[user]\n"),
                }
            }
            let file = |lines: Vec<&str>| format!("[x]\n{}", lines.concat()).into_bytes();
            (file(old), file(new))
        })
}

fn run<S: Strategy>(strategy: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let mut runner = TestRunner::new(Config {
        cases: FILES,
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    });
    runner.run(strategy, test).unwrap();
}

/// What the reader accepts, every git lists the same.
#[test]
fn mutated_git_configuration_is_read_as_git_reads_it() {
    let (gits, dir) = (gits(), tempfile::tempdir().unwrap());
    let file = dir.path().join("config");
    let accepted = std::cell::Cell::new(0);
    run(&mutated(), |bytes| {
        let Ok(entries) = parse(&bytes) else {
            return Ok(());
        };
        accepted.set(accepted.get() + 1);
        std::fs::write(&file, &bytes).unwrap();
        for git in &gits {
            let theirs = list(git, &file);
            prop_assert_eq!(
                theirs.as_ref(),
                Some(&listed(&entries)),
                "{:?} {}",
                git,
                bytes.escape_ascii()
            );
        }
        Ok(())
    });
    assert!(accepted.get() > FILES / 4, "{}", accepted.get());
}

/// A change that passes the gate leaves every setting that may run something as git saw it before, in git's own order.
#[test]
fn git_sees_no_new_program_after_the_gate() {
    let (gits, dir) = (gits(), tempfile::tempdir().unwrap());
    let file = dir.path().join("config");
    let passed = std::cell::Cell::new(0);
    run(&edits(), |(old, new)| {
        if compare(&old, &new).is_err() {
            return Ok(());
        }
        passed.set(passed.get() + 1);
        for git in &gits {
            let programs = |bytes: &[u8]| {
                std::fs::write(&file, bytes).unwrap();
                let out = list(git, &file).unwrap();
                let is_program = |entry: &&[u8]| {
                    let name = entry.split(|&b| b == b'\n').next().unwrap();
                    let starts = |with: &str| name.starts_with(with.as_bytes());
                    let harmless = name == b"core.bare"
                        || starts("user.")
                        || starts("remote.o.url") && !entry.ends_with(b"ext::x");
                    !harmless
                };
                out.split(|&b| b == 0)
                    .filter(is_program)
                    .map(<[u8]>::to_vec)
                    .collect::<Vec<_>>()
            };
            prop_assert_eq!(
                programs(&old),
                programs(&new),
                "{}\n->\n{}",
                old.escape_ascii(),
                new.escape_ascii()
            );
        }
        Ok(())
    });
    assert!(passed.get() > FILES / 20, "{}", passed.get());
}
