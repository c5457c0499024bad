//! The HTTP front end: CONNECT tunnels and absolute-form requests, on hyper (egress-proxy §1.3).

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_LENGTH, EXPECT, HOST, HeaderValue, TRANSFER_ENCODING};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::access::{Counts, Entry};
use super::framing::{Heads, Tapped};
use super::head;
use super::limits::{MAX_DRAIN, MAX_HEAD};
use super::link::{Link, Reached};
use super::refusal::{self, Body, Refusal, empty};
use super::server::{self, Seat, Shared, Unsent};
use super::single;
use super::tunnel::Early;
use super::upstream::{self, Unanswered, Upstream};
use crate::policy::host::Authority;

/// One client connection.
struct Client {
    shared: Arc<Shared>,
    seat: Arc<Seat>,
    heads: Heads,
    peer: Option<SocketAddr>,
    kept: Mutex<Option<Upstream>>,
    /// The one place that this connection leads to.
    only: Option<Authority>,
    /// Whether there has been a request.
    asked: AtomicBool,
}

/// What is known of a connection before its first request.
#[derive(Debug, Default)]
pub(super) struct Opened {
    /// The one place that it leads to.
    pub(super) only: Option<Authority>,
    /// A connection to that place.
    pub(super) upstream: Option<Reached>,
    /// Read from the client already.
    pub(super) early: Bytes,
}

/// What a connection turned out to be.
#[derive(Debug)]
pub(super) struct Served {
    /// There was a request.
    pub(super) asked: bool,
    /// What came was no HTTP/1.
    pub(super) unreadable: bool,
}

/// Serves one connection to a proxy to its end.
pub(super) async fn serve(stream: TcpStream, shared: Arc<Shared>, seat: Arc<Seat>) {
    serve_opened(stream, shared, seat, Opened::default()).await;
}

/// Serves one connection to its end. Boxed, because a tunnel that a request opens may be served so in its turn.
pub(super) fn serve_for(
    stream: TcpStream,
    shared: Arc<Shared>,
    seat: Arc<Seat>,
    opened: Opened,
) -> Pin<Box<dyn Future<Output = Served> + Send>> {
    Box::pin(serve_opened(stream, shared, seat, opened))
}

async fn serve_opened(
    stream: TcpStream,
    shared: Arc<Shared>,
    seat: Arc<Seat>,
    opened: Opened,
) -> Served {
    // Latency only.
    let _ = stream.set_nodelay(true);
    let limit = shared.limits.head;
    let peer = stream.peer_addr().ok();
    let Opened {
        only,
        upstream,
        early,
    } = opened;
    let kept = match only.as_ref().zip(upstream) {
        Some((to, reached)) => Upstream::over(to, reached).await.ok(),
        None => None,
    };
    let (stream, heads) = Tapped::new(stream, early);
    let client = Arc::new(Client {
        shared,
        seat,
        heads,
        peer,
        kept: Mutex::new(kept),
        only,
        asked: AtomicBool::new(false),
    });
    let asking = Arc::clone(&client);
    let service = service_fn(move |request| {
        let client = Arc::clone(&client);
        async move { Ok::<_, Infallible>(client.handle(request).await) }
    });
    // The error is the client's: it broke off, sent no HTTP (answered with 400 or 431), or took too long.
    let end = reader(limit)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    Served {
        asked: asking.asked.load(Ordering::Relaxed),
        unreadable: end.is_err_and(|e| e.is_parse() && !e.is_parse_too_large()),
    }
}

/// How a client's requests are read.
pub(super) fn reader(limit: Duration) -> http1::Builder {
    let mut reader = http1::Builder::new();
    reader
        .timer(TokioTimer::new())
        .header_read_timeout(limit)
        .max_buf_size(MAX_HEAD)
        .max_header_size(MAX_HEAD)
        .preserve_header_case(true)
        .auto_date_header(false)
        // A client may send its request, close its side, and wait for the answer.
        .half_close(true);
    reader
}

