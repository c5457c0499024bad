//! Files that were handed over for reading and that the mounts protect.
//!
//! A Landlock grant on a writable tree covers everything below it; a protected file in it is held by a read-only mount. The caller's
//! descriptor of that file (`ccbox run -- cmd < .git/config`) is on the host's own, writable mount, so reopening it through
//! /proc/self/fd would write past the protection. Such a descriptor is therefore opened once more, on the mount the command sees,
//! at the same offset. What is hidden from the command has no such mount: that is refused.
//!
//! Everything else keeps its descriptor and with it the offset it shares with the caller (`{ ccbox run -- head -1; cat; } < file`).

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::statvfs::{FsFlags, fstatvfs};

use crate::exit::Failure;
use crate::sys::inherited::{Access, access, copy, replace};

/// Why a descriptor cannot be handed to the command.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The file is below a writable tree but not visible there.
    #[error("descriptor {fd} is `{}`, which is hidden inside", path.display())]
    Hidden {
        /// Its number.
        fd: RawFd,
        /// The file it was opened on.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("cannot look at descriptor {fd}: {source}")]
    Io {
        /// Its number.
        fd: RawFd,
        /// Why.
        source: io::Error,
    },
}

impl Failure for InputError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Hidden { path, .. } => Some(format!(
                "hand the content over through a pipe: `cat {} | ccbox run …`",
                path.display()
            )),
            Self::Io { .. } => None,
        }
    }
}

/// Opens read-only descriptors of protected files anew on the mounts of the sandbox; to be called inside the finished mounts.
///
/// `writable` and `kept` are those of [`super::Domain::prepare`], `moved` are the host and guest paths of writable binds that have
/// another path inside.
pub fn rebind_inputs(
    writable: &[PathBuf],
    moved: &[(PathBuf, PathBuf)],
    kept: &[RawFd],
) -> Result<(), InputError> {
    for &fd in [0, 1, 2].iter().chain(kept) {
        let io = |source| InputError::Io { fd, source };
        if access(fd).map_err(io)? != Some(Access::Read) {
            continue;
        }
        let file = File::from(copy(fd).map_err(io)?);
        match seen_inside(fd, &file, writable, moved).map_err(io)? {
            Seen::AsItIs => {}
            Seen::Protected(inside) => {
                let inside = at_the_same_place(&file, inside).map_err(io)?;
                replace(fd, &inside).map_err(io)?;
            }
            Seen::Hidden(path) => return Err(InputError::Hidden { fd, path }),
        }
    }
    Ok(())
}

enum Seen {
    /// Outside every grant, or writable inside as well.
    AsItIs,
    /// On a read-only mount inside.
    Protected(File),
    Hidden(PathBuf),
}

fn seen_inside(
    fd: RawFd,
    file: &File,
    writable: &[PathBuf],
    moved: &[(PathBuf, PathBuf)],
) -> io::Result<Seen> {
    let meta = file.metadata()?;
    // A file without a name can be reached by nobody who does not hold it already.
    if !meta.is_file() || meta.nlink() == 0 {
        return Ok(Seen::AsItIs);
    }
    // The host's name of it, and the names it has inside through each grant that covers it.
    let path: PathBuf = OsString::from(std::fs::read_link(format!("/proc/self/fd/{fd}"))?).into();
    let same_device = |root: &Path| std::fs::metadata(root).is_ok_and(|m| m.dev() == meta.dev());
    let own = writable
        .iter()
        .filter(|root| path.starts_with(root))
        .map(|root| (path.clone(), root));
    let elsewhere = moved.iter().filter_map(|(host, guest)| {
        let rest = path.strip_prefix(host).ok()?;
        // Joining an empty rest would add a slash, and a file is no directory.
        let whole = rest.as_os_str().is_empty();
        let name = if whole {
            guest.clone()
        } else {
            guest.join(rest)
        };
        Some((name, guest))
    });
    let mut seen = Seen::AsItIs;
    for (name, root) in own.chain(elsewhere) {
        match open_same(&name, &meta)? {
            // Writable by this name, so nothing is gained through the descriptor.
            Some(inside) if !fstatvfs(&inside)?.flags().contains(FsFlags::ST_RDONLY) => {
                return Ok(Seen::AsItIs);
            }
            Some(inside) => seen = Seen::Protected(inside),
            // A private mount (/tmp) hides what the host has below its name, and its grant is no grant on the host's files: they are
            // on another device.
            None if matches!(seen, Seen::AsItIs) && same_device(root) => {
                seen = Seen::Hidden(path.clone());
            }
            None => {}
        }
    }
    Ok(seen)
}

/// The file at this path, if it is the one the metadata is of.
fn open_same(path: &Path, meta: &std::fs::Metadata) -> io::Result<Option<File>> {
    let opened = File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) => {
            return match error.raw_os_error().map(Errno::from_raw) {
                Some(Errno::ENOENT | Errno::EACCES | Errno::ENOTDIR | Errno::ELOOP) => Ok(None),
                _ => Err(error),
            };
        }
    };
    let found = file.metadata()?;
    Ok((found.dev() == meta.dev() && found.ino() == meta.ino()).then_some(file))
}

fn at_the_same_place(mut from: &File, mut to: File) -> io::Result<OwnedFd> {
    to.seek(SeekFrom::Start(from.stream_position()?))?;
    Ok(to.into())
}
