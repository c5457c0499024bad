//! The supervisor: answers, from outside of the sandbox, the calls that the filter sends (D4, linux-engine.md §6).
//!
//! The filter is transport only. The command runs in a Landlock domain without any right to write, create, remove or
//! re-parent in the covered trees, so a call that is answered with "continue" can do no more than that domain lets it;
//! whatever it may do is done here, on descriptors, by a process with the same user and without capabilities.

mod act;
mod areas;
mod beside;
mod caller;
mod crew;
mod denial;
mod epoch;
mod handouts;
mod held;
mod judge;
mod listening;
mod lock;
mod magic;
mod meeting;
mod memory;
mod near;
mod pending;
mod place;
mod processes;
mod read_only;
mod resolve;
mod sockets;
mod staging;
mod subtree;
crate::sys::linux_tests! { mod tests; }
mod workers;

use std::ffi::CString;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use nix::errno::Errno;
use nix::unistd::Pid;

use super::decide::RuleSet;
use super::gitdir::{Above, Repositories};
use super::guests::Guests;
use super::plan::{BrokerPlan, components};
use super::reads::ReadPlan;
use crate::exit::Failure;
use crate::sys::at;
use crate::sys::libc;
use areas::Areas;
use beside::Beside;
use caller::Caller;
use crew::Crew;
use denial::Denied;
use epoch::Epoch;
use listening::Routes;
use lock::Lock;
pub use lock::Quiet;
pub use meeting::Holder;
use meeting::{Patience, Unlocked};
use memory::Fd;
use processes::Processes;
use resolve::Walk;
use sockets::Sockets;
use staging::Staging;
use workers::Staff;
pub use workers::Supervisor;

/// What the inner stage hands over.
#[derive(Debug)]
pub struct Door {
    /// Where the notifications of the command's filter arrive.
    pub listener: OwnedFd,
    /// The sandbox's `/`, opened with `O_PATH`.
    pub root: OwnedFd,
    /// The process ccbox forked, by its pid here: the ancestor of everything that can ask.
    pub child: Pid,
}

/// Takes the refusals.
pub trait Sink: Send + Sync {
    /// Called once a refused call, from a worker that holds no lock. Must not block.
    fn denied(&self, denial: Denial);

    /// Called once a connection cannot be made that could be made outside. The same holds.
    fn unreached(&self, _unreached: Unreached) {}

    /// Connections to granted sockets are of interest.
    fn wants_connections(&self) -> bool {
        false
    }

    /// A connection to a granted socket of somebody else's, by its path inside and the process with its name.
    fn connected(&self, _path: &Path, _pid: i32, _program: String) {}

    /// What calls touch is of interest.
    fn wants_touched(&self) -> bool {
        false
    }

    /// Something was touched, by its path inside as it was written. The same holds.
    fn touched(&self, _path: &Path, _touch: Touch) {}

    /// Called once the lock that all runs of the user share is held by another one for too long. The same holds.
    fn held_up(&self, _by: Option<Holder>) {}

    /// Some programs are not executed, so that those that are asked for are worth a look.
    fn closes_programs(&self) -> bool {
        false
    }

    /// A program at this path inside is not executed.
    fn closes_program(&self, _path: &Path) -> bool {
        false
    }
}

/// How something was touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Touch {
    /// A file was opened for reading, or executed.
    Read,
    /// A directory was opened.
    Listed,
    /// What is there was changed.
    Changed,
    /// A name was made, removed, or moved here or away.
    Entry,
}

/// Somebody who cannot be reached from inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreached {
    /// Whom the child wanted to talk to. A loopback address: of the host, where somebody listens.
    pub to: SocketAddr,
    /// By UDP, not by TCP.
    pub datagrams: bool,
    /// Nothing was to be sent yet, and often nothing will be.
    pub asks: bool,
    /// The process, by its pid here.
    pub pid: i32,
    /// Its name.
    pub program: String,
}

