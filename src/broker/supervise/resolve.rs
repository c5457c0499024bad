//! Resolves what the child wrote, in the child's view, to a pinned directory and a name in it.
//!
//! Paths are walked on descriptors only and in one direction; nothing is ever resolved a second time. The kernel does it in one
//! call where no link is on the way; otherwise each link is read once and walked here, because the kernel would start absolute links
//! at *this* process's root and would follow the links of /proc with *this* process's rights.
//!
//! The errors are the kernel's own, since each step is the kernel's (path_resolution(7)).

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;

use super::Stop;
use super::areas::Areas;
use super::caller::Caller;
use super::magic::{self, Link};
use super::memory::Fd;
use super::place;
use crate::sys::at::{self, How, Look};
use crate::sys::libc;

/// MAXSYMLINKS of linux/namei.h.
const MAX_LINKS: u32 = 40;
/// Path resolution ends inside of a directory that openat2(2) was given.
const SCOPED: u64 = libc::RESOLVE_BENEATH | libc::RESOLVE_IN_ROOT;

/// The last component of a path, as the kernel tells them apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Last {
    /// A name.
    Name(CString),
    /// `.`
    Dot,
    /// `..`
    DotDot,
    /// The path has no component: `/`.
    Root,
}

/// A pinned directory, and what the path says about an entry of it.
#[derive(Debug)]
pub(super) struct Spot {
    pub(super) dir: Fd,
    pub(super) last: Last,
    /// Slashes follow the last component.
    pub(super) slash: bool,
    /// The directory, where it had to be looked at. Which one it is does not change.
    pub(super) look: Option<Look>,
}

/// What a final link leads to.
#[derive(Debug)]
pub(super) enum Goal {
    /// Another name.
    Spot(Spot),
    /// An object, by a link of /proc that is no path.
    Object(Fd),
}

/// One resolution; the limit on links holds for all of it.
#[derive(Debug)]
pub(super) struct Walk<'w> {
    caller: &'w Caller<'w>,
    root: &'w Fd,
    areas: &'w Areas,
    protected_links: bool,
    resolve: u64,
    links: u32,
    /// The path starts at the root.
    absolute: bool,
    /// For a scoped resolution: where it starts, and the path that was resolved so far.
    scope: Option<(Fd, Vec<u8>)>,
}

impl<'w> Walk<'w> {
    pub(super) fn new(
        caller: &'w Caller<'w>,
        root: &'w Fd,
        areas: &'w Areas,
        protected_links: bool,
    ) -> Self {
        Self {
            caller,
            root,
            areas,
            protected_links,
            resolve: 0,
            links: 0,
            absolute: false,
            scope: None,
        }
    }

    /// With `RESOLVE_*` flags.
    pub(super) fn with(mut self, resolve: u64) -> Self {
        self.resolve = resolve;
        self
    }

    /// The directory that holds the last component of the path.
    pub(super) fn start(&mut self, dirfd: i32, path: &CStr) -> Result<Spot, Stop> {
        let bytes = path.to_bytes();
        if bytes.is_empty() {
            return Err(Errno::ENOENT.into());
        }
        if self.resolve & SCOPED != 0 {
            let absolute = bytes.starts_with(b"/");
            if absolute && self.resolve & libc::RESOLVE_BENEATH != 0 {
                return Err(Errno::EXDEV.into());
            }
            let base = self.caller.base(self.root, dirfd, c".")?;
            self.scope = Some((base, Vec::new()));
            return self.scoped(bytes);
        }
        self.absolute = bytes.starts_with(b"/");
        let base = self.caller.base(self.root, dirfd, path)?;
        if self.absolute || dirfd == libc::AT_FDCWD {
            return self.from(base, bytes);
        }
        let look = a_directory(&base)?;
        let spot = self.from(Fd::clone(&base), bytes)?;
        let stays = Fd::ptr_eq(&spot.dir, &base);
        Ok(Spot {
            look: stays.then_some(look),
            ..spot
        })
    }

