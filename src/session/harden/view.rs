//! What may be read where no mounts show and hide: an allow list on the host's own file system, as a Landlock layer of its own.
//!
//! | handled | granted on |
//! |---|---|
//! | READ_FILE, EXECUTE | whole pieces of the plan; beside something that stands for itself, the entries one by one |
//! | READ_DIR, where the list asks for it | the directories among them |
//! | REFER | `/`: a domain that does not handle it refuses it (landlock(7)) |
//! | READ_FILE | the objects of descriptors the command keeps: they are open already, and `/dev/stdin` reopens them |
//!
//! EXECUTE goes with READ_FILE: what a program that cannot be read is made of, its parent could read from its memory.
//!
//! A right on a directory holds for everything below it, so no directory above something hidden can have one. What the host makes in such
//! a directory later has none either. A directory on the way is one under any name: another mount of it is not granted whole.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};

use super::read_floor;
use crate::backend::AllowList;
use crate::exit::Failure;
use crate::sys::fds::{O_PATH, open_no_links};
use crate::sys::landlock::Ruleset;
use crate::sys::objects;

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// The kernel refused a ruleset.
    #[error("cannot create a Landlock ruleset for the view: {0}")]
    Create(#[source] io::Error),
    /// A path could not be looked at or granted.
    #[error("cannot show `{}` in the Landlock domain: {source}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The object behind a descriptor could not be granted.
    #[error("cannot show descriptor {fd} in the Landlock domain: {source}")]
    Descriptor {
        /// Its number.
        fd: RawFd,
        /// Why.
        source: io::Error,
    },
}

impl Failure for ViewError {}

/// A layer ready to be entered; holds one close-on-exec descriptor.
#[derive(Debug)]
pub struct View(Ruleset);

impl View {
    /// Looks and grants. `kept` are the descriptors above 2 the command keeps.
    pub fn prepare(list: &AllowList, kept: &[RawFd]) -> Result<Self, ViewError> {
        let mut ruleset = Ruleset::for_view(list.lists).map_err(ViewError::Create)?;
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            move |source| ViewError::Path { path, source }
        };
        let root = Path::new("/");
        open_no_links(root)
            .and_then(|fd| ruleset.allow_refer(fd))
            .map_err(failed(root))?;
        let mut around = Vec::new();
        for path in &list.around {
            match open_no_links(path) {
                Ok(object) => around.push((path.as_path(), object)),
                // Of something that does not exist yet, or that the command cannot reach either.
                Err(e) if is_beyond(&e) => {}
                Err(e) => return Err(failed(path)(e)),
            }
        }
        let mut way = Way {
            ruleset,
            apart: list.apart.iter().map(PathBuf::as_path).collect(),
            around: BTreeSet::new(),
        };
        for (path, object) in &around {
            let seen = fstat(object).map_err(|e| failed(path)(e.into()))?;
            way.around.insert(objects::key(&seen));
        }
        for path in &list.whole {
            way.whole(path).map_err(failed(path))?;
        }
        for (path, object) in &around {
            way.beside(path, object).map_err(failed(path))?;
        }
        for &fd in [0, 1, 2].iter().chain(kept) {
            read_floor::allow_descriptor(&mut way.ruleset, fd)
                .map_err(|source| ViewError::Descriptor { fd, source })?;
        }
        Ok(Self(way.ruleset))
    }

    /// Enters the layer with the calling thread and everything it starts. Callable between fork and exec.
    pub fn apply(&self) -> io::Result<()> {
        self.0.restrict_self()
    }
}

struct Way<'a> {
    ruleset: Ruleset,
    apart: BTreeSet<&'a Path>,
    /// Device and inode.
    around: BTreeSet<(u64, u64)>,
}

impl Way<'_> {
    fn whole(&mut self, path: &Path) -> io::Result<()> {
        match open_no_links(path) {
            Ok(object) => self.allow(object),
            Err(e) if is_beyond(&e) => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Grants the entries of one directory that do not stand for themselves.
    fn beside(&mut self, path: &Path, directory: &OwnedFd) -> io::Result<()> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut list = match Dir::openat(directory, ".", flags, Mode::empty()) {
            Ok(list) => list,
            // What cannot be listed has no grant.
            Err(Errno::EACCES | Errno::ENOTDIR) => return Ok(()),
            Err(e) => return Err(e.into()),
        };
        for entry in list.iter() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." || self.apart.contains(path.join(name).as_path()) {
                continue;
            }
            let flags = O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            match nix::fcntl::openat(directory, name, flags, Mode::empty()) {
                Ok(object) => self.allow(object)?,
                // Gone since the directory was read; a FUSE mount of somebody else, at which the command may not look either.
                Err(Errno::ENOENT | Errno::EACCES) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    fn allow(&mut self, object: OwnedFd) -> io::Result<()> {
        let seen = fstat(&object)?;
        let kind = kind(&seen);
        // A link has the rights of what it leads to.
        if kind == SFlag::S_IFLNK || self.around.contains(&objects::key(&seen)) {
            return Ok(());
        }
        self.ruleset.allow_view(object, kind == SFlag::S_IFDIR)
    }
}

fn kind(seen: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(seen.st_mode) & SFlag::S_IFMT
}

/// There is nothing, or nothing this user can reach.
fn is_beyond(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES)
    )
}
