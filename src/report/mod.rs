//! The only module that writes to stderr, to stdout of the query commands, and to the event stream.
//!
//! A [`Reporter`] takes denials from any thread while the command runs. It never waits long for a reader, and a broken
//! stderr is no error: the command's life does not depend on who listens.

pub mod access;
mod dedup;
pub mod event;
mod patient;
pub mod text;

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::exit::Failure;
use dedup::{Dedup, Verdict};
use event::{Event, Origin, State};
use patient::Written;
use text::{Colour, ColourFacts};

/// One denial, from whichever mechanism enforced it (R70).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Seatbelt's name of the operation: `network-outbound`, `file-write-create`, …
    pub action: &'static str,
    /// Host:port or path, raw bytes lossily decoded; escaped when printed.
    pub target: String,
    /// Process name, where known.
    pub process: Option<String>,
    /// Pid on the host, where known.
    pub pid: Option<i32>,
    /// The rule that denied, in words: `not on the allow list`, `denied_domains "x" (spec.toml:3)`.
    pub rule: String,
    /// The narrowest spec line that would allow it, e.g. `[network] allowed_domains = ["evil.example"]`.
    pub hint: Option<String>,
}

/// Where violations and notices go. Cheap to clone, safe from any thread, never blocks the caller for long.
pub trait Sink: Send + Sync {
    /// A denial.
    fn violation(&self, v: Violation);
    /// A warning that is not a denial.
    fn warn(&self, text: &str);
}

/// `--events` destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventTarget {
    /// A file, opened without following links, appended.
    File(PathBuf),
    /// An inherited descriptor.
    Fd(i32),
}

impl EventTarget {
    /// The file, where it is one.
    #[must_use]
    pub fn file(&self) -> Option<&std::path::Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Fd(_) => None,
        }
    }
}

/// What is said on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Verbosity {
    /// `-q`: no violation lines.
    Quiet,
    /// Denials, notices, errors.
    #[default]
    Normal,
    /// `-v`: also what is enforced.
    Verbose,
    /// `-vv`: also the backend's argv.
    Debug,
}

/// How long a line waits for a stderr that nobody reads.
const STDERR_BUDGET: Duration = Duration::from_millis(50);
/// The same for an error, which ends the call anyway.
const ERROR_BUDGET: Duration = Duration::from_secs(2);

/// Writes lines and events. Shared between the main thread and the proxies.
pub struct Reporter {
    state: Mutex<Output>,
    verbosity: Verbosity,
    colour: Colour,
    detail: bool,
}

struct Output {
    err: Box<dyn Stream>,
    /// Nobody read in time once: do not wait again.
    late: bool,
    /// Lines lost to a reader that does not read.
    lost: u64,
    events: Option<event::Stream>,
    dedup: Dedup,
    hints: std::collections::HashSet<String>,
}

/// A stream one can write to and poll.
trait Stream: Write + Send {
    fn fd(&self) -> BorrowedFd<'_>;
}

impl<T: Write + AsFd + Send> Stream for T {
    fn fd(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

struct Polled<'a>(&'a mut dyn Stream);

impl Write for Polled<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write(buf)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl AsFd for Polled<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }
}

impl std::fmt::Debug for Reporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reporter")
            .field("verbosity", &self.verbosity)
            .finish_non_exhaustive()
    }
}

impl Reporter {
    /// A reporter on this process's stderr.
    #[must_use]
    pub fn stderr(verbosity: Verbosity) -> Self {
        let err = io::stderr();
        let terminal = err.is_terminal();
        let var = |name: &str| std::env::var_os(name);
        let (no_color, force, clicolor, term) = (
            var("NO_COLOR"),
            var("CLICOLOR_FORCE"),
            var("CLICOLOR"),
            var("TERM"),
        );
        let colour = Colour::decide(ColourFacts {
            terminal,
            no_color: no_color.as_deref(),
            clicolor_force: force.as_deref(),
            clicolor: clicolor.as_deref(),
            term: term.as_deref(),
        });
        Self::new(Box::new(err), verbosity, colour, terminal)
    }

