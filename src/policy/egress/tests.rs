use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::policy::{AllProxy, UserProxies};

mod hints;

fn origin(layer: Layer, line: u32) -> Origin {
    let file = match layer {
        Layer::Spec | Layer::User | Layer::Project { .. } => Some("/w/spec.toml".into()),
        Layer::Managed => Some("/etc/ccbox/managed.toml".into()),
        Layer::BuiltIn(_) | Layer::Profile(_) | Layer::Flag(_) => None,
    };
    Origin {
        line: file.as_ref().map(|_: &PathBuf| line),
        file,
        layer,
    }
}

pub(super) fn net(mode: NetworkMode, allowed: &[&str], denied: &[&str]) -> NetworkPolicy {
    let mut line = 0;
    let mut next = || {
        line += 1;
        origin(Layer::Spec, line)
    };
    NetworkPolicy {
        mode,
        baseline: false,
        allowed: allowed
            .iter()
            .map(|text| Ruled {
                value: match text.strip_prefix("private ") {
                    Some(text) => HostRule::parse_allow(text, true).unwrap(),
                    None => HostRule::parse_allow(text, false).unwrap(),
                },
                origin: next(),
            })
            .collect(),
        denied: denied
            .iter()
            .flat_map(|text| {
                let origin = next();
                let (rules, _) = HostRule::parse_deny(text).unwrap();
                rules.into_iter().map(move |value| Ruled {
                    value,
                    origin: origin.clone(),
                })
            })
            .collect(),
        all_proxy: AllProxy::Http,
        allow_local_binding: false,
        transparent_ports: None,
        user_proxies: UserProxies::default(),
        unix_sockets: Vec::new(),
        all_unix_sockets: None,
        access_log: None,
        off_by: None,
        managed_only: None,
        hint_file: None,
    }
}

fn filtered(allowed: &[&str], denied: &[&str]) -> EgressPolicy {
    EgressPolicy::new(&net(NetworkMode::Filtered, allowed, denied))
}

fn host(text: &str) -> Host {
    Host::parse(text.as_bytes()).unwrap()
}

/// One line: what the user would read.
fn said(policy: &EgressPolicy, target: &str, port: u16) -> String {
    match policy.decide(&host(target), port) {
        Decision::Allow(grant) => format!("allow by {}", grant.rule),
        Decision::Deny(denial) => line(&denial),
    }
}

fn resolved(policy: &EgressPolicy, target: &str, port: u16, ip: &str, own: &[IpAddr]) -> String {
    let host = host(target);
    match policy.decide(&host, port) {
        Decision::Allow(grant) => {
            match policy.check_address(&grant, &host, port, ip.parse().unwrap(), own) {
                Ok(()) => "dial".to_owned(),
                Err(denial) => line(&denial),
            }
        }
        Decision::Deny(denial) => format!("at once: {}", line(&denial)),
    }
}

fn line(denial: &Denial) -> String {
    let hint = denial.hint.as_ref().map_or("-".to_owned(), Hint::to_string);
    format!("{}: {} | {hint}", denial.reason.word(), denial.rule)
}

