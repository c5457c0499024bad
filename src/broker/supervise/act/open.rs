//! Opening: open, openat, creat, openat2.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;

use super::super::areas::Area;
use super::super::judge::{Asked, Needs, Site, find, kind};
use super::super::pending::{Opening, Waiting};
use super::super::resolve::{Goal, Last, Spot};
use super::super::{Broker, Stop, place};
use super::{Outcome, Turn};
use crate::broker::action::{Action, Kind};
use crate::broker::decide::Verdict;
use crate::broker::gitdir::Passed;
use crate::sys::at::{self, How, Look};
use crate::sys::libc;

/// What F_SETFL can change (SETFL_MASK of the kernel's fs/fcntl.c), but for the one flag that is taken back.
const SETTABLE: i32 = libc::O_APPEND | libc::O_DIRECT | libc::O_NOATIME | libc::O_ASYNC;

/// The floor decides an open with these flags as the broker would: it takes the right to open for writing and to create, but
/// `O_TRUNC` alone empties a file without either.
pub(super) fn floor_decides(flags: i32) -> bool {
    let access = flags & libc::O_ACCMODE;
    flags & libc::O_PATH != 0
        || flags & libc::O_TRUNC == 0
        || access == libc::O_WRONLY
        || access == libc::O_RDWR
}

/// One open, as the caller wants it.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) dirfd: i32,
    pub(super) path: CString,
    pub(super) flags: i32,
    pub(super) mode: u32,
    pub(super) resolve: u64,
    /// "Continue" is a possible answer.
    pub(super) floor: bool,
    /// What is read is decided by name, so that nothing is left to the kernel.
    pub(super) judged: bool,
    /// openat2: what is not answered here is ENOSYS, so that the caller falls back on openat, whose flags are in registers.
    pub(super) modern: bool,
}

impl Wish {
    pub(super) fn has(&self, flags: i32) -> bool {
        self.flags & flags == flags
    }

    pub(super) fn creates(&self) -> bool {
        self.has(libc::O_CREAT)
    }

    pub(super) fn exclusive(&self) -> bool {
        self.has(libc::O_CREAT | libc::O_EXCL)
    }

    /// Nothing that is there is changed.
    pub(super) fn only_reads(&self) -> bool {
        self.flags & (libc::O_ACCMODE | libc::O_TRUNC) == libc::O_RDONLY
    }

    /// A link that is the last component is followed.
    pub(super) fn follows(&self) -> bool {
        !self.has(libc::O_NOFOLLOW) && !self.exclusive()
    }

    pub(super) fn give(&self, file: OwnedFd) -> Outcome {
        Outcome::Give {
            file,
            close_on_exec: self.has(libc::O_CLOEXEC),
            made: None,
        }
    }
}

/// How an attempt at a covered name ended.
#[derive(Debug)]
enum Step {
    Done(Outcome),
    /// The name is a link, to be followed without the lock.
    Follow,
    /// Something is mounted on the name.
    Mounted,
}

