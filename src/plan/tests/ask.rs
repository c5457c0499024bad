//! Short words for the questions tests ask of a plan.

use std::path::Path;

use crate::broker::decide::Rule;
use crate::broker::plan::components;
use crate::host::fs_view::FakeFs;
use crate::plan::fixture::{bind, dispatch, facts, plan, planned, without_broker};
use crate::plan::{Mount, Plan};
use crate::policy::path::{ListKind, PathEntry};
use crate::policy::{Origin, Policy, Ruled};

pub(super) fn ws() -> Policy {
    let mut p = dispatch();
    p.fs.binds.push(bind("/home/me/proj", false));
    p
}

pub(super) fn refusal(p: &Policy, fs: &FakeFs) -> String {
    let e = plan(p, &facts(), fs).expect_err("must be refused");
    format!("{e}; {}", e.hint.clone().unwrap_or_default())
}

/// What a host without a broker says to a run of this policy.
pub(super) fn refusal_without_broker(p: &Policy, fs: &FakeFs) -> String {
    let plan = planned(p, &without_broker(), fs);
    let e = plan.refusal.expect("must be refused");
    format!("{e}; {}", e.hint.clone().unwrap_or_default())
}

/// The words of the first rule about exactly this path.
pub(super) fn exact_rule<'a>(plan: &'a Plan, path: &str) -> Option<&'a str> {
    let wanted = components(Path::new(path));
    let rules = &plan.broker.as_ref()?.rules;
    let found = rules.iter().find(|r| match &r.rule {
        Rule::Exact(path) | Rule::AllBut { path, .. } => *path == wanted,
        Rule::Repository(_) | Rule::Pattern { .. } => false,
    })?;
    Some(&found.words)
}

pub(super) fn pattern(text: &str, kind: ListKind, origin: Origin) -> Ruled<PathEntry> {
    let (base, home) = (Path::new("/home/me/proj"), Path::new("/home/me"));
    Ruled {
        value: PathEntry::parse(text, false, kind, base, home).unwrap(),
        origin,
    }
}

pub(super) fn gap<'a>(plan: &'a Plan, name: &str) -> Option<&'a str> {
    plan.gaps
        .iter()
        .find(|g| g.name == name)
        .map(|g| g.text.as_str())
}

pub(super) fn mounts_at<'a>(plan: &'a Plan, at: &str) -> Vec<&'a Mount> {
    plan.mounts
        .iter()
        .filter(|m| crate::plan::explain::destination(m) == Some(Path::new(at)))
        .collect()
}

pub(super) fn var(plan: &Plan, name: &str) -> Option<String> {
    plan.env
        .iter()
        .find(|(k, _)| k == name)
        .map(|(_, v)| v.to_string_lossy().into_owned())
}
