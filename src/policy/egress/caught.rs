//! Which connections of programs that ignore proxy variables are caught: to which ports of names, and to which addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::policy::host_rule::HostRule;
use crate::policy::{NetworkMode, NetworkPolicy, Ruled};

/// ssh and the web: what a rule without a port is mostly about.
const USUAL: [u16; 3] = [22, 80, 443];

/// What a policy catches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Catchment {
    /// Ports, sorted; none is no catching at all.
    pub ports: Vec<u16>,
    /// A spec lists the ports.
    pub listed: bool,
    /// Addresses that an allow rule names, with its port; sorted.
    pub literals: Vec<(IpAddr, Option<u16>)>,
    /// Names with a port that an allow rule names.
    pub named: Vec<u16>,
    /// Ports at which any number of names may be allowed.
    pub open: Vec<u16>,
}

impl Catchment {
    /// Takes the network part of a policy.
    ///
    /// Nothing is caught in an open network, which is not the sandbox' own. With the network off the name server refuses every name, so
    /// that a program is told at once, and the user too.
    #[must_use]
    pub fn of(policy: &NetworkPolicy) -> Self {
        let rules: &[Ruled<HostRule>] = match policy.mode {
            NetworkMode::Open => return Self::default(),
            NetworkMode::Off => &[],
            NetworkMode::Filtered => &policy.allowed,
        };
        let rules = || {
            rules
                .iter()
                .map(|r| &r.value)
                .filter(|rule| !rule.names_loopback())
        };
        let ports: BTreeSet<u16> = match &policy.transparent_ports {
            Some(ports) => ports.iter().copied().collect(),
            None => USUAL
                .into_iter()
                .chain(rules().filter_map(HostRule::port))
                .collect(),
        };
        if ports.is_empty() {
            return Self::default();
        }
        // No connection leads to an address of these.
        let target = |ip: &IpAddr| !ip.is_loopback() && !ip.is_multicast() && !ip.is_unspecified();
        let literals: BTreeSet<_> = rules()
            .filter_map(|rule| Some((rule.literal().filter(target)?, rule.port())))
            .filter(|(_, port)| port.is_none_or(|port| ports.contains(&port)))
            .collect();
        let mut named = Vec::new();
        let mut open = BTreeSet::new();
        for rule in rules().filter(|rule| rule.literal().is_none()) {
            match rule.port().filter(|port| ports.contains(port)) {
                Some(port) if rule.names_one() => named.push(port),
                Some(port) => {
                    open.insert(port);
                }
                None if rule.port().is_none() => open.extend(&ports),
                None => {}
            }
        }
        Self {
            ports: ports.into_iter().collect(),
            listed: policy.transparent_ports.is_some(),
            literals: literals.into_iter().collect(),
            named,
            open: open.into_iter().collect(),
        }
    }

    /// Whether nothing is caught.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::net;
    use super::*;

    fn ports(allowed: &[&str], asked: Option<&[u16]>) -> Vec<u16> {
        let mut policy = net(NetworkMode::Filtered, allowed, &[]);
        policy.transparent_ports = asked.map(<[u16]>::to_vec);
        Catchment::of(&policy).ports
    }

    #[test]
    fn the_usual_ports_and_those_the_rules_name() {
        assert_eq!(ports(&[], None), USUAL);
        let rules = ["a.test", "db.test:5432", "*.b.test:853", "192.0.2.7:6379"];
        assert_eq!(ports(&rules, None), [22, 80, 443, 853, 5432, 6379]);
        // A loopback port is forwarded, and no name's.
        assert_eq!(ports(&["localhost:8080", "127.0.0.1:8081"], None).len(), 4);
        assert_eq!(ports(&rules, Some(&[443, 80])), [80, 443]);
        assert_eq!(ports(&rules, Some(&[])), [] as [u16; 0]);
    }

    #[test]
    fn addresses_are_those_that_rules_name() {
        let rules = [
            "192.0.2.7:6379",
            "192.0.2.8",
            "[2001:db8::1]:443",
            "127.0.0.1:80",
            "224.0.0.1",
            "*",
        ];
        let policy = net(NetworkMode::Filtered, &rules, &[]);
        let found = Catchment::of(&policy);
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(
            found.literals,
            [
                (ip("192.0.2.7"), Some(6379)),
                (ip("192.0.2.8"), None),
                (ip("2001:db8::1"), Some(443))
            ]
        );
        assert!(found.named.is_empty());
        assert_eq!(found.open, found.ports);
    }

    #[test]
    fn names_with_a_port_are_counted() {
        let rules = ["a.test:5432", "b.test:5432", "c.test:22", "*.d.test:6379"];
        let found = Catchment::of(&net(NetworkMode::Filtered, &rules, &[]));
        assert_eq!(found.named, [5432, 5432, 22]);
        assert_eq!(found.open, [6379]);
    }

    #[test]
    fn an_open_network_catches_nothing_and_one_that_is_off_no_rule() {
        let open = Catchment::of(&net(NetworkMode::Open, &["a.test"], &[]));
        assert!(open.is_empty());
        let off = Catchment::of(&net(NetworkMode::Off, &["a.test:99", "192.0.2.7"], &[]));
        assert_eq!((off.ports.as_slice(), off.literals.len()), (&USUAL[..], 0));
    }
}