impl Turn<'_> {
    pub(super) fn open(
        &self,
        dirfd: i32,
        path: u64,
        flags: i32,
        mode: i32,
    ) -> Result<Outcome, Stop> {
        // As build_open_how() does: unknown flags are nothing, `O_PATH` rules out most others.
        let flags = flags & at::OPEN_FLAGS | at::LARGE_FILE;
        let unnamed = flags & libc::O_TMPFILE & !libc::O_DIRECTORY != 0;
        let directory = libc::O_DIRECTORY | libc::O_CREAT;
        let invalid = if unnamed {
            flags & (libc::O_TMPFILE | libc::O_CREAT) != libc::O_TMPFILE
        } else {
            flags & directory == directory
        };
        if flags & libc::O_PATH != 0 || invalid {
            return Ok(Outcome::Continue);
        }
        let writes = flags & (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) != 0;
        let judged = self.judges(flags);
        if !judged {
            self.watch(dirfd, path, flags)?;
            if !writes {
                return Ok(Outcome::Continue);
            }
        }
        let makes = flags & libc::O_CREAT != 0 || unnamed;
        let wish = Wish {
            dirfd,
            path: self.caller.text(path)?,
            flags,
            mode: if makes {
                mode.cast_unsigned() & 0o7777
            } else {
                0
            },
            resolve: 0,
            floor: floor_decides(flags) && !judged,
            judged,
            modern: false,
        };
        if wish.exclusive() && !judged {
            // What this makes can be taken back.
            match self.quick(&wish) {
                Ok(None) => {}
                Ok(Some(outcome)) => return Ok(outcome),
                // Of two reasons the kernel names the full table.
                Err(stop) => return self.may_be_given(&wish).map_err(Stop::from).and(Err(stop)),
            }
        }
        self.may_be_given(&wish)?;
        if !writes {
            self.read(&wish)
        } else if unnamed {
            self.unnamed(&wish)
        } else if !judged && let Some(outcome) = self.quick(&wish)? {
            Ok(outcome)
        } else {
            self.named(&wish)
        }
    }

    pub(super) fn named(&self, wish: &Wish) -> Result<Outcome, Stop> {
        let mut walk = self.walk().with(wish.resolve);
        let mut spot = walk.start(wish.dirfd, &wish.path)?;
        loop {
            let name = match &spot.last {
                Last::Name(name) if !spot.slash => name.clone(),
                Last::Name(_) | Last::Dot | Last::DotDot | Last::Root => {
                    return self.never_a_file(wish, &spot);
                }
            };
            let (area, look) = self.broker.area_at(&self.caller, &spot)?;
            let step = if let Some(area) = area.filter(|area| area.is_covered()) {
                self.covered(wish, &spot, &name, area, &look)?
            } else {
                let found = find(&spot.dir, &name)?;
                if found.is_some_and(|found| found.is(libc::S_IFLNK)) && wish.follows() {
                    Step::Follow
                } else if let Some(outcome) = self.tree_of_one_file(wish, &spot, &name)? {
                    Step::Done(outcome)
                } else {
                    Step::Done(self.uncovered(wish, &spot, &name, found.as_ref())?)
                }
            };
            match step {
                Step::Done(outcome) => return Ok(outcome),
                Step::Mounted => {
                    if let Some(outcome) = self.tree_of_one_file(wish, &spot, &name)? {
                        return Ok(outcome);
                    }
                    let found = find(&spot.dir, &name)?;
                    return self.uncovered(wish, &spot, &name, found.as_ref());
                }
                Step::Follow => match walk.follow(&spot, &name)? {
                    Goal::Spot(next) => spot = next,
                    Goal::Object(object) => return self.reopen(wish, &object),
                },
            }
        }
    }

    /// A file that is a covered tree of its own: its directory is not covered, and no rule is about its name.
    fn tree_of_one_file(
        &self,
        wish: &Wish,
        spot: &Spot,
        name: &CStr,
    ) -> Result<Option<Outcome>, Stop> {
        if !self.broker.areas.has_files() {
            return Ok(None);
        }
        let how = How {
            flags: place::PATH_ONLY,
            ..How::default()
        };
        let Ok(object) = at::open(spot.dir.as_fd(), name, how) else {
            return Ok(None);
        };
        let look = at::look(object.as_fd(), c"")?;
        let area = self.broker.areas.of(object.as_fd(), &look)?;
        if !look.is(libc::S_IFREG) || !area.is_some_and(Area::is_covered) {
            return Ok(None);
        }
        may_be_opened(wish, Some(&look))?;
        self.reopen(wish, &object).map(Some)
    }

    /// What the path names is a directory or nothing, whatever happens: no file is opened for writing or made.
    fn never_a_file(&self, wish: &Wish, spot: &Spot) -> Result<Outcome, Stop> {
        if wish.floor {
            return Ok(Outcome::Continue);
        }
        if !wish.creates() || !matches!(spot.last, Last::Name(_)) {
            let mut walk = self.walk().with(wish.resolve);
            walk.object(wish.dirfd, &wish.path, true)?;
        }
        Err(if wish.exclusive() && !matches!(spot.last, Last::Name(_)) {
            Errno::EEXIST.into()
        } else {
            Errno::EISDIR.into()
        })
    }

    fn covered(
        &self,
        wish: &Wish,
        spot: &Spot,
        name: &CStr,
        area: &Area,
        look: &Look,
    ) -> Result<Step, Stop> {
        let broker = self.broker;
        let alone = wish.creates() && Broker::is_completing(name.to_bytes());
        broker.locked(alone, |alone| {
            let site = broker.site(&self.caller, &spot.dir, look, area)?;
            let found = find(&spot.dir, name)?;
            if let Some(found) = &found {
                if found.mount != look.mount {
                    may_be_opened(wish, Some(found))?;
                    let asked = Asked {
                        action: "write",
                        site: &site,
                        name,
                        needs: Needs::Object,
                    };
                    if !wish.only_reads() {
                        broker.ruled(Action::Write, &asked, found)?;
                    }
                    return Ok(Step::Mounted);
                }
                if wish.judged && !found.is(libc::S_IFLNK) {
                    self.readable(&pin(&spot.dir, name)?, found, "read")?;
                }
                if found.is(libc::S_IFLNK) && wish.follows() {
                    return Ok(Step::Follow);
                }
            }
            may_be_opened(wish, found.as_ref())?;
            // A reader waits for a writer; nobody waits here. No right of the floor is asked for.
            let waits = wish.flags & (libc::O_ACCMODE | libc::O_NONBLOCK) == libc::O_RDONLY;
            if wish.floor && waits && found.is_some_and(|found| found.is(libc::S_IFIFO)) {
                return Ok(Step::Done(Outcome::Continue));
            }
            let umask = if wish.creates() {
                self.caller.umask()?
            } else {
                0
            };
            let checked = self.may_create(wish, &site, name, found.as_ref(), alone, umask)?;
            let made = match checked {
                Checked::Open(made) => made,
                Checked::Give(file) => return Ok(Step::Done(wish.give(file))),
            };
            if wish.creates() {
                self.caller.memory.set_umask(umask);
            }
            let opened = attempt(wish, &spot.dir, name, made)?;
            // What was there before is not new, whoever opens it.
            if found.is_none() {
                broker.repositories.came(&spot.dir, name.to_bytes());
            }
            Ok(Step::Done(opened))
        })
    }

    /// Decides on a covered name; says which of existing and absent it was decided for.
    fn may_create(
        &self,
        wish: &Wish,
        site: &Site,
        name: &CStr,
        found: Option<&Look>,
        alone: bool,
        umask: u32,
    ) -> Result<Checked, Stop> {
        let asked = Asked {
            action: if found.is_some() { "write" } else { "create" },
            site,
            name,
            needs: if found.is_some() {
                Needs::Object
            } else {
                Needs::Directory
            },
        };
        let is = kind(found);
        let verdict = self.broker.decide(Action::Write, site, name, is)?;
        let checks = Broker::cleared(verdict, alone, &asked)?;
        match self
            .broker
            .pass_plain(checks, &asked, wish.exclusive(), wish.mode & !umask)?
        {
            Passed::Act => {}
            Passed::Give(file) => return Ok(Checked::Give(file)),
            Passed::Stage(file, staged) => {
                let opened = at::open_here(&at::own_name(file.as_fd()), again(wish.flags))?;
                at::set_flags(opened.as_fd(), wish.flags & (SETTABLE | libc::O_NONBLOCK))?;
                self.broker.stage(&self.caller, &asked, staged);
                return Ok(Checked::Give(opened));
            }
            Passed::Done => return Err(Errno::EACCES.into()),
        }
        if !wish.creates() {
            return Ok(Checked::Open(Made::Existing));
        }
        // The name may come or go before it is opened. If that changes the answer, the open must not go along with it.
        let other = if is == Kind::Absent {
            Kind::File
        } else {
            Kind::Absent
        };
        let otherwise = self.broker.decide(Action::Write, site, name, other)?;
        Ok(Checked::Open(if otherwise == Verdict::Allow {
            Made::Either
        } else if is == Kind::Absent {
            Made::New
        } else {
            Made::Existing
        }))
    }

    /// `/proc/self/fd/N` and its like: the object is known, its name must be found.
    fn reopen(&self, wish: &Wish, object: &OwnedFd) -> Result<Outcome, Stop> {
        let broker = self.broker;
        let look = at::look(object.as_fd(), c"")?;
        let area = broker.areas.of(object.as_fd(), &look)?;
        if wish.judged {
            self.readable(object, &look, "read")?;
        }
        let Some(area) = area.filter(|area| area.is_covered()) else {
            if !wish.only_reads() {
                broker.object_ruled(
                    &self.caller,
                    ("write", Action::Write, Needs::Object),
                    object,
                    &look,
                )?;
            }
            if wish.judged && !wish.modern {
                return self.read_and_write(wish, object);
            }
            if !wish.floor && !wish.modern {
                return self.empty(wish, object, &look);
            }
            return not_ours(wish);
        };
        if look.is(libc::S_IFDIR) {
            return Err(Errno::EISDIR.into());
        }
        broker.locked(false, |alone| {
            if let Some((site, name)) = broker.name_of(&self.caller, object, &look, area)? {
                let asked = Asked {
                    action: "write",
                    site: &site,
                    name: &name,
                    needs: Needs::Object,
                };
                let verdict = broker.decide(Action::Write, &site, &name, kind(Some(&look)))?;
                let checks = Broker::cleared(verdict, alone, &asked)?;
                broker.pass_to_act(checks, &asked)?;
            }
            reopened(wish, object)
        })
    }

    fn uncovered(
        &self,
        wish: &Wish,
        spot: &Spot,
        name: &CStr,
        found: Option<&Look>,
    ) -> Result<Outcome, Stop> {
        if wish.floor || wish.modern {
            let (action, needs) = if found.is_some() {
                ("write", Needs::Object)
            } else {
                ("create", Needs::Directory)
            };
            let changes = found.is_none() || !wish.only_reads();
            if changes && may_be_opened(wish, found).is_ok() {
                self.note(self.read_only(action, &spot.dir, name, needs));
            }
            return not_ours(wish);
        }
        may_be_opened(wish, found)?;
        // `O_TRUNC` without write access, or an open that also reads.
        if wish.judged {
            let (action, needs) = if found.is_some() {
                ("write", Needs::Object)
            } else {
                ("create", Needs::Directory)
            };
            self.note(self.read_only(action, &spot.dir, name, needs));
        }
        let Some(look) = found else {
            let (dir, dir_look) = (&spot.dir, at::look(spot.dir.as_fd(), c"")?);
            if !self.may_truncate(dir, &dir_look)? {
                return Err(Errno::EACCES.into());
            }
            self.caller.memory.set_umask(self.caller.umask()?);
            return attempt(wish, dir, name, Made::New);
        };
        let object = pin(&spot.dir, name)?;
        if wish.judged {
            return self.read_and_write(wish, &object);
        }
        self.empty(wish, &object, look)
    }
}

