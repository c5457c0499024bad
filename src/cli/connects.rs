//! Connections past the proxies, from the broker to the reporter (R70): which rule stands in the way, and what would allow it.
//!
//! Inside there is no network but the proxies' ports. So a line in the allow list opens a way through the proxy and no other; only for a
//! port of this machine, which is then forwarded, it opens the very call that failed (semantics 42).

use std::net::SocketAddr;

use crate::broker::supervise::Unreached;
use crate::policy::egress::{Decision, DenyReason, EgressPolicy, Hint};
use crate::policy::host::{Authority, Host};
use crate::report::Violation;

/// The port of name servers.
const DOMAIN: u16 = 53;

/// The line for one of them.
pub(super) fn violation(egress: &EgressPolicy, unreached: &Unreached) -> Violation {
    let to = unreached.to;
    let (rule, hint) = reason(egress, to, unreached.datagrams);
    Violation {
        action: "network-outbound",
        target: Authority {
            host: Host::Ip(to.ip()),
            port: to.port(),
        }
        .to_string(),
        process: Some(unreached.program.clone()),
        pid: Some(unreached.pid),
        rule,
        hint,
    }
}

fn reason(egress: &EgressPolicy, to: SocketAddr, datagrams: bool) -> (String, Option<String>) {
    if to.port() == DOMAIN {
        return (
            "names are not looked up inside, but by the proxy in HTTP_PROXY".to_owned(),
            None,
        );
    }
    let decision = egress.decide(&Host::Ip(to.ip()), to.port());
    let refused = match &decision {
        Decision::Deny(denial) => Some(denial),
        Decision::Allow(_) => None,
    };
    if let Some(denial) = refused.filter(|denial| denial.reason == DenyReason::NetworkOff) {
        return (
            denial.rule.clone(),
            denial.hint.as_ref().map(Hint::to_string),
        );
    }
    if to.ip().is_loopback() {
        let hint = refused.and_then(|denial| denial.hint.as_ref());
        return (
            "a port of the host, which is not forwarded".to_owned(),
            hint.filter(|_| !datagrams).map(Hint::to_string),
        );
    }
    let rule = if datagrams {
        "only TCP leaves the sandbox, through the proxy in HTTP_PROXY"
    } else {
        "it went around the proxy in HTTP_PROXY, the only way out"
    };
    (rule.to_owned(), None)
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::policy;
    use super::*;
    use crate::policy::NetworkMode;

    #[test]
    fn each_line_says_what_stands_in_the_way() {
        let line = |mode, to: &str, datagrams| {
            let mut policy = policy().net;
            policy.mode = mode;
            let unreached = Unreached {
                to: to.parse().unwrap(),
                datagrams,
                asks: false,
                pid: 4,
                program: "nc".into(),
            };
            let v = violation(&EgressPolicy::new(&policy), &unreached);
            assert_eq!((v.action, v.pid), ("network-outbound", Some(4)));
            (v.target, v.rule, v.hint)
        };
        let around = "it went around the proxy in HTTP_PROXY, the only way out";
        let on = NetworkMode::Filtered;
        for (mode, to, datagrams, rule, hint) in [
            (on, "1.2.3.4:80", false, around, None),
            (on, "[2001:db8::1]:22", false, around, None),
            (
                on,
                "1.2.3.4:443",
                true,
                "only TCP leaves the sandbox, through the proxy in HTTP_PROXY",
                None,
            ),
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
            let (target, said, line) = line(mode, to, datagrams);
            assert_eq!(
                (target.as_str(), said.as_str(), line.as_deref()),
                (to, rule, hint)
            );
        }
    }
}
