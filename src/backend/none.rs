//! Plan → a direct run without isolation (the environment is still scrubbed).

use super::Invocation;
use crate::plan::Plan;

/// Renders the plan for no engine at all.
#[must_use]
pub fn render(_plan: &Plan) -> Invocation {
    unimplemented!("backend::none")
}
