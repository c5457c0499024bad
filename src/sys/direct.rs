//! System calls with their arguments as they are, wrong ones included: what a test makes a confined thread do.

use std::ffi::CStr;
use std::os::fd::OwnedFd;

use nix::errno::Errno;

use super::at::How;
use super::fds::owned;

fn done(r: libc::c_long) -> Result<(), Errno> {
    Errno::result(r).map(drop)
}

fn opened(fd: libc::c_long) -> Result<OwnedFd, Errno> {
    Errno::result(fd)?;
    owned(fd).map_err(|_| Errno::EBADF)
}

pub(crate) fn open_at(dir: i32, path: &CStr, flags: i32, mode: u32) -> Result<OwnedFd, Errno> {
    // SAFETY: openat reads a NUL-terminated path that outlives the call.
    opened(unsafe { libc::syscall(libc::SYS_openat, dir, path.as_ptr(), flags, mode) })
}

pub(crate) fn open_how(dir: i32, path: &CStr, how: How) -> Result<OwnedFd, Errno> {
    let how = [how.flags, how.mode, how.resolve];
    // SAFETY: openat2 reads a NUL-terminated path and three u64; both outlive the call.
    opened(unsafe {
        libc::syscall(
            libc::SYS_openat2,
            dir,
            path.as_ptr(),
            how.as_ptr(),
            size_of_val(&how),
        )
    })
}

pub(crate) fn make_dir(dir: i32, path: &CStr, mode: u32) -> Result<(), Errno> {
    // SAFETY: mkdirat reads a NUL-terminated path that outlives the call.
    done(unsafe { libc::syscall(libc::SYS_mkdirat, dir, path.as_ptr(), mode) })
}

pub(crate) fn make_node(dir: i32, path: &CStr, mode: u32, device: u32) -> Result<(), Errno> {
    // SAFETY: mknodat reads a NUL-terminated path that outlives the call.
    done(unsafe { libc::syscall(libc::SYS_mknodat, dir, path.as_ptr(), mode, device) })
}

pub(crate) fn make_link(text: &CStr, dir: i32, path: &CStr) -> Result<(), Errno> {
    // SAFETY: symlinkat reads two NUL-terminated strings that outlive the call.
    done(unsafe { libc::syscall(libc::SYS_symlinkat, text.as_ptr(), dir, path.as_ptr()) })
}

pub(crate) fn remove(dir: i32, path: &CStr, is_dir: bool) -> Result<(), Errno> {
    let flags = if is_dir { libc::AT_REMOVEDIR } else { 0 };
    // SAFETY: unlinkat reads a NUL-terminated path that outlives the call.
    done(unsafe { libc::syscall(libc::SYS_unlinkat, dir, path.as_ptr(), flags) })
}

pub(crate) fn rename(from: (i32, &CStr), to: (i32, &CStr), flags: u32) -> Result<(), Errno> {
    // SAFETY: renameat2 reads two NUL-terminated paths that outlive the call.
    done(unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            from.0,
            from.1.as_ptr(),
            to.0,
            to.1.as_ptr(),
            flags,
        )
    })
}

pub(crate) fn link(from: (i32, &CStr), to: (i32, &CStr), flags: i32) -> Result<(), Errno> {
    // SAFETY: linkat reads two NUL-terminated paths that outlive the call.
    done(unsafe {
        libc::syscall(
            libc::SYS_linkat,
            from.0,
            from.1.as_ptr(),
            to.0,
            to.1.as_ptr(),
            flags,
        )
    })
}

pub(crate) fn change_mode(dir: i32, path: &CStr, mode: u32, flags: i32) -> Result<(), Errno> {
    // SAFETY: both read a NUL-terminated path that outlives the call.
    done(unsafe {
        if flags == 0 {
            libc::syscall(libc::SYS_fchmodat, dir, path.as_ptr(), mode)
        } else {
            libc::syscall(libc::SYS_fchmodat2, dir, path.as_ptr(), mode, flags)
        }
    })
}

pub(crate) fn truncate(path: &CStr, length: i64) -> Result<(), Errno> {
    // SAFETY: truncate reads a NUL-terminated path that outlives the call.
    done(unsafe { libc::syscall(libc::SYS_truncate, path.as_ptr(), length) })
}
