//! Layers to one policy: lists append, scalars override, denies only accumulate (semantics 17–19). Pure.

use std::path::PathBuf;

use super::keys::{Keys, Scalar};
use super::layer::Layered;
use super::notices::{self, Said};
use super::source::shown;
use super::{LayerInfo, Loaded, SpecError, managed};
use crate::policy::path::PathEntry;
use crate::policy::{BackendChoice, Layer, NetworkMode, Origin, Policy, Ruled, SandboxMode};

/// Everything that is merged, weakest first.
#[derive(Debug)]
pub(super) struct Stack {
    pub(super) profile: Layered,
    /// User file, project file, given specs.
    pub(super) files: Vec<Layered>,
    /// `CCBOX_SANDBOX`.
    pub(super) variable: Option<SandboxMode>,
    pub(super) flags: Keys,
    /// `/etc/ccbox/managed.toml`.
    pub(super) managed: Option<Layered>,
}

/// What else the merge must know of the call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) profile: &'a str,
    pub(super) spec_given: bool,
    /// The spec came from `CCBOX_SPEC`.
    pub(super) spec_by_variable: bool,
    pub(super) macos: bool,
}

/// Merges.
pub(super) fn merge(stack: Stack, call: Call<'_>) -> Result<Loaded, SpecError> {
    let mut policy = Policy::closed(call.profile);
    policy.spec_given = call.spec_given;
    let mut layers: Vec<LayerInfo> = Vec::new();
    let mut said = Said::default();

    for layer in std::iter::once(stack.profile).chain(stack.files) {
        untrusted_notice(&layer, &mut policy);
        policy.notices.extend(layer.notices.iter().cloned());
        policy.net.hint_file = hint_file(&layer).or(policy.net.hint_file.take());
        policy.fs.own_files.extend(layer.own);
        layers.push(layer.info);
        apply(layer.keys, &mut policy, &mut said, call.macos);
    }
    if call.spec_by_variable {
        lowered_by_spec_variable(&mut policy);
    }
    let flags_given = stack.flags != Keys::default();
    let flag_sandbox = stack.flags.sandbox.is_some();
    apply(stack.flags, &mut policy, &mut said, call.macos);
    if let Some(wanted) = stack.variable
        && !flag_sandbox
    {
        by_variable(wanted, &mut policy);
    }
    if flags_given {
        layers.push(LayerInfo {
            layer: Layer::Flag("flags"),
            file: None,
            note: None,
        });
    }
    policy.net.off_by.clone_from(&said.network);
    if let Some(managed) = stack.managed {
        policy.fs.own_files.extend(managed.own);
        layers.push(managed.info);
        managed::apply(managed.keys, &mut policy);
    }
    if policy.net.mode != NetworkMode::Off {
        policy.net.off_by = None;
    }
    keep_access_log(&mut policy);
    notices::open_network_takes_no_rules(&policy)?;
    notices::add(&mut policy, &said);
    Ok(Loaded { policy, layers })
}

/// The access log is ccbox's own, and what is in it is about other runs as well.
fn keep_access_log(policy: &mut Policy) {
    let Some(log) = &policy.net.access_log else {
        return;
    };
    if policy.net.mode == NetworkMode::Open {
        policy.notices.push(
            "`network.access_log` has no lines in this run: with `network.mode = \"open\"` nothing goes through the proxies".to_owned(),
        );
    }
    policy.fs.own_files.push(log.clone());
    policy.fs.deny_read.push(Ruled {
        value: PathEntry::Exact(log.value.clone()),
        origin: log.origin.clone(),
    });
}

