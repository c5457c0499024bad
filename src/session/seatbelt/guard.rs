//! A process beside the command, of the same group and outside of the sandbox.
//!
//! It sees which signals the group got, so that ccbox passes on only those that it alone was sent. And it is there when ccbox is not: if
//! ccbox is killed it kills the command, since this system has no other way to bind one life to another.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::Sender;

use super::signals::each;
use super::watch::News;
use crate::exit;
use crate::sys::signals::{self, SignalSet};

/// The hidden first argument.
pub const GUARD: &str = "__guard";
/// ccbox has seen the command's end.
const DONE: u8 = b'.';

/// The guard as ccbox holds it.
#[derive(Debug)]
pub(super) struct Guard {
    to: Option<ChildStdin>,
    from: Option<ChildStdout>,
    child: std::process::Child,
}

impl Guard {
    pub(super) fn start(exe: &Path) -> io::Result<Self> {
        let mut child = Command::new(exe)
            .arg(GUARD)
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

    /// What ends with ccbox.
    pub(super) fn watches(&self, command: u32, helper: Option<u32>) {
        let helper = helper.map(|pid| format!(" {pid}")).unwrap_or_default();
        if let Some(mut to) = self.to.as_ref() {
            let _ = writeln!(to, "{command}{helper}");
        }
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
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Said after the command was waited for, or when there is none.
        if let Some(mut to) = self.to.take() {
            let _ = to.write_all(&[DONE]);
        }
        let _ = self.child.wait();
    }
}

/// The guard itself.
#[must_use]
pub fn main(_args: &[OsString]) -> u8 {
    let ready = || -> io::Result<()> {
        signals::set_mask(SignalSet::catchable())?;
        each(|n| {
            u8::try_from(n).is_ok_and(|n| {
                io::stdout()
                    .write_all(&[n])
                    .and_then(|()| io::stdout().flush())
                    .is_ok()
            })
        })?;
        io::stdout().write_all(&[0])?;
        io::stdout().flush()
    };
    if ready().is_err() {
        return exit::OWN_FAILURE;
    }
    let mut said = Vec::new();
    let _ = io::stdin().lock().read_to_end(&mut said);
    if said.last() == Some(&DONE) {
        return 0;
    }
    for pid in String::from_utf8_lossy(&said).split_ascii_whitespace() {
        if let Ok(pid @ 2..) = pid.parse::<i32>() {
            let _ = signals::send(pid, libc::SIGKILL);
        }
    }
    0
}
