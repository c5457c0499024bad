//! Entries into the text of a spec, with everything else of it left as it is.

use toml_edit::{Array, DocumentMut, InlineTable, Item, RawString, Table, TableLike, Value};

use super::offer::Entry;

/// Other spellings of a key (R20).
const SPELLINGS: &[(&str, &str)] = &[("exec_grant_roots", "execGrantRoots")];

/// What keeps a text from being edited.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EditError {
    /// It is not TOML; the parser's first line.
    NotToml(String),
    /// Something else stands where the list should be.
    NotAList(String),
}

/// The text with these entries, and how many of them were not there yet.
pub(super) fn add(text: &str, entries: &[Entry]) -> Result<(String, usize), EditError> {
    let mut document: DocumentMut = text.parse().map_err(|e: toml_edit::TomlError| {
        EditError::NotToml(e.message().lines().next().unwrap_or_default().to_owned())
    })?;
    let mut added = 0;
    for entry in entries {
        let list = list(&mut document, entry)?;
        let value: Value = entry
            .value
            .parse()
            .map_err(|_| EditError::NotToml(entry.value.clone()))?;
        if !list.iter().any(|v| same(v, &value)) {
            push(list, value);
            added += 1;
        }
    }
    Ok((document.to_string(), added))
}

/// The list of an entry, made where it is missing.
fn list<'d>(document: &'d mut DocumentMut, entry: &Entry) -> Result<&'d mut Array, EditError> {
    let wrong = |what: &str| EditError::NotAList(what.to_owned());
    let table: &mut dyn TableLike = if entry.table.is_empty() {
        document.as_table_mut()
    } else {
        let mut before = if document.is_empty() { "" } else { "\n" }.to_owned();
        if document.is_empty()
            && !document
                .trailing()
                .as_str()
                .unwrap_or_default()
                .trim()
                .is_empty()
        {
            // Nothing but comments: they stay in front.
            before = format!("{}\n", document.trailing().as_str().unwrap_or_default());
            document.set_trailing("");
        }
        let fresh = || {
            let mut table = Table::new();
            table.decor_mut().set_prefix(before);
            Item::Table(table)
        };
        let item = document.entry(entry.table).or_insert_with(fresh);
        // What stands before the brace would stand before the comma.
        if let Some(inline) = item.as_inline_table_mut()
            && !inline.contains_key(entry.key)
            && let Some((_, last)) = inline.iter_mut().last()
        {
            last.decor_mut().set_suffix("");
        }
        item.as_table_like_mut().ok_or_else(|| wrong(entry.table))?
    };
    let spelled = SPELLINGS
        .iter()
        .find(|(key, other)| *key == entry.key && table.contains_key(other))
        .map_or(entry.key, |(_, other)| other);
    table
        .entry(spelled)
        .or_insert_with(|| Item::Value(Value::Array(Array::new())))
        .as_array_mut()
        .ok_or_else(|| wrong(spelled))
}

/// The same value, however it is written.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a.value() == b.value(),
        (Value::InlineTable(a), Value::InlineTable(b)) => {
            let holds = |a: &InlineTable, b: &InlineTable| {
                a.iter().all(|(k, v)| b.get(k).is_some_and(|w| same(v, w)))
            };
            a.len() == b.len() && holds(a, b)
        }
        (Value::Boolean(a), Value::Boolean(b)) => a.value() == b.value(),
        _ => false,
    }
}

