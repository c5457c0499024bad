//! Typed access to a parsed TOML table: every wrong type, unknown key and empty string becomes an error with its place.

use std::cell::RefCell;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::SpecError;
use super::params::{Params, Text};
use super::schema;
use super::source::{Source, shown};
use super::suggest::nearest;
use crate::policy::{Layer, Ruled};

pub(super) type Node<'a> = Spanned<DeValue<'a>>;

/// What is the same for the whole file.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) source: &'a Source,
    /// Where relative paths start (semantics 2).
    pub(super) base: &'a Path,
    pub(super) home: &'a Path,
    pub(super) params: &'a Params,
    /// The rules are for macOS; a value, so that both answers are compiled and tested everywhere.
    pub(super) macos: bool,
    /// Every key that says something, in the order read.
    pub(super) present: RefCell<Vec<Present>>,
    /// Keys whose enforcement comes later.
    pub(super) later: RefCell<Vec<Later>>,
}

/// A key that is set, for `ccbox trust` and for the notice about what is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Present {
    /// Dotted path, e.g. `filesystem.allow_write`.
    pub(super) key: String,
    /// Where its value stands.
    pub(super) span: Range<usize>,
}

/// A key that this build parses and cannot enforce (R14).
#[derive(Debug, Clone)]
pub(super) struct Later {
    /// The refusal.
    pub(super) error: SpecError,
    /// It would tighten: refused also in an untrusted file, where a grant would merely be ignored.
    pub(super) tightens: bool,
}

impl Reader<'_> {
    pub(super) fn error(&self, span: Range<usize>, message: impl AsRef<str>) -> SpecError {
        self.source.error(span, message.as_ref())
    }

    pub(super) fn ruled<T>(&self, node: &Node<'_>, value: T) -> Ruled<T> {
        Ruled {
            value,
            origin: self.source.origin(node.span().start),
        }
    }

    /// Notes something that cannot be enforced yet; `what` carries its own backticks.
    pub(super) fn later(&self, what: &str, node: &Node<'_>, why: Option<&str>, tightens: bool) {
        let message = match why {
            Some(why) => format!("{what} is not supported yet: {why}"),
            None => format!("{what} is not supported yet"),
        };
        self.later.borrow_mut().push(Later {
            error: self.error(node.span(), message),
            tightens,
        });
    }

    /// A string with its parameters put in; never empty.
    pub(super) fn text(
        &self,
        what: &str,
        node: &Node<'_>,
        in_path: bool,
    ) -> Result<Text, SpecError> {
        let text = self.text_or_empty(what, node, in_path)?;
        if text.value.is_empty() {
            return Err(self.error(node.span(), format!("`{what}` holds an empty string")));
        }
        Ok(text)
    }

    pub(super) fn text_or_empty(
        &self,
        what: &str,
        node: &Node<'_>,
        in_path: bool,
    ) -> Result<Text, SpecError> {
        let DeValue::String(raw) = node.get_ref() else {
            return Err(self.wrong_type(what, "a string", node));
        };
        self.params.substitute(raw, in_path).map_err(|problem| {
            let error = self.error(node.span(), problem.message);
            match problem.hint {
                Some(hint) => error.with_hint(&hint),
                None => error,
            }
        })
    }

    pub(super) fn wrong_type(&self, what: &str, wanted: &str, node: &Node<'_>) -> SpecError {
        self.wrong(&format!("`{what}`"), wanted, node)
    }

    /// An entry of the list `what` is a string; in some lists it may be a table.
    pub(super) fn check_entry(
        &self,
        what: &str,
        node: &Node<'_>,
        or_table: bool,
    ) -> Result<(), SpecError> {
        let value = node.get_ref();
        if value.is_str() || or_table && value.is_table() {
            return Ok(());
        }
        Err(self.wrong_entry(what, "a string", node))
    }

    pub(super) fn wrong_entry(&self, what: &str, wanted: &str, node: &Node<'_>) -> SpecError {
        self.wrong(&format!("an entry of `{what}`"), wanted, node)
    }

    fn wrong(&self, what: &str, wanted: &str, node: &Node<'_>) -> SpecError {
        let got = match node.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a number with a point",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.error(node.span(), format!("{what} must be {wanted}, not {got}"))
    }
}

/// One table of the file, its keys already checked.
#[derive(Debug)]
pub(super) struct Table<'a> {
    pub(super) reader: &'a Reader<'a>,
    name: &'static str,
    entries: Vec<(&'static str, &'a Node<'a>)>,
}

