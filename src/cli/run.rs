//! The main job, as a straight line: layers → policy → plan → invocation → session → outcome.

use std::cell::Cell;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::SystemTime;

use super::args::RunArgs;
use super::context::{Extra, Prepared, prepare, require_command};
use super::engine::{self, Chosen, Offer};
use super::events::Events;
use super::launch::Launch;
use super::machine::Machine;
use super::usage::UsageError;
use super::{Ending, Fault, access, allow, ending, enforced, late, nested, render, seatbelt};
use crate::host::{HostFacts, RealFs};
use crate::report::Reporter;
use crate::report::event::{Event, State};
use crate::session::{Early, Outcome};
use crate::spec::SpecSource;

/// Wraps one command.
pub(super) fn run(
    args: &RunArgs,
    specs: Vec<SpecSource>,
    report: &Arc<Reporter>,
    machine: &Machine,
) -> Result<Ending, Fault> {
    let mut events = Events::begin(args, report)?;
    let end = wrap(args, specs, &mut events, report, machine);
    if end.is_err() {
        events.tell_failure(report);
    }
    end
}

fn wrap(
    args: &RunArgs,
    specs: Vec<SpecSource>,
    events: &mut Events,
    report: &Arc<Reporter>,
    machine: &Machine,
) -> Result<Ending, Fault> {
    refuse_later(args)?;
    require_command(&args.command)?;
    // Ends with this call unless the launch takes it. A dry run changes nothing, not even the list of processes.
    let early = (!args.dry_run && !machine.is_mac())
        .then(Early::start)
        .flatten();
    let host = HostFacts::collect()?;
    if host.nested || machine.is_mac() && seatbelt::is_nested(&host, &machine.tools) {
        if args.trace {
            return Err(trace_of_nothing().into());
        }
        drop(early);
        return nested::run(args, &specs, &host, events, report, machine);
    }
    let extra = Extra {
        own: events.file(),
        trace: args.trace,
        by_path: machine.is_mac(),
    };
    let ready = prepare(host, &args.policy, specs, &args.command, extra, machine)?;
    let chosen = engine::choose(&ready.loaded.policy, &Offer::of(&RealFs, machine))?;
    engine::holds(&ready.plan, &ready.loaded.policy, &chosen)?;
    if args.trace && matches!(chosen, Chosen::None(_)) {
        return Err(trace_of_nothing().into());
    }
    if args.dry_run {
        return super::answer(&render::command_line(&ready, &chosen)?);
    }
    events.settle(&ready.loaded.policy, report)?;
    let access = access::log(&ready, &chosen, events.session_id())?;
    announce(args, &ready, &chosen, report);
    let launch = Launch {
        ready: &ready,
        keep_fds: &args.keep_fd,
        session_id: events.session_id(),
        report,
        access,
        own_group: args.interactive,
        learned: None,
        early: Cell::new(early),
        machine,
    };
    let begun = SystemTime::now();
    let outcome = launch.run(&chosen);
    let plan = &ready.plan;
    if !matches!(outcome, Ok(Outcome::Exited(0)) | Err(_))
        && let Some(notice) = late::notice(plan, begun)
    {
        report.notice(&notice);
    }
    report.finish();
    allow::record::keep(report, &ready.host, plan, events.session_id());
    ending::of(outcome?, &plan.argv, &ready.host, report, Some(plan))
}

/// Options of the contract that later work brings (R14: refused, never ignored).
fn refuse_later(args: &RunArgs) -> Result<(), UsageError> {
    if args.capture {
        return Err(UsageError::not_yet("`--capture`"));
    }
    Ok(())
}

/// R14: never ignored.
fn trace_of_nothing() -> UsageError {
    UsageError::new(
        "`--trace` watches what a sandbox refuses, and this call makes none",
        "leave it out",
    )
}

/// A command that cannot be seen inside ends with 127 and its one line, which says the same (semantics 30).
fn about_the_command(notice: &str, args: &RunArgs) -> bool {
    args.command.first().is_some_and(|name| {
        notice.starts_with(&format!("`{}` is not visible inside", name.display()))
    })
}

/// What the user is told before anything runs.
fn announce(args: &RunArgs, ready: &Prepared, chosen: &Chosen, report: &Reporter) {
    let policy = &ready.loaded.policy;
    for notice in policy.notices.iter().chain(&ready.plan.notices) {
        if !about_the_command(notice, args) {
            report.notice(notice);
        }
    }
    for notice in &policy.loud_notices {
        report.loud_notice(notice);
    }
    if let Chosen::None(line) = chosen {
        report.status(line);
    }
    if !ready.plan.env_dropped.is_empty() {
        report.verbose(&enforced::dropped(&ready.plan.env_dropped));
    }
    report.event(&Event::Starting {
        state: State::Created,
        command: lossy(&args.command),
        workspace_id: policy.workspace_id.clone(),
        agent_id: policy.agent_id.clone(),
    });
}

/// The command as events show it.
pub(super) fn lossy(argv: &[OsString]) -> Vec<String> {
    argv.iter()
        .map(|a| a.to_string_lossy().into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_later_work_are_refused() {
        let capture = RunArgs {
            capture: true,
            ..RunArgs::default()
        };
        let e = refuse_later(&capture).unwrap_err();
        assert!(e.to_string().ends_with("is not supported yet"));
        assert!(refuse_later(&RunArgs::default()).is_ok());
    }
}
