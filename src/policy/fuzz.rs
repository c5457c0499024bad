//! Fuzz bodies of host names and host rules; see [`crate::fuzz`].

use std::net::IpAddr;

use super::host::{Authority, Host};
use super::host_rule::HostRule;

/// What is read once is canonical: it reads back to itself, and nothing in it could be read differently by a resolver.
pub(crate) fn host(data: &[u8]) {
    if let Ok(host) = Host::parse(data) {
        let text = host.to_string();
        assert_eq!(Host::parse(text.as_bytes()), Ok(host.clone()), "{text}");
        match &host {
            Host::Ip(ip) => assert_eq!(super::address::canonical(*ip), *ip),
            Host::Name(name) => {
                assert!(name.len() <= 253 && !name.ends_with('.'));
                assert!(name.parse::<IpAddr>().is_err());
                let plain =
                    |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
                assert!(name.bytes().all(plain), "{name}");
                let last = name.rsplit('.').next().unwrap_or_default();
                assert!(!last.bytes().all(|b| b.is_ascii_digit()), "{name}");
                // Case and one trailing dot make no other name.
                let shouted = format!("{}.", name.to_ascii_uppercase());
                assert_eq!(Host::parse(shouted.as_bytes()).as_ref(), Ok(&host));
            }
        }
    }
    for default in [None, Some(80)] {
        if let Ok(to) = Authority::parse(data, default) {
            let text = to.to_string();
            assert_eq!(Authority::parse(text.as_bytes(), None), Ok(to));
        }
    }
}

/// A rule reads back from its canonical spelling and says the same; what may be allowed may be denied, and then is.
pub(crate) fn host_rule(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(rule) = HostRule::parse_allow(text, false) {
        let canonical = rule.canonical();
        let again = HostRule::parse_allow(&canonical, false);
        let again = again.unwrap_or_else(|e| unreachable!("{canonical}: {e}"));
        assert_eq!(again.canonical(), canonical);
        let denied = HostRule::parse_deny(text).map(|(rules, _)| rules);
        let denied = denied.unwrap_or_else(|e| unreachable!("{text}: {e}"));
        for (host, port) in probes(&canonical) {
            assert_eq!(rule.allows(&host, port), again.allows(&host, port));
            if rule.allows(&host, port) {
                assert!(rule.port().is_none_or(|p| p == port), "{text} {port}");
                assert!(
                    denied.iter().any(|d| d.denies(&host, port)),
                    "{text} {host}:{port}"
                );
            }
        }
    }
    if let Ok((rules, note)) = HostRule::parse_deny(text) {
        assert!(!rules.is_empty());
        assert!(rules.len() == 1 || note.is_some(), "{text}");
        for rule in rules {
            let canonical = rule.canonical();
            let again = HostRule::parse_deny(&canonical).map(|(rules, _)| rules.len());
            assert_eq!(again.ok(), Some(1), "{canonical}");
        }
    }
}

/// Destinations near what a rule names: itself, below it, beside it.
fn probes(canonical: &str) -> Vec<(Host, u16)> {
    let (host, port) = match canonical.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().unwrap_or(443)),
        Some(_) | None => (canonical, 443),
    };
    let bare = host.trim_start_matches("*.");
    ["", "a.", "a.b.", "evil"]
        .iter()
        .map(|before| format!("{before}{bare}"))
        .chain([
            bare.replace('*', "one"),
            bare.replace('*', "one.two"),
            "127.0.0.1".to_owned(),
        ])
        .filter_map(|text| Host::parse(text.as_bytes()).ok())
        .flat_map(|host| [port, 1].map(|p| (host.clone(), p)))
        .collect()
}
