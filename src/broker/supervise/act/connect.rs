//! Telling of connections: connect, and sendto with an address.
//!
//! The kernel carries them out whatever is found here: the empty network namespace is what holds (linux-engine.md §5). So nothing is
//! decided on what is read, and what a child does to its memory or descriptors meanwhile changes no more than the line about itself.
//!
//! A call that fails all the same outside of the sandbox is not told: one that the socket does not take, one for which the host has no
//! route, one to a port of this machine where nobody listens.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{SockaddrStorage, getpeername};

use super::super::Unreached;
use super::super::listening::{self, Routes};
use super::{Outcome, Turn};
use crate::sys::{sockets, task};

/// Sizes of `struct sockaddr_in` and of the shortest `struct sockaddr_in6` the kernel takes (SIN6_LEN_RFC2133).
pub(super) const V4: usize = 16;
const V6: usize = 24;
const LONGEST: usize = 28;
/// The port of name servers.
const DOMAIN: u16 = 53;

impl Turn<'_> {
    /// connect(2).
    pub(super) fn connect(&self, socket: i32, address: u64, size: i32) -> Outcome {
        // Whatever goes wrong while looking, the kernel meets it as well.
        let _ = self.tell_connect(socket, address, size, false);
        Outcome::Continue
    }

    /// sendto(2).
    pub(super) fn send_to(&self, socket: i32, address: u64, size: i32) -> Outcome {
        let _ = self.tell_connect(socket, address, size, true);
        Outcome::Continue
    }

    pub(super) fn tell_connect(
        &self,
        number: i32,
        address: u64,
        size: i32,
        sends: bool,
    ) -> Result<(), Errno> {
        let size = usize::try_from(size).map_err(|_| Errno::EINVAL)?;
        if size < V4 {
            return Ok(());
        }
        let bytes = self.caller.bytes(address, size.min(LONGEST))?;
        let Some(to) = parse(&bytes) else {
            return Ok(());
        };
        let process = self.caller.status()?.tgid;
        let holder = task::open_process(process)?;
        let socket = task::copy_descriptor(holder.as_fd(), number)?;
        let datagrams = takes(&socket, to, sends)?;
        // The child's own close shall be the last one.
        drop(socket);
        let Some(datagrams) = datagrams else {
            return Ok(());
        };
        let outside = if to.ip().is_loopback() {
            // A datagram goes nowhere, too, but only whoever waits for an answer fails.
            (!datagrams || to.port() == DOMAIN) && sockets::listens(to, datagrams)?
        } else {
            is_routed(to)
        };
        if !outside || self.is_taken(to, datagrams) {
            return Ok(());
        }
        self.caller.verify()?;
        self.broker.sink.unreached(Unreached {
            to,
            datagrams,
            // A connected socket for datagrams has sent nothing yet; getaddrinfo(3) connects some to sort what it found.
            asks: datagrams && !sends && to.port() != DOMAIN,
            pid: process,
            program: self.caller.program(),
        });
        Ok(())
    }

    /// Somebody inside takes it.
    fn is_taken(&self, to: SocketAddr, datagrams: bool) -> bool {
        let tid = self.caller.tid;
        let routes = self.broker.routes.get_or_init(|| Routes::of(tid));
        (to.ip().is_loopback() || routes.lead_to(to))
            && listening::at(&tid.to_string(), to, datagrams)
    }
}

/// An address of IPv4 or IPv6, an embedded IPv4 address as one, and "this machine" by its usual name.
pub(super) fn parse(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes([*bytes.first()?, *bytes.get(1)?]);
    let port = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
    let to = match i32::from(family) {
        libc::AF_INET => {
            let ip: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            SocketAddr::from((ip, port))
        }
        libc::AF_INET6 if bytes.len() >= V6 => {
            let ip: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            let ip = Ipv6Addr::from(ip);
            let scope = bytes.get(24..28).and_then(|s| s.try_into().ok());
            match ip.to_ipv4_mapped() {
                Some(ip) => SocketAddr::from((ip, port)),
                None => SocketAddrV6::new(ip, port, 0, scope.map_or(0, u32::from_ne_bytes)).into(),
            }
        }
        _ => return None,
    };
    Some(match to.ip() {
        // ip(7): connecting to the unspecified address means the loopback.
        IpAddr::V4(ip) if ip.is_unspecified() => (Ipv4Addr::LOCALHOST, port).into(),
        IpAddr::V6(ip) if ip.is_unspecified() => (Ipv6Addr::LOCALHOST, port).into(),
        IpAddr::V4(_) | IpAddr::V6(_) => to,
    })
}

