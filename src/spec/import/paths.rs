//! Paths as the other tools read them, put into the words of a spec.
//!
//! An exact path becomes `{ path = "…", literal = true }`; a pattern is anchored where the other tool anchors it, so that
//! no entry is the tail of any path as a bare name in a spec is. An entry with pattern characters also means the file of
//! that very name, where there is one.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::out::{literal, string};
use super::{Import, shown};
use crate::spec::SpecError;
use crate::spec::json::{Json, Node};

/// A list of a spec.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    pub(super) table: &'static str,
    pub(super) key: &'static str,
    /// It opens something.
    pub(super) grants: bool,
    /// What it names must be there already.
    pub(super) must_exist: bool,
}

pub(super) const ALLOW_WRITE: List = List {
    table: "filesystem",
    key: "allow_write",
    grants: true,
    must_exist: true,
};
pub(super) const ALLOW_READ: List = List {
    table: "filesystem",
    key: "allow_read",
    grants: true,
    must_exist: false,
};
pub(super) const DENY_WRITE: List = List {
    table: "filesystem",
    key: "deny_write",
    grants: false,
    must_exist: false,
};
pub(super) const DENY_READ: List = List {
    table: "filesystem",
    key: "deny_read",
    grants: false,
    must_exist: false,
};
pub(super) const SOCKETS: List = List {
    table: "network",
    key: "allow_unix_sockets",
    grants: true,
    must_exist: false,
};

/// Where an entry starts, and what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start<'t> {
    /// `/…`
    Absolute(&'t str),
    /// `~`, `~/…`
    Home(&'t str),
    /// Where the command starts.
    Cwd(&'t str),
    /// Where the settings' paths start.
    Root(&'t str),
    /// At any depth below where the command starts.
    AnyDepth(&'t str),
}

impl Import<'_> {
    /// An entry of `filesystem.*` or `allowUnixSockets`: a string, or `{"path": …, "literal": true}`.
    pub(super) fn path_entry(
        &mut self,
        what: &str,
        node: &Node,
        list: List,
    ) -> Result<(), SpecError> {
        let (text, as_is) = match &node.value {
            Json::Object(members) => {
                let mut path = None;
                let mut as_is = false;
                for m in members {
                    match m.key.as_str() {
                        "path" => path = Some(self.text(&format!("{what}.path"), &m.node)?),
                        "literal" => as_is = self.bool(&format!("{what}.literal"), &m.node)?,
                        _ => return Err(self.unknown(what, m, &["path", "literal"])),
                    }
                }
                let missing =
                    || self.error(&node.span, format!("an entry of `{what}` without `path`"));
                (path.ok_or_else(missing)?, as_is)
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) | Json::List(_) => {
                (self.text(&format!("an entry of {what}"), node)?, false)
            }
        };
        self.path(start(text), &node.span, as_is, list)
    }

    /// The path of a credential, in the spelling of a spec.
    pub(super) fn credential_path(
        &self,
        text: &str,
        span: &Range<usize>,
    ) -> Result<String, SpecError> {
        self.spelled(start(text), span, true)
    }

    /// Adds one path to a list.
    pub(super) fn path(
        &mut self,
        start: Start<'_>,
        span: &Range<usize>,
        as_is: bool,
        list: List,
    ) -> Result<(), SpecError> {
        let text = start.text();
        if text.contains('\0') {
            return Err(self.error(span, "a path cannot hold a NUL byte"));
        }
        let whole = whole_directory(text);
        let any_depth = matches!(start, Start::AnyDepth(_));
        let wild = !as_is && whole.contains(['*', '?', '[']);
        // The name as it stands: of no pattern, or of a file that is called so.
        let exact = start.with(if as_is { text } else { whole });
        let there = self.there(exact);
        let named = !wild || there.exists();
        if named && (list.grants || !any_depth) {
            if list.must_exist && !there.exists() {
                self.notice(
                    span,
                    format!("`{}` grants nothing: nothing exists there", shown(text)),
                );
                return Ok(());
            }
            let path = self.spelled(exact, span, false)?;
            self.out.push(list.table, list.key, literal(&path, span));
        }
        if list.grants {
            if wild && !named {
                self.notice(
                    span,
                    format!(
                        "`{}` grants nothing: a pattern opens no path here",
                        shown(text)
                    ),
                );
            }
            return Ok(());
        }
        if wild || any_depth {
            let pattern = self.spelled(start, span, true)?;
            self.out
                .push(list.table, list.key, string(&pattern, span.clone()));
        }
        Ok(())
    }

    /// The path on this host.
    fn there(&self, start: Start<'_>) -> PathBuf {
        let below = |dir: &Path, rest: &str| dir.join(rest.trim_start_matches('/'));
        match start {
            Start::Absolute(text) => PathBuf::from(text),
            Start::Home(rest) => below(self.home, rest),
            Start::Root(text) => below(&self.root, text),
            Start::Cwd(text) | Start::AnyDepth(text) => below(self.cwd, text),
        }
    }

    /// In the spelling of a spec, whose relative paths start where the command does.
    fn spelled(
        &self,
        start: Start<'_>,
        span: &Range<usize>,
        pattern: bool,
    ) -> Result<String, SpecError> {
        let text = start.text().replace('$', "$$");
        Ok(match start {
            Start::Absolute(_) => text,
            Start::Home(_) => format!("~{text}"),
            Start::AnyDepth(_) if pattern => format!("./**/{text}"),
            Start::Cwd(_) | Start::AnyDepth(_) => format!("./{text}"),
            Start::Root(_) if self.root == self.cwd => format!("./{text}"),
            Start::Root(_) => {
                let Some(root) = self.root.to_str() else {
                    return Err(self
                        .error(span, "the directory of these settings is not UTF-8 text")
                        .with_hint("start the command in it"));
                };
                let root = root.replace('$', "$$");
                let root = if pattern { bracketed(&root) } else { root };
                format!("{root}/{text}")
            }
        })
    }
}

impl<'t> Start<'t> {
    fn text(self) -> &'t str {
        match self {
            Self::Absolute(t)
            | Self::Home(t)
            | Self::Cwd(t)
            | Self::Root(t)
            | Self::AnyDepth(t) => t,
        }
    }

    fn with(self, text: &'t str) -> Self {
        match self {
            Self::Absolute(_) => Self::Absolute(text),
            Self::Home(_) => Self::Home(text),
            Self::Cwd(_) => Self::Cwd(text),
            Self::Root(_) => Self::Root(text),
            Self::AnyDepth(_) => Self::AnyDepth(text),
        }
    }
}

/// A path of the settings themselves: relative ones start where its source says.
fn start(text: &str) -> Start<'_> {
    match text.strip_prefix('~') {
        _ if text.starts_with('/') => Start::Absolute(text),
        Some(rest) if rest.is_empty() || rest.starts_with('/') => Start::Home(rest),
        // `~user` is a name like any other.
        _ => Start::Root(text),
    }
}

/// `dir/**` is the directory.
fn whole_directory(text: &str) -> &str {
    match text.strip_suffix("/**") {
        Some("") => "/",
        Some(dir) => dir,
        None if text == "**" => "",
        None => text,
    }
}

/// Pattern characters of a directory mean themselves.
fn bracketed(dir: &str) -> String {
    let mut out = String::with_capacity(dir.len());
    for c in dir.chars() {
        match c {
            '*' | '?' | '[' => out.extend(['[', c, ']']),
            c => out.push(c),
        }
    }
    out
}
