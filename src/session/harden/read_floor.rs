//! The Landlock read floor: hidden files stay unreadable whatever a host program puts in their place.
//!
//! | READ_FILE granted on | because |
//! |---|---|
//! | every entry of every directory above a closed file, but for those directories and the files themselves | the object that is there now may be read, with all below; one that comes later may not |
//! | a closed file's cover | Landlock is asked before the file system: without it nobody would be told of the refusal |
//! | the objects of descriptors the command keeps | they are open already, and `/dev/stdin` reopens them |
//!
//! A layer of its own over the command's domain, so that neither's rules count for the other. REFER must be granted in it, because a
//! domain that does not handle it refuses it (landlock(7)).

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};

use crate::backend::ReadFloor as Plan;
use crate::exit::Failure;
use crate::sys::fds::{O_PATH, open_no_links};
use crate::sys::inherited::{Access, access, copy};
use crate::sys::landlock::Ruleset;
use crate::sys::libc;
use crate::sys::objects;

/// Why it could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum ReadFloorError {
    /// The kernel has Landlock but refused a ruleset.
    #[error("cannot create a Landlock ruleset for reading: {0}")]
    Create(#[source] io::Error),
    /// A path could not be looked at or granted.
    #[error("cannot grant reading of `{}` in the Landlock domain: {source}", path.display())]
    Path {
        /// Guest path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The object behind a descriptor could not be granted.
    #[error("cannot grant reading through descriptor {fd} in the Landlock domain: {source}")]
    Descriptor {
        /// Its number.
        fd: RawFd,
        /// Why.
        source: io::Error,
    },
}

impl Failure for ReadFloorError {}

/// A floor ready to be stood on; holds one close-on-exec descriptor.
#[derive(Debug)]
pub struct ReadFloor(Ruleset);

impl ReadFloor {
    /// Looks and grants, inside the finished mounts. `known` are guest paths that may be read, for directories that cannot be listed; `kept` are the descriptors above 2 the command keeps.
    pub fn prepare(plan: &Plan, known: &[PathBuf], kept: &[RawFd]) -> Result<Self, ReadFloorError> {
        let mut ruleset = Ruleset::for_reading().map_err(ReadFloorError::Create)?;
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            move |source| ReadFloorError::Path { path, source }
        };
        let root = Path::new("/");
        open_no_links(root)
            .and_then(|fd| ruleset.allow_refer(fd))
            .map_err(failed(root))?;
        let mut above = Vec::with_capacity(plan.above.len());
        for path in &plan.above {
            match open_no_links(path) {
                Ok(directory) => above.push((path, directory)),
                // Above a file that does not exist yet.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(failed(path)(e)),
            }
        }
        let mut way = Way {
            ruleset,
            closed: &plan.closed,
            above: BTreeSet::new(),
        };
        for (path, directory) in &above {
            let seen = fstat(directory).map_err(|e| failed(path)(e.into()))?;
            way.above.insert(objects::key(&seen));
        }
        for (path, directory) in &above {
            way.beside(path, directory, known).map_err(failed(path))?;
        }
        for &fd in [0, 1, 2].iter().chain(kept) {
            allow_descriptor(&mut way.ruleset, fd)
                .map_err(|source| ReadFloorError::Descriptor { fd, source })?;
        }
        Ok(Self(way.ruleset))
    }

    /// Stands on it, with the calling thread and everything it starts. Callable between fork and exec.
    pub fn apply(&self) -> io::Result<()> {
        self.0.restrict_self()
    }
}

/// The directories above closed files, and what is granted beside them.
struct Way<'a> {
    ruleset: Ruleset,
    closed: &'a [PathBuf],
    /// Device and inode: a directory on the way is one under any name.
    above: BTreeSet<(u64, u64)>,
}

impl Way<'_> {
    /// Grants the entries of one directory.
    fn beside(&mut self, path: &Path, directory: &OwnedFd, known: &[PathBuf]) -> io::Result<()> {
        let here = Here {
            device: objects::device(&fstat(directory)?),
            closed: self
                .closed
                .iter()
                .filter(|c| c.parent() == Some(path))
                .filter_map(|c| Some(c.file_name()?.as_bytes()))
                .collect(),
            directory,
        };
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut list = match Dir::openat(directory, ".", flags, Mode::empty()) {
            Ok(list) => list,
            // Neither can the command list it; it may know what ccbox put there.
            Err(Errno::EACCES) => {
                for known in known.iter().filter_map(|k| k.strip_prefix(path).ok()) {
                    if let Some(name) = known.iter().next() {
                        self.entry(&here, name.as_bytes(), None)?;
                    }
                }
                return Ok(());
            }
            Err(e) => return Err(e.into()),
        };
        for entry in list.iter() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                self.entry(&here, name, entry.file_type())?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, here: &Here<'_>, name: &[u8], kind: Option<Type>) -> io::Result<()> {
        if kind == Some(Type::Symlink) {
            return Ok(());
        }
        let flags = O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let object = match nix::fcntl::openat(
            here.directory,
            OsStr::from_bytes(name),
            flags,
            Mode::empty(),
        ) {
            // Gone since the directory was read; a FUSE mount of somebody else, at which the command may not look either.
            Err(Errno::ENOENT | Errno::EACCES) => return Ok(()),
            object => object?,
        };
        let closed = here.closed.contains(name);
        // An ordinary file is neither on the way nor, unless it was replaced by one, a link.
        if closed || kind != Some(Type::File) {
            let seen = fstat(&object)?;
            // A closed file's cover is a mount. Where it is none the file has been replaced already.
            if self.above.contains(&objects::key(&seen))
                || is_link(&seen)
                || (closed && objects::device(&seen) == here.device)
            {
                return Ok(());
            }
        }
        self.ruleset.allow_read(object)
    }
}

/// The object of a descriptor that the command keeps may be opened again for reading.
pub(super) fn allow_descriptor(ruleset: &mut Ruleset, fd: RawFd) -> io::Result<()> {
    if matches!(access(fd)?, None | Some(Access::Path)) {
        return Ok(());
    }
    match ruleset.allow_read(copy(fd)?) {
        // Pipes, sockets, memfds: on no mounted file system, so no domain governs them (landlock_add_rule(2), EBADFD).
        Err(error) if error.raw_os_error() == Some(libc::EBADFD) => Ok(()),
        other => other,
    }
}

/// One directory above closed files.
struct Here<'a> {
    directory: &'a OwnedFd,
    device: u64,
    /// Names of closed files directly in it.
    closed: BTreeSet<&'a [u8]>,
}

fn is_link(seen: &FileStat) -> bool {
    SFlag::from_bits_truncate(seen.st_mode) & SFlag::S_IFMT == SFlag::S_IFLNK
}
