//! Which variables of the caller reach the child (semantics 21, 44, R60).

use std::ffi::OsString;

use super::EnvPolicy;

/// The environment after scrubbing, and what was dropped and why.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scrubbed {
    /// What passes, in the caller's order.
    pub vars: Vec<(OsString, OsString)>,
    /// Names that were dropped with their group (`injection`, `door`, `search path`, `secret`).
    pub dropped: Vec<(OsString, &'static str)>,
}

/// Applies the table of semantics 21 and `[env]` to the caller's environment.
#[must_use]
pub fn scrub(_caller: &[(OsString, OsString)], _policy: &EnvPolicy) -> Scrubbed {
    unimplemented!("policy::environment")
}
