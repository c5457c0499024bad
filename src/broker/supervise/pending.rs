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

impl Waiting {
    /// A call that a signal interrupts is made again from its beginning. A connection that the kernel is making already is not begun twice.
    fn begins_again(&self) -> bool {
        match self {
            Self::Open(_) => true,
            Self::Connect(connecting) => matches!(connecting.wait, Wait::Room(_)),
        }
    }
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
    /// The thread, on the host.
    pub(super) tid: i32,
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
        Ok(None) if queued.waiting.begins_again() && has_signal(queued.tid) => {
            notify::Answer::Interrupted
        }
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

/// The thread waits so that only a deadly signal wakes it (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV). In the kernel any signal that it does
/// not block would, a stop too.
fn has_signal(tid: i32) -> bool {
    std::fs::read(format!("/proc/{tid}/status")).is_ok_and(|status| takes_one(&status))
}

/// By the masks of proc_pid_status(5). What a process is sent any of its threads may take, so that counts where it has only one.
fn takes_one(status: &[u8]) -> bool {
    let field = |name: &[u8]| {
        let mut lines = status.split(|&b| b == b'\n');
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(b":\t"))?;
        std::str::from_utf8(value).ok()
    };
    let mask = |name: &[u8]| field(name).and_then(|text| u64::from_str_radix(text, 16).ok());
    let (Some(own), Some(shared), Some(blocked)) =
        (mask(b"SigPnd"), mask(b"ShdPnd"), mask(b"SigBlk"))
    else {
        return false;
    };
    let alone = field(b"Threads") == Some("1");
    let pending = if alone { own | shared } else { own };
    pending & !blocked != 0
}

#[cfg(test)]
mod tests {
    use super::takes_one;

    #[test]
    fn a_signal_counts_that_this_thread_will_take() {
        for (threads, own, shared, blocked, takes) in [
            (1, 0, 0, 0, false),
            (1, 0x2000, 0, 0, true),
            (1, 0, 0x2000, 0, true),
            (1, 0x2000, 0x2000, 0x2000, false),
            (1, 0x2001, 0, 0x2000, true),
            (2, 0, 0x2000, 0, false),
            (2, 0x2000, 0, 0, true),
        ] {
            let text = format!(
                "Name:\tx\nThreads:\t{threads}\nSigQ:\t0/9\nSigPnd:\t{own:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\nSigIgn:\t0\n"
            );
            assert_eq!(takes_one(text.as_bytes()), takes, "{text}");
        }
        assert!(!takes_one(b"State:\tZ\n"));
        let own = std::fs::read("/proc/thread-self/status").unwrap();
        assert!(!takes_one(&own));
    }
}
