//! From the word to go to the command's end: its stops, its end, and the signals that it still needs.

use std::io::{self, Read};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Instant;

use super::Started;
use super::guard::{self, Guard};
use super::leftovers;
use super::signals::Arriving;
use crate::session::caller::Terminal;
use crate::session::live::GRACE;
use crate::session::relay::Ledger;
use crate::session::{Outcome, SessionError, errors};
use crate::sys::family;
use crate::sys::process::{Change, WaitFor, wait};
use crate::sys::signals;

/// What happens during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// A signal came to ccbox.
    Signal(i32),
    /// A signal came to the group.
    Group(i32),
    /// The command's process changed.
    Command(Change),
    /// It could not be started.
    NotStarted(i32),
}

pub(super) fn until_end(
    mut started: Started,
    mut guard: Guard,
    helper: Option<u32>,
    arriving: &Arriving,
    mut terminal: Option<Terminal>,
) -> Result<Outcome, SessionError> {
    let (send, news) = mpsc::channel();
    let command = i32::try_from(started.child.id())
        .map_err(io::Error::other)
        .map_err(errors::resources)?;
    Arriving::listen(send.clone()).map_err(errors::resources)?;
    guard.listen(send.clone()).map_err(errors::resources)?;
    let status = started.status.try_clone().map_err(errors::resources)?;
    follow(command, status, send).map_err(errors::resources)?;

    let roots = leftovers::roots(command);
    let mut ledger = Ledger::default();
    let mut deadline: Option<Instant> = None;
    let mut errno = None;
    let outcome = loop {
        let now = Instant::now();
        let limit = [
            ledger.wait(now),
            deadline.map(|d| d.saturating_duration_since(now)),
        ]
        .into_iter()
        .flatten()
        .min();
        let heard = match limit {
            None => news.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(limit) => news.recv_timeout(limit),
        };
        let now = Instant::now();
        match heard {
            Ok(News::Signal(n)) if ![libc::SIGTTIN, libc::SIGTTOU].contains(&n) => {
                ledger.asked(n, now);
                if n == libc::SIGTERM && !arriving.ignored.contains(n) && deadline.is_none() {
                    deadline = Some(now + GRACE);
                }
            }
            Ok(News::Group(n)) => ledger.own_copy(n, now),
            Ok(News::NotStarted(n)) => errno = Some(n),
            Ok(News::Command(Change::Stopped(signal))) => {
                let since = Instant::now();
                // SIGSTOP cannot be pending, and job control treats both the same.
                let signal = if signal == libc::SIGSTOP {
                    libc::SIGTSTP
                } else {
                    signal
                };
                // What goes wrong here leaves ccbox running while the command is stopped, which is no harm.
                let _ = guard.stop_too(signal, command);
                if let Some(terminal) = &mut terminal {
                    terminal.resumed();
                }
                // Time spent stopped is not the command's.
                deadline = deadline.map(|d| d + since.elapsed());
                // Whoever continued ccbox alone meant the command.
                if family::is_stopped(command) {
                    signals::send(command, libc::SIGCONT).map_err(errors::resources)?;
                }
            }
            Ok(News::Command(Change::Exited(code))) => {
                break errno.map_or(Outcome::Exited(code), |errno| Outcome::NotStarted { errno });
            }
            Ok(News::Command(Change::Signalled(n))) => break Outcome::Signalled(n),
            // The terminal sends these two to the whole group; ccbox follows the command into the stop.
            Ok(News::Signal(_) | News::Command(Change::Continued))
            | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(errors::lost("nobody watches it any more"));
            }
        }
        for n in ledger.due(now) {
            signals::send(command, n).map_err(errors::resources)?;
        }
        if deadline.is_some_and(|d| d <= now) {
            deadline = None;
            signals::send(command, libc::SIGKILL).map_err(errors::resources)?;
        }
    };
    started.over = true;
    leftovers::end(roots, &guard::own(&guard, helper));
    drop(guard);
    if let Some(terminal) = terminal {
        terminal.hand_back();
    }
    Ok(outcome)
}

/// Tells first whether it started, then how it goes on.
fn follow(
    command: i32,
    mut status: impl Read + Send + 'static,
    news: Sender<News>,
) -> io::Result<()> {
    std::thread::Builder::new().spawn(move || {
        let mut errno = [0; 4];
        // The pipe closes without a word where the command has taken over.
        if status.read_exact(&mut errno).is_ok() {
            let _ = news.send(News::NotStarted(i32::from_ne_bytes(errno)));
        }
        loop {
            match wait(command, WaitFor::EndOrStop) {
                Ok(Some((_, change))) => {
                    if news.send(News::Command(change)).is_err()
                        || matches!(change, Change::Exited(_) | Change::Signalled(_))
                    {
                        return;
                    }
                }
                Ok(None) | Err(_) => return,
            }
        }
    })?;
    Ok(())
}
