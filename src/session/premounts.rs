//! The pre-stage's part of the mounts: caches, covers and read-only pieces on the host's own paths, in a mount namespace that nobody
//! else has. The engine binds the host's tree from there.
//!
//! What is hidden is covered by nodes of a FUSE file system that ccbox serves (`covers`), where the device can be had, else by placeholders
//! that nobody may open: those refuse as well, but nobody hears of it.
//!
//! Each place is opened without following a link and mounted on by descriptor. A place that has gone, or has become a link since the
//! plan was made, ends the run.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::mount::MntFlags;
use nix::sys::stat::Mode;

use super::covers;
use super::wire::{self, Report, SetupFailure, Step};
use crate::backend::{OverlayMount, PreMount};
use crate::sys::fds::Kind;
use crate::sys::mounts::{self, Blanks, Reach};
use crate::sys::{fds, fuse, namespaces};

/// Where the covers are made: a directory that every system has and in which nothing is mounted before the engine runs, which
/// makes its own.
const WORKSHOP: &str = "/dev";

/// Makes them all, in order.
pub(super) fn make(
    all: &[PreMount],
    control: &OwnedFd,
    ids: (u32, u32),
) -> Result<(), SetupFailure> {
    if all.is_empty() {
        return Ok(());
    }
    let private = |e: io::Error| Step::PrivateMounts.failed(&e, "");
    namespaces::make_mounts_private().map_err(private)?;
    let hides = |m: &PreMount| matches!(m, PreMount::Cover { .. });
    let mut blankets = if all.iter().any(hides) {
        Some(Blankets::mount(control, ids).map_err(|e| Step::Cover.failed(&e, ""))?)
    } else {
        None
    };
    for mount in all {
        match mount {
            PreMount::Overlay(o) => overlay(o).map_err(|e| Step::Overlay.failed(&e, &o.at))?,
            PreMount::Cover { at, is_dir } => {
                cover(blankets.as_mut(), at, *is_dir).map_err(|e| Step::Cover.failed(&e, at))?;
            }
            PreMount::ReadOnly { at } => {
                itself(at, true).map_err(|e| Step::Protect.failed(&e, at))?;
            }
            PreMount::Pinned { at } => {
                itself(at, false).map_err(|e| Step::Protect.failed(&e, at))?;
            }
        }
    }
    match blankets {
        Some(_) => unmount(Path::new(WORKSHOP)).map_err(private),
        None => Ok(()),
    }
}

/// What covers are cut from, mounted on the workshop.
#[derive(Debug)]
enum Blankets {
    /// Root of the file system that ccbox serves, and how many nodes are in use.
    Served(OwnedFd, usize),
    /// Placeholders.
    Blank(Blanks),
}

impl Blankets {
    fn mount(control: &OwnedFd, ids: (u32, u32)) -> io::Result<Self> {
        let workshop = Path::new(WORKSHOP);
        let Ok(device) = served(workshop, ids) else {
            return Ok(Self::Blank(Blanks::mount(workshop)?));
        };
        wire::say_with(control, &Report::Covers, &[device])?;
        let directory = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let root = nix::fcntl::open(workshop, directory, Mode::empty())?;
        fuse::learn_names(&root)?;
        Ok(Self::Served(root, 0))
    }

    /// The next cover, for an object of this kind, mounted nowhere yet.
    fn cut(&mut self, is_dir: bool) -> io::Result<OwnedFd> {
        match self {
            Self::Served(root, used) => {
                let path = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
                let name = covers::name(*used);
                let node = nix::fcntl::openat(root, name.as_str(), path, Mode::empty())?;
                *used += 1;
                mounts::copy(node.as_fd(), Reach::Mount)
            }
            Self::Blank(blanks) => mounts::copy(blanks.blank(is_dir), Reach::Mount),
        }
    }
}

/// Mounts the file system to be served. Whatever stands in the way (no device, no right to open it, no such file system) leaves the
/// placeholders.
fn served(at: &Path, (uid, gid): (u32, u32)) -> io::Result<OwnedFd> {
    let device = fuse::open_device()?;
    fuse::mount(&device, at, uid, gid)?;
    Ok(device)
}

/// Takes the workshop's mount away again; the copies stay.
fn unmount(workshop: &Path) -> io::Result<()> {
    Ok(nix::mount::umount2(
        workshop,
        MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW,
    )?)
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

fn cover(blankets: Option<&mut Blankets>, at: &Path, is_dir: bool) -> io::Result<()> {
    let Some(blankets) = blankets else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let place = fds::open_no_links(at)?;
    // What move_mount(2) answers with EINVAL, which says less.
    if is_dir != (fds::kind(place.as_raw_fd())? == Kind::Directory) {
        return Err(Errno::ENOTDIR.into());
    }
    mounts::attach(blankets.cut(is_dir)?.as_fd(), place.as_fd())
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
