//! The `network` table, which both tools spell alike.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use toml::de::DeValue;

use super::out::{Value, converted, string};
use super::paths::SOCKETS;
use super::{Dialect, Import, shown};
use crate::policy::address::AddressClass;
use crate::policy::host_rule::HostRule;
use crate::spec::SpecError;
use crate::spec::json::{Json, Member, Node};

const KEYS: &[&str] = &[
    "allowedDomains",
    "deniedDomains",
    "deniedDomainReasons",
    "strictAllowlist",
    "deniedResolvedAddresses",
    "allowUnixSockets",
    "allowAllUnixSockets",
    "allowLocalBinding",
    "allowMachLookup",
    "httpProxyPort",
    "socksProxyPort",
    "parentProxy",
    "mitmProxy",
    "tlsTerminate",
    "refuseOpaqueTunnels",
    "requireHostMatch",
    "stripResponseHeaders",
    "allowPlaintextHeaderSet",
    "ambiguousRequestTarget",
    "allowManagedDomainsOnly",
];

impl<'a> Import<'a> {
    pub(super) fn network(&mut self, place: &str, node: &Node) -> Result<(), SpecError> {
        for m in self.object(place, node)? {
            let what = format!("{place}.{}", m.key);
            self.network_key(place, &what, m)?;
        }
        Ok(())
    }

    fn network_key(&mut self, place: &str, what: &str, m: &Member) -> Result<(), SpecError> {
        let node = &m.node;
        match m.key.as_str() {
            "allowedDomains" => {
                for (text, span) in self.texts(what, node)? {
                    self.allow_host(text, span);
                }
            }
            "deniedDomains" => {
                for (text, span) in self.texts(what, node)? {
                    self.deny_host(text, span);
                }
            }
            "deniedDomainReasons" => {
                if !self.object(what, node)?.is_empty() {
                    self.notice(
                        &node.span,
                        format!("`{what}` is not shown; a refusal names the rule and its line"),
                    );
                }
            }
            "strictAllowlist" => {
                // srt's own command has nobody to ask either.
                if !self.bool(what, node)? && self.dialect == Dialect::Claude {
                    self.notice(&node.span, format!("`{what}` = false has no effect: there is nobody to ask, so hosts that are not listed are refused"));
                }
            }
            "deniedResolvedAddresses" => {
                for (text, span) in self.texts(what, node)? {
                    if !refused_anyway(text) {
                        return Err(self.unsupported(
                            what,
                            span,
                            &format!(
                                "only ranges that are refused anyway hold, and `{}` is none",
                                shown(text)
                            ),
                        ));
                    }
                }
            }
            "allowUnixSockets" => {
                for item in self.list(what, node)? {
                    self.path_entry(what, item, SOCKETS)?;
                }
            }
            "allowAllUnixSockets" => self.flag(what, node, "allow_all_unix_sockets")?,
            "allowLocalBinding" => self.flag(what, node, "allow_local_binding")?,
            "allowMachLookup" => {
                if !self.list(what, node)?.is_empty() {
                    self.notice(&node.span, format!("`{what}` opens no service: ccbox has a fixed list of those a command needs"));
                }
            }
            "httpProxyPort" => self.port(what, node, "http_proxy_port")?,
            "socksProxyPort" => self.port(what, node, "socks_proxy_port")?,
            "parentProxy" => self.parent_proxy(what, node)?,
            "mitmProxy" => {
                return Err(self.unsupported(
                    what,
                    &m.key_span,
                    "connections would go past that proxy",
                ));
            }
            "tlsTerminate" => {
                if !self.not_from_repository(&m.key_span, &format!("`{what}`")) {
                    let table = self.converted(what, node)?;
                    self.out.set("network", "tls_terminate", table);
                }
            }
            "refuseOpaqueTunnels" | "requireHostMatch" => {
                if self.bool(what, node)? {
                    return Err(self.unsupported(
                        what,
                        &m.key_span,
                        "what is inside a tunnel is not looked at",
                    ));
                }
            }
            "stripResponseHeaders" => {
                if !self.list(what, node)?.is_empty() {
                    return Err(self.unsupported(
                        what,
                        &m.key_span,
                        "answers are passed on as they are",
                    ));
                }
            }
            "allowPlaintextHeaderSet" => {
                if self.bool(what, node)? {
                    self.notice(
                        &node.span,
                        format!("`{what}` has no effect: no header is set"),
                    );
                }
            }
            "ambiguousRequestTarget" => {
                if self.text(what, node)? != "refuse" {
                    self.notice(
                        &node.span,
                        format!("`{what}` has no effect: an ambiguous target is refused"),
                    );
                }
            }
            "allowManagedDomainsOnly" => {
                if self.bool(what, node)? {
                    self.notice(&node.span, format!("`{what}` has no effect here: `managed.allow_managed_domains_only` stands in the managed file of ccbox"));
                }
            }
            _ => return Err(self.unknown(place, m, KEYS)),
        }
        Ok(())
    }

