//! The right half of the line on macOS: rules → profile → session, with the proxies on the host's own loopback.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::child_env::{self, Changes, Marks};
use super::engine::Chosen;
use super::kernel::Refusals;
use super::launch::{Broken, Launch};
use super::rooms;
use crate::backend::seatbelt::{self as profile, RunFacts};
use crate::exit::Failure;
use crate::host::{BrokerHost, HostFacts, RealFs};
use crate::plan::Plan;
use crate::plan::seatbelt::{SeatbeltRules, path_of, rules};
use crate::policy::{NetworkMode, Policy};
use crate::proxy::{ProxyConfig, ProxySet};
use crate::report::Sink;
use crate::session::seatbelt::{self as session, Job, Outfit, Refused, Secrets, Tools};
use crate::session::{Enforced, Outcome, SessionError};
use crate::sys::names;

/// Names of one notice at most.
const NAMED: usize = 3;
/// Temporary files of other systems and of old Pythons; zsh's here-documents.
const OTHER_TEMPORARIES: [(&str, &str); 4] = [
    ("TMP", ""),
    ("TEMP", ""),
    ("TEMPDIR", ""),
    ("TMPPREFIX", "/zsh"),
];

/// Runs to the end.
pub(super) fn attempt(launch: &Launch<'_>, chosen: &Chosen) -> Result<Outcome, Broken> {
    let stood = Cell::new(false);
    let tools = &launch.machine.tools;
    let outcome = if *chosen == Chosen::Seatbelt {
        run(launch, tools, &stood)
    } else {
        let plan = &launch.ready.plan;
        let marks = Marks {
            backend: chosen.backend(),
            session_id: launch.session_id,
            cwd: &plan.cwd,
            tmpdir: None,
        };
        let bare = Bare {
            tools,
            exe: &launch.ready.host.exe,
            argv: &plan.argv,
            env: child_env::finish(plan.env_scrubbed.clone(), Changes::default(), marks),
            cwd: &plan.cwd,
            keep_fds: launch.keep_fds,
        };
        bare.run(|enforced| {
            stood.set(true);
            launch.announce_ready(chosen, enforced);
        })
    };
    outcome.map_err(|error| Broken {
        error,
        stood: stood.get(),
    })
}

/// A run without a sandbox of its own.
pub(super) struct Bare<'a> {
    pub(super) tools: &'a Tools,
    pub(super) exe: &'a Path,
    pub(super) argv: &'a [OsString],
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) cwd: &'a Path,
    pub(super) keep_fds: &'a [i32],
}

impl Bare<'_> {
    pub(super) fn run(self, on_ready: impl FnOnce(&Enforced)) -> Result<Outcome, SessionError> {
        let env = self.env;
        let job = Job {
            tools: self.tools.clone(),
            exe: self.exe.to_path_buf(),
            argv: self.argv.to_vec(),
            cwd: self.cwd.to_path_buf(),
            keep_fds: self.keep_fds.to_vec(),
            proxies: false,
            state_dir: PathBuf::new(),
            scratch: None,
            equip: Box::new(move |_, _| {
                Ok(Outfit {
                    profile: None,
                    env,
                    served: Box::new(()),
                })
            }),
            witness: None,
            on_ready: Box::new(|| {
                on_ready(&Enforced {
                    engine: "none".to_owned(),
                    ..Enforced::default()
                });
            }),
        };
        session::run(job).map_err(SessionError::from)
    }
}

