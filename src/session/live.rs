//! The run as ccbox sees it: waits for the inner stage, starts the command, passes signals on, sees the end.

use std::any::Any;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::caller::{DefaultAction, Signals, Terminal, default_action};
use super::covers::{Covered, Covers, Witness};
use super::errors;
use super::group::Group;
use super::peers::Peers;
use super::supervision::Supervision;
use super::wire::{self, Order, Report};
use super::{BrokerSetup, Doors, Ending, Enforced, OnListeners, Outcome, Reads, SessionError};
use crate::backend::NetSetup;
use crate::sys::process::{self, WaitFor, wait};
use crate::sys::{fds, prctl, signals};

/// How long a command that was asked to end by SIGTERM may take before it is killed (PR-3).
pub const GRACE: Duration = Duration::from_secs(10);
/// The same for a command whose time is over (`limits.wall_seconds`).
const LAST_WORDS: Duration = Duration::from_secs(2);
/// What is kept of the engine's own words.
const ENGINE_WORDS: u64 = 2048;

/// The process below ccbox and the sockets that keep it alive. Dropping ends the run and waits for its last process.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) child: Pid,
    pub(super) control: Option<OwnedFd>,
    /// Where the command's process hands its listener over, with a floor.
    pub(super) door: Option<OwnedFd>,
    /// Of a guard: each side sees here that the other is gone.
    pub(super) lifeline: Option<OwnedFd>,
    /// `child` is a guard or keeper, which cleans up when it ends; these are left if it was killed. Without, `child` is
    /// pid 1 of a process namespace.
    pub(super) orphans: Option<Orphans>,
    pub(super) engine_stderr: Option<OwnedFd>,
}

/// Processes that become ccbox's children because the one that should have cared for them was killed.
#[derive(Debug)]
pub(super) struct Orphans {
    /// Children from before ccbox was executed; they are the caller's business.
    before: Vec<i32>,
}

impl Orphans {
    /// From now on orphans of the run come to this process.
    pub(super) fn adopt() -> io::Result<Self> {
        let before = process::children()?;
        prctl::adopt_orphans()?;
        Ok(Self { before })
    }

    /// Kills until there is none.
    fn kill(&self) -> io::Result<()> {
        loop {
            let mut orphans = process::children()?;
            orphans.retain(|pid| !self.before.contains(pid));
            if orphans.is_empty() {
                return Ok(());
            }
            for pid in orphans {
                signals::send(pid, libc::SIGKILL)?;
                wait(pid, WaitFor::End)?;
            }
        }
    }
}

/// What ends the run beside its command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits<'a> {
    /// How long it may take.
    pub(super) wall: Option<Duration>,
    /// The command's processor time is limited.
    pub(super) cpu: bool,
    /// Its control group.
    pub(super) group: Option<&'a Group>,
}

/// What the run needs to call back.
pub(super) struct Hooks<'a> {
    pub(super) serves_at_once: bool,
    pub(super) on_listeners: OnListeners<'a>,
    pub(super) on_ready: Box<dyn FnOnce(&Enforced) + 'a>,
    pub(super) on_stop: Box<dyn Fn(bool) + 'a>,
    pub(super) limits: Limits<'a>,
    /// What the pre-stage hides.
    pub(super) covered: Vec<Covered>,
    pub(super) witness: Option<Arc<dyn Witness>>,
    pub(super) broker: Option<BrokerSetup>,
    pub(super) enforced: Enforced,
}

impl Live {
    /// Runs to the end of the command; everything of the run is gone when this returns.
    pub(super) fn run(
        mut self,
        signals: &Signals,
        terminal: Option<Terminal>,
        mut hooks: Hooks<'_>,
    ) -> Result<Outcome, SessionError> {
        let on_stop = std::mem::replace(&mut hooks.on_stop, Box::new(|_| {}));
        let control = self
            .control
            .take()
            .ok_or_else(|| errors::lost("no control socket"))?;
        let door = self.door.take();
        let mut watch = Watch {
            control: &control,
            child: self.child,
            lifeline: self.lifeline.as_ref(),
            signals,
            terminal,
            deadline: None,
            started: false,
            stops: 0,
            served: None,
            supervision: Supervision::None,
            net: hooks.enforced.net,
            covers: None,
            on_stop: &*on_stop,
            limits: hooks.limits,
            wall: None,
            over: false,
        };
        let end = watch.until_end(door, hooks);
        let (terminal, started, net) = (watch.terminal.take(), watch.started, watch.net);
        let (served, supervision) = (watch.served.take(), std::mem::take(&mut watch.supervision));
        let unanswered = supervision.has_failed();
        drop(control);
        self.end();
        // Not before there is nobody left to be served by proxies and broker; while the kernel takes the namespaces apart.
        drop((served, supervision));
        self.finish();
        if let Some(terminal) = terminal {
            terminal.hand_back();
        }
        match end? {
            End::Outcome(outcome) => Ok(outcome),
            End::Failed(failure) => Err(errors::describe(&failure, net)),
            End::Silence if unanswered => Err(errors::unanswered()),
            End::Silence if started => Err(errors::lost("it was killed from outside")),
            End::Silence if self.engine_stderr.is_none() => {
                Err(errors::lost("its first process was killed"))
            }
            End::Silence => Err(errors::engine_failed(&self.engine_words(), net)),
        }
    }

