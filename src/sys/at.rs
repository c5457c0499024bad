//! File system calls relative to a descriptor, with the flags and errors of the kernel as they are.
//!
//! Whoever carries out somebody else's call needs all flags and each errno of it; the wrappers of nix know fewer of the first.

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;

use super::fds::owned;
use super::libc;

/// Every flag open(2) looks at; it ignores the others, which openat2(2) refuses (VALID_OPEN_FLAGS of linux/fcntl.h).
pub const OPEN_FLAGS: i32 = libc::O_ACCMODE
    | libc::O_CREAT
    | libc::O_EXCL
    | libc::O_NOCTTY
    | libc::O_TRUNC
    | libc::O_APPEND
    | libc::O_NONBLOCK
    | libc::O_SYNC
    | libc::O_DSYNC
    | libc::O_ASYNC
    | libc::O_DIRECT
    | LARGE_FILE
    | libc::O_DIRECTORY
    | libc::O_NOFOLLOW
    | libc::O_NOATIME
    | libc::O_CLOEXEC
    | libc::O_PATH
    | libc::O_TMPFILE;

/// `O_LARGEFILE`, which open(2) adds by itself where a long has 64 bits and F_GETFL shows; in libc it is 0 there.
pub const LARGE_FILE: i32 = if cfg!(any(target_arch = "arm", target_arch = "aarch64")) {
    0o400_000
} else {
    0o100_000
};

/// What openat2(2) is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct How {
    /// `O_*`.
    pub flags: u64,
    /// Permission bits of a new file.
    pub mode: u64,
    /// `RESOLVE_*`.
    pub resolve: u64,
}

/// What stands under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Type and permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Inode.
    pub ino: u64,
    /// Device.
    pub device: (u32, u32),
    /// The device that a device node stands for.
    pub represents: (u32, u32),
    /// Names.
    pub links: u32,
    /// Bytes.
    pub size: u64,
    /// The mount it was found on.
    pub mount: u64,
    /// It is the root of that mount.
    pub mount_root: bool,
    /// It may not be removed or moved, and its content only grows or stays (chattr(1), `+a` and `+i`).
    pub kept: bool,
    /// When it was made, in seconds and nanoseconds, where the file system knows.
    pub birth: Option<(i64, u32)>,
}

/// An object, as no other one is at any time: an inode number that is given again comes with another birth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    mount: u64,
    device: (u32, u32),
    ino: u64,
    birth: (i64, u32),
}

impl Look {
    /// Is of this `S_IF*` type.
    #[must_use]
    pub fn is(&self, kind: u32) -> bool {
        self.mode & libc::S_IFMT == kind
    }

    /// What tells the object from all others, where that can be told.
    #[must_use]
    pub fn identity(&self) -> Option<Identity> {
        Some(Identity {
            mount: self.mount,
            device: self.device,
            ino: self.ino,
            birth: self.birth?,
        })
    }

    /// The same object on the same mount.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        (self.mount, self.device, self.ino) == (other.mount, other.device, other.ino)
    }
}

/// openat2(2).
pub fn open(dir: BorrowedFd<'_>, path: &CStr, how: How) -> Result<OwnedFd, Errno> {
    let how = [how.flags, how.mode, how.resolve];
    // SAFETY: openat2 reads a NUL-terminated path and `struct open_how`, which is three u64 in this order; both outlive the call.
    let fd = unsafe {
        syscall!(
            SYS_openat2,
            dir.as_raw_fd(),
            path.as_ptr(),
            how.as_ptr(),
            size_of_val(&how),
        )
    };
    Errno::result(fd)?;
    owned(fd).map_err(|_| Errno::EBADF)
}

/// Opens by an absolute path in this process's view, following links.
pub fn open_here(path: &CStr, flags: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: openat reads a NUL-terminated path that outlives the call; the mode is not looked at without O_CREAT.
    let fd = unsafe { libc::openat(libc::AT_FDCWD, path.as_ptr(), flags | libc::O_CLOEXEC, 0) };
    Errno::result(fd)?;
    owned(libc::c_long::from(fd)).map_err(|_| Errno::EBADF)
}

