//! Host names and addresses in canonical form (R45, egress-proxy §4).
//!
//! One parser reads every spelling that reaches a decision: rule text, SOCKS names, CONNECT authorities, URI hosts. What it
//! returns is what is matched, logged and dialled; the bytes it was given are never passed on. A spelling that two readers could
//! understand differently (NUL, percent escapes, octal addresses, user information) is refused instead of repaired.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::address;

/// RFC 1035 §2.3.4: 255 octets on the wire are 253 in text.
const MAX_NAME: usize = 253;
/// RFC 1035 §2.3.4.
const MAX_LABEL: usize = 63;

/// A canonical host: what is matched, logged and dialled.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// ASCII, lower case, no trailing dot, IDNA applied.
    Name(String),
    /// IPv4-mapped IPv6 is folded to IPv4.
    Ip(IpAddr),
}

/// Why a host is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Nothing there.
    #[error("empty host")]
    Empty,
    /// Longer than a domain name can be.
    #[error("host longer than 253 characters")]
    TooLong,
    /// NUL, CR, LF, a blank, or another control character.
    #[error("control character or blank in the host")]
    Control,
    /// `user@host`.
    #[error("user information before the host")]
    Userinfo,
    /// A percent escape or an IPv6 zone.
    #[error("percent sign in the host")]
    Percent,
    /// Not an IPv6 address where brackets or colons promise one.
    #[error("not an IPv6 address in brackets")]
    Bracket,
    /// Decimal, octal, hexadecimal or shortened IPv4, which resolvers read in ways of their own.
    #[error("an IPv4 address must be written as four decimal numbers")]
    Numeric,
    /// Not valid UTF-8, or refused by IDNA (UTS 46).
    #[error("not a valid internationalised name")]
    Idna,
    /// An empty or too long label, or a character that no host name has.
    #[error("not a host name")]
    Label,
    /// A port that is missing, zero, over 65535 or not plain decimal.
    #[error("not a port between 1 and 65535")]
    Port,
}

impl Host {
    /// Reads untrusted bytes: SOCKS names, CONNECT authorities, URI hosts, Host headers, rule text.
    ///
    /// # Errors
    /// Every spelling that is not canonical enough to be decided on.
    pub fn parse(raw: &[u8]) -> Result<Self, HostError> {
        if raw.is_empty() {
            return Err(HostError::Empty);
        }
        // Non-ASCII text can be longer than the name it stands for (four bytes a character), so this is only a first fence.
        if raw.len() > 4 * MAX_NAME {
            return Err(HostError::TooLong);
        }
        if raw.iter().any(|b| *b <= b' ' || *b == 0x7f) {
            return Err(HostError::Control);
        }
        if raw.contains(&b'@') {
            return Err(HostError::Userinfo);
        }
        if raw.contains(&b'%') {
            return Err(HostError::Percent);
        }
        let text = std::str::from_utf8(raw).map_err(|_| HostError::Idna)?;
        if let Some(rest) = text.strip_prefix('[') {
            return ipv6(rest.strip_suffix(']').ok_or(HostError::Bracket)?);
        }
        if text.contains(':') {
            return ipv6(text);
        }
        Self::parse_name(text)
    }

    fn parse_name(text: &str) -> Result<Self, HostError> {
        let ascii = idna::domain_to_ascii_cow(text.as_bytes(), idna::AsciiDenyList::URL)
            .map_err(|_| HostError::Idna)?;
        let name = ascii.strip_suffix('.').unwrap_or(&ascii);
        if name.is_empty() {
            return Err(HostError::Empty);
        }
        if name.len() > MAX_NAME {
            return Err(HostError::TooLong);
        }
        // After IDNA, so that full-width digits cannot smuggle an address past this point.
        if let Ok(v4) = name.parse::<Ipv4Addr>() {
            return Ok(Self::Ip(v4.into()));
        }
        // inet_aton(3) takes `127.1`, `2130706433`, `0x7f.1` and `0177.0.0.1`, and getaddrinfo(3) calls it. No top-level domain
        // is numeric (RFC 3696 §2), so a numeric last label is always such an alias.
        if name.rsplit('.').next().is_some_and(is_numeric_label) {
            return Err(HostError::Numeric);
        }
        if name.split('.').all(is_label) {
            Ok(Self::Name(name.to_ascii_lowercase()))
        } else {
            Err(HostError::Label)
        }
    }

