//! The only module that writes to stderr and to the event stream.

pub mod text;

use std::path::PathBuf;

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
