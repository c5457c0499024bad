//! Attributes of the calling process, where there is no prctl(2): what this system can do of it; the rest is absent.

use std::io;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

fn absent() -> io::Result<()> {
    Err(Errno::ENOSYS.into())
}

/// Absent: `guard` does what can be done.
pub fn die_with_parent() -> io::Result<()> {
    absent()
}

/// Absent.
pub fn adopt_orphans() -> io::Result<()> {
    absent()
}

/// No debugger attaches to this process (ptrace(2), PT_DENY_ATTACH); there is no way back.
#[cfg(target_os = "macos")]
pub fn set_dumpable(dumpable: bool) -> io::Result<()> {
    if dumpable {
        return absent();
    }
    // SAFETY: PT_DENY_ATTACH concerns the caller and ignores the other arguments; no memory is touched.
    let r = unsafe { libc::ptrace(libc::PT_DENY_ATTACH, 0, std::ptr::null_mut(), 0) };
    Errno::result(r).map(drop).map_err(Into::into)
}

/// Absent.
#[cfg(not(target_os = "macos"))]
pub fn set_dumpable(_dumpable: bool) -> io::Result<()> {
    absent()
}

/// Absent.
pub fn no_new_privileges() -> io::Result<()> {
    absent()
}

/// No core files from here on, also for what this process starts.
pub fn no_core_files() -> io::Result<()> {
    Ok(setrlimit(Resource::RLIMIT_CORE, 0, 0)?)
}

/// Soft core limit to zero, so that dying by SIGQUIT or SIGSEGV on purpose leaves no file of ours.
pub fn no_core_file_of_mine() -> io::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_CORE)?;
    Ok(setrlimit(Resource::RLIMIT_CORE, 0, hard)?)
}

/// Absent: limits are refused before.
pub fn limit_data(_bytes: u64) -> io::Result<()> {
    absent()
}

/// Absent.
pub fn limit_processes(_count: u64) -> io::Result<()> {
    absent()
}

/// Absent.
pub fn limit_cpu(_seconds: u64) -> io::Result<()> {
    absent()
}

/// Absent.
pub fn limit_files(_count: u64) -> io::Result<()> {
    absent()
}

/// Absent.
pub fn own_session_keyring() -> io::Result<()> {
    absent()
}

/// Absent.
pub fn drop_bounding_set() -> io::Result<()> {
    absent()
}

/// What is left of the capabilities in [`drop_capabilities`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// None.
    Nothing,
    /// CAP_SETFCAP alone.
    SetFileCapabilities,
}

/// Absent.
pub fn drop_capabilities(_left: Left) -> io::Result<()> {
    absent()
}

/// A question to the filter of a run, which there is none of here.
pub const INSIDE: u32 = 0x6363_6278;

/// Never.
#[must_use]
pub fn is_inside() -> bool {
    false
}
