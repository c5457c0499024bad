//! Short words for the questions tests ask of a plan.

use std::path::Path;

use crate::host::fs_view::FakeFs;
use crate::plan::fixture::{bind, dispatch, facts, plan};
use crate::plan::{Mount, Plan};
use crate::policy::Policy;

pub(super) fn ws() -> Policy {
    let mut p = dispatch();
    p.fs.binds.push(bind("/home/me/proj", false));
    p
}

pub(super) fn refusal(p: &Policy, fs: &FakeFs) -> String {
    let e = plan(p, &facts(), fs).expect_err("must be refused");
    format!("{e}; {}", e.hint.clone().unwrap_or_default())
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
