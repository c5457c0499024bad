//! Between fork and engine: the process that becomes bubblewrap.
//!
//! Normally it is pid 1 of a process namespace of its own, besides the user and network namespace (D6): when it or
//! ccbox dies at any moment, the kernel kills whatever bubblewrap has started, also the child that still waits for its
//! id maps and would otherwise wait for ever. It makes its part of the mounts and the listeners of the
//! child's network, drops every privilege and executes the engine with an empty environment (EN-3: nothing of the caller's
//! reaches a helper).
//!
//! Where only bubblewrap itself may make user namespaces, a [`guard`] takes the process namespace's place.

use std::convert::Infallible;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use nix::sched::CloneFlags;
use nix::unistd::{getpid, getppid};

use super::inner;
use super::keeper;
use super::premounts;
use super::wire::{self, Report, SetupFailure, Step};
use crate::backend::{NetSetup, PreMount};
use crate::exit;
use crate::sys::prctl::{self, Left};
use crate::sys::process::{Forked, WaitFor, exec, exit_now, fork_into, wait};
use crate::sys::signals::{SignalFd, SignalSet};
use crate::sys::{fds, namespaces, netlink};

/// All that is needed to become the engine; made before the fork.
#[derive(Debug)]
pub(super) struct PreStage<'a> {
    /// The engine.
    pub(super) program: CString,
    /// Its arguments.
    pub(super) argv: Vec<CString>,
    /// How the network is made.
    pub(super) net: NetSetup,
    /// This process is in namespaces of its own.
    pub(super) namespaced: bool,
    /// Ports to listen on.
    pub(super) listen: &'a [u16],
    /// Mounts to make.
    pub(super) premounts: &'a [PreMount],
    /// Descriptors the engine and the inner stage inherit.
    pub(super) inherit: Vec<RawFd>,
    /// The inner end of the control socket.
    pub(super) control: &'a OwnedFd,
    /// Takes what the engine says on its standard error.
    pub(super) stderr: &'a OwnedFd,
    /// The caller's ids.
    pub(super) ids: (u32, u32),
}

impl PreStage<'_> {
    /// Namespaces to fork into.
    pub(super) fn namespaces(net: NetSetup, premounts: &[PreMount]) -> CloneFlags {
        let mut flags = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID;
        if net == NetSetup::PreStage {
            flags |= CloneFlags::CLONE_NEWNET;
        }
        if !premounts.is_empty() {
            flags |= CloneFlags::CLONE_NEWNS;
        }
        flags
    }

    /// Becomes the engine. `alive` tells whether the parent still is.
    pub(super) fn run(&self, alive: impl FnOnce() -> bool) -> ! {
        let Err(failure) = self.become_engine(alive);
        let _ = wire::say(self.control, &Report::Failed(failure), &[]);
        exit_now(exit::OWN_FAILURE)
    }

    fn become_engine(&self, alive: impl FnOnce() -> bool) -> Result<Infallible, SetupFailure> {
        prctl::die_with_parent().map_err(|e| Step::Lifeline.failed(&e, ""))?;
        // If the parent died before that call, no signal will come.
        if !alive() {
            exit_now(exit::OWN_FAILURE);
        }
        if self.namespaced {
            self.furnish()?;
        }
        for &fd in &self.inherit {
            fds::set_inheritable_number(fd, true).map_err(|e| Step::Descriptors.failed(&e, ""))?;
        }
        fds::replace_stderr(self.stderr).map_err(|e| Step::Descriptors.failed(&e, ""))?;
        let errno = exec(&self.program, &self.argv, &[]);
        let program = std::ffi::OsString::from_vec(self.program.as_bytes().to_vec());
        Err(Step::Engine.failed(&errno.into(), program))
    }

    /// What only the owner of the namespaces can do, and then no owner any more.
    fn furnish(&self) -> Result<(), SetupFailure> {
        let (uid, gid) = self.ids;
        namespaces::map_own_ids(uid, gid).map_err(|e| Step::IdMaps.failed(&e, ""))?;
        // Before ccbox hears anything: a failure may mean another try.
        premounts::make(self.premounts, self.control, self.ids)?;
        if self.net == NetSetup::PreStage {
            netlink::loopback_up().map_err(|e| Step::Loopback.failed(&e, ""))?;
            let listeners = inner::listeners(self.listen)?;
            wire::say_with(self.control, &Report::Listeners, &listeners)
                .map_err(|e| Step::Lifeline.failed(&e, ""))?;
        }
        give_up_privileges(uid).map_err(|e| Step::Privileges.failed(&e, ""))
    }
}

/// Leaves the engine no right over the namespaces of the pre-stage.
pub(super) fn give_up_privileges(uid: u32) -> io::Result<()> {
    // Without no_new_privs execve would give uid 0 everything back (capabilities(7)); anybody else's bubblewrap takes
    // itself for a setuid program if it has a capability, and refuses.
    prctl::no_new_privileges()?;
    // Only who had CAP_SETFCAP may map uid 0 into a namespace further down (Linux 5.12, "require CAP_SETFCAP to map uid
    // 0"). It says nothing about this namespace's own objects: without CAP_SETUID-like company it only writes file
    // capabilities that count in here, where no_new_privs voids them.
    prctl::drop_capabilities(if uid == 0 {
        Left::SetFileCapabilities
    } else {
        Left::Nothing
    })
}

/// Whether the other side of `socket` is still open.
pub(super) fn open(socket: &OwnedFd) -> bool {
    fds::poll([socket.as_fd()], Some(Duration::ZERO)).is_ok_and(|[end]| !end.hung_up)
}

/// Runs the engine below this process, and kills whatever is left of it when it or ccbox ends.
pub(super) fn guard(stage: &PreStage<'_>, lifeline: &OwnedFd) -> ! {
    // Whatever fails here, ending is the answer: ccbox sees the end of the control socket.
    let _ = watch(stage, lifeline);
    exit_now(exit::OWN_FAILURE)
}

fn watch(stage: &PreStage<'_>, lifeline: &OwnedFd) -> io::Result<()> {
    prctl::adopt_orphans()?;
    let guard = getpid();
    let engine = match fork_into(CloneFlags::empty())? {
        Forked::Child => stage.run(|| getppid() == guard),
        Forked::Parent(pid) => pid.as_raw(),
    };
    // Only the engine's copy of the control socket counts, so that its end is seen.
    fds::close_all_except(&[lifeline.as_raw_fd()])?;
    let events = SignalFd::new(std::iter::once(libc::SIGCHLD).collect::<SignalSet>())?;
    loop {
        let [end, signal] = fds::poll([lifeline.as_fd(), events.as_fd()], None)?;
        if end.readable {
            break;
        }
        if signal.readable {
            while events.next()?.is_some() {}
            let mut over = false;
            while let Some((pid, change)) = wait(-1, WaitFor::AnyNow)? {
                use crate::sys::process::Change::{Exited, Signalled};
                over |= pid == engine && matches!(change, Exited(_) | Signalled(_));
            }
            if over {
                break;
            }
        }
    }
    keeper::kill_descendants()
}
