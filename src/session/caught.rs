//! The sockets that catch connections without a proxy: made in the child's network namespace, served from outside.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use serde::{Deserialize, Serialize};

use super::wire::{self, Report, SetupFailure, Step};
use crate::proxy::catch::{Book, Catch};
use crate::sys::fds::MAX_PASSED;
use crate::sys::libc;
use crate::sys::netlink::Netlink;
use crate::sys::sockets;

/// The range for benchmarks (RFC 2544, RFC 5735): routed nowhere, so nothing real is behind any of it. The policy refuses it as a
/// destination. Its first address is the sandbox' own: without one beside 127.0.0.1, getaddrinfo(3) with AI_ADDRCONFIG takes the
/// machine for one without a network.
const RANGE: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 18, 0, 1), 15);
/// Its counterpart, a network of RFC 4193 ("ccbox" in ASCII): the last 32 bits are the name's address in [`RANGE`]. No interface has an
/// address of it, so programs that find both take IPv4.
const RANGE_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0xfd63, 0x6362, 0x6f78, 0, 0, 0, 0, 0), 64);
/// Where `resolv.conf` inside points.
const DNS: u16 = 53;

/// What is caught, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CatchSetup {
    /// Ports to listen on at every address: a socket cannot stand on a range. Only those that the command could not bind anyway.
    pub everywhere: Vec<u16>,
    /// Further addresses to make local.
    pub addresses: Vec<IpAddr>,
    /// Listeners at some of these.
    pub at: Vec<SocketAddr>,
    /// Sockets that will be bound to the addresses of names, once these are given out.
    pub spare: usize,
}

/// Makes the sockets and hands them over on the control socket.
pub(super) fn open(setup: &CatchSetup, control: &OwnedFd) -> Result<(), SetupFailure> {
    let (v6, listeners) = listeners(setup)?;
    let say = |report: &Report, sockets: &[OwnedFd]| {
        wire::say_with(control, report, sockets).map_err(|e| Step::Lifeline.failed(&e, ""))
    };
    for some in listeners.chunks(MAX_PASSED) {
        say(&Report::Caught { v6 }, some)?;
    }
    let spare = (0..setup.spare)
        .map(|_| unbound(v6))
        .collect::<Result<Vec<_>, Errno>>()
        .map_err(|e| Step::Listener.failed(&e.into(), "spare"))?;
    for some in spare.chunks(MAX_PASSED) {
        say(&Report::Spare, some)?;
    }
    Ok(())
}

/// Makes what is caught local, and the sockets: DNS over UDP and TCP on 127.0.0.1, then the listeners. Says whether there is IPv6.
fn listeners(setup: &CatchSetup) -> Result<(bool, Vec<OwnedFd>), SetupFailure> {
    let (own, prefix) = RANGE;
    let range = |e: io::Error| Step::Listener.failed(&e, format!("{own}/{prefix}"));
    let netlink = Netlink::open().map_err(range)?;
    netlink.address(own, prefix).map_err(range)?;
    // Kernels without IPv6, or with it switched off, refuse.
    let v6 = netlink.local(RANGE_V6.0.into(), RANGE_V6.1).is_ok();
    for &address in &setup.addresses {
        let prefix = if address.is_ipv4() { 32 } else { 128 };
        // One that cannot be had is not reached, as any other that no rule names.
        let _ = netlink.local(address, prefix);
    }
    let dns = SocketAddr::from((Ipv4Addr::LOCALHOST, DNS));
    let failed = |at: SocketAddr| move |e| Step::Listener.failed(&e, at.to_string());
    let mut all: Vec<OwnedFd> = vec![
        UdpSocket::bind(dns).map_err(failed(dns))?.into(),
        TcpListener::bind(dns).map_err(failed(dns))?.into(),
    ];
    for &port in &setup.everywhere {
        // A socket of IPv6 that is bound to all addresses takes IPv4, too (ipv6(7)).
        let any = if v6 {
            IpAddr::from(Ipv6Addr::UNSPECIFIED)
        } else {
            IpAddr::from(Ipv4Addr::UNSPECIFIED)
        };
        let at = SocketAddr::new(any, port);
        all.push(TcpListener::bind(at).map_err(failed(at))?.into());
    }
    for &at in &setup.at {
        if let Ok(socket) = unbound(at.is_ipv6())
            && sockets::listen_at(&socket, at).is_ok()
        {
            all.push(socket);
        }
    }
    Ok((v6, all))
}

/// A socket of this network namespace, whatever it is bound to later and by whom. One of IPv6 can be bound to IPv4 addresses.
fn unbound(v6: bool) -> Result<OwnedFd, Errno> {
    let family = if v6 {
        AddressFamily::Inet6
    } else {
        AddressFamily::Inet
    };
    socket(
        family,
        SockType::Stream,
        SockFlag::from_bits_retain(libc::SOCK_CLOEXEC),
        None,
    )
}

/// What [`open`] made, on the other side.
#[derive(Debug, Default)]
pub(super) struct Passed {
    v6: bool,
    listeners: Vec<OwnedFd>,
    spare: Vec<OwnedFd>,
}

impl Passed {
    /// Takes the descriptors of a report that is about them.
    pub(super) fn take(&mut self, report: &Report, passed: &mut Vec<OwnedFd>) {
        match report {
            Report::Caught { v6 } => {
                self.v6 = *v6;
                self.listeners.append(passed);
            }
            Report::Spare => self.spare.append(passed),
            Report::Listeners
            | Report::Covers
            | Report::Failed(_)
            | Report::Ready { .. }
            | Report::NotStarted(_)
            | Report::Exited(_)
            | Report::Signalled(_)
            | Report::Stopped { .. }
            | Report::Continued => {}
        }
    }

    /// For the proxies.
    pub(super) fn adopt(self) -> Option<Catch> {
        let mut sockets = self.listeners.into_iter();
        Some(Catch {
            dns: sockets.next()?.into(),
            dns_tcp: sockets.next()?.into(),
            listeners: sockets.map(TcpListener::from).collect(),
            spare: self.spare,
            by_address: Vec::new(),
            book: Book::default(),
            first: RANGE.0,
            first_v6: self.v6.then_some(RANGE_V6.0),
        })
    }
}
