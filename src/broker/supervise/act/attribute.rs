//! Extended attributes: setxattr, removexattr and their like.
//!
//! An access control list (acl(5)) is an attribute that says who may read, write and execute, and its owner, mask and other entries are
//! the file's mode. So `system.*` is judged as a change of mode that could be any. The name stands in the caller's memory, which may say
//! something else after it was looked at: no such call goes on in the kernel.

use crate::sys::libc;
use std::ffi::{CStr, CString};
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::unistd::geteuid;

use super::super::Stop;
use super::super::judge::Needs;
use super::super::memory::Fd;
use super::mode::Change;
use super::{Outcome, Turn};
use crate::broker::action::Action;
use crate::sys::at;

/// XATTR_NAME_MAX and XATTR_SIZE_MAX of linux/limits.h.
const LONGEST_NAME: usize = 255;
const LARGEST: u64 = 65536;
/// Every permission there is.
const ANY_MODE: u32 = 0o7777;

/// Whose attribute it is: what the first argument is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// A path; a link that is the last component is followed, or meant itself.
    Path {
        /// It is followed.
        follow: bool,
    },
    /// A descriptor that is open for more than its place.
    Descriptor,
}

impl Turn<'_> {
    pub(super) fn set_attribute(&self, of: Of) -> Result<Outcome, Stop> {
        // setxattr_copy() of the kernel, in its order.
        let flags = self.int(4);
        if flags & !(libc::XATTR_CREATE | libc::XATTR_REPLACE) != 0 {
            return Err(Errno::EINVAL.into());
        }
        let name = self.attribute_name()?;
        let size = self.arg(3);
        if size > LARGEST {
            return Err(Errno::E2BIG.into());
        }
        let size = usize::try_from(size).map_err(|_| Errno::E2BIG)?;
        let value = if size == 0 {
            Vec::new()
        } else {
            self.caller.bytes(self.arg(2), size)?
        };
        let object = self.bearer(of)?;
        let wants = match flags {
            0 => None,
            flags => Some(flags == libc::XATTR_REPLACE),
        };
        self.change_attribute(&object, &name, wants, &|| {
            at::set_attribute(object.as_fd(), &name, &value, flags)
        })
    }

    pub(super) fn remove_attribute(&self, of: Of) -> Result<Outcome, Stop> {
        let name = self.attribute_name()?;
        let object = self.bearer(of)?;
        self.change_attribute(&object, &name, Some(true), &|| {
            at::remove_attribute(object.as_fd(), &name)
        })
    }

    fn attribute_name(&self) -> Result<CString, Errno> {
        match self.caller.text(self.arg(1)) {
            Ok(name) if (1..=LONGEST_NAME).contains(&name.as_bytes().len()) => Ok(name),
            Ok(_) | Err(Errno::ENAMETOOLONG) => Err(Errno::ERANGE),
            Err(errno) => Err(errno),
        }
    }

    fn bearer(&self, of: Of) -> Result<Fd, Stop> {
        match of {
            Of::Path { follow } => {
                let path = self.caller.text(self.arg(0))?;
                Ok(self.walk().object(libc::AT_FDCWD, &path, follow)?)
            }
            Of::Descriptor => {
                let (object, path_only) = self.caller.file(self.int(0))?;
                if path_only {
                    return Err(Errno::EBADF.into());
                }
                Ok(Fd::new(object))
            }
        }
    }

    fn change_attribute(
        &self,
        object: &Fd,
        name: &CStr,
        wants: Option<bool>,
        act: &dyn Fn() -> Result<(), Errno>,
    ) -> Result<Outcome, Stop> {
        match name.to_bytes() {
            // Labels and capabilities of programs: not without a capability, and the command has none.
            name if name.starts_with(b"security.") || name.starts_with(b"trusted.") => {
                Err(Errno::EPERM.into())
            }
            name if name.starts_with(b"system.") => {
                let look = at::look(object.as_fd(), c"")?;
                let action = Action::Chmod {
                    from: look.mode & ANY_MODE,
                    to: ANY_MODE,
                };
                let change = Change {
                    what: "chmod",
                    action,
                    needs: Needs::Ownership,
                    object,
                    look: &look,
                };
                self.change(&change, act)
            }
            _ if self.broker.alone => {
                let look = at::look(object.as_fd(), c"")?;
                let change = Change {
                    what: "xattr",
                    action: Action::Write,
                    needs: Needs::Object,
                    object,
                    look: &look,
                };
                self.change(&change, act)
            }
            _ => {
                let acted = act();
                if acted == Err(Errno::EROFS) && would_take(object, name, wants)? {
                    self.tell_change("xattr", Needs::Object, object);
                }
                acted?;
                Ok(Outcome::Value(0))
            }
        }
    }
}

/// What setxattr(2) and removexattr(2) ask for beside the right to write, on a mount that is writable; `wants` is whether the attribute
/// must be there, or must not.
fn would_take(object: &Fd, name: &CStr, wants: Option<bool>) -> Result<bool, Errno> {
    let look = at::look(object.as_fd(), c"")?;
    // xattr(7): `user.*` only of files and directories; of a sticky directory the owner alone (xattr_permission() of the kernel).
    let own = look.uid == geteuid().as_raw();
    let takes =
        look.is(libc::S_IFREG) || look.is(libc::S_IFDIR) && (own || look.mode & libc::S_ISVTX == 0);
    // Not on every file system, and not every name.
    let has = at::has_attribute(object.as_fd(), name);
    Ok(takes && has.is_ok_and(|has| wants.is_none_or(|wanted| wanted == has)))
}
