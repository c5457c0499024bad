//! Which Unix sockets may be connected to, and which are the sandbox' own (semantics 36).
//!
//! Everything is decided on pinned objects. A socket of the file system is bound once: nobody else can bind to the same inode later. So
//! who bound it is known for as long as the inode is held.
//!
//! | socket | open |
//! |---|---|
//! | bound in this run through the broker | yes; its inode is held, so that no other gets its number |
//! | on a mount that only this run has | yes |
//! | at a granted path of the host now, or shown for one | yes: then it is the host's present one that is connected to |
//! | below a granted directory, or any where all are granted | yes, but for those that lead everywhere |
//! | anything else | no |

use crate::sys::libc;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;

use super::areas::path_buf;
use super::memory::Fd;
use super::{Broker, BrokerError, areas, place};
use crate::broker::plan::SocketPlan;
use crate::sys::at::{self, How, Look};
use crate::sys::unix;

/// Each holds a descriptor of this process. Those without a name any more make room.
const MOST: usize = 512;

type Inode = ((u32, u32), u64);

/// What is known of the sockets of a run.
#[derive(Debug)]
pub(super) struct Sockets {
    plan: SocketPlan,
    /// Mounts that only the sandbox has.
    private: Vec<u64>,
    /// For each granted path the mount that shows it, where it is one of its own.
    shown: Vec<Option<u64>>,
    own: Mutex<HashMap<Inode, OwnedFd>>,
    /// Taken while somebody else's socket does not wait for a moment.
    hurried: Mutex<()>,
}

/// An answer.
#[derive(Debug)]
pub(super) enum Door {
    /// Connect to what was asked about, the sandbox' own.
    Own,
    /// Connect to what was asked about.
    Open,
    /// Connect to this one, which has come to the granted path since.
    Instead(OwnedFd),
    /// Not open to anybody in this run.
    Closed,
}

impl Sockets {
    /// Looks the paths of the plan up inside the sandbox, before the command runs.
    pub(super) fn new(plan: &SocketPlan, root: BorrowedFd<'_>) -> Result<Self, BrokerError> {
        let mount = |path: &Path| -> Result<Option<Look>, BrokerError> {
            match areas::open(root, path).and_then(|fd| at::look(fd.as_fd(), c"")) {
                Ok(look) => Ok(look.mount_root.then_some(look)),
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES) => Ok(None),
                Err(errno) => Err(BrokerError::Area {
                    path: path.to_owned(),
                    source: errno.into(),
                }),
            }
        };
        let mut private = Vec::new();
        for path in &plan.private {
            private.extend(
                mount(path)?
                    .filter(|l| l.is(libc::S_IFDIR))
                    .map(|l| l.mount),
            );
        }
        let mut shown = Vec::new();
        for grant in &plan.granted {
            let own = mount(&grant.path)?.filter(|l| !l.is(libc::S_IFDIR));
            shown.push(own.map(|l| l.mount));
        }
        Ok(Self {
            plan: plan.clone(),
            private,
            shown,
            own: Mutex::default(),
            hurried: Mutex::default(),
        })
    }

    fn own(&self) -> MutexGuard<'_, HashMap<Inode, OwnedFd>> {
        // Every change is one insertion or removal.
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is bound there is nobody else's.
    pub(super) fn is_private(&self, mount: u64) -> bool {
        self.private.contains(&mount)
    }

    /// Makes room for one more socket of the sandbox; ENOMEM where there is none (bind(2)).
    pub(super) fn make_room(&self) -> Result<(), Errno> {
        let mut own = self.own();
        if own.len() >= MOST {
            own.retain(|_, held| at::look(held.as_fd(), c"").is_ok_and(|look| look.links > 0));
        }
        if own.len() >= MOST {
            return Err(Errno::ENOMEM);
        }
        Ok(())
    }

    /// The sandbox has bound this one.
    pub(super) fn bound(&self, object: OwnedFd, look: &Look) {
        self.own().insert((look.device, look.ino), object);
    }

    /// Does something with the caller's socket that must not wait. It is the same open file as the caller's, so it is told not to wait
    /// for this moment: one that is not connected yet and does not listen takes no other call that waits.
    pub(super) fn without_waiting<T>(
        &self,
        socket: BorrowedFd<'_>,
        act: impl FnOnce(BorrowedFd<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        // Of two at once, one would put back what the other one had set.
        let _one = self.hurried.lock().unwrap_or_else(PoisonError::into_inner);
        let flags = at::flags(socket)?;
        at::set_flags(socket, flags | libc::O_NONBLOCK)?;
        let done = act(socket);
        at::set_flags(socket, flags)?;
        done
    }

    fn is_own(&self, look: &Look) -> bool {
        self.is_private(look.mount) || self.own().contains_key(&(look.device, look.ino))
    }

    /// The network is the sandbox' own: whom a program cannot reach there is told.
    pub(super) fn own_network(&self) -> bool {
        self.plan.own_network
    }

    /// A path of the host that no grant opens.
    pub(super) fn is_closed(&self, look: &Look) -> bool {
        self.plan.closed.iter().any(|path| {
            unix::c_string(path)
                .and_then(|path| at::open_here(&path, libc::O_PATH))
                .and_then(|object| at::look(object.as_fd(), c""))
                .is_ok_and(|closed| same(&closed, look))
        })
    }
}