#[test]
fn names_before_resolving() {
    let p = filtered(
        &["allowed.test", "*.allowed.test", "db.test:5432", "*:8443"],
        &["bad.allowed.test", "*.denied.test:443"],
    );
    for (target, port, want) in [
        (
            "allowed.test",
            22,
            "allow by allowed_domains \"allowed.test\" (/w/spec.toml:1)",
        ),
        (
            "a.b.allowed.test",
            443,
            "allow by allowed_domains \"*.allowed.test\" (/w/spec.toml:2)",
        ),
        (
            "bad.allowed.test",
            443,
            "denied: denied_domains \"bad.allowed.test\" (/w/spec.toml:5) | remove /w/spec.toml:5",
        ),
        (
            "evil.test",
            443,
            "not-allowed: not on the allow list | [network] allowed_domains = [\"evil.test\"]",
        ),
        (
            "evil.test",
            80,
            "not-allowed: not on the allow list | [network] allowed_domains = [\"evil.test\"]",
        ),
        (
            "evil.test",
            22,
            "not-allowed: not on the allow list | [network] allowed_domains = [\"evil.test:22\"]",
        ),
        (
            "db.test",
            5432,
            "allow by allowed_domains \"db.test:5432\" (/w/spec.toml:3)",
        ),
        (
            "db.test",
            443,
            "not-allowed: not on the allow list | [network] allowed_domains = [\"db.test\"]",
        ),
        (
            "anything.test",
            8443,
            "allow by allowed_domains \"*:8443\" (/w/spec.toml:4)",
        ),
        (
            "x.denied.test",
            8443,
            "allow by allowed_domains \"*:8443\" (/w/spec.toml:4)",
        ),
        (
            "x.denied.test",
            443,
            "denied: denied_domains \"*.denied.test:443\" (/w/spec.toml:6) | remove /w/spec.toml:6",
        ),
        (
            "203.0.113.10",
            8443,
            "allow by allowed_domains \"*:8443\" (/w/spec.toml:4)",
        ),
        (
            "203.0.113.10",
            80,
            "not-allowed: not on the allow list | [network] allowed_domains = [\"203.0.113.10\"]",
        ),
        (
            "[2001:db8::10]",
            22,
            "not-allowed: not on the allow list | [network] allowed_domains = [\"[2001:db8::10]:22\"]",
        ),
        (
            "localhost",
            80,
            "not-allowed: not on the allow list | [network] allowed_domains = [\"localhost:80\"]",
        ),
        (
            "127.0.0.1",
            80,
            "not-allowed: not on the allow list | [network] allowed_domains = [\"127.0.0.1:80\"]",
        ),
        ("0.0.0.0", 80, "not-allowed: not on the allow list | -"),
        // `*` reaches public addresses only
        (
            "10.0.0.1",
            8443,
            "private-address: a private address, and no rule names it | [network] allowed_domains = [\"10.0.0.1:8443\"]",
        ),
        (
            "localhost",
            8443,
            "private-address: resolves to 127.0.0.1, a loopback address | [network] allowed_domains = [\"localhost:8443\"]",
        ),
        (
            "[::1]",
            8443,
            "private-address: a loopback address, and no rule names it | [network] allowed_domains = [\"[::1]:8443\"]",
        ),
        (
            "0.0.0.0",
            8443,
            "private-address: an unspecified address, and no rule names it | -",
        ),
        // the fixed list beats `*`, and has no hint
        (
            "169.254.169.254",
            8443,
            "denied: fixed deny list \"169.254.169.254\" (metadata) | -",
        ),
        (
            "[64:ff9b::a9fe:a9fe]",
            8443,
            "denied: resolves to 64:ff9b::a9fe:a9fe: fixed deny list \"169.254.169.254\" (metadata) | -",
        ),
        (
            "metadata.google.internal",
            8443,
            "denied: fixed deny list \"metadata.google.internal\" (metadata) | -",
        ),
        (
            "o1.ingest.sentry.io",
            8443,
            "denied: fixed deny list \"*.ingest.sentry.io\" (telemetry) | -",
        ),
    ] {
        assert_eq!(said(&p, target, port), want, "{target}:{port}");
    }
}

