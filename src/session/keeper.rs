//! Stays above the command: reaps, passes signals on, reports how it ended. Runs as pid 1 of the sandbox, and without
//! an engine as the process that holds the tree together.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use super::relay::Ledger;
use super::wire::{self, Order, Report};
use crate::sys::process::{Change, WaitFor, wait};
use crate::sys::signals::{self, SignalFd};
use crate::sys::{fds, process, tty};

/// Watches over `command` until it ends, of which ccbox is told, or ccbox does. All catchable signals are blocked and
/// arrive at `events`.
pub(super) fn keep(
    control: &OwnedFd,
    events: &SignalFd,
    command: i32,
    own_group: bool,
) -> io::Result<()> {
    let mut ledger = Ledger::default();
    let mut command = Command {
        pid: command,
        stops: 0,
        stopped: false,
    };
    // Copies from before the fork say nothing about what the command got. A SIGCHLD among them may be the command's
    // end already, so there is always one look for changes before the first wait.
    while events.next()?.is_some() {}
    loop {
        // SIGCHLD coalesces and may be swallowed by other news: look for every change there is.
        if let Some(end) = command.reap(control)? {
            wire::say(control, &end, &[])?;
            return Ok(());
        }
        let [order, signal] = fds::poll(
            [control.as_fd(), events.as_fd()],
            ledger.wait(Instant::now()),
        )?;
        if signal.readable {
            copies(events, &mut ledger)?;
        }
        if order.readable {
            match wire::hear::<Order>(control)? {
                None => return Ok(()),
                // What came to this group has not come to the command's.
                Some((Order::Relay(n), _)) if own_group => signals::send(command.pid, n)?,
                Some((Order::Relay(n), _)) => ledger.asked(n, Instant::now()),
                Some((Order::Resume { nth, foreground }, _)) => {
                    // The latest news first: a SIGCONT too many would wipe out a stop signal that has just been sent.
                    if let Some(end) = command.reap(control)? {
                        wire::say(control, &end, &[])?;
                        return Ok(());
                    }
                    if command.stopped && command.stops == nth {
                        if own_group && foreground {
                            tty::give_foreground(command.pid);
                        }
                        signals::send(command.pid, libc::SIGCONT)?;
                    }
                }
                Some((Order::Go, _)) => {}
            }
        }
        let now = Instant::now();
        if ledger.wait(now).is_some_and(|left| left.is_zero()) {
            // This process may have slept longer than it wanted to: a copy that came meanwhile counts.
            copies(events, &mut ledger)?;
        }
        for n in ledger.due(now) {
            signals::send(command.pid, n)?;
        }
    }
}

/// Notes which signals this process got itself.
fn copies(events: &SignalFd, ledger: &mut Ledger) -> io::Result<()> {
    while let Some(n) = events.next()? {
        if n != libc::SIGCHLD {
            ledger.own_copy(n, Instant::now());
        }
    }
    Ok(())
}

struct Command {
    pid: i32,
    /// How often it has been stopped.
    stops: u32,
    stopped: bool,
}

impl Command {
    /// Reaps whatever has changed, of the command and of orphans; the command's end as a report.
    fn reap(&mut self, control: &OwnedFd) -> io::Result<Option<Report>> {
        while let Some((pid, change)) = wait(-1, WaitFor::AnyNow)? {
            if pid != self.pid {
                continue;
            }
            match change {
                Change::Exited(code) => return Ok(Some(Report::Exited(code))),
                Change::Signalled(n) => return Ok(Some(Report::Signalled(n))),
                Change::Stopped(signal) => {
                    self.stops = self.stops.wrapping_add(1);
                    self.stopped = true;
                    let nth = self.stops;
                    wire::say(control, &Report::Stopped { signal, nth }, &[])?;
                }
                Change::Continued => {
                    self.stopped = false;
                    wire::say(control, &Report::Continued, &[])?;
                }
            }
        }
        Ok(None)
    }
}

/// Kills every descendant of this process, which must be a child subreaper: as a parent dies its children become ours,
/// until there is none.
pub(super) fn kill_descendants() -> io::Result<()> {
    loop {
        for pid in process::children()? {
            signals::send(pid, libc::SIGKILL)?;
        }
        if wait(-1, WaitFor::End)?.is_none() {
            return Ok(());
        }
    }
}
