//! splice(2): moves bytes between two sockets through a pipe without copying them to user space (Linux).
//!
//! Half the CPU and a quarter of the memory of a copying tunnel (egress-proxy §2). Elsewhere [`Pipe::new`] says `Unsupported`
//! and the caller copies.

use std::io;
use std::os::fd::BorrowedFd;

/// A pipe between two sockets. Bytes moved in with [`Pipe::fill`] come out with [`Pipe::drain`] in order.
#[derive(Debug)]
pub struct Pipe(imp::Pipe);

impl Pipe {
    /// A non-blocking, close-on-exec pipe.
    ///
    /// # Errors
    /// `Unsupported` where there is no splice(2); the errors of pipe2(2), notably EMFILE; `QuotaExceeded` where the user's programs
    /// have so many pipes that a new one gets a single page (pipe(7)): then copying is the faster way.
    pub fn new() -> io::Result<Self> {
        imp::Pipe::new().map(Self)
    }

    /// Makes room for more bytes at once, where that is to be had: a transfer of many is then woken less often. No error, because
    /// the pipe works as it is.
    pub fn widen(&mut self) {
        self.0.widen();
    }

    /// Moves what `from` has into the pipe, as far as there is room. 0 is the end of `from`. The pipe should be empty before.
    ///
    /// # Errors
    /// `WouldBlock` when `from` has nothing (the pipe being empty), and the errors of reading `from`.
    pub fn fill(&mut self, from: BorrowedFd<'_>) -> io::Result<usize> {
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
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl};

    /// Asked for in one call; the kernel moves no more than there are free slots in the pipe, taken for a page each.
    const MOST: usize = 1 << 20;
    /// A slot holds up to 32 KiB of a socket's buffer, though it was counted as a page: after a call that has filled the pipe by that
    /// count it is nearly empty, and more fits in. Calls that move less than this are not worth their cost.
    const WORTH: usize = 256 * 1024;
    /// A pipe that holds this much is emptied first: it could take 8 MiB, which nobody's buffers should grow by.
    const ENOUGH: usize = 2 << 20;
    /// A pipe has 64 KiB by itself, but where all programs of the user together are past `fs.pipe-user-pages-soft` only two pages, or one
    /// before Linux 5.14. Through one page 1 GiB costs half as much again as copying it, through two it is still less.
    const LEAST: usize = 8 * 1024;
    /// Of a wide pipe, by preference; the first is `fs.pipe-max-size` as the kernel sets it, and the most a user may ask for.
    pub(super) const WIDTHS: [Width; 2] = [
        Width {
            size: 1 << 20,
            below: 12 << 20,
        },
        Width {
            size: 256 * 1024,
            below: 16 << 20,
        },
    ];
    /// Of all wide pipes of this process. At most a quarter of what all programs of the user share.
    static TAKEN: AtomicUsize = AtomicUsize::new(0);

    #[derive(Debug, Clone, Copy)]
    pub(super) struct Width {
        pub(super) size: usize,
        /// Only as long as all wide pipes together stay below.
        pub(super) below: usize,
    }

    #[derive(Debug)]
    pub(super) struct Pipe {
        read: OwnedFd,
        pub(super) write: OwnedFd,
        /// Of [`TAKEN`].
        taken: usize,
        /// Came after bytes that had to be reported first.
        failed: Option<io::Error>,
    }

    impl Drop for Pipe {
        fn drop(&mut self) {
            TAKEN.fetch_sub(self.taken, Ordering::Relaxed);
        }
    }

    impl Pipe {
        pub(super) fn new() -> io::Result<Self> {
            let (read, write) = nix::unistd::pipe2(OFlag::O_NONBLOCK | OFlag::O_CLOEXEC)?;
            let pipe = Self {
                read,
                write,
                taken: 0,
                failed: None,
            };
            if pipe.size()? < LEAST {
                return Err(io::ErrorKind::QuotaExceeded.into());
            }
            Ok(pipe)
        }

        pub(super) fn size(&self) -> io::Result<usize> {
            let size = fcntl(&self.write, FcntlArg::F_GETPIPE_SZ)?;
            Ok(usize::try_from(size).unwrap_or(0))
        }

        pub(super) fn widen(&mut self) {
            self.widen_to(&WIDTHS);
        }

        /// The first that there is room for and that the kernel grants: it refuses (EPERM) what is over its own limits.
        pub(super) fn widen_to(&mut self, widths: &[Width]) {
            if self.taken > 0 {
                return;
            }
            for width in widths {
                // Counted first, so that there is never more than that.
                let before = TAKEN.fetch_add(width.size, Ordering::Relaxed);
                let size = i32::try_from(width.size).unwrap_or(i32::MAX);
                if before + width.size <= width.below
                    && fcntl(&self.write, FcntlArg::F_SETPIPE_SZ(size)).is_ok()
                {
                    self.taken = width.size;
                    return;
                }
                TAKEN.fetch_sub(width.size, Ordering::Relaxed);
            }
        }

        pub(super) fn fill(&mut self, from: BorrowedFd<'_>) -> io::Result<usize> {
            let write = self.write.as_fd();
            fill(&mut self.failed, || splice(from, write, MOST))
        }

        pub(super) fn drain(&self, to: BorrowedFd<'_>, len: usize) -> io::Result<usize> {
            splice(self.read.as_fd(), to, len)
        }
    }

    /// `step` as often as it moves much. An error that comes after bytes is kept in `failed` for the next time: a socket tells it once,
    /// and from then on that it has ended, so that a cut transfer would look like a whole one.
    pub(super) fn fill(
        failed: &mut Option<io::Error>,
        mut step: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<usize> {
        if let Some(error) = failed.take() {
            return Err(error);
        }
        let mut last = step()?;
        let mut total = last;
        while last >= WORTH && total < ENOUGH {
            match step() {
                Ok(n) => {
                    last = n;
                    total = total.saturating_add(n);
                }
                // Of the pipe, which is full, or of the socket, which is empty.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => {
                    *failed = Some(e);
                    break;
                }
            }
        }
        Ok(total)
    }

    fn splice(from: BorrowedFd<'_>, to: BorrowedFd<'_>, len: usize) -> io::Result<usize> {
        let flags = SpliceFFlags::SPLICE_F_MOVE | SpliceFFlags::SPLICE_F_NONBLOCK;
        Ok(nix::fcntl::splice(from, None, to, None, len, flags)?)
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

        pub(super) fn fill(&mut self, _from: BorrowedFd<'_>) -> io::Result<usize> {
            match *self {}
        }

        pub(super) fn drain(&self, _to: BorrowedFd<'_>, _len: usize) -> io::Result<usize> {
            match *self {}
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
