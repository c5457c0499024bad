//! Between fork and engine: the process that becomes bubblewrap, or the sandbox' pid 1 itself.
//!
//! Normally it is pid 1 of a process namespace of its own, besides the user and network namespace (D6): when it or
//! ccbox dies at any moment, the kernel kills whatever bubblewrap has started, also the child that still waits for its
//! id maps and would otherwise wait for ever. It makes its part of the mounts and the listeners of the
//! child's network, drops every privilege and executes the engine with an empty environment (EN-3: nothing of the caller's
//! reaches a helper).
//!
//! Where only bubblewrap itself may make user namespaces, a [`guard`] takes the process namespace's place.

use std::borrow::Cow;
use std::convert::Infallible;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use nix::errno::Errno;
use nix::unistd::{getpid, getppid};
use serde::{Deserialize, Serialize};

use super::caught::{self, CatchSetup};
use super::handover;
use super::inner::{self, Scope};
use super::keeper;
use super::premounts;
use super::wire::{self, Report, SetupFailure, Step};
use crate::backend::{NetSetup, PreMount};
use crate::exit;
use crate::sys::libc;
use crate::sys::namespaces::CloneFlags;
use crate::sys::prctl::{self, Left};
use crate::sys::process::{Forked, WaitFor, exec, exit_now, fork_into, wait};
use crate::sys::signals::{SignalFd, SignalSet};
use crate::sys::{fds, namespaces, netlink, title};

/// All that is needed to become the engine; made before the fork.
#[derive(Debug)]
pub(super) struct PreStage<'a> {
    /// What it becomes.
    pub(super) becomes: Becomes,
    /// How the network is made.
    pub(super) net: NetSetup,
    /// This process is in namespaces of its own.
    pub(super) namespaced: bool,
    /// Ports to listen on.
    pub(super) listen: Cow<'a, [u16]>,
    /// What to catch of connections without a proxy.
    pub(super) catch: Option<Cow<'a, CatchSetup>>,
    /// Mounts to make.
    pub(super) premounts: Cow<'a, [PreMount]>,
    /// Descriptors the engine and the inner stage inherit.
    pub(super) inherit: Vec<RawFd>,
    /// The caller's ids.
    pub(super) ids: (u32, u32),
}

/// What the pre-stage becomes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Becomes {
    /// Another program.
    Engine {
        /// The engine.
        program: CString,
        /// Its arguments.
        argv: Vec<CString>,
        /// Takes what it says on its standard error.
        stderr: RawFd,
    },
    /// pid 1 of the sandbox: it enters the file system it has built and goes on as the inner stage.
    Init {
        /// The inner stage's plan.
        plan: RawFd,
    },
}

impl PreStage<'_> {
    /// Namespaces to fork into.
    pub(super) fn namespaces(net: NetSetup) -> CloneFlags {
        let mut flags =
            CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS;
        if net == NetSetup::PreStage {
            flags |= CloneFlags::CLONE_NEWNET;
        }
        flags
    }

    /// Becomes the engine, from the fork on. `alive` tells whether the parent still is.
    pub(super) fn run(&self, control: &OwnedFd, alive: impl FnOnce() -> bool) -> ! {
        let start = || {
            tie(alive)?;
            if self.namespaced {
                settle(self.net, self.ids, CloneFlags::empty())?;
            }
            self.become_engine(control)
        };
        give_up(control, start())
    }

    /// Becomes the engine, in a process that is tied and settled.
    pub(super) fn become_engine(&self, control: &OwnedFd) -> Result<Infallible, SetupFailure> {
        let (program, argv, stderr) = match &self.becomes {
            Becomes::Engine {
                program,
                argv,
                stderr,
            } => (program, argv, *stderr),
            Becomes::Init { plan } => return self.become_init(control, *plan),
        };
        if self.namespaced {
            premounts::make(&self.premounts, control, self.ids)?;
            show_own_processes();
            self.open_doors(control)?;
            give_up_privileges(self.ids.0).map_err(|e| Step::Privileges.failed(&e, ""))?;
        }
        for &fd in &self.inherit {
            fds::set_inheritable_number(fd, true).map_err(|e| Step::Descriptors.failed(&e, ""))?;
        }
        fds::replace_stderr_by(stderr).map_err(|e| Step::Descriptors.failed(&e, ""))?;
        let errno = exec(program, argv, &[]);
        let program = std::ffi::OsString::from_vec(program.as_bytes().to_vec());
        Err(Step::Engine.failed(&errno.into(), program))
    }

    /// Goes on as the inner stage, without executing anything. What bubblewrap would keep a command from doing by means of a second
    /// user namespace, the lack of every capability does here: the bounding set is empty and no_new_privs is set, so none ever comes
    /// back; without one no mount changes, and no user namespace can be made below this one.
    fn become_init(&self, control: &OwnedFd, plan: RawFd) -> Result<Infallible, SetupFailure> {
        // bubblewrap would be executed with a command line that says nothing.
        title::replace_arguments("ccbox").map_err(|e| Step::Attributes.failed(&e, ""))?;
        let root = premounts::make(&self.premounts, control, self.ids)?;
        let root = root.ok_or_else(|| Step::Root.failed(&Errno::ENOENT.into(), ""))?;
        let enter =
            |kinds| namespaces::enter(kinds).map_err(|e| Step::PrivateMounts.failed(&e, ""));
        enter(CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS)?;
        // Kernels without control groups have no such namespace.
        let _ = namespaces::enter(CloneFlags::CLONE_NEWCGROUP);
        // The filter refuses them as well; some kernels do not have the setting.
        let _ = namespaces::forbid_user_namespaces();
        namespaces::change_root(root).map_err(|e| Step::Root.failed(&e, ""))?;
        // From here on no other attempt is made.
        self.open_doors(control)?;
        prctl::no_new_privileges()
            .and_then(|()| prctl::drop_bounding_set())
            .and_then(|()| prctl::drop_capabilities(Left::Nothing))
            .map_err(|e| Step::Privileges.failed(&e, ""))?;
        let (plan, facts) =
            handover::read(plan).map_err(|e| Step::Descriptors.failed(&e, "plan"))?;
        exit_now(inner::run(&plan, &facts, control, Scope::Namespace))
    }

    /// The listeners of the child's network.
    fn open_doors(&self, control: &OwnedFd) -> Result<(), SetupFailure> {
        if self.net != NetSetup::PreStage {
            return Ok(());
        }
        if let Some(setup) = &self.catch {
            caught::open(setup, control)?;
        }
        let listeners = inner::listeners(&self.listen)?;
        wire::say_with(control, &Report::Listeners, &listeners)
            .map_err(|e| Step::Lifeline.failed(&e, ""))
    }
}

