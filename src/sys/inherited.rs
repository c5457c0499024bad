//! Descriptors that came with the process, known by their numbers only; no value in this program owns them.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// What an inherited descriptor was opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading only.
    Read,
    /// Writing, perhaps reading too.
    Write,
    /// A place in the file system: O_PATH.
    Path,
}

/// What `fd` was opened for, `None` if it is closed.
pub fn access(fd: RawFd) -> io::Result<Option<Access>> {
    // SAFETY: F_GETFL takes no further argument and any number as descriptor; a closed one gives EBADF.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags < 0 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::EBADF) => Ok(None),
            _ => Err(error),
        };
    }
    #[cfg(target_os = "linux")]
    if flags & libc::O_PATH != 0 {
        return Ok(Some(Access::Path));
    }
    Ok(Some(match flags & libc::O_ACCMODE {
        libc::O_RDONLY => Access::Read,
        _ => Access::Write,
    }))
}

/// Another descriptor of the same open file; close-on-exec, above 2 so that it never lands on a closed standard stream.
pub fn copy(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_DUPFD_CLOEXEC takes the lowest acceptable number; a closed `fd` gives EBADF.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `copy` was just made by F_DUPFD_CLOEXEC and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Puts another open file behind the number of an inherited descriptor; it stays open across exec.
pub fn replace(fd: RawFd, with: &OwnedFd) -> io::Result<()> {
    // SAFETY: dup2 takes any two numbers and closes what `fd` was; by this module's contract nothing in the program owns that.
    let result = unsafe { libc::dup2(with.as_raw_fd(), fd) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
