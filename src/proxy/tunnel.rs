//! Carries bytes both ways between two connections until both are done (egress-proxy §2, §10).
//!
//! Either side may finish sending first: the end is passed on as a half-close and the other direction goes on. A failure ends
//! both, with a reset, so that a cut transfer never looks like a complete one.

use std::cell::RefCell;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use nix::sys::socket::{Shutdown, shutdown, sockopt};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::sys::splice::Pipe;

/// Bytes a direction carries by copying before it gets a pipe: short connections never pay for one.
const COPY_FIRST: u64 = 64 * 1024;
/// 8 KiB, the usual default, costs twice the CPU (egress-proxy §2).
const BUFFER: usize = 64 * 1024;
/// A tunnel in which nothing moves for this long is dead.
const IDLE: Duration = Duration::from_mins(15);

thread_local! {
    /// One buffer serves every tunnel of the thread: it is only used between a read and a write that both complete at once, so
    /// idle tunnels hold no memory.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER]);
}

/// Bytes that were read from a side before the tunnel began, to be sent to the other side first.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// Read from the client.
    pub(super) from_client: Bytes,
    /// Read from the upstream.
    pub(super) from_upstream: Bytes,
}

/// Carries bytes until both directions have ended. `uploaded` is dropped when the client's bytes are all sent on.
pub(super) async fn run<G>(client: TcpStream, upstream: TcpStream, early: Early, uploaded: G) {
    for socket in [&client, &upstream] {
        // Latency only: a tunnel without these still works.
        let _ = socket.set_nodelay(true);
        let _ = nix::sys::socket::setsockopt(socket, sockopt::KeepAlive, &true);
    }
    let activity = Activity::new();
    let up = async {
        let result = carry(&client, &upstream, early.from_client, &activity).await;
        drop(uploaded);
        result
    };
    let down = carry(&upstream, &client, early.from_upstream, &activity);
    let result = tokio::select! {
        result = async { tokio::try_join!(up, down) } => result.map(|_| ()),
        () = activity.idle() => Err(io::ErrorKind::TimedOut.into()),
    };
    if result.is_err() {
        let _ = client.set_zero_linger();
        let _ = upstream.set_zero_linger();
    }
}

/// One direction, to its end, which is passed on.
async fn carry(
    from: &TcpStream,
    to: &TcpStream,
    early: Bytes,
    activity: &Activity,
) -> io::Result<()> {
    if !early.is_empty() {
        write_all(to, &early).await?;
        activity.touch();
    }
    drop(early);
    let mut total = 0;
    let mut pipe = None;
    loop {
        if pipe.is_none() && total >= COPY_FIRST {
            // Where there is no splice, or no descriptor left, copying goes on.
            pipe = Some(Pipe::new().ok());
        }
        let moved = match &pipe {
            Some(Some(pipe)) => splice_some(from, to, pipe).await?,
            Some(None) | None => copy_some(from, to).await?,
        };
        if moved == 0 {
            // ENOTCONN: the other side is gone altogether, and its own direction reports that.
            let _ = shutdown(to.as_raw_fd(), Shutdown::Write);
            return Ok(());
        }
        total = total.saturating_add(moved);
        activity.touch();
    }
}

async fn copy_some(from: &TcpStream, to: &TcpStream) -> io::Result<u64> {
    loop {
        from.readable().await?;
        let step = SCRATCH.with_borrow_mut(|buffer| {
            let n = from.try_read(buffer)?;
            let data = buffer.get(..n).unwrap_or_default();
            let written = match to.try_write(data) {
                Ok(written) => written,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => 0,
                Err(e) => return Err(e),
            };
            Ok((n, data.get(written..).unwrap_or_default().to_vec()))
        });
        match step {
            Ok((n, rest)) => {
                write_all(to, &rest).await?;
                return Ok(n as u64);
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
    }
}

async fn splice_some(from: &TcpStream, to: &TcpStream, pipe: &Pipe) -> io::Result<u64> {
    let n = from
        .async_io(Interest::READABLE, || pipe.fill(from.as_fd()))
        .await?;
    let mut left = n;
    while left > 0 {
        left -= to
            .async_io(Interest::WRITABLE, || pipe.drain(to.as_fd(), left))
            .await?
            .min(left);
    }
    Ok(n as u64)
}

async fn write_all(to: &TcpStream, mut data: &[u8]) -> io::Result<()> {
    while !data.is_empty() {
        to.writable().await?;
        match to.try_write(data) {
            Ok(n) => data = data.get(n..).unwrap_or_default(),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// When something last moved, in either direction.
#[derive(Debug)]
struct Activity {
    start: Instant,
    /// Milliseconds since `start`.
    last: AtomicU64,
}

impl Activity {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            last: AtomicU64::new(0),
        }
    }

    fn touch(&self) {
        let now = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    /// Completes once nothing has moved for [`IDLE`].
    async fn idle(&self) {
        loop {
            let deadline =
                self.start + Duration::from_millis(self.last.load(Ordering::Relaxed)) + IDLE;
            if deadline <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(deadline).await;
        }
    }
}
