//! Kill safety: whenever ccbox or its process group is killed, nothing is left.

use crate::storms::storm;

/// R33, R62: a thousand runs of an engine, half of them killed alone and half with their process group, in their first 50 ms.
#[test]
fn a_thousand_kills_leave_nothing() {
    for engine in ["builtin", "bwrap", "landlock"] {
        storm(env!("CARGO_BIN_EXE_ccbox"), engine, 1000);
    }
}