/// The same object, on whatever mount.
fn same(a: &Look, b: &Look) -> bool {
    (a.device, a.ino) == (b.device, b.ino)
}

/// What has a path of the host now. No link is followed: the plan has followed those that were there before the command could make any.
fn of_host(path: &Path, beside: BorrowedFd<'_>) -> Result<(OwnedFd, Look), Errno> {
    let how = How {
        flags: place::PATH_ONLY,
        mode: 0,
        resolve: libc::RESOLVE_NO_SYMLINKS,
    };
    let object = at::open(beside, &unix::c_string(path)?, how)?;
    let look = at::look(object.as_fd(), c"")?;
    Ok((object, look))
}

impl Broker {
    /// Whether a socket may be connected to.
    pub(super) fn door(&self, sockets: &Sockets, object: &Fd, look: &Look) -> Result<Door, Errno> {
        if sockets.is_own(look) {
            return Ok(Door::Own);
        }
        let exact = sockets.plan.granted.iter().zip(&sockets.shown);
        for (grant, shown) in exact.filter(|(grant, _)| !grant.directory) {
            // The path is absolute, so that it matters to nobody what it is beside.
            let Ok((present, now)) = of_host(&grant.path, self.root.as_fd()) else {
                continue;
            };
            if same(&now, look) {
                return Ok(Door::Open);
            }
            if *shown == Some(look.mount) && now.is(libc::S_IFSOCK) {
                return Ok(Door::Instead(present));
            }
        }
        let wide = sockets.plan.all || self.below_granted(sockets, object, look)?;
        Ok(if wide && !sockets.is_closed(look) {
            Door::Open
        } else {
            Door::Closed
        })
    }

    /// It is the host's object at a path below a granted directory.
    fn below_granted(&self, sockets: &Sockets, object: &Fd, look: &Look) -> Result<bool, Errno> {
        if !sockets.plan.granted.iter().any(|grant| grant.directory) {
            return Ok(false);
        }
        let guest = place::path(object.as_fd())?;
        let path = path_buf(&self.host_path(&guest).unwrap_or(guest));
        let there = of_host(&path, self.root.as_fd()).is_ok_and(|(_, now)| same(&now, look));
        let below = |dir: &Path| path != dir && path.starts_with(dir);
        let mut directories = sockets.plan.granted.iter().filter(|g| g.directory);
        Ok(there && directories.any(|g| below(&g.path)))
    }
}