impl<'a> Table<'a> {
    /// Checks the keys of a table: unknown ones, and one key in two spellings.
    pub(super) fn open(
        reader: &'a Reader<'a>,
        name: &'static str,
        table: &'a DeTable<'a>,
    ) -> Result<Self, SpecError> {
        let mut rows: Vec<_> = table.iter().collect();
        rows.sort_by_key(|(key, _)| key.span().start);
        let mut entries: Vec<(&'static str, &'a Node<'a>)> = Vec::with_capacity(rows.len());
        let mut spellings: Vec<&str> = Vec::with_capacity(rows.len());
        for (key, node) in rows {
            let typed = key.get_ref().as_ref();
            let own_table = || {
                let allowed = name.is_empty() && matches!(reader.source.layer, Layer::Profile(_));
                (allowed && typed == schema::BUILTIN.0).then_some(schema::BUILTIN.0)
            };
            let Some(known) = schema::canonical(name, typed).or_else(own_table) else {
                let place = match name {
                    "" => String::new(),
                    _ => format!(" in `{name}`"),
                };
                return Err(reader
                    .error(key.span(), format!("unknown key `{}`{place}", shown(typed)))
                    .with_hint(&schema::hint_for(name, typed)));
            };
            if let Some(i) = entries.iter().position(|(k, _)| *k == known) {
                let first = spellings.get(i).copied().unwrap_or_default();
                return Err(reader.error(
                    key.span(),
                    format!("`{first}` and `{typed}` are two spellings of one key"),
                ));
            }
            spellings.push(typed);
            entries.push((known, node));
        }
        Ok(Self {
            reader,
            name,
            entries,
        })
    }

    /// The dotted path of a key.
    pub(super) fn path(&self, key: &str) -> String {
        match self.name {
            "" => key.to_owned(),
            name => format!("{name}.{key}"),
        }
    }

    /// The value of a key that is set.
    pub(super) fn entry(&self, key: &'static str) -> Option<&'a Node<'a>> {
        debug_assert!(
            schema::keys_of(self.name).contains(&key) || key == schema::BUILTIN.0,
            "{key}"
        );
        self.entries
            .iter()
            .find(|(k, _)| *k == key)
            .map(|(_, node)| *node)
    }

    /// As [`Table::entry`]; noted as present unless it is an empty list or table.
    pub(super) fn get(&self, key: &'static str) -> Option<&'a Node<'a>> {
        let node = self.entry(key)?;
        let value = node.get_ref();
        let empty = value.as_array().is_some_and(|items| items.is_empty())
            || value.as_table().is_some_and(DeTable::is_empty);
        if !empty {
            self.reader.present.borrow_mut().push(Present {
                key: self.path(key),
                span: node.span(),
            });
        }
        Some(node)
    }

    /// A table below this one. Its keys are noted one by one, not the table itself.
    pub(super) fn table(
        &self,
        key: &'static str,
        name: &'static str,
    ) -> Result<Option<Table<'a>>, SpecError> {
        let Some(node) = self.entry(key) else {
            return Ok(None);
        };
        match node.get_ref().as_table() {
            Some(table) => Table::open(self.reader, name, table).map(Some),
            None => Err(self
                .reader
                .wrong_type(&self.path(key), "a table", node)
                .with_hint(&format!("write `[{name}]` on a line of its own"))),
        }
    }

