//! Rules about the source itself, stated in ARCHITECTURE.md as absences.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Which module may use which. A module may always use itself; `exit` and `policy` depend on nothing.
const MAY_USE: &[(&str, &[&str])] = &[
    ("exit", &[]),
    ("policy", &[]),
    ("fuzz", &["policy", "proxy"]),
    ("sys", &[]),
    ("report", &["exit"]),
    ("host", &["exit", "sys"]),
    ("spec", &["exit", "policy", "host"]),
    ("plan", &["exit", "policy", "host", "broker"]),
    ("backend", &["exit", "policy", "host", "plan", "broker"]),
    ("proxy", &["exit", "policy", "report", "sys"]),
    ("broker", &["exit", "policy", "report", "sys"]),
    (
        "session",
        &["exit", "backend", "broker", "proxy", "report", "sys"],
    ),
    (
        "cli",
        &[
            "exit", "policy", "spec", "host", "plan", "backend", "broker", "proxy", "report",
            "session", "sys",
        ],
    ),
    ("main", &["cli", "session", "host"]),
    ("lib", &[]),
];

struct Source {
    /// Path below `src/`.
    name: String,
    /// First component without `.rs`.
    module: String,
    text: String,
    /// `tests.rs`, `…/tests/…`, `fixtures.rs`: compiled for tests only.
    tests_only: bool,
}

impl Source {
    /// The file without comments and without what `#[cfg(test)] mod … { }` holds at its end; line numbers stay.
    fn code(&self) -> Vec<(usize, String)> {
        let mut out = Vec::new();
        let mut pending = false;
        for (n, line) in self.text.lines().enumerate() {
            if pending
                && line.trim_start().starts_with("mod ")
                && line.trim_end().ends_with('{')
                && !line.starts_with(' ')
            {
                break;
            }
            pending = line.trim() == "#[cfg(test)]";
            out.push((n + 1, without_comment(line)));
        }
        out
    }
}

/// Cuts `// …`, and blanks string literals so that words in them do not count. Good enough for formatted code.
fn without_comment(line: &str) -> String {
    let mut out = String::new();
    let mut in_text = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if in_text => {
                chars.next();
            }
            '\'' if !in_text && chars.clone().nth(1) == Some('\'') => {
                chars.nth(1);
            }
            '"' => in_text = !in_text,
            '/' if !in_text && chars.peek() == Some(&'/') => break,
            _ if in_text => {}
            c => out.push(c),
        }
    }
    out
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    walk(&root, &mut found);
    assert!(found.len() > 20);
    found
        .into_iter()
        .map(|path| {
            let below = path.strip_prefix(&root).unwrap();
            let name = below.to_str().unwrap().to_owned();
            let first = below
                .components()
                .next()
                .unwrap()
                .as_os_str()
                .to_str()
                .unwrap();
            Source {
                module: first.trim_end_matches(".rs").to_owned(),
                tests_only: name.ends_with("/tests.rs")
                    || name.contains("/tests/")
                    || name.ends_with("/fixtures.rs"),
                text: std::fs::read_to_string(&path).unwrap(),
                name,
            }
        })
        .collect()
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Modules named by `crate::x`, `crate::{x, y}` and, in the binary, `ccbox::x`.
fn uses(line: &str) -> Vec<String> {
    let mut out = Vec::new();
    for root in ["crate::", "ccbox::"] {
        for (at, _) in line.match_indices(root) {
            let rest = &line[at + root.len()..];
            let list = rest
                .strip_prefix('{')
                .map_or(rest, |l| l.split('}').next().unwrap());
            let many = rest.starts_with('{');
            for item in list.split(',').take(if many { usize::MAX } else { 1 }) {
                let word: String = item
                    .trim()
                    .chars()
                    .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                    .collect();
                if !word.is_empty() {
                    out.push(word);
                }
            }
        }
    }
    out
}

