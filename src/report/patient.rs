//! Writes that wait a little and then give up, so that a reader that stopped reading cannot hold up the run.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// A piece that a pipe which polls writable takes whole: `PIPE_BUF` on Linux (pipe(7)).
const PIECE: usize = 4096;

/// How a patient write ended.
#[derive(Debug)]
pub(super) enum Written {
    /// Everything is out.
    All,
    /// Nothing was written: the reader did not read within the budget.
    Nothing,
    /// The stream is broken, or was left in the middle of a line.
    Broken(io::Error),
}

/// Writes `bytes` to `to`, waiting at most `budget` altogether.
pub(super) fn write<W: Write + AsFd>(to: &mut W, bytes: &[u8], budget: Duration) -> Written {
    let end = Instant::now() + budget;
    let mut rest = bytes;
    while !rest.is_empty() {
        match writable(to, end) {
            Ok(true) => {}
            Ok(false) if rest.len() == bytes.len() => return Written::Nothing,
            Ok(false) => return Written::Broken(io::ErrorKind::TimedOut.into()),
            Err(e) => return Written::Broken(e),
        }
        let piece = rest.get(..PIECE).unwrap_or(rest);
        match to.write(piece) {
            Ok(0) => return Written::Broken(io::ErrorKind::WriteZero.into()),
            Ok(n) => rest = rest.get(n..).unwrap_or(&[]),
            // A non-blocking description that filled up between poll and write: wait again.
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
                ) =>
            {
                if Instant::now() >= end {
                    return Written::Broken(io::ErrorKind::TimedOut.into());
                }
            }
            Err(e) => return Written::Broken(e),
        }
    }
    Written::All
}

fn writable<W: AsFd>(to: &W, end: Instant) -> io::Result<bool> {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let ms = u16::try_from(left.as_millis()).unwrap_or(u16::MAX);
        let mut fds = [PollFd::new(to.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut fds, PollTimeout::from(ms)) {
            Ok(0) if Instant::now() >= end => return Ok(false),
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            // POLLERR, POLLHUP: the write tells why.
            Ok(_) => return Ok(true),
            Err(e) => return Err(e.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_full_pipe_costs_the_budget_and_no_more() {
        let (mut r, mut w) = std::io::pipe().unwrap();
        let chunk = [b'x'; 4096];
        let t = Instant::now();
        let mut whole = 0;
        while let Written::All = write(&mut w, &chunk, Duration::from_millis(20)) {
            whole += 1;
            assert!(whole < 10_000);
        }
        assert!(t.elapsed() < Duration::from_secs(5));
        let mut back = vec![0; 4096 * whole];
        r.read_exact(&mut back).unwrap();
        assert!(back.iter().all(|b| *b == b'x'));
        assert!(matches!(
            write(&mut w, b"again\n", Duration::ZERO),
            Written::All
        ));
    }

    #[test]
    fn a_closed_reader_is_an_error_not_a_signal() {
        let (r, mut w) = std::io::pipe().unwrap();
        drop(r);
        assert!(matches!(
            write(&mut w, b"x\n", Duration::from_millis(20)),
            Written::Broken(_)
        ));
    }
}
