//! The sandbox' own name server: answers questions about allowed names with addresses that are caught, and no others.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::dns::{self, Answer, Message, Question, Wants};
use super::names::{Family, Names, Stand};
use super::server::{self, Purpose, Seat, Shared};
use crate::policy::host::{Authority, Host};

/// After a failed receive: long enough to not spin.
const PAUSE: Duration = Duration::from_millis(50);
/// A question does not tell the port of the connection that will follow. What is said of a refused name is what would be said of this one.
const WEB: u16 = 443;

/// Where a question came from.
#[derive(Debug, Clone, Copy)]
enum Asked {
    Udp(SocketAddr),
    Tcp(Option<SocketAddr>),
}

/// Answers questions over UDP, for ever.
pub(super) async fn serve(socket: tokio::net::UdpSocket, shared: Arc<Shared>) {
    let mut buffer = [0; dns::MAX_MESSAGE];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((length, peer)) => {
                let message = buffer.get(..length).unwrap_or_default();
                if let Some(answer) = respond(message, Asked::Udp(peer), &shared) {
                    // Lost answers are asked for again.
                    let _ = socket.try_send_to(&answer, peer);
                }
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Answers the questions of one TCP connection (RFC 7766).
pub(super) async fn serve_tcp(mut stream: TcpStream, shared: &Arc<Shared>, _seat: &Arc<Seat>) {
    let peer = Asked::Tcp(stream.peer_addr().ok());
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

fn respond(message: &[u8], peer: Asked, shared: &Arc<Shared>) -> Option<Vec<u8>> {
    match dns::parse(message) {
        Message::Ignored => None,
        Message::Refused(answer) => Some(answer),
        Message::Question(question) => {
            let answer = decide(&question, peer, shared);
            Some(question.answer(answer))
        }
    }
}

fn decide(question: &Question, peer: Asked, shared: &Arc<Shared>) -> Answer {
    let (Some(host @ Host::Name(name)), Some(names)) = (&question.host, &shared.names) else {
        return Answer::NoName;
    };
    if host.is_loopback_name() || is_own(name) {
        // As the hosts file has it, for programs that do not read that.
        return match question.wants {
            Wants::V4 => Answer::Address(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            Wants::V6 | Wants::Other => Answer::Nothing,
        };
    }
    if name.ends_with(".in-addr.arpa") || name.ends_with(".ip6.arpa") {
        return Answer::NoName;
    }
    let ports = allowed(host, names, shared);
    if ports.is_empty() {
        refuse(host, names, peer, shared);
        return Answer::NoName;
    }
    let family = match question.wants {
        Wants::V4 => Family::V4,
        Wants::V6 => Family::V6,
        Wants::Other => return Answer::Nothing,
    };
    if !names.has(family) {
        return Answer::Nothing;
    }
    let Some(address) = names.address(host, family) else {
        return Answer::Failure;
    };
    // Before the answer: the connection may follow at once.
    for port in ports.into_iter().filter(|port| names.by_address(*port)) {
        stand(host, SocketAddr::new(address, port), names, shared);
    }
    Answer::Address(address)
}

/// This machine's name.
fn is_own(name: &str) -> bool {
    nix::unistd::gethostname()
        .ok()
        .and_then(|own| own.into_string().ok())
        .is_some_and(|own| own.eq_ignore_ascii_case(name))
}

/// The caught ports at which the policy lets a name through.
fn allowed(host: &Host, names: &Names, shared: &Shared) -> Vec<u16> {
    let lets = |port: &u16| {
        let to = Authority {
            host: host.clone(),
            port: *port,
        };
        shared.dialer.decide(&to).is_ok()
    };
    names.ports().iter().copied().filter(lets).collect()
}

fn refuse(host: &Host, names: &Names, peer: Asked, shared: &Shared) {
    let to = Authority {
        host: host.clone(),
        port: WEB,
    };
    match shared.dialer.decide(&to) {
        Err(denial) if names.tells(host) => match peer {
            Asked::Udp(peer) => shared.refused_name(peer, host.to_string(), &denial),
            Asked::Tcp(peer) => shared.refused(peer, host.to_string(), &denial),
        },
        // Allowed at ports that are not caught; the proxy leads there.
        Ok(_) | Err(_) => {}
    }
}

/// Makes connections to one address and port come. What cannot be caught is as it would be without: nobody listens there.
fn stand(host: &Host, at: SocketAddr, names: &Names, shared: &Arc<Shared>) {
    let caught = format!("connections without a proxy to {host}:{}", at.port());
    match names.stand(at) {
        Stand::New(listener) => {
            let ready = listener
                .set_nonblocking(true)
                .and_then(|()| tokio::net::TcpListener::from_std(listener));
            if let Ok(listener) = ready {
                tokio::spawn(server::accept(
                    listener,
                    Purpose::Caught,
                    Arc::clone(shared),
                ));
            }
        }
        Stand::Taken if names.tells(host) => shared.sink.warn(&format!(
            "{caught} are not caught: the command itself listens at that port of every address"
        )),
        Stand::NoneLeft if names.tells(host) => shared.sink.warn(&format!(
            "{caught} are not caught: too many names have ports above 1023; the proxy in HTTP_PROXY leads to them"
        )),
        Stand::Stands | Stand::Taken | Stand::NoneLeft => {}
    }
}