    /// Ends whatever is left.
    fn end(&mut self) {
        self.control = None;
        self.lifeline = None;
        if self.orphans.is_none() {
            // SIGKILL of pid 1 makes the kernel kill its whole process namespace, and wait(2) comes back after that.
            let _ = signals::send(self.child.as_raw(), libc::SIGKILL);
        }
    }

    /// Waits for what [`Self::end`] has ended.
    fn finish(&mut self) {
        let _ = wait(self.child.as_raw(), WaitFor::End);
        if let Some(orphans) = self.orphans.take() {
            // /proc is there, or the run would not have begun; what cannot be killed cannot be helped.
            let _ = orphans.kill();
        }
    }

    /// What the engine said before it gave up.
    fn engine_words(&mut self) -> String {
        let Some(fd) = self.engine_stderr.take() else {
            return String::new();
        };
        let mut file = File::from(fd);
        let mut words = Vec::new();
        if file.rewind().is_ok() {
            let _ = file.take(ENGINE_WORDS).read_to_end(&mut words);
        }
        String::from_utf8_lossy(&words).trim().to_owned()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // After `run` the child is reaped and this finds nothing; before, it ends a run that did not come to that.
        if self.control.is_some() {
            self.end();
            self.finish();
        }
    }
}

/// How the conversation ended.
enum End {
    Outcome(Outcome),
    Failed(wire::SetupFailure),
    /// The other side is gone without a last word.
    Silence,
}

struct Watch<'a> {
    control: &'a OwnedFd,
    lifeline: Option<&'a OwnedFd>,
    signals: &'a Signals,
    terminal: Option<Terminal>,
    /// When the command will be killed.
    deadline: Option<Instant>,
    started: bool,
    /// The command's latest stop.
    stops: u32,
    /// What serves the listeners, kept for the length of the run.
    served: Option<Box<dyn Any>>,
    /// Supervision by the broker.
    supervision: Supervision,
    net: Option<NetSetup>,
    /// What answers for hidden objects.
    covers: Option<Covers>,
    /// What ccbox started.
    child: Pid,
    on_stop: &'a dyn Fn(bool),
    limits: Limits<'a>,
    /// When the time of the run is over.
    wall: Option<Instant>,
    /// It is over, and the command was asked to end.
    over: bool,
}

