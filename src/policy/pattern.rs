//! Path patterns: `*`, `?`, `[…]`, `**` over bytes (semantics 1).

/// A compiled pattern; denies fold case (semantics 3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern {
    /// As written.
    pub text: String,
}
