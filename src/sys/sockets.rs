//! What a socket is, and which there are.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrIn6,
    bind, listen, setsockopt, sockopt,
};

/// The end of a socket that is this process'; `None` where it is none of the internet.
pub fn own_end(socket: impl AsFd) -> Option<SocketAddr> {
    use nix::sys::socket::{SockaddrStorage, getsockname};
    let name = getsockname::<SockaddrStorage>(socket.as_fd().as_raw_fd()).ok()?;
    let four = name.as_sockaddr_in().map(|a| SocketAddr::V4((*a).into()));
    four.or_else(|| name.as_sockaddr_in6().map(|a| SocketAddr::V6((*a).into())))
}

/// What kind of socket it is: the arguments socket(2) was called with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// `AF_INET`, …
    pub family: i32,
    /// `SOCK_STREAM`, … without flags.
    pub form: i32,
    /// `IPPROTO_TCP`, …
    pub protocol: i32,
}

/// The kind of a socket (socket(7)); ENOTSOCK where it is none.
pub fn kind(socket: &impl AsFd) -> Result<Kind, Errno> {
    Ok(Kind {
        family: option(socket, libc::SO_DOMAIN)?,
        form: option(socket, libc::SO_TYPE)?,
        protocol: option(socket, libc::SO_PROTOCOL)?,
    })
}

fn option(socket: &impl AsFd, name: i32) -> Result<i32, Errno> {
    let mut value: i32 = 0;
    let mut size: libc::socklen_t = 4;
    // SAFETY: the option is an int (socket(7)); value and size are of this frame, and size says how large the value is.
    let r = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            (&raw mut value).cast(),
            &raw mut size,
        )
    };
    Errno::result(r).map(|_| value)
}

/// Binds a stream socket to an address of its network namespace and listens there. The address need not be one of an interface, as long
/// as it is local (`IP_FREEBIND`, ip(7)).
pub fn listen_at(socket: &impl AsFd, at: SocketAddr) -> Result<(), Errno> {
    let family = option(socket, libc::SO_DOMAIN)?;
    setsockopt(socket, sockopt::ReuseAddr, &true)?;
    setsockopt(socket, sockopt::IpFreebind, &true)?;
    let number = socket.as_fd().as_raw_fd();
    match at {
        SocketAddr::V4(v4) if family == libc::AF_INET6 => {
            let mapped = SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0);
            bind(number, &SockaddrIn6::from(mapped))?;
        }
        SocketAddr::V4(v4) => bind(number, &SockaddrIn::from(v4))?,
        SocketAddr::V6(v6) => bind(number, &SockaddrIn6::from(v6))?,
    }
    listen(socket, Backlog::MAXCONN)
}

/// SOCK_DIAG_BY_FAMILY of linux/sock_diag.h.
const BY_FAMILY: u16 = 20;
/// Length of `struct nlmsghdr` plus `struct inet_diag_req_v2`.
const QUESTION: u32 = 72;
/// TCP_LISTEN of include/net/tcp_states.h; a UDP socket that is not connected is TCP_CLOSE.
const LISTENS: u8 = 10;
const BOUND: u8 = 7;

/// Whether a socket of this process's network namespace takes what is sent to `to` (sock_diag(7)). The kernel looks for it as it does for
/// a packet; a kernel without the modules for that knows of none.
pub fn listens(to: SocketAddr, datagrams: bool) -> Result<bool, Errno> {
    let socket = nix::sys::socket::socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkSockDiag,
    )?;
    let question = question(to, datagrams);
    nix::sys::socket::send(socket.as_raw_fd(), &question, MsgFlags::empty())?;
    let mut answer = [0u8; 1024];
    let length = nix::sys::socket::recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    let answer = answer.get(..length).unwrap_or_default();
    let state = if datagrams { BOUND } else { LISTENS };
    // `struct inet_diag_msg` begins with family and state.
    let found = answer.get(4..6) == Some(&BY_FAMILY.to_ne_bytes());
    Ok(found && answer.get(17) == Some(&state))
}

