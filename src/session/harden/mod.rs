//! Hardening that every native run gets, whatever its rules are (semantics 24): an errno-only system call filter and a Landlock
//! domain. Separate from the path rules: mounts hold those, this keeps the mounts, the terminal and the outside out of reach.
//!
//! The inner stage calls, in this order:
//!
//! 1. [`rebind_inputs`], [`Domain::prepare`] and [`filter_program`], inside the finished mounts and before it forks the command's
//!    process: they open, allocate and may fail;
//! 2. [`install_filter`], in pid 1 or in the command's process, once no more sockets or mounts are to be made;
//! 3. [`Domain::apply`] in the command's process. Neither allocates, and the filter lets the domain through.
//!
//! pid 1 stays outside the domain (and is non-dumpable), so the command can neither trace nor signal it, nor open its memory.

mod compile;
mod domain;
mod exec_floor;
mod floor;
mod inputs;
mod read_floor;
mod rule;
mod table;
mod view;
crate::sys::linux_tests! { mod tests; }

use std::io;

pub use domain::{Domain, DomainError};
pub use exec_floor::{ExecFloor, ExecFloorError};
pub use floor::FloorError;
pub use inputs::{InputError, rebind_inputs};
pub use read_floor::{ReadFloor, ReadFloorError};
pub use rule::Arch;
pub use view::{View, ViewError};

pub use crate::sys::landlock::abi as landlock_abi;
pub use crate::sys::seccomp::Listener;

use crate::exit::Failure;
use crate::sys::bpf::{Program, TooLong};

/// What differs between the filters of two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterOptions {
    /// The plan allows Unix sockets.
    pub unix_sockets: bool,
    /// The command shares the host's network, abstract sockets included.
    pub open_network: bool,
    /// Landlock ABI in force, 0 where there is none: from 6 on, abstract sockets of others are out of reach.
    pub landlock_abi: i32,
    /// Calls of [`crate::broker::calls`] trap to a supervisor. Such a filter is installed with [`install_broker_filter`].
    pub broker: bool,
    /// With the broker: opens for reading trap as well.
    pub reads: bool,
    /// With the broker: stream sockets of AF_UNIX may be made, and it decides where they are bound and connected.
    pub sockets: bool,
    /// No namespaces and no mounts stand behind the filter.
    pub alone: bool,
    /// No socket of a network is made.
    pub no_network: bool,
    /// With the broker: TCP alone, and nobody but the broker connects, to the proxies of the run.
    pub by_proxies: bool,
}

impl FilterOptions {
    /// With the host's network and nothing that scopes abstract sockets, Unix sockets stay closed (semantics 13).
    fn unix_sockets_allowed(self) -> bool {
        self.unix_sockets && (!self.open_network || self.landlock_abi >= domain::ABI_SCOPES)
    }
}

/// Why there is no filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// No table for this processor.
    #[error("no system call table for this processor")]
    Architecture,
    /// The table has outgrown the kernel's limit.
    #[error(transparent)]
    TooLong(#[from] TooLong),
}

impl Failure for FilterError {}

/// The filter for this executable's architecture. Pure.
pub fn filter_program(options: FilterOptions) -> Result<Program, FilterError> {
    let arch = Arch::native().ok_or(FilterError::Architecture)?;
    filter_program_for(options, arch)
}

/// The filter for a given architecture; the kernel of another one would refuse every call under it.
pub fn filter_program_for(options: FilterOptions, arch: Arch) -> Result<Program, FilterError> {
    Ok(compile::program(options, arch)?)
}

/// Installs the filter on the calling thread and everything it starts, with no_new_privs. Callable between fork and exec.
pub fn install_filter(program: &Program) -> io::Result<()> {
    crate::sys::seccomp::install(program)
}

/// Installs a filter made with [`FilterOptions::broker`], as [`install_filter`] does, and returns where its notifications arrive.
pub fn install_broker_filter(program: &Program) -> io::Result<Listener> {
    crate::sys::seccomp::install_with_listener(program)
}

/// Names of the calls that are refused whatever their arguments are, for `explain`.
pub fn refused_calls() -> impl Iterator<Item = &'static str> {
    table::ROWS
        .iter()
        .filter(|row| matches!(row.rule, rule::Rule::Always(_)))
        .map(|row| row.name)
}
