//! HTTP and SOCKS proxies on sockets of the child's network namespace (R40–R45).

use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;

use crate::policy::egress::EgressPolicy;
use crate::report::Sink;

/// What the proxies of one run need.
#[derive(Debug)]
pub struct ProxyConfig {
    /// Decides.
    pub egress: EgressPolicy,
    /// Sockets that speak HTTP and SOCKS5, told apart by the first byte.
    pub listeners: Vec<TcpListener>,
    /// Forwarded loopback ports: a socket in the namespace and the host port behind it (semantics 42).
    pub forwards: Vec<(TcpListener, u16)>,
    /// Per-run token, where the namespace is not the boundary (macOS); `None` on Linux.
    pub token: Option<String>,
    /// File named in hints.
    pub hint_file: Option<PathBuf>,
}

/// The proxies of one run: one thread, one current_thread runtime. Dropping stops accepting, drains 250 ms, joins.
#[derive(Debug)]
pub struct ProxySet {}

impl ProxySet {
    /// Starts serving.
    pub fn start(_config: ProxyConfig, _sink: Arc<dyn Sink>) -> io::Result<Self> {
        unimplemented!("proxy")
    }
}
