//! The spec that a settings file amounts to, as the tree that the TOML parser would have made of it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::spec::json::{Json, Node};

pub(super) type Value<'a> = Spanned<DeValue<'a>>;

/// Tables by name, the top level being "".
#[derive(Debug, Default)]
pub(super) struct Out<'a> {
    tables: BTreeMap<&'static str, BTreeMap<Cow<'a, str>, Value<'a>>>,
}

impl<'a> Out<'a> {
    /// Sets a scalar; a later one wins.
    pub(super) fn set(
        &mut self,
        table: &'static str,
        key: impl Into<Cow<'a, str>>,
        value: Value<'a>,
    ) {
        self.tables
            .entry(table)
            .or_default()
            .insert(key.into(), value);
    }

    pub(super) fn bool(
        &mut self,
        table: &'static str,
        key: &'static str,
        b: bool,
        span: Range<usize>,
    ) {
        self.set(table, key, Spanned::new(span, DeValue::Boolean(b)));
    }

    pub(super) fn text(
        &mut self,
        table: &'static str,
        key: &'static str,
        text: &str,
        span: Range<usize>,
    ) {
        self.set(table, key, string(text, span));
    }

    /// Appends to a list.
    pub(super) fn push(&mut self, table: &'static str, key: &'static str, item: Value<'a>) {
        let slot = self
            .tables
            .entry(table)
            .or_default()
            .entry(Cow::Borrowed(key))
            .or_insert_with(|| Spanned::new(item.span(), DeValue::Array(DeArray::new())));
        if let DeValue::Array(items) = slot.get_mut() {
            items.push(item);
        }
    }

    /// The document.
    pub(super) fn finish(mut self) -> DeTable<'a> {
        let mut top = DeTable::new();
        for (key, value) in self.tables.remove("").unwrap_or_default() {
            top.insert(Spanned::new(value.span(), key), value);
        }
        for (name, keys) in self.tables {
            let mut table = DeTable::new();
            for (key, value) in keys {
                table.insert(Spanned::new(value.span(), key), value);
            }
            top.insert(
                Spanned::new(0..0, Cow::Borrowed(name)),
                Spanned::new(0..0, DeValue::Table(table)),
            );
        }
        top
    }
}

pub(super) fn string<'a>(text: &str, span: Range<usize>) -> Value<'a> {
    Spanned::new(span, DeValue::String(Cow::Owned(text.to_owned())))
}

/// A path that means its own bytes, whatever they are: `{ path = "…", literal = true }`.
pub(super) fn literal<'a>(path: &str, span: &Range<usize>) -> Value<'a> {
    let mut form = DeTable::new();
    for (key, value) in [
        ("path", string(path, span.clone())),
        (
            "literal",
            Spanned::new(span.clone(), DeValue::Boolean(true)),
        ),
    ] {
        form.insert(Spanned::new(span.clone(), Cow::Borrowed(key)), value);
    }
    Spanned::new(span.clone(), DeValue::Table(form))
}

/// A value as it stands, its keys in the spelling of a spec. The error is the place of what TOML has no word for.
pub(super) fn converted<'a>(node: &Node, document: &'a str) -> Result<Value<'a>, Range<usize>> {
    let value = match &node.value {
        Json::Null => return Err(node.span.clone()),
        Json::Bool(b) => DeValue::Boolean(*b),
        Json::Number(_) => number(document, &node.span).ok_or_else(|| node.span.clone())?,
        Json::Text(text) => DeValue::String(Cow::Owned(text.clone())),
        Json::List(items) => {
            let items: Result<DeArray<'a>, _> =
                items.iter().map(|i| converted(i, document)).collect();
            DeValue::Array(items?)
        }
        Json::Object(members) => {
            let mut table = DeTable::new();
            for m in members {
                let key = Spanned::new(m.key_span.clone(), Cow::Owned(snake(&m.key)));
                table.insert(key, converted(&m.node, document)?);
            }
            DeValue::Table(table)
        }
    };
    Ok(Spanned::new(node.span.clone(), value))
}

/// A number of TOML, where it is one there.
fn number<'a>(document: &'a str, span: &Range<usize>) -> Option<DeValue<'a>> {
    let value = DeValue::parse(document.get(span.clone())?)
        .ok()?
        .into_inner();
    matches!(value, DeValue::Integer(_) | DeValue::Float(_)).then_some(value)
}

/// `injectHosts` → `inject_hosts`.
fn snake(key: &str) -> String {
    let mut out = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_the_spelling_of_a_spec() {
        for (key, want) in [
            ("injectHosts", "inject_hosts"),
            ("onExtractNoMatch", "on_extract_no_match"),
            ("path", "path"),
            ("awsPairs", "aws_pairs"),
        ] {
            assert_eq!(snake(key), want);
        }
    }
}
