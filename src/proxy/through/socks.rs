//! The client's side of SOCKS5 (RFC 1928, RFC 1929), to a proxy of the caller's network: CONNECT, the name sent as it is.

use std::io;
use std::net::IpAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::Trouble;
use crate::policy::host::{Authority, Host};
use crate::policy::upstream::Login;
use crate::proxy::socks_wire::{self as wire, LOGIN_VERSION, VERSION};

/// Methods: none, and user name with password. No acceptable method.
const NONE: u8 = 0;
const WITH_LOGIN: u8 = 2;
const NO_METHOD: u8 = 0xff;

/// Asks for a tunnel. Reads the answer and no byte more.
pub(super) async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    login: Option<&Login>,
    to: &Authority,
) -> io::Result<Result<(), Trouble>> {
    // A proxy that wants none takes none; the login is only for one that asks.
    let offer: &[u8] = match login {
        Some(_) => &[VERSION, 2, NONE, WITH_LOGIN],
        None => &[VERSION, 1, NONE],
    };
    send(stream, offer).await?;
    let [version, method] = read(stream).await?;
    if version != VERSION {
        return Ok(Err(Trouble::NotSocks));
    }
    match (method, login) {
        (NONE, _) => {}
        (WITH_LOGIN, Some(login)) => {
            let Some(message) = login_message(login) else {
                return Ok(Err(Trouble::SocksLoginRefused));
            };
            send(stream, &message).await?;
            let [version, status] = read(stream).await?;
            if version != LOGIN_VERSION {
                return Ok(Err(Trouble::NotSocks));
            }
            if status != 0 {
                return Ok(Err(Trouble::SocksLoginRefused));
            }
        }
        (NO_METHOD, Some(_)) => return Ok(Err(Trouble::SocksLoginRefused)),
        (NO_METHOD, None) => return Ok(Err(Trouble::SocksLoginMissing)),
        (_, _) => return Ok(Err(Trouble::NotSocks)),
    }
    let Some(request) = request(to) else {
        let why = "the name is too long for SOCKS".to_owned();
        return Ok(Err(Trouble::Refused(to.clone(), why)));
    };
    send(stream, &request).await?;
    let [version, reply, _, kind] = read(stream).await?;
    if version != VERSION {
        return Ok(Err(Trouble::NotSocks));
    }
    // The address it connects from is of no interest.
    let length = match kind {
        1 => 4,
        4 => 16,
        3 => usize::from(stream.read_u8().await?),
        _ => return Ok(Err(Trouble::NotSocks)),
    };
    let mut rest = vec![0; length + 2];
    stream.read_exact(&mut rest).await?;
    Ok(match words(reply) {
        None => Ok(()),
        Some(words) => Err(Trouble::Refused(to.clone(), words)),
    })
}

async fn send<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

async fn read<S: AsyncRead + Unpin, const N: usize>(stream: &mut S) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// RFC 1929 §2; `None` where one part is too long for it.
fn login_message(login: &Login) -> Option<Vec<u8>> {
    // RFC 7617 has no colon in the user name either, and the address was read by that.
    let both = login.user_pass();
    let colon = both.iter().position(|b| *b == b':')?;
    let (user, password) = (both.get(..colon)?, both.get(colon + 1..)?);
    let mut message = vec![LOGIN_VERSION, u8::try_from(user.len()).ok()?];
    message.extend(user);
    message.push(u8::try_from(password.len()).ok()?);
    message.extend(password);
    Some(message)
}

fn request(to: &Authority) -> Option<Vec<u8>> {
    let mut message = vec![VERSION, wire::CONNECT, 0];
    match &to.host {
        Host::Ip(IpAddr::V4(v4)) => {
            message.push(1);
            message.extend(v4.octets());
        }
        Host::Ip(IpAddr::V6(v6)) => {
            message.push(4);
            message.extend(v6.octets());
        }
        Host::Name(name) => {
            message.extend([3, u8::try_from(name.len()).ok()?]);
            message.extend(name.as_bytes());
        }
    }
    message.extend(to.port.to_be_bytes());
    Some(message)
}

/// RFC 1928 §6.
fn words(reply: u8) -> Option<String> {
    Some(match reply {
        0 => return None,
        1 => "it failed".to_owned(),
        2 => "its rules do not allow it".to_owned(),
        3 => "network unreachable".to_owned(),
        4 => "host unreachable".to_owned(),
        5 => "connection refused".to_owned(),
        6 => "no answer in time".to_owned(),
        7 => "it does not know CONNECT".to_owned(),
        8 => "it does not know this kind of address".to_owned(),
        other => format!("SOCKS reply {other}"),
    })
}
