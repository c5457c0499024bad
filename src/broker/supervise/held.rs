//! Names that something is mounted on: a protected file is a read-only mount of itself, a hidden one has a cover.
//!
//! The mount would refuse what is done to it with EROFS, and inside the kernel says EBUSY about its name. From here such a mount does not
//! hold a name: the kernel looks at the mounts of who asks, and takes those of other namespaces away with the name.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;

use super::caller::Caller;
use super::judge::{Asked, Needs, cause, kind};
use super::memory::Fd;
use super::{Broker, Cause, Stop, place};
use crate::broker::action::Action;
use crate::broker::decide::Verdict;
use crate::sys::at::{self, Look};
use crate::sys::libc;

impl Broker {
    /// Why a name that something is mounted on is not removed, moved or replaced. From here such a mount does not hold a name (the kernel
    /// looks at the mounts of who asks, and takes those of others away), so this is the only place where it is refused.
    pub(super) fn held(&self, action: Action, asked: &Asked<'_>, found: &Look) -> Stop {
        match self.ruled(action, asked, found) {
            Err(stop) => stop,
            // Outside of the sandbox it is busy as well.
            Ok(()) if self.is_mounted_on_host(asked, found) => Errno::EBUSY.into(),
            Ok(()) => Self::denied(Cause::Unsupported, asked),
        }
    }

    /// Whether a rule denies a name that something is mounted on, for its own sake: a protected file is a read-only mount of itself. What
    /// is a part of the plan (another tree, a private directory) is judged there.
    pub(super) fn ruled(
        &self,
        action: Action,
        asked: &Asked<'_>,
        found: &Look,
    ) -> Result<(), Stop> {
        if self.areas.has_mount(found.mount) {
            return Ok(());
        }
        match self.decide(action, asked.site, asked.name, kind(Some(found)))? {
            Verdict::Deny(reason) => Err(Self::denied(cause(reason), asked)),
            Verdict::Allow | Verdict::NeedsGate(_) | Verdict::NeedsSubtreeWalk(_) => Ok(()),
        }
    }

    fn is_mounted_on_host(&self, asked: &Asked<'_>, found: &Look) -> bool {
        let guest = place::join(asked.site.guest(), asked.name.to_bytes());
        let host = self.host_path(&guest).unwrap_or(guest);
        CString::new(host)
            .ok()
            .and_then(|path| at::open_here(&path, libc::O_PATH | libc::O_NOFOLLOW).ok())
            .and_then(|host| at::look(host.as_fd(), c"").ok())
            .is_some_and(|host| {
                host.mount_root && (host.device, host.ino) == (found.device, found.ino)
            })
    }

    /// As [`Self::ruled`], for an object that was reached by a descriptor or by links. Without the lock: the mount refuses it anyway, this is
    /// about the reason.
    pub(super) fn object_ruled(
        &self,
        caller: &Caller<'_>,
        (what, action, needs): (&'static str, Action, Needs),
        object: &OwnedFd,
        look: &Look,
    ) -> Result<(), Stop> {
        if !look.mount_root {
            return Ok(());
        }
        let Some((dir, name)) = self.parent_of(object) else {
            return Ok(());
        };
        let dir = Fd::new(dir);
        let (area, dir_look) = self.area(caller, &dir)?;
        let Some(area) = area.filter(|area| area.is_covered()) else {
            return Ok(());
        };
        let asked = Asked {
            action: what,
            site: &self.site(caller, &dir, &dir_look, area)?,
            name: &name,
            needs,
        };
        self.ruled(action, &asked, look)
    }

    /// The directory that holds an object now, by the path the object has.
    pub(super) fn parent_of(&self, object: &OwnedFd) -> Option<(OwnedFd, CString)> {
        let path = place::path(object.as_fd()).ok()?;
        let slash = path.iter().rposition(|&b| b == b'/')?;
        let (above, name) = path.split_at(slash);
        let above = above.strip_prefix(b"/").filter(|above| !above.is_empty());
        let above = CString::new(above.unwrap_or(b".")).ok()?;
        let name = CString::new(name.get(1..)?).ok()?;
        let how = at::How {
            flags: place::PATH_DIR,
            mode: 0,
            resolve: libc::RESOLVE_NO_SYMLINKS,
        };
        let dir = at::open(self.root.as_fd(), &above, how).ok()?;
        let there = at::look(dir.as_fd(), &name).ok()?;
        let here = at::look(object.as_fd(), c"").ok()?;
        (there.same(&here) && there.mount == here.mount).then_some((dir, name))
    }
}
