//! Whether a call is going to fail because the sandbox made a mount read-only, and for no other reason.
//!
//! A failed call that the sandbox did not cause is never reported. So the user's own rights must allow it, the file system itself must be
//! writable, and the host must not have the same directory read-only.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::unistd::geteuid;

use super::act::Turn;
use super::caller::Caller;
use super::denial::Denied;
use super::judge::Needs;
use super::{Cause, place};
use crate::sys::at::{self, How};
use crate::sys::libc;

impl Turn<'_> {
    /// The refusal to report, if it is one.
    pub(super) fn read_only(
        &self,
        action: &'static str,
        dir: &OwnedFd,
        name: &CStr,
        needs: Needs,
    ) -> Option<Denied> {
        // Something else may be mounted on the name itself.
        let object = match needs {
            Needs::Directory | Needs::Empty => None,
            Needs::Object | Needs::Ownership => {
                let how = How {
                    flags: place::PATH_ONLY,
                    ..How::default()
                };
                Some(at::open(dir.as_fd(), name, how).ok()?)
            }
        };
        let held = object.as_ref().unwrap_or(dir).as_fd();
        let (_, read_only) = at::file_system(held).ok()?;
        if !read_only {
            return None;
        }
        // access(2) asks for the user's rights before it looks whether the mount is read-only.
        let rights = match needs {
            Needs::Directory | Needs::Empty => {
                at::access(dir.as_fd(), c"", libc::W_OK | libc::X_OK)
            }
            Needs::Object => at::access(dir.as_fd(), name, libc::W_OK),
            // The owner's alone.
            Needs::Ownership if at::look(held, c"").ok()?.uid == geteuid().as_raw() => {
                Err(Errno::EROFS)
            }
            Needs::Ownership => Ok(()),
        };
        if rights != Err(Errno::EROFS) {
            return None;
        }
        let look = at::look(held, c"").ok()?;
        let mount = self.caller.mount(look.mount).ok().flatten()?;
        if mount.file_system_read_only {
            return None;
        }
        let guest = place::path(held).ok()?;
        let path = std::ffi::CString::new(guest.clone()).ok()?;
        if let Ok(host) = at::open_here(&path, libc::O_PATH)
            && let Ok(host_look) = at::look(host.as_fd(), c"")
            && (host_look.device, host_look.ino) == (look.device, look.ino)
            && at::file_system(host.as_fd()).is_ok_and(|(_, read_only)| read_only)
        {
            return None;
        }
        let guest = match object {
            Some(_) => guest,
            None => place::join(&guest, name.to_bytes()),
        };
        Some(Denied {
            action,
            guest,
            cause: Cause::ReadOnly,
            anyway: false,
        })
    }
}

/// A mount, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mount {
    /// The file system is read-only, not just this mount of it.
    pub(super) file_system_read_only: bool,
}

impl Caller<'_> {
    /// The mount with this id, if the caller's mount namespace has it (proc_pid_mountinfo(5)).
    pub(super) fn mount(&self, id: u64) -> Result<Option<Mount>, Errno> {
        Ok(find(&self.mounts()?, id))
    }
}

fn find(text: &[u8], id: u64) -> Option<Mount> {
    text.split(|&b| b == b'\n').find_map(|line| {
        let mut fields = line.split(|&b| b == b' ');
        let number = std::str::from_utf8(fields.next()?).ok()?;
        if number.parse() != Ok(id) {
            return None;
        }
        // Optional fields end with a dash; then the type, the source, the options of the file system.
        let options = fields.skip_while(|field| *field != b"-").nth(3)?;
        Some(Mount {
            file_system_read_only: options.split(|&b| b == b',').any(|option| option == b"ro"),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_and_the_mount_are_told_apart() {
        let text =
            b"36 35 98:0 /a /b ro,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue\n\
                     37 35 0:5 / /c rw - tmpfs none ro\n";
        let mount = |id| find(text, id).map(|mount| mount.file_system_read_only);
        assert_eq!(mount(36), Some(false));
        assert_eq!(mount(37), Some(true));
        assert_eq!(mount(3), None);
    }
}