/// One layer over what is there.
fn apply(keys: Keys, to: &mut Policy, said: &mut Said, macos: bool) {
    note(keys.fs.disabled.as_ref(), &mut said.disabled);
    note(keys.net.mode.as_ref(), &mut said.network);
    note(keys.net.enabled.as_ref(), &mut said.network);
    to.session_id = keys.session_id.map(|s| s.value).or(to.session_id.take());
    to.workspace_id = keys
        .workspace_id
        .map(|s| s.value)
        .or(to.workspace_id.take());
    to.agent_id = keys.agent_id.map(|s| s.value).or(to.agent_id.take());
    to.workdir = keys.workdir.or(to.workdir.take());
    set(&mut to.mode, keys.mode);
    set(&mut to.backend, keys.backend);
    set(&mut to.engine, keys.engine);
    set(&mut to.sandbox, keys.sandbox);

    let fs = &mut to.fs;
    set(&mut fs.view, keys.fs.view);
    set(&mut fs.disabled, keys.fs.disabled);
    set(&mut fs.protect_git, keys.fs.protect_git);
    set(
        &mut fs.protect_project_config,
        keys.fs.protect_project_config,
    );
    set(&mut fs.caches, keys.fs.caches);
    fs.binds.extend(keys.fs.binds);
    fs.allow_write.extend(keys.fs.allow_write);
    fs.deny_write.extend(keys.fs.deny_write);
    fs.deny_read.extend(keys.fs.deny_read);
    fs.allow_read.extend(keys.fs.allow_read);
    fs.protected.extend(keys.fs.protected);
    fs.runner_state_dirs.extend(keys.fs.runner_state_dirs);
    fs.exec_grant_roots.extend(keys.fs.exec_grant_roots);
    fs.allow_create.extend(keys.fs.allow_create);

    let net = &mut to.net;
    set(&mut net.mode, keys.net.mode);
    match keys.net.enabled.map(|e| e.value) {
        Some(false) => net.mode = NetworkMode::Off,
        // `true` takes an `off` back; it does not close an open network.
        Some(true) if net.mode == NetworkMode::Off => net.mode = NetworkMode::Filtered,
        Some(true) | None => {}
    }
    set(&mut net.baseline, keys.net.baseline);
    set(&mut net.all_proxy, keys.net.all_proxy);
    if let Some(ports) = keys.net.transparent_ports {
        net.transparent_ports = Some(ports.value);
    }
    net.unix_sockets.extend(keys.net.unix_sockets);
    if let Some(log) = keys.net.access_log {
        net.access_log = log.value.map(|value| Ruled {
            value,
            origin: log.origin,
        });
    }
    if let Some(all) = keys.net.all_unix_sockets {
        net.all_unix_sockets = all.value.then_some(all.origin);
    }
    set(&mut net.allow_local_binding, keys.net.allow_local_binding);
    net.allowed.extend(keys.net.allowed);
    net.denied.extend(keys.net.denied);
    set(&mut to.upstream, keys.net.upstream);
    replace(&mut net.user_proxies.http, keys.net.http_proxy_port);
    replace(&mut net.user_proxies.socks, keys.net.socks_proxy_port);
    to.limits.override_with(keys.limits);
    to.tmp_size = keys.fs.tmp_size.or(to.tmp_size.take());
    to.notices.extend(keys.net.notices);

    to.env.set.extend(keys.env.set);
    to.env.pass.extend(keys.env.pass);
    to.env.unset.extend(keys.env.unset);
    set(&mut to.env.only, keys.env.only);

    set(&mut to.exec_deny_writable, keys.exec_deny_writable);
    set(&mut to.macos.dns, keys.macos.dns);
    set(
        &mut to.macos.allow_apple_events,
        keys.macos.allow_apple_events,
    );
    set(&mut to.macos.keychain, keys.macos.keychain);
    set(
        &mut to.macos.weaker_network_isolation,
        keys.macos.weaker_network_isolation,
    );

    let builtin = keys.builtin;
    set(&mut to.fs.cwd_writable, builtin.cwd_writable);
    set(
        &mut to.fs.deny_build_tool_secrets,
        builtin.build_tool_secrets,
    );
    set(
        &mut to.fs.terminal_secrets_only,
        builtin.terminal_secrets_only,
    );
    set(&mut to.env.strict, builtin.env_strict);
    let exec = if macos {
        builtin.exec_deny_writable_macos
    } else {
        builtin.exec_deny_writable_linux
    };
    set(&mut to.exec_deny_writable, exec);
}

pub(super) fn set<T>(slot: &mut T, value: Scalar<T>) {
    if let Some(ruled) = value {
        *slot = ruled.value;
    }
}

/// As [`set`], where the origin matters later.
pub(super) fn replace<T>(slot: &mut Scalar<T>, value: Scalar<T>) {
    if value.is_some() {
        *slot = value;
    }
}

fn note<T>(value: Option<&Ruled<T>>, origin: &mut Option<Origin>) {
    if let Some(ruled) = value {
        *origin = Some(ruled.origin.clone());
    }
}

/// The file a user would edit to allow a host: the last given spec, else the project file, else the user file.
fn hint_file(layer: &Layered) -> Option<PathBuf> {
    match layer.info.layer {
        // The hint is a line of TOML.
        _ if layer.imported => None,
        Layer::Spec | Layer::Project { .. } | Layer::User => layer.info.file.clone(),
        Layer::BuiltIn(_) | Layer::Profile(_) | Layer::Flag(_) | Layer::Managed => None,
    }
}
fn untrusted_notice(layer: &Layered, policy: &mut Policy) {
    if layer.ignored.is_empty() {
        return;
    }
    let file = layer
        .info
        .file
        .as_ref()
        .map(|f| shown(&f.to_string_lossy()))
        .unwrap_or_default();
    policy.notices.push(format!(
        "`{file}` is not trusted, so this is ignored: `{}`; `ccbox trust {file}` accepts it",
        layer.ignored.join("`, `")
    ));
}

fn sandbox_word(mode: SandboxMode) -> &'static str {
    match mode {
        SandboxMode::Require => "require",
        SandboxMode::On => "on",
        SandboxMode::Off => "off",
    }
}

/// `CCBOX_SANDBOX` stands between the specs and the flags; a lowering is said (semantics 19).
fn by_variable(wanted: SandboxMode, policy: &mut Policy) {
    if rank_sandbox(wanted) < rank_sandbox(policy.sandbox) {
        policy.loud_notices.push(format!(
            "CCBOX_SANDBOX lowers the sandbox from `{}` to `{}`",
            sandbox_word(policy.sandbox),
            sandbox_word(wanted)
        ));
    }
    policy.sandbox = wanted;
}

/// A spec that a variable named and that gives isolation up is a lowering by variable too.
fn lowered_by_spec_variable(policy: &mut Policy) {
    let mut lowered = Vec::new();
    if policy.sandbox != SandboxMode::Require {
        lowered.push(format!("sandbox = \"{}\"", sandbox_word(policy.sandbox)));
    }
    if policy.backend == BackendChoice::None {
        lowered.push("backend = \"none\"".to_owned());
    }
    if policy.fs.disabled {
        lowered.push("filesystem.disabled".to_owned());
    }
    if policy.net.mode == NetworkMode::Open {
        lowered.push("network.mode = \"open\"".to_owned());
    }
    if !lowered.is_empty() {
        policy.loud_notices.push(format!(
            "the spec of CCBOX_SPEC lowers the sandbox: {}",
            lowered.join(", ")
        ));
    }
}

pub(super) fn rank_sandbox(mode: SandboxMode) -> u8 {
    match mode {
        SandboxMode::Off => 0,
        SandboxMode::On => 1,
        SandboxMode::Require => 2,
    }
}
