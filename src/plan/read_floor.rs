//! Which hidden files stay closed although a host program replaces or makes them during the run (semantics 6, linux-engine-2.md §3).
//!
//! A cover goes with the file it stands on: renaming over a mount point of another mount namespace takes that mount away (rename(2)).
//! The Landlock read floor does not hang on the file: it grants reading to everything beside the way that leads to it, object by object,
//! and so nothing to an object that comes later. Its price is that *other* files which the host makes or replaces directly in the
//! directories of that way are unreadable until the next run. So it is used
//!
//! - where the command cannot make files in those directories itself: what it creates it may read;
//! - not for the system's own secrets, which only uid 0 could read: /etc has files that must stay readable when they are replaced
//!   (`resolv.conf`, `ld.so.cache`);
//! - not for directories: what is replaced inside a hidden directory stays below its cover.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::context::Ctx;
use super::paths::within;
use super::rules::{Hide, ReadVerdict, Rules};
use super::tree::{Node, Shown, Tree};
use crate::host::fs_view::Kind;
use crate::policy::Layer;

/// Files that stay closed, as guest paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadFloor {
    /// The files; they need not exist.
    pub closed: Vec<PathBuf>,
    /// Every directory above one of them: their entries are granted one by one.
    pub above: Vec<PathBuf>,
}

/// The floor, and the host paths of hidden files it does not hold.
pub(super) fn collect(ctx: Ctx<'_>, rules: &Rules, tree: &Tree) -> (ReadFloor, Vec<PathBuf>) {
    let mut closed = BTreeSet::new();
    let mut left = BTreeSet::new();
    for hide in rules
        .hides
        .iter()
        .filter(|h| h.walk.kind != Some(Kind::Dir))
    {
        for guest in guests(ctx, rules, tree, hide) {
            if !system(ctx, hide) && guest.ancestors().skip(1).all(|a| unchangeable(tree, a)) {
                closed.insert(guest);
            } else if hide.walk.kind.is_some() {
                left.insert(hide.walk.real.clone());
            }
        }
    }
    let above: BTreeSet<PathBuf> = closed
        .iter()
        .flat_map(|p| p.ancestors().skip(1))
        .map(Path::to_path_buf)
        .collect();
    let floor = ReadFloor {
        closed: closed.into_iter().collect(),
        above: above.into_iter().collect(),
    };
    (floor, left.into_iter().collect())
}

/// Neither the floor nor a mount keeps hidden what a host program puts in the place of `hide`.
pub(super) fn leaves(ctx: Ctx<'_>, rules: &Rules, tree: &Tree, hide: &Hide) -> bool {
    let is_dir = hide.walk.kind == Some(Kind::Dir);
    let writable = |a: &Path| matches!(tree.shown(a), Shown::Host { rw: true, .. });
    let in_cache = || {
        let real = &hide.walk.real;
        let there = real.ancestors().skip(1).find(|a| ctx.exists(a));
        // A cover in an overlay stays: its directory is not the host's.
        hide.walk.kind.is_none()
            && there.is_some_and(|a| matches!(tree.shown(a), Shown::Cache { path } if path == a))
            && matches!(rules.read(real), ReadVerdict::Hidden(_))
    };
    guests(ctx, rules, tree, hide).iter().any(|guest| {
        let mut above = guest.ancestors().skip(1);
        if is_dir {
            above.any(writable)
        } else {
            !above.all(|a| unchangeable(tree, a))
        }
    }) || in_cache()
}

/// Where inside a hidden object stands, or would stand if the host made it.
fn guests(ctx: Ctx<'_>, rules: &Rules, tree: &Tree, hide: &Hide) -> Vec<PathBuf> {
    let real = &hide.walk.real;
    let Some(there) = real.ancestors().skip(1).find(|a| ctx.exists(a)) else {
        return Vec::new();
    };
    let absent = hide.walk.kind.is_none();
    if absent && !matches!(rules.read(real), ReadVerdict::Hidden(_)) {
        return Vec::new();
    }
    let Ok(rest) = real.strip_prefix(there) else {
        return Vec::new();
    };
    tree.places(there)
        .map(|(at, _)| at.join(rest))
        .filter(|at| {
            absent || matches!(tree.get(at), Some(Node::Cover { .. } | Node::Tmpfs { .. }))
        })
        .collect()
}

/// The command can make nothing directly in the directory `path`.
fn unchangeable(tree: &Tree, path: &Path) -> bool {
    match tree.shown(path) {
        Shown::Host { rw, .. } => !rw,
        // Sealed once everything in it is made.
        Shown::Hidden => true,
        Shown::Private => {
            let mut nodes = path.ancestors().filter_map(|a| tree.get(a));
            let mount = nodes.find(|n| !matches!(n, Node::Dir { .. }));
            matches!(mount, Some(Node::Tmpfs { ro: true, .. }))
        }
        Shown::Cache { .. } | Shown::Kernel => false,
    }
}

/// One of ccbox's own rows about the system, not about the caller.
fn system(ctx: Ctx<'_>, hide: &Hide) -> bool {
    matches!(hide.named.origin.layer, Layer::BuiltIn(_))
        && !within(&hide.walk.real, &ctx.host.home_real)
}
