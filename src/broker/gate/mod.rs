//! The git configuration gate (R34): which changes to a repository's configuration may stand.
//!
//! Git replaces its configuration by renaming `config.lock` onto it, in every flow. At that rename the broker reads the
//! new file once, asks [`compare_at`], and on success installs *its own copy of the bytes it read*, so that a descriptor
//! or a hard link kept on the lock file is worth nothing.

pub mod config;
pub mod keys;
pub mod skeleton;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use config::{Entry, SyntaxError};
use keys::Place;

/// A change that may not stand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", subject(key, value.as_deref()))]
pub struct Refusal {
    /// `section.subsection.key`; empty where the file itself is refused.
    pub key: Vec<u8>,
    /// The value that would come or go, where the key has one.
    pub value: Option<Vec<u8>>,
    /// Why.
    pub reason: String,
}

impl crate::exit::Failure for Refusal {}

fn subject(key: &[u8], value: Option<&[u8]>) -> String {
    match (key, value) {
        ([], _) => "git change refused".to_owned(),
        (key, None) => format!("git config change refused: {}", key.escape_ascii()),
        (key, Some(value)) => format!(
            "git config change refused: {}={}",
            key.escape_ascii(),
            value.escape_ascii()
        ),
    }
}

impl Refusal {
    fn file(which: &str, error: SyntaxError) -> Self {
        Self {
            key: Vec::new(),
            value: None,
            reason: format!("unusual syntax in the {which} configuration file, {error}"),
        }
    }

    fn entry(entry: &Entry, reason: String) -> Self {
        Self {
            key: entry.name(),
            value: entry.value.clone(),
            reason,
        }
    }
}

/// [`compare_at`] where nothing is known about the place of the file.
///
/// # Errors
/// As [`compare_at`].
pub fn compare(old: &[u8], new: &[u8]) -> Result<(), Refusal> {
    compare_at(&Place::default(), old, new)
}

/// Says whether `new` may take the place of `old` (empty where there is none).
///
/// Entries of allow-listed keys may come, go, change and move. All others must stay what they are *in their order*: a
/// multiset would not do, because the last of two values wins and an `include` overrides what stands before it.
///
/// # Errors
/// The first entry that may not come or go, or a file in unusual syntax.
pub fn compare_at(place: &Place<'_>, old: &[u8], new: &[u8]) -> Result<(), Refusal> {
    let new = config::parse(new).map_err(|e| Refusal::file("new", e))?;
    let old = config::parse(old).map_err(|e| Refusal::file("existing", e))?;
    let fixed = |entries: Vec<Entry>| -> Vec<(Entry, &'static str)> {
        entries
            .into_iter()
            .filter_map(|e| keys::judge(&e, place).err().map(|reason| (e, reason)))
            .collect()
    };
    let (old, new) = (fixed(old), fixed(new));
    if old == new {
        return Ok(());
    }
    // Name what came or went rather than what merely moved along.
    let mut left: HashMap<&Entry, usize> = HashMap::new();
    for (entry, _) in &old {
        *left.entry(entry).or_default() += 1;
    }
    for (entry, reason) in &new {
        match left.get_mut(entry) {
            Some(count) if *count > 0 => *count -= 1,
            _ => return Err(Refusal::entry(entry, (*reason).to_owned())),
        }
    }
    let gone = |(entry, _): &&(Entry, _)| left.get(entry).is_some_and(|count| *count > 0);
    let (entry, change) = match old.iter().find(gone) {
        Some((entry, _)) => (Some(entry), "its removal"),
        None => (
            old.iter()
                .zip(&new)
                .find(|(a, b)| a != b)
                .map(|(a, _)| &a.0),
            "its new place among such keys",
        ),
    };
    Err(Refusal {
        key: entry.map_or_else(Vec::new, Entry::name),
        value: entry.and_then(|e| e.value.clone()),
        reason: format!("{change} could change what runs"),
    })
}