/// One refused call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// What was asked: create, write, rename (away), rename-to, move (a directory, refused for what is in it), link, unlink, rmdir, mkdir,
    /// chmod, chown, utime, xattr, symlink, mknod, truncate, exec, bind, connect.
    pub action: &'static str,
    /// Of what: absolute, as the child sees it.
    pub path: PathBuf,
    /// The same on the host, where it is another path.
    pub host_path: Option<PathBuf>,
    /// The process, by its pid here.
    pub pid: i32,
    /// By its pid inside.
    pub inner_pid: Option<i32>,
    /// Its name (`/proc/PID/comm`).
    pub program: String,
    /// Why.
    pub cause: Cause,
}

/// Why a call was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The rule at this index of the plan.
    Rule(usize),
    /// The git preset, with the reason for people.
    Git(String),
    /// `HEAD`, `objects` or `refs` at the top of a writable root.
    BareRepository,
    /// An 8.3 name: what it stands for cannot be told.
    ShortName,
    /// A form of the call that is not carried out.
    Unsupported,
    /// The mount is read-only; the kernel has refused it.
    ReadOnly,
    /// The read rule at this index of the plan.
    Hidden(usize),
    /// It is there on the host and not inside.
    NotShown,
    /// The host has made it or put it there during the run, in a directory above a hidden file; the kernel has refused it.
    Beside,
    /// A Unix socket of somebody else that no entry opens.
    Socket {
        /// No entry could.
        always: bool,
    },
    /// Programs there are not executed ([`Sink::closes_program`]); the kernel has refused it.
    Program,
}

