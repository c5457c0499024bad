//! Opens for reading, where names decide about them (semantics 6) or `--trace` watches them.
//!
//! Landlock cannot stand below this as it does below writes: a domain without the right to read a file cannot execute it either, because
//! the kernel opens programs for reading. So here, unlike for writes, *nothing is left to the kernel that reads something with a name*: the
//! object is pinned, judged by the name it has now, and opened through that very descriptor. What the kernel still does by itself are opens
//! that read nothing that is there: with `O_PATH`, of a new file (`O_EXCL`, `O_TMPFILE`), for writing only. Those flags are in registers.
//!
//! A descriptor opened here is opened with the rights of this process: the child's user and no capability, but the owner of the child's
//! user namespace. Only /proc and the controlling terminal ask who opens; both are answered as for the child.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;

use super::super::denial::Denied;
use super::super::{Cause, Stop, magic, place};
use super::open::{Wish, reopened};
use super::{Outcome, Turn};
use crate::sys::at::{self, Look};
use crate::sys::libc;

/// `/dev/tty` (Documentation/admin-guide/devices.txt of the kernel).
const TERMINAL: (u32, u32) = (5, 0);

/// What anybody may read of pid 1, which is nobody's to trace (proc(5)).
const OF_EVERYBODY: [&[u8]; 10] = [
    b"stat",
    b"statm",
    b"status",
    b"cmdline",
    b"comm",
    b"cgroup",
    b"limits",
    b"oom_score",
    b"oom_score_adj",
    b"task",
];

