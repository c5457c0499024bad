//! What a plan asks of the broker: the covered trees and the rules in them, as data.
//!
//! The planner makes it, the session hands it to the floor and to the supervisor. It holds paths of the host and of the
//! sandbox side by side: decisions are made on host paths, reports show what the child sees.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::decide::{GitRules, Matcher, Root, Rule, RuleSet};
use super::fold::NameRules;
use super::reads::ReadPlan;
use crate::policy::Origin;

/// What a plan asks of the broker. A plan without write rules asks nothing: then there is no notifying filter and no
/// write floor.
#[derive(Debug, Clone)]
pub struct BrokerPlan {
    /// Covered writable trees; the index is the root index of the [`RuleSet`].
    pub trees: Vec<Tree>,
    /// Paths inside that are writable without name rules: private mounts, caches, `/dev`, `/proc`. Never at or above a
    /// tree: Landlock rules add up along all ancestors, so a grant there would void the floor (P0).
    pub exempt: Vec<PathBuf>,
    /// Writable paths inside that hold a tree and have no rules of their own. They get no grant for the reason above;
    /// what traps there is answered as in a tree that no rule names.
    pub served: Vec<PathBuf>,
    /// The rules; the index is the one in [`super::decide::Reason::Rule`].
    pub rules: Vec<NamedRule>,
    /// What lifts patterns of built-in profiles (`allow_create`).
    pub exceptions: Vec<Arc<dyn Matcher>>,
    /// The git preset; without it only what is mandatory in git directories is held.
    pub git: bool,
    /// Directory on the host where all runs of the user share one lock: with it, two runs in one tree cannot move directories between each
    /// other's check and act. `None` where there is no place for it.
    pub lock_dir: Option<PathBuf>,
    /// What names may not be read; `None` where opens for reading are nobody's affair.
    pub reads: Option<ReadPlan>,
    /// Which sockets of others may be connected to; `None` where Unix sockets are refused by number.
    pub sockets: Option<SocketPlan>,
    /// No mounts stand behind the floor: what lies in no area is not changed, be it by mode, owner or times.
    pub alone: bool,
}

/// Unix sockets by path. What the command binds itself it may always connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketPlan {
    /// Sockets of others that are open.
    pub granted: Vec<SocketGrant>,
    /// Every socket that is shown is open.
    pub all: bool,
    /// Host paths of sockets that no grant opens.
    pub closed: Vec<PathBuf>,
    /// The network is the sandbox' own.
    pub own_network: bool,
    /// Directories inside that nobody else has: whatever is bound there is the command's own.
    pub private: Vec<PathBuf>,
}

/// A socket, or a directory of them, that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketGrant {
    /// Link-free path on the host, and inside.
    pub path: PathBuf,
    /// Everything below it.
    pub directory: bool,
}

/// A covered tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// Path inside.
    pub guest: PathBuf,
    /// Path on the host.
    pub host: PathBuf,
    /// Path on the host of the writable root it lies in: itself, unless it is mounted on its own inside a larger one.
    pub top: PathBuf,
    /// How its file system reads names.
    pub names: NameRules,
    /// Its file system takes `head` for `HEAD`.
    pub ignores_case: bool,
    /// A private cache: only the git preset holds.
    pub private: bool,
}

/// A rule with what reports say about it.
#[derive(Debug, Clone)]
pub struct NamedRule {
    /// The rule.
    pub rule: Rule,
    /// In the user's words, e.g. `deny_write ".env"`.
    pub words: String,
    /// Where it was written.
    pub origin: Origin,
}

impl BrokerPlan {
    /// The rules, compiled for the decision.
    #[must_use]
    pub fn rule_set(&self) -> RuleSet {
        let roots = self
            .trees
            .iter()
            .map(|tree| Root {
                path: components(&tree.host),
                top: components(&tree.top).len(),
                names: tree.names,
                ignores_case: tree.ignores_case,
                git_only: tree.private,
            })
            .collect();
        let rules = self.rules.iter().map(|rule| rule.rule.clone()).collect();
        let git = if self.git {
            GitRules::Preset
        } else {
            GitRules::Places
        };
        RuleSet::new(roots, rules, self.exceptions.clone(), git)
    }
}

/// The components of an absolute path, without the root directory.
#[must_use]
pub fn components(path: &Path) -> Vec<Vec<u8>> {
    path.components()
        .filter_map(|c| match c {
            Component::Normal(name) => Some(OsStr::as_bytes(name).to_vec()),
            Component::Prefix(_)
            | Component::RootDir
            | Component::CurDir
            | Component::ParentDir => None,
        })
        .collect()
}
