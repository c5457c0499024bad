//! The right half of the line: invocation → session, with the proxies started once the child's namespace has its sockets.

use std::cell::Cell;
use std::ffi::OsString;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use super::capture::Capture;
use super::catch;
use super::child_env::{self, Changes, Marks};
use super::context::Prepared;
use super::engine::{self, Chosen};
use super::front::Front;
use super::learn::Learned;
use super::limits::Held;
use super::machine::Machine;
use super::reads::Reads;
use super::writes::Writes;
use super::{Fault, diagnose, enforced, render, rooms, seatbelt};
use nix::sys::signal::SigSet;

use crate::backend::bwrap::proxy_port;
use crate::backend::{Engine, Invocation, NetSetup, landlock};
use crate::broker::guests::Guests;
use crate::policy::{EngineChoice, NetworkMode, SandboxMode};
use crate::proxy::catch::{Book, Catch};
use crate::proxy::{Admit, ProxyConfig, ProxySet};
use crate::report::access::AccessLog;
use crate::report::event::{Event, Handle, State};
use crate::report::{Reporter, Sink, Verbosity};
use crate::session::{
    self, BrokerSetup, Doors, Early, Enforced, Outcome, SessionConfig, SessionError,
};

/// Git's configuration of the user, in the place of that in the home directory.
const GIT_CONFIG: &str = "GIT_CONFIG_GLOBAL";
/// Where the private `$TMPDIR` stands inside (semantics 11).
const PRIVATE_TMP: &str = "/tmp";

/// One call, resolved and announced.
pub(super) struct Launch<'a> {
    pub(super) ready: &'a Prepared,
    pub(super) keep_fds: &'a [i32],
    pub(super) session_id: &'a str,
    pub(super) report: &'a Arc<Reporter>,
    /// Where each connection is written down.
    pub(super) access: Option<Arc<AccessLog>>,
    /// How its limits are held.
    pub(super) limits: &'a Held,
    /// What the command writes goes out as events.
    pub(super) capture: Option<Capture>,
    /// The command is an interactive shell.
    pub(super) own_group: bool,
    /// Takes what calls touch.
    pub(super) learned: Option<Arc<Learned>>,
    /// For the first attempt.
    pub(super) early: Cell<Option<Early>>,
    pub(super) machine: &'a Machine,
}

/// A session that failed, and whether the sandbox stood by then.
pub(super) struct Broken {
    pub(super) error: SessionError,
    pub(super) stood: bool,
}

