//! Opens that take time: a FIFO without a reader, a file under a lease. One thread tries them again and again, so that no worker waits.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use nix::errno::Errno;

use super::Broker;
use crate::sys::{at, fifo, notify};

/// The pause between two attempts, at first and at last.
const SHORTEST: Duration = Duration::from_micros(500);
const LONGEST: Duration = Duration::from_millis(20);

/// Each holds a descriptor of this process.
const MOST: usize = 512;

/// An open that goes on.
#[derive(Debug)]
pub(super) struct Waiting {
    /// What was found under the name; a name that goes to something else meanwhile changes nothing, as in the kernel.
    pub(super) object: OwnedFd,
    /// For open(2), not waiting.
    pub(super) flags: i32,
    /// The status flags it has in the end.
    pub(super) settle: i32,
    pub(super) close_on_exec: bool,
    /// `object` is the reading end of a FIFO, open already: what is missing is a writer.
    pub(super) reader: bool,
}

/// One of them, with who waits for it.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) id: u64,
    pub(super) waiting: Waiting,
}

/// Serves them until every sender is gone.
pub(super) fn serve(broker: &Broker, queue: &Receiver<Queued>) -> Result<(), Errno> {
    let mut buffers = notify::Buffers::new()?;
    let mut all: Vec<Queued> = Vec::new();
    let mut pause = SHORTEST;
    loop {
        let next = if all.is_empty() {
            queue.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            queue.recv_timeout(pause)
        };
        match next {
            Ok(queued) if all.len() >= MOST => {
                let full = notify::Answer::Error(Errno::ENFILE);
                let _gone = notify::answer(broker.listener.as_fd(), &mut buffers, queued.id, full);
            }
            Ok(queued) => {
                all.push(queued);
                pause = SHORTEST;
            }
            Err(RecvTimeoutError::Timeout) => pause = (pause * 2).min(LONGEST),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        all.retain(|queued| !attempt(broker, &mut buffers, queued));
    }
}

/// True when it is over.
fn attempt(broker: &Broker, buffers: &mut notify::Buffers, queued: &Queued) -> bool {
    let listener = broker.listener.as_fd();
    if !notify::is_waiting(listener, queued.id) {
        return true;
    }
    let Queued { id, waiting } = queued;
    let opened = if waiting.reader {
        match fifo::has_writer(waiting.object.as_fd()) {
            Ok(true) => waiting.object.try_clone().map_err(|_| Errno::EMFILE),
            Ok(false) => return false,
            Err(errno) => Err(errno),
        }
    } else {
        at::open_here(&at::own_name(waiting.object.as_fd()), waiting.flags)
    };
    let answer = match opened {
        Err(Errno::ENXIO | Errno::EAGAIN) if !waiting.reader => return false,
        Err(errno) => notify::Answer::Error(errno),
        Ok(file) => {
            let given = at::set_flags(file.as_fd(), waiting.settle).and_then(|()| {
                notify::add_descriptor(listener, *id, file.as_fd(), waiting.close_on_exec, false)
            });
            match given {
                Ok(number) => notify::Answer::Value(i64::from(number)),
                Err(errno) => notify::Answer::Error(errno),
            }
        }
    };
    // ENOENT: the caller was killed while its answer was made.
    let _gone = notify::answer(listener, buffers, *id, answer);
    true
}
