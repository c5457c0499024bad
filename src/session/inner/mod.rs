//! Stage two, inside the sandbox: this binary again, as pid 1, entered through an inherited descriptor.
//!
//! In this order: close what is not ours, verify the grants, give up privileges and attributes, prepare the domain and
//! install the filter, say "ready" and **wait**: no user code runs before ccbox has answered, and the end of the
//! control socket at any time is death. With the broker it is the command's process that waits, so that what that has to do
//! first runs beside what is left to do here. `--die-with-parent` of the engine does not promise that (killed in its first
//! milliseconds it leaves its child running).

mod command;
mod confinement;

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use nix::errno::Errno;

pub(super) use self::command::execute;
use self::confinement::Confinement;
use super::confine;
use super::handover::{self, Facts};
use super::keeper;
use super::wire::{self, Order, Report, SetupFailure, Step};
use crate::backend::InnerPlan;
use crate::exit;
use crate::sys::libc;
use crate::sys::signals::{self, SignalFd, SignalSet};
use crate::sys::{fds, objects, prctl};

/// The hidden first argument that leads here.
pub const ARGUMENT: &str = "__inner";

/// What holds the command's processes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// A process namespace whose pid 1 this is: the kernel kills everything when it ends.
    Namespace,
    /// Only this process, which adopts orphans (engine `none`).
    Tree,
}

/// Entry of `ccbox __inner N`; `arguments` are those behind the word. Returns the exit code, which nobody relies on.
#[must_use]
pub fn main(arguments: &[OsString]) -> u8 {
    let number = arguments
        .first()
        .and_then(|a| a.to_str())
        .and_then(|a| a.parse::<RawFd>().ok());
    let Some((plan, facts)) = number.and_then(|n| handover::read(n).ok()) else {
        return exit::OWN_FAILURE;
    };
    let Ok(control) = fds::adopt(facts.control) else {
        return exit::OWN_FAILURE;
    };
    run(&plan, &facts, &control, Scope::Namespace)
}

/// The whole stage, reporting its failures on the control socket.
pub(super) fn run(plan: &InnerPlan, facts: &Facts, control: &OwnedFd, scope: Scope) -> u8 {
    match stage(plan, facts, control, scope) {
        Ok(()) => 0,
        Err(failure) => {
            // ccbox may be gone; then there is nobody to tell.
            let _ = wire::say(control, &Report::Failed(failure), &[]);
            exit::OWN_FAILURE
        }
    }
}

fn stage(
    plan: &InnerPlan,
    facts: &Facts,
    control: &OwnedFd,
    scope: Scope,
) -> Result<(), SetupFailure> {
    descriptors(plan, facts, control).map_err(|e| Step::Descriptors.failed(&e, ""))?;
    verify_pins(plan)?;
    attributes(scope).map_err(|e| Step::Attributes.failed(&e, ""))?;
    nix::unistd::chdir(plan.cwd.as_path())
        .map_err(|e| Step::WorkingDirectory.failed(&e.into(), plan.cwd.as_path()))?;
    let listeners = listeners(&plan.listen)?;
    let command = command::Command::new(plan, facts)?;
    let domain = if plan.confine {
        Some(confine::domain_prepare(plan)?)
    } else {
        None
    };
    signals::set_mask(SignalSet::catchable()).map_err(|e| Step::Attributes.failed(&e, ""))?;
    let events =
        SignalFd::new(SignalSet::catchable()).map_err(|e| Step::Attributes.failed(&e, ""))?;

    let ready = Report::Ready {
        landlock_abi: domain.as_ref().map_or(0, |d| d.abi),
    };
    let say_ready =
        || wire::say_with(control, &ready, &listeners).map_err(|e| Step::Lifeline.failed(&e, ""));
    let pid = match (door(plan, facts)?, domain.as_ref()) {
        (Some(door), Some(domain)) => {
            let confinement = Confinement::Broker { plan, domain, door };
            let pid = command.start(control, confinement, scope)?;
            // After the fork: a second listener could not be made under this filter.
            confine::filter(plan, domain)?;
            say_ready()?;
            pid
        }
        (_, domain) => {
            if let Some(domain) = domain {
                confine::filter(plan, domain)?;
            }
            let confinement = domain.map_or(Confinement::Nothing, Confinement::Domain);
            say_ready()?;
            match wire::hear::<Order>(control) {
                Ok(Some((Order::Go, _))) => {}
                // ccbox is gone, or says something else before the run has begun.
                Ok(_) | Err(_) => return Ok(()),
            }
            command.start(control, confinement, scope)?
        }
    };
    drop((listeners, domain));
    // A broken control socket counts as the end of ccbox.
    let _ = keeper::keep(control, &events, pid, plan.own_group);
    if scope == Scope::Tree {
        // Nobody is left to tell that it failed; the next best thing is to end.
        let _ = keeper::kill_descendants();
    }
    Ok(())
}

