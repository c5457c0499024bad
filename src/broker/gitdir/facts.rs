//! Looks around a pinned directory for the rules of git directories.
//!
//! A directory above is found by `..` from the pinned one, as far as the top of the covered tree; the kernel knows where
//! that leads, whatever was renamed. The tree is looked at through the sandbox's own mounts, where its top has other
//! parents than on the host. So what lies above the top is reached from a descriptor of the host's tree ([`Above`]).
//!
//! A look that fails (a directory without the right to search it, too many open files) is not an answer. It is kept in
//! [`Pinned::failed`], and the verdict is worth nothing then.

use std::cell::{Cell, OnceCell};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::fstatat;

use super::super::decide::Dir;
use super::super::git_paths::{self, Facts};
use super::Repositories;
use crate::sys::objects;

/// The directories above the top of one covered tree, on the host.
#[derive(Debug)]
pub struct Above {
    top: OwnedFd,
    depth: usize,
    /// From the root directory down, without the top.
    dirs: OnceLock<Result<Vec<OwnedFd>, Errno>>,
}

impl Above {
    /// `top` is the tree's top, opened on the host before any code of the child runs; `depth` the number of components
    /// of its absolute path.
    #[must_use]
    pub fn new(top: OwnedFd, depth: usize) -> Self {
        Self {
            top,
            depth,
            dirs: OnceLock::new(),
        }
    }

    fn at(&self, depth: usize) -> Result<BorrowedFd<'_>, Errno> {
        if depth == self.depth {
            return Ok(self.top.as_fd());
        }
        let dirs = self.dirs.get_or_init(|| {
            let mut dirs: Vec<OwnedFd> = Vec::new();
            for _ in 0..self.depth {
                let below = dirs.last().unwrap_or(&self.top);
                let dir = objects::hold_dir(below, "..")?;
                dirs.push(dir);
            }
            dirs.reverse();
            Ok(dirs)
        });
        match dirs {
            Ok(dirs) => dirs.get(depth).map(AsFd::as_fd).ok_or(Errno::ESTALE),
            Err(e) => Err(*e),
        }
    }
}

/// [`Facts`] around one name in one pinned directory. Cheap to make: it looks only when it is asked.
#[derive(Debug)]
pub struct Pinned<'a> {
    dir: BorrowedFd<'a>,
    path: &'a Dir,
    name: &'a [u8],
    above: &'a Above,
    repositories: &'a Repositories,
    /// `..` of `dir`, `..` of that, and so on up to the top of the tree.
    up: Vec<OnceCell<OwnedFd>>,
    /// The object, where it is a directory.
    object: OnceCell<Option<OwnedFd>>,
    failed: Cell<Option<Errno>>,
}

impl<'a> Pinned<'a> {
    /// Around `name` in `dir`, whose path is `path` as long as the lock is held.
    #[must_use]
    pub fn new(
        dir: BorrowedFd<'a>,
        path: &'a Dir,
        name: &'a [u8],
        above: &'a Above,
        repositories: &'a Repositories,
    ) -> Self {
        let levels = path.depth().saturating_sub(path.root_depth());
        Self {
            dir,
            path,
            name,
            above,
            repositories,
            up: (0..levels).map(|_| OnceCell::new()).collect(),
            object: OnceCell::new(),
            failed: Cell::new(None),
        }
    }

    /// Why a look failed, if one did: then nothing that was answered counts.
    #[must_use]
    pub fn failed(&self) -> Option<Errno> {
        self.failed.get()
    }

    pub(super) fn repositories(&self) -> &'a Repositories {
        self.repositories
    }

    /// The directory at `depth`; `None` where the object itself is asked for and is no directory.
    fn at(&self, depth: usize) -> Result<Option<BorrowedFd<'_>>, Errno> {
        let here = self.path.depth();
        if depth > here {
            if self.object.get().is_none() {
                let object = match objects::hold_dir(self.dir, self.name) {
                    Ok(fd) => Some(fd),
                    Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => None,
                    Err(e) => return Err(e),
                };
                let _ = self.object.set(object);
            }
            return Ok(self.object.get().and_then(|o| o.as_ref()).map(AsFd::as_fd));
        }
        if depth < self.path.root_depth() {
            return self.above.at(depth).map(Some);
        }
        let mut dir = self.dir;
        for cell in self.up.iter().take(here - depth) {
            if cell.get().is_none() {
                let _ = cell.set(objects::hold_dir(dir, "..")?);
            }
            dir = cell.get().ok_or(Errno::ESTALE)?.as_fd();
        }
        Ok(Some(dir))
    }

    fn entry(&self, depth: usize, name: &str) -> Result<bool, Errno> {
        let Some(dir) = self.at(depth)? else {
            return Ok(false);
        };
        match fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn old_git_dir(&self, depth: usize) -> Result<bool, Errno> {
        let Some(dir) = self.at(depth)? else {
            return Ok(false);
        };
        let named = match depth.checked_sub(1) {
            Some(above) if above == self.path.depth() => *self.path.fold(self.name) == *b".git",
            Some(above) => self
                .path
                .folded()
                .get(above)
                .is_some_and(|name| name == b".git"),
            None => false,
        };
        let is = named || git_paths::complete(|name| self.holds(depth, name));
        Ok(is && !self.repositories.is_made(dir)?)
    }

    fn old_work_tree(&self, depth: usize) -> Result<bool, Errno> {
        let Some(dir) = self.at(depth)? else {
            return Ok(false);
        };
        if self.repositories.was_work_tree(dir)? {
            return Ok(true);
        }
        match objects::hold(dir, ".git") {
            Ok(entry) => Ok(!self.repositories.is_made(entry)?),
            Err(Errno::ENOENT) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The answer, or the stricter one and the reason kept.
    fn kept(&self, answer: Result<bool, Errno>) -> bool {
        answer.unwrap_or_else(|e| {
            self.failed.set(Some(e));
            true
        })
    }
}

impl Facts for Pinned<'_> {
    fn holds(&self, depth: usize, name: &str) -> bool {
        self.kept(self.entry(depth, name))
    }

    fn is_project_git_dir(&self, depth: usize) -> bool {
        self.kept(self.old_git_dir(depth))
    }

    fn is_old_work_tree(&self, depth: usize) -> bool {
        self.kept(self.old_work_tree(depth))
    }
}
