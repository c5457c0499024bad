//! Covers: what the command may not read is hidden by nodes of one small FUSE file system, for which ccbox answers.
//!
//! The pre-stage mounts it in its own namespaces and sends the device here; its root has one node for each hidden object, in the order
//! of the list both sides have, and each node is bound over its object (`premounts`). Nothing else of the run passes through it, so
//! nothing else gets slower. A node shows the metadata of what it hides, and refuses everything but that (semantics 26); each
//! refusal is told, with the path, the call and the process.
//!
//! When this process dies the kernel refuses instead (ENOTCONN). The file system ends with the mount namespace of the run.

mod nodes;
mod serve;
mod who;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

pub(super) use nodes::{Covered, name};

use crate::backend::{Mount, PreMount};

/// What the pre-stage covers, in its order.
pub(super) fn hidden(premounts: &[PreMount]) -> Vec<Covered> {
    let covers = premounts.iter().filter_map(|m| match m {
        PreMount::Guest {
            mount: Mount::Cover { of, dst, is_dir },
            ..
        } => Some(Covered {
            host: of.clone(),
            guest: dst.clone(),
            is_dir: *is_dir,
        }),
        PreMount::Overlay(_) | PreMount::Guest { .. } => None,
    });
    covers.collect()
}

/// What was tried on something hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tried {
    /// Opening a file.
    Read,
    /// Listing a directory.
    List,
    /// A name inside a hidden directory.
    Lookup,
    /// A mere question: access(2), chdir(2), or stat(2), execve(2) and the like of a name inside a hidden directory.
    Access,
    /// Anything else.
    Other,
}

/// A refused read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadDenial {
    /// What was tried.
    pub tried: Tried,
    /// Absolute path as the command sees it.
    pub path: PathBuf,
    /// On the host, where that is another one.
    pub host_path: Option<PathBuf>,
    /// Process on the host.
    pub pid: Option<i32>,
    /// Its name.
    pub program: Option<String>,
}

/// Takes refused reads, from a thread of its own. While it does not come back, whoever touches a cover waits.
pub trait Witness: Send + Sync {
    /// A read was refused.
    fn read_denied(&self, denial: ReadDenial);
}

/// The covers of a run while they are served: step by step where [`Self::device`] has something to read, and from the start of the
/// command on by a thread of their own.
pub(super) struct Covers {
    here: Option<serve::Server>,
}

impl Covers {
    /// `top` is the process in whose process namespace the file system was mounted.
    pub(super) fn new(
        device: OwnedFd,
        covered: Vec<Covered>,
        top: i32,
        witness: Option<Arc<dyn Witness>>,
    ) -> Self {
        let nodes = nodes::Nodes::new(covered);
        let server = serve::Server::new(device, nodes, who::Who::new(top), witness);
        Self { here: Some(server) }
    }

    /// To be waited for; nothing once the thread serves.
    pub(super) fn device(&self) -> Option<BorrowedFd<'_>> {
        self.here.as_ref().map(serve::Server::device)
    }

    /// Answers one request.
    pub(super) fn step(&mut self) {
        if !self.here.as_mut().is_some_and(serve::Server::step) {
            self.here = None;
        }
    }

    /// The command starts: refusals are told from now on. The thread ends with the file system, and nobody waits for it. Not before:
    /// a process with threads cannot fork for another try.
    pub(super) fn start_thread(&mut self) -> io::Result<()> {
        if let Some(server) = self.here.take() {
            std::thread::Builder::new()
                .name("covers".to_owned())
                .spawn(move || server.run())?;
        }
        Ok(())
    }
}
