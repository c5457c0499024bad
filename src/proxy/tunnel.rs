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
use tokio::time::{Instant, timeout};

use super::access::Counts;
use super::link::Link;
use super::vet::{Expected, VetError, Violated};
use crate::sys::splice::Pipe;

/// Bytes a direction carries by copying before it gets a pipe: short connections never pay for one.
const COPY_FIRST: u64 = 64 * 1024;
/// Bytes after which a direction is a transfer that is worth a wide pipe.
const WIDE_FROM: u64 = 1 << 20;
/// A direction in which nothing comes for this long gives its pipe back: two descriptors, and a share of what all programs of the user
/// have in pipes.
const REST: Duration = Duration::from_secs(5);
/// 8 KiB, the usual default, costs twice the CPU (egress-proxy §2).
const BUFFER: usize = 64 * 1024;

mod over_tls;

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

/// The two connections of a tunnel.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) client: TcpStream,
    pub(super) upstream: Link,
    pub(super) early: Early,
}

/// Carries bytes until both directions have ended. `uploaded` is dropped when the client's bytes are all sent on; `expected` is
/// what the tunnel was allowed for, where that is to be checked.
pub(super) async fn run<G>(
    ends: Ends,
    expected: Option<Expected<'_>>,
    idle: Duration,
    uploaded: G,
    counts: &Counts,
) -> Result<(), Box<Stopped>> {
    let Ends {
        client,
        upstream,
        early,
    } = ends;
    for socket in [&client, upstream.socket()] {
        // Latency only: a tunnel without these still works.
        let _ = socket.set_nodelay(true);
        let _ = nix::sys::socket::setsockopt(socket, sockopt::KeepAlive, &true);
    }
    let activity = Activity::new();
    let first = async {
        let first = match expected {
            Some(expected) => expected.vet(&client, early.from_client).await?,
            None => early.from_client,
        };
        counts.first(&first);
        Ok::<_, VetError>(first)
    };
    let flow = |count| Flow {
        activity: &activity,
        count,
    };
    let (sent, received) = (flow(&counts.up), flow(&counts.down));
    let (result, upstream) = match upstream {
        Link::Plain(stream) => {
            let up = async { Ok(carry(&client, &stream, first.await?, &sent).await?) };
            let down = carry(&stream, &client, early.from_upstream, &received);
            let result = both(up, uploaded, down, &activity, idle).await;
            (result, Link::Plain(stream))
        }
        Link::Tls(tls) => {
            let (mut read, mut write) = tokio::io::split(*tls);
            let up = async { Ok(over_tls::up(&client, &mut write, first.await?, &sent).await?) };
            let down = over_tls::down(&mut read, &client, early.from_upstream, &received);
            let result = both(up, uploaded, down, &activity, idle).await;
            (result, Link::Tls(Box::new(read.unsplit(write))))
        }
    };
    match result {
        Ok((End::Whole, End::Whole)) => Ok(()),
        Ok(_) | Err(VetError::Broken) => {
            let _ = client.set_zero_linger();
            let _ = upstream.socket().set_zero_linger();
            Ok(())
        }
        Err(VetError::Denied(violated)) => {
            let _ = upstream.socket().set_zero_linger();
            Err(Box::new(Stopped { client, violated }))
        }
    }
}

/// Both directions to their ends, or until nothing has moved for too long.
async fn both<G>(
    up: impl Future<Output = Result<End, VetError>>,
    uploaded: G,
    down: impl Future<Output = io::Result<End>>,
    activity: &Activity,
    idle: Duration,
) -> Result<(End, End), VetError> {
    let up = async {
        let end = up.await?;
        drop(uploaded);
        Ok(end)
    };
    let down = async { Ok(down.await?) };
    tokio::select! {
        result = async { tokio::try_join!(up, down) } => result,
        () = activity.idle(idle) => Err(VetError::Broken),
    }
}

/// A tunnel that the policy stopped, with the client still to be told.
#[derive(Debug)]
pub(super) struct Stopped {
    pub(super) client: TcpStream,
    pub(super) violated: Box<Violated>,
}

/// How a direction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Everything arrived, and the end was passed on.
    Whole,
    /// The receiver takes no more. The other direction goes on: a server that answers before it has read everything and closes
    /// is still heard.
    Cut,
}

