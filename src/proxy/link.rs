//! A connection that was opened for a client: plain TCP, or through TLS to an `https://` upstream proxy.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::tunnel::{Early, Ends};

/// The way to the outside.
#[derive(Debug)]
pub(super) enum Link {
    /// To the destination, or to a proxy that passes bytes on.
    Plain(TcpStream),
    /// To a proxy, inside TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Link {
    /// The socket of the connection.
    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(tls) => tls.get_ref().0,
        }
    }
}

/// A destination's end of a connection, and what came from it already.
#[derive(Debug)]
pub(super) struct Reached {
    pub(super) link: Link,
    pub(super) early: Bytes,
}

impl Reached {
    /// Both ends of a tunnel.
    pub(super) fn ends(self, client: TcpStream, early: Early) -> Ends {
        let from_upstream = if self.early.is_empty() {
            early.from_upstream
        } else {
            let mut all = BytesMut::from(self.early);
            all.extend_from_slice(&early.from_upstream);
            all.freeze()
        };
        Ends {
            client,
            upstream: self.link,
            early: Early {
                from_upstream,
                ..early
            },
        }
    }
}

impl From<Link> for Reached {
    fn from(link: Link) -> Self {
        Self {
            link,
            early: Bytes::new(),
        }
    }
}

impl From<TcpStream> for Reached {
    fn from(stream: TcpStream) -> Self {
        Link::Plain(stream).into()
    }
}

impl AsyncRead for Link {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Link {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, data),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, data),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, data),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, data),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
