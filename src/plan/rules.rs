//! The path rules of one run on link-free host paths, and the two questions they answer.
//!
//! Pure once collected. The mounts are made from these answers, never the other way round (`layout`).

use std::path::{Path, PathBuf};

use super::nevers::Nevers;
use super::paths::{Walk, depth, within};
use crate::policy::{Layer, Origin};

/// The words of a rule and where it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    /// E.g. `protected_paths "/home/me/src/app"`.
    pub(super) words: String,
    /// Where.
    pub(super) origin: Origin,
}

impl Named {
    /// `key "path"` as the user knows it.
    pub(super) fn new(key: &str, path: &Path, origin: &Origin) -> Self {
        Self {
            words: format!("{key} \"{}\"", path.display()),
            origin: origin.clone(),
        }
    }

    /// A rule ccbox carries itself.
    pub(super) fn built_in(table: &'static str, words: String) -> Self {
        Self {
            words,
            origin: built_in(table),
        }
    }
}

/// Origin of a rule ccbox carries itself.
pub(super) fn built_in(table: &'static str) -> Origin {
    Origin {
        layer: Layer::BuiltIn(table),
        file: None,
        line: None,
    }
}

/// Where a rule was written, in words: `spec.toml:3`, `--rw`, `profile dev`.
#[must_use]
pub fn place(origin: &Origin) -> String {
    let named = match &origin.layer {
        Layer::BuiltIn(table) => return format!("built-in {table}"),
        Layer::Profile(name) => return format!("profile {name}"),
        Layer::Flag(flag) => return (*flag).to_string(),
        Layer::User => "user configuration",
        Layer::Project { .. } => "project file",
        Layer::Spec => "spec",
        Layer::Managed => "managed configuration",
    };
    match (&origin.file, origin.line) {
        (Some(f), Some(l)) => format!("{}:{l}", f.display()),
        (Some(f), None) => f.display().to_string(),
        (None, Some(l)) => format!("{named} line {l}"),
        (None, None) => named.to_string(),
    }
}

/// What a grant gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Makes visible, has no say in writes (allow_read).
    Read,
    /// Visible, not writable here and below.
    ReadOnly,
    /// Visible and writable.
    Write,
}

/// Which list a grant came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GrantKind {
    /// bind_mounts, allow_write, allow_read.
    Plain,
    /// runner_state_dirs: writable in every mode.
    Runner,
    /// The working directory of the dev profile.
    Cwd,
    /// The common directory of a linked worktree.
    Worktree,
}

/// A grant, resolved.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    /// Host path as written and where it leads.
    pub(super) walk: Walk,
    /// Guest path where it differs from the host path.
    pub(super) guest: Option<PathBuf>,
    /// What it gives.
    pub(super) access: Access,
    /// Its list.
    pub(super) kind: GrantKind,
    /// The rule.
    pub(super) named: Named,
}

impl Grant {
    /// Link-free host path.
    pub(super) fn path(&self) -> &Path {
        &self.walk.real
    }
    /// Shown at its own path.
    pub(super) fn is_identity(&self) -> bool {
        self.guest.is_none()
    }
    fn managed(&self) -> bool {
        self.named.origin.layer == Layer::Managed
    }
}

/// A read-deny, resolved.
#[derive(Debug, Clone)]
pub(super) struct Hide {
    /// As written and where it leads.
    pub(super) walk: Walk,
    /// The rule.
    pub(super) named: Named,
    /// A grant naming this very path lifts it: rows ccbox or a profile carries (R30: adjustable by the spec).
    pub(super) liftable: bool,
}

/// Why something is never writable; decides what a grant on it means (semantics 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strength {
    /// Spec, configuration and state of ccbox.
    Own,
    /// protected_paths.
    Protected,
    /// R31.
    Mandatory,
    /// deny_write.
    DenyWrite,
}

/// A write-deny, resolved.
#[derive(Debug, Clone)]
pub(super) struct Never {
    /// As written and where it leads.
    pub(super) walk: Walk,
    /// Places below that stay as the grants say.
    pub(super) except: Vec<PathBuf>,
    /// Its standing.
    pub(super) strength: Strength,
    /// The rule.
    pub(super) named: Named,
}

impl Never {
    /// It decides about `path`.
    pub(super) fn covers(&self, path: &Path) -> bool {
        within(path, &self.walk.real) && !self.except.iter().any(|e| within(path, e))
    }
}

