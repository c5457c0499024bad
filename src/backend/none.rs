//! Plan → a direct run without isolation (the environment is still scrubbed).

use std::ffi::OsString;
use std::path::PathBuf;

use super::{Engine, InnerPlan, Invocation};
use crate::plan::Plan;

/// Renders the plan for no engine at all: no mounts, no filter, no namespaces, the host's network (semantics 14).
#[must_use]
pub fn render(plan: &Plan) -> Invocation {
    direct(
        plan.argv.clone(),
        plan.env_scrubbed.clone(),
        plan.cwd.clone(),
    )
}

/// A command as it is.
#[must_use]
pub fn direct(argv: Vec<OsString>, env: Vec<(OsString, OsString)>, cwd: PathBuf) -> Invocation {
    Invocation {
        engine: Engine::None,
        args: Vec::new(),
        inner: InnerPlan {
            argv,
            env,
            cwd,
            pins: Vec::new(),
            writable: Vec::new(),
            moved: Vec::new(),
            keep_fds: Vec::new(),
            confine: false,
            listen: Vec::new(),
            ignored_signals: Vec::new(),
            unix_sockets: true,
            open_network: true,
            programs: None,
            floor: None,
            read_floor: crate::plan::ReadFloor::default(),
            trap_reads: false,
            trap_sockets: false,
            alone: None,
            own_group: false,
            limits: Vec::new(),
        },
        premounts: Vec::new(),
    }
}