    /// Resolves a path from a directory; a leading slash has been taken into account.
    fn from(&mut self, base: Fd, path: &[u8]) -> Result<Spot, Stop> {
        let Split { dir, last, slash } = split(path)?;
        Ok(Spot {
            dir: self.directory(base, dir)?,
            last,
            slash,
            look: None,
        })
    }

    fn scoped(&mut self, path: &[u8]) -> Result<Spot, Stop> {
        let Split { dir, last, slash } = split(path)?;
        let Some((base, so_far)) = self.scope.as_mut() else {
            return Err(Errno::EINVAL.into());
        };
        *so_far = dir.to_vec();
        let dir = if dir.is_empty() { b"." } else { dir };
        let dir = CString::new(dir).map_err(|_| Errno::EINVAL)?;
        // Nothing can leave the scope, so the kernel may follow the links.
        let how = How {
            flags: place::PATH_DIR,
            mode: 0,
            resolve: self.resolve | libc::RESOLVE_NO_MAGICLINKS,
        };
        Ok(Spot {
            dir: Fd::new(at::open(base.as_fd(), &dir, how)?),
            last,
            slash,
            look: None,
        })
    }

    fn directory(&mut self, base: Fd, path: &[u8]) -> Result<Fd, Stop> {
        let start = path.iter().position(|&b| b != b'/').unwrap_or(path.len());
        let path = path.get(start..).unwrap_or_default();
        if path.is_empty() {
            return Ok(base);
        }
        let whole = CString::new(path).map_err(|_| Errno::EINVAL)?;
        let how = How {
            flags: place::PATH_DIR,
            mode: 0,
            resolve: libc::RESOLVE_NO_SYMLINKS | self.resolve & libc::RESOLVE_NO_XDEV,
        };
        match at::open(base.as_fd(), &whole, how) {
            Err(Errno::ELOOP) if self.resolve & libc::RESOLVE_NO_SYMLINKS == 0 => {
                self.steps(base, path)
            }
            other => Ok(Fd::new(other?)),
        }
    }

    /// One component at a time.
    fn steps(&mut self, base: Fd, path: &[u8]) -> Result<Fd, Stop> {
        let mut at = base;
        // What is left to walk, the next component last.
        let mut left: Vec<Vec<u8>> = Vec::new();
        push_components(&mut left, path);
        while let Some(component) = left.pop() {
            let next = match component.as_slice() {
                b"." => open(&at, c".", directory_how())?,
                b".." if self.areas.is_root(&at::look(at.as_fd(), c"")?) => {
                    open(&at, c".", directory_how())?
                }
                b".." => open(&at, c"..", directory_how())?,
                _ => {
                    let name = CString::new(component).map_err(|_| Errno::EINVAL)?;
                    let next = open(&at, &name, object_how())?;
                    let look = at::look(next.as_fd(), c"")?;
                    if look.is(libc::S_IFLNK) {
                        match self.link(&at, &name, &next)? {
                            Link::Object(object) => object,
                            Link::Text(text) => {
                                push_components(&mut left, &text);
                                if text.starts_with(b"/") {
                                    self.may_start_again(&look)?;
                                    Fd::clone(self.root)
                                } else {
                                    continue;
                                }
                            }
                        }
                    } else {
                        next
                    }
                }
            };
            if self.resolve & libc::RESOLVE_NO_XDEV != 0
                && at::look(at.as_fd(), c"")?.mount != at::look(next.as_fd(), c"")?.mount
            {
                return Err(Errno::EXDEV.into());
            }
            at = next;
        }
        a_directory(&at)?;
        Ok(at)
    }

