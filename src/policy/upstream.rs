//! The caller's own proxy, behind ours (R46): its address, its login, and the hosts that are reached without it.

use std::fmt;
use std::net::IpAddr;

use super::address;
use super::host::{Authority, Host, HostError};

/// How a proxy itself is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyScheme {
    /// Plain TCP.
    Http,
    /// TLS, with the proxy's name in its certificate.
    Https,
    /// SOCKS5. Names are sent unresolved, whether it is spelt `socks5h` or `socks5`: nothing is looked up here.
    Socks5,
}

/// A proxy: `http://user:password@host:port`, `https://…`, `socks5h://…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyUrl {
    /// How it is spoken to.
    pub scheme: ProxyScheme,
    /// Where it is.
    pub at: Authority,
    /// `user:password`, decoded.
    pub login: Option<Login>,
}

/// A user name and a password. Neither is ever printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Login(Vec<u8>);

impl Login {
    /// As Basic authentication wants it (RFC 7617), before it is encoded.
    #[must_use]
    pub fn user_pass(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(…)")
    }
}

/// Why a text is no address of a proxy. Says nothing of the text: there may be a password in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProxyUrlError {
    /// SOCKS4, or something else.
    #[error("a proxy is spoken to over `http://`, `https://` or `socks5h://`")]
    Scheme,
    /// No host, or a bad port.
    #[error("no address of a proxy: {0}")]
    Address(#[from] HostError),
    /// Behind the port.
    #[error("the address of a proxy has no path")]
    Path,
    /// A percent escape that is none, a control character, or a colon in the user name.
    #[error("user name or password of the proxy cannot be read")]
    Login,
}

impl ProxyUrl {
    /// Reads the value of a proxy variable or of `upstream_proxy`; without a scheme it is `http://`.
    ///
    /// # Errors
    /// What is no address of an HTTP or SOCKS5 proxy.
    pub fn parse(text: &str) -> Result<Self, ProxyUrlError> {
        let text = text.trim();
        let (scheme, rest) = match text.split_once("://") {
            None => (ProxyScheme::Http, text),
            Some((s, rest)) if s.eq_ignore_ascii_case("http") => (ProxyScheme::Http, rest),
            Some((s, rest)) if s.eq_ignore_ascii_case("https") => (ProxyScheme::Https, rest),
            Some((s, rest)) if ["socks5", "socks5h"].contains(&s.to_ascii_lowercase().as_str()) => {
                (ProxyScheme::Socks5, rest)
            }
            Some(_) => return Err(ProxyUrlError::Scheme),
        };
        // A password may hold a slash that somebody forgot to escape.
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (Some(Login::parse(login)?), rest),
            None => (None, rest),
        };
        let at = rest.strip_suffix('/').unwrap_or(rest);
        if at.contains(['/', '?', '#']) {
            return Err(ProxyUrlError::Path);
        }
        let port = match scheme {
            ProxyScheme::Http => 80,
            ProxyScheme::Https => 443,
            ProxyScheme::Socks5 => 1080,
        };
        Ok(Self {
            scheme,
            at: Authority::parse(at.as_bytes(), Some(port))?,
            login,
        })
    }
}

/// Without the login.
impl fmt::Display for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            ProxyScheme::Http => "http",
            ProxyScheme::Https => "https",
            ProxyScheme::Socks5 => "socks5h",
        };
        write!(f, "{scheme}://{}", self.at)
    }
}

impl Login {
    fn parse(text: &str) -> Result<Self, ProxyUrlError> {
        let (user, password) = text.split_once(':').unwrap_or((text, ""));
        let user = percent_decoded(user)?;
        let password = percent_decoded(password)?;
        // RFC 7617 §2: no colon in the user name, no control characters anywhere.
        if user.contains(&b':') || user.iter().chain(&password).any(u8::is_ascii_control) {
            return Err(ProxyUrlError::Login);
        }
        Ok(Self([&user[..], b":", &password].concat()))
    }
}

fn percent_decoded(text: &str) -> Result<Vec<u8>, ProxyUrlError> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(ProxyUrlError::Login);
        };
        out.push(u8::try_from(high * 16 + low).map_err(|_| ProxyUrlError::Login)?);
    }
    Ok(out)
}

/// `NO_PROXY`: hosts that are reached without the proxy.
///
/// ```text
/// *                     every host
/// example.com           that name and every name below it; `.example.com` and `*.example.com` are the same
/// example.com:8080      the same, at that port
/// 10.1.2.3  [::1]:443   that address
/// 10.0.0.0/8            addresses of that range, where an address is asked for (names are not looked up for this)
/// ```
///
/// Tools disagree about the leading dot; here it changes nothing, as with curl and Python. What is nothing of this is skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoProxy(Vec<Entry>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    All,
    Host { host: Host, port: Option<u16> },
    Range { base: IpAddr, bits: u32 },
}

impl NoProxy {
    /// Reads the list: commas or blanks between entries.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let entries = text.split(|c: char| c == ',' || c.is_whitespace());
        Self(entries.filter_map(Entry::parse).collect())
    }

    /// Whether the list speaks of this destination.
    #[must_use]
    pub fn covers(&self, to: &Authority) -> bool {
        self.0.iter().any(|e| e.covers(to))
    }
}

