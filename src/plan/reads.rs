//! What opens for reading are asked about (semantics 6): patterns in `deny_read`, paths of it that nothing else holds, and `--trace`.
//!
//! A cover goes with the object it stands on, and what does not exist yet has none. Outside of writable trees the read floor closes what
//! takes its place (`read_floor`). Inside them it cannot, because what the command makes there it must be able to read; so a path that
//! somebody wrote down is decided by name there, as a pattern is. ccbox's own rows are not: they are a named gap (`gaps`).
//!
//! Without any of these there is nothing here, and no open for reading is looked at.

use std::collections::HashSet;
use std::sync::Arc;

use super::context::Ctx;
use super::gaps::is_asked_for;
use super::names::spellings;
use super::paths::below;
use super::read_floor::{self, ReadFloor};
use super::rules::{Hide, Rules, place};
use super::tree::{Node, Tree};
use crate::broker::decide::Denied;
use crate::broker::reads::{Hidden, HiddenPath, Open, ReadPlan, ReadRule};
use crate::policy::Origin;
use crate::policy::path::PathEntry;

/// What names decide about when something is opened for reading.
#[derive(Debug, Default)]
pub(super) struct ByName<'a> {
    /// Hidden paths that nothing else holds.
    paths: Vec<&'a Hide>,
    /// Their places in memory: there may be thousands.
    known: HashSet<*const Hide>,
    patterns: bool,
    trace: bool,
}

impl<'a> ByName<'a> {
    /// Nothing, where no broker can decide.
    pub(super) fn find(ctx: Ctx<'_>, rules: &'a Rules, tree: &Tree) -> Self {
        if !ctx.has_broker() {
            return Self::default();
        }
        let mut entries = ctx.policy.fs.deny_read.iter();
        let written = rules.hides.iter().filter(|h| is_asked_for(&h.named.origin));
        let paths: Vec<&Hide> = written
            .filter(|h| read_floor::leaves(ctx, rules, tree, h))
            .collect();
        Self {
            known: paths.iter().map(|h| std::ptr::from_ref(*h)).collect(),
            paths,
            patterns: entries.any(|entry| entry.value.exact().is_none()),
            trace: ctx.policy.fs.trace,
        }
    }

    /// Names decide.
    pub(super) fn decides(&self) -> bool {
        self.patterns || !self.paths.is_empty()
    }

    /// Opens for reading trap.
    pub(super) fn traps(&self) -> bool {
        self.decides() || self.trace
    }

    /// The path is held by its name even while nothing stands there.
    pub(super) fn holds(&self, hide: &Hide) -> bool {
        self.known.contains(&std::ptr::from_ref(hide))
    }
}

/// The rules, where opens for reading trap.
pub(super) fn collect(
    ctx: Ctx<'_>,
    rules: &Rules,
    by_name: &ByName<'_>,
    floor: &ReadFloor,
    tree: &Tree,
) -> Option<ReadPlan> {
    if !by_name.traps() {
        return None;
    }
    let mut out = ReadPlan {
        rules: Vec::new(),
        decides: by_name.decides(),
        watched: ctx.policy.fs.trace,
        places: tree
            .iter()
            .map(|(at, node)| (at.to_path_buf(), host(node)))
            .collect(),
        floor: floor.above.clone(),
        shown: rules.shows.iter().map(|w| w.real.clone()).collect(),
        windows: ctx.host.wsl2,
    };
    for hide in &rules.hides {
        if hide.walk.kind.is_some() || by_name.holds(hide) || closed(floor, &out, hide) {
            exact(rules, hide, &mut out.rules);
        }
    }
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

/// What does not exist yet the command may make and read, where it can make it; elsewhere the floor closes it.
fn closed(floor: &ReadFloor, plan: &ReadPlan, hide: &Hide) -> bool {
    let mut closed = floor.closed.iter();
    closed.any(|c| plan.host(c).as_deref() == Some(&hide.walk.real))
}

/// A hidden path: where it leads, as it is written, and the link it may be. Those two name nothing until something else stands in the
/// place of a link.
fn exact(rules: &Rules, hide: &Hide, out: &mut Vec<ReadRule>) {
    let real = &hide.walk.real;
    let mut own = rules.grants.iter().filter(|g| g.is_identity());
    if hide.liftable && own.any(|g| g.path() == real) {
        return;
    }
    let link = hide.walk.links.iter().filter(|l| l.last).map(|l| &l.at);
    let mut paths = vec![real, &hide.walk.spelled];
    paths.extend(link);
    paths.dedup();
    for path in paths {
        out.push(ReadRule {
            names: Hidden::Path(HiddenPath::new(
                path,
                rules
                    .grants
                    .iter()
                    .filter(|g| below(g.path(), path) || hide.liftable && g.path() == path)
                    .map(|g| Open {
                        host: g.path().to_path_buf(),
                        inside: g.guest.clone(),
                    })
                    .collect(),
            )),
            words: hide.named.words.clone(),
            origin: hide.named.origin.clone(),
        });
    }
}

/// What it costs is said before a run.
pub(super) fn notice(ctx: Ctx<'_>, by_name: &ByName<'_>) -> Option<String> {
    let patterns = ctx.policy.fs.deny_read.iter();
    let patterns = patterns.filter_map(|e| match &e.value {
        PathEntry::Pattern(p) => Some((format!("`{}` in deny_read", p.text), &e.origin)),
        PathEntry::Exact(_) => None,
    });
    let paths = by_name.paths.iter().map(|h| {
        let path = h.walk.spelled.display();
        (format!("`{path}` in deny_read"), &h.named.origin)
    });
    let mut all: Vec<(String, &Origin)> = patterns.chain(paths).collect();
    all.dedup();
    let (first, origin) = all.first()?;
    let more = match all.len() - 1 {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    Some(format!(
        "{first}{more} ({}): every open for reading is decided by name, which makes each some 10 µs slower; only a path outside of directories that the command can write to costs nothing",
        place(origin)
    ))
}
