//! The reader against the installed git: what the reader accepts, git lists the same; what git writes, the reader accepts.
//!
//! `CCBOX_FUZZ_CASES` raises the number of generated files per property.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::broker::testgit::Git;

/// The form of `git config --list -z`: the name, LF and the value where there is one, NUL.
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

#[derive(Debug, Default)]
struct Tally {
    both: u32,
    only_git: u32,
    neither: u32,
}

/// The one property: accepted here means listed the same there.
fn agree(gits: &[Git], tally: &mut Tally, file: &[u8]) -> Result<(), String> {
    for git in gits {
        match (parse(file), git.list(file)) {
            (Ok(entries), Some(theirs)) if listed(&entries) == theirs => tally.both += 1,
            (Ok(entries), theirs) => {
                return Err(format!(
                    "{:?}\nhere {}\n{git:?} {:?}",
                    file.escape_ascii().to_string(),
                    listed(&entries).escape_ascii(),
                    theirs.map(|t| t.escape_ascii().to_string())
                ));
            }
            (Err(_), Some(_)) => tally.only_git += 1,
            (Err(_), None) => tally.neither += 1,
        }
    }
    Ok(())
}

fn cases(default: u32) -> u32 {
    std::env::var("CCBOX_FUZZ_CASES").map_or(default, |n| n.parse().unwrap())
}

fn fuzz<S: Strategy<Value = Vec<u8>>>(default: u32, strategy: &S) -> Tally {
    let gits = Git::all();
    let tally = std::cell::RefCell::new(Tally::default());
    let mut runner = TestRunner::new(Config {
        cases: cases(default),
        failure_persistence: None,
        ..Config::default()
    });
    runner
        .run(strategy, |file| {
            agree(&gits, &mut tally.borrow_mut(), &file).map_err(TestCaseError::fail)
        })
        .unwrap();
    tally.into_inner()
}

/// Pieces that matter to the grammar, glued in any order.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        6 => prop::sample::select(vec![
            "[core]", "[Core]", "[a-1]", "[a \"b\"]", "[a \"B.c\"]", "[a \"x\\\"y\"]", "[a \"x\\\\\"]", "[a.b]", "[a \"\"]",
            "[a  \"b\"]", "[a\t\"b\"]", "[a \"b\" ]", "[ a]", "[a", "]", "[", "[]", "[a \"b#;c\"]", "[a \"\\q\"]",
        ]),
        8 => prop::sample::select(vec![
            "key", "Key", "k-1", "bare", "1k", "k_", "\u{e4}", "=", " = ", "\t=\t", "==", "value", "v w", "true", "\"", "\"q\"",
            "\" q \"", "\\\"", "\\\\", "\\n", "\\t", "\\b", "\\q", "\\", "#", ";", " # c", ";c\"",
        ]),
        8 => prop::sample::select(vec!["\n", "\r\n", "\\\n", "\\\r\n", " ", "  ", "\t", "\r", "\n\n", "\n\t"]),
        1 => prop::sample::select(vec!["\u{feff}", "\0", "\u{b}", "\u{c}", "\u{1}", "\u{7f}", "\u{a0}"]),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|p| p.concat().into_bytes())
}

/// Files that are mostly well formed, so that most of them are read by both.
fn plain() -> impl Strategy<Value = Vec<u8>> {
    let name = "[a-zA-Z][a-zA-Z0-9-]{0,6}";
    let sub = prop::option::of("([a-zA-Z0-9./ #;=:*-]|\\\\\"|\\\\\\\\|\u{e9}){1,10}");
    let blank = "[ \t]{0,2}";
    let value = "([a-zA-Z0-9 ./:=*+\\[\\]{}'$-]|\\\\n|\\\\t|\\\\\"|\\\\\\\\|\\\\\n|\"[a-z #;\t]{0,4}\"|\u{fc}){0,14}";
    let end = prop::sample::select(vec![
        "\n", "\n", "\r\n", " \n", "# c\n", " ; \"c\n", "\t\n\n",
    ]);
    let line = (
        blank,
        name,
        blank,
        prop::option::of((blank, value)),
        end.clone(),
    )
        .prop_map(|(b1, key, b2, value, end)| match value {
            Some((b3, value)) => format!("{b1}{key}{b2}={b3}{value}{end}"),
            None => format!("{b1}{key}{b2}\n"),
        });
    let head = (name, sub, end).prop_map(|(name, sub, end)| match sub {
        Some(sub) => format!("[{name} \"{sub}\"]{end}"),
        None => format!("[{name}]{end}"),
    });
    let section = (head, prop::collection::vec(line, 0..4)).prop_map(|(h, l)| h + &l.concat());
    prop::collection::vec(section, 0..4).prop_map(|s| s.concat().into_bytes())
}

