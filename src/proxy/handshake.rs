//! The beginning of a TLS connection in a tunnel: both of its hellos are read, where there are two.
//!
//! A server may ask a client to try again (HelloRetryRequest, RFC 8446 §4.1.4), and a client can make it do so, with a key share
//! that the server does not take. The second hello must be the first one's but for that, and servers do not all look: OpenSSL
//! takes the name of the second. So no byte behind the first hello goes out before the server's answer has said whether there
//! will be another. What follows is encrypted, or of a handshake that has its name.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client_hello::{self, HANDSHAKE_RECORD, Hello, MAX_HELLO};
use super::link::{Link, Reached};
use super::tunnel::Early;
use super::vet::{Expected, VetError, fill};

/// RFC 8446 §4.1.3: the random of a ServerHello that is a HelloRetryRequest.
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];
/// Record header, message header, version: what stands before the random.
const BEFORE_RANDOM: usize = 5 + 4 + 2;
const SERVER_HELLO: u8 = 2;
const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const APPLICATION_DATA: u8 = 23;
/// Records that a client may send between its hellos, early data among them, together.
const MOST_BETWEEN: usize = 64 * 1024;

/// A tunnel whose beginning has been seen to.
pub(super) struct Begun {
    pub(super) upstream: Reached,
    pub(super) early: Early,
    /// The first hello, where it was TLS; nothing is left to be judged then.
    pub(super) hello: Option<Bytes>,
    /// What has been passed on, from the client and to it.
    pub(super) passed: (usize, usize),
}

/// Waits for who speaks first, and sees a TLS client through its hellos. Everything else is left as it is.
pub(super) async fn begin(
    expected: &Expected<'_>,
    client: &TcpStream,
    mut upstream: Reached,
    early: Early,
) -> Result<Begun, (VetError, Reached)> {
    match client_is_tls(client, &mut upstream, &early).await {
        Ok(true) => {}
        Ok(false) => {
            return Ok(Begun {
                upstream,
                early,
                hello: None,
                passed: (0, 0),
            });
        }
        Err(e) => return Err((e.into(), upstream)),
    }
    match greet(expected, client, &mut upstream.link, early.from_client).await {
        Ok((hello, rest, answer, passed)) => Ok(Begun {
            upstream,
            early: Early {
                from_client: rest,
                from_upstream: answer,
            },
            hello: Some(hello),
            passed,
        }),
        Err(e) => Err((e, upstream)),
    }
}

/// Whether the client speaks first, and TLS. What the server says meanwhile is kept.
async fn client_is_tls(
    client: &TcpStream,
    upstream: &mut Reached,
    early: &Early,
) -> io::Result<bool> {
    if !upstream.early.is_empty() || !early.from_upstream.is_empty() {
        return Ok(false);
    }
    if let Some(first) = early.from_client.first() {
        return Ok(*first == HANDSHAKE_RECORD);
    }
    let mut first = [0];
    if let Link::Plain(server) = &upstream.link {
        tokio::select! {
            biased;
            peeked = client.peek(&mut first) => Ok(peeked? == 1 && first == [HANDSHAKE_RECORD]),
            ready = server.readable() => ready.map(|()| false),
        }
    } else {
        // Readable may be what TLS to the proxy has to say for itself.
        let mut said = BytesMut::new();
        tokio::select! {
            biased;
            peeked = client.peek(&mut first) => Ok(peeked? == 1 && first == [HANDSHAKE_RECORD]),
            read = upstream.link.read_buf(&mut said) => {
                read?;
                upstream.early = said.freeze();
                Ok(false)
            }
        }
    }
}

/// First hello, what comes behind, the server's answer so far, and how much has been passed on.
type Greeted = (Bytes, Bytes, Bytes, (usize, usize));