#[test]
fn addresses_behind_names() {
    let p = filtered(
        &[
            "allowed.test",
            "private vpn.test",
            "private db.test:5432",
            "localhost:9099",
            "10.1.1.1",
            "*:7777",
        ],
        &["203.0.113.66", "10.9.9.9:80"],
    );
    let own = ["203.0.113.5".parse().unwrap()];
    for (target, port, ip, want) in [
        ("allowed.test", 80, "203.0.113.10", "dial"),
        ("allowed.test", 80, "2001:db8::10", "dial"),
        ("allowed.test", 80, "::ffff:203.0.113.10", "dial"),
        (
            "allowed.test",
            9099,
            "127.0.0.1",
            "private-address: resolves to 127.0.0.1, a loopback address | [network] allowed_domains = [{ host = \"allowed.test:9099\", allow_private = true }]",
        ),
        (
            "allowed.test",
            80,
            "10.77.0.5",
            "private-address: resolves to 10.77.0.5, a private address | [network] allowed_domains = [{ host = \"allowed.test\", allow_private = true }]",
        ),
        (
            "allowed.test",
            80,
            "::ffff:10.77.0.5",
            "private-address: resolves to 10.77.0.5, a private address | [network] allowed_domains = [{ host = \"allowed.test\", allow_private = true }]",
        ),
        (
            "allowed.test",
            80,
            "198.18.0.1",
            "private-address: resolves to 198.18.0.1, a benchmarking address | [network] allowed_domains = [{ host = \"allowed.test\", allow_private = true }]",
        ),
        (
            "allowed.test",
            80,
            "169.254.1.1",
            "private-address: resolves to 169.254.1.1, a link-local address | -",
        ),
        (
            "allowed.test",
            80,
            "0.0.0.0",
            "private-address: resolves to 0.0.0.0, an unspecified address | -",
        ),
        (
            "allowed.test",
            80,
            "203.0.113.5",
            "private-address: resolves to 203.0.113.5, an address of this machine | [network] allowed_domains = [{ host = \"allowed.test\", allow_private = true }]",
        ),
        (
            "allowed.test",
            80,
            "2002:cb00:7105::1",
            "private-address: resolves to 2002:cb00:7105::1, an address of this machine | [network] allowed_domains = [{ host = \"allowed.test\", allow_private = true }]",
        ),
        (
            "allowed.test",
            80,
            "169.254.169.254",
            "denied: resolves to 169.254.169.254: fixed deny list \"169.254.169.254\" (metadata) | -",
        ),
        (
            "allowed.test",
            80,
            "fd00:ec2::254",
            "denied: resolves to fd00:ec2::254: fixed deny list \"[fd00:ec2::254]\" (metadata) | -",
        ),
        (
            "allowed.test",
            80,
            "203.0.113.66",
            "denied: resolves to 203.0.113.66: denied_domains \"203.0.113.66\" (/w/spec.toml:7) | remove /w/spec.toml:7",
        ),
        ("vpn.test", 80, "10.77.0.5", "dial"),
        ("vpn.test", 80, "127.0.0.1", "dial"),
        ("vpn.test", 80, "203.0.113.5", "dial"),
        ("vpn.test", 80, "203.0.113.10", "dial"),
        ("vpn.test", 80, "fc00::7", "dial"),
        (
            "vpn.test",
            80,
            "169.254.1.1",
            "private-address: resolves to 169.254.1.1, a link-local address | -",
        ),
        (
            "vpn.test",
            80,
            "169.254.169.254",
            "denied: resolves to 169.254.169.254: fixed deny list \"169.254.169.254\" (metadata) | -",
        ),
        (
            "vpn.test",
            80,
            "168.63.129.16",
            "denied: resolves to 168.63.129.16: fixed deny list \"168.63.129.16\" (metadata) | -",
        ),
        (
            "vpn.test",
            80,
            "10.9.9.9",
            "denied: resolves to 10.9.9.9: denied_domains \"10.9.9.9:80\" (/w/spec.toml:8) | remove /w/spec.toml:8",
        ),
        ("vpn.test", 443, "10.9.9.9", "dial"),
        // the wider rule does not hide the one that opens more
        ("vpn.test", 7777, "10.77.0.5", "dial"),
        ("db.test", 5432, "192.168.1.1", "dial"),
        ("localhost", 9099, "127.0.0.1", "dial"),
        ("localhost", 9099, "::1", "dial"),
        (
            "localhost",
            9099,
            "10.0.0.1",
            "private-address: resolves to 10.0.0.1, a private address | [network] allowed_domains = [\"localhost:9099\"]",
        ),
        ("127.0.0.1", 9099, "127.0.0.1", "dial"),
        ("10.1.1.1", 80, "10.1.1.1", "dial"),
    ] {
        assert_eq!(
            resolved(&p, target, port, ip, &own),
            want,
            "{target}:{port} -> {ip}"
        );
    }
}

