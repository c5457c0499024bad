//! Connections past the proxies, from the broker to the reporter (R70): which rule stands in the way, and what would allow it.
//!
//! Inside there is no network but the proxies' ports and what is caught. Where nothing is caught, a line in the allow list opens a way
//! through the proxy and no other; only for a port of this machine, which is then forwarded, it opens the very call that failed
//! (semantics 42).

use crate::broker::supervise::Unreached;
use crate::plan::NetworkPlan;
use crate::policy::egress::{Decision, Denial, DenyReason, Hint};
use crate::policy::host::{Authority, Host};
use crate::proxy::catch::{Book, Stands};
use crate::report::Violation;

/// The port of name servers.
const DOMAIN: u16 = 53;

/// The rule in words, and what would allow it.
type Reason = (String, Option<String>);

/// The line for one of them. `names` has the names behind addresses, where connections without a proxy are caught.
pub(super) fn violation(
    network: &NetworkPlan,
    names: Option<&Book>,
    unreached: &Unreached,
) -> Violation {
    let stands = names.map(|book| book.look_up(unreached.to.ip()));
    let host = match &stands {
        Some(Stands::For(host)) => host.clone(),
        Some(Stands::ForNothing | Stands::ForItself) | None => Host::Ip(unreached.to.ip()),
    };
    let to = Authority {
        host,
        port: unreached.to.port(),
    };
    let (rule, hint) = reason(network, stands.as_ref(), unreached, &to);
    Violation {
        action: "network-outbound",
        target: to.to_string(),
        process: Some(unreached.program.clone()),
        pid: Some(unreached.pid),
        rule,
        hint,
    }
}

fn reason(
    network: &NetworkPlan,
    stands: Option<&Stands>,
    unreached: &Unreached,
    to: &Authority,
) -> Reason {
    let ip = unreached.to.ip();
    if to.port == DOMAIN && unreached.datagrams {
        return (name_server(stands).to_owned(), None);
    }
    let refused = match network.egress.decide(&to.host, to.port) {
        Decision::Deny(denial) => Some(denial),
        Decision::Allow(_) => None,
    };
    let of = |denial: &Denial| {
        (
            denial.rule.clone(),
            denial.hint.as_ref().map(Hint::to_string),
        )
    };
    if let Some(denial) = &refused
        && denial.reason == DenyReason::NetworkOff
    {
        return of(denial);
    }
    if ip.is_loopback() {
        let hint = refused.as_ref().and_then(|denial| denial.hint.as_ref());
        return (
            "a port of the host, which is not forwarded".to_owned(),
            hint.filter(|_| !unreached.datagrams).map(Hint::to_string),
        );
    }
    if unreached.datagrams {
        return ("only TCP leaves the sandbox".to_owned(), None);
    }
    match (stands, &refused) {
        (None, _) => (
            "it went around the proxy in HTTP_PROXY, the only way out".to_owned(),
            None,
        ),
        (Some(Stands::ForNothing), _) => ("no name has this address".to_owned(), None),
        (Some(Stands::For(_) | Stands::ForItself), Some(denial)) => of(denial),
        (Some(Stands::For(_) | Stands::ForItself), None) => not_caught(network, to),
    }
}

fn name_server(stands: Option<&Stands>) -> &'static str {
    match stands {
        None => "names are not looked up inside, but by the proxy in HTTP_PROXY",
        Some(_) => "names are looked up by the name server in /etc/resolv.conf, and no other",
    }
}