impl Launch<'_> {
    /// Runs to the end. Tries the stronger network set-up first, and the weaker only where the session says that nothing has
    /// been started and that it may work (D6).
    pub(super) fn run(&self, chosen: &Chosen) -> Result<Outcome, Fault> {
        // The session keeps every signal blocked after a failure; a second attempt must not hand that on to the command.
        let mask = SigSet::thread_get_mask().ok();
        let restore = || mask.as_ref().map(SigSet::thread_set_mask);
        let net = render::net_setup(chosen, self.ready.plan.network.mode);
        let mut result = self.attempt(chosen, net);
        if let Err(Broken {
            error,
            stood: false,
        }) = &result
            && let Some(other) = error.retry
            && let Some(next) = next(chosen)
            && (other != net || next != *chosen)
        {
            restore();
            result = self.attempt(&next, other);
        }
        match result {
            Ok(outcome) => Ok(outcome),
            Err(broken) => {
                restore();
                self.after_failure(broken, chosen)
            }
        }
    }

    /// A sandbox that could not be made: with `sandbox = on`, and only where the probe agrees that this host has none, the
    /// command runs without one, loudly (R12). Otherwise the real reason.
    fn after_failure(&self, broken: Broken, chosen: &Chosen) -> Result<Outcome, Fault> {
        let Broken { mut error, stood } = broken;
        if stood || matches!(chosen, Chosen::None(_)) {
            return Err(error.into());
        }
        let on = self.ready.loaded.policy.sandbox == SandboxMode::On;
        if error.host_refuses
            && let Some(last) = self.last_rung(chosen)
        {
            if on {
                self.report.status(&engine::last_line(&error.message));
                return self
                    .attempt(&last, NetSetup::Host)
                    .map_err(|b| b.error.into());
            }
            error.hint = error.hint.as_deref().map(engine::or_last);
        }
        // The session names the causes it knows; the probe knows more, but takes a while.
        if error.hint.is_some() && !on {
            return Err(error.into());
        }
        let asked = self.ready.loaded.policy.engine;
        let Some(cause) = diagnose::cause(&self.ready.host.exe, self.machine, asked) else {
            return Err(error.into());
        };
        if !on {
            return Err(engine::no_sandbox(cause).into());
        }
        let line = engine::missing_line(&cause.message, cause.hint.as_deref());
        self.report.status(&line);
        self.attempt(&Chosen::None(line), NetSetup::Host)
            .map_err(|b| b.error.into())
    }

    /// Engine `landlock`, where nobody asked for another one and it can hold the plan.
    fn last_rung(&self, chosen: &Chosen) -> Option<Chosen> {
        let policy = &self.ready.loaded.policy;
        if policy.engine != EngineChoice::Auto
            || !matches!(chosen, Chosen::Builtin(_) | Chosen::Bwrap(_))
        {
            return None;
        }
        let last = engine::landlock(policy).ok()?;
        engine::holds(&self.ready.plan, policy, &last).ok()?;
        Some(last)
    }

    fn attempt(&self, chosen: &Chosen, net: NetSetup) -> Result<Outcome, Broken> {
        if self.machine.is_mac() {
            return seatbelt::attempt(self, chosen);
        }
        let plan = &self.ready.plan;
        let listen = match net {
            NetSetup::PreStage | NetSetup::Inner => ports(&plan.network.forwarded_ports),
            NetSetup::Host => Vec::new(),
        };
        let front = self.front(chosen)?;
        let guests = front.as_ref().map(|f| Arc::clone(&f.guests));
        let invocation = self.invocation(chosen, net);
        if self.report.verbosity() >= Verbosity::Debug {
            let line = match &invocation.engine {
                Engine::Builtin => "builtin".to_owned(),
                Engine::Landlock { tmp } => format!("landlock, $TMPDIR {}", tmp.display()),
                Engine::Bwrap { .. } | Engine::None => render::argv(&invocation),
            };
            self.report.debug(&format!("backend: {line}"));
            for line in render::premounts(&invocation) {
                self.report.debug(&format!("before the backend: {line}"));
            }
        }
        let stood = Cell::new(false);
        let book =
            (net == NetSetup::PreStage && !plan.network.catch.is_empty()).then(Book::default);
        let own_book = book.clone().unwrap_or_default();
        let config = SessionConfig {
            net,
            catch: catch::setup(&plan.network.catch, &listen),
            listen,
            early: self.early.take(),
            keep_fds: self.keep_fds.to_vec(),
            state_dirs: match chosen {
                Chosen::Builtin(_) | Chosen::Bwrap(_) => plan.state_dirs.clone(),
                Chosen::Landlock(_) | Chosen::Seatbelt | Chosen::None(_) => Vec::new(),
            },
            group: self.limits.group.clone(),
            wall: self.limits.wall,
            broker: self.broker(chosen, book).map(|setup| BrokerSetup {
                guests: guests.clone(),
                ..setup
            }),
            serves_at_once: front.is_some(),
            on_listeners: Box::new(|doors| {
                let sink: Arc<dyn Sink> = self.report.clone();
                Ok(Box::new(ProxySet::start(
                    self.proxies(doors, own_book, front)?,
                    sink,
                )?))
            }),
            witness: Some(Arc::new(Reads::new(plan, self.report))),
            on_ready: Box::new(|e| {
                stood.set(true);
                self.announce_ready(chosen, e);
            }),
            on_stop: Box::new(|stopped| tell_stop(self.report, stopped)),
        };
        session::run(invocation, config).map_err(|error| Broken {
            error,
            stood: stood.get(),
        })
    }

    /// The listeners of a run that shares the host's network and may use it by the proxies alone.
    fn front(&self, chosen: &Chosen) -> Result<Option<Front>, Broken> {
        let network = &self.ready.plan.network;
        if !matches!(chosen, Chosen::Landlock(_)) || network.mode != NetworkMode::Filtered {
            return Ok(None);
        }
        let front = Front::open(&ports(&network.forwarded_ports));
        front.map(Some).map_err(|e| Broken {
            error: SessionError::new(format!(
                "cannot listen for the proxies: {}",
                crate::exit::reason(&e)
            )),
            stood: false,
        })
    }

    /// What the plan asks of the creation broker.
    fn broker(&self, chosen: &Chosen, names: Option<Book>) -> Option<BrokerSetup> {
        let plan = match chosen {
            Chosen::Builtin(_) | Chosen::Bwrap(_) => Arc::clone(self.ready.plan.broker.as_ref()?),
            Chosen::Landlock(tmp) => Arc::new(landlock::broker(&self.ready.plan, tmp)?),
            Chosen::Seatbelt | Chosen::None(_) => return None,
        };
        Some(BrokerSetup {
            plan,
            guests: None,
            sink: Arc::new(
                Writes::new(&self.ready.plan, &self.ready.host.home_real, self.report)
                    .with_names(names)
                    .logging(self.access.clone())
                    .learning(self.learned.clone()),
            ),
        })
    }

    fn invocation(&self, chosen: &Chosen, net: NetSetup) -> Invocation {
        let (plan, policy) = (&self.ready.plan, &self.ready.loaded.policy);
        let wants_version = self.report.verbosity() >= Verbosity::Verbose;
        let mut out = render::invocation(self.ready, chosen, net, wants_version);
        out.inner.own_group = self.own_group;
        out.inner.limits.clone_from(&self.limits.own);
        let mut changes = match net {
            NetSetup::PreStage | NetSetup::Inner => rooms::proxy_env(self.ready),
            NetSetup::Host if plan.network.mode == NetworkMode::Off => Changes {
                // There is nothing that the caller's proxies could be reached by.
                set: Vec::new(),
                ..rooms::proxy_env(self.ready)
            },
            NetSetup::Host
                if matches!(chosen, Chosen::Landlock(_))
                    && plan.network.mode == NetworkMode::Filtered =>
            {
                rooms::proxy_env(self.ready)
            }
            NetSetup::Host => Changes::default(),
        };
        // access(2) says that a hidden file is there, and a git that then cannot open its configuration gives up.
        let shown = out.inner.alone.as_ref().and_then(|a| a.view.as_ref());
        let own = |(name, _): &(OsString, OsString)| name == GIT_CONFIG;
        let config = self.ready.host.home_real.join(".gitconfig");
        if shown.is_some_and(|list| !list.shows(&config)) && !out.inner.env.iter().any(own) {
            changes.set.push((GIT_CONFIG.into(), "/dev/null".into()));
        }
        let private_tmp = !matches!(chosen, Chosen::None(_)) && !plan.fs_disabled;
        let own_choice = policy.env.set.iter().any(|e| e.value.0 == "TMPDIR");
        let marks = Marks {
            backend: chosen.backend(),
            session_id: self.session_id,
            cwd: &plan.cwd,
            tmpdir: (private_tmp && !own_choice).then_some(match chosen {
                Chosen::Landlock(tmp) => tmp.as_path(),
                Chosen::Builtin(_) | Chosen::Bwrap(_) | Chosen::Seatbelt | Chosen::None(_) => {
                    Path::new(PRIVATE_TMP)
                }
            }),
        };
        out.inner.env = child_env::finish(std::mem::take(&mut out.inner.env), changes, marks);
        out
    }

    fn proxies(&self, doors: Doors, book: Book, front: Option<Front>) -> io::Result<ProxyConfig> {
        let network = &self.ready.plan.network;
        let admit: Option<Arc<dyn Admit>> = match &front {
            Some(front) => Some(Arc::<Guests>::clone(&front.guests)),
            None => None,
        };
        let (listeners, forwards) = match front {
            Some(front) => front.sorted(&network.forwarded_ports),
            None => sort(doors.listeners, &network.forwarded_ports)?,
        };
        let listen = ports(&network.forwarded_ports);
        let catch = doors.catch.map(|sockets| Catch {
            by_address: catch::by_address(&network.catch.ports, &listen),
            book,
            ..sockets
        });
        Ok(ProxyConfig {
            egress: network.egress.clone(),
            upstream: network.upstream.clone(),
            user_ports: network.user_ports.clone(),
            listeners,
            forwards,
            catch,
            token: None,
            hint_file: network.hint_file.clone(),
            identify: Some(doors.identify),
            admit,
            access: self.access.clone(),
        })
    }

    pub(super) fn announce_ready(&self, chosen: &Chosen, e: &Enforced) {
        let mut words = enforced::words(&self.ready.plan, chosen, e);
        words.extend(self.limits.enforced());
        if !matches!(chosen, Chosen::None(_)) {
            let line = format!("sandbox ON ({}, {})", chosen.backend(), e.engine);
            self.report.verbose(&line);
        }
        self.report
            .verbose(&format!("enforced: {}", words.join(" ")));
        self.report.event(&Event::Ready {
            state: State::Active,
            handle: Handle {
                session_id: self.session_id.to_owned(),
                backend: chosen.backend(),
                engine: e.engine.clone(),
                state: State::Active,
                error: None,
                details: words,
            },
        });
        // Nobody has written yet.
        if let Some(capture) = &self.capture {
            capture.start(self.report);
        }
    }
}

