//! Connections to HTTP servers for absolute-form requests: one per client connection and authority, kept alive between requests,
//! never shared between clients, so that no client can be given an answer meant for another. Where a proxy is on the way, that is
//! where the connection leads, and requests keep their absolute form.

use std::time::Duration;

use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use super::dial::Dialer;
use super::limits::{MAX_ANSWER_FIELDS, MAX_ANSWER_HEAD};
use super::link::{Link, Reached};
use super::refusal::{Body, Refusal, empty};
use super::through::{ProxyError, authorization};
use crate::policy::host::Authority;
use crate::policy::upstream::Hop;

/// How long a kept connection may take to become ready again before a new one is dialled instead.
const REUSE_LIMIT: Duration = Duration::from_secs(1);

/// An open connection to one authority.
#[derive(Debug)]
pub(super) struct Upstream {
    to: Authority,
    sender: SendRequest<Body>,
    via: Option<Via>,
}

/// A proxy on the way.
#[derive(Debug)]
struct Via {
    hop: Hop,
    authorization: Option<HeaderValue>,
}

impl Via {
    fn new(hop: &Hop) -> Self {
        // What base64 gives is a valid value.
        let authorization = authorization(hop).and_then(|v| HeaderValue::try_from(v).ok());
        Self {
            hop: hop.clone(),
            authorization: authorization.map(|mut value| {
                value.set_sensitive(true);
                value
            }),
        }
    }
}

impl Upstream {
    async fn dial(dialer: &Dialer, to: &Authority) -> Result<Self, Refusal> {
        let (link, hop) = dialer
            .dial_request(to)
            .await
            .map_err(|e| Refusal::dial(to, e))?;
        Self::on(to, link, hop).await
    }

    /// Over a connection that has been made. Nothing of it may have been read: no server of HTTP speaks first.
    pub(super) async fn over(to: &Authority, reached: Reached) -> Result<Self, Refusal> {
        if !reached.early.is_empty() {
            let why = "it spoke before it was asked".to_owned();
            return Err(Refusal::Upstream(to.clone(), why));
        }
        Self::on(to, reached.link, None).await
    }

    async fn on(to: &Authority, link: Link, hop: Option<&Hop>) -> Result<Self, Refusal> {
        // Latency only.
        let _ = link.socket().set_nodelay(true);
        let (sender, connection) = http1::Builder::new()
            .preserve_header_case(true)
            .max_buf_size(MAX_ANSWER_HEAD)
            .max_headers(MAX_ANSWER_FIELDS)
            .handshake(TokioIo::new(link))
            .await
            .map_err(|e| Refusal::Upstream(to.clone(), reason(&e)))?;
        // Ends with the sender or with the server; its errors reach whoever waits for an answer.
        tokio::spawn(connection.with_upgrades());
        Ok(Self {
            to: to.clone(),
            sender,
            via: hop.map(Via::new),
        })
    }

    /// The request as the next hop wants it: a proxy is told the whole URL, and who asks.
    fn addressed(&self, mut request: Request<Body>) -> Result<Request<Body>, Refusal> {
        if let Some(via) = &self.via {
            let path = request.uri().path_and_query().map_or("/", |p| p.as_str());
            let url = format!("http://{}{path}", self.to);
            *request.uri_mut() =
                Uri::try_from(url).map_err(|e| Refusal::Malformed(e.to_string()))?;
            if let Some(value) = &via.authorization {
                request
                    .headers_mut()
                    .insert(PROXY_AUTHORIZATION, value.clone());
            }
        }
        Ok(request)
    }

    /// The proxy's own question is not for the client, who would answer it with what is meant for us.
    fn not_a_login(&self, dialer: &Dialer, response: &Response<Incoming>) -> Result<(), Refusal> {
        match &self.via {
            Some(via) if response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                let offers = response.headers().get_all(PROXY_AUTHENTICATE);
                let offers = offers.iter().filter_map(|v| v.to_str().ok());
                let error = ProxyError::login(&via.hop, offers);
                Err(Refusal::Dial(dialer.useless(error)))
            }
            Some(_) | None => Ok(()),
        }
    }

    async fn is_ready_for(&mut self, to: &Authority) -> bool {
        self.to == *to && matches!(timeout(REUSE_LIMIT, self.sender.ready()).await, Ok(Ok(())))
    }
}

/// No answer, and the request if none of it was sent.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) refusal: Refusal,
    pub(super) request: Option<Request<Body>>,
}

impl From<Refusal> for Unanswered {
    fn from(refusal: Refusal) -> Self {
        Self {
            refusal,
            request: None,
        }
    }
}

/// Sends a request over the kept connection if there is one for this authority, else over a new one, and keeps it.
pub(super) async fn send(
    dialer: &Dialer,
    kept: &mut Option<Upstream>,
    to: &Authority,
    mut request: Request<Body>,
) -> Result<Response<Incoming>, Unanswered> {
    if let Some(mut upstream) = kept.take()
        && upstream.is_ready_for(to).await
    {
        let spare = repeatable(&request);
        let addressed = upstream.addressed(request)?;
        match upstream.sender.try_send_request(addressed).await {
            Ok(response) => {
                upstream.not_a_login(dialer, &response)?;
                keep(kept, upstream, &response);
                return Ok(response);
            }
            // The server closed the kept connection at the same moment: what was not sent, or may be sent twice
            // (RFC 9110 §9.2.2), goes over a new one.
            Err(mut error) => match error.take_message().or(spare) {
                Some(unsent) => request = unsent,
                None => return Err(Refusal::Upstream(to.clone(), reason(error.error())).into()),
            },
        }
    }
    let mut upstream = match Upstream::dial(dialer, to).await {
        Ok(upstream) => upstream,
        Err(refusal) => {
            return Err(Unanswered {
                refusal,
                request: Some(request),
            });
        }
    };
    let request = upstream.addressed(request)?;
    let response = upstream
        .sender
        .send_request(request)
        .await
        .map_err(|e| Refusal::Upstream(to.clone(), reason(&e)))?;
    upstream.not_a_login(dialer, &response)?;
    keep(kept, upstream, &response);
    Ok(response)
}

fn keep(kept: &mut Option<Upstream>, upstream: Upstream, response: &Response<Incoming>) {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        *kept = Some(upstream);
    }
}

/// A copy of a request that may be sent twice: a safe method without a body.
fn repeatable(request: &Request<Body>) -> Option<Request<Body>> {
    let safe = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    if !safe || !request.body().is_end_stream() {
        return None;
    }
    let mut copy = Request::new(empty());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

/// The innermost cause, which is what a person can act on.
pub(super) fn reason(error: &hyper::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    match cause.downcast_ref::<std::io::Error>() {
        Some(io) => super::dial::describe(io),
        None => cause.to_string(),
    }
}
