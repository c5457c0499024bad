//! There is no rtnetlink(7) here.

use std::io;
use std::net::Ipv4Addr;

use nix::errno::Errno;

/// Absent.
pub fn loopback_up() -> io::Result<()> {
    Err(Errno::ENOSYS.into())
}

/// Absent.
pub fn local_range(_first: Ipv4Addr, _prefix: u8) -> io::Result<()> {
    Err(Errno::ENOSYS.into())
}