    /// `localhost`, a name below it (RFC 6761 §6.3), or a usual alias of it in hosts files.
    #[must_use]
    pub fn is_loopback_name(&self) -> bool {
        match self {
            Self::Name(n) => {
                n == "localhost"
                    || n.ends_with(".localhost")
                    || matches!(
                        n.as_str(),
                        "localhost.localdomain" | "ip6-localhost" | "ip6-loopback"
                    )
            }
            Self::Ip(_) => false,
        }
    }
}

fn ipv6(text: &str) -> Result<Host, HostError> {
    text.parse::<Ipv6Addr>()
        .map(|v6| Host::Ip(address::canonical(v6.into())))
        .map_err(|_| HostError::Bracket)
}

fn is_numeric_label(label: &str) -> bool {
    let hex = label
        .strip_prefix("0x")
        .or_else(|| label.strip_prefix("0X"));
    match hex {
        Some(digits) => digits.bytes().all(|b| b.is_ascii_hexdigit()),
        None => !label.is_empty() && label.bytes().all(|b| b.is_ascii_digit()),
    }
}

/// Underscores are no host name characters in RFC 952, but names with them exist and resolve.
fn is_label(label: &str) -> bool {
    (1..=MAX_LABEL).contains(&label.len())
        && label
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(n) => f.write_str(n),
            Self::Ip(IpAddr::V4(ip)) => ip.fmt(f),
            Self::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
        }
    }
}

/// A host with its port, as in a CONNECT target.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Authority {
    /// Where.
    pub host: Host,
    /// 1–65535.
    pub port: u16,
}

impl Authority {
    /// Reads `host:port`; without a port only where there is a default (a URI with a scheme).
    ///
    /// # Errors
    /// As [`Host::parse`], an IPv6 address without brackets, and every port that is not plain decimal in 1–65535.
    pub fn parse(raw: &[u8], default_port: Option<u16>) -> Result<Self, HostError> {
        let (host, port) = split_port(raw)?;
        let host = Host::parse(host)?;
        let port = match port {
            Some(b"") | None => default_port.ok_or(HostError::Port)?,
            Some(digits) => parse_port(digits)?,
        };
        Ok(Self { host, port })
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Splits at the one colon that can introduce a port; more than one outside brackets is ambiguous.
pub(super) fn split_port(raw: &[u8]) -> Result<(&[u8], Option<&[u8]>), HostError> {
    if raw.first() == Some(&b'[') {
        let end = raw
            .iter()
            .position(|b| *b == b']')
            .ok_or(HostError::Bracket)?;
        let (host, rest) = raw.split_at(end + 1);
        return match rest.split_first() {
            None => Ok((host, None)),
            Some((b':', port)) => Ok((host, Some(port))),
            Some(_) => Err(HostError::Bracket),
        };
    }
    let mut parts = raw.split(|b| *b == b':');
    let host = parts.next().unwrap_or(raw);
    let port = parts.next();
    if parts.next().is_some() {
        return Err(HostError::Bracket);
    }
    Ok((host, port))
}

/// Plain decimal, no sign, no leading zero: `u16::from_str` alone would take `+80`.
pub(super) fn parse_port(digits: &[u8]) -> Result<u16, HostError> {
    if digits.first() == Some(&b'0') || !digits.iter().all(u8::is_ascii_digit) {
        return Err(HostError::Port);
    }
    std::str::from_utf8(digits)
        .ok()
        .and_then(|d| d.parse().ok())
        .ok_or(HostError::Port)
}

#[cfg(test)]
mod tests;