/// statx(2): what has the name now, not following a link; with an empty name the object of the descriptor itself.
pub fn look(dir: BorrowedFd<'_>, name: &CStr) -> Result<Look, Errno> {
    const WANTED: u32 = libc::STATX_TYPE
        | libc::STATX_MODE
        | libc::STATX_UID
        | libc::STATX_GID
        | libc::STATX_INO
        | libc::STATX_NLINK
        | libc::STATX_SIZE
        | libc::STATX_BTIME
        | libc::STATX_MNT_ID;
    let mut found = std::mem::MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: statx reads a NUL-terminated path and writes one `struct statx`; both outlive the call.
    let r = unsafe {
        libc::statx(
            dir.as_raw_fd(),
            name.as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT,
            WANTED,
            found.as_mut_ptr(),
        )
    };
    Errno::result(r)?;
    // SAFETY: all bytes were zeroed, the kernel has overwritten what it knows, and the type has integers only.
    let found = unsafe { found.assume_init() };
    // STATX_MNT_ID is 5.8, older than WAIT_KILLABLE_RECV; without it nothing could be decided.
    if found.stx_mask & libc::STATX_MNT_ID == 0 {
        return Err(Errno::ENOSYS);
    }
    let mount_root = libc::STATX_ATTR_MOUNT_ROOT as u64;
    let kept = (libc::STATX_ATTR_APPEND | libc::STATX_ATTR_IMMUTABLE) as u64;
    Ok(Look {
        mode: u32::from(found.stx_mode),
        uid: found.stx_uid,
        gid: found.stx_gid,
        ino: found.stx_ino,
        device: (found.stx_dev_major, found.stx_dev_minor),
        represents: (found.stx_rdev_major, found.stx_rdev_minor),
        links: found.stx_nlink,
        size: found.stx_size,
        mount: found.stx_mnt_id,
        mount_root: found.stx_attributes & mount_root != 0,
        kept: found.stx_attributes & kept != 0,
        birth: (found.stx_mask & libc::STATX_BTIME != 0)
            .then_some((found.stx_btime.tv_sec, found.stx_btime.tv_nsec)),
    })
}

/// readlinkat(2), whole, without a limit of its own (ext4 and others hold less than a page).
pub fn read_link(dir: BorrowedFd<'_>, name: &CStr) -> Result<Vec<u8>, Errno> {
    let mut text = vec![0u8; 4096];
    // SAFETY: readlinkat reads a NUL-terminated path and writes at most `len` bytes into the buffer; both outlive the call.
    let n = unsafe {
        libc::readlinkat(
            dir.as_raw_fd(),
            name.as_ptr(),
            text.as_mut_ptr().cast(),
            text.len(),
        )
    };
    let n = usize::try_from(Errno::result(n)?).map_err(|_| Errno::EINVAL)?;
    // A full buffer may have been cut; no link text is that long (PATH_MAX counts the NUL).
    if n >= text.len() {
        return Err(Errno::ENAMETOOLONG);
    }
    text.truncate(n);
    Ok(text)
}