#[test]
fn origins_in_words() {
    let mut policy = net(NetworkMode::Filtered, &[], &[]);
    let mut add = |text: &str, origin: Origin| {
        policy.denied.push(Ruled {
            value: HostRule::parse_deny(text).unwrap().0.remove(0),
            origin,
        });
    };
    add("managed.test", origin(Layer::Managed, 4));
    add("flag.test", origin(Layer::Flag("--deny-host"), 0));
    add(
        "profile.test",
        origin(Layer::Profile("strict".to_owned()), 0),
    );
    add(
        "inline.test",
        Origin {
            layer: Layer::Spec,
            file: None,
            line: Some(2),
        },
    );
    add(
        "bare.test",
        Origin {
            layer: Layer::Spec,
            file: None,
            line: None,
        },
    );
    policy.allowed.push(Ruled {
        value: HostRule::parse_allow("yes.test", false).unwrap(),
        origin: origin(Layer::Flag("--allow-host"), 0),
    });
    policy.baseline = true;
    let p = EgressPolicy::new(&policy);
    for (target, want) in [
        (
            "managed.test",
            "denied: denied_domains \"managed.test\" (/etc/ccbox/managed.toml:4) | set by /etc/ccbox/managed.toml:4",
        ),
        (
            "flag.test",
            "denied: --deny-host \"flag.test\" | remove --deny-host flag.test",
        ),
        (
            "profile.test",
            "denied: denied_domains \"profile.test\" (profile strict) | set by profile strict",
        ),
        (
            "inline.test",
            "denied: denied_domains \"inline.test\" (spec line 2) | remove \"inline.test\" from denied_domains (spec line 2)",
        ),
        (
            "bare.test",
            "denied: denied_domains \"bare.test\" (spec) | remove \"bare.test\" from denied_domains (spec)",
        ),
        ("yes.test", "allow by --allow-host \"yes.test\""),
        ("github.com", "allow by baseline \"github.com\""),
        ("api.github.com", "allow by baseline \"*.github.com\""),
        (
            "collector.github.com",
            "denied: fixed deny list \"collector.github.com\" (telemetry) | -",
        ),
        (
            "bedrock-runtime.eu-central-1.amazonaws.com",
            "allow by baseline \"bedrock-runtime.*.amazonaws.com\"",
        ),
        (
            "bedrock-runtime.evil.attacker.amazonaws.com",
            "not-allowed: not on the allow list | [network] allowed_domains = [\"bedrock-runtime.evil.attacker.amazonaws.com\"]",
        ),
    ] {
        assert_eq!(said(&p, target, 443), want, "{target}");
    }
}

/// R44: the same path with an empty list; nothing is allowed, whatever the spec lists.
#[test]
fn off_refuses_everything() {
    let mut policy = net(NetworkMode::Off, &["*", "localhost:80", "10.0.0.1"], &[]);
    policy.baseline = true;
    let p = EgressPolicy::new(&policy);
    for target in [
        "github.com",
        "x.test",
        "10.0.0.1",
        "localhost",
        "169.254.169.254",
    ] {
        assert_eq!(
            said(&p, target, 80),
            "network-off: network is off for this run | -"
        );
    }
    assert_eq!(p.forwarded_ports(), Vec::<u16>::new());
    assert!(p.allowed().is_empty());
}

#[test]
fn open_has_no_rules() {
    let p = EgressPolicy::new(&net(NetworkMode::Open, &[], &[]));
    for target in ["x.test", "10.0.0.1", "169.254.169.254"] {
        assert_eq!(said(&p, target, 80), "allow by network.mode = \"open\"");
    }
    assert_eq!(p.forwarded_ports(), Vec::<u16>::new());
}

