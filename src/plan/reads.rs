//! What opens for reading are asked about (semantics 6): patterns in `deny_read`, and `--trace`.
//!
//! Without either there is nothing here, and no open for reading is looked at.

use std::sync::Arc;

use super::context::Ctx;
use super::names::spellings;
use super::paths::below;
use super::read_floor::ReadFloor;
use super::rules::{Hide, Rules, place};
use super::tree::{Node, Tree};
use crate::broker::decide::Denied;
use crate::broker::reads::{Hidden, ReadPlan, ReadRule};
use crate::policy::path::PathEntry;

/// A pattern asks for it.
pub(super) fn has_patterns(ctx: Ctx<'_>) -> bool {
    let mut entries = ctx.policy.fs.deny_read.iter();
    entries.any(|entry| entry.value.exact().is_none())
}

/// Opens for reading trap.
pub(super) fn wanted(ctx: Ctx<'_>) -> bool {
    has_patterns(ctx) || ctx.policy.fs.trace
}

/// The rules, where opens for reading trap.
pub(super) fn collect(
    ctx: Ctx<'_>,
    rules: &Rules,
    floor: &ReadFloor,
    tree: &Tree,
) -> Option<ReadPlan> {
    if !wanted(ctx) {
        return None;
    }
    let mut out = ReadPlan {
        rules: Vec::new(),
        decides: has_patterns(ctx),
        watched: ctx.policy.fs.trace,
        places: tree
            .iter()
            .map(|(at, node)| (at.to_path_buf(), host(node)))
            .collect(),
        shown: rules.shows.iter().map(|w| w.real.clone()).collect(),
        windows: ctx.host.wsl2,
    };
    let hides = rules.hides.iter();
    out.rules = hides.filter_map(|h| exact(rules, floor, &out, h)).collect();
    for entry in &ctx.policy.fs.deny_read {
        let PathEntry::Pattern(pattern) = &entry.value else {
            continue;
        };
        let spelled = spellings(ctx, pattern).into_iter().map(|spelled| ReadRule {
            names: Hidden::Pattern(Arc::new(Denied::new(&spelled))),
            words: format!("deny_read \"{}\"", pattern.text),
            origin: entry.origin.clone(),
        });
        out.rules.extend(spelled);
    }
    Some(out)
}

/// The host's path of what stands somewhere.
fn host(node: &Node) -> Option<std::path::PathBuf> {
    match node {
        Node::Host { src, .. } => Some(src.clone()),
        Node::Overlay { lower, .. } => Some(lower.clone()),
        Node::Cover { of, .. } => Some(of.clone()),
        Node::State { .. }
        | Node::Tmpfs { .. }
        | Node::Dir { .. }
        | Node::Symlink { .. }
        | Node::File { .. }
        | Node::Data { .. }
        | Node::Dev
        | Node::Proc => None,
    }
}

/// A hidden path. What does not exist yet the command may make and read, where it can make it; elsewhere it is closed (`read_floor`).
fn exact(rules: &Rules, floor: &ReadFloor, plan: &ReadPlan, hide: &Hide) -> Option<ReadRule> {
    let path = &hide.walk.real;
    let closed = || {
        let mut closed = floor.closed.iter();
        closed.any(|c| plan.host(c).as_ref() == Some(path))
    };
    if hide.walk.kind.is_none() && !closed() {
        return None;
    }
    let lifted = rules.grants.iter().filter(|g| g.is_identity());
    if hide.liftable && lifted.clone().any(|g| g.path() == path) {
        return None;
    }
    Some(ReadRule {
        names: Hidden::Path {
            path: path.clone(),
            open: lifted
                .filter(|g| below(g.path(), path))
                .map(|g| g.path().to_path_buf())
                .collect(),
        },
        words: hide.named.words.clone(),
        origin: hide.named.origin.clone(),
    })
}

/// What it costs is said before a run.
pub(super) fn notice(ctx: Ctx<'_>) -> Option<String> {
    let mut patterns = ctx
        .policy
        .fs
        .deny_read
        .iter()
        .filter_map(|e| match &e.value {
            PathEntry::Pattern(p) => Some((p, &e.origin)),
            PathEntry::Exact(_) => None,
        });
    let (first, origin) = patterns.next()?;
    let more = match patterns.count() {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    Some(format!(
        "`{}`{more} in deny_read ({}): every open for reading is decided by name, which makes each some 10 µs slower; a directory or a file named without `*` costs nothing",
        first.text,
        place(origin)
    ))
}
