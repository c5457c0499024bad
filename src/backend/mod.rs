//! Renders a plan for one engine: argv, descriptors, environment. Pure.

pub mod builtin;
pub mod bwrap;
pub mod landlock;
pub mod none;
pub mod seatbelt;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use crate::plan::exec::ExecRule;
use crate::plan::os_path;
pub use crate::plan::{Mount, ReadFloor};

/// Where the pre-stage puts the child's file system for the engine: a directory that every system has and that the engine, which finds
/// /dev made, has no other use for.
pub const STAGE: &str = "/dev";

/// What the session starts.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The engine.
    pub engine: Engine,
    /// Argument vector of the engine after its program name, without `--args`; empty where no program is run.
    pub args: Vec<EngineArg>,
    /// What the inner stage does.
    pub inner: InnerPlan,
    /// Mounts the pre-stage makes in its own mount namespace, in this order. If one of them is the child's, all of the child's are
    /// among them, and the engine finds that file system at [`STAGE`].
    pub premounts: Vec<PreMount>,
}

/// An argument: literal text, or a descriptor whose content the session provides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineArg {
    /// Literal.
    Text(OsString),
    /// The number of a descriptor that holds this content (`--ro-bind-data`).
    Data(Vec<u8>),
    /// The descriptor number of this executable, for `/proc/self/fd/N`.
    SelfExe,
}

/// A mount made in the pre-stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PreMount {
    /// A cache, on a host path; the child's file system takes it from there.
    Overlay(OverlayMount),
    /// A mount of the child's file system, as planned; no cache, and of /proc something only for [`Engine::Builtin`].
    Guest {
        /// Any other mount.
        mount: Mount,
        /// Device nodes work in it.
        devices: bool,
    },
}

impl PreMount {
    /// Whether it is part of the child's file system.
    #[must_use]
    pub fn in_guest(&self) -> bool {
        !matches!(self, Self::Overlay(_))
    }
}

/// An overlay mounted in the pre-stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlayMount {
    /// Read-only layers, the uppermost first.
    #[serde(with = "os_path::list")]
    pub lowers: Vec<PathBuf>,
    /// Writable layer; the session puts another one in its place where a run uses it already.
    #[serde(with = "os_path")]
    pub upper: PathBuf,
    /// Directory beside it for work directories, one a run; the session puts that of the run in its place.
    #[serde(with = "os_path")]
    pub work: PathBuf,
    /// Host path the merged tree is mounted on, in the pre-stage's private mount namespace.
    #[serde(with = "os_path")]
    pub at: PathBuf,
}

/// Engines, a closed set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    /// bubblewrap at a fixed path.
    Bwrap {
        /// `/usr/bin/bwrap` or another fixed system path.
        program: PathBuf,
        /// As `bwrap --version` prints it, where known.
        version: Option<String>,
    },
    /// The pre-stage is the sandbox itself: it enters the file system it has built and stays as pid 1.
    Builtin,
    /// No namespaces and no mounts: Landlock, the filter and the broker hold what the plan asks for, on the host's own file system.
    Landlock {
        /// The run's `$TMPDIR`, made by the session and removed with the run.
        tmp: PathBuf,
    },
    /// No isolation.
    None,
}