/// NA-1: an empty allow list allows nothing.
#[test]
fn empty_list_allows_nothing() {
    let p = filtered(&[], &[]);
    for target in ["allowed.test", "203.0.113.10", "localhost", "github.com"] {
        assert!(
            said(&p, target, 443).starts_with("not-allowed: "),
            "{target}"
        );
    }
}

#[test]
fn forwarded_loopback_ports() {
    for (allowed, denied, ports) in [
        (
            &["localhost:9099", "127.0.0.1:80"][..],
            &[][..],
            &[80, 9099][..],
        ),
        (&["[::1]:443", "app.localhost:3000"], &[], &[443, 3000]),
        (&["127.0.0.1", "[::1]", "*", "*:80"], &[], &[]),
        (&["127.0.0.2:80", "10.0.0.1:80", "a.test:80"], &[], &[]),
        (&["localhost:1", "localhost:1"], &[], &[1]),
        (&["localhost:1", "localhost:2"], &["localhost:1"], &[2]),
        (&["localhost:1"], &["127.0.0.1", "[::1]"], &[]),
    ] {
        assert_eq!(
            filtered(allowed, denied).forwarded_ports(),
            ports,
            "{allowed:?}"
        );
    }
    let [v4, v6] = LOCALHOST;
    assert_eq!(filtered(&["localhost:1"], &[]).forward_targets(1), [v4, v6]);
    assert_eq!(filtered(&["127.0.0.1:1"], &[]).forward_targets(1), [v4]);
    assert_eq!(filtered(&["[::1]:1"], &[]).forward_targets(1), [v6]);
    assert_eq!(
        filtered(&["localhost:1"], &["127.0.0.1"]).forward_targets(1),
        [v6]
    );
}

/// A damaged built-in list must not open anything.
#[test]
fn without_the_fixed_list_nothing_is_allowed() {
    let mut p = filtered(&["a.test"], &[]);
    p.lists = OnceLock::from(Lists {
        allow: p.own_allow.clone(),
        deny: None,
    });
    assert_eq!(
        said(&p, "a.test", 443),
        "denied: the built-in deny list is damaged | -"
    );
}

fn arb_ip() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|n| IpAddr::V4(n.into())),
        any::<u128>().prop_map(|n| IpAddr::V6(n.into())),
        prop::sample::select(vec![
            "127.0.0.1",
            "::1",
            "10.0.0.1",
            "169.254.169.254",
            "100.100.100.200",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1"
        ])
        .prop_map(|s| s.parse().unwrap()),
    ]
}

proptest! {
    /// Deny beats allow, whatever else is listed and whatever the name resolves to.
    #[test]
    fn deny_always_wins(ip in arb_ip(), port in 1u16.., name in "[a-z]{1,5}(\\.[a-z]{1,5}){0,3}") {
        let target = host(&name);
        let p = filtered(&["*", "private x.test"], &[&name, &Host::Ip(ip).to_string()]);
        prop_assert!(matches!(p.decide(&target, port), Decision::Deny(_)));
        let q = filtered(&["*", "private q.test"], &[&Host::Ip(ip).to_string()]);
        for allowed in ["q.test", "r.test"] {
            let target = host(allowed);
            if let Decision::Allow(grant) = q.decide(&target, port) {
                prop_assert!(q.check_address(&grant, &target, port, ip, &[]).is_err());
            }
        }
    }

    /// A name that no rule opens further only ever leads to public addresses.
    #[test]
    fn names_lead_to_public_addresses_only(ip in arb_ip(), own in arb_ip(), port in 1u16..) {
        let p = filtered(&["*"], &[]);
        let target = host("a.test");
        let Decision::Allow(grant) = p.decide(&target, port) else { return Err(TestCaseError::fail("denied")) };
        if p.check_address(&grant, &target, port, ip, &[own]).is_ok() {
            prop_assert_eq!(AddressClass::of(ip), AddressClass::Public);
            prop_assert_ne!(address::canonical(ip), address::canonical(own));
        }
    }
}
