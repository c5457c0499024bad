//! A file that was made for a caller who cannot have it.
//!
//! The kernel looks for a free descriptor before it makes anything; here the file is made first, and the caller's table may be full by then
//! (EMFILE). What `O_EXCL` has made is the caller's alone, so it can be taken back. Where something would be emptied, or may have been there
//! before, the table is looked at first ([`Turn::may_be_given`]).

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;

use super::super::memory::Fd;
use super::super::{Broker, Stop, place};
use super::Turn;
use super::open::Wish;
use crate::sys::at::{self, How};
use crate::sys::libc;

/// What `O_EXCL` made the short way, and where: a path without links and mounts below a directory.
#[derive(Debug)]
pub(in super::super) struct Made {
    pub(super) dir: Fd,
    pub(super) path: CString,
}

impl Made {
    /// The directory and the name in it.
    fn parts(&self) -> Result<(CString, &CStr), Errno> {
        let bytes = self.path.as_bytes_with_nul();
        let cut = bytes
            .iter()
            .rposition(|&b| b == b'/')
            .map_or(0, |at| at + 1);
        let (dir, name) = bytes.split_at_checked(cut).ok_or(Errno::EINVAL)?;
        let dir = if dir.is_empty() { b"." } else { dir };
        let dir = CString::new(dir).map_err(|_| Errno::EINVAL)?;
        let name = CStr::from_bytes_with_nul(name).map_err(|_| Errno::EINVAL)?;
        Ok((dir, name))
    }
}

impl Turn<'_> {
    /// What makes or empties a file has to be refused before it does, where its caller can have no descriptor of it.
    pub(super) fn may_be_given(&self, wish: &Wish) -> Result<(), Errno> {
        if wish.flags & (libc::O_CREAT | libc::O_TRUNC) == 0 || self.caller.may_have_another()? {
            Ok(())
        } else {
            Err(Errno::EMFILE)
        }
    }
}

impl Broker {
    /// Removes what was made, if it is still there; `file` is it. Nothing moves meanwhile.
    pub(in super::super) fn take_back(&self, made: &Made, file: &OwnedFd) {
        let gone = self.locked(true, |_| {
            let (dir, name) = made.parts()?;
            let how = How {
                flags: place::flags(libc::O_PATH | libc::O_DIRECTORY),
                mode: 0,
                resolve: libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_XDEV | libc::RESOLVE_BENEATH,
            };
            let dir = at::open(made.dir.as_fd(), &dir, how)?;
            // It is open, so its inode number is nobody else's.
            if at::look(dir.as_fd(), name)?.same(&at::look(file.as_fd(), c"")?) {
                at::remove(dir.as_fd(), name, false)?;
            }
            Ok::<_, Stop>(())
        });
        // It stays an empty file with a name that its caller may use.
        drop(gone);
    }
}
