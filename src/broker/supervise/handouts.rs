//! Handing files out, and the moment in which a file is held by two.
//!
//! With `SECCOMP_ADDFD_FLAG_SEND` the caller goes on with its file before this process has closed its own descriptor of it; otherwise it
//! waits for a second round trip. Few can notice that somebody else holds a file for a moment: execve(2) (ETXTBSY), locks that belong to
//! an open file (flock(2), `F_OFD_SETLK`) and leases. Those calls trap, and before one of them goes on [`Handouts::settle`] waits until
//! whatever was handed out before is closed here.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use nix::errno::Errno;

use crate::broker::calls::Call;
use crate::sys::notify;

/// A counter for each worker: odd while it may hold a file that its caller has got already.
#[derive(Debug)]
pub(super) struct Handouts<const WORKERS: usize>([AtomicU64; WORKERS]);

impl<const WORKERS: usize> Default for Handouts<WORKERS> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl<const WORKERS: usize> Handouts<WORKERS> {
    /// Gives a file to the caller as its answer; back comes one that it cannot have. The caller's own limits hold (EMFILE).
    pub(super) fn give(
        &self,
        worker: usize,
        to: (BorrowedFd<'_>, u64),
        file: OwnedFd,
        close_on_exec: bool,
    ) -> Result<(), (Errno, OwnedFd)> {
        let Some(held) = self.0.get(worker) else {
            return Err((Errno::ENFILE, file));
        };
        held.fetch_add(1, Ordering::SeqCst);
        let given = notify::add_descriptor(to.0, to.1, file.as_fd(), close_on_exec, true);
        let left = match given {
            Ok(_) => {
                drop(file);
                Ok(())
            }
            Err(errno) => Err((errno, file)),
        };
        held.fetch_add(1, Ordering::SeqCst);
        left
    }

    /// Waits until no other worker holds a file that its caller has got by now. This one's own was closed before it received the call.
    pub(super) fn settle(&self, worker: usize) {
        for (other, held) in self.0.iter().enumerate() {
            let seen = held.load(Ordering::SeqCst);
            // Between the two there is a system call that does not wait, and a close. Whatever is handed out from now on is no concern of
            // this caller's.
            while other != worker && seen % 2 == 1 && held.load(Ordering::SeqCst) == seen {
                thread::yield_now();
            }
        }
    }
}

/// What comes of the call depends on who else has a file open.
pub(super) fn must_settle(call: Call) -> bool {
    matches!(
        call,
        Call::Execve | Call::Execveat | Call::Flock | Call::Fcntl
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_others_hold_is_waited_for() {
        let handouts: Handouts<3> = Handouts::default();
        handouts.0[1].store(7, Ordering::SeqCst);
        handouts.0[0].store(4, Ordering::SeqCst);
        handouts.settle(1);
        thread::scope(|scope| {
            let waits = scope.spawn(|| handouts.settle(2));
            thread::sleep(std::time::Duration::from_millis(20));
            assert!(!waits.is_finished());
            // The next one is not waited for.
            handouts.0[1].store(9, Ordering::SeqCst);
            waits.join().unwrap();
        });
    }
}
