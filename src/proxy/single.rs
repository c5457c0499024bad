//! Connections to port 80 that lead to one host: tunnels, and those of programs that ignore proxy variables.
//!
//! There the Host field is in the open, so requests are read one by one, and each must be for the host the connection was allowed
//! for, as TLS must be ([`super::vet`]). A server that has several hosts would else answer for the others. So port 80 carries HTTP/1 and TLS:
//! in HTTP/2 without TLS, and in whatever else there may be, nobody could tell which host is asked for.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{HOST, HeaderValue};
use hyper::{Method, Request};
use tokio::net::TcpStream;

use super::http::{self, Opened};
use super::link::Reached;
use super::refusal::Refusal;
use super::server::{Protocol, Seat, Shared};
use super::tunnel::Early;
use crate::policy::egress::{Denial, DenyReason};
use crate::policy::host::{Authority, Host};

/// Of `http://` URLs, whose Host field has no port then.
const DEFAULT_PORT: u16 = 80;

/// Serves a connection that was allowed for `to`, to its end; `upstream` is its other end, where that has been dialled.
pub(super) async fn serve(
    client: TcpStream,
    shared: Arc<Shared>,
    seat: Arc<Seat>,
    to: Authority,
    upstream: Option<Reached>,
    early: Early,
) {
    let first = match early.from_client.first() {
        Some(byte) => Some(Protocol::of(*byte)),
        None => Protocol::detect(&client, shared.limits.first_byte).await,
    };
    match first {
        // Here, where the client still waits and can be named; in pieces, the reader of requests finds it out.
        Some(Protocol::Http) if is_http2(&client, &early.from_client).await => {
            refuse(&shared, &client, &to);
        }
        Some(Protocol::Http | Protocol::BlankLine) => {
            read(client, shared, seat, to, upstream, early.from_client).await;
        }
        Some(Protocol::Tls) => {
            let upstream = match upstream {
                Some(upstream) => Some(upstream),
                None => super::catch::dial(&client, &shared, &to).await,
            };
            if let Some(upstream) = upstream {
                shared.tunnel(&to, client, upstream, early).await;
            }
            drop(seat);
        }
        Some(Protocol::Socks5 | Protocol::Unknown) => {
            refuse(&shared, &client, &to);
        }
        None => {
            // A connection all the same.
            drop(upstream.and_then(|upstream| shared.entry(&to, Some(&upstream))));
        }
    }
}

/// RFC 9113 §3.4: the preface of HTTP/2 is made to look like a request with a method that there is not.
async fn is_http2(client: &TcpStream, early: &[u8]) -> bool {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0";
    let mut first = [0; PREFACE.len()];
    if early.is_empty() {
        let peeked = client.peek(&mut first).await;
        return peeked.is_ok_and(|n| n == first.len()) && first == PREFACE;
    }
    early.starts_with(PREFACE)
}

fn refuse(shared: &Shared, client: &TcpStream, to: &Authority) {
    refuse_protocol(shared, client.peer_addr().ok(), to);
    // Nothing can be said to it, but a reset is more than an empty answer.
    let _ = client.set_zero_linger();
}

async fn read(
    client: TcpStream,
    shared: Arc<Shared>,
    seat: Arc<Seat>,
    to: Authority,
    upstream: Option<Reached>,
    early: Bytes,
) {
    let peer = client.peer_addr().ok();
    // A tunnel in which nothing is asked has been a connection all the same; requests have lines of their own.
    let entry = upstream
        .as_ref()
        .and_then(|upstream| shared.entry(&to, Some(upstream)));
    let opened = Opened {
        only: Some(to.clone()),
        upstream,
        early,
    };
    let served = http::serve_for(client, Arc::clone(&shared), seat, opened).await;
    if served.unreadable {
        refuse_protocol(&shared, peer, &to);
    }
    if let Some(entry) = entry.filter(|_| served.asked || served.unreadable) {
        entry.forget();
    }
}

fn refuse_protocol(shared: &Shared, peer: Option<SocketAddr>, to: &Authority) {
    let rule = format!("neither HTTP/1 nor TLS in a connection to {to}");
    shared.refused(peer, to.to_string(), &denial(rule));
}

/// No entry of a spec opens this, so there is no hint.
fn denial(rule: String) -> Denial {
    Denial {
        reason: DenyReason::NotAllowed,
        rule,
        hint: None,
    }
}

/// Whether a request is for the one host `to`, by all that it says of hosts. `decide` is the policy, for connections to an
/// address: it may be asked for the names that are allowed.
pub(super) fn judge(
    request: &Request<Incoming>,
    to: &Authority,
    decide: impl Fn(&Authority) -> Result<(), Denial>,
) -> Result<(), Refusal> {
    let foreign = |named: Authority| {
        let rule = format!("HTTP host in a connection to {to}, not its own");
        Err(Refusal::Policy(named, denial(rule)))
    };
    if let Some(authority) = request.uri().authority() {
        // The port of `https://host`, and of a CONNECT without one, which is wrong in any case.
        let default = match request.uri().scheme_str() {
            Some("http") => DEFAULT_PORT,
            Some(_) | None => 443,
        };
        let named = Authority::parse(authority.as_str().as_bytes(), Some(default))
            .map_err(|e| Refusal::Malformed(format!("the target is refused: {e}")))?;
        if named != *to {
            return foreign(named);
        }
    }
    if *request.method() == Method::CONNECT {
        let why = format!("this connection leads to {to} only");
        return Err(Refusal::Malformed(why));
    }
    for value in request.headers().get_all(HOST) {
        let value = value.as_bytes().trim_ascii();
        // RFC 9112 §3.2: empty where the target has no host.
        if value.is_empty() {
            continue;
        }
        let Ok(named) = Authority::parse(value, Some(to.port)) else {
            let rule = format!("malformed HTTP host in a connection to {to}");
            return Err(Refusal::Policy(to.clone(), denial(rule)));
        };
        if named.host == to.host {
            continue;
        }
        if let Host::Name(_) = to.host {
            return foreign(named);
        }
        if let Err(denial) = decide(&named) {
            let rule = format!("{} (HTTP host in a connection to {to})", denial.rule);
            return Err(Refusal::Policy(named, Denial { rule, ..denial }));
        }
    }
    Ok(())
}

/// The Host field to send on, where it is not the host of the connection: the one name that was asked of an address.
pub(super) fn kept_host(request: &Request<Incoming>, to: &Authority) -> Option<HeaderValue> {
    let Host::Ip(_) = to.host else {
        return None;
    };
    let mut hosts = request.headers().get_all(HOST).iter();
    let first = hosts.next()?;
    let named = !first.as_bytes().trim_ascii().is_empty();
    (named && hosts.next().is_none()).then(|| first.clone())
}
