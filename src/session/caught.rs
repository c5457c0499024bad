//! The sockets that catch connections without a proxy: made in the child's network namespace, served from outside.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use super::wire::{SetupFailure, Step};
use crate::proxy::catch::Catch;
use crate::sys::netlink;

/// The range for benchmarks (RFC 2544, RFC 5735): routed nowhere, so nothing real is behind any of it. The policy refuses it as a
/// destination.
const RANGE: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 18, 0, 0), 15);
/// Where `resolv.conf` inside points.
const DNS: u16 = 53;

/// Makes the range local, and the sockets: DNS over UDP and TCP on 127.0.0.1, then a listener for each port. A listener cannot stand
/// on a range, so it stands on every address; that takes its port from the command, which could not bind one below 1024 anyway.
pub(super) fn sockets(ports: &[u16]) -> Result<Vec<OwnedFd>, SetupFailure> {
    let (first, prefix) = RANGE;
    netlink::local_range(first, prefix)
        .map_err(|e| Step::Listener.failed(&e, format!("{first}/{prefix}")))?;
    let dns = SocketAddr::from((Ipv4Addr::LOCALHOST, DNS));
    let failed = |at: SocketAddr| move |e| Step::Listener.failed(&e, at.to_string());
    let mut sockets: Vec<OwnedFd> = vec![
        UdpSocket::bind(dns).map_err(failed(dns))?.into(),
        TcpListener::bind(dns).map_err(failed(dns))?.into(),
    ];
    for &port in ports {
        let at = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        sockets.push(TcpListener::bind(at).map_err(failed(at))?.into());
    }
    Ok(sockets)
}

/// What [`sockets`] made, on the other side.
pub(super) fn adopt(sockets: Vec<OwnedFd>) -> Option<Catch> {
    let mut sockets = sockets.into_iter();
    Some(Catch {
        dns: sockets.next()?.into(),
        dns_tcp: sockets.next()?.into(),
        ports: sockets.map(TcpListener::from).collect(),
        first: RANGE.0,
    })
}
