//! Kill safety: whenever ccbox or its process group is killed, nothing is left.

use crate::storms::storm;

/// R33, R62: a thousand runs of an engine, half of them killed alone and half with their process group, in their first 50 ms.
fn a_thousand(engine: &str) {
    storm(env!("CARGO_BIN_EXE_ccbox"), engine, 1000);
}

#[test]
fn a_thousand_kills_of_builtin_leave_nothing() {
    a_thousand("builtin");
}

#[test]
fn a_thousand_kills_of_bwrap_leave_nothing() {
    a_thousand("bwrap");
}

#[test]
fn a_thousand_kills_of_landlock_leave_nothing() {
    a_thousand("landlock");
}
