//! TOML layers with provenance, merged into a policy.
//!
//! [`load`] reads the files that apply (discovery, trust), parses them strictly, and merges them. Nothing here changes anything.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::exit::Failure;
use crate::policy::{Layer, Policy};

/// Where a given spec comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpecSource {
    /// `-f FILE` (a FIFO or `-` is read once; relative paths then start at the cwd).
    File(PathBuf),
    /// `-p TOML`.
    Inline(String),
}

/// Sugar flags: spec keys typed on the command line. The name of the flag is the origin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlagRules {
    /// `--rw`
    pub rw: Vec<OsString>,
    /// `--ro`
    pub ro: Vec<OsString>,
    /// `--deny-read`
    pub deny_read: Vec<OsString>,
    /// `--deny-write`
    pub deny_write: Vec<OsString>,
    /// `--protect`
    pub protect: Vec<OsString>,
    /// `--allow-host`
    pub allow_host: Vec<String>,
    /// `--deny-host`
    pub deny_host: Vec<String>,
    /// `--no-network`
    pub no_network: bool,
    /// `--env K=V`
    pub env_set: Vec<OsString>,
    /// `--pass-env K`
    pub env_pass: Vec<String>,
    /// `--chdir`
    pub chdir: Option<PathBuf>,
    /// `--mode`, as typed
    pub mode: Option<String>,
    /// `--backend`, as typed
    pub backend: Option<String>,
    /// `--engine`, as typed
    pub engine: Option<String>,
    /// `--sandbox`, as typed
    pub sandbox: Option<String>,
    /// `--session`
    pub session: Option<String>,
}

/// Everything `load` needs to know about the call.
#[derive(Debug, Clone)]
pub struct LoadRequest {
    /// `-f` and `-p` in order; empty means discovery (after `CCBOX_SPEC`).
    pub specs: Vec<SpecSource>,
    /// `-n PROFILE`.
    pub profile: Option<String>,
    /// `-D KEY=VALUE`, split.
    pub params: Vec<(String, String)>,
    /// Flags.
    pub flags: FlagRules,
    /// `CCBOX_SPEC` where set and not empty.
    pub env_spec: Option<OsString>,
    /// `CCBOX_SANDBOX` where set and not empty.
    pub env_sandbox: Option<OsString>,
    /// The caller's cwd as spelled.
    pub cwd: PathBuf,
    /// `$HOME`.
    pub home: PathBuf,
    /// The caller's uid.
    pub uid: u32,
    /// ccbox's config directory (`config.toml`).
    pub config_dir: PathBuf,
    /// ccbox's state directory (trust records).
    pub state_dir: PathBuf,
    /// `/etc/ccbox/managed.toml`, another path in tests.
    pub managed: PathBuf,
    /// Built-in parameters for `${param:KEY}` given by the caller's context.
    pub stdin_spec: Option<Vec<u8>>,
}

/// A layer that took part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerInfo {
    /// Kind.
    pub layer: Layer,
    /// File, where it is one.
    pub file: Option<PathBuf>,
    /// What happened to it, e.g. `3 keys ignored: not trusted`.
    pub note: Option<String>,
}

/// The result of loading.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// Merged policy.
    pub policy: Policy,
    /// Layers, weakest first.
    pub layers: Vec<LayerInfo>,
}

/// What is wrong with a spec: one problem, with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SpecError {
    /// `file:line:col: what`, lower case.
    pub message: String,
    /// Next step.
    pub hint: Option<String>,
    /// Source line with a caret.
    pub snippet: Option<String>,
}

impl Failure for SpecError {
    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
    fn detail(&self) -> Option<String> {
        self.snippet.clone()
    }
}

/// Loads and merges the layers that apply to this call.
pub fn load(_req: &LoadRequest) -> Result<Loaded, SpecError> {
    unimplemented!("spec::load")
}
