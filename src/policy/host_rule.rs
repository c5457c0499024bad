//! Allow and deny rules for hosts (R42).
//!
//! ```text
//! rule    = pattern [ ":" port ]                    port: 1-65535, no leading zero; without one, every port
//! pattern = "*"                                     every name and every public address
//!         | "*." name                               any depth below, never the name itself
//!         | label { "." label } ".*." name          exactly one label for the `*`, at least four labels in all
//!         | name | IPv4 | "[" IPv6 "]"              exactly that
//! ```
//!
//! Everything else is an error with a suggested spelling; a deny entry that can be read in several ways denies every reading.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use super::host::{Host, HostError, parse_port, split_port};

mod suggest;

/// A compiled rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    /// As written, for messages.
    pub text: String,
    /// `allow_private = true` on this rule.
    pub allow_private: bool,
    pattern: HostPattern,
    port: Option<u16>,
}

/// The host part of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
enum HostPattern {
    /// `*`
    Any,
    /// One host.
    Exact(Host),
    /// `*.d`; holds `.d`, so that a match always falls on a label border and never on `d` itself.
    Below(String),
    /// `a.*.b.c`; holds `a.` and `.b.c`.
    OneLabel { before: String, after: String },
}

/// Why a rule is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct HostRuleError {
    /// What is wrong.
    pub reason: String,
    /// A suggested spelling.
    pub hint: Option<String>,
}

impl HostRule {
    /// Reads an allow entry.
    ///
    /// # Errors
    /// Anything outside the grammar of R42, with a suggested spelling; a loopback name without a port (semantics 13); `*` with
    /// `allow_private`, which would open every private network at once.
    pub fn parse_allow(text: &str, allow_private: bool) -> Result<Self, HostRuleError> {
        let rule = Self::parse(text, allow_private)?;
        let refuse = |reason: String, hint: String| {
            Err(HostRuleError {
                reason,
                hint: Some(hint),
            })
        };
        if rule.port.is_none() && rule.names_loopback() {
            return refuse(
                format!("`{text}` would open every port of this machine's loopback"),
                format!("name the port, `{text}:PORT`"),
            );
        }
        match &rule.pattern {
            HostPattern::Any if allow_private => refuse(
                format!("`allow_private` on `{text}` would open every private network"),
                "put `allow_private` on a rule that names the host".to_owned(),
            ),
            // Linux connects 0.0.0.0 and :: to loopback; nobody means that by it.
            HostPattern::Exact(Host::Ip(ip)) if ip.is_unspecified() => refuse(
                format!("`{text}` is no destination"),
                "for a port of this machine write `127.0.0.1:PORT`".to_owned(),
            ),
            HostPattern::Any
            | HostPattern::Exact(_)
            | HostPattern::Below(_)
            | HostPattern::OneLabel { .. } => Ok(rule),
        }
    }

    /// Reads a deny entry; an ambiguous spelling (`::1:443`) yields every reading, the second value says so in words.
    ///
    /// # Errors
    /// As `parse_allow`, but for the ambiguous spellings.
    pub fn parse_deny(text: &str) -> Result<(Vec<Self>, Option<String>), HostRuleError> {
        match Self::parse(text, false) {
            Ok(rule) => Ok((vec![rule], None)),
            Err(error) => {
                let rules: Vec<Self> = deny_readings(text)
                    .iter()
                    .filter_map(|reading| Self::parse(reading, false).ok())
                    .map(|rule| Self {
                        text: text.to_owned(),
                        ..rule
                    })
                    .collect();
                if rules.is_empty() {
                    return Err(error);
                }
                let readings = rules
                    .iter()
                    .map(|r| format!("`{}`", r.canonical()))
                    .collect::<Vec<_>>();
                let note = format!("`{text}` is read as {}", readings.join(" and "));
                Ok((rules, Some(note)))
            }
        }
    }

    fn parse(text: &str, allow_private: bool) -> Result<Self, HostRuleError> {
        Self::compile(text)
            .map(|(pattern, port)| Self {
                text: text.to_owned(),
                allow_private,
                pattern,
                port,
            })
            .map_err(|problem| HostRuleError {
                reason: format!("`{text}`: {problem}"),
                hint: suggest::spelling(text),
            })
    }

    fn compile(text: &str) -> Result<(HostPattern, Option<u16>), Problem> {
        if text.is_empty() {
            return Err(HostError::Empty.into());
        }
        if text.bytes().any(|b| b <= b' ' || b == 0x7f) {
            return Err(HostError::Control.into());
        }
        if text.contains("://") {
            return Err(Problem::Url);
        }
        if text.contains('/') {
            return Err(Problem::Path);
        }
        if text.contains('@') {
            return Err(HostError::Userinfo.into());
        }
        if !text.starts_with('[') && text.matches(':').count() > 1 {
            return Err(Problem::Colons);
        }
        let (host, port) = split_port(text.as_bytes())?;
        let port = match port {
            None => None,
            Some(b"") => return Err(HostError::Port.into()),
            Some(digits) => Some(parse_port(digits)?),
        };
        // The split fell on an ASCII byte, so the rest is still UTF-8.
        let host = std::str::from_utf8(host).map_err(|_| HostError::Idna)?;
        Ok((Self::compile_host(host)?, port))
    }

