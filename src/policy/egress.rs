//! Decides whether a host and port may be reached (R42–R45).
//!
//! A connection passes two gates. [`EgressPolicy::decide`] looks at the name before anything is resolved, so that a refused name
//! never reaches a DNS server; [`EgressPolicy::check_address`] looks at every address the name resolved to, and the addresses it
//! passed are the ones dialled. Deny beats allow at both.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

use super::address::{self, AddressClass};
use super::host::Host;
use super::host_rule::{HostRule, is_localhost};
use super::{Layer, NetworkMode, NetworkPolicy, Origin, Ruled};

mod builtin;
mod caught;
mod denial;

pub use caught::Catchment;
pub use denial::{Denial, DenyReason, Hint};

use denial::{List, rule_words};

/// The rules of one run: spec rules, baseline, fixed deny list.
#[derive(Debug, Clone)]
pub struct EgressPolicy {
    mode: NetworkMode,
    baseline: bool,
    /// The policy's own allow rules; empty with the network off.
    own_allow: Vec<Ruled<HostRule>>,
    /// The policy's own deny rules.
    own_deny: Vec<Ruled<HostRule>>,
    /// Who could turn the network on again.
    off_by: Option<Origin>,
    /// Nobody but the managed settings can allow a host.
    managed_only: Option<Origin>,
    /// Made by the first decision: some three hundred built-in rules take longer to compile than the start of a command that
    /// asks for no connection should.
    lists: OnceLock<Lists>,
}

/// All rules that hold, compiled.
#[derive(Debug, Clone)]
struct Lists {
    allow: Vec<Ruled<HostRule>>,
    /// `None`: the built-in list is damaged, everything is refused.
    deny: Option<Vec<Ruled<HostRule>>>,
}

/// What a policy says about a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The name may be resolved and its addresses checked.
    Allow(Grant),
    /// Refused.
    Deny(Denial),
}

/// A permission for one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The rule that allowed it, in words.
    pub rule: String,
    /// Where that rule was written.
    pub origin: Origin,
    opens: Opens,
}

/// Which addresses a grant may lead to, narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Opens {
    /// Public addresses that are not this machine's own.
    Public,
    /// Also the user's own networks (`allow_private`).
    Private,
    /// `localhost:PORT`: the loopback addresses that name stands for.
    Localhost,
    /// The very address that the rule names.
    Literal,
}

impl EgressPolicy {
    /// Takes the network part of a policy.
    ///
    /// With the network off the allow list is empty and everything else stays the same (R44): one code path, every connection
    /// refused and reported.
    #[must_use]
    pub fn new(policy: &NetworkPolicy) -> Self {
        let own_allow = match policy.mode {
            NetworkMode::Off => Vec::new(),
            NetworkMode::Filtered | NetworkMode::Open => policy.allowed.clone(),
        };
        Self {
            mode: policy.mode,
            baseline: policy.baseline && policy.mode != NetworkMode::Off,
            own_allow,
            own_deny: policy.denied.clone(),
            off_by: policy.off_by.clone(),
            managed_only: policy.managed_only.clone(),
            lists: OnceLock::new(),
        }
    }

    fn lists(&self) -> &Lists {
        self.lists.get_or_init(|| {
            let mut allow = self.own_allow.clone();
            if self.baseline {
                allow.extend(builtin::baseline());
            }
            let deny = builtin::denied().map(|mut fixed| {
                fixed.extend(self.own_deny.iter().cloned());
                fixed
            });
            Lists { allow, deny }
        })
    }

    /// Filtered, off or open.
    #[must_use]
    pub fn mode(&self) -> NetworkMode {
        self.mode
    }

    /// Every allow rule that holds, the spec's first.
    #[must_use]
    pub fn allowed(&self) -> &[Ruled<HostRule>] {
        &self.lists().allow
    }

    /// Every deny rule that holds, the fixed list first.
    #[must_use]
    pub fn denied(&self) -> &[Ruled<HostRule>] {
        self.lists().deny.as_deref().unwrap_or(&[])
    }

