//! HTTP and SOCKS proxies on sockets of the child's network namespace (R40–R45).
//!
//! [`ProxySet::start`] turns listening sockets and an [`EgressPolicy`] into a thread that serves them; dropping the set ends it.
//! Every way to the outside passes `dial`, and `dial` asks the policy twice: about the name, then about each address.

mod access;
pub mod catch;
mod client_hello;
pub mod connect;
mod dial;
pub mod dns;
mod forward;
mod framing;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod handshake;
mod head;
mod http;
mod limits;
mod link;
mod name_server;
mod names;
mod refusal;
mod server;
mod single;
mod socks;
mod socks_wire;
mod through;
mod token;
mod tunnel;
mod upstream;
mod variables;
mod vet;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::policy::NetworkMode;
use crate::policy::egress::EgressPolicy;
use crate::policy::upstream::Chain;
use crate::report::Sink;
use crate::report::access::{AccessLog, Front};
use access::{Accesses, FRONT};
use catch::Catch;
use dial::{Dialer, Resolve, SystemResolver};
use limits::Limits;
use names::Names;
use server::{Purpose, Shared};
use token::Token;

pub use variables::{Instead, child_env, is_proxy_variable};

/// How long the end of a run waits for what the child has sent but the proxies have not yet sent on.
const DRAIN: Duration = Duration::from_millis(250);
/// Descriptors for [`limits::SEATS`] tunnels of two sockets and two pipes each, and some.
const DESCRIPTORS: u64 = 4096;
/// Threads for getaddrinfo(3), which blocks; made on demand.
const RESOLVER_THREADS: usize = 32;

/// What the proxies of one run need.
#[derive(Debug)]
pub struct ProxyConfig {
    /// Decides.
    pub egress: EgressPolicy,
    /// Which connections go through a proxy of the caller's network.
    pub upstream: Chain,
    /// Forwarded ports behind which a proxy of the caller is: no rule of the policy is asked there.
    pub user_ports: Vec<u16>,
    /// Sockets that speak HTTP and SOCKS5, told apart by the first byte.
    pub listeners: Vec<TcpListener>,
    /// Forwarded loopback ports: a socket in the namespace and the host port behind it (semantics 42).
    pub forwards: Vec<(TcpListener, u16)>,
    /// What catches connections that go around the proxies, where the namespace has that.
    pub catch: Option<Catch>,
    /// Per-run token, where the namespace is not the boundary (macOS); `None` on Linux.
    pub token: Option<String>,
    /// File named in hints.
    pub hint_file: Option<PathBuf>,
    /// Names the process of a refused connection.
    pub identify: Option<Arc<dyn Identify>>,
    /// Where everybody on this machine finds the listeners: who is served.
    pub admit: Option<Arc<dyn Admit>>,
    /// Takes a line for each connection.
    pub access: Option<Arc<AccessLog>>,
}

/// A process of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Pid on the host.
    pub pid: i32,
    /// As the kernel names it; the process may have chosen it.
    pub name: String,
}

/// Tells whose a connection is, where that can be told.
pub trait Identify: Send + Sync + std::fmt::Debug {
    /// The process whose end of a connection is `peer`. Asked only when something was refused; may read procfs.
    fn process(&self, peer: SocketAddr) -> Option<Process>;

    /// The same for the socket that a datagram came from.
    fn asker(&self, peer: SocketAddr) -> Option<Process>;
}

/// Tells who may come, where that is not everybody who finds the way.
pub trait Admit: Send + Sync + std::fmt::Debug {
    /// Whether the end of a connection just accepted is one of the run's. Asked once for each.
    fn admits(&self, peer: SocketAddr) -> bool;
}

/// The proxies of one run: one thread, one current_thread runtime. Dropping stops accepting, drains 250 ms, joins.
#[derive(Debug)]
pub struct ProxySet {
    /// Dropped to end the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ProxySet {
    /// Starts serving.
    ///
    /// # Errors
    /// A socket or the runtime cannot be set up; a policy whose network is open, because it has no rules to serve by.
    pub fn start(config: ProxyConfig, sink: Arc<dyn Sink>) -> io::Result<Self> {
        Self::start_with(config, sink, Arc::new(SystemResolver), Limits::default())
    }

    /// As [`Self::start`], with another way to look names up, and other time-outs. What is found passes the same checks.
    pub(crate) fn start_with(
        config: ProxyConfig,
        sink: Arc<dyn Sink>,
        resolver: Arc<dyn Resolve>,
        limits: Limits,
    ) -> io::Result<Self> {
        if config.egress.mode() == NetworkMode::Open {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "an open network has no proxies",
            ));
        }
        raise_descriptor_limit();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(RESOLVER_THREADS)
            .build()?;
        let listening = config
            .listeners
            .iter()
            .map(TcpListener::local_addr)
            .collect::<io::Result<Vec<SocketAddr>>>()?;
        let (names, dns, caught) = match config.catch {
            Some(mut catch) => {
                let names = Names::new(&mut catch)?;
                let mut caught = vec![(catch.dns_tcp, Purpose::Names)];
                caught.extend(catch.listeners.into_iter().map(|l| (l, Purpose::Caught)));
                (Some(names), Some(catch.dns), caught)
            }
            None => (None, None, Vec::new()),
        };
        let (doors, dns) = {
            let _inside = runtime.enter();
            let proxies = config.listeners.into_iter().map(|l| (l, Purpose::Proxy));
            let forwards = config
                .forwards
                .into_iter()
                .map(|(l, port)| (l, Purpose::Forward(port)));
            let doors = proxies
                .chain(forwards)
                .chain(caught)
                .map(|(listener, purpose)| {
                    listener.set_nonblocking(true)?;
                    Ok((tokio::net::TcpListener::from_std(listener)?, purpose))
                })
                .collect::<io::Result<Vec<_>>>()?;
            let dns = dns
                .map(|socket| {
                    socket.set_nonblocking(true)?;
                    tokio::net::UdpSocket::from_std(socket)
                })
                .transpose()?;
            (doors, dns)
        };
        let access = config
            .access
            .map(|log| Accesses::new(log, Arc::clone(&sink)));
        let shared = Shared::new(
            Dialer::new(
                config.egress,
                config.upstream,
                config.user_ports,
                Arc::clone(&sink),
                resolver,
                listening,
                &limits,
            ),
            sink,
            config.identify,
            config.hint_file,
            config.token.map(Token::new),
            limits,
            names,
        );
        let shared = Arc::new(shared.logging(access).admitting(config.admit));
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new()
            .name("ccbox-proxy".to_owned())
            .spawn(move || {
                runtime.block_on(async move {
                    let mut accepting = JoinSet::new();
                    for (listener, purpose) in doors {
                        accepting.spawn(server::accept(listener, purpose, Arc::clone(&shared)));
                    }
                    if let Some(socket) = dns {
                        let server = name_server::serve(socket, Arc::clone(&shared));
                        accepting.spawn(FRONT.scope(Front::Dns, server));
                    }
                    // An error is a dropped sender, which means the same.
                    let _ = stopped.await;
                    accepting.shutdown().await;
                    let _ = timeout(DRAIN, shared.all_sent()).await;
                });
                // Not waiting for a resolver that hangs.
                runtime.shutdown_background();
            })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for ProxySet {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has been printed by the panic hook; there is nobody else to tell.
            let _ = thread.join();
        }
    }
}

/// Without enough descriptors tunnels copy instead of splicing and accepting pauses; nothing breaks, so failure is no error.
fn raise_descriptor_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < DESCRIPTORS.min(hard)
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS.min(hard), hard);
    }
}

#[cfg(test)]
mod tests;
