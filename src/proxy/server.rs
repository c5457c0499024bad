//! Accepts connections on the run's sockets and hands each to the protocol it speaks.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use super::access::{Accesses, Counts, Entry, FRONT};
use super::catch;
use super::dial::Dialer;
use super::limits::{Limits, SEATS, TURNED_AWAY};
use super::link::Reached;
use super::name_server;
use super::names::Names;
use super::refusal::{self, Refusal};
use super::token::Token;
use super::tunnel::{self, Early, Stopped};
use super::vet::{self, Expected, VetError};
use super::{Identify, Process, forward, handshake, http, single, socks};
use crate::policy::egress::Denial;
use crate::policy::host::{Authority, Host};
use crate::report::Sink;
use crate::report::access::Front;

/// After a failed accept (no descriptors left): long enough to not spin, short enough to not be noticed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Refusals whose process is looked up: a storm of them must not make the proxies read procfs all day.
const QUESTIONS: usize = 256;

/// What every connection of a run needs.
pub(super) struct Shared {
    pub(super) dialer: Dialer,
    pub(super) sink: Arc<dyn Sink>,
    identify: Option<Arc<dyn Identify>>,
    identified: AtomicUsize,
    pub(super) hint_file: Option<PathBuf>,
    pub(super) token: Option<Token>,
    pub(super) limits: Limits,
    /// Of caught connections, where there are any.
    pub(super) names: Option<Names>,
    seats: Arc<Semaphore>,
    doorway: Arc<Semaphore>,
    crowded: AtomicBool,
    unsent: Arc<Outbox>,
    pub(super) access: Option<Accesses>,
    admit: Option<Arc<dyn super::Admit>>,
}

impl Shared {
    pub(super) fn new(
        dialer: Dialer,
        sink: Arc<dyn Sink>,
        identify: Option<Arc<dyn Identify>>,
        hint_file: Option<PathBuf>,
        token: Option<Token>,
        limits: Limits,
        names: Option<Names>,
    ) -> Self {
        Self {
            dialer,
            sink,
            identify,
            identified: AtomicUsize::new(0),
            hint_file,
            token,
            limits,
            names,
            seats: Arc::new(Semaphore::new(SEATS)),
            doorway: Arc::new(Semaphore::new(TURNED_AWAY)),
            crowded: AtomicBool::new(false),
            unsent: Arc::default(),
            access: None,
            admit: None,
        }
    }

    /// Not everybody is served.
    pub(super) fn admitting(mut self, admit: Option<Arc<dyn super::Admit>>) -> Self {
        self.admit = admit;
        self
    }

    /// With an access log.
    pub(super) fn logging(mut self, access: Option<Accesses>) -> Self {
        self.dialer.logging(access.clone());
        self.access = access;
        self
    }

    /// A destination by its name, where it is the address that stands for a name inside: some programs look names up before they ask
    /// a proxy.
    pub(super) fn by_name(&self, to: Authority) -> Authority {
        let (Some(names), Host::Ip(ip)) = (&self.names, &to.host) else {
            return to;
        };
        match names.name(*ip) {
            Some(host) => Authority { host, ..to },
            None => to,
        }
    }

    /// A connection to an allowed destination, for the access log.
    pub(super) fn entry(&self, to: &Authority, upstream: Option<&Reached>) -> Option<Entry> {
        let access = self.access.as_ref()?;
        let rule = self.dialer.decide(to).map(|grant| grant.rule);
        let mut entry = access.begin(to.to_string(), rule.ok());
        entry.access.address = upstream.and_then(address);
        Some(entry)
    }

    /// The same for a port of the host, which no rule is asked about again.
    pub(super) fn entry_of(&self, target: String, upstream: &Reached) -> Option<Entry> {
        let mut entry = self.access.as_ref()?.begin(target, None);
        entry.access.address = address(upstream);
        Some(entry)
    }

