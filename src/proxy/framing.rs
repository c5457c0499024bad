//! Sees request heads as they came, before hyper tidies them: one that gives both a length and a transfer coding is refused.
//!
//! hyper takes such a request by its transfer coding and leaves the length out, which is one of the two answers RFC 9112 §6.3
//! allows, and what it sends on is framed anew. But nobody who means well sends one, two readings of one request are how requests
//! are smuggled, and a refusal says so. hyper shows no trace of the dropped field, hence a look at the bytes.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// More than hyper reads ahead of a request it has not handed over; past that, nothing is known any more.
const MOST: usize = 256 * 1024;

/// A connection whose incoming bytes are looked at.
#[derive(Debug)]
pub(super) struct Tapped<S = TcpStream> {
    /// Read from the stream already.
    early: Bytes,
    stream: S,
    heads: Heads,
}

impl<S> Tapped<S> {
    /// `early` was read from the stream already.
    pub(super) fn new(stream: S, early: Bytes) -> (Self, Heads) {
        let heads = Heads(Arc::new(Mutex::new(Some(Seen::default()))));
        let tapped = Self {
            early,
            stream,
            heads: heads.clone(),
        };
        (tapped, heads)
    }

    /// The stream, and what of the early bytes nobody has read.
    pub(super) fn into_parts(self) -> (S, Bytes) {
        (self.stream, self.early)
    }
}

/// The heads of one connection, in the order hyper hands the requests over.
#[derive(Debug, Clone)]
pub(super) struct Heads(Arc<Mutex<Option<Seen>>>);

/// Bytes from the start of the next head on. `None` in its place: where the next head begins is not known, and hyper's reading
/// stands.
#[derive(Debug, Default)]
struct Seen {
    /// Of the previous request's body, still to come.
    skip: u64,
    bytes: Vec<u8>,
}

impl Heads {
    fn saw(&self, data: &[u8]) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(s) = seen.as_mut() {
            s.add(data);
            if s.bytes.len() > MOST {
                *seen = None;
            }
        }
    }

    /// Whether the request that hyper hands over now came with a length and a transfer coding. Called once for each request,
    /// before its body is read; `headers` are what hyper left.
    pub(super) fn next_is_ambiguous(&self, headers: &HeaderMap) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut s) = seen.take() else {
            return false;
        };
        let Some(head) = s.take_head() else {
            return false;
        };
        // A chunked body, or a protocol that takes over, has no length known here: the last request of this connection that
        // can be looked at.
        if !headers.contains_key(TRANSFER_ENCODING) {
            let length = headers
                .get(CONTENT_LENGTH)
                .map_or(Some(0), |v: &HeaderValue| v.to_str().ok()?.parse().ok());
            if let Some(length) = length {
                let rest = std::mem::take(&mut s.bytes);
                s.skip = length;
                s.add(&rest);
                *seen = Some(s);
            }
        }
        names(&head, "content-length") && names(&head, "transfer-encoding")
    }
}

impl Seen {
    fn add(&mut self, data: &[u8]) {
        let skipped = usize::try_from(self.skip).map_or(data.len(), |n| n.min(data.len()));
        self.skip = self.skip.saturating_sub(skipped as u64);
        self.bytes
            .extend_from_slice(data.get(skipped..).unwrap_or_default());
    }

    /// The first head, its empty line included; lines end with LF or CR LF, and empty lines before a request are skipped (RFC
    /// 9112 §2.2), as hyper reads them.
    fn take_head(&mut self) -> Option<Vec<u8>> {
        let start = self.bytes.iter().position(|b| !b"\r\n".contains(b))?;
        let text = self.bytes.get(start..)?;
        let end = (1..=text.len()).find(|n| {
            text.get(..*n)
                .is_some_and(|t| t.ends_with(b"\n\n") || t.ends_with(b"\n\r\n"))
        })?;
        let rest = self.bytes.split_off(start + end);
        Some(std::mem::replace(&mut self.bytes, rest))
    }
}

/// Whether a line of the head is this field.
fn names(head: &[u8], field: &str) -> bool {
    head.split(|b| *b == b'\n').skip(1).any(|line| {
        let name = line.split(|b| *b == b':').next().unwrap_or_default();
        name.len() < line.len() && name.trim_ascii().eq_ignore_ascii_case(field.as_bytes())
    })
}

impl<S: AsyncRead + Unpin> AsyncRead for Tapped<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.early.is_empty() {
            let n = self.early.len().min(buf.remaining());
            let first = self.early.copy_to_bytes(n);
            self.heads.saw(&first);
            buf.put_slice(&first);
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        if let Some(new) = buf.filled().get(before..)
            && !new.is_empty()
        {
            self.heads.saw(new);
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tapped<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads() -> Heads {
        Heads(Arc::new(Mutex::new(Some(Seen::default()))))
    }

    fn left(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(n, v)| {
                let name = hyper::header::HeaderName::from_static(n);
                (name, HeaderValue::from_static(v))
            })
            .collect()
    }

    #[test]
    fn both_in_any_order_and_spelling() {
        let chunked = left(&[("transfer-encoding", "chunked")]);
        for (head, want) in [
            (
                "POST http://a/ HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                true,
            ),
            (
                "POST http://a/ HTTP/1.1\r\ntransfer-encoding:chunked\r\nCONTENT-LENGTH:4\r\n\r\n",
                true,
            ),
            (
                "\r\nPOST http://a/ HTTP/1.1\nContent-Length: 4\nTransfer-Encoding: chunked\n\n",
                true,
            ),
            (
                "POST http://a/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n14\r\nContent-Length: 4\r\n\r\n\r\n0\r\n\r\n",
                false,
            ),
            (
                "POST http://a/?content-length: HTTP/1.1\r\nX: content-length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
                false,
            ),
        ] {
            let heads = heads();
            heads.saw(head.as_bytes());
            assert_eq!(heads.next_is_ambiguous(&chunked), want, "{head}");
            // Where the next head begins is not known behind a chunked body.
            heads.saw(head.as_bytes());
            assert!(!heads.next_is_ambiguous(&chunked));
        }
    }

    #[test]
    fn bodies_of_a_known_length_are_stepped_over() {
        let heads = heads();
        let evil =
            "POST http://a/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
        heads.saw(b"GET http://a/ HTTP/1.1\r\n\r\nPOST http://a/ HTTP/1.1\r\nContent-Length: ");
        assert!(!heads.next_is_ambiguous(&left(&[])));
        heads.saw(format!("{}\r\n\r\n", evil.len()).as_bytes());
        assert!(!heads.next_is_ambiguous(&left(&[("content-length", "74")])));
        assert_eq!(evil.len(), 74);
        heads.saw(&evil.as_bytes()[..30]);
        heads.saw(&evil.as_bytes()[30..]);
        heads.saw(b"GET http://a/ HTTP/1.1\r\n\r\n");
        assert!(!heads.next_is_ambiguous(&left(&[])));
        heads.saw(evil.as_bytes());
        assert!(heads.next_is_ambiguous(&left(&[("transfer-encoding", "chunked")])));
    }

    #[test]
    fn memory_is_bounded() {
        let heads = heads();
        for _ in 0..100 {
            heads.saw(&[b'a'; 8192]);
        }
        assert!(heads.0.lock().unwrap().is_none());
    }
}
