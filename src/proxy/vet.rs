//! The check at the head of a tunnel: a TLS client inside it must ask for the very name the tunnel was allowed for.
//!
//! Another allowed name would not do: a server that has several would take the tunnel for it, past what the rules say of ports.
//! A tunnel to an address has no name to compare; only what the deny list names is refused there.
//! Tunnels are recognised by their first bytes, on every port; what does not begin like TLS (ssh, databases that ask for TLS
//! later, plain text) passes. A server that speaks first is not kept waiting: the check holds back only the client's bytes.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::client_hello::{self, HANDSHAKE_RECORD, Hello, MAX_HELLO};
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
    /// Another protocol may begin here with any byte (the frames of WebSocket): only what is TLS for certain is taken for it.
    pub(super) switched: bool,
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

/// A TLS name that does not belong there.
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
        let mut read = BytesMut::from(early);
        // No limit before the first byte: the client may be waiting for the server.
        while read.is_empty() {
            if fill(client, &mut read).await? == 0 {
                return Ok(read.freeze());
            }
        }
        let hello = async {
            loop {
                match self.parse(&read) {
                    Hello::Partial if read.len() <= MAX_HELLO => {
                        if fill(client, &mut read).await? == 0 {
                            return Ok::<_, io::Error>(Hello::Malformed);
                        }
                    }
                    Hello::Partial => return Ok(Hello::Malformed),
                    verdict @ (Hello::Other | Hello::Old | Hello::Tls(_) | Hello::Malformed) => {
                        return Ok(verdict);
                    }
                }
            }
        };
        let verdict = timeout(self.limit, hello)
            .await
            .unwrap_or(Ok(Hello::Malformed))?;
        self.judge(verdict).map(|()| read.freeze())
    }

    /// Whether the name is the one that was allowed.
    pub(super) fn judge(&self, verdict: Hello) -> Result<(), VetError> {
        self.judged(verdict)
            .map_err(|v| VetError::Denied(Box::new(v)))
    }

    /// What is refused as no TLS that anybody speaks.
    pub(super) fn malformed(&self) -> VetError {
        let violated = Violated {
            target: self.to.to_string(),
            denial: Denial {
                reason: DenyReason::NotAllowed,
                rule: "malformed TLS client hello".to_owned(),
                hint: None,
            },
        };
        VetError::Denied(Box::new(violated))
    }

    fn parse(&self, read: &[u8]) -> Hello {
        if self.switched && read.first() != Some(&HANDSHAKE_RECORD) {
            return Hello::Other;
        }
        client_hello::parse(read)
    }

    fn judged(&self, verdict: Hello) -> Result<(), Violated> {
        let Host::Name(expected) = &self.to.host else {
            return self.judge_at_address(verdict);
        };
        let refused = |target: &Authority, rule: String| {
            Err(Violated {
                target: target.to_string(),
                denial: Denial {
                    reason: DenyReason::NotAllowed,
                    rule,
                    hint: None,
                },
            })
        };
        let malformed = |rule: &str| refused(self.to, rule.to_owned());
        let name = match verdict {
            Hello::Other | Hello::Partial => return Ok(()),
            Hello::Malformed => return malformed("malformed TLS client hello"),
            Hello::Tls(Some(name)) => name,
            // RFC 6066 §3 wants qualified names; several libraries send none for `localhost` and its like.
            Hello::Tls(None) | Hello::Old if !expected.contains('.') => return Ok(()),
            Hello::Tls(None) | Hello::Old => {
                return malformed("TLS client hello without a server name");
            }
        };
        let Ok(host) = Host::parse(&name) else {
            return malformed("TLS client hello with a malformed server name");
        };
        if host == self.to.host {
            return Ok(());
        }
        let asked = self.at_port(host);
        // No entry of a spec opens this, so there is no hint.
        let rule = format!("TLS name in a tunnel to {}, not its own", self.to);
        refused(&asked, rule)
    }

    /// Whoever may reach an address may speak to it as it likes, but for names that are denied wherever they are.
    fn judge_at_address(&self, verdict: Hello) -> Result<(), Violated> {
        let Hello::Tls(Some(name)) = verdict else {
            return Ok(());
        };
        let Ok(host @ Host::Name(_)) = Host::parse(&name) else {
            return Ok(());
        };
        let asked = self.at_port(host);
        match self.dialer.decide(&asked) {
            Err(denial) if denial.reason == DenyReason::Denied => Err(Violated {
                target: asked.to_string(),
                denial: Denial {
                    rule: format!("{} (TLS name in a tunnel to {})", denial.rule, self.to),
                    ..denial
                },
            }),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn at_port(&self, host: Host) -> Authority {
        Authority {
            host,
            port: self.to.port,
        }
    }
}

/// Reads what there is.
pub(super) async fn fill(client: &TcpStream, into: &mut BytesMut) -> io::Result<usize> {
    loop {
        client.readable().await?;
        match client.try_read_buf(into) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            other => return other,
        }
    }
}
