//! Which mounts of a plan the pre-stage makes instead of bubblewrap.
//!
//! bubblewrap 0.8.0 reads the whole mount table for every bind (some 60 µs each), and most mounts of an ordinary plan are covers and
//! read-only pieces inside a tree that it binds from the same host path anyway. Its binds are recursive: what the pre-stage has mounted
//! on the host's path, in its private mount namespace, comes along, and every flag of it stays (bubblewrap only adds flags). Mounts
//! that bubblewrap's namespace inherits from the pre-stage's, which another user namespace owns, are locked (mount_namespaces(7)).
//!
//! The result must be the same for every path, so a mount is moved only where all of this holds:
//!
//! - it stands at the host path it is about, and the nearest mount above is a bind whose host and guest path are the same;
//! - nothing is mounted at or below it before, nor at or above it afterwards: the order among those would change;
//! - no other mount takes the host's tree at or above it to another guest path: it would show up there too;
//! - no other mount has a source at or below it that a cover would hide or a read-only mount would close.

use std::path::Path;

use crate::backend::PreMount;
use crate::plan::{Mount, below, within};

/// For each mount, what the pre-stage does in its place.
pub(super) fn premounts(mounts: &[Mount]) -> Vec<Option<PreMount>> {
    let foreign: Vec<&Path> = mounts.iter().flat_map(elsewhere).collect();
    (0..mounts.len())
        .map(|i| candidate(mounts, i).filter(|c| movable(mounts, i, c, &foreign)))
        .collect()
}

/// The mount as the pre-stage could make it.
fn candidate(mounts: &[Mount], i: usize) -> Option<PreMount> {
    let mount = mounts.get(i)?;
    let (at, over) = (dst(mount).to_path_buf(), provider(mounts, i)?);
    // Nothing may stand in the way of a fresh /proc (mount_too_revealing in fs/namespace.c), and /dev is the engine's own.
    if ["/proc", "/dev"].iter().any(|p| within(&at, Path::new(p))) {
        return None;
    }
    if let Mount::Cover { is_dir, .. } = mount {
        let is_dir = *is_dir;
        return Some(PreMount::Cover { at, is_dir });
    }
    if matches!(mount, Mount::RoBind { src, .. } if *src == at) {
        return Some(PreMount::ReadOnly { at });
    }
    // In a read-only bind it would become read-only too.
    let writable = matches!(mount, Mount::Bind { src, .. } if *src == at)
        && matches!(over, Mount::Bind { .. });
    writable.then_some(PreMount::Pinned { at })
}

/// The bind that shows the host's own path where mount `i` is put.
fn provider(mounts: &[Mount], i: usize) -> Option<&Mount> {
    let at = dst(mounts.get(i)?);
    let mut above: Vec<&Mount> = mounts.get(..i)?.iter().collect();
    above.retain(|m| below(at, dst(m)) && !matches!(m, Mount::RemountRo { .. }));
    // Of two at the same path the later one.
    let nearest = above.into_iter().max_by_key(|m| dst(m).as_os_str().len())?;
    let own =
        matches!(nearest, Mount::Bind { src, dst } | Mount::RoBind { src, dst } if src == dst);
    own.then_some(nearest)
}

fn movable(mounts: &[Mount], i: usize, as_what: &PreMount, foreign: &[&Path]) -> bool {
    let Some((before, [mount, after @ ..])) = mounts.split_at_checked(i) else {
        return false;
    };
    let at = dst(mount);
    // A remount reaches one mount only, and none of those above is moved with it.
    let over =
        |m: &Mount| within(at, dst(m)) && (!matches!(m, Mount::RemountRo { .. }) || dst(m) == at);
    let order = !before.iter().any(|m| within(dst(m), at)) && !after.iter().any(over);
    let seen_elsewhere = foreign.iter().any(|s| within(at, s));
    let mut others = before.iter().chain(after);
    let in_the_way = match as_what {
        PreMount::Cover { .. } => others.any(|m| sources(m).any(|s| within(s, at))),
        PreMount::ReadOnly { .. } => {
            others.any(|m| !matches!(m, Mount::RoBind { .. }) && sources(m).any(|s| within(s, at)))
        }
        PreMount::Pinned { .. } | PreMount::Overlay(_) => false,
    };
    order && !seen_elsewhere && !in_the_way
}

/// Host paths that a mount shows at another guest path.
fn elsewhere(mount: &Mount) -> impl Iterator<Item = &Path> {
    sources(mount).filter(move |s| *s != dst(mount) || matches!(mount, Mount::Overlay { .. }))
}

/// Host paths a mount takes something from.
fn sources(mount: &Mount) -> impl Iterator<Item = &Path> {
    let all = match mount {
        Mount::RoBind { src, .. } | Mount::Bind { src, .. } | Mount::State { src, .. } => {
            [Some(src), None, None]
        }
        Mount::Overlay {
            lower, upper, work, ..
        } => [Some(lower), Some(upper), Some(work)],
        Mount::Tmpfs { .. }
        | Mount::Dir { .. }
        | Mount::Symlink { .. }
        | Mount::File { .. }
        | Mount::Data { .. }
        | Mount::Cover { .. }
        | Mount::RemountRo { .. }
        | Mount::Dev { .. }
        | Mount::Proc { .. } => [None, None, None],
    };
    all.into_iter().flatten().map(std::path::PathBuf::as_path)
}

fn dst(mount: &Mount) -> &Path {
    match mount {
        Mount::RoBind { dst, .. }
        | Mount::Bind { dst, .. }
        | Mount::State { dst, .. }
        | Mount::Overlay { dst, .. }
        | Mount::Tmpfs { dst, .. }
        | Mount::Dir { dst, .. }
        | Mount::Symlink { dst, .. }
        | Mount::File { dst, .. }
        | Mount::Data { dst, .. }
        | Mount::Cover { dst, .. }
        | Mount::RemountRo { dst }
        | Mount::Dev { dst }
        | Mount::Proc { dst } => dst,
    }
}

#[cfg(test)]
mod tests;
