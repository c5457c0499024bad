//! From a name to a connection: decide, resolve once, check every address, connect to those and no others (R45).
//!
//! Nothing is resolved before the allow list has said yes, so a refused name cannot carry data out in DNS queries; and nothing
//! is resolved twice, so a name cannot change its mind between the check and the connection.

use std::collections::HashSet;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::rustls::ClientConfig;

use super::access::Accesses;
use super::limits::Limits;
use super::link::{Link, Reached};
use super::through::{self, ProxyError, Trouble};
use crate::policy::egress::{Decision, Denial, EgressPolicy, Grant, LOCALHOST};
use crate::policy::host::{Authority, Host};
use crate::policy::upstream::{Chain, Hop, ProxyScheme, Use};
use crate::report::Sink;

/// RFC 8305 §5: how long one address may keep the next waiting.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Different failures of upstream proxies that are reported.
const MOST_TOLD: usize = 16;
/// How long the list of the host's own addresses may be reused: reading it costs as much as a short connection.
const OWN_ADDRESSES_AGE: Duration = Duration::from_secs(1);

/// Name look-up. The system's resolver in the product; a table in tests.
pub(crate) trait Resolve: Send + Sync {
    /// The addresses of a name, in the order they should be tried.
    fn lookup<'a>(&'a self, name: &'a str, port: u16) -> Lookup<'a>;
}

/// What [`Resolve::lookup`] returns.
pub(crate) type Lookup<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// getaddrinfo(3): respects the hosts file, nsswitch, VPN split DNS and mDNS.
#[derive(Debug)]
pub(crate) struct SystemResolver;

impl Resolve for SystemResolver {
    fn lookup<'a>(&'a self, name: &'a str, port: u16) -> Lookup<'a> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, port)).await?;
            Ok(found.map(|a| a.ip()).collect())
        })
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    /// The policy refused.
    #[error("refused by the sandbox policy")]
    Denied(Denial),
    /// The name has no address, or the resolver failed.
    #[error("cannot resolve {0}: {1}")]
    Unresolved(Host, String),
    /// The resolver did not answer in time.
    #[error("cannot resolve {0}: no answer in time")]
    ResolveTimeout(Host),
    /// No address could be connected to.
    #[error("cannot connect to {0}: {1}")]
    Unreachable(Authority, String),
    /// No address answered in time.
    #[error("cannot connect to {0}: no answer in time")]
    ConnectTimeout(Authority),
    /// The destination is one of the proxy's own sockets.
    #[error("{0} is this proxy itself")]
    Loop(Authority),
    /// The proxy on the way was of no use.
    #[error(transparent)]
    Proxy(ProxyError),
}

/// Opens connections for one run.
pub(super) struct Dialer {
    egress: EgressPolicy,
    chain: Chain,
    user_ports: Vec<u16>,
    sink: Arc<dyn Sink>,
    /// What was said about upstream proxies.
    told: Mutex<HashSet<ProxyError>>,
    /// Made for the first `https://` proxy.
    tls: OnceCell<Result<Arc<ClientConfig>, String>>,
    resolver: Arc<dyn Resolve>,
    listening: Vec<SocketAddr>,
    resolve_limit: Duration,
    connect_limit: Duration,
    upstream_limit: Duration,
    own: Mutex<Option<(Instant, Arc<[IpAddr]>)>>,
    access: Option<Accesses>,
}

impl Dialer {
    pub(super) fn new(
        egress: EgressPolicy,
        chain: Chain,
        user_ports: Vec<u16>,
        sink: Arc<dyn Sink>,
        resolver: Arc<dyn Resolve>,
        listening: Vec<SocketAddr>,
        limits: &Limits,
    ) -> Self {
        Self {
            egress,
            chain,
            user_ports,
            sink,
            told: Mutex::default(),
            tls: OnceCell::new(),
            resolver,
            listening,
            resolve_limit: limits.resolve,
            connect_limit: limits.connect,
            upstream_limit: limits.upstream,
            own: Mutex::new(None),
            access: None,
        }
    }

    pub(super) fn egress(&self) -> &EgressPolicy {
        &self.egress
    }

    /// The first gate alone, for requests on a connection that is already open.
    pub(super) fn decide(&self, to: &Authority) -> Result<Grant, Denial> {
        match self.egress.decide(&to.host, to.port) {
            Decision::Allow(grant) => Ok(grant),
            Decision::Deny(denial) => Err(denial),
        }
    }

    /// With an access log, which is told of every connection that cannot be made.
    pub(super) fn logging(&mut self, access: Option<Accesses>) {
        self.access = access;
    }

    /// A connection to an allowed destination, for bytes of any protocol.
    pub(super) async fn dial(&self, to: &Authority) -> Result<Reached, DialError> {
        self.told_of(to, self.reach(to).await)
    }

    /// A connection for a request to an `http://` URL of an allowed destination; with the proxy it leads to, if there is one.
    pub(super) async fn dial_request(
        &self,
        to: &Authority,
    ) -> Result<(Link, Option<&Hop>), DialError> {
        self.told_of(to, self.reach_for_request(to).await)
    }