/// Nothing the broker acts on.
pub(super) fn not_ours(wish: &Wish) -> Result<Outcome, Stop> {
    if wish.modern {
        Err(Errno::ENOSYS.into())
    } else if wish.floor {
        Ok(Outcome::Continue)
    } else {
        Err(Errno::EACCES.into())
    }
}

/// What has the name, which was no link a moment ago.
fn pin(dir: &OwnedFd, name: &CStr) -> Result<OwnedFd, Stop> {
    let how = How {
        flags: place::PATH_ONLY,
        mode: 0,
        resolve: libc::RESOLVE_NO_SYMLINKS,
    };
    match at::open(dir.as_fd(), name, how) {
        Err(Errno::ELOOP | Errno::ENOENT) => Err(Stop::Again),
        other => Ok(other?),
    }
}

/// Takes back what was added so as not to wait.
pub(super) fn opened(wish: &Wish, file: OwnedFd) -> Result<Outcome, Stop> {
    let waits = wish.flags & (libc::O_ACCMODE | libc::O_NONBLOCK) == libc::O_RDONLY;
    if wish.judged && waits && at::look(file.as_fd(), c"")?.is(libc::S_IFIFO) {
        // A reader waits for a writer, and is there for it meanwhile.
        return Ok(Outcome::Later(Waiting::Open(Opening {
            object: file,
            flags: wish.flags,
            settle: wish.flags & SETTABLE,
            close_on_exec: wish.has(libc::O_CLOEXEC),
            reader: true,
        })));
    }
    if !wish.has(libc::O_NONBLOCK) {
        at::set_flags(file.as_fd(), wish.flags & SETTABLE)?;
    }
    Ok(wish.give(file))
}

