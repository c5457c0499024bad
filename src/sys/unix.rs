//! Sockets for somebody else: connect(2) and bind(2) with an address as bytes, and what Unix sockets of the file system are.

use super::libc;
use std::ffi::CString;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage};

use super::at;

/// Where the path starts in `struct sockaddr_un`.
pub const PATH_AT: usize = 2;
/// The size of that structure; its path needs no NUL (unix(7)).
pub const LONGEST: usize = 110;

/// connect(2) with the bytes of an address.
pub fn connect(socket: BorrowedFd<'_>, address: &[u8]) -> Result<(), Errno> {
    let length = libc::socklen_t::try_from(address.len()).map_err(|_| Errno::EINVAL)?;
    // SAFETY: connect reads `length` bytes of the address, which outlives the call; the kernel copies them and needs no alignment.
    let r = unsafe { libc::connect(socket.as_raw_fd(), address.as_ptr().cast(), length) };
    Errno::result(r).map(drop)
}

/// bind(2) with the bytes of an address.
pub fn bind(socket: BorrowedFd<'_>, address: &[u8]) -> Result<(), Errno> {
    let length = libc::socklen_t::try_from(address.len()).map_err(|_| Errno::EINVAL)?;
    // SAFETY: as for connect.
    let r = unsafe { libc::bind(socket.as_raw_fd(), address.as_ptr().cast(), length) };
    Errno::result(r).map(drop)
}

/// listen(2).
pub fn listen(socket: &impl AsFd, backlog: i32) -> Result<(), Errno> {
    use nix::sys::socket::Backlog;
    // The kernel takes less for a larger number, and the most for a negative one.
    let backlog = Backlog::new(backlog).unwrap_or(Backlog::MAXCONN);
    nix::sys::socket::listen(&socket, backlog)
}

/// An address of the internet as `struct sockaddr_in`, or as `struct sockaddr_in6` for a socket of IPv6.
#[must_use]
pub fn internet(to: SocketAddr, six: bool) -> Vec<u8> {
    let family = if six { libc::AF_INET6 } else { libc::AF_INET };
    let family = libc::sa_family_t::try_from(family).unwrap_or_default();
    let mut out = family.to_ne_bytes().to_vec();
    out.extend(to.port().to_be_bytes());
    match (to.ip(), six) {
        (IpAddr::V4(ip), false) => {
            out.extend(ip.octets());
            out.extend([0; 8]);
            return out;
        }
        (IpAddr::V4(ip), true) => {
            out.extend([0; 4]);
            out.extend(ip.to_ipv6_mapped().octets());
        }
        (IpAddr::V6(ip), _) => {
            out.extend([0; 4]);
            out.extend(ip.octets());
        }
    }
    out.extend([0; 4]);
    out
}

/// The address of a path, as a program would write it; `None` where it is too long.
#[must_use]
pub fn address(path: &[u8]) -> Option<Vec<u8>> {
    let family = libc::sa_family_t::try_from(libc::AF_UNIX).ok()?;
    let mut out = family.to_ne_bytes().to_vec();
    out.extend_from_slice(path);
    if out.len() < LONGEST {
        out.push(0);
    }
    (out.len() <= LONGEST).then_some(out)
}

/// Connects to the very socket that a descriptor of `O_PATH` holds, whatever its names are now.
pub fn connect_to(socket: BorrowedFd<'_>, object: BorrowedFd<'_>) -> Result<(), Errno> {
    let name = at::own_name(object);
    // A short name.
    let address = address(name.as_bytes()).ok_or(Errno::ENAMETOOLONG)?;
    connect(socket, &address)
}

