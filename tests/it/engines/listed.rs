//! `docs/engine-tests.md` names tests and rows that exist, and every row.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn code(dir: &Path, out: &mut String) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        if path.is_dir() {
            code(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            *out += &std::fs::read_to_string(path).unwrap();
        }
    }
}

#[test]
fn the_list_of_what_engines_hold_is_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = String::new();
    for dir in ["src", "tests/it"] {
        code(&root.join(dir), &mut all);
    }
    let rows = include_str!("rows.rs").lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("    ")?.split_once(": [")?;
        (rest.ends_with("Row {") && !name.contains(' ')).then_some(name)
    });
    let rows: BTreeSet<&str> = rows.collect();
    assert!(rows.len() > 25, "{rows:?}");
    let text = std::fs::read_to_string(root.join("docs/engine-tests.md")).unwrap();
    let mut named = BTreeSet::new();
    for cell in text.lines().filter_map(|line| {
        let line = line.strip_prefix("| ")?.strip_suffix(" |")?;
        Some(line.rsplit_once(" | ")?.1)
    }) {
        for word in cell.split('`').skip(1).step_by(2) {
            if let Some((_, name)) = word.rsplit_once("::") {
                assert!(all.contains(&format!("fn {name}()")), "{word}");
            } else if word.contains('/') {
                assert!(root.join(word).exists(), "{word}");
            } else {
                assert!(rows.contains(word), "{word}");
                named.insert(word);
            }
        }
    }
    assert_eq!(named, rows);
}
