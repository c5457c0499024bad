//! Built-in profiles (D13): TOML texts of this tree, read by the same parser as any spec.

use std::path::Path;

use super::SpecError;
use super::layer::{self, Layered, Place};
use super::params::Params;
use super::source::{Source, shown};
use super::suggest::nearest;
use crate::policy::Layer;

/// Base of a given spec (semantics 10).
pub(super) const WITH_SPEC: &str = "dispatch";
/// Base without one.
pub(super) const WITHOUT_SPEC: &str = "dev";

/// Name and name again: the form `Table::choice` takes.
pub(super) const NAMES: &[(&str, &str)] = &[
    ("dispatch", "dispatch"),
    ("dev", "dev"),
    ("terminal", "terminal"),
    ("strict", "strict"),
];

const TEXTS: &[(&str, &str)] = &[
    ("dispatch", include_str!("profiles/dispatch.toml")),
    ("dev", include_str!("profiles/dev.toml")),
    ("terminal", include_str!("profiles/terminal.toml")),
    ("strict", include_str!("profiles/strict.toml")),
];

/// The text of a built-in profile.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    TEXTS.iter().find(|(n, _)| *n == name).map(|(_, t)| *t)
}

/// Finds a profile typed with `-n`.
pub(super) fn by_name(typed: &str) -> Result<&'static str, SpecError> {
    if let Some((_, name)) = NAMES.iter().find(|(n, _)| *n == typed) {
        return Ok(name);
    }
    let list: Vec<&str> = NAMES.iter().map(|(n, _)| *n).collect();
    let hint = match nearest(typed, list.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`"),
        None => format!("one of `{}`", list.join("`, `")),
    };
    Err(SpecError::plain(format!("unknown profile `{}`", shown(typed))).with_hint(&hint))
}

/// Reads a built-in profile.
pub(super) fn read(name: &'static str, home: &Path) -> Result<Layered, SpecError> {
    let text = text(name).unwrap_or_default();
    let source = Source::new(
        format!("profile {name}"),
        None,
        Layer::Profile(name.to_owned()),
        text.as_bytes().to_vec(),
    )?;
    let place = Place {
        base: Path::new("/"),
        home,
        cwd: Path::new("/"),
    };
    layer::read(&source, place, &Params::default())
}
