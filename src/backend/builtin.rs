//! Plan → mounts that the pre-stage makes, all of them: it is the sandbox, no program is executed for that (D3).
//!
//! Pure. The mounts are those bubblewrap would make of the same plan, in the same order.

use super::{Engine, Invocation, NetSetup, bwrap};
use crate::plan::Plan;

/// Renders the plan. Session facts (kept descriptors, ignored signals) are left empty.
#[must_use]
pub fn render(plan: &Plan, net: NetSetup) -> Invocation {
    Invocation {
        engine: Engine::Builtin,
        args: Vec::new(),
        inner: bwrap::inner(plan, net),
        premounts: bwrap::staged(&plan.mounts, plan.fs_disabled, |_| true),
    }
}