fn run(launch: &Launch<'_>, tools: &Tools, stood: &Cell<bool>) -> Result<Outcome, SessionError> {
    let ready = launch.ready;
    let (policy, host) = (&ready.loaded.policy, &ready.host);
    let scratch = make_scratch().map_err(|e| no_scratch(&e))?;
    let rules = rules(policy, host, &RealFs, &scratch).map_err(|e| {
        // The session would remove it.
        let _ = std::fs::remove_dir(&scratch);
        own(&e)
    })?;
    for notice in notices(&rules) {
        launch.report.notice(&notice);
    }
    if let Some(line) = unmade(&rules, false) {
        launch.report.verbose(&line);
    }
    let facts = (policy.clone(), host.clone(), Arc::clone(&ready.plan));
    let explained = move || explained(&facts.0, &facts.1, &facts.2);
    let refusals = Refusals::new(explained, &rules, host, launch.report);
    let job = Job {
        tools: tools.clone(),
        exe: host.exe.clone(),
        argv: ready.plan.argv.clone(),
        cwd: ready.plan.cwd.clone(),
        keep_fds: launch.keep_fds.to_vec(),
        proxies: policy.net.mode != NetworkMode::Open,
        state_dir: host.state_dir.clone(),
        scratch: Some(scratch.clone()),
        equip: Box::new(|listeners, secrets| equip(launch, &rules, &scratch, listeners, secrets)),
        witness: Some(Arc::new(refusals)),
        on_ready: Box::new(|| {
            stood.set(true);
            let enforced = Enforced {
                engine: "seatbelt".to_owned(),
                ..Enforced::default()
            };
            launch.announce_ready(&Chosen::Seatbelt, &enforced);
        }),
    };
    session::run(job).map_err(SessionError::from)
}

/// A fresh directory in the user's own for temporary files, link-free.
fn make_scratch() -> io::Result<PathBuf> {
    let parent = std::env::temp_dir().canonicalize()?;
    Ok(nix::unistd::mkdtemp(&parent.join("ccbox-XXXXXX"))?)
}

fn no_scratch(error: &io::Error) -> SessionError {
    SessionError::new(format!(
        "cannot make a directory for temporary files in `{}`: {}",
        std::env::temp_dir().display(),
        crate::exit::reason(error)
    ))
}

fn own(error: &dyn Failure) -> SessionError {
    let mut out = SessionError::new(error.to_string());
    out.hint = error.hint();
    out
}

/// The same rules as `check` and `explain` tell them, for the words of refusals. A profile judges names as they are made.
fn explained(policy: &Policy, host: &HostFacts, bare: &Arc<Plan>) -> Arc<Plan> {
    let host = HostFacts {
        broker: BrokerHost::Works,
        ..host.clone()
    };
    Plan::resolve(policy, &host, &bare.argv, &RealFs).map_or_else(|_| Arc::clone(bare), Arc::new)
}

/// Profile, environment and proxies, once their port is known.
fn equip(
    launch: &Launch<'_>,
    rules: &SeatbeltRules,
    scratch: &Path,
    listeners: Vec<TcpListener>,
    secrets: &Secrets,
) -> Result<Outfit, SessionError> {
    let ready = launch.ready;
    let port = port(&listeners).map_err(|e| SessionError::new(e.to_string()))?;
    let run = RunFacts {
        tag: secrets.tag.clone(),
        proxy_port: port.unwrap_or_default(),
        terminals: terminals(),
    };
    let text = profile::render(rules, &run).map_err(|e| own(&e))?;
    let changes = match port {
        Some(port) => rooms::proxy_env_on(ready, port, Some(&secrets.token)),
        None => Changes::default(),
    };
    let served: Box<dyn std::any::Any> = if port.is_some() {
        let sink: Arc<dyn Sink> = launch.report.clone();
        let config = proxies(launch, listeners, secrets);
        Box::new(ProxySet::start(config, sink).map_err(|e| {
            SessionError::new(format!(
                "cannot start the proxies: {}",
                crate::exit::reason(&e)
            ))
        })?)
    } else {
        Box::new(())
    };
    Ok(Outfit {
        profile: Some(text),
        env: environment(launch, changes, scratch),
        served,
    })
}

/// The one port that all listeners have.
fn port(listeners: &[TcpListener]) -> io::Result<Option<u16>> {
    let first = listeners.first().map(TcpListener::local_addr).transpose()?;
    Ok(first.map(|address| address.port()))
}

