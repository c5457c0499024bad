//! The answers, one after the other; none of them waits for anything but the host's own file systems.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use nix::errno::Errno;

use super::nodes::{Nodes, name};
use super::who::Who;
use super::{ReadDenial, Tried, Witness};
use crate::sys::fuse::{self, Answer, Attributes, Call, ROOT, Received, Request};

/// How long the kernel may show metadata without asking again.
const FRESH_SECONDS: u64 = 1;

/// What answers.
pub(super) struct Server {
    device: OwnedFd,
    nodes: Nodes,
    who: Who,
    witness: Option<Arc<dyn Witness>>,
    /// It is the command that asks: refusals are told.
    told: bool,
    buffer: Vec<u8>,
}

impl Server {
    pub(super) fn new(
        device: OwnedFd,
        nodes: Nodes,
        who: Who,
        witness: Option<Arc<dyn Witness>>,
    ) -> Self {
        Self {
            device,
            nodes,
            who,
            witness,
            told: false,
            buffer: vec![0; fuse::REQUEST],
        }
    }

    pub(super) fn device(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    /// Until the file system is gone, on a thread of its own. A failure ends it too: with the device closed the kernel refuses
    /// everything.
    pub(super) fn run(mut self) {
        self.told = true;
        if fuse::make_patient(&self.device).is_ok() {
            while self.step() {}
        }
    }

    /// Answers the next request; `false` where there will be none any more.
    pub(super) fn step(&mut self) -> bool {
        let length = match fuse::receive(&self.device, &mut self.buffer) {
            Ok(Received::Request(length)) => length,
            Ok(Received::Nothing) => return true,
            Ok(Received::End) | Err(_) => return false,
        };
        // Out of the way of the borrow; it comes back below.
        let buffer = std::mem::take(&mut self.buffer);
        let going_on = buffer
            .get(..length)
            .and_then(Request::parse)
            .is_some_and(|request| self.answer(&request));
        self.buffer = buffer;
        going_on
    }

    fn answer(&mut self, request: &Request<'_>) -> bool {
        let Some((answer, tried)) = respond(&self.nodes, request) else {
            return true;
        };
        // As long as it waits for its answer the process is there to be looked at.
        let denial = tried.and_then(|tried| self.denial(request, tried));
        if answer.send(&self.device).is_err() {
            return false;
        }
        if let Some((denial, witness)) = denial.zip(self.witness.as_ref()) {
            witness.read_denied(denial);
        }
        true
    }

    fn denial(&mut self, request: &Request<'_>, tried: Tried) -> Option<ReadDenial> {
        // Who has no number in the run's process namespace is not of the run: ccbox itself, looking at a path for the command.
        if !self.told || request.pid == 0 {
            return None;
        }
        let covered = self.nodes.get(request.node)?;
        let whole = |path: &Path| {
            if let Call::Lookup(name) = request.call {
                path.join(name)
            } else {
                path.to_path_buf()
            }
        };
        let process = self.who.is(request.pid);
        let asks = tried == Tried::Lookup && process.as_ref().is_some_and(|p| p.only_asks);
        Some(ReadDenial {
            tried: if asks { Tried::Access } else { tried },
            path: whole(&covered.guest),
            host_path: (covered.host != covered.guest).then(|| whole(&covered.host)),
            pid: process.as_ref().map(|p| p.pid),
            program: process.map(|p| p.name),
        })
    }
}

/// The answer to a request, where it wants one, and what it is if it was refused.
fn respond(nodes: &Nodes, request: &Request<'_>) -> Option<(Answer, Option<Tried>)> {
    let tried = match request.call {
        Call::Note => return None,
        // Without an answer the kernel would let everybody wait; an error ends the connection.
        Call::Init { .. } => {
            let answer = request.begin();
            return Some((
                answer.unwrap_or_else(|| request.refuse(Errno::EPROTO)),
                None,
            ));
        }
        // About the file system, not about what is hidden; df(1) looks at every mount.
        Call::FileSystem => return Some((request.empty_file_system(), None)),
        // The kernel remembers this and answers for itself from then on, as for a file system without attributes: ls(1) asks for
        // them of everything it lists.
        Call::Extended | Call::MoreAttributes => {
            return Some((request.refuse(Errno::ENOSYS), None));
        }
        _ if request.node == ROOT => return Some((of_root(nodes, request), None)),
        Call::Attributes => None,
        Call::Access(0) if nodes.get(request.node).is_some() => {
            return Some((request.agree(), None));
        }
        Call::Access(_) => Some(Tried::Access),
        Call::Open => Some(Tried::Read),
        Call::OpenDirectory => Some(Tried::List),
        Call::Lookup(_) => Some(Tried::Lookup),
        Call::List { .. } | Call::Other(_) => Some(Tried::Other),
    };
    let Some(covered) = nodes.get(request.node) else {
        return Some((request.refuse(Errno::ESTALE), None));
    };
    if tried.is_some() {
        return Some((request.refuse(Errno::EACCES), tried));
    }
    let attributes = covered.attributes(request.node);
    Some((request.attributes(&attributes, FRESH_SECONDS), None))
}

/// The root is where the pre-stage takes the nodes from; nobody else sees it. Metadata can wait until somebody asks for it.
fn of_root(nodes: &Nodes, request: &Request<'_>) -> Answer {
    if let Call::Lookup(wanted) = request.call {
        return match wanted.to_str().and_then(|w| nodes.find(w)) {
            Some((node, covered)) => {
                request.entry(node, &Attributes::bare(node, covered.is_dir), 0)
            }
            None => request.refuse(Errno::ENOENT),
        };
    }
    if let Call::List { offset, .. } = request.call {
        let entries: Vec<(u64, String, u64, Attributes)> = nodes
            .behind(offset)
            .map(|(nth, node, c)| {
                (
                    offset_behind(nth),
                    name(nth),
                    node,
                    Attributes::bare(node, c.is_dir),
                )
            })
            .collect();
        let entries = entries
            .iter()
            .map(|(next, name, node, a)| (*next, name.as_str(), *node, a.clone()));
        return request.listing(entries, 0);
    }
    if request.call == Call::Attributes {
        return request.attributes(&Attributes::bare(ROOT, true), FRESH_SECONDS);
    }
    request.agree()
}

fn offset_behind(nth: usize) -> u64 {
    u64::try_from(nth).unwrap_or(u64::MAX).saturating_add(1)
}

#[cfg(test)]
mod tests;
