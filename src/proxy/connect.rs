//! `ccbox connect HOST PORT`: ssh's ProxyCommand inside the sandbox.
//!
//! With `-o ProxyUseFdpass=yes` standard output is a socket: the connection is handed to ssh through it and no relay process
//! stays. Otherwise bytes are relayed between it and standard input and output. The token comes from the environment, never
//! from the arguments, which any process may read.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockaddrLike, SockaddrStorage, getsockname, sendmsg,
};

use super::socks_wire as wire;
use crate::exit::Failure;
use crate::policy::host::{Authority, Host};

/// The variable that holds the proxy's address and login.
pub const PROXY_VARIABLE: &str = "CCBOX_SOCKS_PROXY";
/// Longer than the proxy takes to resolve and dial.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(30);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Not inside a sandbox with a network.
    #[error("`{PROXY_VARIABLE}` is not set")]
    NoProxy,
    /// The variable does not hold `socks5h://[user:password@]host:port`.
    #[error("`{PROXY_VARIABLE}` is not an address of a SOCKS proxy")]
    BadProxy,
    /// The destination cannot be said in SOCKS.
    #[error("`{0}` is no host name")]
    BadHost(String),
    /// The proxy cannot be reached or broke off.
    #[error("cannot use the proxy of this sandbox: {}", crate::exit::reason(.0))]
    Proxy(#[from] io::Error),
    /// The proxy does not accept the login.
    #[error("the proxy of this sandbox does not accept the login in `{PROXY_VARIABLE}`")]
    Login,
    /// Refused by policy.
    #[error("the sandbox policy refused {target}")]
    Denied {
        /// Host and port.
        target: String,
    },
    /// The destination cannot be reached.
    #[error("cannot connect to {target}: {why}")]
    Unreachable {
        /// Host and port.
        target: String,
        /// In words.
        why: &'static str,
    },
    /// Neither handing over nor relaying worked.
    #[error("cannot hand the connection over: {}", crate::exit::reason(.0))]
    HandOver(io::Error),
}

impl Failure for ConnectError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoProxy | Self::BadProxy => {
                Some("`ccbox connect` works inside `ccbox run` only".to_owned())
            }
            // A SOCKS reply is a number: which rule refused, and what would allow it, only the ccbox that runs the sandbox knows.
            Self::Denied { .. } => Some(
                "why, and what would allow it, is in the line of the ccbox that runs this sandbox"
                    .to_owned(),
            ),
            Self::BadHost(_)
            | Self::Proxy(_)
            | Self::Login
            | Self::Unreachable { .. }
            | Self::HandOver(_) => None,
        }
    }
}

/// Connects to `host:port` through the proxy named in `env` and hands the connection to the caller.
///
/// # Errors
/// One reason, for the caller to print; nothing has been written to standard output then.
pub fn run(host: &str, port: u16, env: &[(OsString, OsString)]) -> Result<(), ConnectError> {
    let proxy = env
        .iter()
        .rev()
        .find(|(name, _)| name == PROXY_VARIABLE)
        .map(|(_, value)| value.as_os_str())
        .ok_or(ConnectError::NoProxy)?;
    let stream = open(&Proxy::parse(proxy)?, host, port)?;
    let stdout = io::stdout();
    if is_unix_socket(stdout.as_fd()) {
        pass(stdout.as_fd(), &stream).map_err(ConnectError::HandOver)
    } else {
        relay(&stream, io::stdin().as_fd(), stdout.as_fd()).map_err(ConnectError::HandOver)
    }
}

/// Address and login of the proxy.
#[derive(Debug, PartialEq, Eq)]
struct Proxy {
    address: (String, u16),
    login: Option<(String, String)>,
}

impl Proxy {
    fn parse(url: &OsStr) -> Result<Self, ConnectError> {
        let rest = url
            .to_str()
            .and_then(|url| url.strip_prefix("socks5h://"))
            .ok_or(ConnectError::BadProxy)?;
        let (login, address) = match rest.rsplit_once('@') {
            Some((login, address)) => {
                let (user, password) = login.split_once(':').ok_or(ConnectError::BadProxy)?;
                (Some((user.to_owned(), password.to_owned())), address)
            }
            None => (None, rest),
        };
        let to = Authority::parse(address.as_bytes(), None).map_err(|_| ConnectError::BadProxy)?;
        let host = to.host.to_string();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Ok(Self {
            address: (host.to_owned(), to.port),
            login,
        })
    }
}

