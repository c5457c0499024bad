//! What calls touch, for a run that wants to know (`ccbox learn`). Nothing is decided here: a path is taken as it was written, and who
//! changes it meanwhile only spoils what is learned.

use std::path::Path;

use nix::errno::Errno;

use super::super::areas::path_buf;
use super::super::{Stop, Touch};
use super::{Outcome, Turn};
use crate::broker::calls::Call;
use crate::sys::at;
use crate::sys::libc;

/// A touch that is told when the call has succeeded.
pub(super) type Touched = (Vec<u8>, Touch);

impl Turn<'_> {
    /// What the call is going to change, where that is of interest.
    pub(super) fn to_change(&self, call: Call) -> Vec<Touched> {
        const CWD: i32 = libc::AT_FDCWD;
        if !self.broker.sink.wants_touched() {
            return Vec::new();
        }
        let entry = |dirfd, path| self.place(dirfd, path, Some(Touch::Entry));
        let found = match call {
            Call::Open => vec![self.opened(CWD, self.arg(0), self.int(1))],
            Call::Openat => vec![self.opened(self.int(0), self.arg(1), self.int(2))],
            Call::Creat => vec![self.place(CWD, self.arg(0), None)],
            // Its flags are in memory. What it opens may only be read, which asks for no more than a change does.
            Call::Openat2 => vec![self.place(self.int(0), self.arg(1), None)],
            Call::Truncate | Call::Chmod | Call::Setxattr | Call::Removexattr => {
                vec![self.place(CWD, self.arg(0), Some(Touch::Changed))]
            }
            Call::Fchmodat | Call::Fchmodat2 => {
                vec![self.place(self.int(0), self.arg(1), Some(Touch::Changed))]
            }
            Call::Mkdir | Call::Mknod | Call::Unlink | Call::Rmdir => {
                vec![entry(CWD, self.arg(0))]
            }
            Call::Mkdirat | Call::Mknodat | Call::Unlinkat => {
                vec![entry(self.int(0), self.arg(1))]
            }
            Call::Symlink | Call::Link => vec![entry(CWD, self.arg(1))],
            Call::Symlinkat => vec![entry(self.int(1), self.arg(2))],
            Call::Linkat => vec![entry(self.int(2), self.arg(3))],
            Call::Rename => vec![entry(CWD, self.arg(0)), entry(CWD, self.arg(1))],
            Call::Renameat | Call::Renameat2 => {
                vec![
                    entry(self.int(0), self.arg(1)),
                    entry(self.int(2), self.arg(3)),
                ]
            }
            Call::Lsetxattr
            | Call::Fsetxattr
            | Call::Lremovexattr
            | Call::Fremovexattr
            | Call::Setxattrat
            | Call::Removexattrat
            | Call::Fchmod
            | Call::Chown
            | Call::Fchown
            | Call::Lchown
            | Call::Fchownat
            | Call::Utime
            | Call::Utimes
            | Call::Futimesat
            | Call::Utimensat
            | Call::Umask
            | Call::Chdir
            | Call::Fchdir
            | Call::Clone
            | Call::Unshare
            | Call::Execve
            | Call::Execveat
            | Call::Flock
            | Call::Fcntl
            | Call::Connect
            | Call::Bind
            | Call::Listen
            | Call::Sendto => Vec::new(),
        };
        found.into_iter().flatten().collect()
    }

    fn opened(&self, dirfd: i32, path: u64, flags: i32) -> Option<Touched> {
        let writes = flags & (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) != 0;
        let names = flags & libc::O_PATH == 0;
        let unnamed = flags & libc::O_TMPFILE & !libc::O_DIRECTORY != 0;
        (writes && names && !unnamed)
            .then(|| self.place(dirfd, path, None))
            .flatten()
    }

    /// A path with what is done to it; where that is not said, by whether something is there.
    fn place(&self, dirfd: i32, path: u64, touch: Option<Touch>) -> Option<Touched> {
        let path = self.caller.text(path).ok()?;
        let touch = touch.unwrap_or_else(|| match self.walk().object(dirfd, &path, true) {
            Err(Stop::Errno(Errno::ENOENT)) => Touch::Entry,
            _ => Touch::Changed,
        });
        Some((self.as_written(dirfd, &path)?, touch))
    }

    /// Tells of what a call has changed.
    pub(super) fn has_changed(&self, outcome: &Outcome, touched: &[Touched]) {
        // What the kernel carries out is in no covered tree: private, or refused.
        if matches!(outcome, Outcome::Value(0..) | Outcome::Give { .. }) {
            for (path, touch) in touched {
                self.broker.sink.touched(&path_buf(path), *touch);
            }
        }
    }

    /// Tells of what is read or executed.
    pub(super) fn has_read(
        &self,
        dirfd: i32,
        path: &std::ffi::CString,
        object: impl std::os::fd::AsFd,
    ) {
        if !self.broker.sink.wants_touched() {
            return;
        }
        let Ok(look) = at::look(object.as_fd(), c"") else {
            return;
        };
        let touch = if look.is(libc::S_IFDIR) {
            Touch::Listed
        } else {
            Touch::Read
        };
        if let Some(path) = self.as_written(dirfd, path) {
            self.broker.sink.touched(Path::new(&path_buf(&path)), touch);
        }
    }
}
