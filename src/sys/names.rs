//! How file systems tell names apart, asked where a profile cannot.

/// Whether `A` and `a` are two names in that directory (pathconf(2), `_PC_CASE_SENSITIVE`).
#[must_use]
#[cfg(target_os = "macos")]
pub fn case_counts(dir: &std::path::Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(dir.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: pathconf reads the NUL-terminated text, which lives through the call.
    unsafe { libc::pathconf(path.as_ptr(), libc::_PC_CASE_SENSITIVE) == 1 }
}

/// Rules of Linux tell them apart themselves.
#[must_use]
#[cfg(not(target_os = "macos"))]
pub fn case_counts(_dir: &std::path::Path) -> bool {
    false
}