/// The socket on which a floor's listener goes to ccbox, if the plan has a floor.
fn door(plan: &InnerPlan, facts: &Facts) -> Result<Option<OwnedFd>, SetupFailure> {
    let failed = |e| Step::Supervision.failed(&e, "");
    match (&plan.floor, facts.door) {
        (None, None) => Ok(None),
        (Some(_), Some(number)) if plan.confine => fds::adopt(number).map(Some).map_err(failed),
        // A floor nobody would answer for, or somebody who would never be asked.
        _ => Err(failed(Errno::ENOTSUP.into())),
    }
}

/// Closes everything but the sockets to ccbox and what the command keeps, and puts the caller's standard error back.
fn descriptors(plan: &InnerPlan, facts: &Facts, control: &OwnedFd) -> io::Result<()> {
    let mut keep = plan.keep_fds.clone();
    keep.push(control.as_raw_fd());
    keep.extend(facts.door);
    if facts.stderr > 2 {
        let stderr = fds::adopt(facts.stderr)?;
        fds::replace_stderr(&stderr)?;
    }
    fds::close_all_except(&keep)?;
    for socket in std::iter::once(control.as_raw_fd()).chain(facts.door) {
        fds::set_inheritable_number(socket, false)?;
    }
    for &fd in &plan.keep_fds {
        fds::set_inheritable_number(fd, true)?;
    }
    Ok(())
}

/// Each grant must be the very object that was looked at when the plan was made (semantics 20).
fn verify_pins(plan: &InnerPlan) -> Result<(), SetupFailure> {
    for (path, dev, ino) in &plan.pins {
        let object = fds::open_no_links(path).map_err(|e| Step::Pin.failed(&e, path.as_path()))?;
        let seen = nix::sys::stat::fstat(&object)
            .map_err(|e| Step::Pin.failed(&e.into(), path.as_path()))?;
        if objects::key(&seen) != (*dev, *ino) {
            return Err(Step::Pin.failed(&Errno::ESTALE.into(), path.as_path()));
        }
    }
    Ok(())
}

fn attributes(scope: Scope) -> io::Result<()> {
    if scope == Scope::Namespace {
        // Also what keeps the command from tracing pid 1 where the kernel has no Landlock.
        prctl::set_dumpable(false)?;
        prctl::no_new_privileges()?;
    }
    prctl::no_core_files()?;
    match prctl::own_session_keyring() {
        // Containers refuse keyctl(2) as a whole, some kernels do not have it, and a user's quota of rings (200) may be
        // used up by many runs at once; the filter closes the call to the command in any case.
        Err(e)
            if !matches!(
                e.raw_os_error(),
                Some(libc::EPERM | libc::ENOSYS | libc::EDQUOT)
            ) =>
        {
            Err(e)
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// One listener on 127.0.0.1 and, where the kernel has IPv6, one on ::1 for each port.
pub(super) fn listeners(ports: &[u16]) -> Result<Vec<TcpListener>, SetupFailure> {
    let mut all = Vec::with_capacity(ports.len() * 2);
    for &port in ports {
        let v4 = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
        all.push(TcpListener::bind(v4).map_err(|e| Step::Listener.failed(&e, v4.to_string()))?);
        match TcpListener::bind(v6) {
            Ok(listener) => all.push(listener),
            // No IPv6 in this kernel, or switched off by sysctl.
            Err(e)
                if matches!(
                    e.raw_os_error(),
                    Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)
                ) => {}
            Err(e) => return Err(Step::Listener.failed(&e, v6.to_string())),
        }
    }
    Ok(all)
}
