//! How what a policy catches is caught: which sockets are made before the command starts.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use crate::policy::egress::Catchment;
use crate::session::CatchSetup;

/// The first port that a command may bind (ip_unprivileged_port_start of a new network namespace).
const FIRST_FREE: u16 = 1024;
/// The sandbox' own name server stands there, on 127.0.0.1.
const DNS: u16 = 53;
/// Names at ports that are caught by address, where a rule allows any number of them.
const SPARE: usize = 64;
/// IPv4 and IPv6.
const FAMILIES: usize = 2;
/// Sockets of each kind: a spec with hundreds of addresses or names is better served by the proxy.
const MOST: usize = 200;

/// What the session makes; `listen` are the loopback ports that are taken. None is nothing.
pub(super) fn setup(catchment: &Catchment, listen: &[u16]) -> Option<CatchSetup> {
    if catchment.is_empty() {
        return None;
    }
    let by_address = by_address(&catchment.ports, listen);
    let mut everywhere = catchment.ports.clone();
    everywhere.retain(|port| !by_address.contains(port));
    everywhere.truncate(MOST);
    let addresses: BTreeSet<IpAddr> = catchment.literals.iter().map(|(ip, _)| *ip).collect();
    let at: BTreeSet<SocketAddr> = catchment
        .literals
        .iter()
        .flat_map(|(ip, port)| {
            let here = by_address
                .iter()
                .filter(|p| port.is_none_or(|only| only == **p));
            here.map(|p| SocketAddr::new(*ip, *p))
        })
        .collect();
    let named = catchment.named.iter().filter(|p| by_address.contains(p));
    let open = catchment.open.iter().any(|p| by_address.contains(p));
    let pairs = named.count().saturating_add(if open { SPARE } else { 0 });
    Some(CatchSetup {
        everywhere,
        addresses: addresses.into_iter().take(MOST).collect(),
        at: at.into_iter().take(MOST).collect(),
        spare: pairs.saturating_mul(FAMILIES).min(MOST),
    })
}

/// Ports that stay the command's own, or are taken on loopback already. A listener for one of them stands only on the addresses it is for.
pub(super) fn by_address(ports: &[u16], listen: &[u16]) -> Vec<u16> {
    let own = |port: &u16| *port >= FIRST_FREE || *port == DNS || listen.contains(port);
    ports.iter().copied().filter(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(
        ports: &[u16],
        literals: &[(&str, Option<u16>)],
        named: &[u16],
        open: &[u16],
    ) -> CatchSetup {
        let literals = literals
            .iter()
            .map(|(ip, port)| (ip.parse().unwrap(), *port));
        let catchment = Catchment {
            ports: ports.to_vec(),
            listed: false,
            literals: literals.collect(),
            named: named.to_vec(),
            open: open.to_vec(),
        };
        setup(&catchment, &[3128, 80]).unwrap()
    }

    #[test]
    fn ports_of_the_command_are_caught_by_address() {
        assert_eq!(setup(&Catchment::default(), &[]), None);
        let s = of(
            &[22, 53, 80, 443, 1023, 1024],
            &[],
            &[443, 1024],
            &[22, 443],
        );
        assert_eq!(s.everywhere, [22, 443, 1023]);
        assert_eq!((s.spare, s.at.len(), s.addresses.len()), (2, 0, 0));
        // Port 80 is forwarded: only names are caught there, one by one.
        assert_eq!(of(&[80, 443], &[], &[], &[80, 443]).spare, 128);
        assert_eq!(of(&[443], &[], &[], &[443]).spare, 0);
        assert_eq!(of(&[9999], &[], &[9999; 300], &[9999]).spare, 200);
    }

    #[test]
    fn an_address_has_its_listeners_from_the_start() {
        let s = of(
            &[80, 443, 5432],
            &[
                ("192.0.2.7", Some(5432)),
                ("192.0.2.7", None),
                ("2001:db8::1", Some(443)),
            ],
            &[],
            &[],
        );
        let at: Vec<String> = s.at.iter().map(ToString::to_string).collect();
        assert_eq!(at, ["192.0.2.7:80", "192.0.2.7:5432"]);
        assert_eq!(s.addresses.len(), 2);
    }
}