impl Entry {
    fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::All);
        }
        if let Some((base, bits)) = text.split_once('/') {
            let base: IpAddr = base.trim_matches(['[', ']']).parse().ok()?;
            let bits = bits.parse().ok()?;
            return (bits <= width(base)).then_some(Self::Range { base, bits });
        }
        let name = text.strip_prefix("*.").or(text.strip_prefix('.'));
        let text = name.unwrap_or(text).as_bytes();
        // An address with colons and without brackets has no port.
        let (host, port) = if let Ok(host) = Host::parse(text) {
            (host, None)
        } else {
            let to = Authority::parse(text, None).ok()?;
            (to.host, Some(to.port))
        };
        Some(Self::Host { host, port })
    }

    fn covers(&self, to: &Authority) -> bool {
        match (self, &to.host) {
            (Self::All, _) => true,
            (Self::Host { host, port }, asked) => {
                port.is_none_or(|p| p == to.port)
                    && match (host, asked) {
                        (Host::Name(entry), Host::Name(name)) => name
                            .strip_suffix(entry.as_str())
                            .is_some_and(|front| front.is_empty() || front.ends_with('.')),
                        (Host::Ip(entry), Host::Ip(ip)) => entry == ip,
                        (Host::Name(_), Host::Ip(_)) | (Host::Ip(_), Host::Name(_)) => false,
                    }
            }
            (Self::Range { base, bits }, Host::Ip(ip)) => in_range(*ip, *base, *bits),
            (Self::Range { .. }, Host::Name(_)) => false,
        }
    }
}

fn width(ip: IpAddr) -> u32 {
    match ip {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn in_range(ip: IpAddr, base: IpAddr, bits: u32) -> bool {
    let (ip, base, width) = match (address::canonical(ip), base) {
        (IpAddr::V4(ip), IpAddr::V4(base)) => {
            (u128::from(ip.to_bits()), u128::from(base.to_bits()), 32)
        }
        (IpAddr::V6(ip), IpAddr::V6(base)) => (ip.to_bits(), base.to_bits(), 128),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return false,
    };
    let below = width - bits;
    // A shift by the whole width is an overflow: a range of 0 bits holds everything.
    ip.checked_shr(below).unwrap_or(0) == base.checked_shr(below).unwrap_or(0)
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Bytes of any protocol, through a tunnel.
    Tunnel,
    /// A request for an `http://` URL.
    Request,
}

/// A proxy and where it was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// The proxy.
    pub proxy: ProxyUrl,
    /// `HTTPS_PROXY`, `network.upstream_proxy`.
    pub named: &'static str,
}

/// Which connections go through which proxy. The default: none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    tunnels: Option<Hop>,
    requests: Option<Hop>,
    except: NoProxy,
}

impl Chain {
    /// As the variables say. `var` finds one by name; lower case is asked for first, as tools do. The second value has a line for
    /// each that cannot be used.
    pub fn from_variables(var: impl Fn(&str) -> Option<String>) -> (Self, Vec<String>) {
        let mut said = Vec::new();
        let mut hop = |names: &[(&'static str, &'static str)]| {
            for (upper, lower) in names {
                let Some((name, value)) = [*lower, *upper]
                    .into_iter()
                    .find_map(|n| Some((n, var(n)?)).filter(|(_, v)| !v.trim().is_empty()))
                else {
                    continue;
                };
                match ProxyUrl::parse(&value) {
                    Ok(proxy) => return Some(Hop { proxy, named: name }),
                    Err(why) => {
                        let line = format!(
                            "`{name}` cannot be used, connections do not go through it: {why}"
                        );
                        if !said.contains(&line) {
                            said.push(line);
                        }
                    }
                }
            }
            None
        };
        let all = ("ALL_PROXY", "all_proxy");
        let chain = Self {
            tunnels: hop(&[("HTTPS_PROXY", "https_proxy"), all]),
            requests: hop(&[("HTTP_PROXY", "http_proxy"), all]),
            except: Self::exceptions(var),
        };
        (chain, said)
    }

    /// Through one proxy, but for the hosts of the caller's `NO_PROXY`.
    pub fn through(proxy: ProxyUrl, var: impl Fn(&str) -> Option<String>) -> Self {
        let hop = Hop {
            proxy,
            named: "network.upstream_proxy",
        };
        Self {
            tunnels: Some(hop.clone()),
            requests: Some(hop),
            except: Self::exceptions(var),
        }
    }

    fn exceptions(var: impl Fn(&str) -> Option<String>) -> NoProxy {
        let list = var("no_proxy").or_else(|| var("NO_PROXY"));
        list.map_or_else(NoProxy::default, |l| NoProxy::parse(&l))
    }

    /// The proxy on the way to a destination. This machine's own loopback is never behind one.
    #[must_use]
    pub fn hop(&self, to: &Authority, what: Use) -> Option<&Hop> {
        let hop = match what {
            Use::Tunnel => self.tunnels.as_ref()?,
            Use::Request => self.requests.as_ref()?,
        };
        let local = match &to.host {
            Host::Ip(ip) => ip.is_loopback(),
            Host::Name(_) => to.host.is_loopback_name(),
        };
        (!local && !self.except.covers(to)).then_some(hop)
    }

    /// One line for each proxy, for people.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let said = |what: &str, hop: &Hop| format!("{what} through {} ({})", hop.proxy, hop.named);
        match (&self.tunnels, &self.requests) {
            (Some(t), Some(r)) if t == r => vec![said("everything", t)],
            (tunnels, requests) => {
                let tunnels = tunnels.iter().map(|t| said("tunnels and HTTPS", t));
                tunnels
                    .chain(requests.iter().map(|r| said("plain HTTP", r)))
                    .collect()
            }
        }
    }
}

#[cfg(test)]
mod tests;
