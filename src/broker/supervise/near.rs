//! Keeps a worker on the processor of whoever calls it.
//!
//! Where both run on one processor, each wakes the other there, and a call costs a few microseconds. But a descriptor is handed out without
//! SYNC_WAKE_UP (`complete` in seccomp_notify_addfd, kernel/seccomp.c), so once the two are apart they wake each other across processors,
//! each call costs two wake-ups of a sleeping one, and nothing brings them together: the worker is never found asleep in RECV any more.
//! Measured on two idle processors of a virtual machine: 6 µs together, 25 to 50 µs apart, and either lasts.
//!
//! So a worker whose hand-overs take long looks where its caller was stopped, and goes there. It is free to leave again: its mask stays what
//! it was. Nor is the caller held: where it uses less time than the worker, it is placed anew when it is woken, on an idle processor
//! (since 6.6 who has used its share stays queued while asleep, and is woken where it is). Going after it again and again costs more than
//! it saves, so each time doubles the calls until the next, until hand-overs are short again.

use std::cell::Cell;
use std::time::Duration;

use crate::sys::cpu::{self, Mask};
use crate::sys::task;

/// Handing over a file takes less than this on one processor, mostly.
const LONG: Duration = Duration::from_micros(8);
/// So many hand-overs in a row that took longer are reason to look.
const IN_A_ROW: u32 = 4;
/// A look costs 10 µs, and going there more: so many calls from one to the next, and twice as many each time, up to ...
const AT_LEAST: u32 = 64;
/// ... so many.
const AT_MOST: u32 = 1 << 14;

/// What a worker needs for it.
#[derive(Debug)]
pub(super) struct Near {
    /// Where this thread may run.
    mask: Option<Mask>,
    /// Hand-overs in a row that took long.
    long: Cell<u32>,
    /// Calls without a look to come.
    wait: Cell<u32>,
    /// So many calls without a look follow the next one.
    pause: Cell<u32>,
    /// Hand-overs in a row that did not take long.
    short: Cell<u32>,
}

impl Near {
    /// For the calling thread.
    pub(super) fn new() -> Self {
        Self {
            mask: Mask::own(),
            long: Cell::new(0),
            wait: Cell::new(0),
            pause: Cell::new(AT_LEAST),
            short: Cell::new(0),
        }
    }

    /// A hand-over took this long.
    pub(super) fn took(&self, time: Duration) {
        if time >= LONG {
            self.short.set(0);
            self.long.set(self.long.get() + 1);
            return;
        }
        self.long.set(0);
        self.short.set(self.short.get() + 1);
        if self.short.get() >= IN_A_ROW {
            self.pause.set(AT_LEAST);
        }
    }

    /// To be called with each call, while its caller waits.
    pub(super) fn follow(&self, caller: i32) {
        let wait = self.wait.get();
        if wait > 0 {
            self.wait.set(wait - 1);
        } else if self.long.get() >= IN_A_ROW {
            self.long.set(0);
            let pause = self.pause.get();
            self.wait.set(pause);
            self.pause.set((pause * 2).min(AT_MOST));
            let here = cpu::here();
            if let Some(there) = task::processor(caller)
                && here != Some(there)
            {
                self.go(there);
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
        let micros = |times: &[u64]| {
            for &time in times {
                near.took(Duration::from_micros(time));
            }
        };
        micros(&[9, 9, 9, 1, 9, 9, 9]);
        near.follow(own);
        assert_eq!((near.long.get(), near.wait.get()), (3, 0));
        for pause in [64, 128, 256] {
            micros(&[9, 9, 9, 8]);
            // No thread, so no place to go to.
            near.follow(-1);
            assert_eq!((near.long.get(), near.wait.get()), (0, pause));
            micros(&[9, 9, 9, 9, 7]);
            for left in (0..pause).rev() {
                near.follow(own);
                assert_eq!(near.wait.get(), left);
            }
        }
        micros(&[1, 1, 1, 1, 8, 8, 8, 8]);
        near.follow(-1);
        assert_eq!(near.wait.get(), AT_LEAST);
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
