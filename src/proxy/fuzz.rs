//! Fuzz bodies of what clients of the proxies say; see [`crate::fuzz`].

use std::convert::Infallible;
use std::net::Ipv6Addr;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HOST, HeaderMap, TRANSFER_ENCODING};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;

use super::client_hello::{self, HANDSHAKE_RECORD, Hello};
use super::dns::{self, Answer, Message};
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
        let (stream, heads) = Tapped::new(server, bytes::Bytes::new());
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

/// A verdict stands however many bytes follow it, and a name is the same however its message is cut into records.
pub(crate) fn client_hello(data: &[u8]) {
    let data = data.get(..data.len().min(MOST)).unwrap_or_default();
    let whole = client_hello::parse(data);
    let step = (data.len() / 48).max(1);
    for end in (0..data.len()).step_by(step) {
        let early = client_hello::parse(data.get(..end).unwrap_or_default());
        assert!(early == Hello::Partial || early == whole, "{end} bytes");
    }
    if let Hello::Tls(name) = &whole {
        assert!(name.as_ref().is_none_or(|name| name.len() < data.len()));
        let message = payload(data);
        for size in [1, 7, 16_384] {
            assert_eq!(client_hello::parse(&records(&message, size)), whole);
        }
    }
}

/// What the records carry, the last of them as far as it has come.
fn payload(mut data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some((&[_, _, _, a, b], rest)) = data.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([a, b])).min(rest.len());
        let (fragment, rest) = rest.split_at(length);
        out.extend(fragment);
        data = rest;
    }
    out
}

fn records(message: &[u8], size: usize) -> Vec<u8> {
    message
        .chunks(size)
        .flat_map(|part| {
            let length = u16::try_from(part.len()).unwrap_or(u16::MAX).to_be_bytes();
            [&[HANDSHAKE_RECORD, 3, 1][..], &length, part].concat()
        })
        .collect()
}

/// What goes back is an answer to this message, which nobody answers again; a name is the labels' and no other.
pub(crate) fn dns(data: &[u8]) {
    let question = match dns::parse(data) {
        Message::Ignored => return,
        Message::Refused(answer) => return sent_back(data, &answer),
        Message::Question(question) => question,
    };
    for answer in [
        Answer::Address(Ipv6Addr::LOCALHOST.into()),
        Answer::Nothing,
        Answer::NoName,
        Answer::Failure,
    ] {
        let answer = question.answer(answer);
        sent_back(data, &answer);
        // The question comes back as it was: name, type and class.
        assert!(answer.len() >= 12 + 5);
        let asked = |message: &[u8]| message.get(12..12 + 5).map(<[u8]>::to_vec);
        assert_eq!(asked(&answer), asked(data));
    }
    let labels = labels(data.get(12..).unwrap_or_default());
    let plain = |label: &&[u8]| label.iter().all(|b| b.is_ascii_graphic() && *b != b'.');
    match &question.host {
        Some(host) => {
            assert!(labels.iter().all(plain), "{host}");
            assert_eq!(Host::parse(&labels.join(&b'.')).as_ref(), Ok(host));
        }
        None => assert!(!labels.iter().all(plain) || Host::parse(&labels.join(&b'.')).is_err()),
    }
}

fn sent_back(question: &[u8], answer: &[u8]) {
    assert!(answer.len() <= dns::MAX_MESSAGE);
    assert_eq!(answer.get(..2), question.get(..2));
    assert_eq!(dns::parse(answer), Message::Ignored);
}

fn labels(mut name: &[u8]) -> Vec<&[u8]> {
    let mut out = Vec::new();
    while let Some((length, rest)) = name.split_first()
        && *length > 0
        && let Some((label, rest)) = rest.split_at_checked((*length).into())
    {
        out.push(label);
        name = rest;
    }
    out
}
