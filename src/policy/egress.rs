//! Decides whether a host and port may be reached (R42–R45).

use super::NetworkPolicy;

/// The rules of one run, ready to decide: spec rules, baseline, fixed deny list.
#[derive(Debug, Clone)]
pub struct EgressPolicy {}

impl EgressPolicy {
    /// Compiles the network part of a policy.
    #[must_use]
    pub fn new(_policy: &NetworkPolicy) -> Self {
        unimplemented!("policy::egress")
    }
}
