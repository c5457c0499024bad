//! Stays above the command: reaps, passes signals on, reports how it ended. Runs as pid 1 of the sandbox, and without
//! an engine as the process that holds the tree together.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use super::relay::Ledger;
use super::wire::{self, Order, Report};
use crate::sys::process::{Change, WaitFor, wait};
use crate::sys::signals::{self, SignalFd};
use crate::sys::{fds, process};

/// Watches over `command` until it ends, of which ccbox is told, or ccbox does. All catchable signals are blocked and arrive at `events`.
pub(super) fn keep(control: &OwnedFd, events: &SignalFd, command: i32) -> io::Result<()> {
    let mut ledger = Ledger::default();
    let mut stopped = false;
    // Copies from before the fork say nothing about what the command got. A SIGCHLD among them may be the command's
    // end already, so there is always one look for changes before the first wait.
    while events.next()?.is_some() {}
    loop {
        // SIGCHLD coalesces and may be swallowed by other news: look for every change there is.
        if let Some(end) = reap(control, command, &mut stopped)? {
            wire::say(control, &end, &[])?;
            return Ok(());
        }
        let [order, signal] = fds::poll(
            [control.as_fd(), events.as_fd()],
            ledger.wait(Instant::now()),
        )?;
        if signal.readable {
            while let Some(n) = events.next()? {
                if n != libc::SIGCHLD {
                    ledger.own_copy(n, Instant::now());
                }
            }
        }
        if order.readable {
            match wire::hear::<Order>(control)? {
                None => return Ok(()),
                Some((Order::Relay(n), _)) => ledger.asked(n, Instant::now()),
                Some((Order::Resume, _)) => {
                    if stopped {
                        signals::send(command, libc::SIGCONT)?;
                    }
                }
                Some((Order::Go, _)) => {}
            }
        }
        for n in ledger.due(Instant::now()) {
            signals::send(command, n)?;
        }
    }
}

/// Reaps whatever has changed; the command's end as a report.
fn reap(control: &OwnedFd, command: i32, stopped: &mut bool) -> io::Result<Option<Report>> {
    while let Some((pid, change)) = wait(-1, WaitFor::AnyNow)? {
        if pid != command {
            continue;
        }
        match change {
            Change::Exited(code) => return Ok(Some(Report::Exited(code))),
            Change::Signalled(n) => return Ok(Some(Report::Signalled(n))),
            Change::Stopped(n) => {
                *stopped = true;
                wire::say(control, &Report::Stopped(n), &[])?;
            }
            Change::Continued => *stopped = false,
        }
    }
    Ok(None)
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
