//! Which processors a thread may run on: sched_setaffinity(2).

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Where a thread may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mask(CpuSet);

impl Mask {
    /// That of the calling thread.
    #[must_use]
    pub fn own() -> Option<Self> {
        sched_getaffinity(Pid::from_raw(0)).ok().map(Self)
    }

    /// Whether this processor is one of them.
    #[must_use]
    pub fn has(&self, processor: usize) -> bool {
        self.0.is_set(processor) == Ok(true)
    }

    /// Brings the calling thread to a processor; it may leave again, as its mask is this one afterwards.
    pub fn go(&self, there: usize) {
        let mut only = CpuSet::new();
        if only.set(there).is_ok() && sched_setaffinity(Pid::from_raw(0), &only).is_ok() {
            let _ = sched_setaffinity(Pid::from_raw(0), &self.0);
        }
    }
}

/// The processor the calling thread is on.
#[must_use]
pub fn here() -> Option<usize> {
    nix::sched::sched_getcpu().ok()
}

/// More than any machine's processors have as a number.
#[must_use]
pub const fn limit() -> usize {
    CpuSet::count()
}