impl Client {
    async fn handle(&self, request: Request<Incoming>) -> Response<Body> {
        self.asked.store(true, Ordering::Relaxed);
        if self.heads.next_is_ambiguous(request.headers()) {
            // The body is not read away: what it would be is the question. hyper closes the connection.
            let why = "a request has a length or a transfer coding, not both";
            return self.refuse(&Refusal::Malformed(why.to_owned()));
        }
        let expects = request.headers().contains_key(EXPECT);
        match self.answer(request).await {
            Ok(response) => response,
            Err(Unanswered { refusal, request }) => {
                // Not where the client waits for `100 Continue`: asking for the body would send it.
                if let Some(request) = request.filter(|_| !expects) {
                    drain(request.into_body(), self.shared.limits.drain).await;
                }
                self.refuse(&refusal)
            }
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, Unanswered> {
        // Before the body is touched: a refused upload must not be asked for.
        match self.admit(&request) {
            Ok(to) if request.method() == Method::CONNECT => Ok(self.connect(to, request).await?),
            Ok(to) => self.forward(to, request).await,
            Err(refusal) => Err(Unanswered {
                refusal,
                request: Some(request)
                    .filter(|r| r.method() != Method::CONNECT)
                    .map(|r| r.map(BodyExt::boxed)),
            }),
        }
    }

    /// Who asks, where to, and whether the first gate lets it through.
    fn admit(&self, request: &Request<Incoming>) -> Result<Authority, Refusal> {
        if let Some(to) = &self.only {
            let to = self.decided(to.clone())?;
            let decide = |named: &Authority| self.shared.dialer.decide(named).map(|_| ());
            return single::judge(request, &to, decide).map(|()| to);
        }
        if let Some(token) = &self.shared.token
            && !token.accepts_header(request.headers())
        {
            return Err(Refusal::Login);
        }
        self.decided(self.shared.by_name(target(request)?))
    }

    fn decided(&self, to: Authority) -> Result<Authority, Refusal> {
        match self.shared.dialer.decide(&to) {
            Ok(_) => Ok(to),
            Err(denial) => Err(Refusal::Policy(to, denial)),
        }
    }

    fn refuse(&self, refusal: &Refusal) -> Response<Body> {
        if let Refusal::Policy(to, denial) = refusal {
            self.shared.refused(self.peer, to.to_string(), denial);
        }
        refusal::answer(refusal, self.shared.hint_file.as_deref())
    }

    /// CONNECT: a tunnel, once the client has seen the 200. Bytes it sent along with the head go first.
    async fn connect(
        &self,
        to: Authority,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Refusal> {
        let upstream = self
            .shared
            .dialer
            .dial(&to)
            .await
            .map_err(|e| Refusal::dial(&to, e))?;
        let upgrade = hyper::upgrade::on(request);
        let shared = Arc::clone(&self.shared);
        let seat = Arc::clone(&self.seat);
        tokio::spawn(async move {
            let Some((client, from_client)) = raw_client(upgrade).await else {
                return;
            };
            let early = Early {
                from_client,
                from_upstream: Bytes::new(),
            };
            server::tunnel(shared, seat, to, client, upstream, early).await;
        });
        Ok(Response::new(empty()))
    }

    /// Absolute form: the request goes on in origin form, its answer comes back as it is.
    async fn forward(
        &self,
        to: Authority,
        mut request: Request<Incoming>,
    ) -> Result<Response<Body>, Unanswered> {
        if request.method() == Method::TRACE {
            // Whoever answers it repeats what it was sent: an upstream proxy our login (RFC 9110 §9.3.8).
            return Err(Refusal::Trace.into());
        }
        let own_host = self.only.as_ref();
        let own_host = own_host.and_then(|only| single::kept_host(&request, only));
        let client_switch = hyper::upgrade::on(&mut request);
        let protocol = head::wanted_upgrade(request.method(), request.headers());
        let (mut parts, body) = request.into_parts();
        head::outgoing_request(&mut parts.headers, &to, protocol.clone())
            .map_err(|e| Refusal::Malformed(e.to_string()))?;
        if let Some(host) = own_host {
            parts.headers.insert(HOST, host);
        }
        parts.uri = origin_form(&parts.uri)?;
        parts.version = Version::HTTP_11;
        // Its address is that of a connection that may be kept from an earlier request.
        let entry = self.shared.entry(&to, None);
        let body = Counted {
            body,
            _unsent: self.shared.unsent(),
            counts: entry.as_ref().map(|entry| Arc::clone(&entry.counts)),
        };
        let request = Request::from_parts(parts, body.boxed());
        let mut response = {
            let mut kept = self.kept.lock().await;
            let sent = upstream::send(&self.shared.dialer, &mut kept, &to, request).await;
            match sent {
                Ok(response) => response,
                Err(unanswered) => {
                    // Refused or not reached: that has been told, or is going to be.
                    if let Some(entry) = entry {
                        entry.forget();
                    }
                    return Err(unanswered);
                }
            }
        };
        let switching = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        if switching && (protocol.is_none() || head::switches_unseen(response.headers())) {
            return Err(Refusal::Upstream(to, "it switched protocols unasked".to_owned()).into());
        }
        head::incoming_response(response.headers_mut(), switching)
            .map_err(|e| Refusal::Upstream(to.clone(), e.to_string()))?;
        if switching {
            let server_switch = hyper::upgrade::on(&mut response);
            let shared = Arc::clone(&self.shared);
            let seat = Arc::clone(&self.seat);
            tokio::spawn(async move {
                let (client, server) =
                    tokio::join!(raw_client(client_switch), raw_server(server_switch));
                if let (Some((client, from_client)), Some((server, from_upstream))) =
                    (client, server)
                {
                    let early = Early {
                        from_client,
                        from_upstream,
                    };
                    shared
                        .tunnel_switched(&to, client, server.into(), early, entry)
                        .await;
                }
                drop(seat);
            });
            return Ok(response.map(BodyExt::boxed));
        }
        Ok(match entry {
            None => response.map(BodyExt::boxed),
            Some(entry) => response.map(|body| Told { body, entry }.boxed()),
        })
    }
}

/// Where a request wants to go.
pub(super) fn target(request: &Request<Incoming>) -> Result<Authority, Refusal> {
    let uri = request.uri();
    let malformed = |why: &str| Refusal::Malformed(why.to_owned());
    let Some(authority) = uri.authority() else {
        return Err(malformed(
            "this is a proxy: requests name the whole URL, or use CONNECT",
        ));
    };
    let default_port = if request.method() == Method::CONNECT {
        let headers = request.headers();
        // RFC 9110 §9.3.6: CONNECT has no body; a length would make tunnel bytes out of body bytes, or the reverse.
        let length = headers.get(CONTENT_LENGTH).map(HeaderValue::as_bytes);
        if headers.contains_key(TRANSFER_ENCODING) || !matches!(length, None | Some(b"0")) {
            return Err(malformed("a CONNECT request has no body"));
        }
        if uri.scheme().is_some() || uri.path_and_query().is_some() {
            return Err(malformed("a CONNECT target is host:port"));
        }
        None
    } else if uri.scheme_str() == Some("http") {
        Some(80)
    } else {
        return Err(malformed(
            "only http:// URLs are forwarded; everything else goes through CONNECT",
        ));
    };
    Authority::parse(authority.as_str().as_bytes(), default_port)
        .map_err(|e| Refusal::Malformed(format!("the target is refused: {e}")))
}

/// `http://host/path?query` → `/path?query`.
pub(super) fn origin_form(uri: &Uri) -> Result<Uri, Refusal> {
    let path = uri.path_and_query().map_or("/", |p| p.as_str());
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    Uri::try_from(path).map_err(|e| Refusal::Malformed(e.to_string()))
}

/// Reads a body away, within limits.
async fn drain(mut body: Body, limit: Duration) {
    let mut left = MAX_DRAIN;
    // When time or size run out the connection is closed on the rest.
    let _ = timeout(limit, async {
        while let Some(Ok(frame)) = body.frame().await {
            let n = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(n) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    })
    .await;
}

/// The client's socket behind a finished upgrade, and what was read from it already.
async fn raw_client(upgrade: OnUpgrade) -> Option<(TcpStream, Bytes)> {
    let upgraded: Upgraded = upgrade.await.ok()?;
    let parts = upgraded.downcast::<TokioIo<Tapped>>().ok()?;
    let (stream, rest) = parts.io.into_inner().into_parts();
    if rest.is_empty() {
        return Some((stream, parts.read_buf));
    }
    Some((stream, [parts.read_buf, rest].concat().into()))
}

/// The same of the server's side.
async fn raw_server(upgrade: OnUpgrade) -> Option<(Link, Bytes)> {
    let upgraded: Upgraded = upgrade.await.ok()?;
    let parts = upgraded.downcast::<TokioIo<Link>>().ok()?;
    Some((parts.io.into_inner(), parts.read_buf))
}

/// A request body that counts as unsent until it has been handed on.
struct Counted {
    body: Incoming,
    _unsent: Unsent,
    /// For the access log.
    counts: Option<Arc<Counts>>,
}

impl hyper::body::Body for Counted {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Some(counts) = &self.counts {
            counts.up.fetch_add(length(&polled), Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer's body; once it has been handed on, the access log has its line.
struct Told {
    body: Incoming,
    entry: Entry,
}

impl hyper::body::Body for Told {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        self.entry
            .counts
            .down
            .fetch_add(length(&polled), Ordering::Relaxed);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Bytes of a frame of data.
fn length<E>(polled: &Poll<Option<Result<Frame<Bytes>, E>>>) -> u64 {
    match polled {
        Poll::Ready(Some(Ok(frame))) => frame.data_ref().map_or(0, |data| data.len() as u64),
        Poll::Ready(Some(Err(_)) | None) | Poll::Pending => 0,
    }
}
