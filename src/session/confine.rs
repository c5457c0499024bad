//! The seam to `session::harden`: system call filter for pid 1 and what it starts, Landlock domain for the command.

use std::io;

use super::harden::{self, FilterOptions};
use crate::backend::InnerPlan;

/// A Landlock domain, built but not entered.
#[derive(Debug)]
pub(super) struct Domain {
    /// Its ABI, 0 where the kernel has none.
    pub(super) abi: i32,
    built: harden::Domain,
}

/// Opens what the domain of the command needs, inside the finished mounts.
pub(super) fn domain_prepare(plan: &InnerPlan) -> io::Result<Domain> {
    harden::rebind_inputs(&plan.writable, &plan.moved, &plan.keep_fds).map_err(io::Error::other)?;
    let built =
        harden::Domain::prepare(&plan.writable, &plan.keep_fds).map_err(io::Error::other)?;
    Ok(Domain {
        abi: built.abi(),
        built,
    })
}

/// Installs the hardening filter on this process and what it starts.
pub(super) fn filter(plan: &InnerPlan, domain: &Domain) -> io::Result<()> {
    let program = harden::filter_program(FilterOptions {
        unix_sockets: plan.unix_sockets,
        open_network: plan.open_network,
        landlock_abi: domain.abi,
        broker: false,
    })
    .map_err(io::Error::other)?;
    harden::install_filter(&program)
}

/// Enters the domain, for this process and what it starts.
pub(super) fn domain_apply(domain: &Domain) -> io::Result<()> {
    domain.built.apply().map_err(io::Error::other)
}
