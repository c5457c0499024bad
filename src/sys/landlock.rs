//! Landlock.

/// The Landlock ABI of the running kernel, found by asking for it; 0 where there is none or it may not be used.
#[cfg(target_os = "linux")]
pub fn abi() -> i32 {
    const CREATE_RULESET_VERSION: u32 = 1;
    // SAFETY: with LANDLOCK_CREATE_RULESET_VERSION the attribute pointer must be null and the size 0; no memory is touched and no
    // descriptor is made (landlock_create_ruleset(2)).
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0usize,
            CREATE_RULESET_VERSION,
        )
    };
    i32::try_from(version).unwrap_or(0).max(0)
}

/// There is no Landlock here.
#[cfg(not(target_os = "linux"))]
pub fn abi() -> i32 {
    0
}
