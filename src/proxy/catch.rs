//! Connections of programs that ignore proxy variables (egress-proxy §2.2).
//!
//! In the child's namespace a whole range of addresses is local. The name server there gives each allowed name an address of that
//! range; a connection to it arrives at a listener of ours, and the address it was made to says the name again. What follows is
//! what follows a CONNECT to that name. No question leaves the host: an allowed name is looked up when it is dialled.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::dial::DialError;
use super::dns::{self, Answer, Message, Question};
use super::http;
use super::server::{Protocol, Seat, Shared};
use super::tunnel::Early;
use crate::policy::egress::Denial;
use crate::policy::host::{Authority, Host};

/// Names of one run; a wildcard rule allows any number of them, and each costs memory.
const MAX_NAMES: usize = 16 * 1024;
/// After a failed receive: long enough to not spin.
const PAUSE: Duration = Duration::from_millis(50);
/// Where the Host field is in the open.
const HTTP: u16 = 80;

/// Sockets of the child's namespace that catch what goes around the proxies.
#[derive(Debug)]
pub struct Catch {
    /// The name server's, over UDP.
    pub dns: UdpSocket,
    /// The name server's, over TCP.
    pub dns_tcp: TcpListener,
    /// Listeners on every address of the namespace.
    pub ports: Vec<TcpListener>,
    /// The first address of the range that leads to them.
    pub first: Ipv4Addr,
}

/// Which name an address stands for.
#[derive(Debug)]
pub(super) struct Names {
    first: u32,
    /// Ports that are caught.
    ports: Vec<u16>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// In the order of their addresses.
    names: Vec<Host>,
    places: HashMap<Host, u32>,
}

impl Names {
    pub(super) fn new(first: Ipv4Addr, ports: Vec<u16>) -> Self {
        Self {
            first: first.to_bits(),
            ports,
            known: Mutex::default(),
        }
    }

    /// The address of a name: always the same, and never another name's.
    fn address(&self, host: &Host) -> Option<Ipv4Addr> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = known.places.get(host) {
            return self.first.checked_add(*place).map(Ipv4Addr::from_bits);
        }
        if known.names.len() >= MAX_NAMES {
            return None;
        }
        known.names.push(host.clone());
        // From 1: the first address of a range names the range.
        let place = u32::try_from(known.names.len()).ok()?;
        known.places.insert(host.clone(), place);
        self.first.checked_add(place).map(Ipv4Addr::from_bits)
    }

    /// The name an address was given to.
    fn host(&self, address: IpAddr) -> Option<Host> {
        let IpAddr::V4(v4) = address else { return None };
        let place = v4.to_bits().checked_sub(self.first)?.checked_sub(1)?;
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.names.get(usize::try_from(place).ok()?).cloned()
    }
}

/// Serves one caught connection to its end. Who is not let through is reset.
pub(super) async fn serve(stream: TcpStream, shared: Arc<Shared>, seat: Arc<Seat>) {
    let to = shared.names.as_ref().and_then(|names| {
        let local = stream.local_addr().ok()?;
        Some(Authority {
            host: names.host(local.ip())?,
            port: local.port(),
        })
    });
    let Some(to) = to else {
        // To 127.0.0.1, or to an address that no name has: nobody listens there.
        let _ = stream.set_zero_linger();
        return;
    };
    if to.port == HTTP {
        match Protocol::detect(&stream, shared.limits.first_byte).await {
            Some(Protocol::Http | Protocol::BlankLine) => {
                return http::serve_for(stream, shared, seat, Some(to)).await;
            }
            Some(Protocol::Socks5 | Protocol::Unknown) => {}
            None => return,
        }
    }
    match shared.dialer.dial(&to).await {
        Ok(upstream) => shared.tunnel(&to, stream, upstream, Early::default()).await,
        Err(error) => {
            if let DialError::Denied(denial) = error {
                shared.refused(stream.peer_addr().ok(), to.to_string(), &denial);
            }
            let _ = stream.set_zero_linger();
        }
    }
    drop(seat);
}

/// Answers questions over UDP, for ever.
pub(super) async fn name_server(socket: tokio::net::UdpSocket, shared: Arc<Shared>) {
    let mut buffer = [0; dns::MAX_MESSAGE];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((length, peer)) => {
                let message = buffer.get(..length).unwrap_or_default();
                if let Some(answer) = respond(message, None, &shared) {
                    // Lost answers are asked for again.
                    let _ = socket.try_send_to(&answer, peer);
                }
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Answers the questions of one TCP connection (RFC 7766).
pub(super) async fn name_server_tcp(mut stream: TcpStream, shared: &Shared, _seat: &Arc<Seat>) {
    let peer = stream.peer_addr().ok();
    let one = async |stream: &mut TcpStream| -> io::Result<()> {
        let length = stream.read_u16().await?;
        let mut message = vec![0; usize::from(length)];
        stream.read_exact(&mut message).await?;
        let answer = respond(&message, peer, shared).ok_or(io::ErrorKind::InvalidData)?;
        let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
        stream
            .write_all(&[&length.to_be_bytes()[..], &answer].concat())
            .await
    };
    while let Ok(Ok(())) = timeout(shared.limits.handshake, one(&mut stream)).await {}
}

fn respond(message: &[u8], peer: Option<SocketAddr>, shared: &Shared) -> Option<Vec<u8>> {
    match dns::parse(message) {
        Message::Ignored => None,
        Message::Refused(answer) => Some(answer),
        Message::Question(question) => {
            let answer = decide(&question, peer, shared);
            Some(question.answer(answer))
        }
    }
}

fn decide(question: &Question, peer: Option<SocketAddr>, shared: &Shared) -> Answer {
    let (Some(host @ Host::Name(name)), Some(names)) = (&question.host, &shared.names) else {
        return Answer::NoName;
    };
    if host.is_loopback_name() {
        return if question.wants_ipv4 {
            Answer::Address(Ipv4Addr::LOCALHOST)
        } else {
            Answer::Nothing
        };
    }
    if name.ends_with(".in-addr.arpa") || name.ends_with(".ip6.arpa") {
        return Answer::NoName;
    }
    match allowed(host, names, shared) {
        Ok(()) if !question.wants_ipv4 => Answer::Nothing,
        Ok(()) => names.address(host).map_or(Answer::Failure, Answer::Address),
        Err(refused) => {
            if let Some((to, denial)) = refused {
                shared.refused(peer, to.to_string(), &denial);
            }
            Answer::NoName
        }
    }
}

/// Whether the policy lets a name through at any port that is caught. Otherwise what it says of the last of them, which is 443 with
/// the usual ones: the question does not tell the port.
fn allowed(host: &Host, names: &Names, shared: &Shared) -> Result<(), Option<(Authority, Denial)>> {
    let mut refused = None;
    for &port in &names.ports {
        let to = Authority {
            host: host.clone(),
            port,
        };
        match shared.dialer.decide(&to) {
            Ok(_) => return Ok(()),
            Err(denial) => refused = Some((to, denial)),
        }
    }
    Err(refused)
}
