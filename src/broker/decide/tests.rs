//! Tables, and two properties over random sequences of operations: a denied name is never reached, and git never finds
//! settings it would run.

mod flows;
mod git;
mod names;
mod table;

use std::sync::Arc;

use super::super::fold::{NameRules, fold};
use super::*;

/// A pattern of literal components, `*` runs and `**`, for tests: the product's patterns are plugged in later.
#[derive(Debug)]
struct Glob {
    parts: Vec<String>,
    anchored: bool,
}

impl Glob {
    fn parse(text: &str) -> Self {
        let anchored = text.starts_with('/');
        let mut parts: Vec<String> = text
            .split('/')
            .filter(|c| !c.is_empty())
            .map(str::to_owned)
            .collect();
        if parts.last().is_some_and(|p| p == "**") {
            parts.pop();
        }
        if !anchored && parts.first().is_some_and(|p| p == "**") {
            parts.remove(0);
        }
        Self { parts, anchored }
    }

    fn is(&self, parts: &[String], path: &[&[u8]]) -> bool {
        let starts = if self.anchored { 0..=0 } else { 0..=path.len() };
        starts.into_iter().any(|at| all(parts, &path[at..]))
    }
}

fn all(parts: &[String], path: &[&[u8]]) -> bool {
    match (parts, path) {
        ([], []) => true,
        ([any, parts @ ..], path) if any == "**" => {
            (0..=path.len()).any(|skip| all(parts, &path[skip..]))
        }
        ([part, parts @ ..], [name, path @ ..]) => wild(part.as_bytes(), name) && all(parts, path),
        _ => false,
    }
}

fn wild(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([b'*', rest @ ..], name) => (0..=name.len()).any(|skip| wild(rest, &name[skip..])),
        ([a, rest @ ..], [b, name @ ..]) => a == b && wild(rest, name),
        _ => false,
    }
}

impl Matcher for Glob {
    fn names(&self, path: &[&[u8]]) -> bool {
        !path.is_empty() && self.is(&self.parts, path)
    }

    fn starts_at(&self, path: &[&[u8]]) -> bool {
        !path.is_empty() && (1..self.parts.len()).any(|n| self.is(&self.parts[..n], path))
    }
}

const CHMOD: Action = Action::Chmod {
    from: 0o644,
    to: 0o755,
};

fn bytes(path: &str) -> Vec<Vec<u8>> {
    model::split(path)
        .iter()
        .map(|c| c.as_bytes().to_vec())
        .collect()
}

fn exact(path: &str) -> Rule {
    Rule::Exact(bytes(path))
}

fn pattern(text: &str) -> Rule {
    Rule::Pattern {
        matcher: Arc::new(Glob::parse(text)),
        liftable: false,
    }
}

fn built_in(text: &str) -> Rule {
    Rule::Pattern {
        matcher: Arc::new(Glob::parse(text)),
        liftable: true,
    }
}

fn exceptions(texts: &[&str]) -> Vec<Arc<dyn Matcher>> {
    texts
        .iter()
        .map(|t| Arc::new(Glob::parse(t)) as Arc<dyn Matcher>)
        .collect()
}

fn root(path: &str) -> Root {
    Root {
        path: bytes(path),
        names: NameRules::Unix,
        ignores_case: false,
    }
}
