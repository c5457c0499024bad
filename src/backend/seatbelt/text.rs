//! The notation of a profile: strings, filters, rules.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::ProfileError;
use crate::plan::seatbelt::Match;

/// `sandbox-exec` cannot read a string of more than 1025 bytes. Counted with its quotes, so that it fits whatever is counted there:
/// a path of macOS has at most 1023 bytes (`PATH_MAX`).
pub(super) const MAX_STRING: usize = 1025;

/// A string: quotes and backslashes are escaped, everything else is literal. What could not be told from other text is refused,
/// because a rule for another path would take its place.
pub(super) fn quoted(text: &str) -> Result<String, ProfileError> {
    if text.chars().any(char::is_control) {
        return Err(ProfileError::Control(text.escape_debug().to_string()));
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    if out.len() > MAX_STRING {
        let start: String = text.chars().take(40).collect();
        return Err(ProfileError::TooLong(start));
    }
    Ok(out)
}

fn path(path: &Path) -> Result<String, ProfileError> {
    let text = path
        .to_str()
        .ok_or_else(|| ProfileError::NotText(path.to_path_buf()))?;
    quoted(text)
}

/// One path, and nothing below it.
pub(super) fn literal(at: &Path) -> Result<String, ProfileError> {
    Ok(format!("(literal {})", path(at)?))
}

/// Filters of a match. Whether `subpath` covers a plain file is not settled, so a file is named as well.
fn filters(at: &Match) -> Result<Vec<String>, ProfileError> {
    Ok(match at {
        Match::Tree(p) => vec![format!("(subpath {})", path(p)?)],
        Match::Object(p) => vec![format!("(subpath {})", path(p)?), literal(p)?],
        Match::Exact(p) => vec![literal(p)?],
        Match::Expression(e) => vec![format!("(regex {})", quoted(e)?)],
    })
}

/// All filters of several.
pub(super) fn all<'a>(
    list: impl IntoIterator<Item = &'a Match>,
) -> Result<Vec<String>, ProfileError> {
    let mut out = Vec::new();
    for at in list {
        out.extend(filters(at)?);
    }
    Ok(out)
}

/// All paths, each for itself.
pub(super) fn literals<'a>(
    list: impl IntoIterator<Item = &'a PathBuf>,
) -> Result<Vec<String>, ProfileError> {
    list.into_iter().map(|p| literal(p)).collect()
}

/// A profile while it grows.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) out: String,
    tag: String,
}

impl Writer {
    pub(super) fn new(tag: &str) -> Self {
        Self {
            out: String::from("(version 1)\n(allow default)\n"),
            tag: tag.to_owned(),
        }
    }

    pub(super) fn section(&mut self, title: &str) {
        let _ = writeln!(self.out, "\n; {title}");
    }

    /// A refusal of everything: a rule without a filter.
    pub(super) fn reset(&mut self, operation: &str) {
        let _ = writeln!(
            self.out,
            "(deny {operation} (with message \"{}\"))",
            self.tag
        );
    }

    /// A refusal. Without a filter it would match everything, so an empty list writes nothing.
    pub(super) fn deny(&mut self, operations: &str, filters: &[String]) {
        self.rule("deny", operations, filters);
    }

    /// A permission.
    pub(super) fn allow(&mut self, operations: &str, filters: &[String]) {
        self.rule("allow", operations, filters);
    }

    fn rule(&mut self, effect: &str, operations: &str, filters: &[String]) {
        if filters.is_empty() {
            return;
        }
        let _ = write!(self.out, "({effect} {operations}");
        for filter in filters {
            let _ = write!(self.out, "\n  {filter}");
        }
        if effect == "deny" {
            let _ = write!(self.out, "\n  (with message \"{}\")", self.tag);
        }
        self.out.push_str(")\n");
    }
}
