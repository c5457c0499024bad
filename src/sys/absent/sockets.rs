//! What a socket is, and which there are: there is no sock_diag(7) here.

use std::net::SocketAddr;
use std::os::fd::AsFd;

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

/// Absent.
pub fn kind(_socket: &impl AsFd) -> Result<Kind, Errno> {
    Err(Errno::ENOSYS)
}

/// Absent.
pub fn listens(_to: SocketAddr, _datagrams: bool) -> Result<bool, Errno> {
    Err(Errno::ENOSYS)
}

/// Absent.
pub fn listen_at(_socket: &impl AsFd, _at: SocketAddr) -> Result<(), Errno> {
    Err(Errno::ENOSYS)
}

/// Absent.
pub fn own_end(_socket: impl AsFd) -> Option<SocketAddr> {
    None
}
