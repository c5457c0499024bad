//! The calls into other rooms that are not plain functions of a type, in one place.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use super::args::CheckKind;
use super::check::Answer;
use super::child_env::Changes;
use super::context::Prepared;
use super::reads::{self, entry};
use super::writes::Writes;
use super::{Ending, Fault};
use crate::backend::bwrap::proxy_port;
use crate::host::{FsView, HostFacts, RealFs};
use crate::plan;
use crate::proxy;
use crate::report::{Reporter, Verbosity};
use crate::session;
use crate::spec::trust::TrustRequest;
use crate::spec::{self, Grant};

/// Proxy variables for the child, and those of the caller that must not reach it.
pub(super) fn proxy_env(ready: &Prepared) -> Changes {
    proxy_env_on(ready, proxy_port(&ready.plan.network.forwarded_ports), None)
}

/// The same for proxies on another port, which want a token.
pub(super) fn proxy_env_on(ready: &Prepared, port: u16, token: Option<&str>) -> Changes {
    let policy = &ready.loaded.policy;
    let own = &ready.plan.network.user_proxies;
    let chosen = |name: &OsString| policy.env.set.iter().any(|e| e.value.0 == *name);
    Changes {
        set: proxy::child_env(
            port,
            proxy::Instead {
                http: own.http.as_ref().map(|p| p.value),
                socks: own.socks.as_ref().map(|p| p.value),
            },
            policy.net.all_proxy,
            token,
            &ready.host.exe,
            ready.known_hosts.as_deref(),
        ),
        remove: ready
            .plan
            .env
            .iter()
            .map(|(name, _)| name)
            .filter(|name| proxy::is_proxy_variable(name) && !chosen(name))
            .cloned()
            .collect(),
    }
}

/// Ends this process by the signal that ended the command, without a core file (semantics 25).
pub(super) fn die_by(signal: i32) -> ExitCode {
    ExitCode::from(session::die_as(signal))
}

/// Whether a path may be read, written or executed. `path` is as typed: relative to the caller's cwd.
pub(super) fn check_path(ready: &Prepared, kind: CheckKind, path: &Path) -> Answer {
    let typed = match path.strip_prefix("~") {
        Ok(rest) => ready.host.home.join(rest),
        Err(_) => ready.host.cwd.join(path),
    };
    let real = plan::real_path(&RealFs, &typed);
    let mut found = match kind {
        CheckKind::Write => plan::check::write(&ready.plan, &RealFs, &real),
        CheckKind::Exec => plan::check::exec(&ready.plan, &real),
        CheckKind::Read | CheckKind::Host => plan::check::read(&ready.plan, &real),
    };
    if found.allowed && kind != CheckKind::Write {
        let policy = &ready.loaded.policy;
        let hides = plan::late::hides(policy, &ready.host, &RealFs, &ready.plan, &real);
        found = hides.unwrap_or(found);
    }
    // The child has the caller's uid and no more rights, so what the caller cannot read needs no rule that hides it.
    if found.allowed
        && kind == CheckKind::Read
        && RealFs.kind(&real).is_some()
        && !RealFs.readable(&real)
    {
        return Answer {
            allowed: false,
            rule: "its own permissions".to_owned(),
            hint: None,
        };
    }
    Answer {
        hint: (!found.allowed)
            .then(|| would_allow(ready, kind, &real, &found.rule))
            .flatten(),
        allowed: found.allowed,
        rule: found.rule,
    }
}

/// The line that would allow what is denied, as a report of it would name it (semantics 32).
fn would_allow(ready: &Prepared, kind: CheckKind, path: &Path, rule: &str) -> Option<String> {
    let plan = &ready.plan;
    match kind {
        CheckKind::Write => {
            let report = Arc::new(Reporter::stderr(Verbosity::Quiet));
            Writes::new(plan, &ready.host.home_real, &report).would_allow(path, rule)
        }
        CheckKind::Exec if plan.exec.as_ref().is_some_and(|rule| rule.denies(path)) => {
            Some(format!("exec_grant_roots = [{}]", entry(path)?))
        }
        CheckKind::Read | CheckKind::Exec => match plan::hiding(&plan.rules.rules, path) {
            Some(rule) => reads::hint(&rule.origin, path),
            // Nothing hides it, so nothing shows it: only what is there can be shown.
            None => RealFs
                .kind(path)
                .and_then(|_| entry(path))
                .map(|path| format!("[filesystem] allow_read = [{path}]")),
        },
        CheckKind::Host => None,
    }
}

/// Records a project file as trusted; the grants that count from now on, in words.
pub(super) fn trust(path: &Path, host: &HostFacts) -> Result<Vec<String>, Fault> {
    let candidate = spec::trust::inspect(TrustRequest {
        file: path,
        cwd: &host.cwd,
        home: &host.home,
        uid: host.uid,
    })?;
    spec::trust::record(&host.state_dir, host.uid, &candidate)?;
    let words = |g: &Grant| format!("{}: {} = {}", g.line, g.key, g.value);
    Ok(candidate.grants.iter().map(words).collect())
}

/// Where private caches are kept.
pub(super) fn caches_dir(host: &HostFacts) -> PathBuf {
    host.state_dir.join("caches")
}

/// Connects standard input and output to a host through the SOCKS proxy.
pub(super) fn connect(host: &str, port: u16) -> Result<Ending, Fault> {
    let env: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    proxy::connect::run(host, port, &env)?;
    Ok(Ending::Code(0))
}
