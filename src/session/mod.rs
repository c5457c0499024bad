//! The live run: starts the engine, serves the proxies, relays signals, ends with the child.

pub mod harden;

use std::any::Any;
use std::io;
use std::net::TcpListener;

use crate::backend::{Invocation, NetSetup};
use crate::exit::Failure;

/// How the run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The command ended with this code.
    Exited(u8),
    /// The command was killed by this signal; ccbox dies the same way.
    Signalled(i32),
    /// The command was not found (127) or could not be executed (126); errno of execve.
    NotStarted {
        /// errno.
        errno: i32,
    },
}

/// What was really put in place, for the enforced line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Enforced {
    /// `bwrap-0.8.0` or `none`.
    pub engine: String,
    /// Landlock ABI in force inside, 0 where there is none.
    pub landlock_abi: i32,
    /// How the network was set up.
    pub net: Option<NetSetup>,
}

/// Called with the listeners of the child's namespace before any user code runs; the value lives as long as the run.
pub type OnListeners<'a> = Box<dyn FnOnce(Vec<TcpListener>) -> io::Result<Box<dyn Any>> + 'a>;

/// Everything the session needs beside the invocation.
pub struct SessionConfig<'a> {
    /// How the network is set up.
    pub net: NetSetup,
    /// Loopback ports to listen on inside (each on 127.0.0.1 and ::1), in order; listeners arrive as v4, v6, v4, v6, …
    pub listen: Vec<u16>,
    /// Descriptors above 2 that the child keeps (`--keep-fd`; the job server, LISTEN_FDS and named pipes are found by `fds::inherited`).
    pub keep_fds: Vec<i32>,
    /// Directories to create 0700 before anything starts.
    pub state_dirs: Vec<std::path::PathBuf>,
    /// Starts the proxies.
    pub on_listeners: OnListeners<'a>,
    /// Called once the sandbox stands, just before the command starts.
    pub on_ready: Box<dyn FnOnce(&Enforced) + 'a>,
}

impl std::fmt::Debug for SessionConfig<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionConfig")
            .field("net", &self.net)
            .finish_non_exhaustive()
    }
}

/// Why a run could not be started or had to be ended.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SessionError {
    /// What failed and why.
    pub message: String,
    /// The real fix.
    pub hint: Option<String>,
    /// The same run may work with the network set up this way; nothing has been started and no hook was called.
    pub retry: Option<NetSetup>,
}

impl Failure for SessionError {
    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

/// Runs to the end. Must be called from the main thread before any other thread exists.
pub fn run(_invocation: Invocation, _config: SessionConfig<'_>) -> Result<Outcome, SessionError> {
    unimplemented!("session::run")
}

/// Ends this process by the signal that ended the command; comes back with 128 + n where that signal does not kill.
#[must_use]
pub fn die_as(_signal: i32) -> u8 {
    unimplemented!("session::die_as")
}

/// The stage inside the sandbox.
pub mod inner {
    /// Entry of `ccbox __inner N`; `arguments` are those behind the word.
    #[must_use]
    pub fn main(_arguments: &[std::ffi::OsString]) -> u8 {
        unimplemented!("session::inner")
    }
}
