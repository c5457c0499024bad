//! Signals that arrive at ccbox, by sigwait(3) in a thread: the one way that all systems have.

use std::io;
use std::sync::mpsc::Sender;

use nix::sys::signal::{SigSet, Signal};

use super::watch::News;
use crate::sys::signals::{self, SignalSet};

/// The caller's signal settings, with all catchable signals blocked.
#[derive(Debug)]
pub(super) struct Arriving {
    /// Ignored when ccbox started. SIGPIPE is left out: Rust's runtime has replaced its setting before `main`.
    pub(super) ignored: SignalSet,
    /// The mask when ccbox started.
    mask: SignalSet,
}

/// Signals that are passed on. SIGCHLD is not: it is about ccbox's own children.
fn waited_for() -> SigSet {
    let mut set: SigSet = Signal::iterator()
        .filter(|s| SignalSet::catchable().contains(*s as i32))
        .collect();
    for own in [Signal::SIGCHLD, Signal::SIGPIPE, Signal::SIGXFSZ] {
        set.remove(own);
    }
    set
}

impl Arriving {
    /// Blocks them in this thread and in those it makes.
    pub(super) fn take_over() -> io::Result<Self> {
        let mut ignored = signals::ignored();
        ignored.remove(libc::SIGPIPE);
        signals::set_ignored(libc::SIGXFSZ)?;
        let mask = signals::set_mask(SignalSet::catchable())?;
        // Ignored, the kernel would reap children itself and their status were lost (sigaction(2)).
        if ignored.contains(libc::SIGCHLD) {
            signals::set_default(libc::SIGCHLD)?;
        }
        Ok(Self { ignored, mask })
    }

    /// Mask and ignored signals as the stage takes them.
    pub(super) fn words(&self) -> [String; 2] {
        let list = |set: SignalSet| {
            set.iter()
                .map(|n| n.to_string())
                .collect::<Vec<_>>()
                .join(",")
        };
        [list(self.mask), list(self.ignored)]
    }

    /// Sends what arrives, until nobody listens. The thread goes with the process.
    pub(super) fn listen(news: Sender<News>) -> io::Result<()> {
        each(move |n| news.send(News::Signal(n)).is_ok())
    }
}

/// Calls `take` with each signal that arrives, in a thread of its own, while it says so.
pub(super) fn each(mut take: impl FnMut(i32) -> bool + Send + 'static) -> io::Result<()> {
    let set = waited_for();
    std::thread::Builder::new().spawn(move || {
        while let Ok(signal) = set.wait() {
            if !take(signal as i32) {
                return;
            }
        }
    })?;
    Ok(())
}

/// A list of numbers as [`Arriving::words`] writes it.
pub(super) fn list(text: &str) -> Option<SignalSet> {
    text.split(',')
        .filter(|n| !n.is_empty())
        .map(|n| n.parse().ok())
        .collect()
}
