//! What a merged policy makes worth saying once (semantics 13, 40), and how a rule's place is written. Notices that need
//! to look at the host are the planner's.

use super::SpecError;
use super::source::shown;
use crate::policy::{Layer, NetworkMode, Origin, Policy};

/// Origins of scalars that a later notice names.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) network: Option<Origin>,
    pub(super) disabled: Option<Origin>,
}

/// Where a rule was written, for a message.
pub(super) fn place(origin: &Origin) -> String {
    let name = match (&origin.file, &origin.layer) {
        (Some(file), _) => shown(&file.to_string_lossy()),
        (None, Layer::Flag(flag)) => format!("`{flag}`"),
        (None, Layer::Profile(name)) => format!("profile {name}"),
        (None, Layer::Spec) => "the inline spec".to_owned(),
        (None, Layer::BuiltIn(name)) => format!("the built-in table {name}"),
        (None, Layer::User | Layer::Project { .. } | Layer::Managed) => "a file".to_owned(),
    };
    match (origin.line, &origin.layer) {
        (Some(line), Layer::Spec | Layer::User | Layer::Project { .. } | Layer::Managed) => {
            format!("{name}:{line}")
        }
        _ => name,
    }
}

/// An open network has no proxy that could hold a rule (semantics 13).
pub(super) fn open_network_takes_no_rules(policy: &Policy) -> Result<(), SpecError> {
    if policy.net.mode != NetworkMode::Open {
        return Ok(());
    }
    match policy.net.allowed.iter().chain(&policy.net.denied).next() {
        None => Ok(()),
        Some(rule) => Err(SpecError::plain(format!(
            "{}: the host rule `{}` cannot hold where `network.mode` is `open`",
            place(&rule.origin),
            shown(&rule.value.text)
        ))
        .with_hint("remove the rule, or set `network.mode = \"filtered\"`")),
    }
}

/// Semantics 40.
pub(super) fn add(policy: &mut Policy, said: &Said) {
    let by = |origin: &Option<Origin>| {
        origin
            .as_ref()
            .map_or_else(String::new, |o| format!(" ({})", place(o)))
    };
    let mut out = Vec::new();
    if policy.net.mode == NetworkMode::Off && !policy.net.allowed.is_empty() {
        out.push(format!(
            "the network is off{}, so the allow rules for hosts have no effect",
            by(&said.network)
        ));
    }
    for rule in policy.net.allowed.iter().filter(|r| r.value.text == "*") {
        out.push(format!(
            "the allow rule `*` ({}) opens every host",
            place(&rule.origin)
        ));
    }
    if policy.fs.disabled {
        out.push(format!(
            "`filesystem.disabled`{}: no path rule holds",
            by(&said.disabled)
        ));
    }
    policy.notices.extend(out);
}
