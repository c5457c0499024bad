//! Why a destination was refused, in words, and the narrowest change that would allow it (semantics 32).

use std::fmt;
use std::net::IpAddr;

use crate::policy::address::AddressClass;
use crate::policy::host::Host;
use crate::policy::host_rule::HostRule;
use crate::policy::{Layer, Origin, Ruled};

/// The kind of refusal: a stable word, also in the `X-Ccbox-Error` header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DenyReason {
    /// No allow rule speaks of it.
    NotAllowed,
    /// A deny rule does.
    Denied,
    /// Allowed by name, but the address is not one a name may lead to.
    PrivateAddress,
    /// The network is off for this run.
    NetworkOff,
}

impl DenyReason {
    /// Kebab-case, stable.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NotAllowed => "not-allowed",
            Self::Denied => "denied",
            Self::PrivateAddress => "private-address",
            Self::NetworkOff => "network-off",
        }
    }
}

/// A refusal with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The kind.
    pub reason: DenyReason,
    /// In words: `not on the allow list`, `denied_domains "x" (/w/spec.toml:3)`.
    pub rule: String,
    /// The next step, where there is one.
    pub hint: Option<Hint>,
}

/// The narrowest change that would allow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// A TOML line to add.
    Add(String),
    /// What to remove: `remove /w/spec.toml:3`, `remove --deny-host x`.
    Remove(String),
    /// Who could change it: `set by /etc/ccbox/managed.toml:4`.
    SetBy(String),
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add(text) | Self::Remove(text) | Self::SetBy(text) => f.write_str(text),
        }
    }
}

impl Denial {
    pub(super) fn network_off(by: Option<&Origin>) -> Self {
        Self {
            reason: DenyReason::NetworkOff,
            rule: "network is off for this run".to_owned(),
            hint: by
                .and_then(|origin| taking_back(origin, "", "the line that turns the network off")),
        }
    }

    /// A line that allows a host has no effect where only the managed settings can.
    pub(super) fn for_managed(mut self, only: Option<&Origin>) -> Self {
        if let Some(origin) = only
            && matches!(self.hint, Some(Hint::Add(_)))
        {
            let place = place(origin);
            self.hint = Some(Hint::SetBy(format!(
                "set by {place}: only the managed settings allow hosts"
            )));
        }
        self
    }

    /// The fixed deny list did not parse; the tests keep that from happening.
    pub(super) fn damaged() -> Self {
        Self {
            reason: DenyReason::Denied,
            rule: "the built-in deny list is damaged".to_owned(),
            hint: None,
        }
    }

    pub(super) fn not_allowed(host: &Host, port: u16) -> Self {
        let destination = match host {
            Host::Ip(ip) => !ip.is_unspecified(),
            Host::Name(_) => true,
        };
        Self {
            reason: DenyReason::NotAllowed,
            rule: "not on the allow list".to_owned(),
            hint: destination
                .then(|| Hint::Add(allow_line(&format!("\"{}\"", narrow(host, port))))),
        }
    }

    /// `resolved` is the address behind a name that a rule for addresses speaks of.
    pub(super) fn denied(entry: &Ruled<HostRule>, resolved: Option<IpAddr>) -> Self {
        let words = rule_words(List::Deny, entry);
        Self {
            reason: DenyReason::Denied,
            rule: match resolved {
                Some(ip) => format!("resolves to {ip}: {words}"),
                None => words,
            },
            hint: removal(entry),
        }
    }

    pub(super) fn address(host: &Host, port: u16, ip: IpAddr, own: bool) -> Self {
        let class = AddressClass::of(ip);
        let words = if own && class == AddressClass::Public {
            "an address of this machine".to_owned()
        } else {
            let article = if class == AddressClass::Unspecified {
                "an"
            } else {
                "a"
            };
            format!("{article} {}", class.words())
        };
        let target = narrow(host, port);
        let line = match host {
            Host::Ip(ip) if ip.is_unspecified() => None,
            Host::Ip(_) => Some(format!("\"{target}\"")),
            Host::Name(_) if host.is_loopback_name() => Some(format!("\"{target}\"")),
            Host::Name(_) if class.opened_by_allow_private() => {
                Some(format!("{{ host = \"{target}\", allow_private = true }}"))
            }
            Host::Name(_) => None,
        };
        Self {
            reason: DenyReason::PrivateAddress,
            rule: match host {
                Host::Name(_) => format!("resolves to {ip}, {words}"),
                Host::Ip(_) => format!("{words}, and no rule names it"),
            },
            hint: line.map(|l| Hint::Add(allow_line(&l))),
        }
    }
}