    /// Follows a link that is the last component. `look` is what the name was a moment ago.
    pub(super) fn follow(&mut self, spot: &Spot, name: &CStr) -> Result<Goal, Stop> {
        let pinned = at::open(spot.dir.as_fd(), name, object_how())?;
        let look = at::look(pinned.as_fd(), c"")?;
        if !look.is(libc::S_IFLNK) {
            // It was replaced meanwhile: look again.
            return Err(Stop::Again);
        }
        self.may_follow(spot, &look)?;
        let mut text = match self.link(&spot.dir, name, &pinned)? {
            Link::Object(object) => return Ok(Goal::Object(object)),
            Link::Text(text) => text,
        };
        if spot.slash {
            text.push(b'/');
        }
        let absolute = text.starts_with(b"/");
        if let Some((_, so_far)) = &self.scope {
            let path = if !absolute {
                place::join(if so_far.is_empty() { b"." } else { so_far }, &text)
            } else if self.resolve & libc::RESOLVE_BENEATH != 0 {
                return Err(Errno::EXDEV.into());
            } else {
                text
            };
            return Ok(Goal::Spot(self.scoped(&path)?));
        }
        let base = if absolute {
            self.may_start_again(&look)?;
            Fd::clone(self.root)
        } else {
            Fd::clone(&spot.dir)
        };
        Ok(Goal::Spot(self.from(base, &text)?))
    }

    /// What a link says; `pinned` is the link itself, `name` in `dir`.
    fn link(&mut self, dir: &OwnedFd, name: &CStr, pinned: &OwnedFd) -> Result<Link, Stop> {
        if self.resolve & libc::RESOLVE_NO_SYMLINKS != 0 {
            return Err(Errno::ELOOP.into());
        }
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::ELOOP.into());
        }
        if magic::is_proc(dir.as_fd())? {
            let link = magic::follow(self.caller, self.root, dir, name, pinned)?;
            if matches!(link, Link::Object(_)) {
                if self.resolve & libc::RESOLVE_NO_MAGICLINKS != 0 {
                    return Err(Errno::ELOOP.into());
                }
                if self.resolve & libc::RESOLVE_NO_XDEV != 0 {
                    return Err(Errno::EXDEV.into());
                }
            }
            return Ok(link);
        }
        let text = at::read_link(pinned.as_fd(), c"")?;
        if text.is_empty() {
            return Err(Errno::ENOENT.into());
        }
        Ok(Link::Text(text))
    }

    /// `fs.protected_symlinks` (proc_sys_fs(5)): a last link in a sticky directory that everybody may write is followed only for its owner
    /// or if the directory's owner made it.
    fn may_follow(&self, spot: &Spot, link: &Look) -> Result<(), Errno> {
        if !self.protected_links || link.uid == nix::unistd::geteuid().as_raw() {
            return Ok(());
        }
        let dir = at::look(spot.dir.as_fd(), c"")?;
        let shared = libc::S_ISVTX | libc::S_IWOTH;
        if dir.mode & shared == shared && dir.uid != link.uid {
            return Err(Errno::EACCES);
        }
        Ok(())
    }

    /// The object a path names, for calls that act on objects and not on names.
    pub(super) fn object(&mut self, dirfd: i32, path: &CStr, follow: bool) -> Result<Fd, Stop> {
        let mut spot = self.start(dirfd, path)?;
        loop {
            let name = match &spot.last {
                Last::Root | Last::Dot | Last::DotDot if self.scope.is_some() => {
                    return self.scoped_directory(&spot.last);
                }
                Last::Root | Last::Dot => {
                    return Ok(open(&spot.dir, c".", directory_how())?);
                }
                Last::DotDot if self.areas.is_root(&at::look(spot.dir.as_fd(), c"")?) => {
                    return Ok(open(&spot.dir, c".", directory_how())?);
                }
                Last::DotDot => return Ok(open(&spot.dir, c"..", directory_how())?),
                Last::Name(name) => name.clone(),
            };
            let found = at::look(spot.dir.as_fd(), &name)?;
            if found.is(libc::S_IFLNK) && (follow || spot.slash) {
                match self.follow(&spot, &name) {
                    Ok(Goal::Spot(next)) => spot = next,
                    Ok(Goal::Object(object)) => {
                        if spot.slash && !at::look(object.as_fd(), c"")?.is(libc::S_IFDIR) {
                            return Err(Errno::ENOTDIR.into());
                        }
                        return Ok(object);
                    }
                    Err(Stop::Again) => {}
                    Err(stop) => return Err(stop),
                }
                continue;
            }
            let how = if spot.slash {
                directory_how()
            } else {
                object_how()
            };
            match open(&spot.dir, &name, how) {
                // It has become a link meanwhile.
                Err(Errno::ELOOP) => {}
                other => return Ok(other?),
            }
        }
    }

    /// `.`, `..` or the start of the scope itself, as the last component: the kernel knows whether that leaves the scope.
    fn scoped_directory(&self, last: &Last) -> Result<Fd, Stop> {
        let (base, so_far) = self.scope.as_ref().ok_or(Errno::EINVAL)?;
        let last: &[u8] = if *last == Last::DotDot { b".." } else { b"." };
        let so_far = if so_far.is_empty() {
            b"."
        } else {
            so_far.as_slice()
        };
        let path = CString::new(place::join(so_far, last)).map_err(|_| Errno::EINVAL)?;
        let how = How {
            flags: place::PATH_DIR,
            mode: 0,
            resolve: self.resolve | libc::RESOLVE_NO_MAGICLINKS,
        };
        Ok(Fd::new(at::open(base.as_fd(), &path, how)?))
    }

    /// An absolute link under `RESOLVE_NO_XDEV` (nd_jump_root() of the kernel): never on the way of a relative path, else only on the
    /// root's own mount.
    fn may_start_again(&self, link: &Look) -> Result<(), Errno> {
        if self.resolve & libc::RESOLVE_NO_XDEV != 0
            && (!self.absolute || at::look(self.root.as_fd(), c"")?.mount != link.mount)
        {
            return Err(Errno::EXDEV);
        }
        Ok(())
    }
}

