//! Tables, and two properties over random sequences of operations: a denied name is never reached, and git never finds
//! settings it would run.

mod flows;
mod git;
mod hidden;
mod names;
mod places;
mod stories;
mod table;

use std::path::Path;
use std::sync::Arc;

use super::super::fold::{NameRules, fold};
use super::*;
use crate::policy::path::{ListKind, PathEntry};
use crate::policy::pattern::PathPattern;

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

/// As a spec would write it, with `/w` as the base directory.
fn parsed(text: &str, kind: ListKind) -> PathPattern {
    match PathEntry::parse(text, false, kind, Path::new("/w"), Path::new("/home/u")) {
        Ok(PathEntry::Pattern(pattern)) => pattern,
        other => panic!("{text}: {other:?}"),
    }
}

fn denied(text: &str, liftable: bool) -> Rule {
    Rule::Pattern {
        matcher: Arc::new(Denied::new(&parsed(text, ListKind::DenyWrite))),
        liftable,
    }
}

fn pattern(text: &str) -> Rule {
    denied(text, false)
}

fn built_in(text: &str) -> Rule {
    denied(text, true)
}

fn exceptions(texts: &[&str]) -> Vec<Arc<dyn Matcher>> {
    texts
        .iter()
        .map(|t| Arc::new(Excepted::new(parsed(t, ListKind::AllowCreate))) as Arc<dyn Matcher>)
        .collect()
}

fn root(path: &str) -> Root {
    Root {
        path: bytes(path),
        top: model::split(path).len(),
        names: NameRules::Unix,
        ignores_case: false,
        git_only: false,
    }
}
