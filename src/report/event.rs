//! The event stream: one JSON object a line (R71, schema 1).

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::patient::{self, Written};

/// Version of the shape of the lines.
pub const SCHEMA: u32 = 1;

/// How long one event waits for a reader that does not read.
const BUDGET: Duration = Duration::from_secs(1);
/// How long captured output waits: as a pipe would.
const FOREVER: Duration = Duration::from_hours(24);

/// Life of a run, as a harness sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The run is known; nothing stands yet.
    Created,
    /// The sandbox stands without a command (warm sessions).
    Warm,
    /// The command runs.
    Active,
    /// Stopped as a whole.
    Suspended,
    /// Everything is gone.
    Destroyed,
    /// The run could not be made or had to be ended.
    Error,
}

/// Who an exit code comes from: 125–127 may be the command's own (semantics 30).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// ccbox itself.
    Ccbox,
    /// The wrapped command.
    Command,
}

/// What a harness may keep about a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Handle {
    /// Name of the run.
    pub session_id: String,
    /// The backend that really runs (R13).
    pub backend: &'static str,
    /// `bwrap-0.8.0`, `none`, …
    pub engine: String,
    /// Where the run stands.
    pub state: State,
    /// Why it does not, where it does not.
    pub error: Option<String>,
    /// What is enforced, in words of the enforced line.
    pub details: Vec<String>,
}

/// A piece of captured output: text where it is UTF-8, else base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// UTF-8.
    Text(String),
    /// RFC 4648, with padding.
    Base64(String),
}

impl Output {
    /// Of bytes as they were written.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(base64(bytes)),
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |i: usize| u32::from(three.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for i in 0..4 {
            let letter = LETTERS.get((bits >> (18 - 6 * i) & 63) as usize);
            match letter {
                Some(letter) if i <= three.len() => out.push(char::from(*letter)),
                _ => out.push('='),
            }
        }
    }
    out
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Event {
    /// The call was understood; nothing runs yet.
    Starting {
        /// State.
        state: State,
        /// The command, decoded lossily.
        command: Vec<String>,
        /// From the spec.
        #[serde(skip_serializing_if = "Option::is_none")]
        workspace_id: Option<String>,
        /// From the spec.
        #[serde(skip_serializing_if = "Option::is_none")]
        agent_id: Option<String>,
    },
    /// The sandbox stands; the command starts now.
    Ready {
        /// State.
        state: State,
        /// The handle document.
        handle: Handle,
    },
    /// The run was stopped as a whole, or goes on (Ctrl-Z, `fg`).
    Stopped {
        /// State.
        state: State,
    },
    /// As [`Event::Stopped`].
    Continued {
        /// State.
        state: State,
    },
    /// What the command wrote to standard output (`--capture`).
    Stdout(Output),
    /// What the command wrote to standard error (`--capture`).
    Stderr(Output),
    /// The end, with a code.
    Exit {
        /// State.
        state: State,
        /// As the caller sees it.
        exit_code: u8,
        /// Whose code it is.
        origin: Origin,
    },
    /// The end, by a signal.
    Killed {
        /// State.
        state: State,
        /// Number of the signal.
        signal: i32,
        /// Why, in a word: `signal`.
        reason: &'static str,
    },
    /// A denial. A repeated one comes again at the end with its total.
    Violation {
        /// Seatbelt's name of the operation.
        action: String,
        /// Path or host:port.
        target: String,
        /// Process id on the host.
        #[serde(skip_serializing_if = "Option::is_none")]
        pid: Option<i32>,
        /// Name of the process.
        #[serde(skip_serializing_if = "Option::is_none")]
        process: Option<String>,
        /// What denied.
        rule: String,
        /// The narrowest change that allows it.
        #[serde(skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
        /// How often so far.
        count: u64,
    },
    /// ccbox failed or refused.
    Error {
        /// State.
        state: State,
        /// The message, without prefix.
        error: String,
        /// The next step.
        #[serde(skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
        /// 125, 126 or 127.
        exit_code: u8,
        /// Always `ccbox`.
        origin: Origin,
    },
}

#[derive(Serialize)]
struct Line<'a> {
    schema: u32,
    time: String,
    session_id: &'a str,
    #[serde(flatten)]
    event: &'a Event,
}

/// One line, newline included.
#[must_use]
pub fn render(session_id: &str, event: &Event, now: SystemTime) -> String {
    let line = Line {
        schema: SCHEMA,
        time: humantime::format_rfc3339_millis(now).to_string(),
        session_id,
        event,
    };
    // Strings, numbers and lists always serialise; a line that names the fault is still better than none.
    let mut text = serde_json::to_string(&line).unwrap_or_else(|e| {
        format!("{{\"schema\":{SCHEMA},\"type\":\"error\",\"error\":\"{e}\"}}")
    });
    text.push('\n');
    text
}

/// Opens the file of `--events FILE`: appended, made with mode 0600, never through a link (semantics 20).
///
/// # Errors
/// As open(2); `ELOOP` where a link stands at the name.
pub fn open_file(path: &Path) -> io::Result<File> {
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        // A FIFO without a reader is refused (ENXIO) instead of waited for.
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
}

/// Where events go. A reader that fails ends nothing; the first failure is handed back once.
#[derive(Debug)]
pub(super) struct Stream {
    file: File,
    session_id: String,
    dead: bool,
    told: bool,
}

impl Stream {
    pub(super) fn new(file: File, session_id: String) -> Self {
        Self {
            file,
            session_id,
            dead: false,
            told: false,
        }
    }