/// One direction, to its end. An error is one of reading: the sender broke off.
async fn carry(from: &TcpStream, to: &TcpStream, early: Bytes, flow: &Flow<'_>) -> io::Result<End> {
    if !early.is_empty() {
        if write_all(to, &early).await.is_err() {
            return Ok(End::Cut);
        }
        flow.moved(early.len());
    }
    drop(early);
    let mut total = 0;
    let mut pipe = None;
    let mut asked_wide = false;
    loop {
        if pipe.is_none() && total >= COPY_FIRST {
            // Where there is no splice, or no descriptor left, copying goes on.
            pipe = Some(Pipe::new().ok());
        }
        if let Some(Some(ready)) = &mut pipe
            && !asked_wide
            && total >= WIDE_FROM
        {
            asked_wide = true;
            ready.widen();
        }
        let moved = match &mut pipe {
            Some(Some(ready)) => match splice_some(from, to, ready).await {
                Ok(Moved::Nothing) => {
                    (pipe, asked_wide, total) = (None, false, 0);
                    continue;
                }
                // A kernel whose sockets cannot be spliced says so before anything has moved.
                Err(e) if is_unsupported(&e) => {
                    pipe = Some(None);
                    continue;
                }
                other => other?,
            },
            Some(None) | None => copy_some(from, to).await?,
        };
        match moved {
            Moved::Some(n) => {
                total = total.saturating_add(n);
                flow.count.fetch_add(n, Ordering::Relaxed);
                flow.activity.touch();
            }
            Moved::End => {
                // ENOTCONN: the other side is gone altogether, and its own direction reports that.
                let _ = shutdown(to.as_raw_fd(), Shutdown::Write);
                return Ok(End::Whole);
            }
            Moved::Nothing => {}
            Moved::Refused => return Ok(End::Cut),
        }
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
    )
}

/// One step of a direction.
enum Moved {
    Some(u64),
    /// Nothing came for a while, and nothing is in the pipe.
    Nothing,
    End,
    /// The receiver takes no more.
    Refused,
}

impl Moved {
    fn of(read: usize, written: &io::Result<()>) -> Self {
        match (read, written) {
            (0, _) => Self::End,
            (n, Ok(())) => Self::Some(n as u64),
            (_, Err(_)) => Self::Refused,
        }
    }
}

async fn copy_some(from: &TcpStream, to: &TcpStream) -> io::Result<Moved> {
    loop {
        from.readable().await?;
        let step: io::Result<_> = SCRATCH.with_borrow_mut(|buffer| {
            let n = from.try_read(buffer)?;
            let data = buffer.get(..n).unwrap_or_default();
            let written = match to.try_write(data) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(0),
                other => other,
            };
            Ok((
                n,
                written.map(|w| data.get(w..).unwrap_or_default().to_vec()),
            ))
        });
        match step {
            Ok((n, Ok(rest))) => return Ok(Moved::of(n, &write_all(to, &rest).await)),
            Ok((n, Err(e))) => return Ok(Moved::of(n, &Err(e))),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
    }
}

async fn splice_some(from: &TcpStream, to: &TcpStream, pipe: &mut Pipe) -> io::Result<Moved> {
    let fill = from.async_io(Interest::READABLE, || pipe.fill(from.as_fd()));
    // Given up only while it waits, when the pipe is empty.
    let Ok(filled) = timeout(REST, fill).await else {
        return Ok(Moved::Nothing);
    };
    let n = filled?;
    Ok(Moved::of(n, &drain(pipe, to, n).await))
}

async fn drain(pipe: &Pipe, to: &TcpStream, mut left: usize) -> io::Result<()> {
    while left > 0 {
        let n = to
            .async_io(Interest::WRITABLE, || pipe.drain(to.as_fd(), left))
            .await?;
        left = left.saturating_sub(n);
    }
    Ok(())
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

/// One direction, to say that something moved.
struct Flow<'a> {
    activity: &'a Activity,
    count: &'a AtomicU64,
}

impl Flow<'_> {
    fn moved(&self, bytes: usize) {
        self.count.fetch_add(bytes as u64, Ordering::Relaxed);
        self.activity.touch();
    }
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

    /// Completes once nothing has moved for this long.
    async fn idle(&self, limit: Duration) {
        loop {
            let deadline =
                self.start + Duration::from_millis(self.last.load(Ordering::Relaxed)) + limit;
            if deadline <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(deadline).await;
        }
    }
}
