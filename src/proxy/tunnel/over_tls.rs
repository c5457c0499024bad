//! A tunnel whose far side is inside TLS: bytes are copied, as they must be encrypted anyway.

use std::io;

use bytes::Bytes;
use nix::sys::socket::{Shutdown, shutdown};
use std::os::fd::AsRawFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::{End, Flow, SCRATCH, write_all};

type Tls = TlsStream<TcpStream>;

/// RFC 8446 §5.1: a record holds no more.
const RECORD: usize = 16 * 1024;

/// Client to far side, to its end.
pub(super) async fn up(
    client: &TcpStream,
    to: &mut WriteHalf<Tls>,
    early: Bytes,
    flow: &Flow<'_>,
) -> io::Result<End> {
    let mut data = early.to_vec();
    loop {
        if !data.is_empty() {
            if to.write_all(&data).await.is_err() || to.flush().await.is_err() {
                return Ok(End::Cut);
            }
            flow.moved(data.len());
        }
        // Only what is on its way takes memory: an idle tunnel has no buffer.
        client.readable().await?;
        let step = SCRATCH.with_borrow_mut(|buffer| {
            let n = client.try_read(buffer)?;
            Ok::<_, io::Error>(buffer.get(..n).unwrap_or_default().to_vec())
        });
        data = match step {
            Ok(read) if read.is_empty() => {
                // The far side may be gone altogether, and its own direction reports that.
                let _ = to.shutdown().await;
                return Ok(End::Whole);
            }
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Vec::new(),
            Err(e) => return Err(e),
        };
    }
}

/// Far side to client, to its end.
pub(super) async fn down(
    from: &mut ReadHalf<Tls>,
    client: &TcpStream,
    early: Bytes,
    flow: &Flow<'_>,
) -> io::Result<End> {
    if !early.is_empty() {
        if write_all(client, &early).await.is_err() {
            return Ok(End::Cut);
        }
        flow.moved(early.len());
    }
    let mut buffer = vec![0; RECORD];
    loop {
        let n = match from.read(&mut buffer).await {
            Ok(n) => n,
            // Many proxies close without a `close_notify`. What is inside the tunnel knows its own end.
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => 0,
            Err(e) => return Err(e),
        };
        if n == 0 {
            let _ = shutdown(client.as_raw_fd(), Shutdown::Write);
            return Ok(End::Whole);
        }
        let data = buffer.get(..n).unwrap_or_default();
        if write_all(client, data).await.is_err() {
            return Ok(End::Cut);
        }
        flow.moved(n);
    }
}