fn question(to: SocketAddr, datagrams: bool) -> Vec<u8> {
    let protocol = if datagrams {
        libc::IPPROTO_UDP
    } else {
        libc::IPPROTO_TCP
    };
    let family = match to {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    let byte = |n: i32| u8::try_from(n).unwrap_or(0);
    let mut ip = match to.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    ip.resize(16, 0);
    let port = to.port().to_be_bytes();
    // udp_diag has the two ends the other way round.
    let ends = if datagrams {
        ([0; 2], port, vec![0; 16], ip)
    } else {
        (port, [0; 2], ip, vec![0; 16])
    };
    let request = u16::try_from(libc::NLM_F_REQUEST).unwrap_or(1);
    let mut out = Vec::new();
    // nlmsghdr: length, type, flags, sequence, port
    out.extend(QUESTION.to_ne_bytes());
    out.extend(BY_FAMILY.to_ne_bytes());
    out.extend(request.to_ne_bytes());
    out.extend([0; 8]);
    // inet_diag_req_v2: family, protocol, extensions, padding, states
    out.extend([byte(family), byte(protocol), 0, 0]);
    out.extend(u32::MAX.to_ne_bytes());
    // inet_diag_sockid: ports, addresses, interface, and no cookie
    out.extend(ends.0);
    out.extend(ends.1);
    out.extend(ends.2);
    out.extend(ends.3);
    out.extend([0; 4]);
    out.extend([0xff; 8]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn a_socket_says_what_it_is() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("[::1]:0").unwrap();
        let wanted = |family, form, protocol| Kind {
            family,
            form,
            protocol,
        };
        assert_eq!(
            kind(&tcp),
            Ok(wanted(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP))
        );
        assert_eq!(
            kind(&udp),
            Ok(wanted(libc::AF_INET6, libc::SOCK_DGRAM, libc::IPPROTO_UDP))
        );
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(kind(&file), Err(Errno::ENOTSOCK));
    }

    #[test]
    fn a_socket_of_ipv6_can_listen_at_an_address_of_ipv4() {
        let socket = |family| {
            let (kind, flags) = (SockType::Stream, SockFlag::SOCK_CLOEXEC);
            nix::sys::socket::socket(family, kind, flags, None).unwrap()
        };
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let one = socket(family);
            listen_at(&one, "127.66.0.1:0".parse().unwrap()).unwrap();
            let one = TcpListener::from(one);
            let at = one.local_addr().unwrap();
            let to = SocketAddr::new("127.66.0.1".parse().unwrap(), at.port());
            let client = std::net::TcpStream::connect(to).unwrap();
            let (stream, _) = one.accept().unwrap();
            assert_eq!(stream.local_addr().unwrap().ip().to_canonical(), to.ip());
            assert_eq!(client.peer_addr().unwrap(), to);
            // Another address of the same port is free.
            let other = socket(family);
            let there = SocketAddr::new("127.66.0.2".parse().unwrap(), at.port());
            assert_eq!(listen_at(&other, there), Ok(()));
            assert_eq!(listen_at(&socket(family), there), Err(Errno::EADDRINUSE));
        }
        let four = socket(AddressFamily::Inet);
        assert!(listen_at(&four, "[::1]:0".parse().unwrap()).is_err());
    }

    #[test]
    fn the_kernel_knows_who_listens() {
        let to = |ip: &str, port| SocketAddr::new(ip.parse().unwrap(), port);
        let one = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = one.local_addr().unwrap().port();
        let client = std::net::TcpStream::connect(one.local_addr().unwrap()).unwrap();
        assert_eq!(listens(to("127.0.0.1", port), false), Ok(true));
        assert_eq!(listens(to("127.0.0.2", port), false), Ok(false));
        assert_eq!(listens(to("127.0.0.1", port), true), Ok(false));
        let connected = client.local_addr().unwrap();
        assert_eq!(listens(connected, false), Ok(false));
        let any = TcpListener::bind("[::]:0").unwrap();
        let port = any.local_addr().unwrap().port();
        for ip in ["127.0.0.1", "127.9.9.9", "::1"] {
            assert_eq!(listens(to(ip, port), false), Ok(true), "{ip}");
        }
        for ip in ["127.0.0.1", "::1"] {
            let udp = UdpSocket::bind((ip, 0)).unwrap();
            let port = udp.local_addr().unwrap().port();
            assert_eq!(listens(to(ip, port), true), Ok(true), "{ip}");
            assert_eq!(listens(to(ip, port), false), Ok(false), "{ip}");
        }
    }
}
