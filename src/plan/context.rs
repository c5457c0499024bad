//! What every part of the planner works from.

use std::path::{Path, PathBuf};

use super::paths::{HostNames, Walk, walk};
use crate::host::fs_view::Kind;
use crate::host::{FsView, HostFacts};
use crate::policy::Policy;

/// The inputs of a plan.
#[derive(Clone, Copy)]
pub(super) struct Ctx<'a> {
    /// What is asked for.
    pub(super) policy: &'a Policy,
    /// The machine and the call.
    pub(super) host: &'a HostFacts,
    /// The file system.
    pub(super) fs: &'a dyn FsView,
}

impl Ctx<'_> {
    /// Follows a host path.
    pub(super) fn walk(&self, path: &Path) -> Walk {
        walk(&HostNames(self.fs), path)
    }

    /// Names are judged when they are made (D4).
    pub(super) fn has_broker(&self) -> bool {
        self.host.broker.works()
    }

    /// What stands at `path` after following links. Mostly that is known from its directory, without another look.
    pub(super) fn kind(&self, path: &Path) -> Option<Kind> {
        match self.fs.kind(path) {
            Some(Kind::Link) => self.fs.meta(path).map(|m| m.kind),
            other => other,
        }
    }

    /// Something stands at `path` (a dangling link counts).
    pub(super) fn exists(&self, path: &Path) -> bool {
        self.fs.kind(path).is_some()
    }

    /// Working directory inside, as spelled.
    pub(super) fn cwd(&self) -> PathBuf {
        self.policy
            .workdir
            .as_ref()
            .map_or_else(|| self.host.cwd.clone(), |w| w.value.clone())
    }

    /// Link-free host path of the working directory.
    pub(super) fn cwd_real(&self) -> PathBuf {
        match &self.policy.workdir {
            Some(w) => self.walk(&w.value).real,
            None => self.host.cwd_real.clone(),
        }
    }

    /// An absolute path from a variable of the caller.
    pub(super) fn path_var(&self, name: &str) -> Option<PathBuf> {
        let value = self.host.var(name)?;
        let path = Path::new(value);
        path.is_absolute().then(|| path.to_path_buf())
    }
}
