//! A run without namespaces: a guard that outlives whatever else is killed, the keeper below it, and the command.
//!
//! The guard has a process group of its own, so that a signal to the group of ccbox does not reach it: it sees the end of ccbox, kills
//! what is left of the run (orphans become its children) and removes the run's `$TMPDIR`. The keeper and the command stay in the
//! group of the caller, because the terminal's signals are for them. The command can signal neither (Landlock scopes, ABI 6).
//!
//! Only who kills ccbox and guard by their numbers, at once, leaves processes behind; they stay confined.

use std::convert::Infallible;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use nix::unistd::{Pid, getpgrp, getpid, getppid, setpgid};

use super::handover::Facts;
use super::inner::{self, Scope};
use super::launch::Launch;
use super::live::{Live, Orphans};
use super::wire::{SetupFailure, Step};
use super::{SessionError, errors, overlays, prestage};
use crate::backend::InnerPlan;
use crate::exit;
use crate::sys::namespaces::CloneFlags;
use crate::sys::prctl::{self, Left};
use crate::sys::process::{Forked, exit_now, fork_into};
use crate::sys::{fds, title};

/// Starts it; the inner stage will report on the control socket.
pub(super) fn start(
    inner: &InnerPlan,
    tmp: &Path,
    launch: &Launch<'_>,
) -> Result<Live, SessionError> {
    let (door, far_door) = match &inner.floor {
        Some(_) => fds::packet_pair().map(|(near, far)| (Some(near), Some(far))),
        None => Ok((None, None)),
    }
    .map_err(errors::resources)?;
    let (ours, theirs) = fds::packet_pair().map_err(errors::resources)?;
    let (lifeline, watched) = fds::packet_pair().map_err(errors::resources)?;
    let facts = Facts {
        control: theirs.as_raw_fd(),
        door: far_door.as_ref().map(AsRawFd::as_raw_fd),
        stderr: 2,
        mask: launch.mask,
        listen_pid: launch.inherited.listen,
    };
    let orphans = Orphans::adopt().map_err(errors::resources)?;
    match fork_into(CloneFlags::empty()).map_err(errors::resources)? {
        Forked::Parent(child) => Ok(Live {
            child,
            control: Some(ours),
            door,
            lifeline: Some(lifeline),
            orphans: Some(orphans),
            engine_stderr: None,
        }),
        Forked::Child => {
            drop((ours, door, lifeline));
            let guard = Guard {
                inner,
                facts: &facts,
                control: &theirs,
                tmp,
            };
            match guard.begin() {
                Ok(keeper) => {
                    // Whatever fails here, ending is the answer: ccbox sees the end of the control socket.
                    let _ = prestage::outlive(keeper, &watched);
                    let _ = overlays::remove(tmp);
                    exit_now(exit::OWN_FAILURE)
                }
                Err(failure) => prestage::give_up(&theirs, Err::<Infallible, _>(failure)),
            }
        }
    }
}

struct Guard<'a> {
    inner: &'a InnerPlan,
    facts: &'a Facts,
    control: &'a OwnedFd,
    tmp: &'a Path,
}

impl Guard<'_> {
    /// In the guard: what has to be done before the keeper is forked; its pid.
    fn begin(&self) -> Result<i32, SetupFailure> {
        let attributes = |e: io::Error| Step::Attributes.failed(&e, "");
        let group = getpgrp();
        // In the process list there is one command line for the run, which names no path.
        title::replace_arguments("ccbox").map_err(attributes)?;
        setpgid(Pid::from_raw(0), Pid::from_raw(0)).map_err(|e| attributes(e.into()))?;
        prctl::adopt_orphans().map_err(attributes)?;
        prctl::no_new_privileges().map_err(|e| Step::Privileges.failed(&e, ""))?;
        // Only who has CAP_SETPCAP may; without a capability and with no_new_privs none comes back either way.
        let _ = prctl::drop_bounding_set();
        prctl::drop_capabilities(Left::Nothing).map_err(|e| Step::Privileges.failed(&e, ""))?;
        DirBuilder::new()
            .mode(0o700)
            .create(self.tmp)
            .map_err(|e| Step::Temporary.failed(&e, self.tmp))?;
        let guard = getpid();
        match fork_into(CloneFlags::empty()) {
            Ok(Forked::Parent(keeper)) => Ok(keeper.as_raw()),
            Ok(Forked::Child) => {
                let ready = setpgid(Pid::from_raw(0), group)
                    .map_err(|e| attributes(e.into()))
                    .and_then(|()| prestage::tie(|| getppid() == guard));
                if let Err(failure) = ready {
                    prestage::give_up(self.control, Err::<Infallible, _>(failure));
                }
                exit_now(inner::run(
                    self.inner,
                    self.facts,
                    self.control,
                    Scope::Tree,
                ))
            }
            Err(e) => {
                let _ = overlays::remove(self.tmp);
                Err(Step::Fork.failed(&e, ""))
            }
        }
    }
}