/// Everything collected.
#[derive(Debug, Clone, Default)]
pub(super) struct Rules {
    /// Grants of every list.
    pub(super) grants: Vec<Grant>,
    /// Read-denies.
    pub(super) hides: Vec<Hide>,
    /// Write-denies.
    pub(super) nevers: Nevers,
    /// Objects shown read-only for ccbox's own reasons where the view alone would not show them.
    pub(super) shows: Vec<Walk>,
    /// review, plan, orchestrate.
    pub(super) read_only_mode: bool,
}

/// Answer to "may it be read?".
#[derive(Debug, Clone, Copy)]
pub(super) enum ReadVerdict<'a> {
    /// Hidden by this rule.
    Hidden(&'a Hide),
    /// Shown by this grant.
    Granted(&'a Grant),
    /// No rule: the view decides.
    View,
}

impl Rules {
    /// Read precedence (semantics 5): the deepest covering entry wins, equal depth denies. A row ccbox itself carries is lifted by a
    /// grant of the very same path; a managed deny only by a managed grant.
    pub(super) fn read(&self, path: &Path) -> ReadVerdict<'_> {
        self.read_through(path, None)
    }

    /// As `read`, for what is seen through the bind `via` at another guest path: `via` counts, other such binds do not.
    pub(super) fn read_through<'a>(
        &'a self,
        path: &Path,
        via: Option<&'a Grant>,
    ) -> ReadVerdict<'a> {
        let grant = self.deepest_grant(path, via, |_| true);
        let lifted_by = |h: &Hide, g: &Grant| {
            let (dh, dg) = (depth(&h.walk.real), depth(g.path()));
            dg > dh || (dg == dh && h.liftable)
        };
        let managed_grant = self.deepest_grant(path, via, Grant::managed);
        let hide = self
            .hides
            .iter()
            .filter(|h| within(path, &h.walk.real))
            .filter(|h| {
                let against = if h.named.origin.layer == Layer::Managed {
                    managed_grant
                } else {
                    grant
                };
                !against.is_some_and(|g| lifted_by(h, g))
            })
            .max_by_key(|h| depth(&h.walk.real));
        match (hide, grant) {
            (Some(h), _) => ReadVerdict::Hidden(h),
            (None, Some(g)) => ReadVerdict::Granted(g),
            (None, None) => ReadVerdict::View,
        }
    }

    /// Write precedence (semantics 4). `Ok` names the grant, `Err` the rule that refuses, if it is one.
    pub(super) fn write(&self, path: &Path) -> Result<&Grant, Option<&Named>> {
        self.write_through(path, None)
    }

    /// As `write`, through the bind `via`: its own `read_only` and every deny count.
    pub(super) fn write_through<'a>(
        &'a self,
        path: &Path,
        via: Option<&'a Grant>,
    ) -> Result<&'a Grant, Option<&'a Named>> {
        if let Some(never) = self.nevers.strictest(path) {
            return Err(Some(&never.named));
        }
        if let ReadVerdict::Hidden(h) = self.read_through(path, via) {
            return Err(Some(&h.named));
        }
        let deciding = match via {
            Some(bind) => Some(bind),
            None => self.deepest_grant(path, None, |g| g.access != Access::Read),
        };
        match deciding {
            Some(g) if g.access != Access::Write => Err(Some(&g.named)),
            Some(g) if self.read_only_mode && g.kind != GrantKind::Runner => Err(None),
            Some(g) => Ok(g),
            None => Err(None),
        }
    }

    /// The deepest grant covering `path`; at equal depth the most restrictive one.
    fn deepest_grant<'a>(
        &'a self,
        path: &Path,
        via: Option<&'a Grant>,
        wanted: impl Fn(&Grant) -> bool,
    ) -> Option<&'a Grant> {
        self.grants
            .iter()
            .filter(|g| g.is_identity())
            .chain(via)
            .filter(|g| within(path, g.path()) && wanted(g))
            .max_by_key(|g| {
                let restrictive = match g.access {
                    Access::ReadOnly => 2,
                    Access::Write => 1,
                    Access::Read => 0,
                };
                // Of two equals the runner's counts: it is writable in every mode.
                (depth(g.path()), restrictive, g.kind == GrantKind::Runner)
            })
    }
}