    /// The violation line of a refused destination, with the process that asked where it can be told.
    pub(super) fn refused(&self, peer: Option<SocketAddr>, target: String, denial: &Denial) {
        // A socket of IPv6 that takes IPv4 gives the other end in its own form.
        let peer = peer.map(|p| SocketAddr::new(p.ip().to_canonical(), p.port()));
        self.tell(target, denial, |identify| identify.process(peer?));
    }

    /// As [`Self::refused`], of a name that was asked for over UDP from `peer`.
    pub(super) fn refused_name(&self, peer: SocketAddr, name: String, denial: &Denial) {
        self.tell(name, denial, |identify| identify.asker(peer));
    }

    fn tell(
        &self,
        target: String,
        denial: &Denial,
        process: impl FnOnce(&dyn Identify) -> Option<Process>,
    ) {
        let may_ask = self.identified.fetch_add(1, Ordering::Relaxed) < QUESTIONS;
        let identify = self.identify.as_deref().filter(|_| may_ask);
        let process = identify.and_then(process);
        if let Some(access) = &self.access {
            access.refused(&target, denial, process.as_ref());
        }
        refusal::report(&*self.sink, target, denial, process);
    }

    /// Marks bytes of the child as not yet sent on, until dropped.
    pub(super) fn unsent(&self) -> Unsent {
        self.unsent.count.fetch_add(1, Ordering::Relaxed);
        Unsent(Arc::clone(&self.unsent))
    }

    /// Serves a tunnel that was allowed for `to`, to its end.
    pub(super) async fn tunnel(
        &self,
        to: &Authority,
        client: TcpStream,
        upstream: Reached,
        early: Early,
    ) {
        let entry = self.entry(to, Some(&upstream));
        self.vetted(to, client, upstream, early, (entry, false))
            .await;
    }

    /// The same after a switch of protocols, with the line for the access log that the request has.
    pub(super) async fn tunnel_switched(
        &self,
        to: &Authority,
        client: TcpStream,
        upstream: Reached,
        early: Early,
        entry: Option<Entry>,
    ) {
        self.vetted(to, client, upstream, early, (entry, true))
            .await;
    }

    async fn vetted(
        &self,
        to: &Authority,
        client: TcpStream,
        upstream: Reached,
        early: Early,
        (entry, switched): (Option<Entry>, bool),
    ) {
        let expected = Expected {
            to,
            dialer: &self.dialer,
            switched,
            limit: self.limits.hello,
        };
        let peer = client.peer_addr().ok();
        let counts = counts(entry.as_ref());
        let unsent = self.unsent();
        let beginning = handshake::begin(&expected, &client, upstream, early);
        let stopped = match timeout(self.limits.idle, beginning).await {
            Ok(Ok(begun)) => {
                let (up, down) = begun.passed;
                counts.up.fetch_add(up as u64, Ordering::Relaxed);
                counts.down.fetch_add(down as u64, Ordering::Relaxed);
                if let Some(hello) = &begun.hello {
                    counts.first(hello);
                }
                let left = Some(expected).filter(|_| begun.hello.is_none());
                let ends = begun.upstream.ends(client, begun.early);
                tunnel::run(ends, left, self.limits.idle, unsent, &counts).await
            }
            Ok(Err((error, upstream))) => {
                let _ = upstream.link.socket().set_zero_linger();
                match error {
                    VetError::Denied(violated) => Err(Box::new(Stopped { client, violated })),
                    VetError::Broken => {
                        let _ = client.set_zero_linger();
                        Ok(())
                    }
                }
            }
            // Nothing has moved for too long.
            Err(_) => {
                let _ = client.set_zero_linger();
                Ok(())
            }
        };
        if let Err(stopped) = stopped {
            if let Some(entry) = entry {
                entry.forget();
            }
            let Stopped {
                mut client,
                violated,
            } = *stopped;
            self.refused(peer, violated.target, &violated.denial);
            farewell(&mut client, &vet::ALERT).await;
        }
    }