/// What the inner stage needs to know; handed over as bytes on an inherited descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InnerPlan {
    /// The command.
    pub argv: Vec<OsString>,
    /// The child's complete environment.
    pub env: Vec<(OsString, OsString)>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Guest path, device, inode of each grant to verify.
    pub pins: Vec<(PathBuf, u64, u64)>,
    /// Guest paths with WRITE_FILE in the Landlock domain.
    pub writable: Vec<PathBuf>,
    /// Host and guest path of writable binds at another guest path.
    pub moved: Vec<(PathBuf, PathBuf)>,
    /// Descriptors above 2 the child keeps.
    pub keep_fds: Vec<i32>,
    /// Install the hardening filter and the Landlock domain (false only for `none`).
    pub confine: bool,
    /// The inner stage makes the listeners itself (bubblewrap unshared the network), on these loopback ports.
    pub listen: Vec<u16>,
    /// Signals that were ignored when ccbox started, restored for the child.
    pub ignored_signals: Vec<i32>,
    /// AF_UNIX sockets may be made (only with `filesystem.disabled` or `none`).
    pub unix_sockets: bool,
    /// AF_INET is the host's (`network.mode = "open"`).
    pub open_network: bool,
    /// Where programs cannot be executed from (`exec.deny_writable`).
    pub programs: Option<ExecRule>,
    /// The command may write in these trees through the broker only; `None` runs without it.
    pub floor: Option<Floor>,
    /// Hidden files that stay closed whatever the host puts in their place.
    pub read_floor: ReadFloor,
    /// With a floor: opens for reading are asked of the broker as well.
    pub trap_reads: bool,
    /// With a floor: Unix sockets may be made, and the broker is asked where they are bound and connected.
    pub trap_sockets: bool,
    /// The command is a process group of its own and the terminal's foreground one where ccbox' is: an interactive shell (which else
    /// finds a group it cannot name in its process namespace, and dash(1) ends with "Cannot set tty process group").
    pub own_group: bool,
    /// No mounts and no namespaces stand behind domain and filter.
    pub alone: Option<Alone>,
    /// Limits of the command.
    pub limits: Vec<(Limit, u64)>,
}

/// What domain and filter hold where nothing else does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alone {
    /// What may be read; `None` is everything.
    pub view: Option<AllowList>,
    /// Whom it can talk to.
    pub network: Reach,
}

/// What a command without a network of its own can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Whatever the host reaches.
    Host,
    /// Nothing: no socket of a network can be made.
    Nothing,
    /// The proxies of the run, by TCP, and nothing else.
    Proxies,
}

/// What may be read on the host's own file system, as its link-free paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowList {
    /// With everything below.
    pub whole: Vec<PathBuf>,
    /// Directories with something of their own below: their entries are granted one by one, and later ones are not.
    pub around: Vec<PathBuf>,
    /// What stands for itself: it is granted in `whole`, walked in `around`, or hidden.
    pub apart: Vec<PathBuf>,
    /// Directories outside of it cannot be listed either.
    pub lists: bool,
}

impl AllowList {
    /// Whether something at this path may be read.
    #[must_use]
    pub fn shows(&self, path: &Path) -> bool {
        let one_by_one = |at: &Path| {
            at.parent()
                .is_some_and(|dir| self.around.iter().any(|a| a == dir))
                && !self.apart.iter().any(|a| a == at)
        };
        path.ancestors()
            .any(|at| self.whole.iter().any(|w| w == at) || one_by_one(at))
    }
}

/// A limit of a process (setrlimit(2)), inherited by what it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// Private writable memory (RLIMIT_DATA).
    Data,
    /// Processes and threads of the user in its user namespace (RLIMIT_NPROC).
    Processes,
    /// Seconds of processor time (RLIMIT_CPU).
    Cpu,
    /// Open descriptors (RLIMIT_NOFILE).
    Files,
}

/// A control group for the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPlan {
    /// Where it is made.
    pub parent: PathBuf,
    /// The group of the caller, where ccbox goes back to.
    pub own: PathBuf,
    /// Files of the group and what is written to them.
    pub files: Vec<(&'static str, String)>,
}

/// The Landlock floor below the broker: what the command may do by itself, as guest paths (linux-engine.md §1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    /// Writable trees in which the command has no right to write, make, remove or move anything.
    pub covered: Vec<PathBuf>,
    /// Where it has all of them. Never at or above a covered tree: Landlock adds up the rules of all ancestors (P0).
    pub exempt: Vec<PathBuf>,
}

/// How the network namespace of a run is made (D6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetSetup {
    /// The pre-stage makes user and network namespace and the listeners; bubblewrap joins.
    PreStage,
    /// bubblewrap unshares the network, the inner stage makes the listeners.
    Inner,
    /// The host's network (`network.mode = "open"`).
    Host,
}
