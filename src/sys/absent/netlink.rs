//! There is no rtnetlink(7) here.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use nix::errno::Errno;

/// Absent.
pub fn loopback_up() -> io::Result<()> {
    Err(Errno::ENOSYS.into())
}

/// Absent.
#[derive(Debug)]
pub struct Netlink(());

impl Netlink {
    /// Absent.
    pub fn open() -> io::Result<Self> {
        Err(Errno::ENOSYS.into())
    }

    /// Absent.
    pub fn address(&self, _address: Ipv4Addr, _prefix: u8) -> io::Result<()> {
        Err(Errno::ENOSYS.into())
    }

    /// Absent.
    pub fn local(&self, _first: IpAddr, _prefix: u8) -> io::Result<()> {
        Err(Errno::ENOSYS.into())
    }
}
