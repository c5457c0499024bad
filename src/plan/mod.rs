//! A plan: everything about one run, fully resolved, ordered and backend-neutral.
//!
//! `Plan::resolve` asks the file system questions and changes nothing; `explain`, `check`, `--dry-run` and the goldens use it as it is.

mod access_log;
mod book;
mod broker;
mod caches;
pub mod check;
mod context;
mod crowds;
mod denies;
mod env;
mod etc_files;
pub mod exec;
pub mod explain;
mod gaps;
mod git_includes;
mod grants;
mod hooks_path;
mod judge;
pub mod late;
mod layout;
mod mandatory;
mod memo;
mod names;
mod nevers;
mod order;
pub(crate) mod os_path;
mod other_runs;
mod paths;
mod quick;
mod read_floor;
mod reads;
mod resolve;
mod rules;
pub mod seatbelt;
mod secrets;
mod sockets;
mod spellings;
mod tree;
mod upstream;
mod view;
mod worktree;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
pub(crate) mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::broker::plan::BrokerPlan;
use crate::policy::egress::{Catchment, EgressPolicy};
use crate::policy::upstream::Chain;
use crate::policy::{Mode, NetworkMode, Origin, UserProxies, View};

pub use caches::CacheUse;
pub use check::hiding;
pub use grants::is_system;
pub use judge::{BARE_REPOSITORY, SHORT_NAME, git_words};
pub use mandatory::AGENT_HOME_NAME;
pub use paths::real_path;
pub use read_floor::ReadFloor;
pub use rules::place;
pub use secrets::{DENIALS, holds_secret, is_secret};
pub use view::NESTING_MARK;

/// One step of building the child's file system, in the order it is carried out. All paths are absolute and, for `dst`, free of links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mount {
    /// Read-only bind, recursive.
    RoBind {
        /// Host path.
        #[serde(with = "os_path")]
        src: PathBuf,
        /// Guest path.
        #[serde(with = "os_path")]
        dst: PathBuf,
    },
    /// Writable bind, recursive.
    Bind {
        /// Host path.
        #[serde(with = "os_path")]
        src: PathBuf,
        /// Guest path.
        #[serde(with = "os_path")]
        dst: PathBuf,
    },
    /// A writable bind of a directory in ccbox's own state, created by the session where absent (mode 700).
    State {
        /// Host path below the state directory.
        #[serde(with = "os_path")]
        src: PathBuf,
        /// Guest path.
        #[serde(with = "os_path")]
        dst: PathBuf,
    },
    /// A copy-on-write cache: `lower` read-only below, changes kept in ccbox's state (semantics 45).
    Overlay {
        /// The host's cache directory.
        #[serde(with = "os_path")]
        lower: PathBuf,
        /// Writable layer below the state directory.
        #[serde(with = "os_path")]
        upper: PathBuf,
        /// Directory beside `upper` for overlayfs work directories: one a run, made by the session, because two mounts may not share one.
        #[serde(with = "os_path")]
        work: PathBuf,
        /// Guest path.
        #[serde(with = "os_path")]
        dst: PathBuf,
    },
    /// Private in-memory directory.
    Tmpfs {
        /// Guest path.
        #[serde(with = "os_path")]
        dst: PathBuf,
        /// Permission bits.
        mode: u32,
        /// Size limit in bytes, where one is set.
        size: Option<u64>,
    },
    /// A directory made inside a private mount.
    Dir {
        /// Guest path.
        #[serde(with = "os_path")]
        dst: PathBuf,
        /// Permission bits.
        mode: u32,
    },
    /// A link made inside a private mount.
    Symlink {
        /// Text of the link.
        #[serde(with = "os_path")]
        target: PathBuf,
        /// Guest path.
        #[serde(with = "os_path")]
        dst: PathBuf,
    },
    /// A file with generated content made inside a private mount.
    File {
        /// Guest path.
        #[serde(with = "os_path")]
        dst: PathBuf,
        /// The content.
        content: Vec<u8>,
        /// Permission bits.
        mode: u32,
    },
    /// A read-only file with generated content over one of the host.
    Data {
        /// Guest path.
        #[serde(with = "os_path")]
        dst: PathBuf,
        /// The content.
        content: Vec<u8>,
        /// Permission bits.
        mode: u32,
    },
    /// Hides a file or directory: mode-000 placeholder, read-only, nosuid, nodev, noexec (semantics 26).
    Cover {
        /// Host path of the hidden object.
        of: PathBuf,
        /// Guest path of the hidden object.
        #[serde(with = "os_path")]
        dst: PathBuf,
        /// A directory is hidden by a directory.
        is_dir: bool,
    },
    /// Makes what is mounted at `dst` read-only.
    RemountRo {
        /// Guest path.
        #[serde(with = "os_path")]
        dst: PathBuf,
    },
    /// Minimal /dev (null, zero, full, random, urandom, tty, pts, ptmx, shm, std streams).
    Dev {
        /// Guest path.
        #[serde(with = "os_path")]
        dst: PathBuf,
    },
    /// Fresh /proc of the child's process namespace.
    Proc {
        /// Guest path.
        #[serde(with = "os_path")]
        dst: PathBuf,
    },
}

