//! Credentials that are hidden: a file that is not read, a variable that is unset (R50, `mode = "deny"`).

use super::SpecError;
use super::reader::{Node, Table};
use super::surface::{check_env_name, entries};
use crate::policy::Ruled;
use crate::policy::path::{ListKind, PathEntry};

/// `path` of a credential that is hidden.
pub(super) fn file(entry: &Table<'_>, node: &Node<'_>) -> Result<Vec<Ruled<PathEntry>>, SpecError> {
    let Some(path) = entry.get("path") else {
        let message = "an entry of `credentials.files` without `path`";
        return Err(entry.reader.error(node.span(), message));
    };
    let entries = entries(entry.reader, &entry.path("path"), path, ListKind::DenyRead)?;
    Ok(entries
        .into_iter()
        .map(|e| entry.reader.ruled(path, e))
        .collect())
}

/// `name` of a variable that is hidden.
pub(super) fn variable(entry: &Table<'_>, node: &Node<'_>) -> Result<Ruled<String>, SpecError> {
    let (Some(name), Some(value)) = (entry.string("name")?, entry.get("name")) else {
        let message = "an entry of `credentials.env_vars` without `name`";
        return Err(entry.reader.error(node.span(), message));
    };
    match check_env_name(&name.value, true) {
        Ok(()) => Ok(name),
        Err(reason) => Err(entry.reader.error(value.span(), reason)),
    }
}
