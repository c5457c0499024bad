//! What is remembered of processes between their calls, and when it is no longer true.
//!
//! Working directory and umask belong to a process (clone(2), CLONE_FS), and every call that changes them traps. But the kernel carries
//! such a call out *after* the answer "continue", so from then on the process is *pending* until the same thread traps again: a thread is
//! sequential, so by then its call is over. Meanwhile nothing is remembered. Where processes share the two, or threads of one do not,
//! nothing is remembered any more at all; those clones trap.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// No umask.
const UNKNOWN: u32 = u32::MAX;
/// More processes are not kept account of.
const MOST: usize = 4096;

/// A point in a process's history: what was read at one is true as long as it is the present one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp(u64);

#[derive(Debug)]
struct Process {
    stamp: Stamp,
    pending: Pending,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pending {
    Nothing,
    /// This thread was told to go on with a call that changes something.
    Thread(i32),
    /// More than one: it is never found out when all are done.
    Several,
}

/// The account of all processes of a run; shared by all workers.
#[derive(Debug)]
pub(super) struct Processes {
    known: Mutex<HashMap<i32, Process>>,
    /// Nothing is remembered any more.
    off: AtomicBool,
    stamps: AtomicU64,
    /// Programs executed: with each, memory that was opened may be somebody else's.
    programs: AtomicU64,
    /// Everybody's umask, as long as nobody has changed his.
    first_umask: AtomicU32,
    umask_changed: AtomicBool,
}

impl Default for Processes {
    fn default() -> Self {
        Self {
            known: Mutex::new(HashMap::new()),
            off: AtomicBool::new(false),
            stamps: AtomicU64::new(0),
            programs: AtomicU64::new(0),
            first_umask: AtomicU32::new(UNKNOWN),
            umask_changed: AtomicBool::new(false),
        }
    }
}

impl Processes {
    /// The present stamp of a process, asked in a call of one of its threads; `None` where nothing may be remembered.
    pub(super) fn stamp(&self, process: i32, thread: i32) -> Option<Stamp> {
        if self.off.load(Ordering::SeqCst) {
            return None;
        }
        let mut known = self.known();
        if known.len() >= MOST && !known.contains_key(&process) {
            self.forget_the_dead(&mut known);
        }
        let process = known.entry(process).or_insert_with(|| Process {
            stamp: self.next(),
            pending: Pending::Nothing,
        });
        if process.pending == Pending::Thread(thread) {
            process.pending = Pending::Nothing;
        }
        (process.pending == Pending::Nothing).then_some(process.stamp)
    }

    /// A thread is about to change what its process shares. Without a process nothing can be remembered of anybody.
    pub(super) fn changes(&self, process: Option<i32>, thread: i32) {
        let Some(process) = process else {
            self.stop();
            return;
        };
        let mut known = self.known();
        let process = known.entry(process).or_insert_with(|| Process {
            stamp: Stamp(0),
            pending: Pending::Nothing,
        });
        process.stamp = self.next();
        process.pending = match process.pending {
            Pending::Thread(other) if other != thread => Pending::Several,
            Pending::Several => Pending::Several,
            Pending::Thread(_) | Pending::Nothing => Pending::Thread(thread),
        };
    }

    /// From now on nothing is remembered of working directories and umasks.
    pub(super) fn stop(&self) {
        self.off.store(true, Ordering::SeqCst);
        self.umask_changed.store(true, Ordering::SeqCst);
    }

    /// A program is about to be executed.
    pub(super) fn executes(&self) {
        self.programs.fetch_add(1, Ordering::SeqCst);
    }

    /// How many programs have been executed.
    pub(super) fn programs(&self) -> u64 {
        self.programs.load(Ordering::SeqCst)
    }

    /// A thread is about to change its umask.
    pub(super) fn changes_umask(&self) {
        self.umask_changed.store(true, Ordering::SeqCst);
    }

    /// The umask that everybody has had from the start.
    pub(super) fn everybodys_umask(&self) -> Option<u32> {
        if self.umask_changed.load(Ordering::SeqCst) {
            return None;
        }
        let umask = self.first_umask.load(Ordering::SeqCst);
        (umask != UNKNOWN).then_some(umask)
    }

    /// A process's umask was read.
    pub(super) fn saw_umask(&self, umask: u32) {
        // If somebody has changed his meanwhile, nobody asks for it any more.
        self.first_umask.store(umask, Ordering::SeqCst);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<i32, Process>> {
        // Every change is one assignment.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Stamp {
        Stamp(self.stamps.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// Makes room. What is pending must not be forgotten while the process lives.
    fn forget_the_dead(&self, known: &mut HashMap<i32, Process>) {
        known.retain(|tgid, process| {
            process.pending != Pending::Nothing
                && std::path::Path::new(&format!("/proc/{tgid}")).exists()
        });
        if known.len() >= MOST {
            self.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pending_is_not_remembered() {
        let all = Processes::default();
        let first = all.stamp(1, 1).unwrap();
        assert_eq!(all.stamp(1, 2), Some(first));
        all.changes(Some(1), 2);
        assert_eq!(all.stamp(1, 1), None);
        assert!(all.stamp(7, 7).is_some());
        // The thread that changed it comes back: its call is over.
        let second = all.stamp(1, 2).unwrap();
        assert_ne!(first, second);
        assert_eq!(all.stamp(1, 1), Some(second));
        all.changes(Some(1), 1);
        all.changes(Some(1), 1);
        let third = all.stamp(1, 1).unwrap();
        assert_ne!(second, third);
        all.changes(Some(1), 1);
        all.changes(Some(1), 2);
        assert_eq!((all.stamp(1, 1), all.stamp(1, 2)), (None, None));
        all.stop();
        assert_eq!(all.stamp(7, 7), None);
    }

    #[test]
    fn the_first_umask_is_everybodys_until_one_changes() {
        let all = Processes::default();
        assert_eq!(all.everybodys_umask(), None);
        all.saw_umask(0o22);
        assert_eq!(all.everybodys_umask(), Some(0o22));
        all.changes_umask();
        assert_eq!(all.everybodys_umask(), None);
        all.saw_umask(0o77);
        assert_eq!(all.everybodys_umask(), None);
    }

    #[test]
    fn the_account_is_bounded_and_keeps_what_is_pending() {
        let all = Processes::default();
        let own = std::process::id().cast_signed();
        all.changes(Some(own), own);
        for n in 0..10_000 {
            // Numbers no process has.
            let stamp = all.stamp(10_000_000 + n, 1);
            assert!(stamp.is_some());
        }
        assert!(all.known().len() <= MOST);
        assert_eq!(all.stamp(own, 0), None);
    }
}
