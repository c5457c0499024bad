//! Opening what has no name of its own in the path: openat2(2) that only reads, and files without a name (`O_TMPFILE`).

use std::os::fd::AsFd;

use nix::errno::Errno;

use super::super::areas::Area;
use super::super::judge::{Asked, Needs, sound};
use super::super::{Broker, Stop, place};
use super::open::{Wish, not_ours};
use super::{Outcome, Turn};
use crate::broker::decide::decide_unnamed;
use crate::sys::at::{self, How};
use crate::sys::libc;

/// `struct open_how` as it was first, and the largest the kernel looks at.
const HOW_SIZE: usize = 24;
const HOW_LARGEST: usize = 4096;

impl Turn<'_> {
    /// openat2(2). Its flags are in memory, so that the kernel would read other ones than these: it is never told to continue.
    pub(super) fn open_how(
        &self,
        dirfd: i32,
        path: u64,
        how: u64,
        size: u64,
    ) -> Result<Outcome, Stop> {
        let how = self.copy_how(how, size)?;
        // The kernel's own opinion of the flags, for a path that is refused only after them.
        match at::open(self.broker.root.as_fd(), c"", how) {
            Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno.into()),
            Ok(_) => return Err(Errno::EINVAL.into()),
        }
        let path = self.caller.text(path)?;
        if how.resolve & libc::RESOLVE_CACHED != 0 {
            // "May not be possible": the caller asks again without.
            return Err(Errno::EAGAIN.into());
        }
        let flags = i32::try_from(how.flags).map_err(|_| Errno::EINVAL)?;
        let wish = Wish {
            dirfd,
            path,
            flags,
            mode: u32::try_from(how.mode).map_err(|_| Errno::EINVAL)?,
            resolve: how.resolve,
            floor: false,
            judged: self.judges(flags),
            modern: true,
        };
        self.may_be_given(&wish)?;
        let writes = flags & (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) != 0;
        if flags & libc::O_PATH != 0 || !writes {
            self.read_only_how(&wish)
        } else if flags & libc::O_TMPFILE == libc::O_TMPFILE {
            self.unnamed(&wish)
        } else {
            self.named(&wish)
        }
    }

    /// copy_struct_from_user() of the kernel.
    fn copy_how(&self, address: u64, size: u64) -> Result<How, Errno> {
        let size = usize::try_from(size).map_err(|_| Errno::E2BIG)?;
        if size < HOW_SIZE {
            return Err(Errno::EINVAL);
        }
        if size > HOW_LARGEST {
            return Err(Errno::E2BIG);
        }
        let bytes = self.caller.bytes(address, size)?;
        let (known, unknown) = bytes.split_at_checked(HOW_SIZE).ok_or(Errno::EINVAL)?;
        if unknown.iter().any(|&b| b != 0) {
            return Err(Errno::E2BIG);
        }
        let mut words = known
            .chunks_exact(8)
            .filter_map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)));
        let mut next = || words.next().ok_or(Errno::EINVAL);
        Ok(How {
            flags: next()?,
            mode: next()?,
            resolve: next()?,
        })
    }

    /// openat2(2) that writes nothing.
    fn read_only_how(&self, wish: &Wish) -> Result<Outcome, Stop> {
        let mut walk = self.walk().with(wish.resolve);
        let object = walk.object(wish.dirfd, &wish.path, wish.follows())?;
        let look = at::look(object.as_fd(), c"")?;
        if wish.has(libc::O_DIRECTORY) && !look.is(libc::S_IFDIR) {
            return Err(Errno::ENOTDIR.into());
        }
        if wish.has(libc::O_PATH) {
            // SECCOMP_IOCTL_NOTIF_ADDFD takes no such descriptor: its fget() answers EBADF. openat(2) with the same flags is the kernel's.
            return Err(Errno::ENOSYS.into());
        }
        self.readable(&object, &look, "read")?;
        if look.is(libc::S_IFLNK) {
            return Err(Errno::ELOOP.into());
        }
        // Outside of the covered trees the child's domain may deny reading, which says nothing to this process.
        let covered = self
            .broker
            .areas
            .of(object.as_fd(), &look)?
            .is_some_and(Area::is_covered);
        let plain = look.is(libc::S_IFDIR) || look.is(libc::S_IFREG);
        if !covered || !plain {
            return Err(Errno::ENOSYS.into());
        }
        let flags = wish.flags & !libc::O_NOFOLLOW | libc::O_NOCTTY;
        Ok(wish.give(at::open_here(&at::own_name(object.as_fd()), flags)?))
    }

    /// `O_TMPFILE`: the path is that of the directory.
    pub(super) fn unnamed(&self, wish: &Wish) -> Result<Outcome, Stop> {
        let mut walk = self.walk().with(wish.resolve);
        let dir = walk.object(wish.dirfd, &wish.path, wish.follows())?;
        let (area, look) = self.broker.area(&self.caller, &dir)?;
        let Some(area) = area.filter(|area| area.is_covered()) else {
            return not_ours(wish);
        };
        if !look.is(libc::S_IFDIR) {
            return Err(Errno::ENOTDIR.into());
        }
        let file = self.broker.locked(false, |alone| {
            let site = self.broker.site(&self.caller, &dir, &look, area)?;
            if let (Some((_, known)), Some(facts)) = (site.tree(), self.broker.facts(&site, c".")) {
                let verdict = decide_unnamed(&self.broker.set, known, &facts);
                sound(&facts)?;
                let asked = Asked {
                    action: "create",
                    site: &site,
                    name: c"",
                    needs: Needs::Directory,
                };
                Broker::cleared(verdict, alone, &asked)?;
            }
            self.caller.memory.set_umask(self.caller.umask()?);
            let how = How {
                flags: place::flags(wish.flags | libc::O_NOCTTY),
                mode: u64::from(wish.mode),
                resolve: libc::RESOLVE_NO_SYMLINKS,
            };
            Ok(at::open(dir.as_fd(), c".", how)?)
        })?;
        Ok(wish.give(file))
    }
}
