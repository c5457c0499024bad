//! Nothing is mounted here: the face of `classic` on Linux, and each call of it says so.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::BorrowedFd;

use nix::errno::Errno;

use super::mounts::{Reach, Without};

/// Absent.
pub fn bind(_object: BorrowedFd<'_>, _place: BorrowedFd<'_>, _reach: Reach) -> io::Result<()> {
    Err(Errno::ENOSYS.into())
}

/// Absent.
pub fn file_system(
    _kind: &CStr,
    _options: &[(CString, CString)],
    _without: Without,
    _place: BorrowedFd<'_>,
) -> io::Result<()> {
    Err(Errno::ENOSYS.into())
}

/// Absent.
pub fn make_unbindable(_place: BorrowedFd<'_>) -> io::Result<()> {
    Err(Errno::ENOSYS.into())
}

/// Absent.
pub fn carry(_tree: BorrowedFd<'_>, _place: BorrowedFd<'_>) -> io::Result<()> {
    Err(Errno::ENOSYS.into())
}

/// Absent.
pub fn restrict(_tree: BorrowedFd<'_>, _reach: Reach, _without: Without) -> io::Result<()> {
    Err(Errno::ENOSYS.into())
}