    fn flag(&mut self, what: &str, node: &Node, key: &'static str) -> Result<(), SpecError> {
        let value = self.bool(what, node)?;
        self.out.bool("network", key, value, node.span.clone());
        Ok(())
    }

    fn port(&mut self, what: &str, node: &Node, key: &'static str) -> Result<(), SpecError> {
        let value = self.converted(what, node)?;
        if !matches!(value.get_ref(), DeValue::Integer(_)) {
            return Err(self.wrong(what, "a port", node));
        }
        self.out.set("network", key, value);
        Ok(())
    }

    /// A value in the spelling of a spec.
    pub(super) fn converted(&self, what: &str, node: &Node) -> Result<Value<'a>, SpecError> {
        converted(node, self.source.text())
            .map_err(|span| self.error(&span, format!("`{what}` holds a value that no spec has")))
    }

    /// What the tool itself refuses opens nothing, and what only it can mean is said.
    pub(super) fn allow_host(&mut self, text: &str, span: &Range<usize>) {
        let every_port = HostRule::parse_allow(text, false).is_err()
            && HostRule::parse_allow(&format!("{text}:1"), false).is_ok();
        if text == "*" {
            self.notice(span, "`*` allows nothing here: name the hosts");
        } else if every_port {
            self.notice(
                span,
                format!("`{0}` allows nothing here: it would open every port of this machine's loopback; name the port, `{0}:PORT`", shown(text)),
            );
        } else {
            self.out
                .push("network", "allowed_domains", string(text, span.clone()));
        }
    }

    pub(super) fn deny_host(&mut self, text: &str, span: &Range<usize>) {
        self.out
            .push("network", "denied_domains", string(text, span.clone()));
    }

    /// One URL for both kinds is `upstream_proxy`; the environment of the caller says anything finer.
    fn parent_proxy(&mut self, what: &str, node: &Node) -> Result<(), SpecError> {
        let mut urls: Vec<(&str, &Range<usize>)> = Vec::new();
        let mut exceptions = false;
        for m in self.object(what, node)? {
            let key = format!("{what}.{}", m.key);
            match m.key.as_str() {
                "http" | "https" => urls.push((self.text(&key, &m.node)?, &m.node.span)),
                "noProxy" => {
                    exceptions = match &m.node.value {
                        Json::Text(text) => !text.is_empty(),
                        Json::List(items) => !items.is_empty(),
                        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => {
                            return Err(self.wrong(&key, "a string or a list", &m.node));
                        }
                    };
                }
                _ => return Err(self.unknown(what, m, &["http", "https", "noProxy"])),
            }
        }
        let Some((url, span)) = urls.first() else {
            return Ok(());
        };
        if exceptions || urls.iter().any(|(other, _)| other != url) {
            let why = "two proxies and exceptions are read from the environment only";
            return Err(self
                .unsupported(what, &node.span, why)
                .with_hint("set HTTP_PROXY, HTTPS_PROXY and NO_PROXY for the call instead"));
        }
        self.out
            .text("network", "upstream_proxy", url, (*span).clone());
        Ok(())
    }
}

/// The range lies in one class of addresses that no name may lead to (D15).
fn refused_anyway(text: &str) -> bool {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let Ok(ip) = address.parse::<IpAddr>() else {
        return false;
    };
    let width: u32 = if ip.is_ipv4() { 32 } else { 128 };
    let bits = match bits.map(str::parse::<u32>) {
        None => width,
        Some(Ok(bits)) if (1..=width).contains(&bits) => bits,
        Some(_) => return false,
    };
    let (first, last) = match ip {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shr(bits).unwrap_or(0);
            let base = u32::from(v4) & !mask;
            (
                IpAddr::from(Ipv4Addr::from(base)),
                IpAddr::from(Ipv4Addr::from(base | mask)),
            )
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shr(bits).unwrap_or(0);
            let base = u128::from(v6) & !mask;
            (
                IpAddr::from(Ipv6Addr::from(base)),
                IpAddr::from(Ipv6Addr::from(base | mask)),
            )
        }
    };
    let class = AddressClass::of(first);
    class != AddressClass::Public && class == AddressClass::of(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_are_refused_anyway() {
        for (text, want) in [
            ("10.0.0.0/8", true),
            ("10.1.2.3", true),
            ("172.16.0.0/12", true),
            ("192.168.0.0/16", true),
            ("100.64.0.0/10", true),
            ("127.0.0.0/8", true),
            ("169.254.0.0/16", true),
            ("fc00::/7", true),
            ("fe80::/10", true),
            ("::1/128", true),
            ("0.0.0.0/0", false),
            ("10.0.0.0/7", false),
            ("172.16.0.0/11", false),
            ("8.8.8.0/24", false),
            ("2001:4860::/32", false),
            ("::/0", false),
            ("10.0.0.0/33", false),
            ("10.0.0.0/x", false),
            ("example.com", false),
            ("", false),
        ] {
            assert_eq!(refused_anyway(text), want, "{text}");
        }
    }

    #[test]
    fn every_key_is_known() {
        super::super::tests::every_key_is_known("network", KEYS);
    }
}