/// A connection to the destination, after a SOCKS handshake that reads not one byte too many.
fn open(proxy: &Proxy, host: &str, port: u16) -> Result<TcpStream, ConnectError> {
    let (proxy_host, proxy_port) = &proxy.address;
    let mut stream = TcpStream::connect((proxy_host.as_str(), *proxy_port))?;
    stream.set_read_timeout(Some(HANDSHAKE_LIMIT))?;
    stream.set_write_timeout(Some(HANDSHAKE_LIMIT))?;
    // Latency only.
    let _ = stream.set_nodelay(true);

    let method = if proxy.login.is_some() { 2 } else { 0 };
    stream.write_all(&[wire::VERSION, 1, method])?;
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen)?;
    if chosen != [wire::VERSION, method] {
        return Err(ConnectError::Login);
    }
    if let Some((user, password)) = &proxy.login {
        let mut message = vec![wire::LOGIN_VERSION];
        for part in [user, password] {
            message.push(u8::try_from(part.len()).map_err(|_| ConnectError::BadProxy)?);
            message.extend(part.as_bytes());
        }
        stream.write_all(&message)?;
        let mut verdict = [0; 2];
        stream.read_exact(&mut verdict)?;
        if verdict != [wire::LOGIN_VERSION, 0] {
            return Err(ConnectError::Login);
        }
    }

    let length = u8::try_from(host.len())
        .ok()
        .filter(|n| *n > 0)
        .ok_or_else(|| ConnectError::BadHost(host.to_owned()))?;
    let mut request = vec![wire::VERSION, wire::CONNECT, 0, 3, length];
    request.extend(host.as_bytes());
    request.extend(port.to_be_bytes());
    stream.write_all(&request)?;
    let code = read_reply(&mut stream)?;
    let asked = Host::parse(host.as_bytes())
        .ok()
        .map(|host| Authority { host, port });
    let target = asked
        .as_ref()
        .map_or_else(|| format!("{host}:{port}"), Authority::to_string);
    let unreachable = |why| {
        Err(ConnectError::Unreachable {
            target: target.clone(),
            why,
        })
    };
    match code {
        0 => {
            stream.set_read_timeout(None)?;
            stream.set_write_timeout(None)?;
            Ok(stream)
        }
        2 => Err(ConnectError::Denied { target }),
        4 => unreachable("it cannot be resolved"),
        5 => unreachable("connection refused or no route"),
        6 => unreachable("no answer in time"),
        _ => unreachable("the proxy failed"),
    }
}

fn read_reply(stream: &mut TcpStream) -> io::Result<u8> {
    let invalid = |e| io::Error::new(io::ErrorKind::InvalidData, e);
    let mut reply = vec![0; 5];
    stream.read_exact(&mut reply)?;
    let length = wire::reply_length(&reply)
        .map_err(invalid)?
        .ok_or(io::ErrorKind::InvalidData)?;
    let mut rest = vec![0; length.saturating_sub(reply.len())];
    stream.read_exact(&mut rest)?;
    reply
        .get(1)
        .copied()
        .ok_or(io::ErrorKind::InvalidData.into())
}

fn is_unix_socket(fd: BorrowedFd<'_>) -> bool {
    getsockname::<SockaddrStorage>(fd.as_raw_fd())
        .is_ok_and(|address| address.family() == Some(AddressFamily::Unix))
}

/// One byte with the descriptor as ancillary data: what OpenSSH's `mm_receive_fd` expects.
fn pass(to: BorrowedFd<'_>, stream: &TcpStream) -> io::Result<()> {
    let rights = [stream.as_raw_fd()];
    sendmsg::<()>(
        to.as_raw_fd(),
        &[IoSlice::new(&[0])],
        &[ControlMessage::ScmRights(&rights)],
        MsgFlags::empty(),
        None,
    )?;
    Ok(())
}

/// Bytes both ways until the far side ends; the end of the input is passed on.
fn relay(stream: &TcpStream, input: BorrowedFd<'_>, output: BorrowedFd<'_>) -> io::Result<()> {
    let mut input = File::from(input.try_clone_to_owned()?);
    let mut output = File::from(output.try_clone_to_owned()?);
    let mut upload = stream.try_clone()?;
    // Not joined: it may wait for input for ever after the far side has ended.
    std::thread::Builder::new().spawn(move || {
        // An error here is one of the stream's, which the other direction reports, or of the input, which is its end.
        let _ = io::copy(&mut input, &mut upload);
        let _ = upload.shutdown(Shutdown::Write);
    })?;
    match io::copy(&mut &*stream, &mut output).and_then(|_| output.flush()) {
        // Nobody reads any more: the end, as for any relay.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
