//! The managed layer (R28): its lists append like any, its scalars are floors, its locks drop what others granted.

use super::SpecError;
use super::keys::Keys;
use super::merge::{rank_sandbox, replace, set};
use super::notices::place;
use crate::policy::{BackendChoice, Caches, Layer, Mode, NetworkMode, Policy, Ruled, View};

fn rank_backend(backend: BackendChoice) -> u8 {
    match backend {
        BackendChoice::None => 0,
        BackendChoice::Auto => 1,
        BackendChoice::Native => 2,
        BackendChoice::MicroVm => 3,
    }
}

fn rank_network(mode: NetworkMode) -> u8 {
    match mode {
        NetworkMode::Open => 0,
        NetworkMode::Filtered => 1,
        NetworkMode::Off => 2,
    }
}

fn rank_caches(caches: Caches) -> u8 {
    match caches {
        Caches::Shared => 0,
        Caches::Private => 1,
        Caches::None => 2,
    }
}

/// Raises a value to the managed one where that is stricter, and says so where somebody had asked for less.
fn floor<T: Copy>(
    key: &str,
    slot: &mut T,
    managed: Option<&Ruled<T>>,
    rank: impl Fn(T) -> u8,
    notices: &mut Vec<String>,
) {
    if let Some(managed) = managed
        && rank(managed.value) > rank(*slot)
    {
        *slot = managed.value;
        notices.push(format!("`{key}` is set by {}", place(&managed.origin)));
    }
}
/// Puts the managed layer over everything else.
pub(super) fn apply(keys: Keys, policy: &mut Policy) {
    let mut notices = Vec::new();
    let said = &mut notices;
    pin_filesystem(&keys, policy, said);
    let net = &mut policy.net;
    let off = keys
        .net
        .enabled
        .clone()
        .filter(|e| !e.value)
        .map(|e| Ruled {
            value: NetworkMode::Off,
            origin: e.origin,
        });
    for (key, managed) in [
        ("network.mode", keys.net.mode.as_ref()),
        ("network_enabled", off.as_ref()),
    ] {
        let before = net.mode;
        floor(key, &mut net.mode, managed, rank_network, said);
        if net.mode != before {
            net.off_by = managed.map(|m| m.origin.clone());
        }
    }
    floor(
        "network.baseline",
        &mut net.baseline,
        keys.net.baseline.as_ref(),
        |b| u8::from(!b),
        said,
    );
    floor(
        "network.allow_local_binding",
        &mut net.allow_local_binding,
        keys.net.allow_local_binding.as_ref(),
        |b| u8::from(!b),
        said,
    );
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
    if let Some(all) = keys.net.all_unix_sockets
        && !all.value
        && net.all_unix_sockets.take().is_some()
    {
        said.push(format!(
            "`network.allow_all_unix_sockets` is set by {}",
            place(&all.origin)
        ));
    }
    set(&mut policy.upstream, keys.net.upstream);
    replace(&mut net.user_proxies.http, keys.net.http_proxy_port);
    replace(&mut net.user_proxies.socks, keys.net.socks_proxy_port);
    net.allowed.extend(keys.net.allowed);
    net.denied.extend(keys.net.denied);
    said.extend(keys.net.notices);
    if let Some(only) = keys.managed.domains_only.filter(|d| d.value) {
        net.managed_only = Some(only.origin);
        let others = net.allowed.len();
        net.allowed.retain(|r| r.origin.layer == Layer::Managed);
        if net.allowed.len() < others {
            said.push("allow rules for hosts count only from the managed settings".into());
        }
        net.baseline = keys.net.baseline.is_some_and(|b| b.value);
    }

    floor(
        "mode",
        &mut policy.mode,
        keys.mode.as_ref(),
        |m: Mode| u8::from(m.is_read_only()),
        said,
    );
    floor(
        "backend",
        &mut policy.backend,
        keys.backend.as_ref(),
        rank_backend,
        said,
    );
    floor(
        "sandbox",
        &mut policy.sandbox,
        keys.sandbox.as_ref(),
        rank_sandbox,
        said,
    );
    set(&mut policy.engine, keys.engine);
    floor(
        "env.only",
        &mut policy.env.only,
        keys.env.only.as_ref(),
        u8::from,
        said,
    );
    policy.env.set.extend(keys.env.set);
    policy.env.pass.extend(keys.env.pass);
    policy.env.unset.extend(keys.env.unset);
    floor(
        "exec.deny_writable",
        &mut policy.exec_deny_writable,
        keys.exec_deny_writable.as_ref(),
        u8::from,
        said,
    );
    let macos = &mut policy.macos;
    floor(
        "macos.dns",
        &mut macos.dns,
        keys.macos.dns.as_ref(),
        |d| u8::from(!d),
        said,
    );
    floor(
        "macos.allow_apple_events",
        &mut macos.allow_apple_events,
        keys.macos.allow_apple_events.as_ref(),
        |a| u8::from(!a),
        said,
    );
    floor(
        "macos.keychain",
        &mut macos.keychain,
        keys.macos.keychain.as_ref(),
        |k| u8::from(!k),
        said,
    );
    floor(
        "macos.weaker_network_isolation",
        &mut macos.weaker_network_isolation,
        keys.macos.weaker_network_isolation.as_ref(),
        |w| u8::from(!w),
        said,
    );
    policy.notices.extend(notices);
}

