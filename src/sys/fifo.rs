//! Whether somebody has a FIFO open for writing, asked by a reader and without taking anything out of it (Linux).

#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
#[cfg(target_os = "linux")]
use nix::fcntl::OFlag;

/// A writer has come since `reader`, which must be open for reading without waiting, was opened: open(2) for reading would return.
pub fn has_writer(reader: BorrowedFd<'_>) -> Result<bool, Errno> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut asked = [PollFd::new(reader, PollFlags::POLLIN)];
    // Data, or the end of a writer that has gone again (poll(2)).
    if poll(&mut asked, PollTimeout::ZERO)? > 0 {
        return Ok(true);
    }
    let (_end, scratch) = scratch_pipe()?;
    match duplicate(reader, scratch.as_fd()) {
        // Nothing to copy: 0 where nobody could write, EAGAIN where somebody can (tee(2)).
        Ok(0) => Ok(false),
        Ok(_) | Err(Errno::EAGAIN) => Ok(true),
        Err(errno) => Err(errno),
    }
}

#[cfg(target_os = "linux")]
fn scratch_pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    nix::unistd::pipe2(OFlag::O_NONBLOCK | OFlag::O_CLOEXEC)
}

#[cfg(not(target_os = "linux"))]
fn scratch_pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    Err(Errno::ENOSYS)
}

#[cfg(target_os = "linux")]
fn duplicate(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<usize, Errno> {
    // SAFETY: tee(2) needs two open descriptors; both are borrowed for the whole call. No memory is passed.
    let copied = unsafe { libc::tee(from.as_raw_fd(), to.as_raw_fd(), 1, libc::SPLICE_F_NONBLOCK) };
    usize::try_from(Errno::result(copied)?).map_err(|_| Errno::EIO)
}

#[cfg(not(target_os = "linux"))]
fn duplicate(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<usize, Errno> {
    let _ = (from.as_raw_fd(), to.as_raw_fd());
    Err(Errno::ENOSYS)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    #[test]
    fn a_writer_is_seen_before_it_writes_and_after_it_has_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let open = || {
            File::options()
                .read(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(&path)
                .unwrap()
        };
        let mut reader = open();
        assert!(!has_writer(reader.as_fd()).unwrap());
        let mut writer = File::options().write(true).open(&path).unwrap();
        assert!(has_writer(reader.as_fd()).unwrap());
        writer.write_all(b"ab").unwrap();
        assert!(has_writer(reader.as_fd()).unwrap());
        let mut got = [0; 2];
        reader.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"ab");
        drop(writer);
        assert!(has_writer(reader.as_fd()).unwrap());
        assert!(!has_writer(open().as_fd()).unwrap());
    }
}
