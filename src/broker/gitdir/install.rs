//! Puts a file of ccbox's own in the place of one that the child wrote.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::sys::objects::permissions;

/// Replaces `name` in `dir` by a new file with these bytes: another inode, so that descriptors and hard links which the
/// child kept lead to a dead one.
///
/// The way there is git's own: a new `<name>.lock` that is renamed onto the file. So the file is always whole, a git on
/// the host that holds the lock wins (`EEXIST`), and if ccbox is killed in between, what is left is what a killed git
/// leaves and never a name of ccbox's own (R33). Git does not flush its configuration to disk (`core.fsync` in
/// git-config(1) does not count it), and neither does this.
pub fn install(dir: impl AsFd, name: &[u8], bytes: &[u8], mode: u32) -> Result<(), Errno> {
    let lock = lock_name(name);
    let dir = dir.as_fd();
    let flags =
        OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let fd = openat(dir, lock.as_slice(), flags, Mode::from_bits_truncate(0o600))?;
    let put = || {
        let mut file = File::from(fd);
        file.write_all(bytes)
            .map_err(|e| e.raw_os_error().map_or(Errno::EIO, Errno::from_raw))?;
        fchmod(&file, permissions(mode & 0o777))?;
        renameat(dir, lock.as_slice(), dir, name)
    };
    put().inspect_err(|_| {
        // It is ours: nobody else could take the name.
        let _ = remove(dir, &lock);
    })
}

/// Makes a file with nothing in it and opens it for reading.
pub fn make_empty(dir: impl AsFd, name: &[u8], mode: u32) -> Result<OwnedFd, Errno> {
    let flags =
        OFlag::O_RDONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let fd = openat(dir, name, flags, Mode::from_bits_truncate(0o600))?;
    fchmod(&fd, permissions(mode & 0o777))?;
    Ok(fd)
}

/// `config.lock` for `config`.
#[must_use]
pub fn lock_name(name: &[u8]) -> Vec<u8> {
    [name, b".lock"].concat()
}

/// unlinkat(2) of what is not a directory.
pub fn remove(dir: impl AsFd, name: &[u8]) -> Result<(), Errno> {
    unlinkat(dir, name, UnlinkatFlags::NoRemoveDir)
}
