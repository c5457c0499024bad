//! Which processors a thread may run on: nobody can say here.

/// Where a thread may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mask(());

impl Mask {
    /// Unknown.
    #[must_use]
    pub fn own() -> Option<Self> {
        None
    }

    /// Unknown.
    #[must_use]
    pub fn has(&self, _processor: usize) -> bool {
        false
    }

    /// Not to be done.
    pub fn go(&self, _there: usize) {}
}

/// Unknown.
#[must_use]
pub fn here() -> Option<usize> {
    None
}

/// No number is known.
#[must_use]
pub const fn limit() -> usize {
    0
}
