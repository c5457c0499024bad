//! Calls that take time: opening a FIFO without a reader or a file under a lease, connecting where nobody has room yet. One thread tries
//! them again and again, so that no worker waits.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::Broker;
use crate::sys::{at, fifo, notify, unix};

/// The pause between two attempts, at first and at last.
const SHORTEST: Duration = Duration::from_micros(500);
const LONGEST: Duration = Duration::from_millis(20);

/// Each holds a descriptor of this process.
const MOST: usize = 512;

/// A call that goes on.
#[derive(Debug)]
pub(super) enum Waiting {
    Open(Opening),
    Connect(Connecting),
}

/// A connection that is being made.
#[derive(Debug)]
pub(super) struct Connecting {
    /// The caller's, the same open file.
    pub(super) socket: OwnedFd,
    pub(super) wait: Wait,
    /// The socket's own limit (SO_SNDTIMEO).
    pub(super) until: Option<Instant>,
}

/// What a connection waits for.
#[derive(Debug)]
pub(super) enum Wait {
    /// The kernel's answer.
    Progress,
    /// Room at this socket of the file system.
    Room(OwnedFd),
}

/// An open that goes on.
#[derive(Debug)]
pub(super) struct Opening {
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
    let tried = match &queued.waiting {
        Waiting::Open(opening) => open(broker, queued.id, opening),
        Waiting::Connect(connecting) => connect(broker, connecting),
    };
    let answer = match tried {
        Ok(None) => return false,
        Ok(Some(value)) => notify::Answer::Value(value),
        Err(errno) => notify::Answer::Error(errno),
    };
    // ENOENT: the caller was killed while its answer was made.
    let _gone = notify::answer(listener, buffers, queued.id, answer);
    true
}

/// What the call returns; `None` as long as it waits.
fn open(broker: &Broker, id: u64, opening: &Opening) -> Result<Option<i64>, Errno> {
    let opened = if opening.reader {
        if !fifo::has_writer(opening.object.as_fd())? {
            return Ok(None);
        }
        opening.object.try_clone().map_err(|_| Errno::EMFILE)
    } else {
        at::open_here(&at::own_name(opening.object.as_fd()), opening.flags)
    };
    let file = match opened {
        Err(Errno::ENXIO | Errno::EAGAIN) if !opening.reader => return Ok(None),
        other => other?,
    };
    at::set_flags(file.as_fd(), opening.settle)?;
    let listener = broker.listener.as_fd();
    let number = notify::add_descriptor(listener, id, file.as_fd(), opening.close_on_exec, false)?;
    Ok(Some(number.into()))
}

fn connect(broker: &Broker, connecting: &Connecting) -> Result<Option<i64>, Errno> {
    let socket = connecting.socket.as_fd();
    let late = connecting
        .until
        .is_some_and(|until| Instant::now() >= until);
    match &connecting.wait {
        Wait::Progress => match (unix::is_decided(socket)?, late) {
            (true, _) => match unix::taken_error(socket)? {
                0 => Ok(Some(0)),
                errno => Err(Errno::from_raw(errno)),
            },
            (false, true) => Err(Errno::EINPROGRESS),
            (false, false) => Ok(None),
        },
        Wait::Room(object) => {
            let Some(sockets) = &broker.sockets else {
                return Err(Errno::EINVAL);
            };
            match sockets.without_waiting(socket, |s| unix::connect_to(s, object.as_fd())) {
                Err(Errno::EAGAIN) if !late => Ok(None),
                other => other.map(|()| Some(0)),
            }
        }
    }
}