fn open(dir: &Fd, name: &CStr, how: How) -> Result<Fd, Errno> {
    at::open(dir.as_fd(), name, how).map(Fd::new)
}

fn a_directory(fd: &OwnedFd) -> Result<Look, Errno> {
    let look = at::look(fd.as_fd(), c"")?;
    if look.is(libc::S_IFDIR) {
        Ok(look)
    } else {
        Err(Errno::ENOTDIR)
    }
}

fn directory_how() -> How {
    How {
        flags: place::PATH_DIR,
        mode: 0,
        resolve: libc::RESOLVE_NO_SYMLINKS,
    }
}

/// The object itself, be it a link.
fn object_how() -> How {
    How {
        flags: place::PATH_ONLY,
        ..How::default()
    }
}

fn push_components(left: &mut Vec<Vec<u8>>, path: &[u8]) {
    left.extend(
        place::components(path)
            .into_iter()
            .rev()
            .map(<[u8]>::to_vec),
    );
}

struct Split<'p> {
    dir: &'p [u8],
    last: Last,
    slash: bool,
}

/// Splits a path that is not empty before its last component.
fn split(path: &[u8]) -> Result<Split<'_>, Errno> {
    let end = path.iter().rposition(|&b| b != b'/').map_or(0, |at| at + 1);
    let (front, slashes) = path.split_at(end);
    let start = front
        .iter()
        .rposition(|&b| b == b'/')
        .map_or(0, |at| at + 1);
    let (dir, last) = front.split_at(start);
    let last = match last {
        b"" => Last::Root,
        b"." => Last::Dot,
        b".." => Last::DotDot,
        name => Last::Name(CString::new(name).map_err(|_| Errno::EINVAL)?),
    };
    Ok(Split {
        dir,
        last,
        slash: !slashes.is_empty(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_as_the_kernel_does() {
        let name = |n: &str| Last::Name(CString::new(n).unwrap());
        for (path, dir, last, slash) in [
            ("a", "", name("a"), false),
            ("/a", "/", name("a"), false),
            ("a/b", "a/", name("b"), false),
            ("//a//b//", "//a//", name("b"), true),
            ("/", "", Last::Root, true),
            ("///", "", Last::Root, true),
            (".", "", Last::Dot, false),
            ("a/..", "a/", Last::DotDot, false),
            ("a/./", "a/", Last::Dot, true),
            ("...", "", name("..."), false),
        ] {
            let got = split(path.as_bytes()).unwrap();
            assert_eq!(
                (got.dir, got.last, got.slash),
                (dir.as_bytes(), last, slash),
                "{path}"
            );
        }
    }
}
