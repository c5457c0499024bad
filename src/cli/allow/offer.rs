//! What of a denial can be offered as a line of a spec, and what of it never is (semantics 32).

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::plan::{BookRule, Effect, Plan, hiding, is_secret, is_system};

/// The keys a line may have. A hint with any other one is words for a person.
const KEYS: &[(&str, &str)] = &[
    ("", "exec_grant_roots"),
    ("filesystem", "allow_create"),
    ("filesystem", "allow_read"),
    ("filesystem", "allow_write"),
    ("network", "allowed_domains"),
    ("network", "allow_unix_sockets"),
];

/// How freely a line is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::cli) enum Class {
    /// To whoever asks.
    Plain,
    /// Only with `--force`: it opens keys, tokens or somebody's home.
    Secret,
    /// Only with `--force`: it opens a file of the system for writing.
    System,
    /// Never: the place is mandatory or protected.
    Never,
}

/// One entry of a list in a spec.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cli) struct Entry {
    /// Empty at the top of the file.
    pub(in crate::cli) table: &'static str,
    pub(in crate::cli) key: &'static str,
    /// As TOML.
    pub(in crate::cli) value: String,
}

impl Entry {
    /// Reads `[table] key = [value]`, as hints have it. `None`: not something to add.
    pub(super) fn of_hint(hint: &str) -> Option<Self> {
        let (table, rest) = match hint.strip_prefix('[') {
            Some(rest) => rest.split_once("] ")?,
            None => ("", hint),
        };
        let (key, _) = rest.split_once(" = ")?;
        let (table, key) = KEYS.iter().find(|(t, k)| *t == table && *k == key)?;
        let document = toml::from_str::<toml::Table>(rest).ok()?;
        if document.len() != 1 {
            return None;
        }
        match document.get(*key)?.as_array()?.as_slice() {
            [one] => Some(Self {
                table,
                key,
                value: inline(one)?,
            }),
            _ => None,
        }
    }

    /// The path it opens, if it opens one.
    pub(super) fn path(&self) -> Option<PathBuf> {
        if self.key == "allowed_domains" {
            return None;
        }
        let document = toml::from_str::<toml::Table>(&format!("v = {}", self.value)).ok()?;
        let value = document.get("v")?;
        let text = value.get("path").unwrap_or(value).as_str()?;
        Some(PathBuf::from(text.replace("$$", "$")))
    }
}

/// A value on one line.
fn inline(value: &toml::Value) -> Option<String> {
    (value.is_str() || value.is_table()).then(|| value.to_string())
}

/// What comes first where an entry names something that is not there yet.
const FIRST: &str = "make it outside, then ";

/// The entry of a hint, and whether something has to be made before.
pub(super) fn entry_of(hint: &str) -> Option<(Entry, bool)> {
    match hint.strip_prefix(FIRST) {
        Some(rest) => Entry::of_hint(rest).map(|entry| (entry, true)),
        None => Entry::of_hint(hint).map(|entry| (entry, false)),
    }
}

/// The same by what the place is alone, whatever a record says of it.
pub(super) fn class_by_place(home: &Path, entry: &Entry) -> Class {
    let Some(path) = entry.path() else {
        return Class::Plain;
    };
    if is_secret(home, &path) {
        return Class::Secret;
    }
    if entry.key == "allow_write" && (is_system(&path) || home.starts_with(&path)) {
        return Class::System;
    }
    Class::Plain
}

/// How freely the change that a hint names may be offered, after a run under this plan.
pub(in crate::cli) fn class(plan: &Plan, home: &Path, hint: &str) -> Class {
    let Some((entry, _)) = entry_of(hint) else {
        return Class::Plain;
    };
    let Some(path) = entry.path() else {
        return Class::Plain;
    };
    let rules = &plan.rules.rules;
    let never = |r: &BookRule| r.effect == Effect::NeverWrite && path.starts_with(&r.path);
    let writes = matches!(entry.key, "allow_write" | "allow_create");
    if writes && rules.iter().any(never) {
        return Class::Never;
    }
    if hiding(rules, &path).is_some() {
        return Class::Secret;
    }
    class_by_place(home, &entry)
}

#[cfg(test)]
mod tests {
    use super::super::super::fixtures::plan;
    use super::*;
    use crate::policy::{Layer, Origin};

    #[test]
    fn only_lines_with_one_known_entry_are_read() {
        let entry = |hint: &str| Entry::of_hint(hint).map(|e| (e.table, e.key, e.value));
        assert_eq!(
            entry("[filesystem] allow_read = [\"/a\"]"),
            Some(("filesystem", "allow_read", "\"/a\"".to_owned()))
        );
        assert_eq!(
            entry("exec_grant_roots = [\"/a\"]"),
            Some(("", "exec_grant_roots", "\"/a\"".to_owned()))
        );
        let literal = "[filesystem] allow_create = [{ path = \"/a$$[1]\", literal = true }]";
        let read = Entry::of_hint(literal).unwrap();
        assert_eq!(read.path(), Some("/a$[1]".into()));
        let private = "[network] allowed_domains = [{ host = \"h:1\", allow_private = true }]";
        assert_eq!(Entry::of_hint(private).unwrap().path(), None);
        for other in [
            "remove /w/spec.toml:3",
            "set by /etc/ccbox/managed.toml:4",
            "--rw instead of --ro",
            "make it outside, then [filesystem] allow_write = [\"/a\"]",
            "[filesystem] protect_git = false",
            "[filesystem] disabled = true",
            "[filesystem] allow_write = [\"/a\", \"/b\"]",
            "[filesystem] allow_write = [\"/a\"]\ndisabled = true",
            "[filesystem] allow_write = [1]",
        ] {
            assert_eq!(entry(other), None, "{other}");
        }
    }

    #[test]
    fn places_that_are_never_or_not_freely_offered() {
        let mut plan = plan();
        let rule = |effect, path: &str| BookRule {
            effect,
            path: path.into(),
            rule: "r".into(),
            origin: Origin {
                layer: Layer::Spec,
                file: None,
                line: None,
            },
        };
        plan.rules.rules = vec![
            rule(Effect::NeverWrite, "/h/app/prot"),
            rule(Effect::Hide, "/h/keys"),
        ];
        let home = Path::new("/h");
        for (line, wanted) in [
            ("[filesystem] allow_write = [\"/h/app/prot\"]", Class::Never),
            (
                "[filesystem] allow_create = [\"/h/app/prot/x.pem\"]",
                Class::Never,
            ),
            (
                "[filesystem] allow_write = [\"/h/app/protx\"]",
                Class::Plain,
            ),
            ("[filesystem] allow_read = [\"/h/keys/a\"]", Class::Secret),
            ("[filesystem] allow_read = [\"/h/.ssh/id\"]", Class::Secret),
            ("[filesystem] allow_write = [\"/h/.aws\"]", Class::Secret),
            (
                "[network] allow_unix_sockets = [\"/h/.gnupg/S\"]",
                Class::Secret,
            ),
            ("[filesystem] allow_write = [\"/etc/hosts\"]", Class::System),
            ("[filesystem] allow_write = [\"/h\"]", Class::System),
            ("[filesystem] allow_read = [\"/etc/hosts\"]", Class::Plain),
            ("[network] allowed_domains = [\"h\"]", Class::Plain),
            (
                "make it outside, then [filesystem] allow_write = [\"/h/.aws/x\"]",
                Class::Secret,
            ),
        ] {
            assert_eq!(class(&plan, home, line), wanted, "{line}");
        }
    }
}
