//! Installing a seccomp filter on the calling thread: seccomp(2).

use std::io;
use std::os::fd::OwnedFd;

use super::bpf::Program;

/// The end of a filter at which its notifications arrive (seccomp_unotify(2)).
#[derive(Debug)]
pub struct Listener {
    /// Close-on-exec.
    pub fd: OwnedFd,
    /// From the moment the supervisor has a notification only a fatal signal ends the wait for its answer
    /// (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, Linux 5.19). Before, any signal did: the call failed with EINTR where the kernel
    /// never gives it, or was done twice.
    pub killable: bool,
}

/// Sets no_new_privs and installs the filter on the calling thread and everything it starts.
///
/// Allocates nothing, so it may be called between fork and exec.
#[cfg(target_os = "linux")]
pub fn install(program: &Program) -> io::Result<()> {
    set(program, libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW).map(drop)
}

/// As [`install`], for a filter that notifies; one task may have one listener in all its filters (EBUSY).
///
/// Allocates nothing.
#[cfg(target_os = "linux")]
pub fn install_with_listener(program: &Program) -> io::Result<Listener> {
    let flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW | libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let (fd, killable) = match set(program, flags | WAIT_KILLABLE_RECV) {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => (set(program, flags)?, false),
        other => (other?, true),
    };
    Ok(Listener {
        fd: super::fds::owned(fd)?,
        killable,
    })
}

/// linux/seccomp.h.
#[cfg(target_os = "linux")]
const WAIT_KILLABLE_RECV: libc::c_ulong = 1 << 5;

#[cfg(target_os = "linux")]
fn set(program: &Program, flags: libc::c_ulong) -> io::Result<libc::c_long> {
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
        syscall!(
            SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    };
    // A descriptor with NEW_LISTENER, else 0. The thread id of a thread that cannot follow comes with TSYNC only.
    if installed < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(installed)
}

/// Whether the kernel hands system calls to a supervisor (seccomp_unotify(2)) and this process may use that.
///
/// # Errors
/// EINVAL or ENOSYS where it does not; EBUSY where a filter over this process has a listener already: there is one for a whole
/// chain of filters, and no way to see it but to ask for a second. Asked only where there is a filter, by a thread that ends with
/// its answer.
#[cfg(target_os = "linux")]
pub fn notifications() -> io::Result<()> {
    if !has_notifications() {
        return Err(io::Error::from_raw_os_error(libc::ENOSYS));
    }
    // SAFETY: PR_GET_SECCOMP takes no argument and reads and writes no memory.
    let mode = unsafe { libc::prctl(libc::PR_GET_SECCOMP) };
    if mode == 0 {
        return Ok(());
    }
    let mut asm = super::bpf::Assembler::new();
    let entry = asm.ret(libc::SECCOMP_RET_ALLOW);
    let program = asm.finish(entry).map_err(io::Error::other)?;
    std::thread::Builder::new()
        .spawn(move || install_with_listener(&program).map(drop))?
        .join()
        .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?
}

#[cfg(target_os = "linux")]
fn has_notifications() -> bool {
    let mut sizes = [0_u16; 3];
    // SAFETY: SECCOMP_GET_NOTIF_SIZES writes one struct seccomp_notif_sizes, three u16 (checked below), to the pointer.
    let asked = unsafe {
        syscall!(
            SYS_seccomp,
            libc::SECCOMP_GET_NOTIF_SIZES,
            0,
            sizes.as_mut_ptr(),
        )
    };
    asked == 0
}

/// There is no seccomp here.
#[cfg(not(target_os = "linux"))]
pub fn notifications() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
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

/// There is no seccomp here.
#[cfg(not(target_os = "linux"))]
pub fn install_with_listener(_program: &Program) -> io::Result<Listener> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::super::bpf::Assembler;
    use super::*;

    fn allow_everything() -> Program {
        let mut asm = Assembler::new();
        let entry = asm.ret(libc::SECCOMP_RET_ALLOW);
        asm.finish(entry).unwrap()
    }

    /// A filter is its thread's, so each check has one of its own.
    fn in_a_thread<T: Send + 'static>(check: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(check).join().unwrap()
    }

    #[test]
    fn a_task_has_one_listener() {
        let (first, second, plain) = in_a_thread(|| {
            let program = allow_everything();
            let first = install_with_listener(&program);
            let second = install_with_listener(&program).unwrap_err();
            (first, second, install(&program))
        });
        first.unwrap();
        assert_eq!(second.raw_os_error(), Some(libc::EBUSY));
        plain.unwrap();
    }

    /// A second listener is refused to whoever is below the first, and to nobody else.
    #[test]
    fn an_owned_listener_is_found() {
        let (before, plain, owned) = in_a_thread(|| {
            let before = notifications();
            install(&allow_everything()).unwrap();
            let plain = notifications();
            let first = install_with_listener(&allow_everything()).unwrap();
            let owned = notifications();
            drop(first);
            (before, plain, owned)
        });
        before.unwrap();
        plain.unwrap();
        assert_eq!(owned.unwrap_err().raw_os_error(), Some(libc::EBUSY));
        in_a_thread(notifications).unwrap();
    }

    /// An unknown flag is EINVAL, as WAIT_KILLABLE_RECV is before Linux 5.19.
    #[test]
    fn unknown_flags_are_refused() {
        let error = in_a_thread(|| set(&allow_everything(), 1 << 30)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn the_listener_is_not_inherited() {
        let listener = in_a_thread(|| install_with_listener(&allow_everything())).unwrap();
        let flags = nix::fcntl::fcntl(&listener.fd, nix::fcntl::FcntlArg::F_GETFD).unwrap();
        assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    }
}
