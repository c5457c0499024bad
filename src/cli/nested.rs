//! A call inside a ccbox sandbox: nothing is sandboxed twice (semantics 46).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use super::args::{PolicyArgs, RunArgs};
use super::ending::{self, NotStarted};
use super::events::Events;
use super::launch::tell_stop;
use super::machine::Machine;
use super::run::lossy;
use super::seatbelt::Bare;
use super::usage::UsageError;
use super::{Ending, Fault};
use crate::backend::{NetSetup, none};
use crate::host::HostFacts;
use crate::report::Reporter;
use crate::report::event::{Event, Handle, State};
use crate::session::{self, Enforced, SessionConfig};
use crate::spec::SpecSource;

/// Becomes the command, under the outer sandbox. Where events are asked for it stays beside it, to tell its end.
pub(super) fn run(
    args: &RunArgs,
    specs: &[SpecSource],
    host: &HostFacts,
    events: &mut Events,
    report: &Arc<Reporter>,
    machine: &Machine,
) -> Result<Ending, Fault> {
    let env_spec = host.var("CCBOX_SPEC").is_some_and(|v| !v.is_empty());
    if let Some(what) = asks_for_more(&args.policy, specs, env_spec) {
        return Err(UsageError::new(
            format!("already inside a ccbox sandbox, and {what} cannot be applied on top of it"),
            "start this call outside, or leave the rules to the outer sandbox",
        )
        .into());
    }
    if args.dry_run {
        return Err(UsageError::new(
            "already inside a ccbox sandbox: nothing is wrapped here",
            "ask outside",
        )
        .into());
    }
    report.verbose("inside a ccbox sandbox: running the command under the outer one");
    let Some((name, rest)) = args.command.split_first() else {
        return Ok(Ending::Code(0));
    };
    let mut set: Vec<(OsString, OsString)> = Vec::new();
    for pair in &args.policy.env_set {
        let (k, v) = split_env(pair)?;
        set.push((k.to_owned(), v.to_owned()));
    }
    let mut cwd = host.cwd.clone();
    if let Some(dir) = &args.policy.chdir {
        cwd.push(dir);
        set.push(("PWD".into(), cwd.clone().into()));
    }
    if events.wanted() {
        events.open(report)?;
        let session_id = events.session_id();
        return beside(args, host, (set, cwd), session_id, report, machine);
    }
    let mut command = Command::new(name);
    command.args(rest).envs(set).current_dir(cwd);
    // Returns only if it failed. Standard streams, process group and environment are the caller's.
    let error = command.exec();
    let errno = error.raw_os_error().unwrap_or(libc::ENOENT);
    Err(NotStarted::new(name.clone(), errno, host).into())
}

/// Runs the command as engine `none` does, with the caller's environment: nothing is added to the outer sandbox and nothing taken away.
fn beside(
    args: &RunArgs,
    host: &HostFacts,
    (set, cwd): (Vec<(OsString, OsString)>, PathBuf),
    session_id: &str,
    report: &Arc<Reporter>,
    machine: &Machine,
) -> Result<Ending, Fault> {
    report.event(&Event::Starting {
        state: State::Created,
        command: lossy(&args.command),
        workspace_id: None,
        agent_id: None,
    });
    let capture = super::run::take_over(args, report)?;
    let mut env = host.env.clone();
    env.retain(|(name, _)| set.iter().all(|(k, _)| k != name));
    env.extend(set);
    let on_ready = |e: &Enforced| {
        report.event(&Event::Ready {
            state: State::Active,
            handle: Handle {
                session_id: session_id.to_owned(),
                backend: "none",
                engine: e.engine.clone(),
                state: State::Active,
                error: None,
                details: vec!["nested".to_owned()],
            },
        });
        if let Some(capture) = &capture {
            capture.start(report);
        }
    };
    if machine.is_mac() {
        let bare = Bare {
            tools: &machine.tools,
            exe: &host.exe,
            argv: &args.command,
            env,
            cwd: &cwd,
            keep_fds: &args.keep_fd,
        };
        let outcome = bare.run(on_ready);
        super::run::give_back(capture)?;
        report.finish();
        return ending::of(outcome?, &args.command, host, report, None);
    }
    let config = SessionConfig {
        serves_at_once: false,
        net: NetSetup::Host,
        listen: Vec::new(),
        catch: None,
        early: None,
        keep_fds: args.keep_fd.clone(),
        state_dirs: Vec::new(),
        group: None,
        wall: None,
        broker: None,
        on_listeners: Box::new(|_| Ok(Box::new(()))),
        witness: None,
        on_ready: Box::new(on_ready),
        on_stop: Box::new(|stopped| tell_stop(report, stopped)),
    };
    let invocation = none::direct(args.command.clone(), env, cwd);
    let outcome = session::run(invocation, config);
    super::run::give_back(capture)?;
    report.finish();
    ending::of(outcome?, &args.command, host, report, None)
}

