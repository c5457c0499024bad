//! Listeners of a run without a network of its own: on the host's loopback, at ports of the kernel's choice, for nobody but whom the broker
//! introduces.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use crate::broker::guests::Guests;
use crate::proxy::Admit;

impl Admit for Guests {
    fn admits(&self, peer: SocketAddr) -> bool {
        self.is_expected(peer)
    }
}

/// They, and who may come to them.
#[derive(Debug)]
pub(super) struct Front {
    pub(super) guests: Arc<Guests>,
    /// With the port that the command knows each by.
    listeners: Vec<(u16, TcpListener)>,
}

impl Front {
    /// For each of these ports; over IPv6 where the kernel has that.
    pub(super) fn open(ports: &[u16]) -> io::Result<Self> {
        let mut listeners = Vec::new();
        for &port in ports {
            let four = TcpListener::bind((IpAddr::V4(Ipv4Addr::LOCALHOST), 0))?;
            listeners.push((port, four));
            let six = TcpListener::bind((IpAddr::V6(Ipv6Addr::LOCALHOST), 0)).ok();
            listeners.extend(six.map(|listener| (port, listener)));
        }
        let real = |(port, listener): &(u16, TcpListener)| Ok((*port, listener.local_addr()?));
        let ways = listeners.iter().map(real).collect::<io::Result<_>>()?;
        Ok(Self {
            guests: Arc::new(Guests::new(ways)),
            listeners,
        })
    }

    /// The proxies' listeners, and those of forwarded ports with the port.
    pub(super) fn sorted(self, forwarded: &[u16]) -> (Vec<TcpListener>, Vec<(TcpListener, u16)>) {
        let (forwards, proxies): (Vec<_>, Vec<_>) = self
            .listeners
            .into_iter()
            .partition(|(port, _)| forwarded.contains(port));
        let forwards = forwards.into_iter().map(|(port, l)| (l, port));
        let proxies = proxies.into_iter().map(|(_, l)| l);
        (proxies.collect(), forwards.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn each_port_has_its_listeners_and_nobody_comes_by_himself() {
        let front = Front::open(&[3128, 8080]).unwrap();
        let guests = Arc::clone(&front.guests);
        let (proxies, forwards) = front.sorted(&[8080]);
        assert_eq!(proxies.len(), forwards.len());
        assert!(forwards.iter().all(|(_, port)| *port == 8080));
        let real = proxies[0].local_addr().unwrap();
        assert_eq!(guests.way("127.0.0.1:3128".parse().unwrap()), Some(real));
        let stranger = TcpStream::connect(real).unwrap();
        let (_, peer) = proxies[0].accept().unwrap();
        assert_eq!(stranger.local_addr().unwrap(), peer);
        assert!(!guests.admits(peer));
    }
}
