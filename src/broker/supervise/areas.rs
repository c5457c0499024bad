//! Which mounts of the sandbox are covered: asked by mount id, never by what a path looks like (P3).
//!
//! A descriptor can lead to a directory on a mount that has the same path as a covered tree and is another one: a directory
//! descriptor inherited from outside, the other side of a bind. The id of the mount tells them apart.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::BrokerError;
use super::memory::Fd;
use super::place;
use crate::broker::plan::BrokerPlan;
use crate::sys::at::{self, How, Look};
use crate::sys::libc;

/// What holds in an area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The rules, in the tree at this index.
    Tree(usize),
    /// No rule, but the floor takes the right to write all the same.
    Served,
    /// The kernel decides: the child holds the right to write.
    Exempt,
}

/// A part of the sandbox's file system.
#[derive(Debug)]
pub(super) struct Area {
    pub(super) kind: Kind,
    /// Its path inside.
    pub(super) guest: Vec<u8>,
    /// Its number.
    pub(super) index: usize,
    /// What it starts with.
    pub(super) fd: Fd,
    pub(super) look: Look,
    mount: u64,
    /// It is the whole mount, so that no path needs to be looked at.
    whole: bool,
    is_dir: bool,
}

impl Area {
    /// Calls in it are carried out by the broker.
    pub(super) fn is_covered(&self) -> bool {
        self.kind != Kind::Exempt
    }
}

/// What the mount of an object says about it.
#[derive(Debug, Clone, Copy)]
pub(super) enum On<'a> {
    /// No area is on it.
    None,
    /// All of it is this area.
    Area(&'a Area),
    /// It depends on the path.
    Path,
}

/// All of them. The sandbox cannot mount anything, so they stay what they are.
#[derive(Debug)]
pub(super) struct Areas {
    areas: Vec<Area>,
    /// The sandbox's root.
    root: Look,
}

impl Areas {
    /// Looks the paths of the plan up inside the sandbox, before the command runs.
    pub(super) fn new(plan: &BrokerPlan, root: BorrowedFd<'_>) -> Result<Self, BrokerError> {
        let mut areas = Vec::new();
        for (index, tree) in plan.trees.iter().enumerate() {
            let area = open(root, &tree.guest)
                .and_then(|fd| area(Kind::Tree(index), fd))
                .map_err(|errno| BrokerError::Area {
                    path: tree.guest.clone(),
                    source: errno.into(),
                })?;
            areas.push(area);
        }
        let others = plan.served.iter().map(|path| (path, Kind::Served));
        let others = others.chain(plan.exempt.iter().map(|path| (path, Kind::Exempt)));
        for (path, kind) in others {
            match open(root, path).and_then(|fd| area(kind, fd)) {
                Ok(area) => areas.push(area),
                // Nothing is granted there either.
                Err(Errno::ENOENT | Errno::ENOTDIR) => {}
                Err(errno) => {
                    return Err(BrokerError::Area {
                        path: path.clone(),
                        source: errno.into(),
                    });
                }
            }
        }
        // The deepest first.
        areas.sort_by_key(|area| std::cmp::Reverse(area.guest.len()));
        for (index, area) in areas.iter_mut().enumerate() {
            area.index = index;
        }
        let root_look = at::look(root, c"").map_err(|errno| BrokerError::Root(errno.into()))?;
        // `..` above the root leads nowhere only if the root is that of the mount namespace; a process with a root of its own
        // further below would need every `..` to be looked at.
        let above = at::open(
            root,
            c"..",
            How {
                flags: place::PATH_DIR,
                ..How::default()
            },
        )
        .and_then(|above| at::look(above.as_fd(), c""))
        .map_err(|errno| BrokerError::Root(errno.into()))?;
        if !above.same(&root_look) {
            return Err(BrokerError::Root(io::Error::from(Errno::EXDEV)));
        }
        Ok(Self {
            areas,
            root: root_look,
        })
    }

    /// What the mount alone says about an object.
    pub(super) fn on(&self, mount: u64) -> On<'_> {
        let mut here = self.areas.iter().filter(|area| area.mount == mount);
        match (here.next(), here.next()) {
            (None, _) => On::None,
            (Some(area), None) if area.whole => On::Area(area),
            (Some(_), _) => On::Path,
        }
    }

    /// The area of a path on a mount.
    pub(super) fn with_path(&self, mount: u64, path: &[u8]) -> Option<&Area> {
        self.areas
            .iter()
            .find(|area| area.mount == mount && place::below(path, &area.guest).is_some())
    }

    /// The area an object lies in; `None` where nothing of the plan says anything about it.
    pub(super) fn of(&self, object: BorrowedFd<'_>, look: &Look) -> Result<Option<&Area>, Errno> {
        match self.on(look.mount) {
            On::None => Ok(None),
            On::Area(area) => Ok(Some(area)),
            On::Path => Ok(self.with_path(look.mount, &place::path(object)?)),
        }
    }

    /// The area with this number.
    pub(super) fn get(&self, index: usize) -> Option<&Area> {
        self.areas.get(index)
    }

    /// The covered directory that an absolute path starts with by its letters, and what follows.
    pub(super) fn starting(&self, path: &[u8]) -> Option<(&Area, usize)> {
        let area = self.areas.iter().find(|area| {
            area.is_dir && place::below(path, &area.guest).is_some_and(|rest| !rest.is_empty())
        })?;
        area.is_covered().then_some((area, area.guest.len()))
    }

    /// Some area lies on this mount.
    pub(super) fn has_mount(&self, mount: u64) -> bool {
        self.areas.iter().any(|area| area.mount == mount)
    }

    /// Some covered tree is a single file.
    pub(super) fn has_files(&self) -> bool {
        self.areas
            .iter()
            .any(|area| area.is_covered() && !area.is_dir)
    }

    /// The sandbox's root directory.
    pub(super) fn is_root(&self, look: &Look) -> bool {
        look.same(&self.root)
    }

    /// Some area lies strictly below this path inside.
    pub(super) fn any_below(&self, path: &[u8]) -> bool {
        self.areas
            .iter()
            .any(|area| place::below(&area.guest, path).is_some_and(|rest| !rest.is_empty()))
    }

    /// A path inside lies in an exempt area, as paths go. Worth something only where the mount is known to be the sandbox's.
    pub(super) fn is_exempt_path(&self, path: &[u8]) -> bool {
        self.areas
            .iter()
            .find(|area| place::below(path, &area.guest).is_some())
            .is_some_and(|area| area.kind == Kind::Exempt)
    }
}

pub(super) fn open(root: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    let relative = path.strip_prefix("/").map_err(|_| Errno::EINVAL)?;
    let relative = if relative.as_os_str().is_empty() {
        Path::new(".")
    } else {
        relative
    };
    let path = CString::new(relative.as_os_str().as_bytes()).map_err(|_| Errno::EINVAL)?;
    let how = How {
        flags: place::PATH_ONLY,
        mode: 0,
        resolve: libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_MAGICLINKS,
    };
    at::open(root, &path, how)
}

fn area(kind: Kind, fd: OwnedFd) -> Result<Area, Errno> {
    let look = at::look(fd.as_fd(), c"")?;
    Ok(Area {
        kind,
        guest: place::path(fd.as_fd())?,
        index: 0,
        fd: Fd::new(fd),
        look,
        mount: look.mount,
        whole: look.mount_root,
        is_dir: look.is(libc::S_IFDIR),
    })
}

/// A path of bytes.
pub(super) fn path_buf(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}
