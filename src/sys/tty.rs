//! The controlling terminal's foreground process group.

use std::io;
use std::os::fd::BorrowedFd;

use nix::unistd::{getpgrp, tcgetpgrp, tcsetpgrp};

/// Whether `fd` is our controlling terminal, and if so whether our process group is in its foreground.
#[must_use]
pub fn in_foreground(fd: BorrowedFd<'_>) -> Option<bool> {
    // ENOTTY: no terminal, or not the controlling one (tcgetpgrp(3)).
    tcgetpgrp(fd).ok().map(|group| group == getpgrp())
}

/// Makes our process group the foreground one. The caller has SIGTTOU blocked, or is stopped by it.
pub fn take_foreground(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(tcsetpgrp(fd, getpgrp())?)
}