impl Turn<'_> {
    /// An open with these flags reads something that is there, and names decide about that.
    pub(super) fn judges(&self, flags: i32) -> bool {
        self.decides_reads() && reads(flags)
    }

    /// Names decide about what is read.
    pub(super) fn decides_reads(&self) -> bool {
        self.broker.reads.as_ref().is_some_and(|r| r.decides)
    }

    /// Watches an open for reading that the kernel carries out.
    pub(super) fn watch(&self, dirfd: i32, path: u64, flags: i32) -> Result<(), Stop> {
        if self.watches() && reads(flags) && flags & libc::O_CREAT == 0 {
            let path = self.caller.text(path)?;
            let found = self
                .walk()
                .object(dirfd, &path, flags & libc::O_NOFOLLOW == 0);
            match found {
                Err(Stop::Errno(Errno::ENOENT)) => self.note(self.not_shown(dirfd, &path)),
                Ok(object) => {
                    self.has_read(dirfd, &path, &*object);
                    self.note(self.without_grant(object.as_fd()));
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn watches(&self) -> bool {
        self.broker.reads.as_ref().is_some_and(|r| r.watched)
    }

    /// What the read floor refuses: a hidden file that the host has made or replaced, or what it has put beside one.
    fn without_grant(&self, object: BorrowedFd<'_>) -> Option<Denied> {
        let (beside, reads) = (self.broker.beside.as_ref()?, self.broker.reads.as_ref()?);
        let look = at::look(object, c"").ok()?;
        let guest = place::path(object).ok()?;
        if !beside.refuses(self.broker.root.as_fd(), &guest, &look) {
            return None;
        }
        let on_host = reads.host(to_path(&guest))?;
        Some(Denied {
            action: "read",
            anyway: readable(&on_host).is_none(),
            cause: reads.denies(&guest).map_or(Cause::Beside, Cause::Hidden),
            guest,
        })
    }

    /// What is not there inside, and is on the host, where the caller could read it.
    fn not_shown(&self, dirfd: i32, path: &CString) -> Option<Denied> {
        let guest = self.as_written(dirfd, path)?;
        let on_host = self.broker.reads.as_ref()?.host(to_path(&guest));
        let on_host = on_host.unwrap_or_else(|| to_path(&guest).to_path_buf());
        let found = readable(&on_host)?;
        // Where links lead on the host: that is what would have to be shown.
        let leads = place::path(found.as_fd()).ok()?;
        let moved = guest != on_host.as_os_str().as_bytes();
        Some(Denied {
            action: "read",
            guest: if moved { guest } else { leads },
            cause: Cause::NotShown,
            anyway: false,
        })
    }

    /// The absolute path that was written, as words go.
    pub(super) fn as_written(&self, dirfd: i32, path: &CString) -> Option<Vec<u8>> {
        let mut whole: Vec<u8> = Vec::new();
        if !path.to_bytes().starts_with(b"/") {
            let base = self.caller.base(&self.broker.root, dirfd, path).ok()?;
            whole = place::path(base.as_fd()).ok()?;
        }
        let mut parts = place::components(&whole);
        for part in place::components(path.to_bytes()) {
            match part {
                b"." => {}
                b".." => drop(parts.pop()),
                name => parts.push(name),
            }
        }
        let joined = parts.join(&b'/');
        Some(place::join(b"/", &joined))
    }

    /// An open that only reads.
    pub(super) fn read(&self, wish: &Wish) -> Result<Outcome, Stop> {
        let mut walk = self.walk().with(wish.resolve);
        let object = match walk.object(wish.dirfd, &wish.path, wish.follows()) {
            // A hidden directory lets nobody look for names in it, this process neither.
            Err(Stop::Errno(Errno::EACCES)) => return Err(self.hidden_way(wish)),
            Err(Stop::Errno(Errno::ENOENT)) if self.watches() => {
                self.note(self.not_shown(wish.dirfd, &wish.path));
                return Err(Errno::ENOENT.into());
            }
            object => object?,
        };
        let look = at::look(object.as_fd(), c"")?;
        if wish.has(libc::O_DIRECTORY) && !look.is(libc::S_IFDIR) {
            return Err(Errno::ENOTDIR.into());
        }
        if look.is(libc::S_IFLNK) {
            return Err(Errno::ELOOP.into());
        }
        self.readable(&object, &look, "read")?;
        self.has_read(wish.dirfd, &wish.path, &*object);
        if magic::is_proc(object.as_fd())? {
            self.of_process(&object, &look, false)?;
        }
        self.give(wish, &object, &look)
    }

    /// An open that reads and may write, of an object outside of the covered trees. Of those the floor says nothing.
    pub(super) fn read_and_write(&self, wish: &Wish, object: &OwnedFd) -> Result<Outcome, Stop> {
        let look = at::look(object.as_fd(), c"")?;
        self.readable(object, &look, "read")?;
        let writes = wish.flags & (libc::O_ACCMODE | libc::O_TRUNC) != 0;
        if magic::is_proc(object.as_fd())? {
            self.of_process(object, &look, writes)?;
        } else if writes
            && !self.may_truncate(object, &look)?
            && !self.caller.holds_for_writing(&look)?
        {
            return Err(Errno::EACCES.into());
        }
        self.give(wish, object, &look)
    }

    fn give(&self, wish: &Wish, object: &OwnedFd, look: &Look) -> Result<Outcome, Stop> {
        if look.is(libc::S_IFCHR) && look.represents == TERMINAL {
            let terminal = self.caller.terminal()?;
            return reopened(wish, terminal.as_ref().unwrap_or(object));
        }
        reopened(wish, object)
    }

    /// Refuses what a rule names: by the name the object has, or had last.
    pub(super) fn readable(
        &self,
        object: &OwnedFd,
        look: &Look,
        action: &'static str,
    ) -> Result<(), Stop> {
        let Some(reads) = self.broker.reads.as_ref().filter(|r| r.decides) else {
            return Ok(());
        };
        let path = match place::path(object.as_fd()) {
            // Pipes and the like.
            Err(Errno::ENOENT) => return Ok(()),
            path => path?,
        };
        // Moved by the host, after it was found here, out of all that its mount shows (prepend_path in the kernel's fs/d_path.c): what it
        // is called now is nobody's to know.
        let nowhere = path.strip_suffix(place::DELETED).unwrap_or(&path) == b"/";
        if nowhere && !self.broker.areas.is_root(look) {
            return Err(Errno::EACCES.into());
        }
        // Whether or not it has other names: those that are not shown inside do not make this one another's.
        let last = path.strip_suffix(place::DELETED);
        let denied = std::iter::once(path.as_slice())
            .chain(last)
            .find_map(|name| Some((reads.denies(name)?, name.to_vec())));
        let Some((index, guest)) = denied else {
            return Ok(());
        };
        // A descriptor that the caller of ccbox has handed over leads to the host's own mounts; to those nothing else does.
        if self.caller.mount(look.mount)?.is_none() {
            return Ok(());
        }
        let on_host = reads.host(to_path(&guest));
        Err(Stop::Denied(Box::new(Denied {
            action,
            anyway: on_host.is_none_or(|host| readable(&host).is_none()),
            guest,
            cause: Cause::Hidden(index),
        })))
    }

    /// No right to look for a name: because of a rule, if one covers the path.
    fn hidden_way(&self, wish: &Wish) -> Stop {
        let reads = self.broker.reads.as_ref();
        let denied = reads.and_then(|reads| {
            let guest = self.as_written(wish.dirfd, &wish.path)?;
            let cause = Cause::Hidden(reads.denies(&guest)?);
            let there = readable(&reads.host(to_path(&guest))?).is_some();
            Some(Denied {
                action: "read",
                guest,
                cause,
                anyway: !there,
            })
        });
        denied.map_or(Stop::Errno(Errno::EACCES), |d| Stop::Denied(Box::new(d)))
    }

    /// Of /proc the child gets what it could open itself: this process may look at more. Other processes inside run in the same domain as
    /// the child, but for pid 1, whose memory is what everything rests on.
    fn of_process(&self, object: &OwnedFd, look: &Look, writes: bool) -> Result<(), Stop> {
        let path = place::path(object.as_fd())?;
        let parts = place::components(&path);
        let number = |c: &[u8]| std::str::from_utf8(c).ok()?.parse::<i32>().ok();
        let owner = match parts.as_slice() {
            [b"proc"] => return Ok(()),
            [b"proc", name, ..] => number(name),
            _ => return Err(Errno::EACCES.into()),
        };
        let status = self.caller.status()?;
        let own = [Some(status.inner_tgid), Some(status.inner_tid)].contains(&owner);
        let allowed = match (owner, parts.as_slice()) {
            // Settings of the machine.
            (None, _) => !writes,
            _ if own => true,
            (Some(_), [_, _]) => true,
            (Some(_), [_, _, entry]) if OF_EVERYBODY.contains(entry) => !writes,
            // What may not be traced belongs to root (proc(5), PR_SET_DUMPABLE).
            (Some(owner), _) => owner != 1 && look.uid == nix::unistd::geteuid().as_raw(),
        };
        if allowed {
            Ok(())
        } else {
            Err(Errno::EACCES.into())
        }
    }
}

/// An open with these flags reads something that has a name already.
fn reads(flags: i32) -> bool {
    let access = flags & libc::O_ACCMODE;
    let new = flags & libc::O_TMPFILE == libc::O_TMPFILE
        || flags & (libc::O_CREAT | libc::O_EXCL) == libc::O_CREAT | libc::O_EXCL;
    flags & libc::O_PATH == 0 && !new && (access == libc::O_RDONLY || access == libc::O_RDWR)
}

/// The object, if it could be read without a sandbox.
fn readable(host: &Path) -> Option<OwnedFd> {
    let path = CString::new(host.as_os_str().as_bytes()).ok()?;
    let object = at::open_here(&path, libc::O_PATH).ok()?;
    at::access(object.as_fd(), c"", libc::R_OK).ok()?;
    Some(object)
}

fn to_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
