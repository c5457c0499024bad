//! What a process does inside namespaces it has just entered.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::MsFlags;
pub use nix::sched::CloneFlags;

/// Maps the caller's own ids onto themselves in a user namespace just entered (user_namespaces(7)).
pub fn map_own_ids(uid: u32, gid: u32) -> io::Result<()> {
    // An unprivileged gid_map needs setgroups denied first, since 3.19.
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

/// Moves this process into new namespaces of these kinds (unshare(2)).
pub fn enter(kinds: CloneFlags) -> io::Result<()> {
    Ok(nix::sched::unshare(kinds)?)
}

/// Mounts of this mount namespace no longer propagate anywhere.
pub fn make_mounts_private() -> io::Result<()> {
    let none: Option<&Path> = None;
    Ok(nix::mount::mount(
        none,
        "/",
        none,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        none,
    )?)
}

/// Makes the mount that `root` is the root of this process' root, and takes the old one with everything below it off (pivot_root(2),
/// "pivot_root(".", ".")").
pub fn change_root(root: impl AsFd) -> io::Result<()> {
    nix::unistd::fchdir(root)?;
    nix::unistd::pivot_root(".", ".")?;
    nix::mount::umount2(".", nix::mount::MntFlags::MNT_DETACH)?;
    Ok(nix::unistd::chdir("/")?)
}

/// No user namespaces below that of this process, which must have CAP_SYS_RESOURCE in it (user_namespaces(7)).
pub fn forbid_user_namespaces() -> io::Result<()> {
    std::fs::write("/proc/sys/user/max_user_namespaces", "0")
}

/// A fresh /proc over the old one (needs a process namespace of one's own).
pub fn mount_proc() -> io::Result<()> {
    let none: Option<&Path> = None;
    Ok(nix::mount::mount(
        Some("proc"),
        "/proc",
        Some("proc"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC,
        none,
    )?)
}

/// An overlay of `lowers` (read-only, the uppermost first) and `upper` (writable) at `at`; inside a user namespace, hence
/// `userxattr` (5.11).
pub fn mount_overlay(lowers: &[PathBuf], upper: &Path, work: &Path, at: &Path) -> io::Result<()> {
    let mut data = b"userxattr,lowerdir=".to_vec();
    for (i, lower) in lowers.iter().enumerate() {
        if i > 0 {
            data.push(b':');
        }
        escape_into(&mut data, lower);
    }
    data.extend_from_slice(b",upperdir=");
    escape_into(&mut data, upper);
    data.extend_from_slice(b",workdir=");
    escape_into(&mut data, work);
    let data = std::ffi::CString::new(data)?;
    Ok(nix::mount::mount(
        Some("overlay"),
        at,
        Some("overlay"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
        Some(data.as_c_str()),
    )?)
}

/// overlayfs options end at `,`, lower layers are separated by `:`; both and the backslash take a backslash
/// (Documentation/filesystems/overlayfs.rst).
fn escape_into(data: &mut Vec<u8>, path: &Path) {
    for byte in path.as_os_str().as_bytes() {
        if matches!(byte, b',' | b':' | b'\\') {
            data.push(b'\\');
        }
        data.push(*byte);
    }
}

/// Process and thread, in the caller's numbers, of a thread that has the number `thread` in a process namespace (Linux 6.11).
pub fn process_and_thread(namespace: impl AsFd, thread: i32) -> io::Result<(i32, i32)> {
    // linux/nsfs.h. The thread's number is the argument itself, the answer the return value.
    const NS_GET_PID_FROM_PIDNS: libc::Ioctl =
        nix::request_code_read!(0xb7, 6, size_of::<libc::c_int>()) as libc::Ioctl;
    const NS_GET_TGID_FROM_PIDNS: libc::Ioctl =
        nix::request_code_read!(0xb7, 7, size_of::<libc::c_int>()) as libc::Ioctl;
    let ask = |request| {
        let fd = namespace.as_fd().as_raw_fd();
        // SAFETY: both requests take an integer, not a pointer, and touch no memory of ours; on a descriptor of another kind they fail.
        Errno::result(unsafe { libc::ioctl(fd, request, thread) })
    };
    Ok((ask(NS_GET_TGID_FROM_PIDNS)?, ask(NS_GET_PID_FROM_PIDNS)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlay_paths_are_escaped() {
        let mut data = Vec::new();
        escape_into(&mut data, Path::new("/a b/c,d:e\\f"));
        assert_eq!(data, b"/a b/c\\,d\\:e\\\\f");
    }
}
