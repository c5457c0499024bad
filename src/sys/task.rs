//! What can be asked of, and done to, another thread by its number.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::libc;
use super::namespaces::{CloneFlags, enter};
use nix::errno::Errno;

/// The soft limit on file sizes of a thread (`RLIMIT_FSIZE`); `None` is no limit.
pub fn file_size_limit(tid: i32) -> Result<Option<u64>, Errno> {
    soft_limit(tid, libc::RLIMIT_FSIZE)
}

/// The first descriptor number that a thread may not use (`RLIMIT_NOFILE`); `None` is no limit.
pub fn descriptor_limit(tid: i32) -> Result<Option<u64>, Errno> {
    soft_limit(tid, libc::RLIMIT_NOFILE)
}

/// prlimit(2).
fn soft_limit(tid: i32, resource: libc::__rlimit_resource_t) -> Result<Option<u64>, Errno> {
    let mut limit = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: with a null new limit prlimit64 only writes one `struct rlimit64`, on this frame.
    let r = unsafe { libc::prlimit64(tid, resource, std::ptr::null(), &raw mut limit) };
    Errno::result(r)?;
    Ok((limit.rlim_cur != libc::RLIM64_INFINITY).then_some(limit.rlim_cur))
}

/// The session of a process or thread, 0 for the caller's own (getsid(2)).
pub fn session(pid: i32) -> Result<i32, Errno> {
    nix::unistd::getsid(Some(nix::unistd::Pid::from_raw(pid))).map(nix::unistd::Pid::as_raw)
}

/// Sends a signal to one thread (tkill(2)).
pub fn signal_thread(tid: i32, signal: i32) -> Result<(), Errno> {
    // SAFETY: tkill takes two integers.
    let r = unsafe { syscall!(SYS_tkill, tid, signal) };
    Errno::result(r).map(drop)
}

/// The calling thread gets its own working directory, root and umask (unshare(2), CLONE_FS).
pub fn own_umask() -> Result<(), Errno> {
    enter(CloneFlags::CLONE_FS).map_err(|e| Errno::from_raw(e.raw_os_error().unwrap_or(libc::EIO)))
}

/// Sets the umask of the calling thread; see [`own_umask`].
pub fn set_umask(mask: u32) {
    nix::sys::stat::umask(super::objects::permissions(mask & 0o777));
}

/// Raises the soft limit of this process to its hard limit.
pub fn raise_own_limit(resource: nix::sys::resource::Resource) -> io::Result<()> {
    let (soft, hard) = nix::sys::resource::getrlimit(resource)?;
    if soft < hard {
        nix::sys::resource::setrlimit(resource, hard, hard)?;
    }
    Ok(())
}

/// A descriptor for a process, by the number of its first thread (pidfd_open(2), 5.3). EINVAL or ENOENT: it is not a first thread.
pub fn open_process(tgid: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: pidfd_open takes two integers.
    let fd = unsafe { syscall!(SYS_pidfd_open, tgid, 0) };
    Errno::result(fd)?;
    super::fds::owned(fd).map_err(|_| Errno::EBADF)
}

/// A descriptor for a thread, whether it is the first one of its process or not (pidfd_open(2), PIDFD_THREAD, 6.9).
pub fn open_thread(tid: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: pidfd_open takes two integers.
    let fd = unsafe { syscall!(SYS_pidfd_open, tid, libc::O_EXCL) };
    Errno::result(fd)?;
    super::fds::owned(fd).map_err(|_| Errno::EBADF)
}

/// A copy of another process's descriptor (pidfd_getfd(2), 5.6). It is the same open file.
pub fn copy_descriptor(process: BorrowedFd<'_>, number: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: pidfd_getfd takes three integers.
    let fd = unsafe { syscall!(SYS_pidfd_getfd, process.as_raw_fd(), number, 0) };
    Errno::result(fd)?;
    super::fds::owned(fd).map_err(|_| Errno::EBADF)
}

/// Whether a process has this descriptor. What cannot be copied for another reason is there.
pub fn has_descriptor(process: BorrowedFd<'_>, number: i32) -> bool {
    !matches!(copy_descriptor(process, number), Err(Errno::EBADF))
}