impl Mount {
    /// Guest path.
    #[must_use]
    pub fn dst(&self) -> &Path {
        match self {
            Self::RoBind { dst, .. }
            | Self::Bind { dst, .. }
            | Self::State { dst, .. }
            | Self::Overlay { dst, .. }
            | Self::Tmpfs { dst, .. }
            | Self::Dir { dst, .. }
            | Self::Symlink { dst, .. }
            | Self::File { dst, .. }
            | Self::Data { dst, .. }
            | Self::Cover { dst, .. }
            | Self::RemountRo { dst }
            | Self::Dev { dst }
            | Self::Proc { dst } => dst,
        }
    }
}

/// A granted object, pinned: the inner stage compares what is mounted at `guest` before any user code runs (semantics 20).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// Guest path.
    pub guest: PathBuf,
    /// Device number the planner saw.
    pub dev: u64,
    /// Inode number the planner saw.
    pub ino: u64,
}

/// Network part of the plan.
#[derive(Debug, Clone)]
pub struct NetworkPlan {
    /// Filtered, off or open.
    pub mode: NetworkMode,
    /// Ready to decide; an empty allow list where the network is off.
    pub egress: EgressPolicy,
    /// Loopback host ports forwarded into the namespace (semantics 42).
    pub forwarded_ports: Vec<u16>,
    /// Which connections without a proxy are caught.
    pub catch: Catchment,
    /// The ports among them behind which a proxy of the caller is, with rules of its own.
    pub user_ports: Vec<u16>,
    /// The caller's proxies in place of ours.
    pub user_proxies: UserProxies,
    /// Which connections go through a proxy of the caller's network.
    pub upstream: Chain,
    /// Where the hint of a refusal points.
    pub hint_file: Option<PathBuf>,
    /// Where each connection is written down; link-free.
    pub access_log: Option<PathBuf>,
}

/// Something a rule asks for that this plan cannot hold; part of the enforced line (R14).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// Stable word, e.g. `absent-names`.
    pub name: &'static str,
    /// One sentence for `probe` and `explain`.
    pub text: String,
}

pub use resolve::MAX_FORWARDED;

/// A fully resolved run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Ordered mounts; the order is documented at the function that makes it.
    pub mounts: Vec<Mount>,
    /// Grants to verify after mounting.
    pub pins: Vec<Pin>,
    /// Guest paths below which the child may write: the WRITE_FILE rules of the Landlock domain (semantics 24).
    pub writable: Vec<PathBuf>,
    /// Host and guest path of every writable piece of the host that is shown at another path than its own.
    pub moved: Vec<(PathBuf, PathBuf)>,
    /// `exec.deny_writable`, where it holds.
    pub exec: Option<exec::ExecRule>,
    /// Hidden files that stay closed whatever the host puts in their place.
    pub read_floor: ReadFloor,
    /// Bound or host.
    pub view: View,
    /// Mode.
    pub mode: Mode,
    /// `filesystem.disabled`.
    pub fs_disabled: bool,
    /// Network.
    pub network: NetworkPlan,
    /// The child's complete environment, without what the session adds (proxy variables).
    pub env: Vec<(OsString, OsString)>,
    /// `env` before ccbox moved temporary files and caches: what a run without isolation gets.
    pub env_scrubbed: Vec<(OsString, OsString)>,
    /// Names dropped from the caller's environment, with their group.
    pub env_dropped: Vec<(OsString, &'static str)>,
    /// Names that were kept and that `explain` lists, with their group (semantics 21).
    pub env_listed: Vec<(OsString, &'static str)>,
    /// Working directory inside, as the caller spells it.
    pub cwd: PathBuf,
    /// The command, as given.
    pub argv: Vec<OsString>,
    /// Directories in ccbox's state that must exist before the mounts (created 0700, with their parents, by the session).
    pub state_dirs: Vec<PathBuf>,
    /// Cache directories.
    pub caches: Vec<CacheUse>,
    /// What the creation broker holds; `None` where nothing of the host is writable, or no broker can work.
    pub broker: Option<Arc<BrokerPlan>>,
    /// What this plan cannot hold.
    pub gaps: Vec<Gap>,
    /// A rule that was asked for is among it: a run that isolates anything is refused with this (R14).
    pub refusal: Option<PlanError>,
    /// One notice each, final wording without prefix; beside those of the policy.
    pub notices: Vec<String>,
    /// Answers of `check` and `explain`.
    pub rules: RuleBook,
}

/// The path rules of a plan in decided form: what `check` asks and `explain` lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleBook {
    /// Every rule that came to hold, strongest first.
    pub rules: Vec<BookRule>,
}

/// One effective path rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BookRule {
    /// What it does.
    pub effect: Effect,
    /// Host path it covers.
    pub path: PathBuf,
    /// The words of the rule, e.g. `protected_paths "~/src/app"`.
    pub rule: String,
    /// Where it was written.
    pub origin: Origin,
}

/// Effects of path rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Readable and writable.
    Write,
    /// Readable.
    Read,
    /// Never writable.
    NeverWrite,
    /// Hidden.
    Hide,
}

/// Why a policy cannot become a plan on this host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PlanError {
    /// What, where in the spec, why.
    pub message: String,
    /// Next step.
    pub hint: Option<String>,
}

impl crate::exit::Failure for PlanError {
    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}
