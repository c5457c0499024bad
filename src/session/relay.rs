//! Which signals the command still needs: one sent to ccbox alone, not one its whole process group already got.
//!
//! The stage that stays above the command is a member of ccbox's process group and has every signal blocked. When
//! ccbox says it got a signal, a copy of that signal here means that the group was signalled (Ctrl-C, `timeout`,
//! `kill -- -PGID`), so the command had it from the kernel; no copy means that only ccbox was (`kill PID`,
//! `Popen.send_signal`), so it is sent on. The two arrive in any order, hence the two time limits.
//!
//! A pending stop signal is wiped out by SIGCONT (signal(7)), so a SIGCONT stands for a copy of SIGTSTP that was never
//! seen: the group was stopped and continued again.

use std::time::{Duration, Instant};

/// How long ccbox's word waits for our own copy. kill(2) walks a group under one lock, so microseconds would do; a
/// busy machine gets more.
const PATIENCE: Duration = Duration::from_millis(20);
/// How long our own copy waits for ccbox's word. Every copy that ccbox has, too, is matched sooner or later; what is left was
/// sent to this process alone, which nobody does twice in a while.
const MEMORY: Duration = Duration::from_secs(5);

/// Signals not yet matched.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    own: Vec<(i32, Instant)>,
    asked: Vec<(i32, Instant)>,
}

impl Ledger {
    /// This process got its own copy.
    pub(super) fn own_copy(&mut self, signal: i32, now: Instant) {
        self.forget(now);
        if signal == libc::SIGCONT {
            self.asked.retain(|(s, _)| *s != libc::SIGTSTP);
        }
        if take(&mut self.asked, signal).is_none() {
            self.own.push((signal, now));
        }
    }

    /// ccbox got the signal.
    pub(super) fn asked(&mut self, signal: i32, now: Instant) {
        self.forget(now);
        let over = signal == libc::SIGTSTP && self.own.iter().any(|(s, _)| *s == libc::SIGCONT);
        if take(&mut self.own, signal).is_none() && !over {
            self.asked.push((signal, now));
        }
    }

    /// Signals whose patience is over: they go to the command.
    pub(super) fn due(&mut self, now: Instant) -> Vec<i32> {
        let (due, rest) = std::mem::take(&mut self.asked)
            .into_iter()
            .partition(|(_, at)| now.duration_since(*at) >= PATIENCE);
        self.asked = rest;
        due.into_iter().map(|(signal, _)| signal).collect()
    }

    /// How long to sleep at most.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        self.asked
            .iter()
            .map(|(_, at)| PATIENCE.saturating_sub(now.duration_since(*at)))
            .min()
    }

    fn forget(&mut self, now: Instant) {
        self.own.retain(|(_, at)| now.duration_since(*at) < MEMORY);
    }
}

fn take(list: &mut Vec<(i32, Instant)>, signal: i32) -> Option<(i32, Instant)> {
    let at = list.iter().position(|(s, _)| *s == signal)?;
    Some(list.remove(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_to_the_group_is_not_sent_twice() {
        let t = Instant::now();
        for own_first in [true, false] {
            let mut ledger = Ledger::default();
            if own_first {
                ledger.own_copy(2, t);
                ledger.asked(2, t + Duration::from_millis(3));
            } else {
                ledger.asked(2, t);
                assert_eq!(ledger.wait(t), Some(PATIENCE));
                ledger.own_copy(2, t + Duration::from_millis(3));
            }
            assert_eq!(ledger.wait(t), None);
            assert!(ledger.due(t + Duration::from_secs(1)).is_empty());
        }
    }

    #[test]
    fn a_signal_to_ccbox_alone_is_passed_on_once() {
        let t = Instant::now();
        let mut ledger = Ledger::default();
        ledger.own_copy(3, t);
        ledger.asked(2, t);
        assert!(ledger.due(t + PATIENCE / 2).is_empty());
        assert_eq!(ledger.due(t + PATIENCE), [2]);
        assert!(ledger.due(t + PATIENCE * 2).is_empty());
    }

    #[test]
    fn a_stop_of_the_group_that_is_over_is_not_repeated() {
        let t = Instant::now();
        for asked_first in [true, false] {
            let mut ledger = Ledger::default();
            if asked_first {
                ledger.asked(libc::SIGTSTP, t);
                ledger.own_copy(libc::SIGCONT, t);
            } else {
                ledger.own_copy(libc::SIGCONT, t);
                ledger.asked(libc::SIGTSTP, t);
            }
            assert!(ledger.due(t + PATIENCE).is_empty());
            ledger.asked(libc::SIGTSTP, t + MEMORY);
            assert_eq!(ledger.due(t + MEMORY + PATIENCE), [libc::SIGTSTP]);
        }
    }

    #[test]
    fn an_old_copy_does_not_swallow_a_later_request() {
        let t = Instant::now();
        let mut ledger = Ledger::default();
        ledger.own_copy(2, t);
        let later = t + MEMORY;
        ledger.asked(2, later);
        assert_eq!(ledger.due(later + PATIENCE), [2]);
    }
}