    /// Serves a tunnel in which no name is to be checked: to a port of the host.
    pub(super) async fn tunnel_unchecked(
        &self,
        client: TcpStream,
        upstream: Reached,
        early: Early,
        entry: Option<Entry>,
    ) {
        let counts = counts(entry.as_ref());
        let ends = upstream.ends(client, early);
        // Without an expectation nothing is refused.
        let _ = tunnel::run(ends, None, self.limits.idle, self.unsent(), &counts).await;
    }

    /// A connection to the host's side of a forwarded port.
    pub(super) async fn dial_forward(&self, port: u16) -> Option<Reached> {
        if let Some(dialled) = self.dialer.dial_user_proxy(port).await {
            return dialled.ok();
        }
        for ip in self.dialer.egress().forward_targets(port) {
            let to = Authority {
                host: Host::Ip(ip),
                port,
            };
            if let Ok(reached) = self.dialer.dial(&to).await {
                return Some(reached);
            }
        }
        None
    }

    /// Completes once everything the child sent has been sent on.
    pub(super) async fn all_sent(&self) {
        loop {
            let changed = self.unsent.changed.notified();
            if self.unsent.count.load(Ordering::Relaxed) == 0 {
                return;
            }
            changed.await;
        }
    }
}

/// Serves a tunnel that was allowed for `to` and begins now, to its end.
pub(super) async fn tunnel(
    shared: Arc<Shared>,
    seat: Arc<Seat>,
    to: Authority,
    client: TcpStream,
    upstream: Reached,
    early: Early,
) {
    if to.port == shared.limits.http {
        return single::serve(client, shared, seat, to, Some(upstream), early).await;
    }
    shared.tunnel(&to, client, upstream, early).await;
    drop(seat);
}

/// What a connection was made to.
fn address(reached: &Reached) -> Option<String> {
    let peer = reached.link.socket().peer_addr();
    peer.ok().map(|address| address.to_string())
}

/// Of nobody's interest without a log.
fn counts(entry: Option<&Entry>) -> Arc<Counts> {
    entry.map_or_else(Arc::default, |entry| Arc::clone(&entry.counts))
}

/// How much of the child's is on its way.
#[derive(Debug, Default)]
struct Outbox {
    count: AtomicUsize,
    changed: Notify,
}

/// Something of the child's that is on its way.
#[derive(Debug)]
pub(super) struct Unsent(Arc<Outbox>);

impl Drop for Unsent {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
        self.0.changed.notify_one();
    }
}

/// One of the [`SEATS`]; held as long as the connection or the tunnel it became.
#[derive(Debug)]
pub(super) struct Seat {
    _permit: OwnedSemaphorePermit,
}

/// What a listener is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    /// HTTP and SOCKS.
    Proxy,
    /// A loopback port of the host (semantics 42).
    Forward(u16),
    /// Whatever goes to a name without a proxy.
    Caught,
    /// DNS.
    Names,
}

/// Accepts for ever.
pub(super) async fn accept(listener: TcpListener, purpose: Purpose, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                if shared.admit.as_ref().is_none_or(|a| a.admits(peer)) {
                    admit(stream, purpose, &shared);
                }
            }
            // A connection that was gone before it was accepted is nothing; EMFILE and ENFILE pass when others close. Stopping
            // here would end the network for the rest of the run.
            Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

