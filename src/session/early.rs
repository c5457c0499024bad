//! The pre-stage before there is a plan.
//!
//! Making a network namespace takes the kernel half a millisecond, and what is to run in it takes ccbox as long to find out. So the
//! process that will be the pre-stage is forked first and settles while ccbox reads and plans; it gets its orders in one packet, with the
//! descriptors they name, which take the numbers they have in ccbox. If it turns out that there is nothing to run, it is killed, and
//! nothing has happened.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use nix::unistd::{Pid, getgid, getuid};
use serde::{Deserialize, Serialize};

use super::caught::CatchSetup;
use super::prestage::{self, Becomes, PreStage};
use super::wire::{SetupFailure, Step};
use crate::backend::{NetSetup, PreMount};
use crate::exit;
use crate::sys::cpu;
use crate::sys::fds;
use crate::sys::libc;
use crate::sys::namespaces::CloneFlags;
use crate::sys::process::{Forked, WaitFor, exit_now, fork_into, wait};
use crate::sys::signals::{self, SignalSet};

/// A process in new user, process, mount and network namespaces that waits for its orders. Dropping ends it.
#[derive(Debug)]
pub struct Early {
    pid: Pid,
    /// ccbox's end of the control socket and the other one; none once the process belongs to a run.
    control: Option<(OwnedFd, OwnedFd)>,
}

#[derive(Serialize, Deserialize)]
struct Orders<'a> {
    becomes: Cow<'a, Becomes>,
    listen: Cow<'a, [u16]>,
    catch: Option<Cow<'a, CatchSetup>>,
    premounts: Cow<'a, [PreMount]>,
    inherit: Vec<RawFd>,
    /// Numbers of the descriptors in the packet, from the second on.
    numbers: Vec<RawFd>,
}

impl Early {
    /// Forks it. Without the right to such namespaces there is none: the run finds out, and says why.
    ///
    /// Must be called from the main thread before any other thread exists.
    #[must_use]
    pub fn start() -> Option<Self> {
        let (ours, theirs) = fds::packet_pair().ok()?;
        let ids = (getuid().as_raw(), getgid().as_raw());
        // clone(2) makes namespaces before it returns, so the slow ones are left to the child.
        let quick = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID;
        match fork_into(quick).ok()? {
            Forked::Parent(pid) => {
                // A new process waits for the processor it was made on, and here that would be until all is planned.
                let _ = cpu::send_elsewhere(pid);
                Some(Self {
                    pid,
                    control: Some((ours, theirs)),
                })
            }
            Forked::Child => {
                drop(ours);
                prestage::give_up(&theirs, wait_for_orders(&theirs, ids))
            }
        }
    }

    /// Number of the inner end of the control socket, in both processes.
    pub(super) fn control_number(&self) -> Option<RawFd> {
        self.control.as_ref().map(|(_, theirs)| theirs.as_raw_fd())
    }

    /// Tells it what to become. From here on it reports on the control socket, which is returned with its pid.
    pub(super) fn order(
        mut self,
        stage: &PreStage<'_>,
        passed: &[RawFd],
    ) -> io::Result<(Pid, OwnedFd)> {
        let orders = Orders {
            becomes: Cow::Borrowed(&stage.becomes),
            listen: Cow::Borrowed(&stage.listen),
            catch: stage.catch.as_deref().map(Cow::Borrowed),
            premounts: Cow::Borrowed(&stage.premounts),
            inherit: stage.inherit.clone(),
            numbers: passed.to_vec(),
        };
        let orders = postcard::to_stdvec(&orders).map_err(io::Error::other)?;
        let orders = fds::memory_file(c"orders", &orders)?;
        let mut all = vec![orders.as_raw_fd()];
        all.extend(passed);
        let Some((ours, theirs)) = self.control.take() else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        drop(theirs);
        // If it is gone it has said why, which is heard in its turn.
        let _ = fds::send(&ours, &[0], &all);
        Ok((self.pid, ours))
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        if self.control.take().is_some() {
            let _ = signals::send(self.pid.as_raw(), libc::SIGKILL);
            let _ = wait(self.pid.as_raw(), WaitFor::End);
        }
    }
}

/// The signal setting that ccbox gives itself before it forks for a run; this process was forked before that. The engine waits for its
/// child, which it could not with SIGCHLD ignored.
fn signal_setting() -> io::Result<()> {
    signals::set_mask(SignalSet::catchable())?;
    signals::set_ignored(libc::SIGXFSZ)?;
    signals::set_default(libc::SIGCHLD)
}

/// In the child.
fn wait_for_orders(control: &OwnedFd, ids: (u32, u32)) -> Result<Infallible, SetupFailure> {
    let net = NetSetup::PreStage;
    prestage::tie(|| prestage::open(control))?;
    let lifeline = |e: io::Error| Step::Lifeline.failed(&e, "");
    signal_setting().map_err(lifeline)?;
    let descriptors = |e: io::Error| Step::Descriptors.failed(&e, "");
    fds::close_on_exec_from(3).map_err(descriptors)?;
    prestage::settle(net, ids, CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)?;
    let received = fds::receive(control, &mut [0]).map_err(lifeline)?;
    let Some((_, mut passed)) = received.filter(|(_, passed)| !passed.is_empty()) else {
        // There is no run.
        exit_now(exit::OWN_FAILURE)
    };
    let mut bytes = Vec::new();
    File::from(passed.remove(0))
        .read_to_end(&mut bytes)
        .map_err(descriptors)?;
    let orders: Orders = postcard::from_bytes(&bytes)
        .map_err(io::Error::other)
        .map_err(descriptors)?;
    fds::renumber(passed, &orders.numbers).map_err(descriptors)?;
    let stage = PreStage {
        becomes: orders.becomes.into_owned(),
        net,
        namespaced: true,
        listen: orders.listen,
        catch: orders.catch,
        premounts: orders.premounts,
        inherit: orders.inherit,
        ids,
    };
    stage.become_engine(control)
}
