//! One line per distinct (action, target, process), and a limit on how many (R70).
//!
//! A wrapped command can cause denials faster than anybody reads, and each with a new name: memory, lines and time are bounded.

use std::collections::HashMap;
use std::time::Instant;

use super::Violation;

/// Lines that may come at once, and that say at the end what came again.
pub(super) const BURST: u32 = 40;
/// Lines a second after that.
const PER_SECOND: u32 = 10;
/// Distinct denials that are remembered; further ones are only counted.
pub(super) const REMEMBERED: usize = 4096;

/// What to do with a denial that just came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Print it.
    Print,
    /// Seen before: counted.
    Repeat,
    /// New, but over the rate: counted as not shown.
    Hold,
    /// As `Hold`, and the first of those that are not even remembered.
    Full,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    action: &'static str,
    target: String,
    process: Option<String>,
}

/// A denial and how often it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) violation: Violation,
    pub(super) count: u64,
    /// Its line was printed.
    pub(super) shown: bool,
    order: usize,
}

/// Remembers what came.
#[derive(Debug)]
pub(super) struct Dedup {
    seen: HashMap<Key, Counted>,
    tokens: u32,
    refilled: Instant,
    /// Denials that were never printed.
    pub(super) held: u64,
    pub(super) total: u64,
    full: bool,
}

impl Dedup {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            seen: HashMap::new(),
            tokens: BURST,
            refilled: now,
            held: 0,
            total: 0,
            full: false,
        }
    }

    pub(super) fn add(&mut self, v: &Violation, now: Instant) -> Verdict {
        self.total += 1;
        let key = Key {
            action: v.action,
            target: v.target.clone(),
            process: v.process.clone(),
        };
        let order = self.seen.len();
        if let Some(c) = self.seen.get_mut(&key) {
            c.count += 1;
            if !c.shown {
                self.held += 1;
            }
            return Verdict::Repeat;
        }
        let shown = order < REMEMBERED && self.take(now);
        if order < REMEMBERED {
            self.seen.insert(
                key,
                Counted {
                    violation: v.clone(),
                    count: 1,
                    shown,
                    order,
                },
            );
        }
        if shown {
            return Verdict::Print;
        }
        self.held += 1;
        if order < REMEMBERED || std::mem::replace(&mut self.full, true) {
            Verdict::Hold
        } else {
            Verdict::Full
        }
    }

    fn take(&mut self, now: Instant) -> bool {
        let gained = now
            .saturating_duration_since(self.refilled)
            .as_millis()
            .saturating_mul(u128::from(PER_SECOND))
            / 1000;
        if gained > 0 {
            self.tokens = BURST.min(
                self.tokens
                    .saturating_add(u32::try_from(gained).unwrap_or(u32::MAX)),
            );
            self.refilled = now;
        }
        let Some(left) = self.tokens.checked_sub(1) else {
            return false;
        };
        self.tokens = left;
        true
    }

    /// Every remembered denial, in the order of their first coming.
    pub(super) fn all(&self) -> Vec<(Violation, u64)> {
        let mut out: Vec<&Counted> = self.seen.values().collect();
        out.sort_by_key(|c| c.order);
        out.into_iter()
            .map(|c| (c.violation.clone(), c.count))
            .collect()
    }

    /// Denials that came more than once, in the order of their first coming.
    pub(super) fn repeated(&self) -> Vec<&Counted> {
        let mut out: Vec<&Counted> = self.seen.values().filter(|c| c.count > 1).collect();
        out.sort_by_key(|c| c.order);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const REFILL: Duration = Duration::from_millis(1000 / PER_SECOND as u64);

    fn v(target: &str, process: Option<&str>) -> Violation {
        Violation {
            action: "network-outbound",
            target: target.into(),
            process: process.map(Into::into),
            pid: Some(1),
            rule: "r".into(),
            hint: None,
        }
    }

    #[test]
    fn repeats_are_counted_by_action_target_and_process_name() {
        let now = Instant::now();
        let mut d = Dedup::new(now);
        assert_eq!(d.add(&v("a", Some("curl")), now), Verdict::Print);
        let other_pid = Violation {
            pid: Some(2),
            ..v("a", Some("curl"))
        };
        assert_eq!(d.add(&other_pid, now), Verdict::Repeat);
        assert_eq!(d.add(&v("a", Some("wget")), now), Verdict::Print);
        assert_eq!(d.add(&v("b", Some("curl")), now), Verdict::Print);
        let again = d.repeated();
        assert_eq!(again.len(), 1);
        assert_eq!(
            (again[0].count, again[0].violation.target.as_str()),
            (2, "a")
        );
    }

    #[test]
    fn a_storm_of_distinct_names_is_bounded() {
        let now = Instant::now();
        let mut d = Dedup::new(now);
        let verdicts: Vec<Verdict> = (0..20_000)
            .map(|i| d.add(&v(&format!("h{i}"), None), now))
            .collect();
        let of = |wanted| verdicts.iter().filter(|v| **v == wanted).count();
        assert_eq!(of(Verdict::Print), BURST as usize);
        assert_eq!(of(Verdict::Full), 1);
        assert_eq!(verdicts[REMEMBERED], Verdict::Full);
        assert_eq!(d.held, 20_000 - u64::from(BURST));
        assert_eq!(d.seen.len(), REMEMBERED);
    }

    #[test]
    fn lines_come_again_after_a_pause() {
        let now = Instant::now();
        let mut d = Dedup::new(now);
        for i in 0..BURST {
            assert_eq!(d.add(&v(&format!("h{i}"), None), now), Verdict::Print);
        }
        assert_eq!(d.add(&v("x", None), now), Verdict::Hold);
        assert_eq!(d.add(&v("y", None), now + REFILL), Verdict::Print);
        assert_eq!(d.add(&v("z", None), now + REFILL), Verdict::Hold);
    }
}
