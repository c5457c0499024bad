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

/// A string in memory that another thread changes, always with a NUL at its end.
pub(crate) fn racing_text(bytes: &[std::sync::atomic::AtomicU8]) -> &CStr {
    use std::sync::atomic::Ordering;
    assert!(bytes.last().is_some_and(|b| b.load(Ordering::Relaxed) == 0));
    // SAFETY: `from_ptr` requires a NUL within the allocation, which the last byte is; nobody writes it, as both sides only ever
    // write before it. The bytes are atomics, the result is only handed to system calls, which read it as memory of another program.
    unsafe { CStr::from_ptr(bytes.as_ptr().cast()) }
}

/// openat2 with flags that another thread changes.
pub(crate) fn open_racing(
    dir: i32,
    path: &CStr,
    how: &[std::sync::atomic::AtomicU64; 3],
) -> Result<OwnedFd, Errno> {
    // SAFETY: openat2 reads a NUL-terminated path and three u64; both outlive the call, and the kernel reads them as memory that may
    // change.
    opened(unsafe {
        libc::syscall(
            libc::SYS_openat2,
            dir,
            path.as_ptr(),
            how.as_ptr(),
            size_of_val(how),
        )
    })
}

fn failed(r: libc::c_long) -> Errno {
    match Errno::result(r) {
        Err(errno) => errno,
        Ok(_) => Errno::UnknownErrno,
    }
}

/// connect(2) with an address of AF_UNIX that another thread changes meanwhile.
pub(crate) fn connect_shared(
    socket: &OwnedFd,
    address: &[std::sync::atomic::AtomicU8],
) -> Result<(), Errno> {
    use std::os::fd::AsRawFd;
    // SAFETY: the kernel reads as many bytes as there are, which outlive the call; that they change is a race of the kernel's copy only,
    // no reference to plain bytes is made here.
    done(unsafe {
        libc::syscall(
            libc::SYS_connect,
            socket.as_raw_fd(),
            address.as_ptr(),
            address.len(),
        )
    })
}

/// openat with any address for a path.
pub(crate) fn open_address(address: usize, flags: i32) -> Errno {
    // SAFETY: the kernel checks the address; no path at all is read through a wrong one.
    failed(unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, address, flags, 0o600) })
}

/// mkdirat with any address for a path.
pub(crate) fn make_dir_address(address: usize) -> Errno {
    // SAFETY: as above.
    failed(unsafe { libc::syscall(libc::SYS_mkdirat, libc::AT_FDCWD, address, 0o700) })
}

/// truncate with any address for a path.
pub(crate) fn truncate_address(address: usize) -> Errno {
    // SAFETY: as above.
    failed(unsafe { libc::syscall(libc::SYS_truncate, address, 0) })
}

/// openat2 for writing with a structure of this size and this word behind the known ones.
pub(crate) fn open_how_sized(path: &CStr, size: usize, behind: u64) -> Errno {
    let mut how = vec![0u64; 1024];
    how[0] = u64::from(libc::O_WRONLY.cast_unsigned());
    how[3] = behind;
    // SAFETY: openat2 reads a NUL-terminated path and at most 4096 bytes of the structure, all of which are there.
    failed(unsafe {
        libc::syscall(
            libc::SYS_openat2,
            libc::AT_FDCWD,
            path.as_ptr(),
            how.as_ptr(),
            size,
        )
    })
}

/// openat with a path whose NUL is the last byte before memory that cannot be read.
pub(crate) fn at_the_end_of_a_page(path: &CStr, flags: i32) -> Result<(), Errno> {
    const PAGE: usize = 4096;
    // SAFETY: an anonymous private mapping at an address of the kernel's choice.
    let map = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            2 * PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert!(map != libc::MAP_FAILED);
    let bytes = path.to_bytes_with_nul();
    // SAFETY: the second page is part of the mapping made above, and nothing refers to it; the copy ends with the first one, which is
    // written by nobody else, and the system call reads it.
    unsafe {
        assert_eq!(libc::mprotect(map.byte_add(PAGE), PAGE, libc::PROT_NONE), 0);
        let start = map.cast::<u8>().add(PAGE - bytes.len());
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len());
        opened(libc::syscall(
            libc::SYS_openat,
            libc::AT_FDCWD,
            start,
            flags,
            0o600,
        ))
        .map(drop)
    }
}

static INTERRUPTED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

extern "C" fn count(_signal: libc::c_int) {
    INTERRUPTED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
}

/// A timer whose signal interrupts the calling thread again and again, as long as it lives.
#[derive(Debug)]
pub(crate) struct Storm(libc::timer_t);

impl Storm {
    /// A signal each `period` nanoseconds, with a handler that counts. It is `SIGUSR2` with `SA_RESTART` (sigaction(2)) and `SIGUSR1`
    /// without: handlers are the process's, and another thread may have the other kind.
    pub(crate) fn start(period: libc::c_long, restart: bool) -> Result<Self, Errno> {
        let handler: extern "C" fn(libc::c_int) = count;
        let signal = if restart {
            libc::SIGUSR2
        } else {
            libc::SIGUSR1
        };
        let mut id: libc::timer_t = std::ptr::null_mut();
        let time = libc::timespec {
            tv_sec: 0,
            tv_nsec: period,
        };
        let times = libc::itimerspec {
            it_interval: time,
            it_value: time,
        };
        // SAFETY: all-zero bytes are valid for both structures of integers (and a handler that is set before use). sigaction requires
        // a handler that is async-signal-safe: it adds to an atomic. timer_create reads the event and writes one timer id, on this frame;
        // timer_settime reads `times`. No pointer is kept.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as libc::sighandler_t;
            action.sa_flags = if restart { libc::SA_RESTART } else { 0 };
            let set = libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            Errno::result(set)?;
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal;
            event.sigev_notify_thread_id = libc::gettid();
            let made = libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut id);
            Errno::result(made)?;
            let set = libc::timer_settime(id, 0, &raw const times, std::ptr::null_mut());
            Errno::result(set)?;
        }
        Ok(Self(id))
    }

    /// How many signals there were, of all storms.
    pub(crate) fn count() -> u32 {
        INTERRUPTED.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        // SAFETY: the timer was made in `start` and is deleted once. A signal that is already on its way has its handler still.
        unsafe { libc::timer_delete(self.0) };
    }
}
