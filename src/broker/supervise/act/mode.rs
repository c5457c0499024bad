//! Changing what is there: the chmod family, truncate, `O_TRUNC` of what is not opened for writing.
//!
//! The floor governs neither, so the kernel is never told to continue: the object is pinned and changed here, with the rights of the
//! same user and through the sandbox's own mount, whether or not a rule says anything about it.

use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;

use super::super::areas::Area;
use super::super::denial::Denied;
use super::super::judge::{Asked, Needs, kind};
use super::super::{Broker, Cause, Stop, magic, place};
use super::open::{Wish, reopened};
use super::{Outcome, Turn};
use crate::broker::action::Action;
use crate::sys::at::{self, Look};
use crate::sys::libc;
use crate::sys::task;

impl Turn<'_> {
    pub(super) fn chmod(
        &self,
        dirfd: i32,
        path: u64,
        mode: i32,
        flags: i32,
    ) -> Result<Outcome, Stop> {
        if flags & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) != 0 {
            return Err(Errno::EINVAL.into());
        }
        let path = self.caller.text(path)?;
        let object = if path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
            self.caller.base(&self.broker.root, dirfd, c"")?
        } else {
            let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
            self.walk().object(dirfd, &path, follow)?
        };
        self.change_mode(&object, mode)
    }

    pub(super) fn fchmod(&self, fd: i32, mode: i32) -> Result<Outcome, Stop> {
        let (object, path_only) = self.caller.file(fd)?;
        if path_only {
            return Err(Errno::EBADF.into());
        }
        self.change_mode(&object, mode)
    }

    fn change_mode(&self, object: &OwnedFd, mode: i32) -> Result<Outcome, Stop> {
        let mode = mode.cast_unsigned() & 0o7777;
        let look = at::look(object.as_fd(), c"")?;
        let action = Action::Chmod {
            from: look.mode & 0o7777,
            to: mode,
        };
        let change = Change {
            what: "chmod",
            action,
            needs: Needs::Ownership,
            object,
            look: &look,
        };
        self.change(&change, &|| at::change_mode(object.as_fd(), mode))
    }

    pub(super) fn truncate(&self, path: u64, length: i64) -> Result<Outcome, Stop> {
        if length < 0 {
            return Err(Errno::EINVAL.into());
        }
        let path = self.caller.text(path)?;
        let object = self.walk().object(libc::AT_FDCWD, &path, true)?;
        let look = at::look(object.as_fd(), c"")?;
        match look.mode & libc::S_IFMT {
            libc::S_IFREG => {}
            libc::S_IFDIR => return Err(Errno::EISDIR.into()),
            _ => return Err(Errno::EINVAL.into()),
        }
        let change = Change {
            what: "truncate",
            action: Action::Write,
            needs: Needs::Object,
            object: &object,
            look: &look,
        };
        self.change(&change, &|| {
            self.within_limit(&look, length)?;
            at::truncate(object.as_fd(), length)
        })
    }

    pub(super) fn change(
        &self,
        change: &Change<'_>,
        act: &dyn Fn() -> Result<(), Errno>,
    ) -> Result<Outcome, Stop> {
        let broker = self.broker;
        let Change { object, look, .. } = change;
        let area = broker.areas.of(object.as_fd(), look)?;
        let Some(area) = area.filter(|area| Area::is_covered(area)) else {
            let device = look.is(libc::S_IFCHR) || look.is(libc::S_IFBLK);
            if broker.alone && (device || !self.is_exempt(object, look)?) {
                // No read-only mount would refuse it, and devices are the host's own.
                return Err(Stop::Denied(Box::new(Denied {
                    action: change.what,
                    guest: place::path(object.as_fd())?,
                    cause: Cause::ReadOnly,
                    anyway: look.uid != nix::unistd::geteuid().as_raw(),
                })));
            }
            broker.object_ruled(
                &self.caller,
                (change.what, change.action, change.needs),
                object,
                look,
            )?;
            if change.action == Action::Write && !self.may_truncate(object, look)? {
                return Err(Errno::EACCES.into());
            }
            let acted = act();
            if acted == Err(Errno::EROFS) {
                self.tell_read_only(change.what, change.needs, object);
            }
            acted?;
            return Ok(Outcome::Value(0));
        };
        broker.locked(false, |alone| {
            if let Some((site, name)) = broker.name_of(&self.caller, object, look, area)? {
                let asked = Asked {
                    action: change.what,
                    site: &site,
                    name: &name,
                    needs: change.needs,
                };
                let verdict = broker.decide(change.action, &site, &name, kind(Some(look)))?;
                let checks = Broker::cleared(verdict, alone, &asked)?;
                broker.pass_to_act(checks, &asked)?;
            }
            act()?;
            Ok(Outcome::Value(0))
        })
    }

    /// Reports a change of an object that the kernel refuses because the sandbox made its mount read-only.
    pub(super) fn tell_read_only(&self, what: &'static str, needs: Needs, object: &OwnedFd) {
        if let Some((dir, name)) = self.broker.parent_of(object) {
            self.note(self.read_only(what, &dir, &name, needs));
        }
    }

    /// The caller's own limit on file sizes, with the signal that goes with it (setrlimit(2), semantics 34): this process has others.
    fn within_limit(&self, look: &Look, length: i64) -> Result<(), Errno> {
        let length = u64::try_from(length).map_err(|_| Errno::EINVAL)?;
        if length <= look.size {
            return Ok(());
        }
        match task::file_size_limit(self.caller.tid)? {
            Some(limit) if length > limit => {
                self.caller.verify()?;
                task::signal_thread(self.caller.tid, libc::SIGXFSZ)?;
                Err(Errno::EFBIG)
            }
            _ => Ok(()),
        }
    }

    /// A file outside of the covered trees may be emptied by this process for the child: where the mount refuses it anyway, and where the
    /// child holds the right to write. Not, for instance, on the host's own mount, to which an inherited descriptor leads.
    pub(super) fn may_truncate(&self, object: &OwnedFd, look: &Look) -> Result<bool, Errno> {
        let (_, read_only) = at::file_system(object.as_fd())?;
        if magic::is_proc(object.as_fd())? {
            return Ok(false);
        }
        if read_only {
            return Ok(true);
        }
        self.is_exempt(object, look)
    }

    /// `O_TRUNC` without write access, outside of the covered trees. The path may lead to another object by the time the kernel looked at
    /// it, so it is carried out here or not at all.
    pub(super) fn empty(
        &self,
        wish: &Wish,
        object: &OwnedFd,
        look: &Look,
    ) -> Result<Outcome, Stop> {
        let may = if look.is(libc::S_IFREG) {
            self.may_truncate(object, look)?
        } else {
            self.may_reopen(object, look)?
        };
        if may {
            reopened(wish, object)
        } else {
            Err(Errno::EACCES.into())
        }
    }

    /// A device or a FIFO that the child reaches anyway may be opened for it: there is nothing to empty. `/dev/tty` is the terminal of
    /// whoever opens it (tty(4)), which must be the child's.
    fn may_reopen(&self, object: &OwnedFd, look: &Look) -> Result<bool, Errno> {
        if !self.is_exempt(object, look)? {
            return Ok(false);
        }
        let terminal = look.is(libc::S_IFCHR) && look.represents == (5, 0);
        Ok(!terminal || task::session(self.caller.tid)? == task::session(0)?)
    }

    /// The object lies where the child holds the right to write, and on a mount of the sandbox.
    pub(super) fn is_exempt(&self, object: &OwnedFd, look: &Look) -> Result<bool, Errno> {
        let in_sandbox = self.caller.mount(look.mount)?.is_some();
        Ok(in_sandbox
            && self
                .broker
                .areas
                .is_exempt_path(&place::path(object.as_fd())?))
    }
}

/// A change of one object.
pub(super) struct Change<'a> {
    pub(super) what: &'static str,
    pub(super) action: Action,
    pub(super) needs: Needs,
    pub(super) object: &'a OwnedFd,
    pub(super) look: &'a Look,
}
