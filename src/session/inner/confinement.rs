//! What the command's process puts on itself before it becomes the command.
//!
//! With the broker, in this order: enter the domain, see that its floor holds, install the filter that traps, hand the listener to
//! ccbox, wait until somebody answers. Pid 1 stays outside of both: whoever it waits for could otherwise never be answered.

use std::os::fd::OwnedFd;
use std::path::Path;

use crate::backend::InnerPlan;
use crate::session::confine::{self, Domain};
use crate::session::wire::{self, Handover, Permit, SetupFailure, Step};
use crate::sys::fds;

/// The confinement of one command.
#[derive(Debug)]
pub(super) enum Confinement<'a> {
    /// Engine `none`.
    Nothing,
    /// The Landlock domain; the filter is there already.
    Domain(&'a Domain),
    /// Domain with a floor, and the filter that traps.
    Broker {
        plan: &'a InnerPlan,
        domain: &'a Domain,
        /// To ccbox.
        door: OwnedFd,
    },
}

impl Confinement<'_> {
    /// For this process and what it starts; comes back once the command may run. `false`: ccbox is gone.
    pub(super) fn enter(self) -> Result<bool, SetupFailure> {
        match self {
            Self::Nothing => Ok(true),
            Self::Domain(domain) => confine::domain_apply(domain).map(|()| true),
            Self::Broker { plan, domain, door } => {
                confine::domain_apply(domain)?;
                let root = fds::open_no_links(Path::new("/"))
                    .map_err(|e| Step::Supervision.failed(&e, "/"))?;
                let listener = confine::trapping_filter(plan, domain)?;
                let word = Handover {
                    killable: listener.killable,
                };
                // A peer that is gone is noticed below.
                let _ = wire::say_with(&door, &word, &[listener.fd, root]);
                // The descriptors are closed: only ccbox can answer from here on, and its end is seen.
                Ok(matches!(
                    wire::hear::<Permit>(&door),
                    Ok(Some((Permit::Execute, _)))
                ))
            }
        }
    }
}
