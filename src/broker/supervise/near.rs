//! Keeps a worker on the processor of whoever calls it.
//!
//! Where both run on one processor, each wakes the other there, and a call costs a few microseconds. But a descriptor is handed out without
//! SYNC_WAKE_UP (`complete` in seccomp_notify_addfd, kernel/seccomp.c), so once the two are apart they wake each other across processors,
//! each call costs two wake-ups of a sleeping one, and nothing brings them together: the worker is never found asleep in RECV any more.
//! Measured on two idle processors of a virtual machine: 6 µs together, 25 to 50 µs apart, and either lasts.
//!
//! So a worker whose hand-overs take long looks where its caller was stopped, and goes there. It is free to leave again: its mask stays what it was.

use std::cell::Cell;
use std::time::Duration;

use crate::sys::cpu::{self, Mask};
use crate::sys::task;

/// Handing over a file takes less than this on one processor, mostly.
const LONG: Duration = Duration::from_micros(8);
/// So many hand-overs in a row that took longer are reason to look.
const IN_A_ROW: u32 = 4;
/// A look costs 10 µs; where the two were together, that is for so many calls the last one.
const NOT_AGAIN: u32 = 64;

/// What a worker needs for it.
#[derive(Debug)]
pub(super) struct Near {
    /// Where this thread may run.
    mask: Option<Mask>,
    /// Hand-overs in a row that took long.
    long: Cell<u32>,
    /// Calls without a look to come.
    wait: Cell<u32>,
}

impl Near {
    /// For the calling thread.
    pub(super) fn new() -> Self {
        Self {
            mask: Mask::own(),
            long: Cell::new(0),
            wait: Cell::new(0),
        }
    }

    /// A hand-over took this long.
    pub(super) fn took(&self, time: Duration) {
        let long = if time < LONG { 0 } else { self.long.get() + 1 };
        self.long.set(long);
    }

    /// To be called with each call, while its caller waits.
    pub(super) fn follow(&self, caller: i32) {
        let wait = self.wait.get();
        if wait > 0 {
            self.wait.set(wait - 1);
        } else if self.long.get() >= IN_A_ROW {
            self.long.set(0);
            let here = cpu::here();
            match task::processor(caller) {
                Some(there) if here != Some(there) => self.go(there),
                _ => self.wait.set(NOT_AGAIN),
            }
        }
    }

    /// Nothing is lost where it does not succeed but time.
    fn go(&self, there: usize) {
        if let Some(mask) = self.mask.filter(|mask| mask.has(there)) {
            mask.go(there);
        }
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_row_of_long_ones_is_a_reason_to_look() {
        let near = Near::new();
        let own = nix::unistd::gettid().as_raw();
        for time in [9, 9, 9, 1, 9, 9, 9] {
            near.took(Duration::from_micros(time));
            near.follow(own);
        }
        assert_eq!((near.long.get(), near.wait.get()), (3, 0));
        near.took(LONG);
        // No thread, so no place to go to.
        near.follow(-1);
        assert_eq!((near.long.get(), near.wait.get()), (0, NOT_AGAIN));
        near.follow(own);
        assert_eq!(near.wait.get(), NOT_AGAIN - 1);
    }

    #[test]
    fn a_worker_goes_where_its_caller_is_and_stays_free() {
        let near = Near::new();
        let mask = near.mask.unwrap();
        let free = (0..cpu::limit()).filter(|&n| mask.has(n));
        for there in free {
            near.go(there);
            // It may have left again by now, but it may go anywhere.
            assert_eq!(Mask::own(), Some(mask), "{there}");
        }
        near.go(cpu::limit() - 1);
        near.go(usize::MAX);
        assert_eq!(Mask::own(), Some(mask));
    }
}
