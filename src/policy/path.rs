//! Path entries of a spec: exact paths and patterns (semantics 1–3).

use std::path::{Path, PathBuf};

use super::pattern::PathPattern;

/// One entry of a path list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathEntry {
    /// Covers the object and everything below. Absolute, lexically normal, symlinks kept as written.
    Exact(PathBuf),
    /// Matches by pattern.
    Pattern(PathPattern),
}

/// Which list an entry stands in; decides how it is read (semantics 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// `allow_write`, `bind_mounts`, `allow_read`, `exec_grant_roots`, `runner_state_dirs`: no pattern but a trailing `/**`.
    Grant,
    /// `deny_write`: a one-component entry without a slash is a pattern.
    DenyWrite,
    /// `protected_paths`.
    Protected,
    /// `deny_read`: an entry whose only pattern is a trailing `/**` is exact.
    DenyRead,
    /// `allow_create`.
    AllowCreate,
}

/// Why an entry is refused; the display is lower case and carries the reason and the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct PathEntryError {
    /// What is wrong.
    pub reason: String,
    /// The next step.
    pub hint: Option<String>,
}

impl PathEntry {
    /// Reads one entry; `base` is where relative entries start, `home` what `~` means. Pure: nothing is looked up.
    ///
    /// # Errors
    /// Empty text, `$NAME`, `..` in a pattern, a pattern in a grant list, a component over 255 bytes, a path over 4096 bytes, NUL.
    pub fn parse(
        _text: &str,
        _literal: bool,
        _kind: ListKind,
        _base: &Path,
        _home: &Path,
    ) -> Result<Self, PathEntryError> {
        unimplemented!("policy::path")
    }
}