/// A port of the host is reached as it is: nothing is forwarded, and whose a connection is cannot be told.
fn proxies(launch: &Launch<'_>, listeners: Vec<TcpListener>, secrets: &Secrets) -> ProxyConfig {
    let network = &launch.ready.plan.network;
    ProxyConfig {
        egress: network.egress.clone(),
        upstream: network.upstream.clone(),
        user_ports: network.user_ports.clone(),
        listeners,
        forwards: Vec::new(),
        catch: None,
        token: Some(secrets.token.clone()),
        hint_file: network.hint_file.clone(),
        identify: None,
        admit: None,
        access: launch.access.clone(),
    }
}

fn environment(launch: &Launch<'_>, changes: Changes, scratch: &Path) -> Vec<(OsString, OsString)> {
    let (plan, policy) = (&launch.ready.plan, &launch.ready.loaded.policy);
    let own_choice = |name: &str| policy.env.set.iter().any(|e| e.value.0 == *name);
    let moved = !policy.fs.disabled;
    let mut env = plan.env.clone();
    for (name, value) in env.iter_mut().filter(|_| moved) {
        let other = OTHER_TEMPORARIES.iter().find(|(other, _)| name == other);
        if let Some((name, tail)) = other
            && !own_choice(name)
        {
            let mut place = scratch.as_os_str().to_owned();
            place.push(tail);
            *value = place;
        }
    }
    let marks = Marks {
        backend: Chosen::Seatbelt.backend(),
        session_id: launch.session_id,
        cwd: &plan.cwd,
        tmpdir: (moved && !own_choice("TMPDIR")).then_some(scratch),
    };
    child_env::finish(env, changes, marks)
}

/// The terminals that the command is given: those of the standard descriptors, by name.
fn terminals() -> Vec<PathBuf> {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let mut out: Vec<PathBuf> = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()]
        .into_iter()
        .filter_map(|fd| nix::unistd::ttyname(fd).ok())
        .collect();
    out.sort();
    out.dedup();
    out
}

/// What the user is told before anything runs.
fn notices(rules: &SeatbeltRules) -> Vec<String> {
    let mut out = rules.notices.clone();
    out.extend(unmade(rules, true));
    let writable = rules.write.iter().filter(|p| p.allowed);
    out.extend(
        writable
            .filter_map(|p| path_of(&p.at))
            .find(|path| names::case_counts(path))
            .map(|path| {
                format!(
                    "`{}` tells upper and lower case apart and the sandbox of macOS does not: a grant of one name opens the other, too",
                    path.display()
                )
            }),
    );
    out
}

/// Directories that are not there and that the command cannot make, because a name below is closed (R36): a prepared one could be moved
/// into their place. Those above paths that somebody has written down, or all others.
fn unmade(rules: &SeatbeltRules, for_spec: bool) -> Option<String> {
    // Below one that cannot be made nothing is; each once, whatever the spellings.
    let list: BTreeSet<PathBuf> = rules
        .unmade
        .iter()
        .filter(|path| rules.unmade_for_spec.contains(*path) == for_spec)
        .filter_map(|path| Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?)))
        .filter(|path| path.symlink_metadata().is_err())
        .collect();
    let mut shown: Vec<String> = list
        .iter()
        .take(NAMED)
        .map(|p| format!("`{}`", p.display()))
        .collect();
    if list.len() > NAMED {
        shown.push(format!("{} more", list.len() - NAMED));
    }
    (!shown.is_empty()).then(|| {
        format!(
            "the command cannot make {}, because something below is closed; make it outside if the command needs it",
            shown.join(", ")
        )
    })
}

/// Inside a sandbox of ccbox already (semantics 46). The kernel answers; the variable saves everybody else the question.
pub(super) fn is_nested(host: &HostFacts, tools: &Tools) -> bool {
    host.var("CCBOX_BACKEND") == Some(OsStr::new("native"))
        && matches!(session::probe(tools), Err(Refused::Nested(_)))
}
