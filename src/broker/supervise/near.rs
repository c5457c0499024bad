//! When a call should be handled on the processor of its caller by a thread that gives way to everybody.
//!
//! With `SECCOMP_ADDFD_FLAG_SEND` two threads are woken without a hint where: the caller, and, once it has installed the descriptor, the
//! broker's own thread, which sleeps in the ioctl until then (`seccomp_notify_addfd`, `seccomp_handle_addfd`). The scheduler places each of
//! them on an idle processor if there is one, and once they are apart they stay apart: every call then wakes a sleeping processor twice,
//! which on a virtual machine takes 50 µs instead of 2.
//!
//! Two properties together keep them on one processor. A thread that may run on one only is woken there. And a processor on which nobody
//! runs but SCHED_IDLE threads counts as idle (`sched_idle_cpu` in `select_idle_sibling`), so the caller stays where such a thread has
//! answered it. Neither is enough alone.
//!
//! Where processors are busy, such a thread would get its turn late, and the usual worker is the fast one. So the usual ones lead, look
//! where their callers are when handing over takes long, and let the near one lead only when they are found apart; it hands the lead back
//! when callers come from here and there, the watchdog takes it away when it does not get its turn, and nobody asks for it again for a while.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::sys::cpu;

/// A hand-over on one processor takes less, unless the caller goes on computing meanwhile.
const LONG: Duration = Duration::from_micros(15);
/// Calls after which what was found is forgotten.
const WINDOW: u32 = 256;
/// As often a usual worker finds its callers elsewhere before the near one leads.
const APART: u32 = 3;
/// As often the near one goes to another processor before it gives up.
const MOVES: u32 = 24;
/// A look takes longer than a call; where it finds nothing, as many long ones are let pass at most.
const PASSED: u32 = 63;
/// How long nobody asks for the near one after it has failed: at first, and at most.
const SOON: Duration = Duration::from_millis(50);
const LATE: Duration = Duration::from_secs(2);

/// What a worker is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Scheduled as everybody is.
    Usual,
    /// Runs on the processor of its caller, when nobody else wants to.
    Near,
}

/// What a worker has seen of where its callers are.
#[derive(Debug, Default)]
pub(super) struct Distance {
    calls: Cell<u32>,
    found: Cell<u32>,
    /// Long ones still to be let pass, and how many it will be the next time.
    pass: Cell<u32>,
    next: Cell<u32>,
    look: Cell<bool>,
}

impl Distance {
    /// Before the first call. The near one looks at once: it is not bound to a processor yet.
    pub(super) fn of(kind: Kind) -> Self {
        Self {
            look: Cell::new(kind == Kind::Near),
            ..Self::default()
        }
    }

    /// A file was handed over.
    pub(super) fn handed_over(&self, took: Duration) {
        if took < LONG {
            return;
        }
        match self.pass.get().checked_sub(1) {
            Some(left) => self.pass.set(left),
            None => self.look.set(true),
        }
    }

    /// A call has come, whose caller sleeps: it is worth a look where.
    pub(super) fn wants_look(&self) -> bool {
        let calls = self.calls.get() + 1;
        if calls > WINDOW {
            self.calls.set(0);
            self.found.set(0);
        } else {
            self.calls.set(calls);
        }
        self.look.take()
    }

    /// The look found the caller elsewhere, or here. Returns how often it was elsewhere lately.
    pub(super) fn looked(&self, elsewhere: bool) -> u32 {
        if elsewhere {
            self.next.set(0);
            self.found.set(self.found.get() + 1);
        } else {
            self.next.set((self.next.get() * 2 + 1).min(PASSED));
        }
        self.pass.set(self.next.get());
        self.found.get()
    }

    fn forget(&self) {
        self.calls.set(0);
        self.found.set(0);
    }
}

/// What is to be done before a call is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Handle,
    /// Let the near one lead from the next call on.
    Near,
    /// Let the usual ones lead from the next call on.
    Usual,
}

/// Looks where the caller is, if there is reason to; the near one goes there.
pub(super) fn step(kind: Kind, distance: &Distance, tid: i32) -> Step {
    if !distance.wants_look() {
        return Step::Handle;
    }
    let (Some(there), Some(here)) = (cpu::of(tid), cpu::here()) else {
        return Step::Handle;
    };
    let times = distance.looked(there != here);
    let (most, enough) = match kind {
        Kind::Usual => (APART, Step::Near),
        Kind::Near => (MOVES, Step::Usual),
    };
    if times >= most {
        distance.forget();
        return enough;
    }
    // Where it may not go is no place for it.
    if kind == Kind::Near && cpu::stay_on(there).is_err() {
        return Step::Usual;
    }
    Step::Handle
}

/// Whether the near one may lead, and when again.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The near worker, once there is one.
    pub(super) worker: Option<usize>,
    /// It cannot be had: one processor, or another way of being scheduled.
    pub(super) never: bool,
    not_before: Option<Instant>,
    pause: Duration,
}

impl Turns {
    /// It may lead.
    pub(super) fn may(&self, now: Instant) -> bool {
        !self.never && self.not_before.is_none_or(|then| now >= then)
    }

    /// It led, and it was not good.
    pub(super) fn failed(&mut self, now: Instant) {
        self.pause = (self.pause * 2).clamp(SOON, LATE);
        self.not_before = Some(now + self.pause);
    }

    /// It led until there was nothing to do.
    pub(super) fn served(&mut self) {
        self.pause = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_micros(3);

    /// Handles calls; each hand-over takes so long, and the caller is elsewhere or not.
    fn looks(distance: &Distance, calls: u32, took: Duration, elsewhere: bool) -> (u32, u32) {
        let (mut looks, mut most) = (0, 0);
        for _ in 0..calls {
            if distance.wants_look() {
                looks += 1;
                most = most.max(distance.looked(elsewhere));
            }
            distance.handed_over(took);
        }
        (looks, most)
    }

    #[test]
    fn short_hand_overs_are_not_looked_at() {
        assert_eq!(looks(&Distance::default(), 10_000, SHORT, true), (0, 0));
    }

    #[test]
    fn callers_elsewhere_are_found_at_once() {
        let distance = Distance::default();
        assert_eq!(looks(&distance, APART + 1, LONG, true), (APART, APART));
    }

    #[test]
    fn a_caller_that_computes_is_rarely_looked_for() {
        let (seen, most) = looks(&Distance::default(), 64_000, LONG, false);
        assert_eq!(most, 0);
        assert!((900..1100).contains(&seen), "{seen}");
    }

    #[test]
    fn rare_finds_are_forgotten() {
        let distance = Distance::default();
        for _ in 0..100 {
            distance.handed_over(LONG);
            let (_, most) = looks(&distance, 1, SHORT, true);
            assert!(most < APART, "{most}");
            looks(&distance, WINDOW, SHORT, true);
        }
    }

    #[test]
    fn after_a_failure_it_takes_longer_each_time_and_a_good_turn_makes_up_for_it() {
        let mut turns = Turns::default();
        let start = Instant::now();
        assert!(turns.may(start));
        let mut last = Duration::ZERO;
        for _ in 0..10 {
            turns.failed(start);
            assert!(!turns.may(start + SOON / 2));
            assert!(turns.pause > last || last == LATE);
            assert!(turns.may(start + turns.pause));
            last = turns.pause;
        }
        assert_eq!(last, LATE);
        turns.served();
        turns.failed(start);
        assert_eq!(turns.pause, SOON);
        turns.never = true;
        assert!(!turns.may(start + LATE));
    }
}
