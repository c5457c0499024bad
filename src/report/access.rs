//! The access log: one JSON line a connection, for whoever asks for it (`network.access_log`).
//!
//! A line is one write(2) to a file opened for appending, so lines of several runs never mix (open(2), O_APPEND). What a connection
//! carries is in none: no path of a URL, no query, no header, no login.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use serde::Serialize;

use super::event::SCHEMA;

/// Longest text of the child's own in a line.
const LONGEST: usize = 512;

/// Which way a connection came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Front {
    /// HTTP: CONNECT, or one request in absolute form.
    Http,
    /// SOCKS.
    Socks,
    /// Around the proxies (`network.transparent_ports`).
    Caught,
    /// A forwarded port of the host.
    Forward,
    /// A question for a name.
    Dns,
    /// A Unix socket by path.
    Unix,
}

/// What the policy said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// It may.
    Allow,
    /// It may not; also a violation.
    Deny,
}

/// One line.
#[derive(Debug, Clone, Serialize)]
pub struct Access {
    /// Which way it came.
    pub front: Front,
    /// `host:port` or a path, as in violations.
    pub target: String,
    /// What the policy said.
    pub decision: Decision,
    /// The rule that decided, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The kind of refusal, a stable word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// The address that was connected to: of the caller's own proxy, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Why there was no connection although it was allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The name in the TLS client hello.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sni: Option<String>,
    /// Bytes from the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up: Option<u64>,
    /// Bytes to the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down: Option<u64>,
    /// How long it lasted, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// Process id on the host, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Name of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
}

impl Access {
    /// What is known at first.
    #[must_use]
    pub fn new(front: Front, target: impl Into<String>, decision: Decision) -> Self {
        Self {
            front,
            target: target.into(),
            decision,
            rule: None,
            reason: None,
            address: None,
            error: None,
            sni: None,
            up: None,
            down: None,
            ms: None,
            pid: None,
            process: None,
        }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    schema: u32,
    time: String,
    session_id: &'a str,
    #[serde(flatten)]
    access: &'a Access,
}

/// An open log.
#[derive(Debug)]
pub struct AccessLog {
    file: File,
    session_id: String,
    broken: AtomicBool,
}

impl AccessLog {
    /// For one run. The file is open for appending.
    #[must_use]
    pub fn new(file: File, session_id: String) -> Self {
        Self {
            file,
            session_id,
            broken: AtomicBool::new(false),
        }
    }

    /// Appends a line. The first failure comes back as what the user is told; after it nothing more is written.
    #[must_use]
    pub fn append(&self, access: &Access) -> Option<String> {
        if self.broken.load(Ordering::Relaxed) {
            return None;
        }
        let text = render(&self.session_id, access, SystemTime::now());
        let why = match (&self.file).write(text.as_bytes()) {
            Ok(n) if n == text.len() => return None,
            Ok(_) => "a line did not fit".to_owned(),
            Err(e) => crate::exit::reason(&e),
        };
        let told = self.broken.swap(true, Ordering::Relaxed);
        (!told)
            .then(|| format!("cannot write to the access log: {why}; no further lines are written"))
    }
}

/// One line, newline included.
#[must_use]
pub fn render(session_id: &str, access: &Access, now: SystemTime) -> String {
    let mut access = access.clone();
    cut(&mut access.target);
    for text in [&mut access.sni, &mut access.process, &mut access.rule] {
        text.as_mut().map(cut);
    }
    let line = Line {
        schema: SCHEMA,
        time: humantime::format_rfc3339_millis(now).to_string(),
        session_id,
        access: &access,
    };
    // Strings and numbers always serialise; a line that names the fault is still better than none.
    let mut text = serde_json::to_string(&line)
        .unwrap_or_else(|e| format!("{{\"schema\":{SCHEMA},\"error\":\"{e}\"}}"));
    text.push('\n');
    text
}

fn cut(text: &mut String) {
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn at() -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(1_700_000_000_123)
    }

    #[test]
    fn lines_have_the_documented_shape() {
        let mut line = Access::new(Front::Socks, "a.example:443", Decision::Allow);
        line.up = Some(1);
        line.ms = Some(2);
        assert_eq!(
            render("s-1", &line, at()),
            "{\"schema\":1,\"time\":\"2023-11-14T22:13:20.123Z\",\"session_id\":\"s-1\",\"front\":\"socks\",\
             \"target\":\"a.example:443\",\"decision\":\"allow\",\"up\":1,\"ms\":2}\n"
        );
        let odd = Access::new(
            Front::Dns,
            format!("a\n\u{202e}\"{}", "ä".repeat(1000)),
            Decision::Deny,
        );
        let text = render("s", &odd, at());
        assert_eq!(text.matches('\n').count(), 1);
        assert!(text.len() < 1500);
        let _: serde_json::Value = serde_json::from_str(&text).unwrap();
    }

    #[test]
    fn lines_of_many_writers_never_mix() {
        let keep = tempfile::tempdir().unwrap();
        let path = keep.path().join("log");
        let threads: Vec<_> = (0..4)
            .map(|n| {
                let file = std::fs::OpenOptions::new()
                    .append(true)
                    .create(true)
                    .open(&path)
                    .unwrap();
                let log = AccessLog::new(file, format!("run-{n}"));
                std::thread::spawn(move || {
                    for i in 0..500 {
                        let target = format!("{}:{i}", "h".repeat(i));
                        assert_eq!(
                            log.append(&Access::new(Front::Http, target, Decision::Allow)),
                            None
                        );
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 2000);
        for line in text.lines() {
            let _: serde_json::Value = serde_json::from_str(line).unwrap();
        }
    }
}