/// Keys that name one run or one person say nothing in a file that holds for everybody.
pub(super) fn refuse_personal_keys(keys: &Keys) -> Result<(), SpecError> {
    let personal = [
        ("session_id", keys.session_id.as_ref().map(|k| &k.origin)),
        (
            "workspace_id",
            keys.workspace_id.as_ref().map(|k| &k.origin),
        ),
        ("agent_id", keys.agent_id.as_ref().map(|k| &k.origin)),
        ("guest_workdir", keys.workdir.as_ref().map(|k| &k.origin)),
        ("profile", keys.profile.as_ref().map(|k| &k.origin)),
    ];
    for (key, origin) in personal {
        if let Some(origin) = origin {
            return Err(SpecError::plain(format!(
                "{}: `{key}` has no place in the managed settings",
                place(origin)
            )));
        }
    }
    Ok(())
}

/// Managed path rules; any of them pins `filesystem.disabled` to false (R28).
fn pin_filesystem(keys: &Keys, policy: &mut Policy, said: &mut Vec<String>) {
    let fs = &mut policy.fs;
    let rules = keys.fs.clone();
    let has_rules = !(rules.binds.is_empty()
        && rules.allow_write.is_empty()
        && rules.deny_write.is_empty()
        && rules.deny_read.is_empty()
        && rules.allow_read.is_empty()
        && rules.protected.is_empty()
        && rules.runner_state_dirs.is_empty()
        && rules.exec_grant_roots.is_empty()
        && rules.view.is_none()
        && rules.protect_git.is_none()
        && rules.protect_project_config.is_none()
        && rules.caches.is_none()
        && rules.tmp_size.is_none()
        && keys.managed.read_paths_only.is_none());
    let pinned = has_rules || rules.disabled.as_ref().is_some_and(|d| !d.value);
    if pinned && fs.disabled {
        fs.disabled = false;
        said.push(
            "`filesystem.disabled` has no effect: the managed settings hold path rules".into(),
        );
    }
    floor(
        "filesystem.view",
        &mut fs.view,
        rules.view.as_ref(),
        |v| u8::from(v == View::Bound),
        said,
    );
    floor(
        "filesystem.protect_git",
        &mut fs.protect_git,
        rules.protect_git.as_ref(),
        u8::from,
        said,
    );
    floor(
        "filesystem.protect_project_config",
        &mut fs.protect_project_config,
        rules.protect_project_config.as_ref(),
        u8::from,
        said,
    );
    floor(
        "filesystem.caches",
        &mut fs.caches,
        rules.caches.as_ref(),
        rank_caches,
        said,
    );
    policy.limits.cap(keys.limits.clone());
    if let Some(managed) = rules.tmp_size {
        let lower = policy.tmp_size.take().filter(|t| t.value < managed.value);
        policy.tmp_size = Some(lower.unwrap_or(managed));
    }
    fs.binds.extend(rules.binds);
    fs.allow_write.extend(rules.allow_write);
    fs.deny_write.extend(rules.deny_write);
    fs.deny_read.extend(rules.deny_read);
    fs.allow_read.extend(rules.allow_read);
    fs.protected.extend(rules.protected);
    fs.runner_state_dirs.extend(rules.runner_state_dirs);
    fs.exec_grant_roots.extend(rules.exec_grant_roots);
    if keys
        .managed
        .read_paths_only
        .as_ref()
        .is_some_and(|r| r.value)
    {
        let others = fs.allow_read.len();
        fs.allow_read.retain(|r| r.origin.layer == Layer::Managed);
        if fs.allow_read.len() < others {
            said.push("`allow_read` counts only from the managed settings".into());
        }
    }
}
