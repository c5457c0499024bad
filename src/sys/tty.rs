//! The controlling terminal's foreground process group.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::unistd::{Pid, getpgrp, setpgid, tcgetpgrp, tcsetpgrp};

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

/// Makes this process a group of its own, and that the foreground one. The caller has SIGTTOU blocked.
pub fn lead_group() -> io::Result<()> {
    setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
    give_foreground(std::process::id().cast_signed());
    Ok(())
}

/// Makes this group the foreground one of the terminal on a standard stream, if there is one. The caller has SIGTTOU blocked.
pub fn give_foreground(group: i32) {
    let group = Pid::from_raw(group);
    // The first that is our controlling terminal (ENOTTY for every other, tcsetpgrp(3)).
    let _ = tcsetpgrp(io::stdin().as_fd(), group)
        .or_else(|_| tcsetpgrp(io::stdout().as_fd(), group))
        .or_else(|_| tcsetpgrp(io::stderr().as_fd(), group));
}