async fn greet(
    expected: &Expected<'_>,
    client: &TcpStream,
    server: &mut Link,
    early: Bytes,
) -> Result<Greeted, VetError> {
    let mut hello = expected.vet(client, early).await?;
    let Some(length) = records(&hello) else {
        // Something else in the record of the hello, where nothing has a place.
        return Err(expected.malformed());
    };
    let rest = hello.split_off(length);
    server.write_all(&hello).await?;
    server.flush().await?;
    let mut answer = BytesMut::new();
    while answer.len() < BEFORE_RANDOM + RETRY.len() && is_server_hello(&answer) {
        let read = tokio::select! {
            read = server.read_buf(&mut answer) => read?,
            ended = ended(client) => {
                ended?;
                // Nothing follows but what is there.
                let rest = again(expected, client, rest).await?;
                let sent = hello.len();
                return Ok((hello, rest, answer.freeze(), (sent, 0)));
            }
        };
        if read == 0 {
            break;
        }
    }
    let sent = hello.len();
    let retry = answer.get(BEFORE_RANDOM..BEFORE_RANDOM + RETRY.len()) == Some(&RETRY[..]);
    if !retry || !is_server_hello(&answer) {
        return Ok((hello, rest, answer.freeze(), (sent, 0)));
    }
    let received = answer.len();
    let mut out = &answer[..];
    while !out.is_empty() {
        client.writable().await?;
        match client.try_write(out) {
            Ok(n) => out = out.get(n..).unwrap_or_default(),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e.into()),
        }
    }
    let second = again(expected, client, rest).await?;
    Ok((hello, second, Bytes::new(), (sent, received)))
}

/// Waits for the client's end, if there is nothing before it.
async fn ended(client: &TcpStream) -> io::Result<()> {
    if client.peek(&mut [0]).await? > 0 {
        std::future::pending::<()>().await;
    }
    Ok(())
}

/// Whether this may be the beginning of a ServerHello.
fn is_server_hello(answer: &[u8]) -> bool {
    answer.first().is_none_or(|b| *b == HANDSHAKE_RECORD)
        && answer.get(5).is_none_or(|b| *b == SERVER_HELLO)
}

/// The client's bytes up to a second hello and with it, which has been judged like the first.
async fn again(
    expected: &Expected<'_>,
    client: &TcpStream,
    rest: Bytes,
) -> Result<Bytes, VetError> {
    let mut read = BytesMut::from(rest);
    let mut at = 0;
    loop {
        let next = read.get(at..).unwrap_or_default();
        match next {
            [HANDSHAKE_RECORD, ..] => match client_hello::parse(next) {
                Hello::Partial if next.len() <= MAX_HELLO => {}
                verdict @ (Hello::Partial
                | Hello::Other
                | Hello::Old
                | Hello::Tls(_)
                | Hello::Malformed) => {
                    let whole = if verdict == Hello::Partial {
                        Hello::Malformed
                    } else {
                        verdict
                    };
                    expected.judge(whole)?;
                    return Ok(read.freeze());
                }
            },
            [ALERT, ..] => return Ok(read.freeze()),
            [CHANGE_CIPHER_SPEC | APPLICATION_DATA, _, _, a, b, ..] => {
                at += 5 + usize::from(u16::from_be_bytes([*a, *b]));
                if at > MOST_BETWEEN {
                    return Err(expected.malformed());
                }
                if at <= read.len() {
                    continue;
                }
            }
            [] | [CHANGE_CIPHER_SPEC | APPLICATION_DATA, ..] => {}
            _ => return Err(expected.malformed()),
        }
        let cut = next.first() == Some(&HANDSHAKE_RECORD);
        if fill(client, &mut read).await? == 0 {
            if cut {
                return Err(expected.malformed());
            }
            return Ok(read.freeze());
        }
    }
}

/// The length of the records that carry the first handshake message; `None` where it ends inside one.
fn records(bytes: &[u8]) -> Option<usize> {
    let mut wanted = None;
    let mut message: Vec<u8> = Vec::new();
    let mut at = 0usize;
    loop {
        if let Some(&[_, a, b, c]) = message.first_chunk::<4>() {
            wanted = Some(4 + (usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c)));
        }
        if wanted == Some(message.len()) {
            return Some(at);
        }
        let &[_, _, _, a, b] = bytes.get(at..)?.first_chunk::<5>()?;
        let start = at + 5;
        at = start + usize::from(u16::from_be_bytes([a, b]));
        message.extend(bytes.get(start..at)?);
    }
}

#[cfg(test)]
mod tests;
