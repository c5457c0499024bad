//! Which name an address of the caught range stands for, and the listeners at single addresses of it.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::catch::Catch;
use crate::policy::host::{Authority, Host};
use crate::sys::sockets;

/// Names of one run; a wildcard rule allows any number of them, and each costs memory.
const MAX_NAMES: usize = 16 * 1024;
/// The bits of an address of the range that are a name's (198.18.0.0/15).
const NAME_BITS: u32 = 17;
/// A program asks for IPv4 and IPv6 addresses, and asks again: one refusal.
const TELL_AGAIN: Duration = Duration::from_secs(1);
/// Refused names to remember for that.
const MAX_TOLD: usize = 1024;

/// Which family of addresses is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// The names of one run with their addresses. Clones are the same book.
#[derive(Debug, Clone, Default)]
pub struct Book(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// Where the range begins, once there is one.
    first: Option<u32>,
    first_v6: Option<u128>,
    /// In the order of their addresses.
    names: Vec<Host>,
    places: HashMap<Host, u32>,
}

/// What an address inside is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stands {
    /// The address of a name.
    For(Host),
    /// One that no name has.
    ForNothing,
    /// Not of the range.
    ForItself,
}

impl Book {
    fn open(&self, first: Ipv4Addr, first_v6: Option<Ipv6Addr>) {
        let mut known = lock(&self.0);
        known.first = Some(first.to_bits());
        known.first_v6 = first_v6.map(Ipv6Addr::to_bits);
    }

    /// The address of a name: always the same, and never another name's.
    fn address(&self, host: &Host, family: Family) -> Option<IpAddr> {
        let mut known = lock(&self.0);
        let place = known.place(host)?;
        let v4 = known.first?.checked_add(place)?;
        match family {
            Family::V4 => Some(Ipv4Addr::from_bits(v4).into()),
            Family::V6 => Some(Ipv6Addr::from_bits(known.first_v6? | u128::from(v4)).into()),
        }
    }

    /// What an address stands for.
    #[must_use]
    pub fn look_up(&self, ip: IpAddr) -> Stands {
        let known = lock(&self.0);
        match known.caught(ip.to_canonical()) {
            None => Stands::ForItself,
            Some(v4) => known.host(v4).map_or(Stands::ForNothing, Stands::For),
        }
    }
}

impl Known {
    fn place(&mut self, host: &Host) -> Option<u32> {
        if let Some(place) = self.places.get(host) {
            return Some(*place);
        }
        if self.names.len() >= MAX_NAMES {
            return None;
        }
        self.names.push(host.clone());
        // From 1: the first address is the sandbox' own.
        let place = u32::try_from(self.names.len()).ok()?;
        self.places.insert(host.clone(), place);
        Some(place)
    }

    /// The address of the IPv4 range that this one is or carries.
    fn caught(&self, ip: IpAddr) -> Option<u32> {
        match ip {
            IpAddr::V4(v4) => {
                let bits = v4.to_bits();
                let of = |bits: u32| bits.checked_shr(NAME_BITS);
                (of(bits) == of(self.first?)).then_some(bits)
            }
            IpAddr::V6(v6) => {
                let bits = v6.to_bits() ^ self.first_v6?;
                // The prefix is 64 bits long, and whatever is below it is of the range.
                let inside = bits.checked_shr(64) == Some(0);
                inside.then(|| u32::try_from(bits).unwrap_or(0))
            }
        }
    }

    /// The name an address was given to.
    fn host(&self, v4: u32) -> Option<Host> {
        let place = v4.checked_sub(self.first?)?.checked_sub(1)?;
        self.names.get(usize::try_from(place).ok()?).cloned()
    }
}

/// The names of one run, and how connections to them come.
#[derive(Debug)]
pub(super) struct Names {
    book: Book,
    v6: bool,
    /// Ports that are caught, those by address last.
    ports: Vec<u16>,
    by_address: Vec<u16>,
    spare: Mutex<Spare>,
    told: Mutex<HashMap<Host, Instant>>,
}