/// The name of a descriptor of this process, for calls that take a path and follow it to the object.
#[must_use]
pub fn own_name(fd: BorrowedFd<'_>) -> CString {
    // A number has no NUL in it.
    CString::new(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap_or_default()
}

/// readlink(2) on `/proc/self/fd/N`: where the object is, in words of d_path (kernel's fs/d_path.c). It starts with `/` where the mount
/// belongs to some mount namespace, and ends with ` (deleted)` where the name is gone.
pub fn words(fd: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
    let name = own_name(fd);
    let mut text = vec![0u8; 4096];
    // SAFETY: readlink reads a NUL-terminated path and writes at most `len` bytes into the buffer; both outlive the call.
    let n = unsafe { libc::readlink(name.as_ptr(), text.as_mut_ptr().cast(), text.len()) };
    let n = usize::try_from(Errno::result(n)?).map_err(|_| Errno::EINVAL)?;
    text.truncate(n);
    Ok(text)
}

/// faccessat2(2) with the effective ids; `mode` is of `R_OK`, `W_OK`, `X_OK`. An empty name asks about the descriptor's object.
pub fn access(dir: BorrowedFd<'_>, name: &CStr, mode: i32) -> Result<(), Errno> {
    let flags = libc::AT_EACCESS | libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: faccessat2 reads a NUL-terminated path that outlives the call.
    let r = unsafe { syscall!(SYS_faccessat2, dir.as_raw_fd(), name.as_ptr(), mode, flags,) };
    Errno::result(r).map(drop)
}

/// mkdirat(2).
pub fn make_dir(dir: BorrowedFd<'_>, name: &CStr, mode: u32) -> Result<(), Errno> {
    // SAFETY: mkdirat reads a NUL-terminated path that outlives the call.
    let r = unsafe { libc::mkdirat(dir.as_raw_fd(), name.as_ptr(), mode) };
    Errno::result(r).map(drop)
}

/// mknodat(2); the device number in the kernel's own encoding, as the system call takes it.
pub fn make_node(dir: BorrowedFd<'_>, name: &CStr, mode: u32, device: u32) -> Result<(), Errno> {
    // SAFETY: mknodat reads a NUL-terminated path that outlives the call.
    let r = unsafe { syscall!(SYS_mknodat, dir.as_raw_fd(), name.as_ptr(), mode, device,) };
    Errno::result(r).map(drop)
}

/// symlinkat(2).
pub fn make_link(text: &CStr, dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    // SAFETY: symlinkat reads two NUL-terminated strings that outlive the call.
    let r = unsafe { libc::symlinkat(text.as_ptr(), dir.as_raw_fd(), name.as_ptr()) };
    Errno::result(r).map(drop)
}

/// unlinkat(2); `dir_only` is `AT_REMOVEDIR`.
pub fn remove(dir: BorrowedFd<'_>, name: &CStr, dir_only: bool) -> Result<(), Errno> {
    let flags = if dir_only { libc::AT_REMOVEDIR } else { 0 };
    // SAFETY: unlinkat reads a NUL-terminated path that outlives the call.
    let r = unsafe { libc::unlinkat(dir.as_raw_fd(), name.as_ptr(), flags) };
    Errno::result(r).map(drop)
}

/// renameat2(2).
pub fn rename(
    from: (BorrowedFd<'_>, &CStr),
    to: (BorrowedFd<'_>, &CStr),
    flags: u32,
) -> Result<(), Errno> {
    // SAFETY: renameat2 reads two NUL-terminated paths that outlive the call.
    let r = unsafe {
        syscall!(
            SYS_renameat2,
            from.0.as_raw_fd(),
            from.1.as_ptr(),
            to.0.as_raw_fd(),
            to.1.as_ptr(),
            flags,
        )
    };
    Errno::result(r).map(drop)
}

/// linkat(2) of the object that has the name, be it a link.
pub fn link(from: (BorrowedFd<'_>, &CStr), to: (BorrowedFd<'_>, &CStr)) -> Result<(), Errno> {
    // SAFETY: linkat reads two NUL-terminated paths that outlive the call.
    let r = unsafe {
        libc::linkat(
            from.0.as_raw_fd(),
            from.1.as_ptr(),
            to.0.as_raw_fd(),
            to.1.as_ptr(),
            0,
        )
    };
    Errno::result(r).map(drop)
}

/// linkat(2) of the object of a descriptor. Through /proc, because `AT_EMPTY_PATH` is refused for the descriptors of others.
pub fn link_object(object: BorrowedFd<'_>, to: (BorrowedFd<'_>, &CStr)) -> Result<(), Errno> {
    let name = own_name(object);
    // SAFETY: linkat reads two NUL-terminated paths that outlive the call.
    let r = unsafe {
        libc::linkat(
            libc::AT_FDCWD,
            name.as_ptr(),
            to.0.as_raw_fd(),
            to.1.as_ptr(),
            libc::AT_SYMLINK_FOLLOW,
        )
    };
    Errno::result(r).map(drop)
}

/// Sets the times of access and modification of an object, whatever it was opened for (utimensat(2)).
pub fn set_times(
    object: BorrowedFd<'_>,
    stamps: &[nix::sys::time::TimeSpec; 2],
) -> Result<(), Errno> {
    let [accessed, modified] = stamps;
    nix::sys::stat::utimensat(
        nix::fcntl::AT_FDCWD,
        own_name(object).as_c_str(),
        accessed,
        modified,
        nix::sys::stat::UtimensatFlags::FollowSymlink,
    )
}

/// fchmodat2(2) on the object of a descriptor, which may be of `O_PATH`. Before 6.6 through /proc.
pub fn change_mode(object: BorrowedFd<'_>, mode: u32) -> Result<(), Errno> {
    // SAFETY: fchmodat2 reads a NUL-terminated path that outlives the call.
    let r = unsafe {
        syscall!(
            SYS_fchmodat2,
            object.as_raw_fd(),
            c"".as_ptr(),
            mode,
            libc::AT_EMPTY_PATH,
        )
    };
    match Errno::result(r) {
        Err(Errno::ENOSYS) => {
            let name = own_name(object);
            // SAFETY: chmod reads a NUL-terminated path that outlives the call.
            let r = unsafe { libc::chmod(name.as_ptr(), mode) };
            Errno::result(r).map(drop)
        }
        other => other.map(drop),
    }
}

/// setxattr(2) on the object of a descriptor, which may be of `O_PATH`: all checks of the call are made on the object.
pub fn set_attribute(
    object: BorrowedFd<'_>,
    name: &CStr,
    value: &[u8],
    flags: i32,
) -> Result<(), Errno> {
    let path = own_name(object);
    // SAFETY: setxattr reads two NUL-terminated strings and as many bytes of the value as it is long; all outlive the call.
    let r = unsafe {
        libc::setxattr(
            path.as_ptr(),
            name.as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            flags,
        )
    };
    Errno::result(r).map(drop)
}

/// removexattr(2) on the object of a descriptor, which may be of `O_PATH`.
pub fn remove_attribute(object: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    let path = own_name(object);
    // SAFETY: removexattr reads two NUL-terminated strings, which outlive the call.
    let r = unsafe { libc::removexattr(path.as_ptr(), name.as_ptr()) };
    Errno::result(r).map(drop)
}

/// getxattr(2) on the object of a descriptor, which may be of `O_PATH`: whether there is such an attribute.
pub fn has_attribute(object: BorrowedFd<'_>, name: &CStr) -> Result<bool, Errno> {
    let path = own_name(object);
    // SAFETY: getxattr reads two NUL-terminated strings, which outlive the call, and writes nothing for a size of 0.
    let r = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) };
    match Errno::result(r) {
        Ok(_) => Ok(true),
        Err(Errno::ENODATA) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// truncate(2) on the object of a descriptor, which may be of `O_PATH`: all checks of the call are made on the object.
pub fn truncate(object: BorrowedFd<'_>, length: i64) -> Result<(), Errno> {
    let name = own_name(object);
    // SAFETY: truncate reads a NUL-terminated path that outlives the call.
    let r = unsafe { libc::truncate(name.as_ptr(), length) };
    Errno::result(r).map(drop)
}

/// The magic number of the file system the object is on, and whether it (mount or file system) is read-only (fstatfs(2)).
#[cfg(target_os = "linux")]
pub fn file_system(object: BorrowedFd<'_>) -> Result<(i64, bool), Errno> {
    let found = nix::sys::statfs::fstatfs(object)?;
    let read_only = found
        .flags()
        .contains(nix::sys::statvfs::FsFlags::ST_RDONLY);
    // The type of the magic number differs by architecture.
    #[allow(clippy::unnecessary_cast)]
    Ok((found.filesystem_type().0 as i64, read_only))
}

/// Absent: there are no such numbers here.
#[cfg(not(target_os = "linux"))]
pub fn file_system(_object: BorrowedFd<'_>) -> Result<(i64, bool), Errno> {
    Err(Errno::ENOSYS)
}

/// Sets the status flags of an open file (`F_SETFL`).
pub fn set_flags(fd: BorrowedFd<'_>, flags: i32) -> Result<(), Errno> {
    // SAFETY: F_SETFL takes an integer and touches no memory.
    let r = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags) };
    Errno::result(r).map(drop)
}

/// The status flags of an open file (`F_GETFL`), `O_PATH` among them.
pub fn flags(fd: BorrowedFd<'_>) -> Result<i32, Errno> {
    // SAFETY: F_GETFL takes no further argument and touches no memory.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    Errno::result(flags)
}
