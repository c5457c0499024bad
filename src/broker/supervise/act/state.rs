//! Calls that pass: the kernel carries them out, the broker only has to know.

use super::{Outcome, Turn};
use crate::broker::calls::Call;

impl Turn<'_> {
    /// Working directory, umask, program: nothing is remembered of them yet.
    #[allow(clippy::unused_self)]
    pub(super) fn passing(&self, _call: Call) -> Outcome {
        Outcome::Continue
    }
}
