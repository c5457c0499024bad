//! The left half of the line, shared by `run`, `explain`, `profile` and `check`: layers → policy → plan. Only reads.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::args::PolicyArgs;
use super::machine::Machine;
use super::usage::UsageError;
use super::{Fault, known_hosts};
use crate::backend::bwrap::PROXY_PORT;
use crate::exit;
use crate::host::{HostFacts, RealFs};
use crate::plan::Plan;
use crate::policy::{Layer, Origin, Ruled};
use crate::spec::{self, FlagRules, LoadRequest, Loaded, SpecSource};

/// The managed ceiling (semantics 17).
const MANAGED: &str = "/etc/ccbox/managed.toml";
/// A spec is text somebody wrote; more than this is a mistake, and an endless pipe must end.
const MAX_STDIN: u64 = 16 << 20;

/// What stands before a backend is chosen.
pub(super) struct Prepared {
    pub(super) host: HostFacts,
    pub(super) loaded: Loaded,
    pub(super) plan: Arc<Plan>,
    /// Where the copy of the caller's known_hosts stands inside.
    pub(super) known_hosts: Option<PathBuf>,
}

/// What a run asks for beside its rules.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extra<'a> {
    /// A file of ccbox's own that joins the protected set (semantics 20).
    pub(super) own: Option<&'a Path>,
    /// `--trace`.
    pub(super) trace: bool,
    /// The plan is run by a profile and not by mounts.
    pub(super) by_path: bool,
}

/// As [`prepare`], to show and not to run: without a command it is `true`.
pub(super) fn prepare_shown(
    args: &PolicyArgs,
    specs: Vec<SpecSource>,
    command: &[OsString],
    machine: &Machine,
) -> Result<Prepared, Fault> {
    let host = HostFacts::collect()?;
    let command = shown_command(command);
    prepare(host, args, specs, &command, Extra::default(), machine)
}

/// The command of a call that runs none.
pub(super) fn shown_command(command: &[OsString]) -> Vec<OsString> {
    if command.is_empty() {
        vec!["true".into()]
    } else {
        command.to_vec()
    }
}

/// Loads the layers and resolves the plan.
pub(super) fn prepare(
    host: HostFacts,
    args: &PolicyArgs,
    specs: Vec<SpecSource>,
    command: &[OsString],
    extra: Extra<'_>,
    machine: &Machine,
) -> Result<Prepared, Fault> {
    let mut loaded = spec::load_as(&request(args, specs, &host)?, machine.is_mac())?;
    loaded.policy.fs.trace = extra.trace;
    if let Some(path) = extra.own {
        loaded.policy.fs.own_files.push(Ruled {
            value: host.cwd.join(path),
            origin: Origin {
                layer: Layer::Flag("--events"),
                file: None,
                line: None,
            },
        });
    }
    let (plan, known_hosts) = if extra.by_path {
        let plan = Plan::without_files(&loaded.policy, &host, command, &RealFs)?;
        (plan, None)
    } else {
        let mut plan = Plan::resolve(&loaded.policy, &host, command, &RealFs)?;
        proxy_port_is_free(&plan.network.forwarded_ports)?;
        let known_hosts = known_hosts::show(&mut plan, &host, &RealFs);
        (plan, known_hosts)
    };
    Ok(Prepared {
        host,
        loaded,
        plan: Arc::new(plan),
        known_hosts,
    })
}

/// What the loader needs to know about the call.
pub(super) fn request(
    args: &PolicyArgs,
    specs: Vec<SpecSource>,
    host: &HostFacts,
) -> Result<LoadRequest, Fault> {
    let given = |name: &str| {
        host.var(name)
            .filter(|v| !v.is_empty())
            .map(std::ffi::OsStr::to_owned)
    };
    Ok(LoadRequest {
        stdin_spec: stdin_spec(&specs)?,
        specs,
        profile: args.profile.clone(),
        params: args.params.clone(),
        flags: flags(args),
        env_spec: given("CCBOX_SPEC"),
        env_sandbox: given("CCBOX_SANDBOX"),
        cwd: host.cwd.clone(),
        home: host.home.clone(),
        uid: host.uid,
        config_dir: host.config_dir.clone(),
        state_dir: host.state_dir.clone(),
        managed: MANAGED.into(),
    })
}

