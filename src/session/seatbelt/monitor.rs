//! `log stream` beside the run: what the kernel refuses is told while it happens.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use std::os::unix::process::CommandExt;

use super::log::{self, Denial, LONGEST, Line};

/// Told of what the kernel refused to the run.
pub trait Witness: Send + Sync {
    /// A refusal.
    fn denied(&self, denial: Denial);
    /// Refusals are not seen, and why.
    fn blind(&self, why: &str);
    /// Also what programs try in passing and do without.
    fn hears_noise(&self) -> bool {
        false
    }
}

/// How long the command waits for the log to be read.
const SETTLE: Duration = Duration::from_millis(200);
/// After a command that failed, news are waited for that long in all,
const LATE: Duration = Duration::from_millis(500);
/// and so long after the latest.
const QUIET: Duration = Duration::from_millis(100);
/// How long the log may be searched once for what the stream did not bring.
const SEARCH: Duration = Duration::from_secs(5);
/// How far that goes back.
const BACK: &str = "10s";

/// The running reader.
pub(super) struct Monitor {
    program: PathBuf,
    tag: String,
    witness: Arc<dyn Witness>,
    collector: Arc<Collector>,
    child: Option<Child>,
    heard: Option<Receiver<Heard>>,
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Monitor").finish_non_exhaustive()
    }
}

/// What the reading thread says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    Begins,
    Denial,
}

impl Monitor {
    /// Starts reading. Where that does not work the run goes on, and the witness is told.
    pub(super) fn start(program: &Path, tag: &str, witness: Arc<dyn Witness>) -> Self {
        let mut out = Self {
            program: program.to_owned(),
            tag: tag.to_owned(),
            collector: Arc::new(Collector::new(Arc::clone(&witness))),
            witness,
            child: None,
            heard: None,
        };
        match out.stream() {
            Ok((child, heard)) => (out.child, out.heard) = (Some(child), Some(heard)),
            Err(e) => out.witness.blind(&format!(
                "cannot start `{}`: {}",
                program.display(),
                crate::exit::reason(&e)
            )),
        }
        out
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(words)
            .args(["--style", "ndjson", "--predicate"])
            .arg(log::predicate(&self.tag));
        // Of a group of its own: a Ctrl-C is for the command, whose last refusals are still to be told.
        command
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0);
        command
    }

    fn stream(&self) -> std::io::Result<(Child, Receiver<Heard>)> {
        let mut child = self.command(&["stream"]).spawn()?;
        let (say, heard) = mpsc::channel();
        let (tag, collector) = (self.tag.clone(), Arc::clone(&self.collector));
        if let Some(out) = child.stdout.take() {
            std::thread::Builder::new().spawn(move || {
                lines(out, |line| {
                    let news = match log::read(line, &tag) {
                        Line::Begins => Heard::Begins,
                        Line::Denied(denial) => {
                            collector.take(denial);
                            Heard::Denial
                        }
                        Line::Other => return true,
                    };
                    say.send(news).is_ok()
                });
            })?;
        }
        Ok((child, heard))
    }

    /// The reader, which is to end with ccbox.
    pub(super) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Waits a moment for the log to be read, so that the first refusals are seen as well.
    pub(super) fn settle(&self) {
        if let Some(heard) = &self.heard {
            let _ = heard.recv_timeout(SETTLE);
        }
    }

    /// The command has ended. After a failure late news are waited for, and if there were none at all the log is searched once: a stream
    /// that began late has missed what was there before.
    pub(super) fn finish(mut self, failed: bool) {
        if failed && self.heard.is_some() {
            self.wait();
            if self.collector.is_empty() {
                self.search();
            }
        }
        end(self.child.take());
        // What the thread has read by now has been told.
        self.collector.finish();
    }

    fn wait(&self) {
        let Some(heard) = &self.heard else { return };
        let until = Instant::now() + LATE;
        loop {
            let left = until.saturating_duration_since(Instant::now()).min(QUIET);
            if left.is_zero() || heard.recv_timeout(left).is_err() {
                return;
            }
        }
    }

    fn search(&self) {
        let Ok(mut child) = self.command(&["show", "--last", BACK]).spawn() else {
            return;
        };
        let (say, done) = mpsc::channel();
        let (tag, collector) = (self.tag.clone(), Arc::clone(&self.collector));
        if let Some(out) = child.stdout.take() {
            let _ = std::thread::Builder::new().spawn(move || {
                lines(out, |line| {
                    if let Line::Denied(denial) = log::read(line, &tag) {
                        collector.take(denial);
                    }
                    true
                });
                let _ = say.send(());
            });
        }
        let _ = done.recv_timeout(SEARCH);
        end(Some(child));
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        end(self.child.take());
    }
}

fn end(child: Option<Child>) {
    if let Some(mut child) = child {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Hands each line over, without its end, while `take` says so. Lines that are too long are left out; memory is bounded.
fn lines(from: impl Read, mut take: impl FnMut(&[u8]) -> bool) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = LONGEST as u64 + 1;
        match from.by_ref().take(limit).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if line.len() > LONGEST && !skip_line(&mut from) {
            return;
        }
        if line.len() <= LONGEST && !take(&line) {
            return;
        }
    }
}

/// To the end of a line; `false` where there is none.
fn skip_line(from: &mut impl BufRead) -> bool {
    loop {
        let (used, found) = match from.fill_buf() {
            Ok([]) | Err(_) => return false,
            Ok(bytes) => bytes
                .iter()
                .position(|b| *b == b'\n')
                .map_or((bytes.len(), false), |at| (at + 1, true)),
        };
        from.consume(used);
        if found {
            return true;
        }
    }
}

/// Refusals without a mark that are remembered, and processes with an addressed one.
const REMEMBERED: usize = 256;

/// What is told on, and what waits for the end.
struct Collector {
    witness: Arc<dyn Witness>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    told: u64,
    /// Connections without an address, which the kernel reports beside those with one.
    bare: Vec<Denial>,
    addressed: BTreeSet<i32>,
}

impl Collector {
    fn new(witness: Arc<dyn Witness>) -> Self {
        Self {
            witness,
            state: Mutex::default(),
        }
    }

    fn take(&self, denial: Denial) {
        if !(denial.tagged || of_this_group(denial.pid)) {
            return;
        }
        if log::is_noise(&denial) {
            if self.witness.hears_noise() {
                self.witness.denied(denial);
            }
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.told += 1;
        if denial.action == "network-outbound" {
            if denial.target.is_empty() {
                if state.bare.len() < REMEMBERED {
                    state.bare.push(denial);
                }
                return;
            }
            if state.addressed.len() < REMEMBERED {
                state.addressed.insert(denial.pid);
            }
        }
        drop(state);
        self.witness.denied(denial);
    }

    fn is_empty(&self) -> bool {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .told
            == 0
    }

    fn finish(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State {
            bare, addressed, ..
        } = std::mem::take(&mut *state);
        drop(state);
        for denial in bare.into_iter().filter(|d| !addressed.contains(&d.pid)) {
            self.witness.denied(denial);
        }
    }
}

/// A process of the group that the run is in: what else could a refusal without a tag be told by. One that has ended is not.
fn of_this_group(pid: i32) -> bool {
    use nix::unistd::{Pid, getpgid, getpgrp};
    getpgid(Some(Pid::from_raw(pid))) == Ok(getpgrp())
}

#[cfg(test)]
mod tests;
