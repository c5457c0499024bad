//! Plan → bubblewrap argv (golden-tested).

use super::{Invocation, NetSetup};
use crate::host::HostFacts;
use crate::plan::Plan;

/// The port proxies listen on inside the child's own network namespace, on 127.0.0.1 and ::1.
pub const PROXY_PORT: u16 = 3128;

/// Renders the plan for bubblewrap at `program`. Session facts (kept descriptors, ignored signals) are left empty.
#[must_use]
pub fn render(
    _plan: &Plan,
    _host: &HostFacts,
    _program: &std::path::Path,
    _net: NetSetup,
) -> Invocation {
    unimplemented!("backend::bwrap")
}
