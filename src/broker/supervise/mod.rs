//! The supervisor: answers, from outside of the sandbox, the calls that the filter sends (D4, linux-engine.md §6).
//!
//! The filter is transport only. The command runs in a Landlock domain without any right to write, create, remove or
//! re-parent in the covered trees, so a call that is answered with "continue" can do no more than that domain lets it;
//! whatever it may do is done here, on descriptors, by a process with the same user and without capabilities.

mod standin;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use nix::unistd::Pid;

use super::plan::BrokerPlan;
use crate::exit::Failure;

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
}

/// One refused call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// What was asked: create, write, rename, link, unlink, mkdir, chmod, symlink, mknod, truncate.
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
}

/// Why there is no supervisor.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The workers could not be started.
    #[error("cannot start the supervisor: {0}")]
    Start(#[source] std::io::Error),
}

impl Failure for BrokerError {}

/// The running supervisor. Dropping it joins nothing that could block.
#[derive(Debug)]
pub struct Supervisor {
    failed: OwnedFd,
    /// The other end, so that only a failure is ever seen.
    _alarm: OwnedFd,
}

impl Supervisor {
    /// Readable, or hung up, once it has failed: what traps from then on is not answered. Its end with the sandbox is no failure.
    #[must_use]
    pub fn failed(&self) -> BorrowedFd<'_> {
        self.failed.as_fd()
    }
}

/// Starts the workers; they end when the sandbox does.
pub fn start(
    plan: &BrokerPlan,
    door: Door,
    sink: Arc<dyn Sink>,
) -> Result<Supervisor, BrokerError> {
    let _ = (plan, sink);
    standin::start(door)
}