#[test]
fn pieces_are_read_as_git_reads_them() {
    let tally = fuzz(400, &pieces());
    // Otherwise the generator has gone blind.
    assert!(tally.both > 20 && tally.neither > 20, "{tally:?}");
}

#[test]
fn plain_files_are_read_as_git_reads_them_and_hardly_ever_refused() {
    let tally = fuzz(300, &plain());
    assert!(
        tally.only_git * 20 <= tally.both,
        "more than one in twenty refused: {tally:?}"
    );
}

#[test]
fn a_seeded_corpus_is_read_as_git_reads_it() {
    let gits = Git::all();
    let mut tally = Tally::default();
    let seeds: &[&[u8]] = &[
        b"[a]\nb = \"x\" y \"z\" \n",
        b"[a]\nb = x\\\n\\\n y\n",
        b"[a]\nb = \"\" x\n",
        b"[a]\nb = x \"\" \n",
        b"[a]\nb = x \\\n\n",
        b"[a]\nb =\\\n\tx\n",
        b"[a]\nb = x\\\\\\\n y\n",
        b"[a]\nb = \"x;\\\n#y\" # c\n",
        b"[a]\nb\n=c\n",
        b"[a]\n\tb=c=d\n[a]b=c\n",
        b"[a \"b]c\"]\nd=1\n",
        b"[a \"b[c\"]\nd=[e]\n",
        b"[a \"\\\\\\\"\"]\nd=1\n",
        b"[a \" b \"]d=1",
        b"[a]\r\nb = c\\\r\n d\r\n# e\r\n",
        b"\xef\xbb\xbf[a]\nb=c",
        b"\xef\xbb\xbf",
        b"[a]\nb = \xff\xfe\n",
        b"[a \"\xff\"]\nb = 1\n",
        b"[a]\nb = x\n c = y\n",
        b"[a]b[c]d=1\n",
        b"[a]\nb=\n[c]\nd=\"\"\n",
        b"[alias]\n\tl = \"!f() { git log \\\"$@\\\"; }; f\" ; c\n",
        b"[include]\n\tpath = /etc/passwd\n",
    ];
    for seed in seeds {
        agree(&gits, &mut tally, seed).unwrap();
        // Every truncation and every single changed byte.
        for cut in 0..seed.len() {
            agree(&gits, &mut tally, &seed[..cut]).unwrap();
        }
        for (at, with) in (0..seed.len()).zip(b"\"\\\n\r \t#;[]=\0".iter().cycle()) {
            let mut changed = seed.to_vec();
            changed[at] = *with;
            agree(&gits, &mut tally, &changed).unwrap();
        }
    }
    assert!(tally.both > 200 && tally.neither > 100, "{tally:?}");
}

#[test]
fn whatever_git_config_writes_is_read() {
    let value = prop_oneof![
        "[ -~]{0,20}",
        "[a-z\"\\\\;# \t\n=\\[\\]]{0,12}",
        "\\PC{0,8}"
    ];
    let sub = prop::option::of("[ -~\u{e9}]{1,12}");
    let name = "[a-zA-Z][a-zA-Z0-9-]{0,3}";
    let write = (
        prop::sample::select(vec!["--add", "--replace-all", "--unset-all"]),
        name,
        sub,
        name,
        value,
    );
    let writes = prop::collection::vec(write, 1..8);
    for git in Git::all() {
        let file = git.dir().join("config");
        let mut runner = TestRunner::new(Config {
            cases: cases(20),
            failure_persistence: None,
            ..Config::default()
        });
        runner
            .run(&writes, |writes| {
                std::fs::write(&file, b"").unwrap();
                for (how, section, sub, key, value) in writes {
                    let name = match sub {
                        Some(sub) => format!("{section}.{sub}.{key}"),
                        None => format!("{section}.{key}"),
                    };
                    let mut args = vec!["config", "--file", "config", how, &name];
                    if how != "--unset-all" {
                        args.push(&value);
                    }
                    git.output(".", &args);
                }
                let file = std::fs::read(&file).unwrap();
                let entries = parse(&file)
                    .map_err(|e| TestCaseError::fail(format!("{e}: {}", file.escape_ascii())))?;
                prop_assert_eq!(Some(listed(&entries)), git.list(&file));
                Ok(())
            })
            .unwrap();
    }
}
