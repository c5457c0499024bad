//! Connections of a run without a network of its own (linux-engine.md §14).
//!
//! The command's sockets are the host's there, so its proxies listen on the host's loopback, at ports the kernel chose. The command knows
//! them by the ports it would find in a network of its own; the supervisor, which makes every connection, leads there. Whoever else on
//! this machine finds the real ports is turned away: only ends that the supervisor has connected are served, each once.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;

/// Beyond this many, those that nobody can come for any more are forgotten.
const MANY: usize = 1024;
/// The kernel gives up a connection after 127 s (tcp(7), tcp_syn_retries).
const LONGEST: Duration = Duration::from_secs(130);

/// Who may come to the proxies of such a run.
#[derive(Debug)]
pub struct Guests {
    /// Ports as the command knows them, with what listens for each.
    ways: Vec<(u16, SocketAddr)>,
    expected: Mutex<HashMap<SocketAddr, Instant>>,
}

impl Guests {
    /// For these listeners.
    #[must_use]
    pub fn new(ways: Vec<(u16, SocketAddr)>) -> Self {
        Self {
            ways,
            expected: Mutex::default(),
        }
    }

    fn expected(&self) -> MutexGuard<'_, HashMap<SocketAddr, Instant>> {
        // Every change is one insertion or removal.
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a connection to this address really goes; `None`: nowhere.
    #[must_use]
    pub fn way(&self, to: SocketAddr) -> Option<SocketAddr> {
        let loopback = [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ];
        let mut ways = self.ways.iter();
        ways.find(|(port, real)| {
            loopback.contains(&to.ip()) && *port == to.port() && real.is_ipv4() == to.is_ipv4()
        })
        .map(|(_, real)| *real)
    }

    /// Makes a connection by `connect`, whose end here `own` tells. What comes of it is expected before anybody can see it.
    pub fn introduce(
        &self,
        connect: impl FnOnce() -> Result<(), Errno>,
        own: impl Fn() -> Option<SocketAddr>,
    ) -> Result<(), Errno> {
        let mut expected = self.expected();
        // Who asks again about a connection that is being made is known already.
        let is_new = own().is_none_or(|own| own.port() == 0);
        let done = connect();
        if is_new
            && matches!(done, Ok(()) | Err(Errno::EINPROGRESS))
            && let Some(own) = own()
        {
            if expected.len() >= MANY {
                expected.retain(|_, since| since.elapsed() < LONGEST);
            }
            expected.insert(canonical(own), Instant::now());
        }
        done
    }

    /// Whether this end was introduced; it is so once.
    #[must_use]
    pub fn is_expected(&self, peer: SocketAddr) -> bool {
        self.expected().remove(&canonical(peer)).is_some()
    }
}

/// A socket of IPv6 that speaks IPv4 has it in its own form.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn ports_lead_to_their_listeners_and_nothing_else_anywhere() {
        let guests = Guests::new(vec![
            (3128, to("127.0.0.1:40001")),
            (3128, to("[::1]:40002")),
            (8080, to("127.0.0.1:40003")),
        ]);
        for (asked, wanted) in [
            ("127.0.0.1:3128", Some("127.0.0.1:40001")),
            ("[::1]:3128", Some("[::1]:40002")),
            ("127.0.0.1:8080", Some("127.0.0.1:40003")),
            ("[::1]:8080", None),
            ("127.0.0.1:40001", None),
            ("127.0.0.2:3128", None),
            ("10.0.0.1:3128", None),
            ("127.0.0.1:22", None),
            ("127.0.0.1:0", None),
        ] {
            assert_eq!(guests.way(to(asked)), wanted.map(to), "{asked}");
        }
    }

    #[test]
    fn who_was_introduced_is_expected_once() {
        let guests = Guests::new(Vec::new());
        let own = std::cell::Cell::new(to("[::ffff:0.0.0.0]:0"));
        let bound = to("[::ffff:127.0.0.1]:5000");
        let connect = |done: Result<(), Errno>| {
            move |own: &std::cell::Cell<SocketAddr>| {
                own.set(bound);
                done
            }
        };
        let peer = to("127.0.0.1:5000");
        assert!(!guests.is_expected(peer));
        let first = connect(Err(Errno::EINPROGRESS));
        let again = connect(Ok(()));
        let asked = guests.introduce(|| first(&own), || Some(own.get()));
        assert_eq!(asked, Err(Errno::EINPROGRESS));
        assert!(guests.is_expected(peer) && !guests.is_expected(peer));
        // The program asks how far it is.
        assert_eq!(guests.introduce(|| again(&own), || Some(own.get())), Ok(()));
        assert!(!guests.is_expected(peer));
        own.set(to("0.0.0.0:0"));
        let refused = connect(Err(Errno::ECONNREFUSED));
        let _ = guests.introduce(|| refused(&own), || Some(own.get()));
        assert!(!guests.is_expected(peer));
    }
}