    fn compile_host(host: &str) -> Result<HostPattern, Problem> {
        if host == "*" {
            return Ok(HostPattern::Any);
        }
        if !host.contains('*') {
            return Ok(HostPattern::Exact(Host::parse(host.as_bytes())?));
        }
        if host.matches('*').count() > 1 {
            return Err(Problem::Stars);
        }
        if let Some(parent) = host.strip_prefix("*.") {
            return match Host::parse(parent.as_bytes())? {
                Host::Name(name) => Ok(HostPattern::Below(format!(".{name}"))),
                Host::Ip(_) => Err(Problem::AddressStar),
            };
        }
        let Some((before, after)) = host.split_once(".*.") else {
            return Err(Problem::PartialLabel);
        };
        // Each side on its own is a host name; `1.*.2.3` and brackets are not.
        let (Host::Name(before), Host::Name(after)) = (
            Host::parse(before.as_bytes())?,
            Host::parse(after.as_bytes())?,
        ) else {
            return Err(Problem::AddressStar);
        };
        if before.split('.').count() + after.split('.').count() < 3 {
            return Err(Problem::FewLabels);
        }
        Ok(HostPattern::OneLabel {
            before: format!("{before}."),
            after: format!(".{after}"),
        })
    }

    /// True where this rule, in an allow list, speaks of this destination.
    #[must_use]
    pub fn allows(&self, host: &Host, port: u16) -> bool {
        self.port.is_none_or(|p| p == port)
            && (self.pattern.matches(host)
                // `localhost:PORT` reaches the two addresses that name stands for (semantics 42).
                || matches!(host, Host::Ip(ip) if self.names_loopback() && is_localhost(*ip)))
    }

    /// True where this rule, in a deny list, speaks of this destination: a loopback name denies every loopback address.
    #[must_use]
    pub fn denies(&self, host: &Host, port: u16) -> bool {
        self.port.is_none_or(|p| p == port)
            && (self.pattern.matches(host)
                || matches!(host, Host::Ip(ip) if self.names_loopback() && ip.is_loopback()))
    }

    /// The port, if the rule has one.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The plain `*` (semantics 40: one notice).
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.pattern == HostPattern::Any
    }

    /// Names one host, not any number of them.
    #[must_use]
    pub fn names_one(&self) -> bool {
        matches!(self.pattern, HostPattern::Exact(_))
    }

    /// The address, where the rule names one.
    #[must_use]
    pub fn literal(&self) -> Option<IpAddr> {
        match &self.pattern {
            HostPattern::Exact(Host::Ip(ip)) => Some(*ip),
            HostPattern::Exact(Host::Name(_))
            | HostPattern::Any
            | HostPattern::Below(_)
            | HostPattern::OneLabel { .. } => None,
        }
    }

    /// `localhost` and the like, or a wildcard below it.
    #[must_use]
    pub fn names_loopback(&self) -> bool {
        match &self.pattern {
            HostPattern::Exact(host) => host.is_loopback_name(),
            HostPattern::Below(suffix) => suffix == ".localhost" || suffix.ends_with(".localhost"),
            HostPattern::OneLabel { after, .. } => after.ends_with(".localhost"),
            HostPattern::Any => false,
        }
    }

    /// The rule in its one canonical spelling; parses back to the same rule.
    #[must_use]
    pub fn canonical(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.pattern),
            None => self.pattern.to_string(),
        }
    }
}

/// The addresses that `localhost` stands for (RFC 6761 §6.3).
pub(super) fn is_localhost(ip: IpAddr) -> bool {
    ip == IpAddr::from([127, 0, 0, 1]) || ip == IpAddr::from(Ipv6Addr::LOCALHOST)
}

impl HostPattern {
    fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Any, _) => true,
            (Self::Exact(want), host) => want == host,
            (Self::Below(suffix), Host::Name(name)) => {
                // Longer than the suffix: `.example.com` is no name, but a matcher must not depend on that.
                name.len() > suffix.len() && name.ends_with(suffix.as_str())
            }
            (Self::OneLabel { before, after }, Host::Name(name)) => name
                .strip_prefix(before.as_str())
                .and_then(|rest| rest.strip_suffix(after.as_str()))
                .is_some_and(|label| !label.is_empty() && !label.contains('.')),
            (Self::Below(_) | Self::OneLabel { .. }, Host::Ip(_)) => false,
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Exact(host) => host.fmt(f),
            Self::Below(suffix) => write!(f, "*{suffix}"),
            Self::OneLabel { before, after } => write!(f, "{before}*{after}"),
        }
    }
}

/// What is wrong with a rule's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("a URL, where a host is wanted")]
    Url,
    #[error("a path or address range, where a host is wanted")]
    Path,
    #[error("an IPv6 address is written in brackets")]
    Colons,
    #[error("at most one `*` in a rule")]
    Stars,
    #[error("`*` stands for whole labels, first or in the middle")]
    PartialLabel,
    #[error("a `*` in the middle needs at least four labels")]
    FewLabels,
    #[error("`*` cannot be part of an address")]
    AddressStar,
    #[error(transparent)]
    Host(#[from] HostError),
}

/// Every way a text outside the grammar may have been meant, for deny lists only: more denied than meant is safe, less is not.
fn deny_readings(text: &str) -> Vec<String> {
    if !text.starts_with('[') && text.matches(':').count() > 1 {
        let mut readings = vec![format!("[{text}]")];
        if let Some((address, port)) = text.rsplit_once(':') {
            readings.push(format!("[{address}]:{port}"));
        }
        return readings;
    }
    // `.example.com` (cookie and NO_PROXY style) and `**.example.com` (glob style): with and without the apex.
    match text.strip_prefix("**.").or_else(|| text.strip_prefix('.')) {
        Some(apex) => vec![apex.to_owned(), format!("*.{apex}")],
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
