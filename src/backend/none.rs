//! Plan → a direct run without isolation (the environment is still scrubbed).

use super::{Engine, InnerPlan, Invocation};
use crate::plan::Plan;

/// Renders the plan for no engine at all: no mounts, no filter, no namespaces, the host's network (semantics 14).
#[must_use]
pub fn render(plan: &Plan) -> Invocation {
    Invocation {
        engine: Engine::None,
        args: Vec::new(),
        inner: InnerPlan {
            argv: plan.argv.clone(),
            env: plan.env_scrubbed.clone(),
            cwd: plan.cwd.clone(),
            pins: Vec::new(),
            writable: Vec::new(),
            moved: Vec::new(),
            keep_fds: Vec::new(),
            confine: false,
            listen: Vec::new(),
            ignored_signals: Vec::new(),
            unix_sockets: true,
            open_network: true,
            floor: None,
        },
        premounts: Vec::new(),
    }
}