fn admit(stream: TcpStream, purpose: Purpose, shared: &Arc<Shared>) {
    let shared = Arc::clone(shared);
    if let Ok(permit) = Arc::clone(&shared.seats).try_acquire_owned() {
        let seat = Arc::new(Seat { _permit: permit });
        let front = match purpose {
            Purpose::Proxy => Front::Http,
            Purpose::Forward(_) => Front::Forward,
            Purpose::Caught => Front::Caught,
            Purpose::Names => Front::Dns,
        };
        tokio::spawn(FRONT.scope(front, async move {
            match purpose {
                Purpose::Proxy => greet(stream, shared, seat).await,
                Purpose::Forward(port) => forward::serve(stream, port, &shared, &seat).await,
                Purpose::Caught => catch::serve(stream, shared, seat).await,
                Purpose::Names => name_server::serve_tcp(stream, &shared, &seat).await,
            }
        }));
        return;
    }
    if let Purpose::Caught = purpose {
        // Nothing can be said to it, but a reset is more than an empty answer.
        let _ = stream.set_zero_linger();
    }
    if !shared.crowded.swap(true, Ordering::Relaxed) {
        shared.sink.warn(&format!(
            "more than {SEATS} connections at once through the proxies; further ones are refused"
        ));
    }
    if let (Purpose::Proxy, Ok(permit)) = (purpose, Arc::clone(&shared.doorway).try_acquire_owned())
    {
        tokio::spawn(async move {
            turn_away(stream, &shared).await;
            drop(permit);
        });
    }
}

/// What the first byte of a connection announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Socks5,
    Http,
    /// An empty line where a request should be: answered with 400.
    BlankLine,
    /// A record with a handshake.
    Tls,
    /// SOCKS4 (4), and whatever else: closed.
    Unknown,
}

impl Protocol {
    pub(super) fn of(first: u8) -> Self {
        match first {
            5 => Self::Socks5,
            // The first character of a method (RFC 9110 §5.6.2).
            b if b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b) => Self::Http,
            b'\r' | b'\n' => Self::BlankLine,
            0x16 => Self::Tls,
            _ => Self::Unknown,
        }
    }

    /// Waits for the first byte and leaves it where it is.
    pub(super) async fn detect(stream: &TcpStream, limit: Duration) -> Option<Self> {
        let mut first = [0];
        match timeout(limit, stream.peek(&mut first)).await {
            Ok(Ok(1)) => Some(Self::of(first[0])),
            Ok(Ok(_) | Err(_)) | Err(_) => None,
        }
    }
}

async fn greet(mut stream: TcpStream, shared: Arc<Shared>, seat: Arc<Seat>) {
    match Protocol::detect(&stream, shared.limits.first_byte).await {
        Some(Protocol::Socks5) => {
            let served = socks::serve(stream, shared, seat);
            FRONT.scope(Front::Socks, served).await;
        }
        Some(Protocol::Http) => http::serve(stream, shared, seat).await,
        Some(Protocol::BlankLine) => {
            farewell(
                &mut stream,
                b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            )
            .await;
        }
        Some(Protocol::Tls | Protocol::Unknown) | None => {}
    }
}

async fn turn_away(mut stream: TcpStream, shared: &Shared) {
    match Protocol::detect(&stream, Duration::from_secs(1)).await {
        Some(Protocol::Socks5) => farewell(&mut stream, &socks::NO_METHOD).await,
        Some(Protocol::Http) => {
            let body = refusal::text(&Refusal::Crowded, shared.hint_file.as_deref());
            let answer = format!(
                "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            farewell(&mut stream, answer.as_bytes()).await;
        }
        Some(Protocol::BlankLine | Protocol::Tls | Protocol::Unknown) | None => {}
    }
}

/// Last words: the answer, the end of ours, and a moment of reading, because closing on unread bytes sends a reset that can
/// overtake the answer (RFC 9112 §9.6).
pub(super) async fn farewell(stream: &mut TcpStream, answer: &[u8]) {
    const LINGER: Duration = Duration::from_millis(500);
    let _ = timeout(LINGER, async {
        if stream.write_all(answer).await.is_err() || stream.shutdown().await.is_err() {
            return;
        }
        let mut rest = [0; 4096];
        let mut left = 64;
        while left > 0 {
            left -= 1;
            if stream.readable().await.is_err() {
                return;
            }
            match stream.try_read(&mut rest) {
                Ok(0) => return,
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    })
    .await;
}
