//! Who could lift a refusal that is not about the destination (semantics 32).

use super::*;

/// Only what the layer that turned the network off can take back.
#[test]
fn the_network_is_turned_on_where_it_was_turned_off() {
    for (layer, hint) in [
        (Layer::Flag("--no-network"), "remove --no-network"),
        (Layer::Spec, "remove /w/spec.toml:7"),
        (Layer::Profile("strict".into()), "set by profile strict"),
        (Layer::Managed, "set by /etc/ccbox/managed.toml:7"),
    ] {
        let mut policy = net(NetworkMode::Off, &[], &[]);
        policy.off_by = Some(origin(layer, 7));
        let p = EgressPolicy::new(&policy);
        assert_eq!(
            said(&p, "x.test", 443),
            format!("network-off: network is off for this run | {hint}")
        );
    }
    let mut policy = net(NetworkMode::Off, &[], &[]);
    policy.off_by = Some(Origin {
        layer: Layer::Spec,
        file: None,
        line: Some(1),
    });
    assert_eq!(
        said(&EgressPolicy::new(&policy), "x.test", 443),
        "network-off: network is off for this run | remove the line that turns the network off (spec line 1)"
    );
}

/// A line that has no effect is no hint.
#[test]
fn only_the_managed_settings_allow_hosts() {
    let mut policy = net(NetworkMode::Filtered, &["m.test"], &["d.test"]);
    policy.managed_only = Some(origin(Layer::Managed, 3));
    let p = EgressPolicy::new(&policy);
    let only = "set by /etc/ccbox/managed.toml:3: only the managed settings allow hosts".to_owned();
    for target in ["x.test", "10.0.0.1", "localhost"] {
        let text = said(&p, target, 8080);
        assert!(text.ends_with(&format!(" | {only}")), "{text}");
    }
    let Decision::Allow(grant) = p.decide(&Host::parse(b"m.test").unwrap(), 443) else {
        panic!("the managed rule holds");
    };
    let private = "10.0.0.1".parse().unwrap();
    let denial = p
        .check_address(&grant, &Host::parse(b"m.test").unwrap(), 443, private, &[])
        .unwrap_err();
    assert_eq!(denial.hint, Some(Hint::SetBy(only)));
    // Removing a deny is still the way.
    assert!(said(&p, "d.test", 443).ends_with("| remove /w/spec.toml:2"));
}