impl Watch<'_> {
    fn until_end(&mut self, door: Option<OwnedFd>, hooks: Hooks<'_>) -> Result<End, SessionError> {
        self.supervision = Supervision::new(door, hooks.broker)?;
        let mut on_listeners = Some(hooks.on_listeners);
        if let Some(serve) = on_listeners.take_if(|_| hooks.serves_at_once) {
            let doors = Doors {
                listeners: Vec::new(),
                catch: None,
                identify: Arc::new(Peers::below(self.child.as_raw())),
            };
            self.served = Some(serve(doors).map_err(errors::proxies)?);
        }
        let mut ready = Some((hooks.on_ready, hooks.enforced));
        let (covered, witness) = (hooks.covered, hooks.witness);
        let mut caught = super::caught::Passed::default();
        let mut stands = false;
        loop {
            let next = self.deadline.into_iter().chain(self.wall).min();
            let timeout = next.map(|d| d.saturating_duration_since(Instant::now()));
            // The control socket in the place of what is not there changes nothing.
            let control = self.control.as_fd();
            let device = self.covers.as_ref().and_then(Covers::device);
            let [report, signal, guard, door, asked] = fds::poll(
                [
                    control,
                    self.signals.as_fd(),
                    self.lifeline.map_or(control, AsFd::as_fd),
                    self.supervision.door().unwrap_or(control),
                    device.unwrap_or(control),
                ],
                timeout,
            )
            .map_err(errors::resources)?;
            let asked = device.is_some() && asked.readable;
            if let Some(covers) = self.covers.as_mut().filter(|_| asked) {
                covers.step();
            }
            if signal.readable {
                while let Some(n) = self.signals.next().map_err(errors::resources)? {
                    if let Some(end) = self.signal(n) {
                        return Ok(end);
                    }
                }
            }
            if report.readable {
                let heard = wire::hear::<Report>(self.control).map_err(|e| {
                    errors::lost(&format!(
                        "its answer makes no sense ({})",
                        crate::exit::reason(&e)
                    ))
                })?;
                let Some((report, mut passed)) = heard else {
                    return Ok(self.silence());
                };
                if report == Report::Covers
                    && let Some(device) = passed.pop()
                {
                    let (list, witness) = (covered.clone(), witness.clone());
                    let top = self.child.as_raw();
                    self.covers = Some(Covers::new(device, list, top, witness));
                }
                caught.take(&report, &mut passed);
                if !passed.is_empty()
                    && let Some(serve) = on_listeners.take()
                {
                    let doors = Doors {
                        listeners: passed.into_iter().map(TcpListener::from).collect(),
                        catch: std::mem::take(&mut caught).adopt(),
                        identify: Arc::new(Peers::below(self.child.as_raw())),
                    };
                    self.served = Some(serve(doors).map_err(errors::proxies)?);
                }
                match report {
                    Report::Covers
                    | Report::Caught { .. }
                    | Report::Spare
                    | Report::Listeners
                    | Report::Continued => {}
                    Report::Failed(failure) => return Ok(End::Failed(failure)),
                    Report::Ready { landlock_abi } => {
                        if let Some((_, enforced)) = &mut ready {
                            enforced.landlock_abi = landlock_abi;
                            enforced.reads = (!covered.is_empty()).then_some(
                                match self.covers.as_ref().and_then(Covers::device) {
                                    Some(_) => Reads::Covers,
                                    None => Reads::Placeholders,
                                },
                            );
                        }
                        stands = true;
                    }
                    Report::Exited(_) | Report::Signalled(_) if !self.started => {
                        return Err(errors::lost("its first process was killed"));
                    }
                    Report::NotStarted(errno) => {
                        return Ok(End::Outcome(Outcome::NotStarted { errno }));
                    }
                    Report::Exited(code) => return Ok(End::Outcome(self.exited(code))),
                    Report::Signalled(n) => return Ok(End::Outcome(self.signalled(n))),
                    Report::Stopped { signal, nth } => self.stop_too(signal, nth),
                }
            } else if guard.hung_up {
                // Everything that was said before has been heard.
                return Ok(self.silence());
            } else if door.readable && self.supervision.door().is_some() {
                self.supervision.take(self.child)?;
            }
            if stands
                && self.supervision.complete()
                && let Some((on_ready, mut enforced)) = ready.take()
            {
                enforced.broker = self.supervision.broker();
                on_ready(&enforced);
                self.started = true;
                // What is beyond the clock never comes.
                self.wall = self.limits.wall.and_then(|w| Instant::now().checked_add(w));
                match enforced.broker {
                    Some(_) => self.supervision.permit(),
                    None => self.order(Order::Go),
                }
                if let Some(covers) = &mut self.covers {
                    covers.start_thread().map_err(errors::resources)?;
                }
            }
            if self.deadline.is_some_and(|d| d <= Instant::now()) {
                return Ok(End::Outcome(Outcome::Limited {
                    limit: if self.over {
                        Ending::Wall
                    } else {
                        Ending::Grace
                    },
                    signal: libc::SIGKILL,
                }));
            }
            if self.wall.is_some_and(|d| d <= Instant::now()) {
                self.time_is_over();
            }
        }
    }

    /// Asks the command to end, and kills it if it does not soon.
    fn time_is_over(&mut self) {
        self.wall = None;
        self.over = true;
        self.order(Order::Relay(libc::SIGTERM));
        let soon = Instant::now() + LAST_WORDS;
        self.deadline = Some(self.deadline.map_or(soon, |d| d.min(soon)));
    }

    fn exited(&self, code: u8) -> Outcome {
        if self.over {
            return Outcome::Limited {
                limit: Ending::Wall,
                signal: libc::SIGTERM,
            };
        }
        Outcome::Exited(code)
    }

    fn signalled(&self, signal: i32) -> Outcome {
        let limit = if self.over {
            Ending::Wall
        } else if self.limits.cpu && signal == libc::SIGXCPU {
            Ending::Cpu
        } else if signal == libc::SIGKILL && self.out_of_memory() {
            Ending::Memory
        } else {
            return Outcome::Signalled(signal);
        };
        Outcome::Limited { limit, signal }
    }

    fn out_of_memory(&self) -> bool {
        self.limits.group.is_some_and(Group::ran_out_of_memory)
    }

    /// Nobody is left to say anything: where the control group killed them all, it is known why.
    fn silence(&self) -> End {
        if self.started && self.out_of_memory() {
            return End::Outcome(Outcome::Limited {
                limit: Ending::Memory,
                signal: libc::SIGKILL,
            });
        }
        End::Silence
    }

    /// A lost socket is noticed where it is read.
    fn order(&self, order: Order) {
        let _ = wire::say(self.control, &order, &[]);
    }

    /// ccbox got a signal.
    fn signal(&mut self, n: i32) -> Option<End> {
        let ignored = self.signals.ignored.contains(n);
        if !self.started {
            // Nobody is there yet to decide about it, so it has the effect it would have on the command's process.
            return match default_action(n) {
                DefaultAction::Terminate if !ignored => Some(End::Outcome(Outcome::Signalled(n))),
                DefaultAction::Stop if !ignored => {
                    let since = Instant::now();
                    // Comes back when continued.
                    let _ = signals::raise_default(n);
                    self.resumed(since);
                    None
                }
                DefaultAction::Terminate | DefaultAction::Stop | DefaultAction::Ignore => None,
            };
        }
        match n {
            libc::SIGCONT => self.resume(self.stops),
            // The terminal sends these to the whole group; ccbox follows the command into the stop.
            libc::SIGTTIN | libc::SIGTTOU => {}
            _ => self.order(Order::Relay(n)),
        }
        if n == libc::SIGTERM && !ignored && self.deadline.is_none() {
            self.deadline = Some(Instant::now() + GRACE);
        }
        None
    }

    /// The command stopped, so ccbox does: its parent's job control sees what it would see unwrapped.
    ///
    /// The news may be stale, or somebody may continue the command alone. So whatever is said on the control socket from
    /// here on continues ccbox, too: the stop signal is pending first, then the socket is armed, then looked at; the
    /// SIGCONT of a later word takes the pending stop with it.
    fn stop_too(&mut self, signal: i32, nth: u32) {
        self.stops = nth;
        // Nobody at a terminal stopped it, and a command that stops itself does not stop the clock.
        if self.wall.is_some() && !self.terminal.as_ref().is_some_and(Terminal::is_ours) {
            return;
        }
        let since = Instant::now();
        // SIGSTOP cannot be pending, and job control treats both the same.
        let signal = if signal == libc::SIGSTOP {
            libc::SIGTSTP
        } else {
            signal
        };
        let news =
            || fds::poll([self.control.as_fd()], Some(Duration::ZERO)).is_ok_and(|[s]| s.readable);
        (self.on_stop)(true);
        // Stopped, it must not hold what other runs wait for.
        let quiet = self.supervision.quiet();
        // What goes wrong here leaves ccbox running while the command is stopped, which is no harm.
        let _ = signals::stop_unless(signal, || {
            fds::continue_on_input(self.control, true).is_err() || news()
        });
        drop(quiet);
        let _ = fds::continue_on_input(self.control, false);
        (self.on_stop)(false);
        self.resumed(since);
        if !news() {
            self.resume(nth);
        }
    }

    /// The command goes on, if it is still in this stop.
    fn resume(&self, nth: u32) {
        let foreground = self.terminal.as_ref().is_some_and(Terminal::is_ours);
        self.order(Order::Resume { nth, foreground });
    }

    fn resumed(&mut self, since: Instant) {
        if let Some(terminal) = &mut self.terminal {
            terminal.resumed();
        }
        // Time spent stopped is not the command's.
        for end in self.deadline.iter_mut().chain(&mut self.wall) {
            *end += since.elapsed();
        }
    }
}

impl std::fmt::Debug for Hooks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks")
            .field("enforced", &self.enforced)
            .finish_non_exhaustive()
    }
}
