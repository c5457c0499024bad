//! splice(2): moves bytes between two sockets through a pipe without copying them to user space (Linux).
//!
//! Half the CPU and a quarter of the memory of a copying tunnel (egress-proxy §2). Elsewhere [`Pipe::new`] says `Unsupported`
//! and the caller copies.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::BorrowedFd;

/// A pipe between two sockets. Bytes moved in with [`Pipe::fill`] come out with [`Pipe::drain`] in order.
#[derive(Debug)]
pub struct Pipe(imp::Pipe);

impl Pipe {
    /// A non-blocking, close-on-exec pipe.
    ///
    /// # Errors
    /// `Unsupported` where there is no splice(2); the errors of pipe2(2), notably EMFILE.
    pub fn new() -> io::Result<Self> {
        imp::Pipe::new().map(Self)
    }

    /// Makes room for more bytes at once, where that is to be had: a transfer of many is then woken less often. No error, because
    /// the pipe works as it is.
    pub fn widen(&mut self) {
        self.0.widen();
    }

    /// Moves what `from` has, at most the pipe's capacity, into the pipe. 0 is the end of `from`.
    ///
    /// # Errors
    /// `WouldBlock` when `from` has nothing (the pipe being empty), and the errors of reading `from`.
    pub fn fill(&self, from: BorrowedFd<'_>) -> io::Result<usize> {
        self.0.fill(from)
    }

    /// Moves up to `len` bytes from the pipe to `to`.
    ///
    /// # Errors
    /// `WouldBlock` when `to` takes nothing now, and the errors of writing to `to`.
    pub fn drain(&self, to: BorrowedFd<'_>, len: usize) -> io::Result<usize> {
        self.0.drain(to, len)
    }
}

#[cfg(target_os = "linux")]
mod imp {
    use std::io;
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use nix::fcntl::{FcntlArg, OFlag, fcntl};

    /// Asked for in one call. A pipe has slots, not bytes, and a slot holds up to 32 KiB of a socket's buffer.
    const MOST: usize = 1 << 20;
    /// A wide pipe: 64 slots instead of 16. Measured on a quiet machine: half as much again per second, for two thirds of the CPU
    /// time of copying; 1 MiB brings no more.
    const WIDE: i32 = 256 * 1024;
    /// All wide pipes together are a quarter of `fs.pipe-user-pages-soft`, which all programs of the user share: past it, new
    /// pipes get a page or two (pipe(7)).
    const MOST_WIDE: usize = 64;
    static WIDE_NOW: AtomicUsize = AtomicUsize::new(0);

    #[derive(Debug)]
    pub(super) struct Pipe {
        read: OwnedFd,
        pub(super) write: OwnedFd,
        wide: bool,
    }

    impl Drop for Pipe {
        fn drop(&mut self) {
            if self.wide {
                WIDE_NOW.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    impl Pipe {
        pub(super) fn new() -> io::Result<Self> {
            let (read, write) = nix::unistd::pipe2(OFlag::O_NONBLOCK | OFlag::O_CLOEXEC)?;
            Ok(Self {
                read,
                write,
                wide: false,
            })
        }

        pub(super) fn widen(&mut self) {
            if self.wide {
                return;
            }
            // Counted first, so that there are never more than that.
            self.wide = WIDE_NOW.fetch_add(1, Ordering::Relaxed) < MOST_WIDE
                && fcntl(&self.write, FcntlArg::F_SETPIPE_SZ(WIDE)).is_ok();
            if !self.wide {
                WIDE_NOW.fetch_sub(1, Ordering::Relaxed);
            }
        }

        pub(super) fn fill(&self, from: BorrowedFd<'_>) -> io::Result<usize> {
            splice(from, self.write.as_fd(), MOST)
        }

        pub(super) fn drain(&self, to: BorrowedFd<'_>, len: usize) -> io::Result<usize> {
            splice(self.read.as_fd(), to, len)
        }
    }

    fn splice(from: BorrowedFd<'_>, to: BorrowedFd<'_>, len: usize) -> io::Result<usize> {
        // SAFETY: splice(2) needs two open descriptors and offset pointers that are null or valid. Both descriptors are borrowed
        // for the whole call, so they are open; both pointers are null, as pipes and sockets require. No memory is passed.
        let moved = unsafe {
            libc::splice(
                from.as_raw_fd(),
                std::ptr::null_mut(),
                to.as_raw_fd(),
                std::ptr::null_mut(),
                len,
                libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK,
            )
        };
        usize::try_from(moved).map_err(|_| io::Error::last_os_error())
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::io;
    use std::os::fd::BorrowedFd;

    #[derive(Debug)]
    pub(super) enum Pipe {}

    impl Pipe {
        pub(super) fn new() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(super) fn widen(&mut self) {
            match *self {}
        }

        pub(super) fn fill(&self, _from: BorrowedFd<'_>) -> io::Result<usize> {
            match *self {}
        }

        pub(super) fn drain(&self, _to: BorrowedFd<'_>, _len: usize) -> io::Result<usize> {
            match *self {}
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// No more than a share of what all programs of the user have together, and all of it is given back.
    #[test]
    fn wide_pipes_are_counted() {
        let capacity = |pipe: &Pipe| {
            nix::fcntl::fcntl(&pipe.0.write, nix::fcntl::FcntlArg::F_GETPIPE_SZ).unwrap()
        };
        for _ in 0..3 {
            let mut pipes: Vec<Pipe> = (0..80).map(|_| Pipe::new().unwrap()).collect();
            let usual = capacity(&pipes[0]);
            for pipe in &mut pipes {
                pipe.widen();
                pipe.widen();
            }
            let wide = pipes.iter().filter(|p| capacity(p) > usual).count();
            // Another test of this process may have some.
            assert!((1..=64).contains(&wide), "{wide}");
        }
    }

    #[test]
    fn moves_bytes_in_order_and_reports_the_end() {
        let (mut a, from) = UnixStream::pair().unwrap();
        let (to, mut b) = UnixStream::pair().unwrap();
        from.set_nonblocking(true).unwrap();
        let pipe = Pipe::new().unwrap();
        assert_eq!(
            pipe.fill(from.as_fd()).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        a.write_all(b"hello").unwrap();
        assert_eq!(pipe.fill(from.as_fd()).unwrap(), 5);
        assert_eq!(pipe.drain(to.as_fd(), 2).unwrap(), 2);
        assert_eq!(pipe.drain(to.as_fd(), 3).unwrap(), 3);
        let mut got = [0; 5];
        b.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"hello");
        drop(a);
        assert_eq!(pipe.fill(from.as_fd()).unwrap(), 0);
    }
}
