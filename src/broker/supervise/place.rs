//! Where an object is: the path of a descriptor, in the sandbox's words.
//!
//! The path is that of the object at this moment, not the one the child wrote. It means something as long as no directory above
//! the object moves, which is what the lock is for.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;

use crate::sys::at::{self, How};
use crate::sys::libc;

/// `O_PATH | O_CLOEXEC | O_NOFOLLOW`.
pub(super) const PATH_ONLY: u64 = flags(libc::O_PATH | libc::O_NOFOLLOW);
/// For directories.
pub(super) const PATH_DIR: u64 = flags(libc::O_PATH | libc::O_DIRECTORY);

/// Flags for openat2(2), close-on-exec.
pub(super) const fn flags(flags: i32) -> u64 {
    (flags | libc::O_CLOEXEC).cast_unsigned() as u64
}

/// What the kernel appends to a name that is gone (d_path in fs/d_path.c).
pub(super) const DELETED: &[u8] = b" (deleted)";

/// More directories than a path can have when each name has one byte, many times over.
const DEEPEST: usize = 100_000;

/// The absolute path of an object inside. ENOENT where it has none (a pipe, a mount that belongs to no namespace).
pub(super) fn path(object: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let words = match at::words(object) {
        Err(Errno::ENAMETOOLONG) => climb(object)?,
        other => other?,
    };
    // `pipe:[…]`, `anon_inode:…`, `(unreachable)/…`
    if words.starts_with(b"/") {
        Ok(words)
    } else {
        Err(Errno::ENOENT)
    }
}

/// The path of a directory deeper than the kernel's words go (PATH_MAX), name by name upwards.
fn climb(dir: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut at = dir.try_clone_to_owned().map_err(|_| Errno::EMFILE)?;
    for _ in 0..DEEPEST {
        let above = at::open(
            at.as_fd(),
            c"..",
            How {
                flags: PATH_DIR,
                ..How::default()
            },
        )?;
        names.push(name_in(&above, &at)?);
        match at::words(above.as_fd()) {
            Err(Errno::ENAMETOOLONG) => at = above,
            other => {
                let mut path = other?;
                for name in names.iter().rev() {
                    path.push(b'/');
                    path.extend_from_slice(name);
                }
                return Ok(path);
            }
        }
    }
    Err(Errno::ENAMETOOLONG)
}

/// The name of a directory in the one above it.
fn name_in(above: &OwnedFd, dir: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let wanted = at::look(dir.as_fd(), c"")?;
    let readable = at::open(
        above.as_fd(),
        c".",
        How {
            flags: flags(libc::O_RDONLY | libc::O_DIRECTORY),
            ..How::default()
        },
    )?;
    let mut entries = nix::dir::Dir::from_fd(readable)?;
    for entry in entries.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if at::look(above.as_fd(), name).is_ok_and(|look| look.same(&wanted)) {
            return Ok(name.to_bytes().to_vec());
        }
    }
    Err(Errno::ENOENT)
}

/// What follows `top` in `path`, without the slash between; `None` where `path` is not at or below it.
pub(super) fn below<'p>(path: &'p [u8], top: &[u8]) -> Option<&'p [u8]> {
    if top == b"/" {
        return path.strip_prefix(b"/");
    }
    match path.strip_prefix(top)? {
        [] => Some(&[]),
        [b'/', rest @ ..] => Some(rest),
        _ => None,
    }
}

/// The components of a path.
pub(super) fn components(path: &[u8]) -> Vec<&[u8]> {
    path.split(|&b| b == b'/')
        .filter(|c| !c.is_empty())
        .collect()
}

/// `dir` and a name as one path.
pub(super) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = dir.to_vec();
    if !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// A name with a slash behind it, where the caller wrote one: it changes what the kernel makes of it.
pub(super) fn with_slash(name: &CString, slash: bool) -> Result<CString, Errno> {
    if !slash {
        return Ok(name.clone());
    }
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(b'/');
    CString::new(bytes).map_err(|_| Errno::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_is_by_components() {
        assert_eq!(below(b"/a/b", b"/a"), Some(&b"b"[..]));
        assert_eq!(below(b"/a", b"/a"), Some(&b""[..]));
        assert_eq!(below(b"/ab", b"/a"), None);
        assert_eq!(below(b"/", b"/a"), None);
        assert_eq!(below(b"/a/b", b"/"), Some(&b"a/b"[..]));
        assert_eq!(below(b"/", b"/"), Some(&b""[..]));
    }

    #[test]
    fn a_path_longer_than_the_kernel_prints_is_climbed() {
        let top = tempfile::tempdir().unwrap();
        let mut at = OwnedFd::from(std::fs::File::open(top.path()).unwrap());
        let name = CString::new("d".repeat(200)).unwrap();
        for _ in 0..30 {
            at::make_dir(at.as_fd(), &name, 0o755).unwrap();
            let how = How {
                flags: PATH_DIR,
                ..How::default()
            };
            at = at::open(at.as_fd(), &name, how).unwrap();
        }
        let path = path(at.as_fd()).unwrap();
        let top = top.path().canonicalize().unwrap();
        let rest = below(&path, top.as_os_str().as_encoded_bytes()).unwrap();
        assert_eq!(components(rest), vec![name.as_bytes(); 30]);
    }

    #[test]
    fn what_is_in_no_tree_has_no_path() {
        let (pipe, _) = nix::unistd::pipe().unwrap();
        assert_eq!(path(pipe.as_fd()), Err(Errno::ENOENT));
    }
}