/// Whether some socket is bound there. A socket for datagrams asks, which tells nobody and is no connection: one for streams is of
/// another type (EPROTOTYPE), and where nobody is bound the kernel says ECONNREFUSED. EACCES: the caller could not connect either.
pub fn is_bound(object: BorrowedFd<'_>) -> Result<bool, Errno> {
    let probe = nix::sys::socket::socket(
        AddressFamily::Unix,
        SockType::Datagram,
        SockFlag::from_bits_retain(libc::SOCK_CLOEXEC),
        None,
    )?;
    match connect_to(probe.as_fd(), object) {
        Ok(()) | Err(Errno::EPROTOTYPE | Errno::EPERM) => Ok(true),
        Err(Errno::ECONNREFUSED) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// How long the socket waits in a call that sends or connects (SO_SNDTIMEO); `None` is for ever.
pub fn send_timeout(socket: BorrowedFd<'_>) -> Result<Option<Duration>, Errno> {
    let time = nix::sys::socket::getsockopt(&socket, nix::sys::socket::sockopt::SendTimeout)?;
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec()).unwrap_or(0);
    let time = Duration::from_secs(seconds) + Duration::from_micros(micros);
    Ok((!time.is_zero()).then_some(time))
}

/// A connection that was begun has come to an end, a good or a bad one (connect(2), EINPROGRESS).
pub fn is_decided(socket: BorrowedFd<'_>) -> Result<bool, Errno> {
    let mut set = [PollFd::new(socket, PollFlags::POLLOUT)];
    match nix::poll::poll(&mut set, PollTimeout::ZERO) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// The socket has a peer.
#[must_use]
pub fn is_connected(socket: BorrowedFd<'_>) -> bool {
    nix::sys::socket::getpeername::<SockaddrStorage>(socket.as_raw_fd()).is_ok()
}

/// The socket takes connections.
#[must_use]
pub fn is_listening(socket: BorrowedFd<'_>) -> bool {
    nix::sys::socket::getsockopt(&socket, nix::sys::socket::sockopt::AcceptConn).is_ok_and(|is| is)
}

/// What a connection that was begun has come to (SO_ERROR), and takes the answer away; 0 is connected.
pub fn taken_error(socket: BorrowedFd<'_>) -> Result<i32, Errno> {
    nix::sys::socket::getsockopt(&socket, nix::sys::socket::sockopt::SocketError)
}

/// Changes the working directory of the calling thread, which must have one of its own.
pub fn stand_in(dir: BorrowedFd<'_>) -> Result<(), Errno> {
    nix::unistd::fchdir(dir)
}

/// Back to where every thread may stand.
pub fn stand_at_root() -> Result<(), Errno> {
    nix::unistd::chdir(Path::new("/"))
}

/// A C string of a path.
pub fn c_string(path: &Path) -> Result<CString, Errno> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

    fn object(path: &Path) -> OwnedFd {
        at::open_here(&c_string(path).unwrap(), libc::O_PATH).unwrap()
    }

    fn fresh() -> OwnedFd {
        let flags = SockFlag::from_bits_retain(libc::SOCK_CLOEXEC);
        nix::sys::socket::socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap()
    }

    #[test]
    fn the_object_is_connected_to_whatever_has_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let first = UnixListener::bind(&path).unwrap();
        let held = object(&path);
        std::fs::rename(&path, dir.path().join("t")).unwrap();
        let second = UnixListener::bind(&path).unwrap();
        second.set_nonblocking(true).unwrap();
        let socket = fresh();
        connect_to(socket.as_fd(), held.as_fd()).unwrap();
        first.accept().unwrap();
        assert!(second.accept().is_err());
    }

    #[test]
    fn asking_disturbs_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let [stream, datagram, dead] = ["s", "d", "x"].map(|n| dir.path().join(n));
        let listener = UnixListener::bind(&stream).unwrap();
        listener.set_nonblocking(true).unwrap();
        let receiver = UnixDatagram::bind(&datagram).unwrap();
        receiver.set_nonblocking(true).unwrap();
        drop(UnixListener::bind(&dead).unwrap());
        for (path, bound) in [(&stream, true), (&datagram, true), (&dead, false)] {
            assert_eq!(is_bound(object(path).as_fd()), Ok(bound), "{path:?}");
        }
        assert!(listener.accept().is_err());
        assert!(receiver.recv(&mut [0]).is_err());
        UnixStream::connect(&stream).unwrap();
        listener.accept().unwrap();
    }

    #[test]
    fn addresses_end_where_the_structure_does() {
        assert_eq!(address(&[b'a'; 108]).unwrap().len(), LONGEST);
        assert_eq!(address(&[b'a'; 107]).unwrap().len(), LONGEST);
        assert_eq!(address(&[b'a'; 109]), None);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let socket = fresh();
        assert_eq!(send_timeout(socket.as_fd()), Ok(None));
        bind(
            socket.as_fd(),
            &address(path.as_os_str().as_bytes()).unwrap(),
        )
        .unwrap();
        assert_eq!(is_bound(object(&path).as_fd()), Ok(true));
        assert_eq!(taken_error(socket.as_fd()), Ok(0));
    }
}