/// Why there is no supervisor.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The kernel's side of the notifications.
    #[error("cannot receive notifications of the filter: {}", crate::exit::reason(.0))]
    Notifications(#[source] io::Error),
    /// The sandbox's root cannot be used.
    #[error("cannot use the root of the sandbox: {}", crate::exit::reason(.0))]
    Root(#[source] io::Error),
    /// A path of the plan cannot be found, inside or on the host.
    #[error("cannot find `{}` for the broker: {}", path.display(), crate::exit::reason(source))]
    Area {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The lock that all runs of the user share.
    #[error("cannot use `{}`, where runs that work in one tree at once wait for each other: {}", path.display(), crate::exit::reason(source))]
    Lock {
        /// Its directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A worker could not be made, or not be deprived of its rights.
    #[error("cannot start a worker of the broker: {}", crate::exit::reason(.0))]
    Worker(#[source] io::Error),
}

impl Failure for BrokerError {}

/// A supervisor but for the sandbox: rules compiled, threads at hand. Dropped, it leaves nothing.
pub struct Prepared {
    plan: Arc<BrokerPlan>,
    set: RuleSet,
    trees: Vec<TreePaths>,
    above: Vec<Above>,
    lock: Lock,
    directories: Epoch,
    protected_links: bool,
    sink: Arc<dyn Sink>,
    guests: Option<Arc<Guests>>,
    staff: Staff,
    crew: Crew,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

/// Does what needs no sandbox, so that it can be done while one is built.
pub fn prepare(plan: Arc<BrokerPlan>, sink: Arc<dyn Sink>) -> Result<Prepared, BrokerError> {
    prepare_with(plan, sink, Staff::default())
}

fn prepare_with(
    plan: Arc<BrokerPlan>,
    sink: Arc<dyn Sink>,
    staff: Staff,
) -> Result<Prepared, BrokerError> {
    let crew = workers::hire(staff)?;
    let bytes = |path: &PathBuf| path.as_os_str().as_bytes().to_vec();
    let trees = plan.trees.iter().map(|tree| TreePaths {
        guest: bytes(&tree.guest),
        host: bytes(&tree.host),
    });
    let above = plan
        .trees
        .iter()
        .map(|tree| above(&tree.top))
        .collect::<Result<_, _>>()?;
    let (lock, directories) = match &plan.lock_dir {
        None => (Lock::default(), Epoch::default()),
        Some(dir) => {
            Lock::of_all_runs(dir, Patience::USUAL).map_err(|source| BrokerError::Lock {
                path: dir.clone(),
                source,
            })?
        }
    };
    Ok(Prepared {
        lock,
        directories,
        set: plan.rule_set(),
        trees: trees.collect(),
        above,
        protected_links: protected_links(),
        sink,
        guests: None,
        staff,
        crew,
        plan,
    })
}

impl Prepared {
    /// The network is the host's, and every connection is made here, for these.
    #[must_use]
    pub fn with_guests(mut self, guests: Option<Arc<Guests>>) -> Self {
        self.guests = guests;
        self
    }

    /// Starts to answer; until the sandbox ends.
    pub fn open(self, door: Door) -> Result<Supervisor, BrokerError> {
        let sockets = self.plan.sockets.as_ref();
        let sockets = sockets.map(|plan| Sockets::new(plan, door.root.as_fd()));
        let broker = Broker {
            sockets: sockets.transpose()?,
            guests: self.guests,
            areas: Areas::new(&self.plan, door.root.as_fd())?,
            beside: beside(&self.plan, &door.root),
            listener: door.listener,
            root: Fd::new(door.root),
            child: door.child,
            set: self.set,
            reads: self.plan.reads.clone(),
            trees: self.trees,
            lock: self.lock,
            directories: self.directories,
            processes: Processes::default(),
            above: self.above,
            alone: self.plan.alone,
            repositories: Repositories::default(),
            staging: Staging::default(),
            protected_links: self.protected_links,
            routes: OnceLock::new(),
            sink: self.sink,
        };
        workers::start(broker, self.staff, self.crew)
    }
}

/// Only where opens are watched: where names decide, the child opens nothing itself.
fn beside(plan: &BrokerPlan, root: &OwnedFd) -> Option<Beside> {
    let reads = plan.reads.as_ref()?;
    (reads.watched && !reads.decides && !reads.floor.is_empty())
        .then(|| Beside::new(root.as_fd(), &reads.floor))
}

/// The top of a writable root on the host, before any code of the child runs.
fn above(top: &Path) -> Result<Above, BrokerError> {
    let failed = |source| BrokerError::Area {
        path: top.to_owned(),
        source,
    };
    let path = CString::new(top.as_os_str().as_bytes()).map_err(|e| failed(e.into()))?;
    let top_fd = at::open_here(&path, libc::O_PATH).map_err(|errno| failed(errno.into()))?;
    Ok(Above::new(top_fd, components(top).len()))
}

/// `fs.protected_symlinks`; on where it cannot be read.
fn protected_links() -> bool {
    std::fs::read("/proc/sys/fs/protected_symlinks").map_or(true, |text| text.trim_ascii() != b"0")
}

/// What all workers share.
struct Broker {
    listener: OwnedFd,
    root: Fd,
    child: Pid,
    set: RuleSet,
    /// What may not be read by name, where opens for reading trap.
    reads: Option<ReadPlan>,
    /// What the read floor refuses, where that is told.
    beside: Option<Beside>,
    areas: Areas,
    /// No mounts stand behind the floor.
    alone: bool,
    trees: Vec<TreePaths>,
    /// Shared by operations on entries, taken alone by those that move directories or depend on more than one entry.
    lock: Lock,
    /// Changes whenever a directory has been moved or removed.
    directories: Epoch,
    /// What is remembered of the callers.
    processes: Processes,
    /// What lies above each tree, on the host.
    above: Vec<Above>,
    /// Which repositories were made in this run.
    repositories: Repositories,
    /// Git configuration that is being written by hand.
    staging: Staging,
    protected_links: bool,
    /// Of the sandbox's network namespace.
    routes: OnceLock<Routes>,
    /// Where Unix sockets are decided by path.
    sockets: Option<Sockets>,
    /// Where every connection of the run is made here.
    guests: Option<Arc<Guests>>,
    sink: Arc<dyn Sink>,
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker")
            .field("child", &self.child)
            .field("areas", &self.areas)
            .finish_non_exhaustive()
    }
}

impl Broker {
    fn walk<'w>(&'w self, caller: &'w Caller<'w>) -> Walk<'w> {
        Walk::new(caller, &self.root, &self.areas, self.protected_links)
    }
}

/// The two paths of a covered tree.
#[derive(Debug)]
struct TreePaths {
    guest: Vec<u8>,
    host: Vec<u8>,
}

/// Why a call does not go its plain way.
#[derive(Debug)]
enum Stop {
    /// The caller gets this.
    Errno(Errno),
    /// Refused and to be reported; the caller gets EACCES.
    Denied(Box<Denied>),
    /// It must be done again under the exclusive lock.
    Exclusive,
    /// Something changed between two looks: from the start.
    Again,
    /// The path leads through another process.
    Foreign,
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}