fn allow_line(entry: &str) -> String {
    format!("[network] allowed_domains = [{entry}]")
}

/// The host alone for the two web ports, else with its port; loopback always with its port (semantics 13, 32).
fn narrow(host: &Host, port: u16) -> String {
    let loopback = match host {
        Host::Ip(ip) => ip.is_loopback(),
        Host::Name(_) => host.is_loopback_name(),
    };
    if matches!(port, 80 | 443) && !loopback {
        host.to_string()
    } else {
        format!("{host}:{port}")
    }
}

/// Which list an entry stands in.
#[derive(Debug, Clone, Copy)]
pub(super) enum List {
    Allow,
    Deny,
}

/// `denied_domains "x" (/w/spec.toml:3)`, `--allow-host "x"`, `baseline "x"`, `fixed deny list "x" (metadata)`.
pub(super) fn rule_words(list: List, entry: &Ruled<HostRule>) -> String {
    let text = &entry.value.text;
    let key = match list {
        List::Allow => "allowed_domains",
        List::Deny => "denied_domains",
    };
    match (&entry.origin.layer, list) {
        (Layer::BuiltIn(table), List::Allow) => format!("{table} \"{text}\""),
        (Layer::BuiltIn(table), List::Deny) => format!("fixed deny list \"{text}\" ({table})"),
        (Layer::Flag(flag), _) => format!("{flag} \"{text}\""),
        (
            Layer::Profile(_) | Layer::User | Layer::Project { .. } | Layer::Spec | Layer::Managed,
            _,
        ) => format!("{key} \"{text}\" ({})", place(&entry.origin)),
    }
}

/// Where a rule was written: file and line, or the kind of layer.
fn place(origin: &Origin) -> String {
    match (&origin.file, origin.line) {
        (Some(file), Some(line)) => format!("{}:{line}", file.display()),
        (Some(file), None) => file.display().to_string(),
        (None, Some(line)) if origin.layer == Layer::Spec => format!("spec line {line}"),
        (None, _) => match &origin.layer {
            Layer::BuiltIn(table) => (*table).to_owned(),
            Layer::Profile(name) => format!("profile {name}"),
            Layer::User => "user file".to_owned(),
            Layer::Project { .. } => "project file".to_owned(),
            Layer::Spec => "spec".to_owned(),
            Layer::Flag(flag) => (*flag).to_owned(),
            Layer::Managed => "managed policy".to_owned(),
        },
    }
}

fn removal(entry: &Ruled<HostRule>) -> Option<Hint> {
    let text = &entry.value.text;
    taking_back(
        &entry.origin,
        text,
        &format!("\"{text}\" from denied_domains"),
    )
}

/// What to remove, or who could. `value` follows a flag, `what` names the thing where its line is not known.
fn taking_back(origin: &Origin, value: &str, what: &str) -> Option<Hint> {
    let place = place(origin);
    match &origin.layer {
        // Metadata services and telemetry: there is no line that opens them.
        Layer::BuiltIn(_) => None,
        Layer::Managed | Layer::Profile(_) => Some(Hint::SetBy(format!("set by {place}"))),
        Layer::Flag(flag) => {
            let typed = format!("remove {flag} {value}");
            Some(Hint::Remove(typed.trim_end().to_owned()))
        }
        Layer::User | Layer::Project { .. } | Layer::Spec => match &origin.file {
            Some(_) if origin.line.is_some() => Some(Hint::Remove(format!("remove {place}"))),
            Some(_) | None => Some(Hint::Remove(format!("remove {what} ({place})"))),
        },
    }
}
