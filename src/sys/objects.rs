//! Objects of a file system held without rights on them, and what tells one from a later one with its inode number.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::NixPath;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{FileStat, Mode};

/// A descriptor that only names: no rights on the object are needed or given.
#[cfg(target_os = "linux")]
const HOLD: OFlag = OFlag::O_PATH;
/// The nearest thing: needs the right to read.
#[cfg(not(target_os = "linux"))]
const HOLD: OFlag = OFlag::O_NONBLOCK;

/// Holds an entry of a directory; a link is held itself.
pub fn hold(dir: impl AsFd, name: &(impl NixPath + ?Sized)) -> Result<OwnedFd, Errno> {
    let flags = HOLD | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(dir, name, flags, Mode::empty())
}

/// Holds an entry that is a directory; a link to one is `ENOTDIR`.
pub fn hold_dir(dir: impl AsFd, name: &(impl NixPath + ?Sized)) -> Result<OwnedFd, Errno> {
    let flags = HOLD | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(dir, name, flags, Mode::empty())
}

/// Device and inode number.
#[must_use]
pub fn key(stat: &FileStat) -> (u64, u64) {
    (device(stat), stat.st_ino)
}

/// Device number. Its type differs by system.
#[must_use]
#[allow(clippy::unnecessary_cast, clippy::cast_sign_loss)]
pub fn device(stat: &FileStat) -> u64 {
    stat.st_dev as u64
}

/// Type and permissions of an object, which have 16 bits on some systems.
#[must_use]
#[allow(clippy::useless_conversion)]
pub fn mode(stat: &FileStat) -> u32 {
    stat.st_mode.into()
}

/// Permission bits as nix has them.
#[must_use]
pub fn permissions(bits: u32) -> Mode {
    Mode::from_bits_truncate((bits & 0o7777) as nix::libc::mode_t)
}

/// The file system's own name for an object: inode number and generation, so it is never given twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Handle {
    kind: i32,
    bytes: Vec<u8>,
}

/// The handle of an object, or `None` where its file system has none (an overlay, 9p), as name_to_handle_at(2) says.
#[cfg(target_os = "linux")]
pub fn handle(object: impl AsFd) -> io::Result<Option<Handle>> {
    use std::os::fd::AsRawFd;

    /// MAX_HANDLE_SZ of linux/exportfs.h.
    const MAX: usize = 128;
    /// struct file_handle with room for the longest handle.
    #[repr(C)]
    struct FileHandle {
        length: libc::c_uint,
        kind: libc::c_int,
        bytes: [u8; MAX],
    }
    let mut found = FileHandle {
        length: 128,
        kind: 0,
        bytes: [0; MAX],
    };
    let mut mount: libc::c_int = 0;
    // SAFETY: the path is a NUL-terminated constant (empty: AT_EMPTY_PATH means the descriptor itself). The handle points to a
    // `repr(C)` struct of the kernel's layout whose first field says how many bytes may be written behind the two integers, and
    // there are so many; the mount number is an int of ours. Both live across the call, and the kernel keeps neither.
    let done = unsafe {
        syscall!(
            SYS_name_to_handle_at,
            object.as_fd().as_raw_fd(),
            c"".as_ptr(),
            &raw mut found,
            &raw mut mount,
            libc::AT_EMPTY_PATH,
        )
    };
    match Errno::result(done) {
        Ok(_) => {
            let length = usize::try_from(found.length).unwrap_or(MAX);
            let bytes = found.bytes.get(..length).ok_or(Errno::EOVERFLOW)?;
            Ok(Some(Handle {
                kind: found.kind,
                bytes: bytes.to_vec(),
            }))
        }
        // No handles here, or a container's filter that does not know the call.
        Err(Errno::EOPNOTSUPP | Errno::EOVERFLOW | Errno::ENOSYS | Errno::EPERM) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// There are no handles here.
#[cfg(not(target_os = "linux"))]
pub fn handle(_: impl AsFd) -> io::Result<Option<Handle>> {
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_handle_is_never_given_twice() {
        let dir = tempfile::tempdir().unwrap();
        let at = fs::File::open(dir.path()).unwrap();
        let path = dir.path().join("x");
        let mut seen: Vec<(u64, Handle)> = Vec::new();
        for _ in 0..64 {
            fs::create_dir(&path).unwrap();
            let held = hold_dir(&at, "x").unwrap();
            assert_eq!(
                handle(&held).unwrap(),
                handle(hold(&at, "x").unwrap()).unwrap()
            );
            let Some(handle) = handle(&held).unwrap() else {
                return;
            };
            assert!(seen.iter().all(|(_, h)| *h != handle));
            seen.push((fs::metadata(&path).unwrap().ino(), handle));
            drop(held);
            fs::remove_dir(&path).unwrap();
        }
    }

    #[test]
    fn a_link_is_held_and_is_no_directory() {
        let dir = tempfile::tempdir().unwrap();
        let at = fs::File::open(dir.path()).unwrap();
        std::os::unix::fs::symlink("/", dir.path().join("l")).unwrap();
        assert!(hold(&at, "l").is_ok());
        assert_eq!(hold_dir(&at, "l").unwrap_err(), Errno::ENOTDIR);
        assert_eq!(hold_dir(&at, "absent").unwrap_err(), Errno::ENOENT);
    }
}
