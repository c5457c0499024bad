//! Kill safety in small; `tests/soak` has it at scale.

use crate::storms::storm;
use crate::support::{CCBOX, require_sandbox};

/// R33, R62: processes, mounts, files, sockets and namespaces are gone, whether ccbox was killed alone or with its group.
fn killed(engine: &str) {
    if require_sandbox() {
        storm(CCBOX, engine, 50);
    }
}

#[test]
fn builtin_leaves_nothing() {
    killed("builtin");
}

#[test]
fn bwrap_leaves_nothing() {
    killed("bwrap");
}

#[test]
fn landlock_leaves_nothing() {
    killed("landlock");
}