    /// `[[name]]`: a list of tables, whose keys are noted one by one.
    pub(super) fn tables(
        &self,
        key: &'static str,
        name: &'static str,
    ) -> Result<Vec<(Table<'a>, &'a Node<'a>)>, SpecError> {
        let what = self.path(key);
        let Some(node) = self.entry(key) else {
            return Ok(Vec::new());
        };
        let wanted = |node: &Node<'_>| {
            self.reader
                .wrong_type(&what, "a list of tables", node)
                .with_hint(&format!("write `[[{name}]]` on a line of its own"))
        };
        let DeValue::Array(items) = node.get_ref() else {
            return Err(wanted(node));
        };
        items
            .iter()
            .map(|item| match item.get_ref().as_table() {
                Some(table) => Ok((Table::open(self.reader, name, table)?, item)),
                None => Err(wanted(item)),
            })
            .collect()
    }

    pub(super) fn bool(&self, key: &'static str) -> Result<Option<Ruled<bool>>, SpecError> {
        let Some(node) = self.get(key) else {
            return Ok(None);
        };
        if let Some(b) = node.get_ref().as_bool() {
            return Ok(Some(self.reader.ruled(node, b)));
        }
        let error = self
            .reader
            .wrong_type(&self.path(key), "true or false", node);
        Err(match node.get_ref().as_str() {
            Some(word @ ("true" | "false")) => {
                error.with_hint(&format!("write `{key} = {word}` without quotes"))
            }
            _ => error,
        })
    }

    pub(super) fn string(&self, key: &'static str) -> Result<Option<Ruled<String>>, SpecError> {
        let Some(node) = self.get(key) else {
            return Ok(None);
        };
        let text = self.reader.text(&self.path(key), node, false)?;
        Ok(Some(self.reader.ruled(node, text.value)))
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(
        &self,
        key: &'static str,
        words: &[(&str, T)],
    ) -> Result<Option<Ruled<T>>, SpecError> {
        let Some(node) = self.get(key) else {
            return Ok(None);
        };
        let what = self.path(key);
        let text = self.reader.text(&what, node, false)?;
        match choose(&text.value, words) {
            Ok(value) => Ok(Some(self.reader.ruled(node, value))),
            Err(hint) => Err(self
                .reader
                .error(
                    node.span(),
                    format!("unknown value `{}` for `{what}`", shown(&text.value)),
                )
                .with_hint(&hint)),
        }
    }

    /// The items of a list.
    pub(super) fn items(&self, key: &'static str, of: &str) -> Result<&'a [Node<'a>], SpecError> {
        let Some(node) = self.get(key) else {
            return Ok(&[]);
        };
        if let Some(items) = node.get_ref().as_array() {
            return Ok(items);
        }
        let error = self
            .reader
            .wrong_type(&self.path(key), &format!("a list of {of}"), node);
        Err(if node.get_ref().is_str() {
            let value = self.reader.source.slice(&node.span());
            error.with_hint(&format!("write `{key} = [{value}]`"))
        } else {
            error
        })
    }

    pub(super) fn strings(&self, key: &'static str) -> Result<Vec<Ruled<String>>, SpecError> {
        let what = self.path(key);
        self.items(key, "strings")?
            .iter()
            .map(|node| {
                self.reader.check_entry(&what, node, false)?;
                let text = self.reader.text(&what, node, false)?;
                Ok(self.reader.ruled(node, text.value))
            })
            .collect()
    }

    /// A whole number from 1 up.
    pub(super) fn count(&self, key: &'static str) -> Result<Option<Ruled<u64>>, SpecError> {
        let Some(node) = self.get(key) else {
            return Ok(None);
        };
        let wanted = || {
            self.reader
                .wrong_type(&self.path(key), "a whole number above 0", node)
        };
        let DeValue::Integer(number) = node.get_ref() else {
            return Err(wanted());
        };
        let plain = number.as_str().replace('_', "");
        match u64::from_str_radix(&plain, number.radix()) {
            Ok(n) if n > 0 => Ok(Some(self.reader.ruled(node, n))),
            _ => Err(self.reader.error(
                node.span(),
                format!("`{}` must be a whole number above 0", self.path(key)),
            )),
        }
    }

    /// A number of bytes: an integer, or a string such as `"512M"`.
    pub(super) fn size(&self, key: &'static str) -> Result<Option<Ruled<u64>>, SpecError> {
        let Some(node) = self
            .entry(key)
            .filter(|n| matches!(n.get_ref(), DeValue::String(_)))
        else {
            return self.count(key);
        };
        let text = self.reader.text(&self.path(key), node, false)?.value;
        self.get(key);
        match parse_size(&text) {
            Some(n) => Ok(Some(self.reader.ruled(node, n))),
            None => Err(self
                .reader
                .error(
                    node.span(),
                    format!("`{}` is not a size: `{}`", self.path(key), shown(&text)),
                )
                .with_hint("write a number of bytes, or a string such as `\"512M\"` or `\"2G\"`")),
        }
    }
}

/// Finds a word; the error is the hint.
pub(super) fn choose<T: Copy>(typed: &str, words: &[(&str, T)]) -> Result<T, String> {
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == typed) {
        return Ok(*value);
    }
    let list: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    Err(match nearest(typed, list.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`"),
        None => format!("one of `{}`", list.join("`, `")),
    })
}

/// `512`, `512K`, `512M`, `2G`, `2GiB`; powers of 1024.
fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.get(digits.len()..)?;
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return None,
    };
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(1 << shift).filter(|n| *n > 0)
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn sizes() {
        for (text, want) in [
            ("512", Some(512)),
            ("4k", Some(4096)),
            ("512M", Some(512 << 20)),
            ("2GiB", Some(2 << 30)),
            ("0", None),
            ("", None),
            ("M", None),
            ("1.5G", None),
            ("-1", None),
            ("1X", None),
            ("99999999999T", None),
        ] {
            assert_eq!(parse_size(text), want, "{text}");
        }
    }
}
