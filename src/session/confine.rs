//! The seam to `session::harden`: system call filters for pid 1 and for what it starts, Landlock domain for the command.

use std::io;

use super::harden::{self, DomainError, FilterOptions, Listener};
use super::wire::{SetupFailure, Step};
use crate::backend::{InnerPlan, Reach};
use crate::sys::bpf::Program;
use crate::sys::landlock::Ruleset;

/// A Landlock domain, built but not entered.
#[derive(Debug)]
pub(super) struct Domain {
    /// Its ABI, 0 where the kernel has none.
    pub(super) abi: i32,
    built: harden::Domain,
    /// Where the plan asks for it.
    programs: Option<harden::ExecFloor>,
    /// Stood on after the domain.
    reads: Option<harden::ReadFloor>,
    /// Where no mounts show and hide.
    view: Option<harden::View>,
    /// Where every connection is somebody else's to make: a domain without TCP.
    network: Option<Ruleset>,
}

/// Opens what the domain of the command needs, inside the finished mounts.
pub(super) fn domain_prepare(plan: &InnerPlan) -> Result<Domain, SetupFailure> {
    harden::rebind_inputs(&plan.writable, &plan.moved, &plan.keep_fds)
        .map_err(|e| failed(Step::Domain, &e))?;
    let built = match &plan.floor {
        Some(floor) if plan.alone.is_some() => harden::Domain::prepare_alone(floor, &plan.keep_fds),
        None => harden::Domain::prepare(&plan.writable, &plan.keep_fds),
        Some(floor) => harden::Domain::prepare_floor(floor, plan.unix_sockets, &plan.keep_fds),
    }
    .map_err(|e| match e {
        DomainError::Floor(e) => failed(Step::Floor, &e),
        DomainError::Create(_) | DomainError::Grant { .. } | DomainError::Descriptor { .. } => {
            failed(Step::Domain, &e)
        }
    })?;
    let programs = plan.programs.as_ref().map(harden::ExecFloor::prepare);
    let wanted = !plan.read_floor.closed.is_empty() && built.abi() > 0;
    let reads = wanted
        .then(|| {
            let granted = plan.pins.iter().map(|(guest, ..)| guest.clone());
            let known: Vec<_> = granted.chain(plan.writable.iter().cloned()).collect();
            harden::ReadFloor::prepare(&plan.read_floor, &known, &plan.keep_fds)
        })
        .transpose()
        .map_err(|e| failed(Step::Domain, &e))?;
    let list = plan.alone.as_ref().and_then(|alone| alone.view.as_ref());
    let view = list
        .map(|list| harden::View::prepare(list, &plan.keep_fds))
        .transpose()
        .map_err(|e| failed(Step::Domain, &e))?;
    let by_proxies = plan
        .alone
        .as_ref()
        .is_some_and(|a| a.network == Reach::Proxies);
    let network = by_proxies.then(Ruleset::without_tcp).transpose();
    let network = network.map_err(|e| Step::Domain.failed(&e, "no TCP"))?;
    Ok(Domain {
        view,
        network,
        abi: built.abi(),
        built,
        programs: programs.transpose().map_err(|e| failed(Step::Domain, &e))?,
        reads,
    })
}

/// Installs the hardening filter on this process and what it starts.
pub(super) fn filter(plan: &InnerPlan, domain: &Domain) -> Result<(), SetupFailure> {
    program(plan, domain, false)
        .and_then(|program| harden::install_filter(&program))
        .map_err(|e| failed(Step::Filter, &e))
}

/// Installs the hardening filter that also traps to the broker.
pub(super) fn trapping_filter(plan: &InnerPlan, domain: &Domain) -> Result<Listener, SetupFailure> {
    let program = program(plan, domain, true).map_err(|e| failed(Step::Filter, &e))?;
    harden::install_broker_filter(&program).map_err(|e| Step::Supervision.failed(&e, ""))
}

fn program(plan: &InnerPlan, domain: &Domain, broker: bool) -> io::Result<Program> {
    let reach = plan.alone.as_ref().map(|alone| alone.network);
    harden::filter_program(FilterOptions {
        unix_sockets: plan.unix_sockets,
        open_network: plan.open_network,
        landlock_abi: domain.abi,
        broker,
        reads: plan.trap_reads,
        sockets: plan.trap_sockets,
        alone: plan.alone.is_some(),
        no_network: reach == Some(Reach::Nothing),
        by_proxies: reach == Some(Reach::Proxies),
    })
    .map_err(io::Error::other)
}

/// Enters the domain, for this process and what it starts, and sees that its floor holds.
pub(super) fn domain_apply(domain: &Domain) -> Result<(), SetupFailure> {
    domain.built.apply().map_err(|e| failed(Step::Domain, &e))?;
    domain.built.prove().map_err(|e| failed(Step::Floor, &e))?;
    if let Some(programs) = &domain.programs {
        programs.apply().map_err(|e| failed(Step::Domain, &e))?;
    }
    if let Some(network) = &domain.network {
        network
            .restrict_self()
            .map_err(|e| Step::Domain.failed(&e, "no TCP"))?;
    }
    if let Some(view) = &domain.view {
        view.apply().map_err(|e| failed(Step::Domain, &e))?;
    }
    match &domain.reads {
        Some(floor) => floor.apply().map_err(|e| failed(Step::Domain, &e)),
        None => Ok(()),
    }
}

/// The words of the error are the object: they name it.
fn failed(step: Step, error: &dyn std::error::Error) -> SetupFailure {
    step.failed(&io::Error::other(""), error.to_string())
}
