//! Connections through a proxy of the caller's network (R46): CONNECT over TCP or TLS, or SOCKS5; the name sent as it is.
//!
//! The rules for names are asked first, as always. What stands behind a name is looked up by that proxy alone: in such networks
//! only it can, so addresses are checked where the destination is an address.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use super::dial::describe;
use super::link::{Link, Reached};
use super::token::base64;
use crate::policy::host::{Authority, Host};
use crate::policy::upstream::{Hop, ProxyScheme};

mod socks;

/// Heads of answers to CONNECT.
const MAX_HEAD: usize = 64 * 1024;

/// An upstream proxy that was of no use.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the upstream proxy {proxy} ({named}) {trouble}")]
pub(super) struct ProxyError {
    proxy: String,
    named: &'static str,
    trouble: Trouble,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub(super) enum Trouble {
    #[error("cannot be resolved: {0}")]
    Unresolved(String),
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    #[error("does not answer in time")]
    Silent,
    #[error("cannot be trusted: {0}")]
    Tls(String),
    #[error("wants a login, and its address has none (407)")]
    LoginMissing,
    #[error("does not accept the login in its address (407)")]
    LoginRefused,
    #[error(
        "wants a login of another kind than Basic (407): {0}; name a helper of this machine that logs in there (cntlm, px)"
    )]
    LoginKind(String),
    #[error("broke off: {0}")]
    Broken(String),
    #[error("did not answer in HTTP")]
    NotHttp,
    #[error("did not answer in SOCKS5")]
    NotSocks,
    #[error("wants a login, and its address has none")]
    SocksLoginMissing,
    #[error("does not accept the login in its address")]
    SocksLoginRefused,
    #[error("did not open a connection to {0}: {1}")]
    Refused(Authority, String),
}

impl ProxyError {
    pub(super) fn new(hop: &Hop, trouble: Trouble) -> Self {
        Self {
            proxy: hop.proxy.to_string(),
            named: hop.named,
            trouble,
        }
    }

    /// A proxy's 407, by what it offers.
    pub(super) fn login<'a>(hop: &Hop, offers: impl Iterator<Item = &'a str>) -> Self {
        let kinds: Vec<&str> = offers
            .filter_map(|offer| offer.split_whitespace().next())
            .collect();
        let basic = kinds.iter().any(|k| k.eq_ignore_ascii_case("basic"));
        let trouble = if !basic && !kinds.is_empty() {
            Trouble::LoginKind(kinds.join(", "))
        } else if hop.proxy.login.is_some() {
            Trouble::LoginRefused
        } else {
            Trouble::LoginMissing
        };
        Self::new(hop, trouble)
    }
}

/// `Basic …`, where the proxy's address has a login.
pub(super) fn authorization(hop: &Hop) -> Option<String> {
    let login = hop.proxy.login.as_ref()?;
    Some(format!("Basic {}", base64(login.user_pass())))
}

/// Speaks TLS to a proxy whose address says so.
pub(super) async fn secured(
    hop: &Hop,
    stream: TcpStream,
    config: Option<Arc<ClientConfig>>,
) -> Result<Link, ProxyError> {
    // Latency only.
    let _ = stream.set_nodelay(true);
    let Some(config) = config.filter(|_| hop.proxy.scheme == ProxyScheme::Https) else {
        return Ok(Link::Plain(stream));
    };
    let failed = |why: String| ProxyError::new(hop, Trouble::Tls(why));
    let name = match &hop.proxy.at.host {
        Host::Name(name) => {
            ServerName::try_from(name.clone()).map_err(|e| failed(e.to_string()))?
        }
        Host::Ip(ip) => ServerName::IpAddress((*ip).into()),
    };
    let connecting = TlsConnector::from(config).connect(name, stream);
    let tls = connecting.await.map_err(|e| failed(describe(&e)))?;
    Ok(Link::Tls(Box::new(tls)))
}

/// The certificate authorities of this machine, or those that `SSL_CERT_FILE` names. Read when the first proxy wants them.
pub(super) fn tls_config() -> Result<Arc<ClientConfig>, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let why = found.errors.first().map(ToString::to_string);
        let why = why.unwrap_or_else(|| "none installed".to_owned());
        return Err(format!("no certificate authority to check it with: {why}"));
    }
    let provider = Arc::new(crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Asks for a tunnel, and leaves what comes behind the answer for whoever uses it.
pub(super) async fn connect(
    hop: &Hop,
    mut link: Link,
    to: &Authority,
) -> Result<Reached, ProxyError> {
    let exchanged = match hop.proxy.scheme {
        ProxyScheme::Http | ProxyScheme::Https => exchange(&mut link, hop, to).await,
        ProxyScheme::Socks5 => {
            let exchanged = socks::exchange(&mut link, hop.proxy.login.as_ref(), to).await;
            exchanged.map(|said| {
                let said = said.map_err(|trouble| ProxyError::new(hop, trouble));
                said.map(|()| Bytes::new())
            })
        }
    };
    match exchanged {
        Ok(Ok(early)) => Ok(Reached { link, early }),
        Ok(Err(trouble)) => Err(trouble),
        Err(e) => Err(ProxyError::new(hop, Trouble::Broken(describe(&e)))),
    }
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    hop: &Hop,
    to: &Authority,
) -> io::Result<Result<Bytes, ProxyError>> {
    let mut request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n");
    if let Some(value) = authorization(hop) {
        request.push_str("Proxy-Authorization: ");
        request.push_str(&value);
        request.push_str("\r\n");
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut read = BytesMut::new();
    loop {
        if let Some((head, length)) = head(&read) {
            let rest = read.split_off(length).freeze();
            return Ok(judge(&head, hop, to).map(|()| rest));
        }
        if read.len() > MAX_HEAD {
            return Ok(Err(ProxyError::new(hop, Trouble::NotHttp)));
        }
        if stream.read_buf(&mut read).await? == 0 {
            let trouble = if read.is_empty() {
                Trouble::Broken("it closed the connection".to_owned())
            } else {
                Trouble::NotHttp
            };
            return Ok(Err(ProxyError::new(hop, trouble)));
        }
    }
}

/// The first head, once it is whole, and its length.
fn head(read: &[u8]) -> Option<(String, usize)> {
    let end = (1..=read.len()).find(|n| {
        read.get(..*n)
            .is_some_and(|t| t.ends_with(b"\n\n") || t.ends_with(b"\n\r\n"))
    })?;
    let text = String::from_utf8_lossy(read.get(..end)?).into_owned();
    Some((text, end))
}

fn judge(head: &str, hop: &Hop, to: &Authority) -> Result<(), ProxyError> {
    let mut lines = head.lines();
    let status = lines
        .next()
        .filter(|line| line.starts_with("HTTP/1."))
        .and_then(|line| line.split_once(' '))
        .map(|(_, status)| status.trim());
    let code = status.and_then(|s| s.split(' ').next());
    match code.filter(|c| c.len() == 3 && c.bytes().all(|b| b.is_ascii_digit())) {
        Some(code) if code.starts_with('2') => Ok(()),
        Some("407") => {
            let offers = lines.filter_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("proxy-authenticate")
                    .then_some(value)
            });
            Err(ProxyError::login(hop, offers))
        }
        Some(_) => {
            let status: String = status.unwrap_or_default().chars().take(100).collect();
            let trouble = Trouble::Refused(to.clone(), status);
            Err(ProxyError::new(hop, trouble))
        }
        None => Err(ProxyError::new(hop, Trouble::NotHttp)),
    }
}

#[cfg(test)]
mod tests;
