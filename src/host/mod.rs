//! Facts about this machine and this call, as plain data that tests can make up.

pub mod fs_view;
pub mod probe;

use std::ffi::OsString;
use std::path::PathBuf;

pub use fs_view::{FsView, RealFs};

/// What the planner may know about the host. Collected once; constructible in tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFacts {
    /// The caller's uid and gid (real ids).
    pub uid: u32,
    /// The caller's gid.
    pub gid: u32,
    /// Login name, from the user database or `uid` in decimal.
    pub user: String,
    /// `$HOME` if absolute and existing, else the user database (semantics 38), as spelled.
    pub home: PathBuf,
    /// Canonical form of `home`.
    pub home_real: PathBuf,
    /// The caller's cwd as spelled (`$PWD` if it names the same directory), absolute.
    pub cwd: PathBuf,
    /// Canonical form of `cwd`.
    pub cwd_real: PathBuf,
    /// The caller's environment.
    pub env: Vec<(OsString, OsString)>,
    /// This executable.
    pub exe: PathBuf,
    /// `$XDG_STATE_HOME/ccbox` or `~/.local/state/ccbox`.
    pub state_dir: PathBuf,
    /// `$XDG_CONFIG_HOME/ccbox` or `~/.config/ccbox`.
    pub config_dir: PathBuf,
    /// WSL2 (Linux only).
    pub wsl2: bool,
    /// Already inside a ccbox sandbox (semantics 46), known by the mark on the private /run.
    pub nested: bool,
    /// Bytes of memory that bound the private /tmp: the smaller of RAM and the cgroup limit (semantics 11).
    pub memory_limit: u64,
}

impl HostFacts {
    /// A variable of the caller.
    #[must_use]
    pub fn var(&self, name: &str) -> Option<&std::ffi::OsStr> {
        self.env
            .iter()
            .rev()
            .find(|(k, _)| k == name)
            .map(|(_, v)| v.as_os_str())
    }
}