/// What the outer sandbox cannot be asked for afterwards: a spec, a profile, anything that tightens. Grants and the choice
/// of a backend are without effect inside.
fn asks_for_more(args: &PolicyArgs, specs: &[SpecSource], env_spec: bool) -> Option<&'static str> {
    let mode = args.mode.as_deref().is_some_and(|m| m != "chat");
    let microvm = args.backend.as_deref() == Some("microvm");
    [
        (!specs.is_empty(), "a given spec"),
        (env_spec, "CCBOX_SPEC"),
        (args.profile.is_some(), "--profile"),
        (mode, "--mode"),
        (microvm, "--backend microvm"),
        (!args.deny_read.is_empty(), "--deny-read"),
        (!args.deny_write.is_empty(), "--deny-write"),
        (!args.protect.is_empty(), "--protect"),
        (!args.deny_host.is_empty(), "--deny-host"),
        (args.no_network, "--no-network"),
    ]
    .into_iter()
    .find_map(|(typed, what)| typed.then_some(what))
}

fn split_env(pair: &OsString) -> Result<(&OsStr, &OsStr), UsageError> {
    let bytes = pair.as_bytes();
    let at = bytes.iter().position(|b| *b == b'=').filter(|i| *i > 0);
    let Some((name, value)) = at.and_then(|i| bytes.split_at_checked(i)) else {
        return Err(UsageError {
            message: format!(
                "invalid value `{}` for `--env`: expected NAME=VALUE",
                pair.to_string_lossy()
            ),
            hint: None,
        });
    };
    let value = value.get(1..).unwrap_or(&[]);
    Ok((OsStr::from_bytes(name), OsStr::from_bytes(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_on_top_are_refused_grants_are_not() {
        let none = PolicyArgs::default();
        assert_eq!(asks_for_more(&none, &[], false), None);
        assert_eq!(asks_for_more(&none, &[], true), Some("CCBOX_SPEC"));
        let spec = [SpecSource::Inline(String::new())];
        assert_eq!(asks_for_more(&none, &spec, false), Some("a given spec"));
        let grants = PolicyArgs {
            rw: vec!["/x".into()],
            allow_host: vec!["h".into()],
            mode: Some("chat".into()),
            ..PolicyArgs::default()
        };
        assert_eq!(asks_for_more(&grants, &[], false), None);
        let tight = PolicyArgs {
            no_network: true,
            ..PolicyArgs::default()
        };
        assert_eq!(asks_for_more(&tight, &[], false), Some("--no-network"));
    }

    #[test]
    fn env_pairs() {
        assert_eq!(
            split_env(&"A=b=c".into()).unwrap(),
            (OsStr::new("A"), OsStr::new("b=c"))
        );
        assert_eq!(split_env(&"A=".into()).unwrap().1, "");
        assert!(split_env(&"A".into()).is_err());
        assert!(split_env(&"=x".into()).is_err());
    }
}
