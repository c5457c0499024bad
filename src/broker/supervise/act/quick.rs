//! The short way for what is opened most: a plain name in a covered tree, for writing.
//!
//! One openat2(2) on the whole path, from a directory whose path is known. No link may be on the way and no mount (`NO_SYMLINKS`,
//! `NO_XDEV`), the path has no `..` and does not start again (`BENEATH`): so every directory on it is the one its name says, and the
//! last component is the name that is opened. Whatever is out of the ordinary goes the long way.
//!
//! On a file system that has several spellings for one name (8.3 names, trailing dots) a component is not what it says; those trees go
//! the long way, where the kernel tells the names.

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::os::fd::AsFd;

use nix::errno::Errno;

use super::super::areas::Area;
use super::super::judge::Site;
use super::super::memory::Fd;
use super::super::{Broker, Stop, place};
use super::open::{Wish, opened};
use super::{Made, Outcome, Turn};
use crate::broker::action::{Action, Kind};
use crate::broker::decide::{Target, Verdict, decide_each};
use crate::broker::git_paths::Facts;
use crate::sys::at::{self, How, Look};
use crate::sys::libc;

/// Answers nothing and remembers that it was asked: then the short way is not enough.
#[derive(Debug, Default)]
struct Unasked(Cell<bool>);

impl Unasked {
    fn asked(&self) -> bool {
        self.0.set(true);
        true
    }
}

impl Facts for Unasked {
    fn holds(&self, _depth: usize, _name: &str) -> bool {
        self.asked()
    }
    fn is_project_git_dir(&self, _depth: usize) -> bool {
        self.asked()
    }
    fn is_old_work_tree(&self, _depth: usize) -> bool {
        self.asked()
    }
}

/// Where the path starts, and what follows.
struct Start<'p> {
    dir: Fd,
    look: Look,
    rest: &'p CStr,
}