/// The end of a process that could not become the engine.
pub(super) fn give_up(control: &OwnedFd, outcome: Result<Infallible, SetupFailure>) -> ! {
    let Err(failure) = outcome;
    let _ = wire::say(control, &Report::Failed(failure), &[]);
    exit_now(exit::OWN_FAILURE)
}

/// Dies with the parent from here on.
pub(super) fn tie(alive: impl FnOnce() -> bool) -> Result<(), SetupFailure> {
    prctl::die_with_parent().map_err(|e| Step::Lifeline.failed(&e, ""))?;
    // If the parent died before that call, no signal will come.
    if !alive() {
        exit_now(exit::OWN_FAILURE);
    }
    Ok(())
}

/// In new namespaces: what does not depend on the plan. `ids` are the caller's, `missing` are namespaces still to be made.
pub(super) fn settle(
    net: NetSetup,
    (uid, gid): (u32, u32),
    missing: CloneFlags,
) -> Result<(), SetupFailure> {
    namespaces::map_own_ids(uid, gid).map_err(|e| Step::IdMaps.failed(&e, ""))?;
    if !missing.is_empty() {
        namespaces::enter(missing).map_err(|e| Step::PrivateMounts.failed(&e, ""))?;
    }
    if net == NetSetup::PreStage {
        netlink::loopback_up().map_err(|e| Step::Loopback.failed(&e, ""))?;
    }
    Ok(())
}

/// bubblewrap looks its child up in /proc, by the number that the child has in this process namespace: in the /proc of the host that is
/// somebody else or nobody, and then it gives up ("open /proc/2/ns/ns failed"). Where no fresh one may be mounted its own `--proc` will
/// fail as well, and say so.
fn show_own_processes() {
    let _ = namespaces::make_mounts_private().and_then(|()| namespaces::mount_proc());
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
pub(super) fn guard(stage: &PreStage<'_>, control: &OwnedFd, lifeline: &OwnedFd) -> ! {
    // Whatever fails here, ending is the answer: ccbox sees the end of the control socket.
    let _ = watch(stage, control, lifeline);
    exit_now(exit::OWN_FAILURE)
}

fn watch(stage: &PreStage<'_>, control: &OwnedFd, lifeline: &OwnedFd) -> io::Result<()> {
    prctl::adopt_orphans()?;
    let guard = getpid();
    let engine = match fork_into(CloneFlags::empty())? {
        Forked::Child => stage.run(control, || getppid() == guard),
        Forked::Parent(pid) => pid.as_raw(),
    };
    outlive(engine, lifeline)
}

/// In the process that adopts orphans: waits for the end of `child`, or of ccbox at the other end of `lifeline`, and leaves nobody.
pub(super) fn outlive(child: i32, lifeline: &OwnedFd) -> io::Result<()> {
    // Only the child's copy of the control socket counts, so that its end is seen.
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
                over |= pid == child && matches!(change, Exited(_) | Signalled(_));
            }
            if over {
                break;
            }
        }
    }
    keeper::kill_descendants()
}
