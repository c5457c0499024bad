//! The main job, as a straight line: layers → policy → plan → invocation → session → outcome.

use std::cell::Cell;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::SystemTime;

use super::args::RunArgs;
use super::capture::Capture;
use super::context::{Extra, Prepared, prepare, require_command};
use super::engine::{self, Chosen, Offer};
use super::events::Events;
use super::launch::Launch;
use super::machine::Machine;
use super::usage::UsageError;
use super::{
    Ending, Fault, access, allow, ending, enforced, late, limits, nested, render, seatbelt, shell,
};
use crate::exit;
use crate::host::{HostFacts, RealFs};
use crate::plan::place;
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
    if args.capture && args.events.is_none() {
        return Err(UsageError::new(
            "`--capture` needs somewhere to write events to",
            "--events FILE, or --events fd:N",
        )
        .into());
    }
    require_command(&args.command)?;
    // Ends with this call unless the launch takes it. A dry run changes nothing, not even the list of processes.
    let early = (!args.dry_run && !args.capture && !machine.is_mac())
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
    let limits = &ready.loaded.policy.limits;
    let held = limits::hold(
        limits,
        &chosen,
        &limits::Facts::look(ready.host.uid, limits),
    )?;
    if args.dry_run {
        return super::answer(&render::command_line(&ready, &chosen)?);
    }
    events.settle(&ready.loaded.policy, report)?;
    let access = access::log(&ready, &chosen, events.session_id())?;
    announce(args, &ready, &chosen, report);
    let mut launch = Launch {
        ready: &ready,
        keep_fds: &args.keep_fd,
        session_id: events.session_id(),
        report,
        access,
        limits: &held,
        capture: take_over(args, report)?,
        own_group: args.interactive || shell::is_interactive(&args.command),
        learned: None,
        early: Cell::new(early),
        machine,
    };
    let begun = SystemTime::now();
    let outcome = launch.run(&chosen);
    give_back(launch.capture.take())?;
    let plan = &ready.plan;
    if !matches!(outcome, Ok(Outcome::Exited(0)) | Err(_))
        && let Some(notice) = late::notice(plan, begun)
    {
        report.notice(&notice);
    }
    report.finish();
    allow::record::keep(report, &ready.host, plan, events.session_id());
    let outcome = outcome?;
    if let Outcome::Limited { limit, .. } = outcome
        && let Some((key, value)) = ready
            .loaded
            .policy
            .limits
            .iter()
            .find(|(key, _)| *key == limit.word())
    {
        report.notice(&format!(
            "ended by `limits.{key}` = {} ({})",
            value.value,
            place(&value.origin)
        ));
    }
    ending::of(outcome, &plan.argv, &ready.host, report, Some(plan))
}

/// The streams of the command, where they are to be events.
pub(super) fn take_over(args: &RunArgs, report: &Reporter) -> Result<Option<Capture>, UsageError> {
    let begun = args.capture.then(|| Capture::begin(report)).transpose();
    begun.map_err(|e| UsageError {
        message: format!("cannot capture the command's output: {}", exit::reason(&e)),
        hint: None,
    })
}

/// The caller's streams back in their place.
pub(super) fn give_back(capture: Option<Capture>) -> Result<(), UsageError> {
    capture
        .map_or(Ok(()), Capture::end)
        .map_err(|e| UsageError {
            message: format!("cannot put standard output back: {}", exit::reason(&e)),
            hint: None,
        })
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