impl Turn<'_> {
    /// Opens the short way; `None` to go the long one.
    pub(super) fn quick(&self, wish: &Wish) -> Result<Option<Outcome>, Stop> {
        let access = wish.flags & libc::O_ACCMODE;
        let writes = access == libc::O_WRONLY || access == libc::O_RDWR;
        let usual = wish.resolve == 0 && !wish.modern && !wish.path.is_empty();
        if !writes || !usual || wish.has(libc::O_DIRECTORY) {
            return Ok(None);
        }
        let Some(start) = self.start(wish)? else {
            return Ok(None);
        };
        let Some((below, name)) = split(start.rest.to_bytes()) else {
            return Ok(None);
        };
        if Broker::is_completing(name) {
            return Ok(None);
        }
        let name = CString::new(name).map_err(|_| Errno::EINVAL)?;
        self.broker.locked(false, |_| {
            let Some(site) = self.below(&start, &below)? else {
                return Ok(None);
            };
            if !self.certain(&site, &name, wish.creates()) {
                return Ok(None);
            }
            let mut flags = wish.flags | libc::O_NOCTTY;
            if !wish.exclusive() {
                flags |= libc::O_NONBLOCK;
            }
            if wish.creates() {
                self.caller.memory.set_umask(self.caller.umask()?);
            }
            let how = How {
                flags: place::flags(flags),
                mode: u64::from(wish.mode),
                resolve: libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_XDEV | libc::RESOLVE_BENEATH,
            };
            match at::open(start.dir.as_fd(), start.rest, how) {
                // What O_EXCL made is a plain file: it had no flag added.
                Ok(file) if wish.exclusive() => Ok(Some(Outcome::Give {
                    file,
                    close_on_exec: wish.has(libc::O_CLOEXEC),
                    made: Some(Made {
                        dir: Fd::clone(&start.dir),
                        path: start.rest.to_owned(),
                    }),
                })),
                Ok(file) => opened(wish, file).map(Some),
                // A link, a mount, a FIFO without a reader, a lease.
                Err(Errno::ELOOP | Errno::EXDEV | Errno::ENXIO | Errno::EAGAIN) => Ok(None),
                Err(errno) => Err(errno.into()),
            }
        })
    }

    /// A covered directory from which the whole path may be walked.
    fn start<'p>(&self, wish: &'p Wish) -> Result<Option<Start<'p>>, Errno> {
        let path = wish.path.as_c_str();
        if path.to_bytes().starts_with(b"/") {
            let Some((area, length)) = self.broker.areas.starting(path.to_bytes()) else {
                return Ok(None);
            };
            // What follows the tree's own path and its slashes; the NUL stays. With a slash left the kernel would start at *this* process's root.
            let rest = path.to_bytes_with_nul().get(length..).unwrap_or_default();
            let slashes = rest.iter().take_while(|&&b| b == b'/').count();
            let rest = rest.get(slashes..);
            let rest = rest.and_then(|rest| CStr::from_bytes_with_nul(rest).ok());
            return Ok(rest.map(|rest| Start {
                dir: Fd::clone(&area.fd),
                look: area.look,
                rest,
            }));
        }
        let (dir, look) = if wish.dirfd == libc::AT_FDCWD {
            self.caller.cwd()?
        } else {
            let dir = self.caller.base(&self.broker.root, wish.dirfd, path)?;
            let look = at::look(dir.as_fd(), c"")?;
            (dir, look)
        };
        Ok(look.is(libc::S_IFDIR).then_some(Start {
            dir,
            look,
            rest: path,
        }))
    }

    /// The directory with this path below the start, inside the lock. Its descriptor is that of the start.
    fn below(&self, start: &Start<'_>, below: &[&[u8]]) -> Result<Option<Site>, Errno> {
        let (broker, caller) = (self.broker, &self.caller);
        let Ok(Some(from)) = broker.known(caller, &start.dir, &start.look) else {
            return Ok(None);
        };
        if below.is_empty() {
            return Ok(Some(Site::new(&start.dir, from)));
        }
        let length: usize = below.iter().map(|component| component.len() + 1).sum();
        let mut path = Vec::with_capacity(from.guest.len() + length);
        path.extend_from_slice(&from.guest);
        for component in below {
            if !path.ends_with(b"/") {
                path.push(b'/');
            }
            path.extend_from_slice(component);
        }
        let area = broker.areas.with_path(start.look.mount, &path);
        let place = broker.place_at(caller, area, &path)?;
        let covered = area.is_some_and(Area::is_covered);
        Ok(covered.then(|| Site::new(&start.dir, place)))
    }

    /// The rules allow the name whatever is there, without looking at anything.
    fn certain(&self, site: &Site, name: &CStr, creates: bool) -> bool {
        let Some((_, dir)) = site.tree() else {
            return true;
        };
        if !dir.has_plain_names() {
            return false;
        }
        let facts = Unasked::default();
        let target = Target {
            dir,
            name: name.to_bytes(),
            kind: Kind::File,
            facts: &facts,
        };
        let kinds: &[Kind] = if creates {
            &[Kind::File, Kind::Other, Kind::Absent]
        } else {
            &[Kind::File, Kind::Other]
        };
        let verdict = decide_each(&self.broker.set, Action::Write, &target, kinds);
        verdict == Verdict::Allow && !facts.0.get()
    }
}

/// The directories of a path and its last name; `None` where the kernel reads it in a way of its own.
fn split(path: &[u8]) -> Option<(Vec<&[u8]>, &[u8])> {
    if path.ends_with(b"/") {
        return None;
    }
    let mut components = place::components(path);
    let name = components.pop().filter(|name| *name != b".")?;
    components.retain(|component| *component != b".");
    let plain = name != b".." && components.iter().all(|component| *component != b"..");
    plain.then_some((components, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_paths_go_the_short_way() {
        let plain =
            |path: &str| split(path.as_bytes()).map(|(dirs, name)| (dirs.len(), name.to_vec()));
        assert_eq!(plain("a"), Some((0, b"a".to_vec())));
        assert_eq!(plain("a/b//./c"), Some((2, b"c".to_vec())));
        for path in ["", "/", ".", "..", "a/", "a/.", "a/..", "../a", "a/../b"] {
            assert_eq!(plain(path), None, "{path}");
        }
    }
}