    pub(super) fn name_session(&mut self, session_id: &str) {
        session_id.clone_into(&mut self.session_id);
    }

    /// Writes one event, however long the reader takes: nothing of what the command wrote is lost.
    pub(super) fn send_all(&mut self, event: &Event) -> Option<String> {
        if self.dead {
            return None;
        }
        let line = render(&self.session_id, event, SystemTime::now());
        loop {
            match patient::write(&mut self.file, line.as_bytes(), FOREVER) {
                Written::All => return None,
                Written::Nothing => {}
                Written::Broken(e) => {
                    self.dead = true;
                    return Some(format!(
                        "cannot write to the event stream: {}; no further events are written",
                        crate::exit::reason(&e)
                    ));
                }
            }
        }
    }

    /// Writes one event; `Some` is what the user is told, once.
    pub(super) fn send(&mut self, event: &Event) -> Option<String> {
        if self.dead {
            return None;
        }
        let line = render(&self.session_id, event, SystemTime::now());
        // After a reader was late once, it is not waited for again.
        let budget = if self.told { Duration::ZERO } else { BUDGET };
        let why = match patient::write(&mut self.file, line.as_bytes(), budget) {
            Written::All => return None,
            Written::Nothing => "the reader does not read; events are lost".to_owned(),
            Written::Broken(e) => {
                self.dead = true;
                format!("{}; no further events are written", crate::exit::reason(&e))
            }
        };
        if std::mem::replace(&mut self.told, true) {
            return None;
        }
        Some(format!("cannot write to the event stream: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;
    use std::time::UNIX_EPOCH;

    fn at() -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(1_700_000_000_123)
    }

    #[test]
    fn captured_bytes_are_text_or_base64() {
        for (bytes, wanted) in [
            (&b"a\n"[..], Output::Text("a\n".into())),
            (b"", Output::Text(String::new())),
            (b"\xff", Output::Base64("/w==".into())),
            (b"\xff\xfe", Output::Base64("//4=".into())),
            (b"\xff\xfe\x00", Output::Base64("//4A".into())),
            (b"ab\xffcd", Output::Base64("YWL/Y2Q=".into())),
        ] {
            assert_eq!(Output::of(bytes), wanted);
        }
        let line = render("s", &Event::Stdout(Output::of(b"\x1b\n")), at());
        assert!(
            line.ends_with("\"type\":\"stdout\",\"text\":\"\\u001b\\n\"}\n"),
            "{line}"
        );
    }

    #[test]
    fn lines_have_the_shape_of_the_contract() {
        let exit = Event::Exit {
            state: State::Destroyed,
            exit_code: 3,
            origin: Origin::Command,
        };
        assert_eq!(
            render("s-1", &exit, at()),
            "{\"schema\":1,\"time\":\"2023-11-14T22:13:20.123Z\",\"session_id\":\"s-1\",\"type\":\"exit\",\
             \"state\":\"destroyed\",\"exit_code\":3,\"origin\":\"command\"}\n"
        );
        let ready = Event::Ready {
            state: State::Active,
            handle: Handle {
                session_id: "s-1".into(),
                backend: "native",
                engine: "bwrap-0.8.0".into(),
                state: State::Active,
                error: None,
                details: vec!["userns".into()],
            },
        };
        let v: serde_json::Value = serde_json::from_str(&render("s-1", &ready, at())).unwrap();
        assert_eq!(v["type"], "ready");
        assert_eq!(v["handle"]["backend"], "native");
        assert_eq!(v["handle"]["error"], serde_json::Value::Null);
        let odd = Event::Violation {
            action: "file-write-create".into(),
            target: "a\n\u{202e}\"b".into(),
            pid: None,
            process: None,
            rule: "r".into(),
            hint: None,
            count: 1,
        };
        let text = render("s", &odd, at());
        assert_eq!(text.matches('\n').count(), 1);
        let v: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(v["target"], "a\n\u{202e}\"b");
        assert!(v.get("pid").is_none());
    }

    #[test]
    fn the_file_is_private_appended_and_never_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        for code in [0, 1] {
            let mut s = Stream::new(open_file(&path).unwrap(), "s".into());
            let e = Event::Exit {
                state: State::Destroyed,
                exit_code: code,
                origin: Origin::Command,
            };
            assert_eq!(s.send(&e), None);
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 2);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let e = open_file(&link).unwrap_err();
        assert_eq!(e.raw_os_error(), Some(libc::ELOOP));
    }

    #[test]
    fn a_broken_stream_is_told_once() {
        let (r, w) = std::io::pipe().unwrap();
        let mut s = Stream::new(File::from(std::os::fd::OwnedFd::from(w)), "s".into());
        drop(r);
        let e = Event::Exit {
            state: State::Destroyed,
            exit_code: 0,
            origin: Origin::Command,
        };
        assert!(s.send(&e).unwrap().contains("cannot write"));
        assert_eq!(s.send(&e), None);
    }

    #[test]
    fn a_long_event_arrives_whole() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut stream = Stream::new(File::from(std::os::fd::OwnedFd::from(writer)), "s".into());
        let event = Event::Starting {
            state: State::Created,
            command: vec!["x".repeat(200_000)],
            workspace_id: None,
            agent_id: None,
        };
        let collected = std::thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text
        });
        assert_eq!(stream.send(&event), None);
        drop(stream);
        let v: serde_json::Value = serde_json::from_str(&collected.join().unwrap()).unwrap();
        assert_eq!(v["command"][0].as_str().unwrap().len(), 200_000);
    }
}
