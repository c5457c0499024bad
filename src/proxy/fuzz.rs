//! Fuzz bodies of what clients of the proxies say; see [`crate::fuzz`].

use std::convert::Infallible;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HOST, HeaderMap, TRANSFER_ENCODING};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;

use super::framing::{Heads, Tapped};
use super::socks_wire::{self as wire, Destination, Parsed, WireError};
use super::{head, http, refusal};
use crate::policy::host::{Authority, Host};

/// Larger than any head that is accepted.
const MOST: usize = 128 * 1024;

/// Greeting, login where it is offered, request: each message is taken as soon as it is whole, whatever follows it, and never
/// earlier; a name in it is judged by the one parser.
pub(crate) fn socks(data: &[u8]) {
    let Some((greeting, mut at)) = message(data, wire::greeting) else {
        return;
    };
    assert_eq!(at, 2 + usize::from(data.get(1).copied().unwrap_or(0)));
    if greeting.login && !greeting.none {
        let Some(((user, password), n)) = message(data.get(at..).unwrap_or_default(), wire::login)
        else {
            return;
        };
        assert_eq!(n, 3 + user.len() + password.len());
        at += n;
    }
    let Some((request, n)) = message(data.get(at..).unwrap_or_default(), wire::request) else {
        return;
    };
    let address = match &request.to {
        Destination::Ip(ip) if ip.is_ipv4() => 4,
        Destination::Ip(_) => 16,
        Destination::Name(name) => {
            if let Ok(host) = Host::parse(name) {
                assert!(!host.to_string().bytes().any(|b| b <= b' '));
            }
            1 + name.len()
        }
    };
    assert_eq!(n, 6 + address);
    assert!(at + n <= data.len());
}

/// What a parser takes from the front, after checking that no shorter prefix gives another answer.
fn message<T: PartialEq + std::fmt::Debug>(
    data: &[u8],
    parse: fn(&[u8]) -> Result<Parsed<T>, WireError>,
) -> Option<(T, usize)> {
    let whole = parse(data);
    for end in 0..data.len().min(600) {
        let early = parse(data.get(..end).unwrap_or_default());
        if let Ok(Parsed::Done(_, n)) = &whole
            && end < *n
        {
            assert_eq!(early, Ok(Parsed::Partial), "{end} of {n} bytes");
        } else if early != Ok(Parsed::Partial) {
            assert_eq!(early, whole, "{end} bytes");
        }
    }
    match whole {
        Ok(Parsed::Done(value, n)) => Some((value, n)),
        Ok(Parsed::Partial) | Err(_) => None,
    }
}

/// The bytes as one connection's: whatever request comes out of them has one target, and what is sent on names that target only.
pub(crate) fn http_head(data: &[u8]) {
    let data = data
        .get(..data.len().min(MOST))
        .unwrap_or_default()
        .to_vec();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        // Room for all of it and for the answers, which nobody reads.
        let (mut client, server) = tokio::io::duplex(64 * MOST);
        // Both fail only when the other end is gone.
        let _ = client.write_all(&data).await;
        let _ = client.shutdown().await;
        let (stream, heads) = Tapped::new(server);
        let first = std::cell::Cell::new(true);
        let service = service_fn(|request: Request<Incoming>| {
            check(&request, &heads, first.take().then_some(&data));
            async { Ok::<_, Infallible>(Response::new(refusal::empty())) }
        });
        // The error is the client's.
        let _ = http::reader(Duration::from_secs(10))
            .serve_connection(TokioIo::new(stream), service)
            .await;
    });
}

fn check(request: &Request<Incoming>, heads: &Heads, first: Option<&Vec<u8>>) {
    let ambiguous = heads.next_is_ambiguous(request.headers());
    if let Some(data) = first {
        assert_eq!(ambiguous, two_lengths(data));
    }
    let Ok(to) = http::target(request) else {
        return;
    };
    assert_eq!(
        Authority::parse(to.to_string().as_bytes(), None).as_ref(),
        Ok(&to)
    );
    if request.method() == Method::CONNECT {
        return;
    }
    if let Ok(path) = http::origin_form(request.uri()) {
        assert!(
            path.authority().is_none() && path.path().starts_with('/'),
            "{path}"
        );
    }
    let upgrade = head::wanted_upgrade(request.method(), request.headers());
    let mut headers = request.headers().clone();
    if head::outgoing_request(&mut headers, &to, upgrade).is_ok() {
        sent_on(&headers, &to);
    }
}

fn sent_on(headers: &HeaderMap, to: &Authority) {
    let hosts: Vec<_> = headers.get_all(HOST).iter().collect();
    let [host] = hosts.as_slice() else {
        unreachable!("{hosts:?}");
    };
    assert_eq!(Authority::parse(host.as_bytes(), Some(80)).as_ref(), Ok(to));
    for gone in [
        "proxy-authorization",
        "proxy-connection",
        "keep-alive",
        "expect",
    ] {
        assert!(!headers.contains_key(gone), "{gone}");
    }
    assert!(!headers.contains_key(TRANSFER_ENCODING));
    for value in headers.get_all(CONNECTION) {
        assert!(value == "te" || value == "upgrade", "{value:?}");
    }
}

/// Whether the first head gives a length and a transfer coding: another reading than the one that is tested.
fn two_lengths(data: &[u8]) -> bool {
    let text: String = data.iter().map(|b| char::from(*b)).collect();
    let fields: Vec<String> = text
        .trim_start_matches(['\r', '\n'])
        .split('\n')
        .skip(1)
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.to_ascii_lowercase())
        .collect();
    let has = |name: &str| fields.iter().any(|f| f == name);
    has("content-length") && has("transfer-encoding")
}
