//! Whether a call is going to fail because the sandbox made a mount read-only, and for no other reason.
//!
//! A failed call that the sandbox did not cause is never reported. So the user's own rights must allow it, the file system itself must be
//! writable, and the host must not have the same directory read-only.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;

use super::act::Turn;
use super::caller::Caller;
use super::denial::Denied;
use super::judge::{Needs, Site, cause, kind};
use super::memory::Fd;
use super::{Cause, Stop, place};
use crate::broker::action::Action;
use crate::broker::decide::Verdict;
use crate::sys::at::{self, Look};

impl Turn<'_> {
    /// The refusal to report, if it is one.
    pub(super) fn read_only(
        &self,
        action: &'static str,
        dir: &OwnedFd,
        name: &CStr,
        needs: Needs,
    ) -> Option<Denied> {
        // access(2) asks for the user's rights before it looks whether the mount is read-only.
        let rights = match needs {
            Needs::Directory | Needs::Empty => {
                at::access(dir.as_fd(), c"", libc::W_OK | libc::X_OK)
            }
            Needs::Object => at::access(dir.as_fd(), name, libc::W_OK),
            Needs::Ownership => Ok(()),
        };
        if rights != Err(Errno::EROFS) {
            return None;
        }
        let guest = self.closed_by_the_sandbox(dir)?;
        Some(Denied {
            action,
            guest: place::join(&guest, name.to_bytes()),
            cause: Cause::ReadOnly,
            anyway: false,
        })
    }

    /// An entry of a covered directory with something mounted on it. Where that is read-only it stands for a rule, which refuses before
    /// the kernel does, and is reported. Anything else is the kernel's to answer.
    pub(super) fn mounted(
        &self,
        (what, action): (&'static str, Action),
        site: &Site,
        name: &CStr,
        found: &Look,
        needs: Needs,
    ) -> Result<(), Stop> {
        let mount = self.caller.mount(found.mount)?;
        // A cover answers for itself, and every question about it is one to ccbox.
        if mount.is_none_or(|mount| mount.cover || mount.file_system_read_only) {
            return Ok(());
        }
        let how = at::How {
            flags: place::PATH_ONLY,
            ..at::How::default()
        };
        let Ok(object) = at::open(site.fd.as_fd(), name, how) else {
            return Ok(());
        };
        let rights = match needs {
            Needs::Object => at::access(object.as_fd(), c"", libc::W_OK) == Err(Errno::EROFS),
            Needs::Ownership => found.uid == nix::unistd::geteuid().as_raw(),
            Needs::Directory | Needs::Empty => {
                at::access(site.fd.as_fd(), c"", libc::W_OK | libc::X_OK).is_ok()
            }
        };
        if !rights || self.closed_by_the_sandbox(&object).is_none() {
            return Ok(());
        }
        let verdict = self.broker.decide(action, site, name, kind(Some(found)))?;
        Err(Stop::Denied(Box::new(Denied {
            action: what,
            guest: place::join(site.guest(), name.to_bytes()),
            cause: match verdict {
                Verdict::Deny(reason) => cause(reason),
                Verdict::Allow | Verdict::NeedsGate(_) | Verdict::NeedsSubtreeWalk(_) => {
                    Cause::ReadOnly
                }
            },
            anyway: false,
        })))
    }

    /// As [`Self::mounted`], for an object whose name is not known yet.
    pub(super) fn mounted_object(
        &self,
        what: (&'static str, Action),
        object: &OwnedFd,
        found: &Look,
        needs: Needs,
    ) -> Result<(), Stop> {
        let path = place::path(object.as_fd())?;
        let slash = path.iter().rposition(|&b| b == b'/').ok_or(Errno::EACCES)?;
        let (above, name) = path.split_at(slash);
        let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| Errno::EACCES);
        let above = [b".", above].concat();
        let how = at::How {
            flags: place::PATH_DIR,
            mode: 0,
            resolve: libc::RESOLVE_NO_SYMLINKS,
        };
        let dir = Fd::new(at::open(self.broker.root.as_fd(), &text(&above)?, how)?);
        let (area, look) = self.broker.area(&self.caller, &dir)?;
        let Some(area) = area.filter(|area| area.is_covered()) else {
            let rights = match needs {
                Needs::Object => at::access(object.as_fd(), c"", libc::W_OK) == Err(Errno::EROFS),
                Needs::Directory | Needs::Ownership | Needs::Empty => {
                    found.uid == nix::unistd::geteuid().as_raw()
                }
            };
            self.note(
                self.closed_by_the_sandbox(object)
                    .filter(|_| rights)
                    .map(|guest| Denied {
                        action: what.0,
                        guest,
                        cause: Cause::ReadOnly,
                        anyway: false,
                    }),
            );
            return Ok(());
        };
        let name = text(name.get(1..).unwrap_or_default())?;
        self.broker.locked(false, |_| {
            let site = self.broker.site(&self.caller, &dir, &look, area)?;
            self.mounted(what, &site, &name, found, needs)
        })
    }

    /// The path inside of what only the sandbox has made read-only.
    fn closed_by_the_sandbox(&self, object: &OwnedFd) -> Option<Vec<u8>> {
        let (_, read_only) = at::file_system(object.as_fd()).ok()?;
        if !read_only {
            return None;
        }
        let look = at::look(object.as_fd(), c"").ok()?;
        let mount = self.caller.mount(look.mount).ok().flatten()?;
        if mount.file_system_read_only {
            return None;
        }
        let guest = place::path(object.as_fd()).ok()?;
        let path = CString::new(guest.clone()).ok()?;
        if let Ok(host) = at::open_here(&path, libc::O_PATH)
            && let Ok(host_look) = at::look(host.as_fd(), c"")
            && (host_look.device, host_look.ino) == (look.device, look.ino)
            && at::file_system(host.as_fd()).is_ok_and(|(_, read_only)| read_only)
        {
            return None;
        }
        Some(guest)
    }
}

/// A mount, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mount {
    /// The file system is read-only, not just this mount of it.
    pub(super) file_system_read_only: bool,
    /// A file system in user space, as the covers of what cannot be read are.
    pub(super) cover: bool,
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
        let mut rest = fields.skip_while(|field| *field != b"-");
        let kind = rest.nth(1)?;
        let options = rest.nth(1)?;
        Some(Mount {
            cover: kind == b"fuse" || kind.starts_with(b"fuse."),
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
                     37 35 0:5 / /c rw - tmpfs none ro\n38 35 0:6 /1 /d ro - fuse none rw\n39 35 0:7 / /e ro - fuseblk none rw\n";
        let mount = |id| find(text, id).map(|mount| (mount.file_system_read_only, mount.cover));
        assert_eq!(mount(36), Some((false, false)));
        assert_eq!(mount(37), Some((true, false)));
        assert_eq!(mount(38), Some((false, true)));
        assert_eq!(mount(39), Some((false, false)));
        assert_eq!(mount(3), None);
    }
}
