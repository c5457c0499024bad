//! Where pieces and root are mounted while the child's file system is built: over [`STAGE`](crate::backend::STAGE).

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, mkdirat};

use crate::sys::classic;
use crate::sys::fds;
use crate::sys::mounts::{Calls, Tree, Workshop};

/// Takes one mount after the other.
#[derive(Debug)]
pub(super) enum Yard {
    /// One over the other; this is the root of the uppermost.
    Stack(OwnedFd),
    /// Each in a directory of its own. A bind of what the stage lies in takes place after this is made and must not show it, so it
    /// is left out of every bind.
    Rooms { bench: OwnedFd, count: u32 },
}

impl Yard {
    pub(super) fn open(calls: Calls, stage: OwnedFd) -> io::Result<Self> {
        if calls == Calls::New {
            return Ok(Self::Stack(stage));
        }
        let place = std::path::Path::new(crate::backend::STAGE);
        let bench = Workshop::place(calls)?.attach(stage.as_fd(), || fds::open_no_links(place))?;
        classic::make_unbindable(bench.as_fd())?;
        Ok(Self::Rooms { bench, count: 0 })
    }

    /// Mounts it and returns its root.
    pub(super) fn put(&mut self, tree: Tree) -> io::Result<OwnedFd> {
        match self {
            Self::Stack(top) => {
                let root = tree.attach(top.as_fd(), || Err(io::ErrorKind::Unsupported.into()))?;
                *top = root.try_clone()?;
                Ok(root)
            }
            Self::Rooms { bench, count, .. } => {
                let name = CString::new(count.to_string())?;
                *count += 1;
                mkdirat(&*bench, name.as_c_str(), Mode::S_IRWXU)?;
                let open = || {
                    let path = fds::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
                    let room = nix::fcntl::openat(&*bench, name.as_c_str(), path, Mode::empty());
                    Ok::<_, io::Error>(room?)
                };
                let place = open()?;
                tree.attach(place.as_fd(), open)
            }
        }
    }

    /// Leads the stage's path to `root`, which was put last.
    pub(super) fn hand_over(self, root: OwnedFd) -> io::Result<OwnedFd> {
        if let Self::Rooms { bench, .. } = self {
            classic::carry(root.as_fd(), bench.as_fd())?;
        }
        Ok(root)
    }
}
