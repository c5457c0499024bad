//! A process beside the command, of the same group and outside of the sandbox.
//!
//! It sees which signals the group got, so that ccbox passes on only those that it alone was sent. It continues ccbox, which stops with
//! the command, when the command goes on behind its back. And it is there when ccbox is not: if ccbox is killed it ends the command
//! and what that has started, since this system has no other way to bind one life to another.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::Sender;
use std::time::Duration;

use super::leftovers;
use super::signals::each;
use super::watch::News;
use crate::exit;
use crate::report;
use crate::session::remove_tree;
use crate::sys::signals::{self, SignalSet};
use crate::sys::{family, fds};

/// The hidden first argument.
pub const GUARD: &str = "__guard";
/// ccbox has seen the command's end.
const DONE: &str = "done";
/// ccbox is about to stop, as the command did.
const STOPS: &str = "stops";
/// ccbox goes on.
const GOES_ON: &str = "goes on";
/// How often it is looked whether a command that stopped goes on.
const LOOK: Duration = Duration::from_millis(50);

/// The guard as ccbox holds it.
#[derive(Debug)]
pub(super) struct Guard {
    to: Option<ChildStdin>,
    from: Option<ChildStdout>,
    child: std::process::Child,
}

impl Guard {
    /// `scratch` goes with ccbox.
    pub(super) fn start(exe: &Path, scratch: Option<&Path>) -> io::Result<Self> {
        let mut child = Command::new(exe)
            .arg(GUARD)
            .args(scratch)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
        let to = Some(child.stdin.take().ok_or_else(missing)?);
        let mut from = child.stdout.take().ok_or_else(missing)?;
        // From here on it has every signal blocked: none is missed and none ends it.
        from.read_exact(&mut [0])?;
        Ok(Self {
            to,
            from: Some(from),
            child,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What ends with ccbox.
    pub(super) fn watches(&self, command: u32, helper: Option<u32>) {
        let helper = helper.map(|pid| format!(" {pid}")).unwrap_or_default();
        self.say(&format!("{command}{helper}"));
    }

    /// Stops this process as the command was stopped, unless that goes on already. Comes back when both do.
    pub(super) fn stop_too(&self, signal: i32, command: i32) -> io::Result<()> {
        let stopped = signals::stop_unless(signal, || {
            self.say(STOPS);
            !family::is_stopped(command)
        });
        self.say(GOES_ON);
        stopped
    }

    /// Sends the signals that the group got, until the end.
    pub(super) fn listen(&mut self, news: Sender<News>) -> io::Result<()> {
        let Some(mut from) = self.from.take() else {
            return Ok(());
        };
        std::thread::Builder::new().spawn(move || {
            let mut byte = [0];
            while from.read_exact(&mut byte).is_ok() {
                let [n] = byte;
                if news.send(News::Group(i32::from(n))).is_err() {
                    return;
                }
            }
        })?;
        Ok(())
    }

    /// A guard that is gone hears nothing, and nothing depends on it as long as ccbox lives.
    fn say(&self, line: &str) {
        if let Some(mut to) = self.to.as_ref() {
            let _ = to.write_all(format!("{line}\n").as_bytes());
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Said after the command was waited for, or when there is none.
        self.say(DONE);
        self.to = None;
        let _ = self.child.wait();
    }
}

/// The guard itself: `[SCRATCH]`.
#[must_use]
pub fn main(args: &[OsString]) -> u8 {
    let ready = || -> io::Result<()> {
        signals::set_mask(SignalSet::catchable())?;
        each(|n| u8::try_from(n).is_ok_and(|n| report::answer(&[n]).is_ok()))?;
        report::answer(&[0])
    };
    if ready().is_err() {
        return exit::OWN_FAILURE;
    }
    let mut heard = Heard::default();
    // Whatever goes wrong with the pipe: ccbox is not to be relied on any more.
    let _ = heard.listen();
    if !heard.done {
        leftovers::end_now(&heard.pids);
        if let Some(scratch) = args.first() {
            let _ = remove_tree(Path::new(scratch));
        }
    }
    0
}

/// What ccbox has said.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    /// The command, and what else ends with ccbox.
    pids: Vec<i32>,
    stops: bool,
    done: bool,
}

impl Heard {
    fn take(&mut self, line: &str) {
        match line {
            DONE => self.done = true,
            STOPS => self.stops = true,
            GOES_ON => self.stops = false,
            pids => {
                let numbers = pids.split_ascii_whitespace().filter_map(|n| n.parse().ok());
                // Never 0, 1 or less: kill(2) gives those other meanings.
                self.pids.extend(numbers.filter(|n: &i32| *n > 1));
            }
        }
    }

    /// To the end of what ccbox says.
    fn listen(&mut self) -> io::Result<()> {
        let input = io::stdin();
        let mut rest = Vec::new();
        let mut buffer = [0; 256];
        loop {
            let [ready] = fds::poll([input.as_fd()], self.stops.then_some(LOOK))?;
            if !ready.readable {
                let command = self.pids.first().copied();
                if self.stops && command.is_some_and(|pid| !family::is_stopped(pid)) {
                    signals::send(nix::unistd::getppid().as_raw(), libc::SIGCONT)?;
                }
                continue;
            }
            let count = input.lock().read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            rest.extend_from_slice(buffer.get(..count).unwrap_or_default());
            while let Some(at) = rest.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = rest.drain(..=at).take(at).collect();
                self.take(&String::from_utf8_lossy(&line));
            }
        }
    }
}

/// Processes that ccbox has started itself and that are not the command's.
pub(super) fn own(guard: &Guard, helper: Option<u32>) -> BTreeSet<i32> {
    let pids = std::iter::once(guard.pid()).chain(helper);
    pids.filter_map(|pid| i32::try_from(pid).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ccbox_says_is_understood() {
        let mut heard = Heard::default();
        for line in ["4711 4712", "stops", "x 0 -1 1", "goes on"] {
            heard.take(line);
        }
        let pids = vec![4711, 4712];
        assert_eq!(
            heard,
            Heard {
                pids,
                ..Heard::default()
            }
        );
        heard.take("stops");
        heard.take("done");
        assert!(heard.stops && heard.done);
    }
}
