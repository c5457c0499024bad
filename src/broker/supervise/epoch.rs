//! How often directories have moved.
//!
//! What was found out about a directory's path is true until a directory moves. So it is kept with the number that [`Epoch::now`] gave
//! *before* it was found out, and is good as long as that is still the number. Comparing means something inside the lock only: whoever
//! moves a directory holds it alone, and calls [`Epoch::bump`] after the move and before it lets go.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys::counter::SharedCounter;

/// The counter, of this run or of all runs of the user.
#[derive(Debug)]
pub(super) enum Epoch {
    Own(AtomicU64),
    Shared(SharedCounter),
}

impl Default for Epoch {
    fn default() -> Self {
        Self::Own(AtomicU64::new(0))
    }
}

impl Epoch {
    /// The present number.
    pub(super) fn now(&self) -> u64 {
        match self {
            Self::Own(number) => number.load(Ordering::Acquire),
            Self::Shared(number) => number.get(),
        }
    }

    /// A directory has been moved or removed. To be called inside the exclusive lock.
    pub(super) fn bump(&self) {
        match self {
            Self::Own(number) => {
                number.fetch_add(1, Ordering::Release);
            }
            Self::Shared(number) => number.bump(),
        }
    }
}
