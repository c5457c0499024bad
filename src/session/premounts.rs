//! The pre-stage's part of the mounts: caches, covers and read-only pieces on the host's own paths, in a mount namespace that nobody
//! else has. The engine binds the host's tree from there.
//!
//! Each place is opened without following a link and mounted on by descriptor. A place that has gone, or has become a link since the
//! plan was made, ends the run.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use nix::errno::Errno;

use super::wire::{SetupFailure, Step};
use crate::backend::{OverlayMount, PreMount};
use crate::sys::fds::Kind;
use crate::sys::mounts::{self, Blanks, Reach};
use crate::sys::{fds, namespaces};

/// Where the placeholders are made: a directory that every system has and in which nothing is mounted before the engine runs, which
/// makes its own.
const WORKSHOP: &str = "/dev";

/// Makes them all, in order.
pub(super) fn make(all: &[PreMount]) -> Result<(), SetupFailure> {
    if all.is_empty() {
        return Ok(());
    }
    let private = |e: io::Error| Step::PrivateMounts.failed(&e, "");
    namespaces::make_mounts_private().map_err(private)?;
    let workshop = Path::new(WORKSHOP);
    let covers = all.iter().any(|m| matches!(m, PreMount::Cover { .. }));
    let blanks = covers.then(|| Blanks::mount(workshop)).transpose();
    let blanks = blanks.map_err(|e| Step::Cover.failed(&e, ""))?;
    for mount in all {
        match mount {
            PreMount::Overlay(o) => overlay(o).map_err(|e| Step::Overlay.failed(&e, &o.at))?,
            PreMount::Cover { at, is_dir } => {
                cover(blanks.as_ref(), at, *is_dir).map_err(|e| Step::Cover.failed(&e, at))?;
            }
            PreMount::ReadOnly { at } => {
                itself(at, true).map_err(|e| Step::Protect.failed(&e, at))?;
            }
            PreMount::Pinned { at } => {
                itself(at, false).map_err(|e| Step::Protect.failed(&e, at))?;
            }
        }
    }
    match blanks {
        Some(blanks) => blanks.unmount(workshop).map_err(private),
        None => Ok(()),
    }
}

/// Where the kernel cannot overlay (before Linux 5.11, or on a file system that is no upper layer) the cache is an empty private
/// directory (semantics 45).
fn overlay(o: &OverlayMount) -> io::Result<()> {
    if namespaces::mount_overlay(&o.lowers, &o.upper, &o.work, &o.at).is_ok() {
        return Ok(());
    }
    let plain = fds::open_no_links(&o.at.with_file_name("plain"))?;
    let place = fds::open_no_links(&o.at)?;
    let tree = mounts::copy(plain.as_fd(), Reach::Mount)?;
    mounts::attach(tree.as_fd(), place.as_fd())
}

fn cover(blanks: Option<&Blanks>, at: &Path, is_dir: bool) -> io::Result<()> {
    let Some(blanks) = blanks else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let place = fds::open_no_links(at)?;
    // What move_mount(2) answers with EINVAL, which says less.
    if is_dir != (fds::kind(place.as_raw_fd())? == Kind::Directory) {
        return Err(Errno::ENOTDIR.into());
    }
    let blank = mounts::copy(blanks.blank(is_dir), Reach::Mount)?;
    mounts::attach(blank.as_fd(), place.as_fd())
}

/// A copy of what stands there, over itself.
fn itself(at: &Path, read_only: bool) -> io::Result<()> {
    let place = fds::open_no_links(at)?;
    let tree = mounts::copy(place.as_fd(), Reach::Tree)?;
    if read_only {
        mounts::make_read_only(tree.as_fd(), Reach::Tree)?;
    }
    mounts::attach(tree.as_fd(), place.as_fd())
}