#[test]
fn modules_depend_in_one_direction() {
    let allowed: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    let mut wrong = Vec::new();
    for s in sources().iter().filter(|s| !s.tests_only) {
        let may = allowed
            .get(s.module.as_str())
            .unwrap_or_else(|| panic!("{} is in no row of MAY_USE", s.name));
        for (n, line) in s.code() {
            for used in uses(&line) {
                if used != s.module && !may.contains(&used.as_str()) {
                    wrong.push(format!(
                        "src/{}:{n}: {} may not use {used}",
                        s.name, s.module
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn policy_touches_neither_files_nor_environment_nor_clock() {
    let mut wrong = Vec::new();
    for s in sources()
        .iter()
        .filter(|s| s.module == "policy" && !s.tests_only)
    {
        for (n, line) in s.code() {
            for word in [
                "std::fs",
                "std::env",
                "std::process",
                "SystemTime",
                "Instant",
                "nix::",
                "libc::",
            ] {
                if has_word(&line, word) {
                    wrong.push(format!("src/{}:{n}: {word}", s.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `word` not as the tail of a longer one (`nix::` in `unix::`).
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
}

#[test]
fn unsafe_is_in_sys_only_and_every_block_says_why() {
    let mut wrong = Vec::new();
    let mut blocks = 0;
    for s in sources() {
        let lines: Vec<&str> = s.text.lines().collect();
        for (n, line) in lines.iter().enumerate() {
            let code = without_comment(line);
            let is_unsafe = code
                .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .any(|word| word == "unsafe");
            if !is_unsafe {
                continue;
            }
            blocks += 1;
            if s.module != "sys" {
                wrong.push(format!("src/{}:{}: unsafe outside sys", s.name, n + 1));
            }
            if !says_why(&lines[..n]) {
                wrong.push(format!("src/{}:{}: no SAFETY comment", s.name, n + 1));
            }
        }
    }
    assert!(blocks > 0 && wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The comment stands directly above, or above the statement or function the block is part of.
fn says_why(above: &[&str]) -> bool {
    for line in above.iter().rev() {
        let line = line.trim();
        if line.contains("SAFETY:") || line.contains("# Safety") {
            return true;
        }
        // A line in the middle of the statement the block is part of.
        let ended = line.is_empty() || line.ends_with([';', '{', '}']);
        let goes_on = line.starts_with("//") || line.starts_with("#[") || !ended;
        if !goes_on {
            return false;
        }
    }
    false
}

#[test]
fn platforms_are_told_apart_in_sys_and_host_only() {
    let mut wrong = Vec::new();
    for s in sources() {
        if ["sys", "host"].contains(&s.module.as_str()) {
            continue;
        }
        // Tests as well: those whose subject is Linux itself are declared by a macro of sys.
        for (n, line) in s.text.lines().enumerate() {
            if tells_platforms_apart(&without_comment(line)) {
                wrong.push(format!("src/{}:{}", s.name, n + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The words of cfg(…) for systems; those for processors are something else.
fn tells_platforms_apart(code: &str) -> bool {
    let words = ["target_os", "target_family", "target_vendor", "target_env"];
    let bare = [
        "cfg(unix",
        "cfg(linux",
        "cfg(windows",
        "not(unix",
        "not(windows",
    ];
    words.iter().any(|w| has_word(code, w)) || bare.iter().any(|w| code.contains(w))
}

#[test]
fn only_report_writes_to_standard_streams() {
    let mut wrong = Vec::new();
    for s in sources().iter().filter(|s| !s.tests_only) {
        for (n, line) in s.code() {
            for word in ["println!", "eprintln!", "print!(", "eprint!(", "dbg!("] {
                if line.contains(word) {
                    wrong.push(format!("src/{}:{n}: {word}", s.name));
                }
            }
            // As a value to hand on (its descriptor) it is harmless; `.lock()` and writing are what counts.
            let writes = [
                "stderr().lock",
                "stdout().lock",
                "stderr().write",
                "stdout().write",
            ];
            if s.module != "report" && writes.iter().any(|w| line.contains(w)) {
                wrong.push(format!("src/{}:{n}: writes to a standard stream", s.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_stay_readable() {
    let long: Vec<String> = sources()
        .iter()
        .filter(|s| s.text.lines().count() > 600)
        .map(|s| format!("src/{}: {} lines", s.name, s.text.lines().count()))
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
    let main = sources().into_iter().find(|s| s.name == "main.rs").unwrap();
    assert!(main.text.lines().count() <= 40);
}

/// The functions of a file that can be run as tests, by the path of their module below `src/` or `tests/`.
struct Tests {
    module: Vec<String>,
    text: String,
}

fn tests(root: &Path) -> Vec<Tests> {
    let mut found = Vec::new();
    for top in ["src", "tests"].map(|top| root.join(top)) {
        let mut files = Vec::new();
        walk(&top, &mut files);
        for path in files {
            let below = path.strip_prefix(&top).unwrap().with_extension("");
            let mut module: Vec<String> = below
                .components()
                .map(|c| c.as_os_str().to_str().unwrap().to_owned())
                .collect();
            module.pop_if(|last| matches!(last.as_str(), "mod" | "main"));
            let text = std::fs::read_to_string(path).unwrap();
            found.push(Tests { module, text });
        }
    }
    found
}

impl Tests {
    /// Whether `a::b::name` is a function of this file; the tests of a module may stand in it.
    fn have(&self, module: &[&str], name: &str) -> bool {
        let inner = module.strip_suffix(&["tests"]).unwrap_or(module);
        let here = |wanted: &[&str]| {
            let from = self.module.len().checked_sub(wanted.len());
            from.is_some_and(|from| self.module[from..] == *wanted)
        };
        (here(module) || here(inner)) && self.runs(name)
    }

    /// Tests have no arguments, but for those that proptest gives them.
    fn runs(&self, name: &str) -> bool {
        let head = format!("fn {name}(");
        let mut found = self.text.match_indices(&head);
        found.any(|(at, head)| {
            let (before, after) = self.text.split_at(at);
            let marked = before.lines().rev().take(4).any(|l| l.trim() == "#[test]");
            marked || after[head.len()..].starts_with(')')
        })
    }
}

/// The list of known cases and the one of what the broker holds name tests that exist.
#[test]
fn listed_tests_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let all = tests(root);
    let mut missing = Vec::new();
    for (list, least) in [
        ("tests/it/cases/README.md", 110),
        ("docs/broker-tests.md", 170),
        ("docs/egress-tests.md", 200),
    ] {
        let dir = root.join(list);
        let text = std::fs::read_to_string(&dir).unwrap();
        let mut seen = 0;
        for row in text.lines().filter(|l| l.starts_with("| ")) {
            for word in row.split('`').skip(1).step_by(2) {
                if Path::new(word).extension().is_some_and(|e| e == "rs") {
                    let beside = dir.parent().unwrap().join(word);
                    assert!(root.join(word).exists() || beside.exists(), "{word}");
                } else if let Some((module, names)) = word.rsplit_once("::") {
                    let module: Vec<&str> = module.split("::").collect();
                    for name in names.trim_matches(['{', '}']).split(", ") {
                        if !all.iter().any(|tests| tests.have(&module, name)) {
                            missing.push(format!("{list}: {word} ({name})"));
                        }
                        seen += 1;
                    }
                }
            }
        }
        assert!(seen >= least, "{list}: {seen}");
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn the_scanner_sees_what_it_should() {
    assert_eq!(
        uses("use crate::{exit, policy::Policy};"),
        ["exit", "policy"]
    );
    assert_eq!(uses("let x = crate::sys::landlock::abi();"), ["sys"]);
    assert_eq!(
        without_comment("let a = \"// x unsafe\"; // unsafe").trim(),
        "let a = ;"
    );
    assert_eq!(without_comment("let q = '\"'; unsafe"), "let q = ; unsafe");
    for cfg in [
        "#[cfg(target_os = \"linux\")]",
        "#[cfg(all(test, target_os = \"linux\"))]",
        "if cfg!(target_family = \"unix\") {",
        "#[cfg_attr(not(unix), path = \"x.rs\")]",
        "#[cfg(unix)]",
    ] {
        assert!(tells_platforms_apart(&without_comment(cfg)), "{cfg}");
    }
    for other in [
        "// #[cfg(target_os)]",
        "#[cfg(test)]",
        "cfg!(target_arch = \"x\")",
    ] {
        assert!(!tells_platforms_apart(&without_comment(other)), "{other}");
    }
    assert!(says_why(&["// SAFETY: why,", "// and more"]));
    assert!(says_why(&["// SAFETY: why", "let x ="]));
    assert!(says_why(&["// SAFETY: why", "f(", "x", ".map("]));
    assert!(!says_why(&["// SAFETY: why", "let y = 1;"]));
}
