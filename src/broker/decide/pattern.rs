//! The policy's patterns as matchers of the decision.

use super::super::fold::{NameRules, fold};
use super::edges::Edge;
use super::rules::Matcher;
use crate::policy::pattern::PathPattern;

/// A pattern of `deny_write` or `protected_paths`: compared folded as [`mod@crate::broker::fold`] does, which goes further
/// than the policy's own folding.
#[derive(Debug, Clone)]
pub struct Denied(PathPattern);

impl Denied {
    /// Takes over a pattern that was compiled to fold case.
    #[must_use]
    pub fn new(pattern: &PathPattern) -> Self {
        Self(pattern.refolded(|text| fold(text, NameRules::Unix).into_owned()))
    }
}

impl Matcher for Denied {
    fn names(&self, path: &[&[u8]]) -> bool {
        self.0.names_components(path)
    }

    fn starts_at(&self, path: &[&[u8]], root_depth: usize) -> bool {
        self.0.starts_at_components(path, root_depth)
    }

    fn edge(&self, dir: &[&[u8]]) -> Edge {
        match self.0.edge_components(dir) {
            None => Edge::Any,
            Some((byte, true)) => Edge::First(byte),
            Some((byte, false)) => Edge::Last(byte),
        }
    }
}

/// A pattern of `allow_create`: compared byte by byte (semantics 3).
#[derive(Debug, Clone)]
pub struct Excepted(PathPattern);

impl Excepted {
    /// Takes over a pattern that was compiled without folding.
    #[must_use]
    pub fn new(pattern: PathPattern) -> Self {
        Self(pattern)
    }
}

impl Matcher for Excepted {
    fn names(&self, path: &[&[u8]]) -> bool {
        self.0.names_components(path)
    }

    fn starts_at(&self, path: &[&[u8]], root_depth: usize) -> bool {
        self.0.starts_at_components(path, root_depth)
    }
}