fn text(raw: Option<&RawString>) -> String {
    raw.and_then(RawString::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// Adds a value the way the list is written: on one line, or one a line. A comment stays behind the entry it belongs to.
fn push(list: &mut Array, mut value: Value) {
    let mut before = String::new();
    let trailing = text(Some(list.trailing()));
    if let Some(last) = list.iter_mut().last() {
        // Of a last entry without a comma the comment stands before where the comma goes.
        let suffix = text(last.decor().suffix());
        let prefix = text(last.decor().prefix());
        let lines = prefix.contains('\n') || trailing.contains('\n') || suffix.contains('\n');
        let indent = if prefix.contains('\n') {
            prefix.rsplit('\n').next().unwrap_or_default()
        } else {
            "    "
        };
        let comment = format!("{}{}", suffix.trim_end(), trailing.trim_end());
        before = if lines {
            format!("{comment}\n{indent}")
        } else {
            format!("{comment} ")
        };
        last.decor_mut().set_suffix("");
        if lines {
            list.set_trailing("\n");
            list.set_trailing_comma(true);
        } else {
            list.set_trailing("");
        }
    } else if trailing.contains('#') {
        before = format!("{}\n    ", trailing.trim_end());
        list.set_trailing("\n");
    } else {
        list.set_trailing("");
    }
    value.decor_mut().set_prefix(before);
    value.decor_mut().set_suffix("");
    list.push_formatted(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(table: &'static str, key: &'static str, value: &str) -> Entry {
        Entry {
            table,
            key,
            value: value.to_owned(),
        }
    }

    fn read(value: &str) -> Entry {
        entry("filesystem", "allow_read", value)
    }

    #[test]
    fn comments_and_layout_stay() {
        let table = [
            ("", "[filesystem]\nallow_read = [\"/n\"]\n"),
            (
                "# mine\n# all of it\n",
                "# mine\n# all of it\n\n[filesystem]\nallow_read = [\"/n\"]\n",
            ),
            (
                "# mine\nmode = \"chat\" # why\n",
                "# mine\nmode = \"chat\" # why\n\n[filesystem]\nallow_read = [\"/n\"]\n",
            ),
            (
                "[filesystem] # f\nview = \"host\"\n\n# net\n[network]\n",
                "[filesystem] # f\nview = \"host\"\nallow_read = [\"/n\"]\n\n# net\n[network]\n",
            ),
            (
                "[filesystem]\nallow_read = [\"/a\"] # kept\n",
                "[filesystem]\nallow_read = [\"/a\", \"/n\"] # kept\n",
            ),
            (
                "[filesystem]\nallow_read = []\n",
                "[filesystem]\nallow_read = [\"/n\"]\n",
            ),
            (
                "[filesystem]\nallow_read = [\n  # first\n  \"/a\", # of a\n]\n",
                "[filesystem]\nallow_read = [\n  # first\n  \"/a\", # of a\n  \"/n\",\n]\n",
            ),
            (
                "[filesystem]\nallow_read = [\n  \"/a\"\n]\n",
                "[filesystem]\nallow_read = [\n  \"/a\",\n  \"/n\",\n]\n",
            ),
            (
                "[filesystem]\nallow_read = [\n  # none yet\n]\n",
                "[filesystem]\nallow_read = [\n  # none yet\n    \"/n\"\n]\n",
            ),
            (
                "filesystem.allow_read = ['/a']\n",
                "filesystem.allow_read = ['/a', \"/n\"]\n",
            ),
            (
                "filesystem = { view = \"host\" }\n",
                "filesystem = { view = \"host\", allow_read = [\"/n\"] }\n",
            ),
            (
                "[filesystem]\nallow_read = ['/n'] # there\n",
                "[filesystem]\nallow_read = ['/n'] # there\n",
            ),
        ];
        for (before, after) in table {
            let (text, _) = add(before, &[read("\"/n\"")]).unwrap();
            assert_eq!(text, after);
            let again = add(&text, &[read("\"/n\"")]).unwrap();
            assert_eq!(again, (text, 0));
        }
    }

    #[test]
    fn several_tables_stand_apart() {
        let host = entry("network", "allowed_domains", "\"h\"");
        let (text, added) = add("", &[read("\"/n\""), host]).unwrap();
        assert_eq!(
            (text.as_str(), added),
            (
                "[filesystem]\nallow_read = [\"/n\"]\n\n[network]\nallowed_domains = [\"h\"]\n",
                2
            )
        );
    }

    #[test]
    fn other_spellings_and_wrong_places() {
        let root = entry("", "exec_grant_roots", "\"/b\"");
        let (text, added) = add("execGrantRoots = [\"/a\"]\n", &[root]).unwrap();
        assert_eq!(
            (text.as_str(), added),
            ("execGrantRoots = [\"/a\", \"/b\"]\n", 1)
        );
        for wrong in [
            "filesystem = 3\n",
            "[filesystem]\nallow_read = \"x\"\n",
            "[filesystem\n",
            "[[filesystem]]\n",
        ] {
            assert!(add(wrong, &[read("\"/n\"")]).is_err(), "{wrong}");
        }
    }

    proptest! {
        /// Whatever a name holds, the text stays TOML with exactly this entry more.
        #[test]
        fn any_name_stays_one_entry(name in ".*", literal: bool) {
            let quoted = toml::Value::String(format!("/{name}")).to_string();
            let value = if literal { format!("{{ path = {quoted}, literal = true }}") } else { quoted };
            let (text, added) = add("[filesystem]\nallow_read = [\n  \"/a\", # x\n]\n", &[read(&value)]).unwrap();
            let parsed: toml::Table = toml::from_str(&text).unwrap();
            let list = parsed["filesystem"]["allow_read"].as_array().unwrap();
            prop_assert_eq!(list.len(), 1 + added);
            prop_assert_eq!(parsed.len(), 1);
        }
    }
}
