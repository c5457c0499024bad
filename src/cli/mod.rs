//! argv → one subcommand → exit code.

mod access;
mod allow;
pub mod args;
mod caches;
mod capture;
mod catch;
mod check;
mod child_env;
mod connect;
mod connects;
mod context;
mod diagnose;
mod ending;
mod enforced;
mod engine;
mod events;
mod explain;
#[cfg(test)]
mod fixtures;
mod front;
mod init;
mod kernel;
mod known_hosts;
mod late;
mod launch;
mod learn;
mod limits;
mod machine;
mod nested;
pub mod pages;
mod parse;
mod probe;
mod profile;
mod reads;
mod render;
mod rooms;
mod run;
mod seatbelt;
mod shell;
mod srt;
mod trust;
pub mod usage;
mod writes;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

pub use machine::Machine;

use crate::exit::{self, Failure, OWN_FAILURE};
use crate::host::HostFacts;
use crate::report::{self, Reporter, Verbosity};
use args::Command;
use parse::Call;
use usage::{Understood, UsageError};

/// Any failure at a module boundary.
type Fault = Box<dyn Failure>;

/// How a call ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// With this code.
    Code(u8),
    /// By this signal, as the command did.
    Signal(i32),
}

/// The whole program after start-up: everything but the inner stage and the trials of the probe.
#[must_use]
pub fn main(argv: &[OsString]) -> ExitCode {
    main_on(argv, &Machine::here())
}

/// As typed, also under the name of another tool.
fn understood(argv: &[OsString]) -> Result<Call, Understood> {
    if !srt::is_called(argv) {
        return parse::parse(argv);
    }
    let host = HostFacts::collect().map_err(|e| UsageError {
        message: e.to_string(),
        hint: None,
    })?;
    parse::parse(&srt::translated(argv, &host.home)?)
}

/// As [`main`], on a system that is named.
#[must_use]
pub fn main_on(argv: &[OsString], machine: &Machine) -> ExitCode {
    if let Some(arguments) = shell::shell_arguments(argv) {
        let report = Arc::new(Reporter::stderr(Verbosity::Normal));
        return end(shell::sh(arguments, &report, machine), &report);
    }
    let call = match understood(argv) {
        Ok(call) => call,
        Err(Understood::Answer(text)) => {
            return match report::answer(text.as_bytes()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::from(OWN_FAILURE),
            };
        }
        Err(Understood::Wrong(e)) => {
            let report = Reporter::stderr(Verbosity::Normal);
            events::Events::of_refused(argv, &report);
            report.error(&e);
            return ExitCode::from(e.exit_code());
        }
    };
    let report = Arc::new(Reporter::stderr(verbosity(&call.cli.command)));
    end(dispatch(call, &report, machine), &report)
}

fn end(ending: Result<Ending, Fault>, report: &Reporter) -> ExitCode {
    match ending {
        Ok(Ending::Code(code)) => ExitCode::from(code),
        Ok(Ending::Signal(n)) => rooms::die_by(n),
        Err(e) => {
            report.error(&*e);
            ExitCode::from(e.exit_code())
        }
    }
}

/// One trial of the functional probe, in a process of its own.
#[must_use]
pub fn probe_child(what: Option<&OsString>) -> ExitCode {
    match crate::host::probe::observe::child(what.map(OsString::as_os_str)) {
        Ok(code) => code,
        Err(said) => {
            Reporter::stderr(Verbosity::Normal).bare(&said);
            ExitCode::FAILURE
        }
    }
}

fn verbosity(command: &Command) -> Verbosity {
    let (quiet, verbose) = if let Command::Run(run) = command {
        (run.quiet, run.verbose)
    } else if let Command::Shell(shell) = command {
        (shell.quiet, shell.verbose)
    } else {
        return Verbosity::Normal;
    };
    match (quiet, verbose) {
        (true, _) => Verbosity::Quiet,
        (false, 0) => Verbosity::Normal,
        (false, 1) => Verbosity::Verbose,
        (false, _) => Verbosity::Debug,
    }
}

fn dispatch(call: Call, report: &Arc<Reporter>, machine: &Machine) -> Result<Ending, Fault> {
    let specs = call.specs;
    match call.cli.command {
        Command::Run(a) => run::run(&a, specs, report, machine),
        Command::Shell(a) => shell::shell(&a, specs, report, machine),
        Command::Sh(a) => shell::sh(&a.arguments, report, machine),
        Command::Explain(a) => explain::explain(&a, specs, machine),
        Command::Profile(a) => profile::profile(&a, specs, machine),
        Command::Check(a) => check::check(&a, specs, machine),
        Command::Probe(a) => probe::probe(a, machine),
        Command::Init(a) => init::init(&a),
        Command::Trust(a) => trust::trust(&a),
        Command::Learn(a) => learn::learn(&a, report, machine),
        Command::Allow(a) => allow::allow(&a),
        Command::Caches(a) => caches::caches(a),
        Command::Connect(a) => connect::connect(&a),
        Command::Completions(a) => pages::completions(a.shell),
        Command::Man(a) => pages::man(a.page.as_deref()),
    }
}

/// Prints an answer on stdout and ends with 0.
fn answer(text: &str) -> Result<Ending, Fault> {
    report::answer(text.as_bytes()).map_err(|e| {
        UsageError::new(
            format!("cannot write to standard output: {}", exit::reason(&e)),
            "check the disk and the reader",
        )
    })?;
    Ok(Ending::Code(0))
}
