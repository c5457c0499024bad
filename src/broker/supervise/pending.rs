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
    let Queued { id, tid, waiting } = queued;
    let goes_on = |buffers: &mut notify::Buffers| {
        let interrupted = has_signal(*tid);
        if interrupted {
            let _gone = notify::answer(listener, buffers, *id, notify::Answer::Interrupted);
        }
        interrupted
    };
    let opened = if waiting.reader {
        match fifo::has_writer(waiting.object.as_fd()) {
            Ok(true) => waiting.object.try_clone().map_err(|_| Errno::EMFILE),
            Ok(false) => return goes_on(buffers),
            Err(errno) => Err(errno),
        }
    } else {
        at::open_here(&at::own_name(waiting.object.as_fd()), waiting.flags)
    };
    let answer = match opened {
        Err(Errno::ENXIO | Errno::EAGAIN) if !waiting.reader => return goes_on(buffers),
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