    /// What comes of an attempt, once the log has heard of a failed one.
    fn told_of<T>(&self, to: &Authority, reached: Result<T, DialError>) -> Result<T, DialError> {
        if let (Err(error), Some(access)) = (&reached, &self.access) {
            let rule = self.decide(to).map(|grant| grant.rule);
            access.failed(to, rule.ok(), error);
        }
        reached
    }

    async fn reach(&self, to: &Authority) -> Result<Reached, DialError> {
        let grant = self.decide(to).map_err(DialError::Denied)?;
        let Some(hop) = self.chain.hop(to, Use::Tunnel) else {
            return Ok(self.direct(to, &grant).await?.into());
        };
        self.check_literal(to, &grant)?;
        let connecting = async {
            let link = self.proxy(hop).await?;
            through::connect(hop, link, to).await
        };
        match timeout(self.upstream_limit, connecting).await {
            Ok(done) => done.map_err(|e| self.useless(e)),
            Err(_) => Err(self.useless(ProxyError::new(hop, Trouble::Silent))),
        }
    }

    async fn reach_for_request(&self, to: &Authority) -> Result<(Link, Option<&Hop>), DialError> {
        let grant = self.decide(to).map_err(DialError::Denied)?;
        let Some(hop) = self.chain.hop(to, Use::Request) else {
            return Ok((Link::Plain(self.direct(to, &grant).await?), None));
        };
        self.check_literal(to, &grant)?;
        let connecting = async {
            let link = self.proxy(hop).await?;
            if hop.proxy.scheme != ProxyScheme::Socks5 {
                return Ok((link, Some(hop)));
            }
            // Through it as without it: it knows nothing of requests.
            let reached = through::connect(hop, link, to).await?;
            Ok((reached.link, None))
        };
        match timeout(self.upstream_limit, connecting).await {
            Ok(Ok(link)) => Ok(link),
            Ok(Err(e)) => Err(self.useless(e)),
            Err(_) => Err(self.useless(ProxyError::new(hop, Trouble::Silent))),
        }
    }

    /// An upstream proxy failed: the user is told, once, because most tools show no more of it than a number.
    pub(super) fn useless(&self, error: ProxyError) -> DialError {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < MOST_TOLD && told.insert(error.clone()) {
            self.sink.warn(&error.to_string());
        }
        DialError::Proxy(error)
    }

    /// A connection to a proxy of the caller on this machine, which takes the place of ours; where there is one at that port.
    pub(super) async fn dial_user_proxy(&self, port: u16) -> Option<io::Result<Reached>> {
        if !self.user_ports.contains(&port) {
            return None;
        }
        let targets = LOCALHOST.map(|ip| SocketAddr::new(ip, port));
        let limited = timeout(self.connect_limit, race(targets.to_vec())).await;
        let stream = limited.map_err(io::Error::other).flatten();
        Some(stream.map(Reached::from))
    }

    /// A connection to an upstream proxy. It is the caller's own choice, so no rule of the policy is asked about it; nor can it be
    /// one of our sockets, which stand in another network namespace, also where the numbers are the same.
    async fn proxy(&self, hop: &Hop) -> Result<Link, ProxyError> {
        let failed = |trouble| ProxyError::new(hop, trouble);
        let config = match hop.proxy.scheme {
            ProxyScheme::Http | ProxyScheme::Socks5 => None,
            ProxyScheme::Https => {
                let made = self.tls.get_or_init(|| async {
                    let made = tokio::task::spawn_blocking(through::tls_config).await;
                    made.unwrap_or_else(|e| Err(e.to_string()))
                });
                Some(
                    made.await
                        .clone()
                        .map_err(|why| failed(Trouble::Tls(why)))?,
                )
            }
        };
        let at = &hop.proxy.at;
        let addresses = self.resolve(at).await.map_err(|e| match e {
            DialError::Unresolved(_, why) => failed(Trouble::Unresolved(why)),
            DialError::Denied(_)
            | DialError::ResolveTimeout(_)
            | DialError::Unreachable(..)
            | DialError::ConnectTimeout(_)
            | DialError::Loop(_)
            | DialError::Proxy(_) => failed(Trouble::Unresolved("no answer in time".to_owned())),
        })?;
        let targets = interleave(&addresses)
            .into_iter()
            .map(|ip| SocketAddr::new(ip, at.port))
            .collect();
        match timeout(self.connect_limit, race(targets)).await {
            Ok(Ok(stream)) => through::secured(hop, stream, config).await,
            Ok(Err(e)) => Err(failed(Trouble::Unreachable(describe(&e)))),
            Err(_) => Err(failed(Trouble::Silent)),
        }
    }

    /// The second gate where nothing is resolved here: a destination that is an address.
    fn check_literal(&self, to: &Authority, grant: &Grant) -> Result<(), DialError> {
        let Host::Ip(ip) = &to.host else {
            return Ok(());
        };
        let own = self
            .own_addresses()
            .map_err(|e| DialError::Unreachable(to.clone(), describe(&e)))?;
        self.egress
            .check_address(grant, &to.host, to.port, *ip, &own)
            .map_err(DialError::Denied)
    }