/// An open that would have waited goes on elsewhere, on the object that was found.
fn wait(wish: &Wish, object: OwnedFd, errno: Errno) -> Result<Outcome, Stop> {
    let fifo = at::look(object.as_fd(), c"")?.is(libc::S_IFIFO);
    // A socket or a device without a driver also says ENXIO.
    if wish.has(libc::O_NONBLOCK) || errno == Errno::ENXIO && !fifo {
        return Err(errno.into());
    }
    Ok(Outcome::Later(Waiting::Open(Opening {
        object,
        flags: again(wish.flags),
        settle: wish.flags & SETTABLE,
        close_on_exec: wish.has(libc::O_CLOEXEC),
        reader: false,
    })))
}

/// Opens without waiting: neither for the other side of a FIFO nor for a lease (fcntl(2), F_SETLEASE).
fn attempt(wish: &Wish, dir: &OwnedFd, name: &CStr, made: Made) -> Result<Outcome, Stop> {
    let mut flags = wish.flags | libc::O_NOCTTY | libc::O_NONBLOCK;
    match made {
        Made::Either => {}
        Made::New => flags |= libc::O_EXCL,
        Made::Existing => flags &= !(libc::O_CREAT | libc::O_EXCL),
    }
    let how = How {
        flags: place::flags(flags),
        mode: if flags & libc::O_CREAT != 0 {
            u64::from(wish.mode)
        } else {
            0
        },
        resolve: libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_XDEV,
    };
    match at::open(dir.as_fd(), name, how) {
        Ok(file) => opened(wish, file),
        // It was something else a moment ago.
        Err(Errno::ELOOP | Errno::EXDEV) => Err(Stop::Again),
        Err(Errno::EEXIST) if !wish.exclusive() => Err(Stop::Again),
        Err(Errno::ENOENT) if wish.creates() && made == Made::Existing => Err(Stop::Again),
        Err(errno @ (Errno::ENXIO | Errno::EAGAIN)) => {
            let how = How {
                flags: place::PATH_ONLY,
                mode: 0,
                resolve: libc::RESOLVE_NO_XDEV,
            };
            wait(wish, at::open(dir.as_fd(), name, how)?, errno)
        }
        Err(errno) => Err(errno.into()),
    }
}