/// Tells that the run as a whole was stopped, or goes on.
pub(super) fn tell_stop(report: &Reporter, stopped: bool) {
    report.event(&if stopped {
        Event::Stopped {
            state: State::Suspended,
        }
    } else {
        Event::Continued {
            state: State::Active,
        }
    });
}

/// With which engine the weaker network set-up may work.
fn next(chosen: &Chosen) -> Option<Chosen> {
    match chosen {
        Chosen::Builtin(bwrap) => bwrap.clone().map(Chosen::Bwrap),
        Chosen::Bwrap(_) => Some(chosen.clone()),
        Chosen::Landlock(_) | Chosen::Seatbelt | Chosen::None(_) => None,
    }
}

/// The proxies' listeners, and those of forwarded ports with the port.
type Sorted = (Vec<TcpListener>, Vec<(TcpListener, u16)>);

/// The proxies' listeners, and those of forwarded ports (semantics 42) with the port. By the port each is bound to: how many
/// there are for a port depends on whether the kernel has IPv6.
fn sort(sockets: Vec<TcpListener>, forwarded: &[u16]) -> io::Result<Sorted> {
    let mut listeners = Vec::new();
    let mut forwards = Vec::new();
    for socket in sockets {
        let port = socket.local_addr()?.port();
        if forwarded.contains(&port) {
            forwards.push((socket, port));
        } else {
            listeners.push(socket);
        }
    }
    Ok((listeners, forwards))
}

