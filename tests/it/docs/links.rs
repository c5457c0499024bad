//! What pages point to is there: files, headings, tests, options.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::page;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files below a directory whose name ends so.
fn files(dir: &Path, end: &str, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            files(&entry.path(), end, out);
        } else if entry.file_name().to_string_lossy().ends_with(end) {
            out.push(entry.path());
        }
    }
}

/// The pages a reader meets: those at the top, and all of `docs/`.
fn pages() -> Vec<PathBuf> {
    let mut out = Vec::new();
    files(&root().join("docs"), ".md", &mut out);
    for name in [
        "README.md",
        "SECURITY.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
    ] {
        out.push(root().join(name));
    }
    out
}

/// A heading as a link names it.
fn anchor(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn links_lead_somewhere() {
    let mut seen = 0;
    for path in pages() {
        let text = std::fs::read_to_string(&path).unwrap();
        for part in text.split("](").skip(1) {
            let target = part.split(')').next().unwrap();
            if target.starts_with("https://") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let led = if file.is_empty() {
                path.clone()
            } else {
                path.parent().unwrap().join(file)
            };
            assert!(led.exists(), "{}: {target}", path.display());
            if !heading.is_empty() {
                let text = std::fs::read_to_string(&led).unwrap();
                let there = text
                    .lines()
                    .filter(|l| l.starts_with('#'))
                    .any(|l| anchor(l.trim_start_matches('#').trim()) == heading);
                assert!(there, "{}: {target}", path.display());
            }
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen} links");
}

/// Every page of `docs/` but the decisions and the schema is named in README.md.
#[test]
fn the_readme_leads_to_every_page() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.extension().is_some_and(|e| e == "md") {
            assert!(readme.contains(&format!("(docs/{name})")), "{name}");
        }
    }
}

#[test]
fn the_tests_of_the_threat_model_exist() {
    let mut sources = Vec::new();
    files(&root().join("tests"), ".rs", &mut sources);
    files(&root().join("src"), ".rs", &mut sources);
    let mut tests = BTreeSet::new();
    for path in sources {
        let text = std::fs::read_to_string(path).unwrap();
        for part in text.split("#[test]\n").skip(1) {
            // Other attributes may stand between.
            let name = part.split("fn ").nth(1).unwrap();
            tests.insert(name.split('(').next().unwrap().to_owned());
        }
    }
    let mut seen = 0;
    for section in page("threat-model.md") {
        if !section.title.contains("by which test") {
            continue;
        }
        for row in section.prose.lines().filter(|l| l.starts_with("| ")) {
            let cell = row.trim_end_matches('|').rsplit('|').next().unwrap();
            for name in cell.split('`').skip(1).step_by(2) {
                assert!(tests.contains(name), "no test `{name}`: {row}");
                seen += 1;
            }
        }
    }
    assert!(seen > 25, "{seen}");
}