/// Allowed, but nothing takes it at that port.
fn not_caught(network: &NetworkPlan, to: &Authority) -> Reason {
    let words = format!(
        "allowed, but connections without a proxy are not caught at port {}",
        to.port
    );
    let line = if network.catch.listed {
        let mut ports: Vec<String> = network.catch.ports.iter().map(u16::to_string).collect();
        ports.push(to.port.to_string());
        format!("transparent_ports = [{}]", ports.join(", "))
    } else {
        format!("allowed_domains = [\"{to}\"]")
    };
    (words, Some(format!("[network] {line}")))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{plan, policy};
    use super::*;
    use crate::policy::NetworkMode;
    use crate::policy::egress::{Catchment, EgressPolicy};
    use crate::policy::host_rule::HostRule;
    use crate::policy::{Layer, Origin, Ruled};

    fn network(mode: NetworkMode, allowed: &[&str], listed: Option<&[u16]>) -> NetworkPlan {
        let mut policy = policy().net;
        policy.mode = mode;
        policy.transparent_ports = listed.map(<[u16]>::to_vec);
        policy.allowed = allowed
            .iter()
            .map(|text| Ruled {
                value: HostRule::parse_allow(text, false).unwrap(),
                origin: Origin {
                    layer: Layer::Spec,
                    file: None,
                    line: None,
                },
            })
            .collect();
        NetworkPlan {
            egress: EgressPolicy::new(&policy),
            catch: Catchment::of(&policy),
            mode,
            ..plan().network
        }
    }

    fn line(
        network: &NetworkPlan,
        names: Option<&Book>,
        to: &str,
        datagrams: bool,
    ) -> (String, String, Option<String>) {
        let unreached = Unreached {
            to: to.parse().unwrap(),
            datagrams,
            asks: false,
            pid: 4,
            program: "nc".into(),
        };
        let v = violation(network, names, &unreached);
        assert_eq!((v.action, v.pid), ("network-outbound", Some(4)));
        (v.target, v.rule, v.hint)
    }

    #[test]
    fn each_line_says_what_stands_in_the_way() {
        let around = "it went around the proxy in HTTP_PROXY, the only way out";
        let on = NetworkMode::Filtered;
        for (mode, to, datagrams, rule, hint) in [
            (on, "1.2.3.4:80", false, around, None),
            (on, "[2001:db8::1]:22", false, around, None),
            (on, "1.2.3.4:443", true, "only TCP leaves the sandbox", None),
            (
                on,
                "1.1.1.1:53",
                true,
                "names are not looked up inside, but by the proxy in HTTP_PROXY",
                None,
            ),
            (
                on,
                "127.0.0.1:5432",
                false,
                "a port of the host, which is not forwarded",
                Some("[network] allowed_domains = [\"127.0.0.1:5432\"]"),
            ),
            (
                NetworkMode::Off,
                "1.2.3.4:80",
                false,
                "network is off for this run",
                None,
            ),
        ] {
            let (target, said, hints) = line(&network(mode, &[], None), None, to, datagrams);
            assert_eq!(
                (target.as_str(), said.as_str(), hints.as_deref()),
                (to, rule, hint)
            );
        }
    }

    /// Where connections are caught, a line in the allow list opens the call that failed.
    #[test]
    fn where_connections_are_caught_the_rule_is_the_reason() {
        let book = Book::default();
        let rules = ["203.0.113.10:443", "203.0.113.11"];
        let usual = network(NetworkMode::Filtered, &rules, None);
        let listed = network(NetworkMode::Filtered, &rules, Some(&[443, 80]));
        for (network, to, rule, hint) in [
            (
                &usual,
                "203.0.113.10:80",
                "not on the allow list",
                "[network] allowed_domains = [\"203.0.113.10\"]",
            ),
            (
                &usual,
                "203.0.113.10:8443",
                "not on the allow list",
                "[network] allowed_domains = [\"203.0.113.10:8443\"]",
            ),
            (
                &usual,
                "203.0.113.11:8443",
                "allowed, but connections without a proxy are not caught at port 8443",
                "[network] allowed_domains = [\"203.0.113.11:8443\"]",
            ),
            (
                &listed,
                "203.0.113.11:8443",
                "allowed, but connections without a proxy are not caught at port 8443",
                "[network] transparent_ports = [80, 443, 8443]",
            ),
        ] {
            let said = line(network, Some(&book), to, false);
            assert_eq!(
                said,
                (to.to_owned(), rule.to_owned(), Some(hint.to_owned()))
            );
        }
        let (_, said, hint) = line(&usual, Some(&book), "1.1.1.1:53", true);
        assert!(said.starts_with("names are looked up by the name server in"));
        assert_eq!(hint, None);
    }
}
