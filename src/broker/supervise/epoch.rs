//! How often directories have moved.
//!
//! What was found out about a directory's path is true until a directory moves. So it is kept with the number that [`Epoch::now`] gave
//! *before* it was found out, and is good as long as that is still the number. Comparing means something inside the lock only: whoever
//! moves a directory holds it alone, and calls [`Epoch::bump`] after the move and before it lets go.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counter of a run.
#[derive(Debug, Default)]
pub(super) struct Epoch(AtomicU64);

impl Epoch {
    /// The present number.
    pub(super) fn now(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// A directory has been moved or removed. To be called inside the exclusive lock.
    pub(super) fn bump(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}