/// The loopback ports to listen on inside, the proxies' first.
fn ports(forwarded: &[u16]) -> Vec<u16> {
    std::iter::once(proxy_port(forwarded))
        .chain(forwarded.iter().copied())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proxies_port_comes_first_and_is_no_forwarded_one() {
        assert_eq!(ports(&[8080, 5432]), [3128, 8080, 5432]);
        assert_eq!(ports(&[3128, 3129]), [3130, 3128, 3129]);
    }

    #[test]
    fn listeners_are_told_apart_by_their_port() {
        let bind = |ip: &str| TcpListener::bind((ip, 0)).unwrap();
        // Without IPv6 there is one for each port, not two.
        let (proxy, forward) = (bind("127.0.0.1"), bind("127.0.0.1"));
        let port = forward.local_addr().unwrap().port();
        let (listeners, forwards) = sort(vec![proxy, forward], &[port]).unwrap();
        assert_eq!(listeners.len(), 1);
        assert_eq!(forwards.len(), 1);
        assert_eq!(forwards[0].0.local_addr().unwrap().port(), port);
    }

    #[test]
    fn one_packet_carries_the_listeners_of_every_plan() {
        let most = 2 * (crate::plan::MAX_FORWARDED + 1);
        assert!(most <= crate::sys::fds::MAX_PASSED);
    }
}
