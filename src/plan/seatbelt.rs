//! The path rules of a run in the form a Seatbelt profile takes: decided by path, not by mounts, and whether a path exists or not.
//!
//! | in the policy | for the profile |
//! |---|---|
//! | grants and read-denies | points: the answer at a path and below it, up to the next deeper point |
//! | protected paths, mandatory names, `deny_write`, own files | never written, after every grant |
//! | patterns | expressions that follow the name wherever the directory around it is moved |
//! | every directory above a denied path | pinned: renamed, it would carry the path away from its rule (R36) |
//!
//! Each path stands in every spelling by which it can be reached (R25).

mod nevers;
mod points;
mod spellings;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::PlanError;
use super::context::Ctx;
use super::resolve;
use super::rules::{Rules, place};
use super::{secrets, sockets};
use crate::host::fs_view::Kind;
use crate::host::{BrokerHost, FsView, HostFacts};
use crate::policy::{NetworkMode, Policy};

/// What a rule of a profile matches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Match {
    /// A directory and what lies below it.
    Tree(PathBuf),
    /// The same path as a file, or something that may become one.
    Object(PathBuf),
    /// This very path, and nothing below: a link.
    Exact(PathBuf),
    /// An expression over the whole path.
    Expression(String),
}

/// An answer at a path and below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// Where.
    pub at: Match,
    /// Allowed.
    pub allowed: bool,
}

/// The rules of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeatbeltRules {
    /// `filesystem.disabled`: none of the path rules below.
    pub fs_disabled: bool,
    /// Read answers, parents first; where there is none, yes.
    pub read: Vec<Point>,
    /// Expressions of what is hidden wherever it stands.
    pub hidden: BTreeSet<Match>,
    /// Directories that are closed by the view and lead to something open: listed, so that paths resolve.
    pub ways: BTreeSet<PathBuf>,
    /// Write answers, parents first; where there is none, no.
    pub write: Vec<Point>,
    /// Expressions of built-in profiles that are never written.
    pub soft: Vec<Match>,
    /// What lifts those again, where a point allows it.
    pub lifts: Vec<Match>,
    /// Never written.
    pub never: BTreeSet<Match>,
    /// Neither moved nor removed.
    pub pins: BTreeSet<PathBuf>,
    /// Directories above a denied path: neither made where they are not there yet, nor replaced by another one where they are.
    pub unmade: BTreeSet<PathBuf>,
    /// Those of them that are above a path which somebody wrote down, not only above names that are always denied.
    pub unmade_for_spec: BTreeSet<PathBuf>,
    /// Answers for programs, parents first; where there is none, yes.
    pub exec: Vec<Point>,
    /// Nothing but the proxies is reached.
    pub filtered: bool,
    /// Loopback ports of the host that are named in the allow list.
    pub ports: Vec<u16>,
    /// Sockets of others that are open.
    pub sockets: BTreeSet<Match>,
    /// Sockets that no entry opens.
    pub closed_sockets: BTreeSet<PathBuf>,
    /// `allow_local_binding`.
    pub local_binding: bool,
    /// `macos.dns`.
    pub dns: bool,
    /// `macos.allow_apple_events`.
    pub apple_events: bool,
    /// `macos.keychain`.
    pub keychain: bool,
    /// One notice each, final wording without prefix.
    pub notices: Vec<String>,
}

/// The rules of a policy on a host. `tmp` is the private directory for temporary files.
pub fn rules(
    policy: &Policy,
    host: &HostFacts,
    fs: &dyn FsView,
    tmp: &Path,
) -> Result<SeatbeltRules, PlanError> {
    let network = resolve::network(policy)?;
    let mut out = SeatbeltRules {
        fs_disabled: policy.fs.disabled,
        filtered: policy.net.mode != NetworkMode::Open,
        ports: network.forwarded_ports,
        local_binding: policy.net.allow_local_binding,
        dns: policy.macos.dns,
        apple_events: policy.macos.allow_apple_events,
        keychain: policy.macos.keychain,
        ..SeatbeltRules::default()
    };
    if policy.fs.disabled {
        return Ok(out);
    }
    // Names are judged by the profile itself there.
    let host = &HostFacts {
        broker: BrokerHost::Lacks(String::new()),
        ..host.clone()
    };
    let ctx = Ctx { policy, host, fs };
    let (mut collected, mandatory) = resolve::collect(ctx, &mut out.notices)?;
    same_paths(&collected)?;
    let found = secrets::absent(ctx, &collected.grants);
    collected.hides.extend(found);
    let answers = points::Points::new(ctx, &collected, &mandatory, tmp);
    out.read = answers.read();
    out.write = answers.write();
    out.exec = answers.exec();
    out.ways = answers.ways(&out.read);
    if !answers.can_stand_in(&ctx.cwd(), &out.ways) {
        return Err(resolve::no_cwd(ctx, &collected));
    }
    nevers::Nevers::new(ctx, &collected, &mut out).collect(&mandatory)?;
    (out.sockets, out.closed_sockets) = sockets::seatbelt(ctx)?;
    Ok(out)
}

/// Nothing can be shown at another path (semantics 12).
fn same_paths(rules: &Rules) -> Result<(), PlanError> {
    let Some(grant) = rules.grants.iter().find(|g| !g.is_identity()) else {
        return Ok(());
    };
    Err(PlanError {
        message: format!(
            "{} ({}): on macOS `guest_path` must be the same as `host_path`",
            grant.named.words,
            place(&grant.named.origin)
        ),
        hint: Some("remove `guest_path`".to_owned()),
    })
}

/// The path of a match that has one.
#[must_use]
pub fn path_of(at: &Match) -> Option<&Path> {
    match at {
        Match::Tree(path) | Match::Object(path) | Match::Exact(path) => Some(path),
        Match::Expression(_) => None,
    }
}

fn of_kind(path: PathBuf, kind: Option<Kind>) -> Match {
    match kind {
        Some(Kind::Dir) => Match::Tree(path),
        Some(Kind::Link) => Match::Exact(path),
        Some(Kind::File | Kind::Other) | None => Match::Object(path),
    }
}
