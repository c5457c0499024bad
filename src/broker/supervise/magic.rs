//! Links of /proc that are no paths: `/proc/self/fd/3`, `/proc/PID/cwd`.
//!
//! The kernel follows them with the rights of whoever asks, and this process may look at more than the child may. So they are followed
//! only where they belong to the child's own thread, and then through *its* `/proc/TID` of this process's /proc: whatever the numbers
//! in the path are made to mean, the result is an object the child holds already.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;

use super::caller::Caller;
use super::memory::Fd;
use super::{Stop, place};
use crate::sys::at;
use crate::sys::libc;

/// PROC_SUPER_MAGIC of linux/magic.h.
const PROC: i64 = 0x9fa0;
/// The inode of the root of every /proc (PROC_ROOT_INO of linux/proc_fs.h).
const PROC_ROOT: u64 = 1;

/// What a link leads to.
#[derive(Debug)]
pub(super) enum Link {
    /// A path to go on with.
    Text(Vec<u8>),
    /// The object.
    Object(Fd),
}

/// The directory lies in a /proc.
pub(super) fn is_proc(dir: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(at::file_system(dir)?.0 == PROC)
}

/// Follows the link `name` in a directory of /proc.
pub(super) fn follow(
    caller: &Caller<'_>,
    root: &Fd,
    dir: &OwnedFd,
    name: &CStr,
    link: &OwnedFd,
) -> Result<Link, Stop> {
    let status = caller.status()?;
    if at::look(dir.as_fd(), c"")?.ino == PROC_ROOT {
        return Ok(Link::Text(match name.to_bytes() {
            // These two mean whoever reads them.
            b"self" => status.inner_tgid.to_string().into_bytes(),
            b"thread-self" => {
                format!("{}/task/{}", status.inner_tgid, status.inner_tid).into_bytes()
            }
            // `mounts` and `net` are ordinary.
            _ => at::read_link(link.as_fd(), c"")?,
        }));
    }
    let path = place::path(dir.as_fd())?;
    let (owner, entry) = owner(&path);
    // The process or the thread: each has its own working directory and descriptors, though they are hardly ever two.
    let of = match owner {
        Some(number) if number == status.inner_tgid => status.tgid,
        Some(number) if number == status.inner_tid => caller.tid,
        _ => return Err(Stop::Foreign),
    };
    let object = match (entry, name.to_bytes()) {
        (None, name @ (b"cwd" | b"exe")) => {
            Fd::new(caller.open(of, &String::from_utf8_lossy(name), libc::O_PATH)?)
        }
        (None, b"root") => Fd::clone(root),
        (Some(b"fd"), number) => {
            let number: u32 = std::str::from_utf8(number)
                .ok()
                .and_then(|n| n.parse().ok())
                .ok_or(Errno::ENOENT)?;
            Fd::new(caller.open(of, &format!("fd/{number}"), libc::O_PATH)?)
        }
        _ => return Err(Stop::Foreign),
    };
    Ok(Link::Object(object))
}

/// Whose directory this is: the last number in the path, and the entry below it.
fn owner(path: &[u8]) -> (Option<i32>, Option<&[u8]>) {
    let number = |c: &[u8]| std::str::from_utf8(c).ok()?.parse::<i32>().ok();
    let mut components = place::components(path);
    let last = components.pop();
    match last.and_then(number) {
        Some(owner) => (Some(owner), None),
        None => (components.pop().and_then(number), last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_is_the_last_number() {
        assert_eq!(owner(b"/proc/12/fd"), (Some(12), Some(&b"fd"[..])));
        assert_eq!(owner(b"/proc/12"), (Some(12), None));
        assert_eq!(owner(b"/proc/12/task/13/fd"), (Some(13), Some(&b"fd"[..])));
        assert_eq!(owner(b"/proc/12/task/13"), (Some(13), None));
        assert_eq!(owner(b"/proc/12/task"), (Some(12), Some(&b"task"[..])));
        assert_eq!(owner(b"/proc"), (None, Some(&b"proc"[..])));
    }
}
