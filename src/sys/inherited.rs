//! Descriptors that came with the call and are known by number only (`--events fd:N`).

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// An own, close-on-exec copy of an inherited descriptor that is open for writing.
///
/// # Errors
/// `EBADF` where `fd` is closed or only open for reading.
pub fn writable(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_GETFL takes no further argument and any number as descriptor; a closed one gives EBADF.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    if flags & libc::O_ACCMODE == libc::O_RDONLY {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: F_DUPFD_CLOEXEC takes any descriptor number and the lowest number the copy may have.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made by fcntl and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;

    #[test]
    fn a_copy_writes_to_the_same_object() {
        let (mut r, w) = io::pipe().unwrap();
        let mut copy = std::fs::File::from(writable(w.as_raw_fd()).unwrap());
        copy.write_all(b"x").unwrap();
        drop((copy, w));
        let mut text = String::new();
        r.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
    }

    #[test]
    fn closed_and_read_only_descriptors_are_refused() {
        let (r, _w) = io::pipe().unwrap();
        for fd in [r.as_raw_fd(), 1_000_000, -1] {
            assert_eq!(writable(fd).unwrap_err().raw_os_error(), Some(libc::EBADF));
        }
    }
}
