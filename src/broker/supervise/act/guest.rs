//! Connections of a run without a network of its own: the supervisor makes them, to the proxies and to nobody else.
//!
//! Behind this stands a Landlock domain without any right to connect or bind by TCP, and a filter that lets no other socket of a network be
//! made, no socket listen and nothing be sent with a connection (MSG_FASTOPEN).

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::errno::Errno;

use super::super::sockets::Sockets;
use super::super::{Stop, Unreached};
use super::connect::{V4, parse};
use super::sockets::To;
use super::{Outcome, Turn};
use crate::broker::guests::Guests;
use crate::sys::libc;
use crate::sys::{sockets, unix};

impl Turn<'_> {
    /// connect(2) of a socket of the network.
    pub(super) fn connect_as_guest(
        &self,
        all: &Sockets,
        guests: &Arc<Guests>,
        (socket, kind): (OwnedFd, sockets::Kind),
        address: Vec<u8>,
    ) -> Result<Outcome, Stop> {
        if address.len() < V4 {
            return Err(Errno::EINVAL.into());
        }
        let target = To::Address(address);
        if target.dissolves() {
            return self.carry_out(all, socket, kind, target);
        }
        let To::Address(address) = &target else {
            return Err(Errno::EACCES.into());
        };
        let stream = kind.form == libc::SOCK_STREAM && kind.protocol == libc::IPPROTO_TCP;
        if !stream || !matches!(kind.family, libc::AF_INET | libc::AF_INET6) {
            return Err(Errno::EACCES.into());
        }
        let to = parse(address).ok_or(Errno::EAFNOSUPPORT)?;
        if kind.family == libc::AF_INET && to.is_ipv6() {
            return Err(Errno::EAFNOSUPPORT.into());
        }
        let Some(real) = guests.way(to) else {
            self.tell_unreached(to)?;
            return Err(Errno::EACCES.into());
        };
        let address = unix::internet(real, kind.family == libc::AF_INET6);
        let guests = Arc::clone(guests);
        self.carry_out(all, socket, kind, To::Guest { guests, address })
    }

    /// Where nobody listens on this machine, there is nothing to tell.
    fn tell_unreached(&self, to: SocketAddr) -> Result<(), Errno> {
        if to.port() == 0 || to.ip().is_loopback() && !sockets::listens(to, false)? {
            return Ok(());
        }
        self.caller.verify()?;
        self.broker.sink.unreached(Unreached {
            to,
            datagrams: false,
            asks: false,
            pid: self.caller.tgid().unwrap_or(self.caller.tid),
            program: self.caller.program(),
        });
        Ok(())
    }

    /// listen(2): a socket of the network would be open to everybody who reaches this machine.
    pub(super) fn listen(&self, number: i32, backlog: i32) -> Result<Outcome, Stop> {
        let socket = self.caller.socket(number)?;
        if sockets::kind(&socket)?.family != libc::AF_UNIX {
            return Err(Errno::EACCES.into());
        }
        self.caller.verify()?;
        unix::listen(&socket, backlog)?;
        Ok(Outcome::Value(0))
    }
}
