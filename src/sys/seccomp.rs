//! Installing a seccomp filter on the calling thread: seccomp(2).

use std::io;

use super::bpf::Program;

/// Sets no_new_privs and installs the filter on the calling thread and everything it starts.
///
/// Allocates nothing, so it may be called between fork and exec.
#[cfg(target_os = "linux")]
pub fn install(program: &Program) -> io::Result<()> {
    let filter = program.instructions();
    // `Assembler::finish` refuses programs above 4096 instructions, so this cannot fail.
    let len = u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog {
        len,
        filter: filter.as_ptr().cast::<libc::sock_filter>().cast_mut(),
    };
    // SAFETY: PR_SET_NO_NEW_PRIVS takes one integer and requires the other three to be zero; it reads no memory.
    let set = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    if set != 0 {
        return Err(io::Error::last_os_error());
    }
    // SPEC_ALLOW: before 5.16 a filter switched on the costly store-bypass mitigation, which protects the filtered process
    // against code inside itself; nothing here relies on that.
    // SAFETY: SECCOMP_SET_MODE_FILTER reads a sock_fprog and, through it, `len` instructions of `struct sock_filter`. Both
    // live until the call returns, `Instruction` is repr(C) with the same layout (checked below), the kernel only reads.
    let installed = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW,
            &raw const program,
        )
    };
    if installed != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The kernel hands system calls to a supervisor (seccomp_unotify(2)), and this process may use that.
#[cfg(target_os = "linux")]
pub fn has_notifications() -> bool {
    let mut sizes = [0_u16; 3];
    // SAFETY: SECCOMP_GET_NOTIF_SIZES writes one struct seccomp_notif_sizes, three u16 (checked below), to the pointer.
    let asked = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_NOTIF_SIZES,
            0,
            sizes.as_mut_ptr(),
        )
    };
    asked == 0
}

/// There is no seccomp here.
#[cfg(not(target_os = "linux"))]
pub fn has_notifications() -> bool {
    false
}

#[cfg(target_os = "linux")]
const _: () = {
    assert!(size_of::<libc::seccomp_notif_sizes>() == size_of::<[u16; 3]>());
    assert!(align_of::<libc::seccomp_notif_sizes>() == align_of::<[u16; 3]>());
};

#[cfg(target_os = "linux")]
const _: () = {
    use super::bpf::Instruction;
    assert!(size_of::<Instruction>() == size_of::<libc::sock_filter>());
    assert!(align_of::<Instruction>() == align_of::<libc::sock_filter>());
};

/// There is no seccomp here.
#[cfg(not(target_os = "linux"))]
pub fn install(_program: &Program) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