    /// Without a proxy: resolve, check, connect.
    async fn direct(&self, to: &Authority, grant: &Grant) -> Result<TcpStream, DialError> {
        let addresses = self.resolve(to).await?;
        let own = self
            .own_addresses()
            .map_err(|e| DialError::Unreachable(to.clone(), describe(&e)))?;
        for ip in &addresses {
            self.egress
                .check_address(grant, &to.host, to.port, *ip, &own)
                .map_err(DialError::Denied)?;
        }
        let targets: Vec<SocketAddr> = interleave(&addresses)
            .into_iter()
            .map(|ip| SocketAddr::new(ip, to.port))
            .collect();
        if targets.iter().any(|t| self.listening.contains(t)) {
            return Err(DialError::Loop(to.clone()));
        }
        match timeout(self.connect_limit, race(targets)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(e)) => Err(DialError::Unreachable(to.clone(), describe(&e))),
            Err(_) => Err(DialError::ConnectTimeout(to.clone())),
        }
    }

    async fn resolve(&self, to: &Authority) -> Result<Vec<IpAddr>, DialError> {
        let name = match &to.host {
            Host::Ip(ip) => return Ok(vec![*ip]),
            Host::Name(_) if to.host.is_loopback_name() => return Ok(LOCALHOST.to_vec()),
            Host::Name(name) => name,
        };
        let failed = |why: String| DialError::Unresolved(to.host.clone(), why);
        match timeout(self.resolve_limit, self.resolver.lookup(name, to.port)).await {
            Ok(Ok(found)) if found.is_empty() => Err(failed("it has no address".to_owned())),
            Ok(Ok(mut found)) => {
                let mut seen = HashSet::new();
                found.retain(|ip| seen.insert(*ip));
                Ok(found)
            }
            Ok(Err(e)) => Err(failed(describe(&e))),
            Err(_) => Err(DialError::ResolveTimeout(to.host.clone())),
        }
    }

    /// Addresses of the host's own interfaces (D15): a public name that leads to one of them leads to the user's own services.
    fn own_addresses(&self) -> io::Result<Arc<[IpAddr]>> {
        let mut cached = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((taken, list)) = &*cached
            && taken.elapsed() < OWN_ADDRESSES_AGE
        {
            return Ok(Arc::clone(list));
        }
        let list: Arc<[IpAddr]> = nix::ifaddrs::getifaddrs()?
            .filter_map(|interface| interface.address)
            .filter_map(|address| {
                let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
                v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
            })
            .collect();
        *cached = Some((Instant::now(), Arc::clone(&list)));
        Ok(list)
    }
}

/// RFC 8305 §4: the families take turns, beginning with the resolver's first.
fn interleave(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let first_is_v6 = addresses.first().is_some_and(IpAddr::is_ipv6);
    let (first, second): (Vec<IpAddr>, Vec<IpAddr>) =
        addresses.iter().partition(|ip| ip.is_ipv6() == first_is_v6);
    let mut out = Vec::with_capacity(addresses.len());
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    loop {
        match (first.next(), second.next()) {
            (None, None) => return out,
            (a, b) => out.extend(a.into_iter().chain(b)),
        }
    }
}

/// The first connection that stands. An attempt that fails starts the next at once; one that hangs, after [`ATTEMPT_DELAY`].
async fn race(targets: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut waiting = targets.into_iter();
    let mut attempts = JoinSet::new();
    let mut last_error = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        match waiting.next() {
            Some(target) => {
                attempts.spawn(TcpStream::connect(target));
            }
            None if attempts.is_empty() => return Err(last_error),
            None => {}
        }
        tokio::select! {
            Some(done) = attempts.join_next() => match done {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(e)) => last_error = e,
                Err(e) => last_error = io::Error::other(e),
            },
            () = sleep(ATTEMPT_DELAY), if waiting.len() > 0 => {}
        }
    }
}

/// An error in words, without the number and in lower case: `connection refused`.
pub(super) fn describe(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => error.kind().to_string(),
    }
}

impl std::fmt::Debug for Dialer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dialer").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(list: &[&str]) -> Vec<IpAddr> {
        list.iter().map(|s| s.parse().unwrap()).collect()
    }

    #[test]
    fn families_take_turns() {
        for (given, want) in [
            (&[][..], &[][..]),
            (&["1.1.1.1"], &["1.1.1.1"]),
            (
                &["::1", "::2", "::3", "1.1.1.1"],
                &["::1", "1.1.1.1", "::2", "::3"],
            ),
            (
                &["1.1.1.1", "1.1.1.2", "::1", "::2"],
                &["1.1.1.1", "::1", "1.1.1.2", "::2"],
            ),
        ] {
            assert_eq!(interleave(&ips(given)), ips(want));
        }
    }

    #[test]
    fn errors_in_words() {
        assert_eq!(
            describe(&io::Error::from_raw_os_error(libc::ECONNREFUSED)),
            "connection refused"
        );
    }
}
