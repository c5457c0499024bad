//! Host names and addresses in canonical form (R45, egress-proxy §4).

use std::net::IpAddr;

/// A canonical host: what is matched, logged and dialled.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// ASCII, lower case, no trailing dot, IDNA applied.
    Name(String),
    /// IPv4-mapped IPv6 is folded to IPv4.
    Ip(IpAddr),
}

impl Host {
    /// Reads untrusted bytes: SOCKS names, CONNECT authorities, URI hosts, Host headers, rule text.
    ///
    /// # Errors
    /// Every spelling that is not canonical enough to be decided on.
    pub fn parse(_raw: &[u8]) -> Result<Self, HostError> {
        unimplemented!("policy::host")
    }
}

/// Why a host is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Nothing there.
    #[error("empty host")]
    Empty,
}