    /// The first gate: the name and port, before anything is resolved. Literal addresses and loopback names pass the second
    /// gate here too, but for the machine's own addresses, which only the dialler knows.
    #[must_use]
    pub fn decide(&self, host: &Host, port: u16) -> Decision {
        if self.mode == NetworkMode::Off {
            return Decision::Deny(Denial::network_off(self.off_by.as_ref()));
        }
        // No proxy and no domain rule (semantics 13); the proxies refuse to start with such a policy.
        if self.mode == NetworkMode::Open {
            return Decision::Allow(Grant {
                rule: "network.mode = \"open\"".to_owned(),
                origin: Origin {
                    layer: Layer::BuiltIn("open"),
                    file: None,
                    line: None,
                },
                opens: Opens::Literal,
            });
        }
        let Some(deny) = &self.lists().deny else {
            return Decision::Deny(Denial::damaged());
        };
        if let Some(entry) = deny.iter().find(|e| e.value.denies(host, port)) {
            return Decision::Deny(Denial::denied(entry, None));
        }
        let Some(grant) = self.grant(host, port) else {
            return Decision::Deny(
                Denial::not_allowed(host, port).for_managed(self.managed_only.as_ref()),
            );
        };
        let known: &[IpAddr] = match host {
            Host::Ip(ip) => &[*ip],
            Host::Name(_) if host.is_loopback_name() => &LOCALHOST,
            Host::Name(_) => &[],
        };
        for ip in known {
            if let Err(denial) = self.check_address(&grant, host, port, *ip, &[]) {
                return Decision::Deny(denial);
            }
        }
        Decision::Allow(grant)
    }

    /// Of all rules that speak of the destination, the one that opens most: `*` beside `{ host, allow_private }` must not hide it.
    fn grant(&self, host: &Host, port: u16) -> Option<Grant> {
        let mut best: Option<(&Ruled<HostRule>, Opens)> = None;
        let allow = &self.lists().allow;
        for entry in allow.iter().filter(|e| e.value.allows(host, port)) {
            let opens = opens(&entry.value);
            if best.is_none_or(|(_, so_far)| opens > so_far) {
                best = Some((entry, opens));
            }
        }
        best.map(|(entry, opens)| Grant {
            rule: rule_words(List::Allow, entry),
            origin: entry.origin.clone(),
            opens,
        })
    }

    /// The second gate, for one address of a destination that [`Self::decide`] allowed. The caller connects only if every
    /// address it was given passes, and only to those. `own` are the addresses of the host's interfaces.
    ///
    /// # Errors
    /// A deny rule that names the address (also carried inside IPv6), or a class of address that the grant does not open (D15).
    pub fn check_address(
        &self,
        grant: &Grant,
        host: &Host,
        port: u16,
        ip: IpAddr,
        own: &[IpAddr],
    ) -> Result<(), Denial> {
        let ip = address::canonical(ip);
        let Some(deny) = &self.lists().deny else {
            return Err(Denial::damaged());
        };
        let carried = match ip {
            IpAddr::V6(v6) => address::embedded(v6).map(IpAddr::V4),
            IpAddr::V4(_) => None,
        };
        for form in [Some(ip), carried].into_iter().flatten() {
            let target = Host::Ip(form);
            if let Some(entry) = deny.iter().find(|e| e.value.denies(&target, port)) {
                let resolved = (*host != target).then_some(ip);
                return Err(Denial::denied(entry, resolved));
            }
        }
        let class = AddressClass::of(ip);
        let is_own = own
            .iter()
            .any(|o| address::canonical(*o) == ip || Some(*o) == carried);
        let open = match grant.opens {
            Opens::Literal => true,
            Opens::Localhost => is_localhost(ip),
            Opens::Private => class.opened_by_allow_private(),
            Opens::Public => class == AddressClass::Public && !is_own,
        };
        if open {
            Ok(())
        } else {
            Err(Denial::address(host, port, ip, is_own).for_managed(self.managed_only.as_ref()))
        }
    }

    /// Loopback ports of this machine that the allow list names, sorted: each is bound inside and forwarded (semantics 42).
    #[must_use]
    pub fn forwarded_ports(&self) -> Vec<u16> {
        // The baseline names no loopback (tested).
        let mut ports: Vec<u16> = self
            .own_allow
            .iter()
            .filter(|e| e.value.names_loopback() || e.value.literal().is_some_and(is_localhost))
            .filter_map(|e| e.value.port())
            .filter(|port| !self.forward_targets(*port).is_empty())
            .collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// Where a forwarded port leads: the loopback addresses that the rules open for it, IPv4 first.
    #[must_use]
    pub fn forward_targets(&self, port: u16) -> Vec<IpAddr> {
        LOCALHOST
            .into_iter()
            .filter(|ip| matches!(self.decide(&Host::Ip(*ip), port), Decision::Allow(_)))
            .collect()
    }
}

/// What `localhost` stands for, without asking anybody (RFC 6761 §6.3).
pub const LOCALHOST: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

fn opens(rule: &HostRule) -> Opens {
    if rule.literal().is_some() {
        Opens::Literal
    } else if rule.names_loopback() {
        Opens::Localhost
    } else if rule.allow_private {
        Opens::Private
    } else {
        Opens::Public
    }
}

#[cfg(test)]
mod tests;