#[derive(Debug)]
struct Spare {
    sockets: Vec<OwnedFd>,
    standing: HashSet<SocketAddr>,
}

/// Whether connections to an address come.
#[derive(Debug)]
pub(super) enum Stand {
    /// From now on, here.
    New(TcpListener),
    /// Already.
    Stands,
    /// The command itself listens there.
    Taken,
    /// There are too many.
    NoneLeft,
}

impl Names {
    /// Takes the range and the ports; the sockets are the caller's.
    pub(super) fn new(catch: &mut Catch) -> std::io::Result<Self> {
        let mut ports = Vec::new();
        for listener in &catch.listeners {
            let port = listener.local_addr()?.port();
            if !catch.by_address.contains(&port) && !ports.contains(&port) {
                ports.push(port);
            }
        }
        ports.extend(&catch.by_address);
        catch.book.open(catch.first, catch.first_v6);
        Ok(Self {
            book: catch.book.clone(),
            v6: catch.first_v6.is_some(),
            ports,
            by_address: catch.by_address.clone(),
            spare: Mutex::new(Spare {
                sockets: std::mem::take(&mut catch.spare),
                standing: HashSet::new(),
            }),
            told: Mutex::default(),
        })
    }

    /// Ports that are caught.
    pub(super) fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Whether a listener for this port stands only at the addresses it is for.
    pub(super) fn by_address(&self, port: u16) -> bool {
        self.by_address.contains(&port)
    }

    /// Whether names have addresses of this family.
    pub(super) fn has(&self, family: Family) -> bool {
        match family {
            Family::V4 => true,
            Family::V6 => self.v6,
        }
    }

    /// The address of a name.
    pub(super) fn address(&self, host: &Host, family: Family) -> Option<IpAddr> {
        self.book.address(host, family)
    }

    /// The name that an address of the range stands for.
    pub(super) fn name(&self, ip: IpAddr) -> Option<Host> {
        match self.book.look_up(ip) {
            Stands::For(host) => Some(host),
            Stands::ForNothing | Stands::ForItself => None,
        }
    }

    /// Where a connection that was made to this address leads.
    pub(super) fn target(&self, to: SocketAddr) -> Option<Authority> {
        let host = match self.book.look_up(to.ip()) {
            Stands::For(host) => host,
            Stands::ForNothing => return None,
            Stands::ForItself if to.ip().to_canonical().is_loopback() => return None,
            // One that a rule names: nothing else is local.
            Stands::ForItself => Host::Ip(to.ip().to_canonical()),
        };
        Some(Authority {
            host,
            port: to.port(),
        })
    }

    /// Makes connections to an address of a name come.
    pub(super) fn stand(&self, at: SocketAddr) -> Stand {
        let mut spare = lock(&self.spare);
        if spare.standing.contains(&at) {
            return Stand::Stands;
        }
        let Some(socket) = spare.sockets.pop() else {
            return Stand::NoneLeft;
        };
        match sockets::listen_at(&socket, at) {
            Ok(()) => {
                spare.standing.insert(at);
                Stand::New(socket.into())
            }
            Err(error) => {
                // It is as it was, and may do for another address.
                spare.sockets.push(socket);
                if error == Errno::EADDRINUSE {
                    Stand::Taken
                } else {
                    Stand::NoneLeft
                }
            }
        }
    }

    /// Whether the refusal of a name is to be told.
    pub(super) fn tells(&self, host: &Host) -> bool {
        let mut told = lock(&self.told);
        let now = Instant::now();
        if told.len() >= MAX_TOLD {
            told.retain(|_, at| now.duration_since(*at) < TELL_AGAIN);
        }
        if let Some(at) = told.get(host)
            && now.duration_since(*at) < TELL_AGAIN
        {
            return false;
        }
        if told.len() < MAX_TOLD {
            told.insert(host.clone(), now);
        }
        true
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}
