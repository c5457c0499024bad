//! Connections of programs that ignore proxy variables (egress-proxy §2.2).
//!
//! In the child's namespace a whole range of addresses is local. The name server there gives each allowed name an address of that
//! range; a connection to it arrives at a listener of ours, and the address it was made to says the name again. What follows is
//! what follows a CONNECT to that name. No question leaves the host: an allowed name is looked up when it is dialled. Addresses that
//! the rules name are local as well, and are themselves.

use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::net::TcpStream;

use super::dial::DialError;
use super::link::Reached;
pub use super::names::{Book, Stands};
use super::server::{Seat, Shared};
use super::single;
use super::tunnel::Early;
use crate::policy::host::Authority;

/// Sockets of the child's namespace that catch what goes around the proxies.
#[derive(Debug)]
pub struct Catch {
    /// The name server's, over UDP.
    pub dns: UdpSocket,
    /// The name server's, over TCP.
    pub dns_tcp: TcpListener,
    /// Listeners, most of them at every address of the namespace.
    pub listeners: Vec<TcpListener>,
    /// Sockets to listen at the addresses of names.
    pub spare: Vec<OwnedFd>,
    /// The ports to do that for; the command may bind them itself.
    pub by_address: Vec<u16>,
    /// Remembers which name has which address.
    pub book: Book,
    /// The first address of the range that leads to them; it is the sandbox' own.
    pub first: Ipv4Addr,
    /// The same for IPv6, where the namespace has that.
    pub first_v6: Option<Ipv6Addr>,
}

/// Serves one caught connection to its end. Who is not let through is reset.
pub(super) async fn serve(stream: TcpStream, shared: Arc<Shared>, seat: Arc<Seat>) {
    let local = stream.local_addr().ok();
    let to = shared.names.as_ref().zip(local);
    let Some(to) = to.and_then(|(names, local)| names.target(local)) else {
        // To 127.0.0.1, or to an address that no name has: nobody listens there.
        let _ = stream.set_zero_linger();
        return;
    };
    if to.port == shared.limits.http {
        return single::serve(stream, shared, seat, to, None, Early::default()).await;
    }
    if let Some(upstream) = dial(&stream, &shared, &to).await {
        shared.tunnel(&to, stream, upstream, Early::default()).await;
    }
    drop(seat);
}

/// The other end of a caught connection; where there is none, that has been told and the client is reset.
pub(super) async fn dial(stream: &TcpStream, shared: &Shared, to: &Authority) -> Option<Reached> {
    match shared.dialer.dial(to).await {
        Ok(upstream) => Some(upstream),
        Err(error) => {
            if let DialError::Denied(denial) = error {
                shared.refused(stream.peer_addr().ok(), to.to_string(), &denial);
            }
            let _ = stream.set_zero_linger();
            None
        }
    }
}
