//! The caller's own proxies: behind ours (R46), or in their place (`http_proxy_port`, `socks_proxy_port`).

use super::context::Ctx;
use super::rules::place;
use super::{NetworkPlan, PlanError};
use crate::policy::upstream::Chain;
use crate::policy::{Layer, NetworkMode, Policy, UpstreamProxy, UserProxies};

/// Completes a network plan with the proxy of the caller's network; returns what is to be said.
pub(super) fn attach(network: &mut NetworkPlan, ctx: Ctx<'_>) -> Vec<String> {
    if network.mode != NetworkMode::Filtered {
        return Vec::new();
    }
    let var = |name: &str| Some(ctx.host.var(name)?.to_string_lossy().into_owned());
    let (chain, mut said) = match &ctx.policy.upstream {
        UpstreamProxy::Env => Chain::from_variables(var),
        UpstreamProxy::None => (Chain::default(), Vec::new()),
        UpstreamProxy::Url(proxy) => (Chain::through(proxy.clone(), var), Vec::new()),
    };
    network.upstream = chain;
    for (key, port) in network.user_proxies.iter() {
        said.push(format!(
            "`network.{key}` ({}): what goes through the proxy on port {} is under its rules, not under those of this sandbox",
            place(&port.origin),
            port.value
        ));
    }
    said
}

/// Where the network is filtered. Rules that somebody else has set for this machine are not to be walked around.
pub(super) fn user_proxies(policy: &Policy) -> Result<UserProxies, PlanError> {
    let net = &policy.net;
    if net.mode != NetworkMode::Filtered {
        return Ok(UserProxies::default());
    }
    let managed = |layer: &Layer| *layer == Layer::Managed;
    let ruled = net.managed_only.is_some() || net.denied.iter().any(|r| managed(&r.origin.layer));
    for (key, port) in net.user_proxies.iter() {
        if ruled && !managed(&port.origin.layer) {
            return Err(PlanError {
                message: format!(
                    "`network.{key}` ({}) would go around the managed rules for hosts",
                    place(&port.origin)
                ),
                hint: Some(format!(
                    "remove it; only the managed settings can set `network.{key}` then"
                )),
            });
        }
    }
    Ok(net.user_proxies.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fixture;
    use crate::policy::host_rule::HostRule;
    use crate::policy::{Origin, Ruled};

    fn origin(layer: Layer) -> Origin {
        Origin {
            layer,
            file: None,
            line: None,
        }
    }

    fn filtered(port: Layer) -> Policy {
        let mut policy = fixture::dispatch();
        policy.net.mode = NetworkMode::Filtered;
        policy.net.user_proxies.http = Some(Ruled {
            value: 8080,
            origin: origin(port),
        });
        policy
    }

    /// Whoever manages the machine said what may be reached; only they can lead around that.
    #[test]
    fn managed_rules_are_not_walked_around() {
        let rule = || Ruled {
            value: HostRule::parse_deny("x.test").unwrap().0.remove(0),
            origin: origin(Layer::Managed),
        };
        assert!(user_proxies(&filtered(Layer::Spec)).is_ok());
        for (layer, ok) in [
            (Layer::Spec, false),
            (Layer::User, false),
            (Layer::Managed, true),
        ] {
            let mut policy = filtered(layer.clone());
            policy.net.denied.push(rule());
            assert_eq!(user_proxies(&policy).is_ok(), ok, "{layer:?}");
            let mut policy = filtered(layer.clone());
            policy.net.managed_only = Some(origin(Layer::Managed));
            assert_eq!(user_proxies(&policy).is_ok(), ok, "{layer:?}");
        }
        let mut policy = filtered(Layer::Spec);
        policy.net.mode = NetworkMode::Off;
        assert_eq!(user_proxies(&policy).unwrap(), UserProxies::default());
    }

    #[test]
    fn the_callers_variables_count_where_the_network_is_filtered() {
        let mut host = fixture::facts();
        fixture::set_var(&mut host, "HTTPS_PROXY", "http://me:pw@proxy.corp:3128");
        fixture::set_var(&mut host, "ALL_PROXY", "socks4://p:1");
        let fs = fixture::debian();
        for (mode, upstream, words, said) in [
            (NetworkMode::Filtered, UpstreamProxy::Env, 1, 2),
            (NetworkMode::Filtered, UpstreamProxy::None, 0, 1),
            (NetworkMode::Off, UpstreamProxy::Env, 0, 0),
        ] {
            let mut policy = filtered(Layer::Spec);
            policy.net.mode = mode;
            policy.upstream = upstream;
            let mut network = super::super::resolve::network(&policy).unwrap();
            let ctx = Ctx {
                policy: &policy,
                host: &host,
                fs: &fs,
            };
            let notices = attach(&mut network, ctx);
            assert_eq!(network.upstream.words().len(), words);
            assert_eq!(notices.len(), said, "{notices:?}");
            assert!(!format!("{network:?} {notices:?}").contains("pw"));
            let forwarded = mode == NetworkMode::Filtered;
            assert_eq!(network.forwarded_ports == [8080], forwarded);
        }
    }
}