/// Whether the socket sends datagrams, if it takes such a call at all.
fn takes(socket: &OwnedFd, to: SocketAddr, sends: bool) -> Result<Option<bool>, Errno> {
    let kind = sockets::kind(socket)?;
    let of_family = match kind.family {
        libc::AF_INET6 => true,
        libc::AF_INET => to.is_ipv4(),
        _ => false,
    };
    let ip = to.ip();
    let everybody = ip == IpAddr::V4(Ipv4Addr::BROADCAST);
    if !of_family || to.port() == 0 || everybody {
        return Ok(None);
    }
    match (kind.form, kind.protocol) {
        (libc::SOCK_DGRAM, libc::IPPROTO_UDP) => Ok(Some(true)),
        // An established one is refused (EISCONN); an address in sendto(2) is ignored.
        (libc::SOCK_STREAM, _) if sends || ip.is_multicast() => Ok(None),
        (libc::SOCK_STREAM, _) => {
            let peer = getpeername::<SockaddrStorage>(socket.as_raw_fd());
            Ok((peer == Err(Errno::ENOTCONN)).then_some(false))
        }
        _ => Ok(None),
    }
}

/// The host has a route there. Nothing is sent (udp(7)).
fn is_routed(to: SocketAddr) -> bool {
    let any: IpAddr = if to.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    UdpSocket::bind((any, 0)).is_ok_and(|socket| socket.connect(to).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn v4(port: u16, ip: [u8; 4]) -> Vec<u8> {
        let mut out = libc::sa_family_t::try_from(libc::AF_INET)
            .unwrap()
            .to_ne_bytes()
            .to_vec();
        out.extend(port.to_be_bytes());
        out.extend(ip);
        out.extend([0; 8]);
        out
    }

    fn v6(port: u16, ip: &str) -> Vec<u8> {
        let mut out = libc::sa_family_t::try_from(libc::AF_INET6)
            .unwrap()
            .to_ne_bytes()
            .to_vec();
        out.extend(port.to_be_bytes());
        out.extend([0; 4]);
        out.extend(ip.parse::<Ipv6Addr>().unwrap().octets());
        out.extend([0; 4]);
        out
    }

    #[test]
    fn addresses_are_read_as_the_kernel_does() {
        let read = |bytes: &[u8]| parse(bytes).map(|to| to.to_string());
        for (bytes, wanted) in [
            (v4(80, [1, 2, 3, 4]), Some("1.2.3.4:80")),
            (v4(80, [0; 4]), Some("127.0.0.1:80")),
            (v6(443, "2001:db8::1"), Some("[2001:db8::1]:443")),
            (v6(443, "::"), Some("[::1]:443")),
            (v6(443, "::ffff:1.2.3.4"), Some("1.2.3.4:443")),
            (v6(443, "::ffff:0.0.0.0"), Some("127.0.0.1:443")),
            (vec![1, 0, b'/', b'x'], None),
            (vec![0; 16], None),
            (v6(1, "::1")[..20].to_vec(), None),
            (Vec::new(), None),
        ] {
            assert_eq!(read(&bytes).as_deref(), wanted, "{bytes:?}");
        }
        let mut scoped = v6(1, "fe80::1");
        scoped[24..].copy_from_slice(&7u32.to_ne_bytes());
        assert_eq!(read(&scoped).as_deref(), Some("[fe80::1%7]:1"));
    }

    #[test]
    fn a_socket_that_does_not_take_the_call_says_nothing_about_the_sandbox() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connected: OwnedFd = TcpStream::connect(listener.local_addr().unwrap())
            .unwrap()
            .into();
        let udp: OwnedFd = UdpSocket::bind("127.0.0.1:0").unwrap().into();
        let fresh = |family| {
            nix::sys::socket::socket(
                family,
                nix::sys::socket::SockType::Stream,
                nix::sys::socket::SockFlag::empty(),
                None,
            )
            .unwrap()
        };
        let (tcp4, tcp6) = (
            fresh(nix::sys::socket::AddressFamily::Inet),
            fresh(nix::sys::socket::AddressFamily::Inet6),
        );
        let to = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (socket, address, sends, wanted) in [
            (&connected, "1.2.3.4:80", false, None),
            (&udp, "1.2.3.4:80", false, Some(true)),
            (&udp, "1.2.3.4:80", true, Some(true)),
            (&udp, "[::2]:80", false, None),
            (&udp, "1.2.3.4:0", false, None),
            (&tcp4, "1.2.3.4:80", false, Some(false)),
            (&tcp4, "1.2.3.4:80", true, None),
            (&tcp4, "224.0.0.1:80", false, None),
            (&tcp4, "[2001:db8::1]:80", false, None),
            (&tcp6, "[2001:db8::1]:80", false, Some(false)),
            (&tcp6, "1.2.3.4:80", false, Some(false)),
        ] {
            assert_eq!(takes(socket, to(address), sends), Ok(wanted), "{address}");
        }
        let file = std::fs::File::open("/dev/null").unwrap().into();
        assert_eq!(takes(&file, to("1.2.3.4:80"), false), Err(Errno::ENOTSOCK));
    }
}
