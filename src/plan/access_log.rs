//! Where the access log may lie: out of the command's reach, because the next reader believes it.

use std::path::PathBuf;

use super::PlanError;
use super::context::Ctx;
use super::grants::planted_link;
use super::paths::within;
use super::rules::{Access, Grant, Named, place};

/// The link-free path.
pub(super) fn path(ctx: Ctx<'_>) -> Option<PathBuf> {
    let log = ctx.policy.net.access_log.as_ref()?;
    Some(ctx.walk(&log.value).real)
}

/// Not in a place that the command can write to, and not through a link that it could have planted (semantics 20).
pub(super) fn check(ctx: Ctx<'_>, grants: &[Grant]) -> Result<(), PlanError> {
    let Some(log) = &ctx.policy.net.access_log else {
        return Ok(());
    };
    let walk = ctx.walk(&log.value);
    let named = Named::new("network.access_log", &log.value, &log.origin);
    let writable = || grants.iter().filter(|g| g.access == Access::Write);
    if let Some(root) = writable().find(|g| within(&walk.real, g.path())) {
        return Err(PlanError {
            message: format!(
                "{} ({}) lies in `{}`, where the command can write",
                named.words,
                place(&named.origin),
                root.path().display()
            ),
            hint: Some("name a file in another directory".to_owned()),
        });
    }
    let roots: Vec<_> = writable().map(Grant::path).collect();
    planted_link(&roots, &walk, &named.words)
}
