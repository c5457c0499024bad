//! Which repositories were made in this run. Every other one was the project's before it (semantics 8).
//!
//! Remembered are objects, not paths: the git directory that became complete or was made under the name `.git` (a
//! directory, the file of a linked work tree or of a submodule, a link), and the work trees that lost the `.git` they
//! had before the run, so that removing and making it again does not turn an old work tree into a new one.
//!
//! An inode number is given again after a removal. So an object is known by its file system's handle, which holds a
//! generation as well; where there are no handles a descriptor is kept, which keeps the number taken.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use nix::errno::Errno;

use super::super::fold;
use crate::sys::objects::{self, Handle};

/// Most objects that are remembered. A made repository beyond them counts as the project's.
const MOST: usize = 1 << 16;
/// Most descriptors that are kept where there are no handles.
const MOST_HELD: usize = 128;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    device: u64,
    inode: u64,
    handle: Option<Handle>,
}

/// The object, and what keeps its number taken where that is needed.
type Objects = HashMap<Key, Option<OwnedFd>>;

#[derive(Debug, Default)]
struct Known {
    made: Objects,
    old: Objects,
}

/// The record of one run; shared by all workers.
#[derive(Debug, Default)]
pub struct Repositories(Mutex<Known>);

impl Repositories {
    /// The object was made in this run: a git directory, or a file or link called `.git`.
    pub fn is_made(&self, object: impl AsFd) -> Result<bool, Errno> {
        let key = key(object)?;
        Ok(self.known().made.contains_key(&key))
    }

    /// The directory was the work tree of a repository that the project had.
    pub fn was_work_tree(&self, dir: impl AsFd) -> Result<bool, Errno> {
        let known = self.known();
        // Hardly ever is there one.
        Ok(!known.old.is_empty() && known.old.contains_key(&key(dir)?))
    }

    /// Remembers a git directory that has become one in this run. It may fail: then it counts as the project's, and less
    /// is allowed.
    pub fn became(&self, git_dir: impl AsFd) {
        let known = &mut *self.known();
        if known.made.len() + known.old.len() < MOST {
            let _ = insert(&mut known.made, git_dir);
        }
    }

    /// To be called after `name` was *made* in `dir`: mkdir, symlink, or an open that created it. (A rename or a link
    /// brings an object that is known already or not.)
    pub fn came(&self, dir: impl AsFd, name: &[u8]) {
        if is_dot_git(name)
            && let Ok(object) = objects::hold(dir, name)
        {
            self.became(object);
        }
    }

    /// To be called before `name` in `dir` is removed, moved away or replaced. On an error the act must not happen.
    pub fn goes(&self, dir: impl AsFd, name: &[u8]) -> Result<(), Errno> {
        if !is_dot_git(name) {
            return Ok(());
        }
        let dir = dir.as_fd();
        match objects::hold(dir, name) {
            Ok(entry) if self.is_made(&entry)? => Ok(()),
            Ok(_) => {
                let known = &mut *self.known();
                if known.made.len() + known.old.len() >= MOST {
                    return Err(Errno::ENOMEM);
                }
                insert(&mut known.old, dir)
            }
            Err(Errno::ENOENT) => Ok(()),
            Err(e) => Err(e),
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        // Each change is one insertion, so a panic elsewhere leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `.git` on some file system. More names than that do no harm.
fn is_dot_git(name: &[u8]) -> bool {
    *fold::fold(name, fold::NameRules::Windows) == *b".git"
}

fn key(object: impl AsFd) -> Result<Key, Errno> {
    let stat = nix::sys::stat::fstat(&object)?;
    let handle = objects::handle(object)
        .map_err(|e| e.raw_os_error().map_or(Errno::EIO, Errno::from_raw))?;
    Ok(Key {
        device: objects::device(&stat),
        inode: stat.st_ino,
        handle,
    })
}

fn insert(into: &mut Objects, object: impl AsFd) -> Result<(), Errno> {
    let key = key(&object)?;
    if into.contains_key(&key) {
        return Ok(());
    }
    let held = if key.handle.is_some() {
        None
    } else {
        let gone = |held: &Option<OwnedFd>| {
            held.as_ref()
                .is_some_and(|fd| nix::sys::stat::fstat(fd).is_ok_and(|s| s.st_nlink == 0))
        };
        into.retain(|_, held| !gone(held));
        if into.values().flatten().count() >= MOST_HELD {
            return Err(Errno::EMFILE);
        }
        let copy = object.as_fd().try_clone_to_owned();
        Some(copy.map_err(|_| Errno::EMFILE)?)
    };
    into.insert(key, held);
    Ok(())
}
