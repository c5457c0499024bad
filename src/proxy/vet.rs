//! The check at the head of a tunnel: a TLS client inside it must ask for a name that the policy allows.
//!
//! Tunnels are recognised by their first byte, on every port; what does not begin like TLS (ssh, databases that ask for TLS
//! later, plain text) passes. A server that speaks first is not kept waiting: the check holds back only the client's bytes.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::client_hello::{self, Hello, MAX_HELLO};
use super::dial::Dialer;
use crate::policy::egress::{Denial, DenyReason};
use crate::policy::host::{Authority, Host};

/// Record header, fatal, `access_denied` (RFC 8446 §6): TLS libraries turn it into words.
pub(super) const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// What a tunnel was allowed for.
#[derive(Debug)]
pub(super) struct Expected<'a> {
    pub(super) to: &'a Authority,
    pub(super) dialer: &'a Dialer,
    /// For a ClientHello that has begun.
    pub(super) limit: Duration,
}

/// Why the client's bytes are not passed on.
#[derive(Debug)]
pub(super) enum VetError {
    /// One of the sockets broke, or nothing moved for too long.
    Broken,
    /// Boxed: rare, and large beside the other.
    Denied(Box<Violated>),
}

/// A TLS name that the policy does not allow.
#[derive(Debug)]
pub(super) struct Violated {
    /// For the report.
    pub(super) target: String,
    pub(super) denial: Denial,
}

impl From<io::Error> for VetError {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

impl Expected<'_> {
    /// Reads enough of the client's first bytes to judge them, and returns what was read.
    pub(super) async fn vet(&self, client: &TcpStream, early: Bytes) -> Result<Bytes, VetError> {
        // The user named the address itself; there is no name to compare.
        if matches!(self.to.host, Host::Ip(_)) {
            return Ok(early);
        }
        let mut read = BytesMut::from(early);
        // No limit before the first byte: the client may be waiting for the server.
        while read.is_empty() {
            if fill(client, &mut read).await? == 0 {
                return Ok(read.freeze());
            }
        }
        let hello = async {
            loop {
                match client_hello::parse(&read) {
                    Hello::Partial if read.len() <= MAX_HELLO => {
                        if fill(client, &mut read).await? == 0 {
                            return Ok::<_, io::Error>(Hello::Malformed);
                        }
                    }
                    Hello::Partial => return Ok(Hello::Malformed),
                    verdict @ (Hello::Other | Hello::Tls(_) | Hello::Malformed) => {
                        return Ok(verdict);
                    }
                }
            }
        };
        let verdict = timeout(self.limit, hello)
            .await
            .unwrap_or(Ok(Hello::Malformed))?;
        self.judge(verdict)
            .map(|()| read.freeze())
            .map_err(|v| VetError::Denied(Box::new(v)))
    }

    fn judge(&self, verdict: Hello) -> Result<(), Violated> {
        let refused = |rule: &str| {
            Err(Violated {
                target: self.to.to_string(),
                denial: Denial {
                    reason: DenyReason::NotAllowed,
                    rule: rule.to_owned(),
                    hint: None,
                },
            })
        };
        let name = match verdict {
            Hello::Other | Hello::Partial => return Ok(()),
            Hello::Malformed => return refused("malformed TLS client hello"),
            Hello::Tls(Some(name)) => name,
            // RFC 6066 §3 wants qualified names; several libraries send none for `localhost` and its like.
            Hello::Tls(None) if is_unqualified(&self.to.host) => return Ok(()),
            Hello::Tls(None) => return refused("TLS client hello without a server name"),
        };
        let Ok(host) = Host::parse(&name) else {
            return refused("TLS client hello with a malformed server name");
        };
        if host == self.to.host {
            return Ok(());
        }
        // Another name than the one asked for, but one the client might have asked for as well, does no harm.
        let asked = Authority {
            host,
            port: self.to.port,
        };
        self.dialer
            .decide(&asked)
            .map(drop)
            .map_err(|denial| Violated {
                target: asked.to_string(),
                denial: Denial {
                    rule: format!("{} (TLS name in a tunnel to {})", denial.rule, self.to),
                    ..denial
                },
            })
    }
}

fn is_unqualified(host: &Host) -> bool {
    match host {
        Host::Name(name) => !name.contains('.'),
        Host::Ip(_) => true,
    }
}

async fn fill(client: &TcpStream, into: &mut BytesMut) -> io::Result<usize> {
    loop {
        client.readable().await?;
        match client.try_read_buf(into) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            other => return other,
        }
    }
}