pub(super) fn reopened(wish: &Wish, object: &OwnedFd) -> Result<Outcome, Stop> {
    let flags = again(wish.flags);
    match at::open_here(&at::own_name(object.as_fd()), flags) {
        Ok(file) => opened(wish, file),
        Err(errno @ (Errno::ENXIO | Errno::EAGAIN)) => {
            let object = object.try_clone().map_err(|_| Errno::EMFILE)?;
            wait(wish, object, errno)
        }
        Err(errno) => Err(errno.into()),
    }
}

/// A name that may be opened.
enum Checked {
    /// Now.
    Open(Made),
    /// It has been carried out another way: the caller gets this file.
    Give(OwnedFd),
}

/// What a name was decided for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    /// Only as a new file.
    New,
    /// Only as what is there.
    Existing,
    /// It makes no difference.
    Either,
}

/// Flags for an object that is there, opened by its name under /proc.
fn again(flags: i32) -> i32 {
    flags & !(libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW) | libc::O_NOCTTY | libc::O_NONBLOCK
}

/// What the kernel refuses whatever the rules are, in its order.
fn may_be_opened(wish: &Wish, found: Option<&Look>) -> Result<(), Errno> {
    let Some(found) = found else {
        return if wish.creates() {
            Ok(())
        } else {
            Err(Errno::ENOENT)
        };
    };
    if wish.exclusive() {
        return Err(Errno::EEXIST);
    }
    if found.is(libc::S_IFLNK) {
        return Err(Errno::ELOOP);
    }
    if found.is(libc::S_IFDIR) {
        return Err(Errno::EISDIR);
    }
    if wish.has(libc::O_DIRECTORY) {
        return Err(Errno::ENOTDIR);
    }
    Ok(())
}