/// The sugar flags as the loader takes them.
fn flags(args: &PolicyArgs) -> FlagRules {
    FlagRules {
        rw: args.rw.clone(),
        ro: args.ro.clone(),
        deny_read: args.deny_read.clone(),
        deny_write: args.deny_write.clone(),
        protect: args.protect.clone(),
        allow_host: args.allow_host.clone(),
        deny_host: args.deny_host.clone(),
        no_network: args.no_network,
        env_set: args.env_set.clone(),
        env_pass: args.env_pass.clone(),
        chdir: args.chdir.clone(),
        mode: args.mode.clone(),
        backend: args.backend.clone(),
        engine: args.engine.clone(),
        sandbox: args.sandbox.clone(),
        session: args.session.clone(),
    }
}

/// `-f -` is read once, here (semantics 38).
fn stdin_spec(specs: &[SpecSource]) -> Result<Option<Vec<u8>>, Fault> {
    let dashes = specs
        .iter()
        .filter(|s| matches!(s, SpecSource::File(f) if f == Path::new("-")))
        .count();
    match dashes {
        0 => return Ok(None),
        1 => {}
        _ => {
            return Err(UsageError {
                message: "`--spec -` is given twice".to_owned(),
                hint: None,
            }
            .into());
        }
    }
    let mut text = Vec::new();
    std::io::stdin()
        .lock()
        .take(MAX_STDIN + 1)
        .read_to_end(&mut text)
        .map_err(|e| UsageError {
            message: format!(
                "cannot read the spec from standard input: {}",
                exit::reason(&e)
            ),
            hint: None,
        })?;
    if text.len() as u64 > MAX_STDIN {
        return Err(UsageError {
            message: "the spec on standard input is longer than 16 MiB".to_owned(),
            hint: None,
        }
        .into());
    }
    Ok(Some(text))
}

/// A forwarded port is bound inside, where the proxies have one already (semantics 42).
fn proxy_port_is_free(forwarded: &[u16]) -> Result<(), UsageError> {
    if forwarded.contains(&PROXY_PORT) {
        return Err(UsageError::new(
            format!(
                "`localhost:{PROXY_PORT}` cannot be reached: the proxies of the sandbox listen on that port"
            ),
            "let the server on this host use another port",
        ));
    }
    Ok(())
}

/// A call without a command is a mistake (semantics 29).
pub(super) fn require_command(command: &[OsString]) -> Result<(), UsageError> {
    match command.first() {
        None => Err(UsageError::new(
            "no command given",
            "ccbox run [OPTIONS] [--] CMD [ARG…]",
        )),
        Some(name) if name.is_empty() => Err(UsageError {
            message: "the command's name is empty".to_owned(),
            hint: None,
        }),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_is_handed_on() {
        let args = PolicyArgs {
            rw: vec!["1".into()],
            ro: vec!["2".into()],
            deny_read: vec!["3".into()],
            deny_write: vec!["4".into()],
            protect: vec!["5".into()],
            allow_host: vec!["6".into()],
            deny_host: vec!["7".into()],
            no_network: true,
            env_set: vec!["A=b".into()],
            env_pass: vec!["C".into()],
            chdir: Some("d".into()),
            mode: Some("plan".into()),
            backend: Some("none".into()),
            engine: Some("bwrap".into()),
            sandbox: Some("on".into()),
            session: Some("s".into()),
            ..PolicyArgs::default()
        };
        let f = flags(&args);
        assert_eq!(
            f,
            FlagRules {
                rw: vec!["1".into()],
                ro: vec!["2".into()],
                deny_read: vec!["3".into()],
                deny_write: vec!["4".into()],
                protect: vec!["5".into()],
                allow_host: vec!["6".into()],
                deny_host: vec!["7".into()],
                no_network: true,
                env_set: vec!["A=b".into()],
                env_pass: vec!["C".into()],
                chdir: Some("d".into()),
                mode: Some("plan".into()),
                backend: Some("none".into()),
                engine: Some("bwrap".into()),
                sandbox: Some("on".into()),
                session: Some("s".into()),
            }
        );
    }

    #[test]
    fn a_second_dash_and_a_missing_command_are_mistakes() {
        let dash = || SpecSource::File("-".into());
        assert!(stdin_spec(&[dash(), dash()]).is_err());
        assert!(matches!(
            stdin_spec(&[SpecSource::File("./-".into())]),
            Ok(None)
        ));
        assert!(proxy_port_is_free(&[3128]).is_err());
        assert!(proxy_port_is_free(&[80, 3129]).is_ok());
        assert!(require_command(&[]).is_err());
        assert!(require_command(&["".into()]).is_err());
        assert!(require_command(&["x".into()]).is_ok());
    }
}
