//! Programs: those that a name in `deny_read` hides are refused here; those that `exec.deny_writable` closes are refused by the command's
//! domain and only told of here.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use nix::errno::Errno;

use super::super::areas::path_buf;
use super::super::denial::Denied;
use super::super::memory::Fd;
use super::super::{Cause, Stop, place};
use super::{Outcome, Turn};
use crate::sys::at;
use crate::sys::libc;

/// BINPRM_BUF_SIZE of linux/binfmts.h: what the kernel looks at for the line that names an interpreter.
const LINE: usize = 256;
/// FUSE_SUPER_MAGIC of linux/magic.h.
const FUSE: i64 = 0x6573_5546;

impl Turn<'_> {
    /// execve(2) and execveat(2). A program is opened by the kernel. A path that changes after this look is not noticed: what is executed
    /// is not shown, but it can be read out of the process it becomes.
    pub(super) fn execute(&self, dirfd: i32, path: u64, flags: i32) -> Result<Outcome, Stop> {
        let tells = self.broker.sink.closes_programs();
        // Whatever goes wrong while looking, the kernel meets it as well.
        if (tells || self.decides_reads() || self.broker.sink.wants_touched())
            && let Ok(object) = self.program(dirfd, path, flags)
        {
            if let Ok(path) = self.caller.text(path) {
                self.has_read(dirfd, &path, &*object);
            }
            if let Some(interpreter) = interpreter(&object) {
                self.has_read(libc::AT_FDCWD, &interpreter, &*object);
            }
            let look = at::look(object.as_fd(), c"")?;
            self.readable(&object, &look, "exec")?;
            if tells && let Ok(Some(denied)) = self.closed_program(&object) {
                self.broker.report(&self.caller, denied);
            }
        }
        Ok(self.executes())
    }

    fn program(&self, dirfd: i32, path: u64, flags: i32) -> Result<Fd, Stop> {
        let path = self.caller.text(path)?;
        if path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
            return Ok(self.caller.descriptor(dirfd)?.into());
        }
        let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
        self.walk().object(dirfd, &path, follow)
    }

    fn closed_program(&self, object: &OwnedFd) -> Result<Option<Denied>, Stop> {
        if let Some(denied) = self.closed(object)? {
            return Ok(Some(denied));
        }
        // A script is as good as the program that reads it.
        let Some(interpreter) = interpreter(object) else {
            return Ok(None);
        };
        let object = self.walk().object(libc::AT_FDCWD, &interpreter, true)?;
        Ok(self.closed(&object)?)
    }

    /// The refusal, if there is one: outside it would be executed.
    fn closed(&self, object: &OwnedFd) -> Result<Option<Denied>, Errno> {
        let look = at::look(object.as_fd(), c"")?;
        if !look.is(libc::S_IFREG) || look.links == 0 {
            return Ok(None);
        }
        let guest = place::path(object.as_fd())?;
        let closed = self.broker.sink.closes_program(&path_buf(&guest));
        if !closed || at::access(object.as_fd(), c"", libc::X_OK).is_err() {
            return Ok(None);
        }
        Ok(Some(Denied {
            action: "exec",
            guest,
            cause: Cause::Program,
            anyway: false,
        }))
    }
}

/// What the first line of a script names (execve(2), "Interpreter scripts").
fn interpreter(object: &OwnedFd) -> Option<CString> {
    // Nothing that could wait, and no cover, which would tell of this process.
    let plain = at::look(object.as_fd(), c"").ok()?.is(libc::S_IFREG);
    if !plain || at::file_system(object.as_fd()).ok()?.0 == FUSE {
        return None;
    }
    let file = File::from(at::open_here(&at::own_name(object.as_fd()), libc::O_RDONLY).ok()?);
    let mut head = [0; LINE];
    let length = file.read_at(&mut head, 0).ok()?;
    named(head.get(..length)?)
}

fn named(head: &[u8]) -> Option<CString> {
    let line = head.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?;
    let word = line
        .split(|&b| matches!(b, b' ' | b'\t' | 0))
        .find(|word| !word.is_empty())?;
    CString::new(word).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_names_an_interpreter() {
        let read = |head: &[u8]| named(head).map(|name| name.into_string().unwrap());
        for (head, wanted) in [
            (&b"#!/bin/sh\n"[..], Some("/bin/sh")),
            (b"#! \t/usr/bin/env python\nx", Some("/usr/bin/env")),
            (b"#!/bin/sh", Some("/bin/sh")),
            (b"#!\n/bin/sh", None),
            (b"\x7fELF", None),
            (b"", None),
        ] {
            assert_eq!(read(head).as_deref(), wanted);
        }
    }
}
