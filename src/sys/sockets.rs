//! What a socket is.

use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;

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
}
