//! The SOCKS5 front end: CONNECT only, by name or address.
//!
//! BIND and UDP ASSOCIATE are answered with 7: no tool needs them, and UDP would be a second policy surface that lets DNS and
//! QUIC out.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::dial::DialError;
use super::link::Reached;
use super::server::{self, Seat, Shared, farewell};
use super::socks_wire::{self as wire, Destination, Parsed, Reply, WireError};
use super::tunnel::Early;
use crate::policy::address;
use crate::policy::egress::{Denial, DenyReason};
use crate::policy::host::{Authority, Host};

/// `05 FF`: none of the offered methods.
pub(super) const NO_METHOD: [u8; 2] = [wire::VERSION, 0xff];

/// Serves one connection to its end.
pub(super) async fn serve(mut stream: TcpStream, shared: Arc<Shared>, seat: Arc<Seat>) {
    let mut buffer = BytesMut::with_capacity(512);
    let handshake = timeout(
        shared.limits.handshake,
        shake(&mut stream, &mut buffer, &shared),
    );
    let request = match handshake.await {
        Ok(Ok(request)) => request,
        Ok(Err(Handshake::Answer(bytes))) => return farewell(&mut stream, &bytes).await,
        Ok(Err(Handshake::Close)) | Err(_) => return,
    };
    match connect(&request, stream.peer_addr().ok(), &shared).await {
        Ok((to, upstream)) => {
            if stream.write_all(&Reply::Succeeded.bytes()).await.is_ok() {
                let early = Early {
                    from_client: buffer.freeze(),
                    from_upstream: Bytes::new(),
                };
                server::tunnel(shared, seat, to, stream, upstream, early).await;
            }
        }
        Err(reply) => farewell(&mut stream, &reply.bytes()).await,
    }
}

/// How a handshake ends early.
enum Handshake {
    /// With an answer.
    Answer(Vec<u8>),
    /// Without one.
    Close,
}

impl From<io::Error> for Handshake {
    fn from(_: io::Error) -> Self {
        Self::Close
    }
}

async fn shake(
    stream: &mut TcpStream,
    buffer: &mut BytesMut,
    shared: &Shared,
) -> Result<wire::Request, Handshake> {
    let greeting = read(stream, buffer, wire::greeting)
        .await?
        .map_err(|_| Handshake::Close)?;
    match &shared.token {
        Some(token) => {
            if !greeting.login {
                return Err(Handshake::Answer(NO_METHOD.to_vec()));
            }
            stream.write_all(&[wire::VERSION, 2]).await?;
            let (user, password) = read(stream, buffer, wire::login)
                .await?
                .map_err(|_| Handshake::Close)?;
            if !token.accepts_login(&user, &password) {
                return Err(Handshake::Answer(vec![wire::LOGIN_VERSION, 1]));
            }
            stream.write_all(&[wire::LOGIN_VERSION, 0]).await?;
        }
        None if greeting.none => stream.write_all(&[wire::VERSION, 0]).await?,
        // Without a token the namespace is the boundary: whatever a client insists on saying is accepted.
        None if greeting.login => {
            stream.write_all(&[wire::VERSION, 2]).await?;
            read(stream, buffer, wire::login)
                .await?
                .map_err(|_| Handshake::Close)?;
            stream.write_all(&[wire::LOGIN_VERSION, 0]).await?;
        }
        None => return Err(Handshake::Answer(NO_METHOD.to_vec())),
    }
    let request = read(stream, buffer, wire::request)
        .await?
        .map_err(|e| match e {
            WireError::AddressType => Handshake::Answer(Reply::AddressType.bytes().to_vec()),
            WireError::Version => Handshake::Close,
        })?;
    if request.command != wire::CONNECT {
        return Err(Handshake::Answer(Reply::Command.bytes().to_vec()));
    }
    Ok(request)
}

/// Reads until a parser is content; what follows the message stays in the buffer.
async fn read<T>(
    stream: &mut TcpStream,
    buffer: &mut BytesMut,
    parse: fn(&[u8]) -> Result<Parsed<T>, WireError>,
) -> io::Result<Result<T, WireError>> {
    loop {
        match parse(buffer) {
            Ok(Parsed::Done(value, n)) => {
                buffer.advance(n);
                return Ok(Ok(value));
            }
            Ok(Parsed::Partial) => {}
            Err(e) => return Ok(Err(e)),
        }
        if stream.read_buf(buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

async fn connect(
    request: &wire::Request,
    peer: Option<SocketAddr>,
    shared: &Shared,
) -> Result<(Authority, Reached), Reply> {
    let host = match &request.to {
        Destination::Ip(ip) => Ok(Host::Ip(address::canonical(*ip))),
        Destination::Name(name) => Host::parse(name),
    };
    let host = match (host, request.port) {
        (Ok(host), 1..) => host,
        (Ok(_), 0) => return Err(Reply::Failure),
        // `denied.test\0.allowed.test` is nobody's typing mistake: refused like a destination that no rule can name.
        (Err(e), port) => {
            let denial = Denial {
                reason: DenyReason::NotAllowed,
                rule: e.to_string(),
                hint: None,
            };
            shared.refused(peer, format!("{}:{port}", shown(request)), &denial);
            return Err(Reply::NotAllowed);
        }
    };
    let to = shared.by_name(Authority {
        host,
        port: request.port,
    });
    let dialled = shared.dialer.dial(&to).await.map_err(|e| match e {
        DialError::Denied(denial) => {
            shared.refused(peer, to.to_string(), &denial);
            Reply::NotAllowed
        }
        DialError::Unresolved(..) => Reply::HostUnreachable,
        DialError::Unreachable(..) => Reply::Refused,
        DialError::ResolveTimeout(_) | DialError::ConnectTimeout(_) => Reply::Expired,
        DialError::Loop(_) | DialError::Proxy(_) => Reply::Failure,
    })?;
    Ok((to, dialled))
}

/// A name that did not parse, for the report, which escapes it. What stands before an `@` may be a password.
fn shown(request: &wire::Request) -> String {
    match &request.to {
        Destination::Ip(ip) => ip.to_string(),
        Destination::Name(name) => {
            let name = name.rsplit(|b| *b == b'@').next().unwrap_or(name);
            String::from_utf8_lossy(name).into_owned()
        }
    }
}