    fn new(err: Box<dyn Stream>, verbosity: Verbosity, colour: Colour, detail: bool) -> Self {
        Self {
            state: Mutex::new(Output {
                err,
                late: false,
                lost: 0,
                events: None,
                dedup: Dedup::new(Instant::now()),
                hints: std::collections::HashSet::new(),
            }),
            verbosity,
            colour,
            detail,
        }
    }

    /// How much is said.
    #[must_use]
    pub fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// Sends events to `file` from now on.
    pub fn stream_events(&self, file: File, session_id: String) {
        self.lock().events = Some(event::Stream::new(file, session_id));
    }

    /// Names the run in further events.
    pub fn name_session(&self, session_id: &str) {
        if let Some(stream) = self.lock().events.as_mut() {
            stream.name_session(session_id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Output> {
        // A panic while a line was written leaves nothing half done that matters here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An own failure: exactly one line, and an event. Longer help follows indented on a terminal (semantics 30).
    pub fn error(&self, failure: &dyn Failure) {
        let mut out = text::line(&text::error_text(failure, self.colour));
        if self.detail
            && let Some(detail) = failure.detail()
        {
            for l in detail.lines() {
                out.push_str("  ");
                out.push_str(&text::escape(l));
                out.push('\n');
            }
        }
        let mut s = self.lock();
        s.print(&out, ERROR_BUDGET);
        s.send(
            &Event::Error {
                state: State::Error,
                error: failure.to_string(),
                hint: failure.hint(),
                exit_code: failure.exit_code(),
                origin: Origin::Ccbox,
            },
            self.colour,
        );
    }

    /// Something the user is told once.
    pub fn notice(&self, text: &str) {
        if self.verbosity > Verbosity::Quiet {
            self.loud_notice(text);
        }
    }

    /// As [`Self::notice`], `-q` or not: something was lowered, or nothing is isolated (semantics 19).
    pub fn loud_notice(&self, text: &str) {
        self.lock().print(
            &text::line(&text::labelled("notice", text, self.colour)),
            STDERR_BUDGET,
        );
    }

    /// A fixed status line (`sandbox DISABLED by --sandbox off`), `-q` or not (R12).
    pub fn status(&self, text: &str) {
        self.lock()
            .print(&text::line(&text::escape(text)), STDERR_BUDGET);
    }

    /// A line for the parent process that reads it, without prefix.
    pub fn bare(&self, text: &str) {
        let line = format!("{}\n", text::escape(text));
        self.lock().print(&line, ERROR_BUDGET);
    }

    /// A line of `-v`.
    pub fn verbose(&self, text: &str) {
        if self.verbosity >= Verbosity::Verbose {
            self.status(text);
        }
    }

    /// A line of `-vv`, never cut: it is there to be pasted into a shell.
    pub fn debug(&self, text: &str) {
        if self.verbosity >= Verbosity::Debug {
            let line = format!("{}{}\n", text::PREFIX, text::escape(text));
            self.lock().print(&line, ERROR_BUDGET);
        }
    }

    /// An event, where events are asked for.
    pub fn event(&self, event: &Event) {
        self.lock().send(event, self.colour);
    }

    /// The different denials so far, in the order they came, each with how often; not more than are remembered.
    #[must_use]
    pub fn denials(&self) -> Vec<(Violation, u64)> {
        self.lock().dedup.all()
    }

    /// What the command wrote, as an event. Waits for the reader, as the command would.
    pub fn output(&self, event: &Event) {
        let mut s = self.lock();
        let told = s.events.as_mut().and_then(|stream| stream.send_all(event));
        if let Some(trouble) = told {
            let line = text::line(&text::labelled("warning", &trouble, self.colour));
            s.print(&line, STDERR_BUDGET);
        }
    }

    /// Lines go to `err` from now on.
    pub fn speak_through(&self, err: File) {
        self.lock().err = Box::new(err);
    }

    /// Says at the end what was not said when it happened: counts of repeated denials, lines not shown.
    pub fn finish(&self) {
        let mut s = self.lock();
        let repeated: Vec<dedup::Counted> = s.dedup.repeated().into_iter().cloned().collect();
        let speaks = self.verbosity > Verbosity::Quiet;
        if s.dedup.held > 0 && speaks {
            let held = s.dedup.held;
            let text = format!("{held} further denials not shown; --events has them all");
            s.print(&text::line(&text), STDERR_BUDGET);
        }
        // Of what was not shown it is no news that it came again.
        let mut lines = repeated.iter().filter(|c| c.shown && speaks);
        for c in lines.by_ref().take(dedup::BURST as usize) {
            s.print(
                &text::line(&text::repeated_text(&c.violation, c.count)),
                STDERR_BUDGET,
            );
        }
        let more = lines.count();
        if more > 0 {
            let text =
                format!("{more} more of the denials above came again; --events has them all");
            s.print(&text::line(&text), STDERR_BUDGET);
        }
        for c in &repeated {
            s.send(&violation_event(&c.violation, c.count), self.colour);
        }
        if s.lost > 0 {
            let text = format!("{} lines lost: stderr was not read", s.lost);
            s.print(&text::line(&text), Duration::ZERO);
        }
    }
}

fn violation_event(v: &Violation, count: u64) -> Event {
    Event::Violation {
        action: v.action.to_owned(),
        target: v.target.clone(),
        pid: v.pid,
        process: v.process.clone(),
        rule: v.rule.clone(),
        hint: v.hint.clone(),
        count,
    }
}

impl Output {
    fn print(&mut self, line: &str, budget: Duration) {
        let budget = if self.late { Duration::ZERO } else { budget };
        match patient::write(&mut Polled(self.err.as_mut()), line.as_bytes(), budget) {
            Written::All => {}
            Written::Nothing => {
                self.late = true;
                self.lost += 1;
            }
            // A closed stderr is the caller's choice.
            Written::Broken(_) => self.late = true,
        }
    }

    fn send(&mut self, event: &Event, colour: Colour) {
        let Some(stream) = self.events.as_mut() else {
            return;
        };
        if let Some(trouble) = stream.send(event) {
            let line = text::line(&text::labelled("warning", &trouble, colour));
            self.print(&line, STDERR_BUDGET);
        }
    }
}

impl Sink for Reporter {
    fn violation(&self, v: Violation) {
        let mut s = self.lock();
        let verdict = s.dedup.add(&v, Instant::now());
        // The stream carries every distinct denial, also those over the rate of stderr; repeats come with the total at the end.
        if verdict != Verdict::Repeat {
            s.send(&violation_event(&v, 1), self.colour);
        }
        if self.verbosity == Verbosity::Quiet {
            return;
        }
        match verdict {
            Verdict::Print => {}
            Verdict::Repeat | Verdict::Hold => return,
            Verdict::Full => {
                let text = format!(
                    "{} different denials: further ones are only counted, --events has them all",
                    dedup::REMEMBERED
                );
                return s.print(&text::line(&text), STDERR_BUDGET);
            }
        }
        let mut out = text::line(&text::violation_text(&v, self.colour));
        if let Some(hint) = &v.hint
            && s.hints.insert(hint.clone())
        {
            out.push_str(&text::line(&text::hint_text(hint, self.colour)));
        }
        s.print(&out, STDERR_BUDGET);
    }

    fn warn(&self, text: &str) {
        self.lock().print(
            &text::line(&text::labelled("warning", text, self.colour)),
            STDERR_BUDGET,
        );
    }
}

/// Writes the answer of a query command, or of a helper to the ccbox that started it, to stdout. A reader that went away is success, as for `yes | head`.
///
/// # Errors
/// As write(2), but for `EPIPE`.
pub fn answer(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
