//! What ccbox takes over from its caller and gives back: signals and the terminal.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::sys::signals::{self, SignalFd, SignalSet};
use crate::sys::tty;

/// The caller's signal settings, with all catchable signals now arriving as events.
#[derive(Debug)]
pub(super) struct Signals {
    /// Ignored when ccbox started (nohup, background jobs of a plain shell). SIGPIPE is left out: the Rust runtime
    /// has replaced its setting before `main`, and the command gets the default.
    pub(super) ignored: SignalSet,
    /// The mask when ccbox started.
    pub(super) mask: SignalSet,
    events: SignalFd,
}

/// What a signal does to a process that does not care for it (signal(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DefaultAction {
    Terminate,
    Ignore,
    Stop,
}

/// The default action of a catchable signal.
pub(super) fn default_action(signal: i32) -> DefaultAction {
    match signal {
        libc::SIGCHLD | libc::SIGURG | libc::SIGWINCH | libc::SIGCONT => DefaultAction::Ignore,
        libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => DefaultAction::Stop,
        _ => DefaultAction::Terminate,
    }
}

impl Signals {
    /// Blocks every catchable signal. It stays so until the process ends: what arrives after the command's end has
    /// nobody to go to.
    pub(super) fn take_over() -> io::Result<Self> {
        let mut ignored = signals::ignored();
        ignored.remove(libc::SIGPIPE);
        // A caller's low file size limit shall be an error with words, not the death of ccbox or of the engine.
        signals::set_ignored(libc::SIGXFSZ)?;
        let mask = signals::set_mask(SignalSet::catchable())?;
        // With SIGCHLD ignored the kernel reaps children itself and their status is lost (sigaction(2)).
        if ignored.contains(libc::SIGCHLD) {
            signals::set_default(libc::SIGCHLD)?;
        }
        let mut wanted = SignalSet::catchable();
        wanted.remove(libc::SIGCHLD);
        wanted.remove(libc::SIGPIPE);
        // Blocked signals arrive even where they are ignored.
        wanted.remove(libc::SIGXFSZ);
        let events = SignalFd::new(wanted)?;
        Ok(Self {
            ignored,
            mask,
            events,
        })
    }

    /// The next signal that arrived.
    pub(super) fn next(&self) -> io::Result<Option<i32>> {
        self.events.next()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

/// The caller's controlling terminal, if it has one.
#[derive(Debug)]
pub(super) struct Terminal {
    at: Place,
    foreground: bool,
}

#[derive(Debug)]
enum Place {
    Stdin,
    Stdout,
    Stderr,
    Opened(File),
}

impl Place {
    fn with<T>(&self, f: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
        match self {
            Self::Stdin => f(io::stdin().as_fd()),
            Self::Stdout => f(io::stdout().as_fd()),
            Self::Stderr => f(io::stderr().as_fd()),
            Self::Opened(file) => f(file.as_fd()),
        }
    }
}

impl Terminal {
    /// Looks for the controlling terminal: on the standard descriptors, else as /dev/tty.
    pub(super) fn find() -> Option<Self> {
        let standard = [Place::Stdin, Place::Stdout, Place::Stderr].into_iter();
        let opened =
            std::iter::once_with(|| File::open("/dev/tty").ok().map(Place::Opened)).flatten();
        standard.chain(opened).find_map(|at| {
            let foreground = at.with(tty::in_foreground)?;
            Some(Self { at, foreground })
        })
    }

    /// Our process group is in the foreground now.
    pub(super) fn is_ours(&self) -> bool {
        self.at.with(tty::in_foreground) == Some(true)
    }

    /// ccbox was stopped and goes on: in the foreground (`fg`) or not (`bg`).
    pub(super) fn resumed(&mut self) {
        self.foreground = self.at.with(tty::in_foreground).unwrap_or(false);
    }

    /// Gives the foreground back to the caller's process group if the run had it: an interactive shell inside makes a
    /// group of its own the foreground one and cannot see ours to restore it. Terminal modes are left alone, as they
    /// are when a command dies unwrapped.
    pub(super) fn hand_back(&self) {
        if self.foreground && self.at.with(tty::in_foreground) == Some(false) {
            // SIGTTOU is blocked, so this works from the background. If the terminal is gone there is nothing to do.
            let _ = self.at.with(tty::take_foreground);
        }
    }
}
