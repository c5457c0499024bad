//! Notifications of a seccomp filter: the listener's side of seccomp_unotify(2).

use std::os::fd::{AsRawFd, BorrowedFd};

use super::libc;
use nix::errno::Errno;

/// SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP of linux/seccomp.h.
const SYNC_WAKE_UP: libc::c_ulong = 1;

/// A call that waits for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Names it to the kernel.
    pub id: u64,
    /// The thread that made it, in the process namespace of the receiver; 0 where it has no number there.
    pub tid: i32,
    /// The number of the call.
    pub number: i32,
    /// AUDIT_ARCH_* of the table it belongs to.
    pub arch: u32,
    /// Its arguments.
    pub args: [u64; 6],
}

/// What the caller gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The call returns this.
    Value(i64),
    /// The call fails.
    Error(Errno),
    /// A signal interrupts the call: its handler decides whether that is EINTR or the call starts again (signal(7)). Only for a caller
    /// that has one to take, or the program would see the number.
    Interrupted,
    /// The kernel carries the call out. It reads the caller's memory again, which may have changed.
    Continue,
}

/// Memory for one receiver, as large as the running kernel's structures are (SECCOMP_GET_NOTIF_SIZES).
#[derive(Debug)]
pub struct Buffers {
    request: Vec<u64>,
    response: Vec<u64>,
}

impl Buffers {
    /// Asks the kernel. An error where it has no notifications (before 5.0) or may not be asked.
    pub fn new() -> Result<Self, Errno> {
        let mut sizes = libc::seccomp_notif_sizes {
            seccomp_notif: 0,
            seccomp_notif_resp: 0,
            seccomp_data: 0,
        };
        // SAFETY: SECCOMP_GET_NOTIF_SIZES takes flags 0 and writes one `struct seccomp_notif_sizes`, which lives on this frame.
        let r = unsafe {
            syscall!(
                SYS_seccomp,
                libc::SECCOMP_GET_NOTIF_SIZES,
                0,
                &raw mut sizes,
            )
        };
        Errno::result(r)?;
        let words = |kernel: u16, ours: usize| usize::from(kernel).max(ours).div_ceil(8);
        Ok(Self {
            request: vec![0; words(sizes.seccomp_notif, size_of::<libc::seccomp_notif>())],
            response: vec![
                0;
                words(
                    sizes.seccomp_notif_resp,
                    size_of::<libc::seccomp_notif_resp>()
                )
            ],
        })
    }
}

/// Waits for the next call. ENOENT: the caller was killed before its call could be received, or (since 6.11) nobody is left who
/// could call.
pub fn receive(listener: BorrowedFd<'_>, buffers: &mut Buffers) -> Result<Request, Errno> {
    // The kernel refuses a buffer that is not zeroed, so that it may grow a meaning.
    buffers.request.fill(0);
    // SAFETY: the kernel writes its `struct seccomp_notif` into the buffer, which `Buffers::new` made as large as the kernel says it
    // is, aligned for u64, its strictest member.
    let r = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_RECV,
            buffers.request.as_mut_ptr(),
        )
    };
    Errno::result(r)?;
    // SAFETY: the buffer is at least as large as `libc::seccomp_notif` (`Buffers::new`) and aligned for it, all bytes are initialised,
    // and the type has integers only.
    let got = unsafe {
        buffers
            .request
            .as_ptr()
            .cast::<libc::seccomp_notif>()
            .read()
    };
    Ok(Request {
        id: got.id,
        tid: i32::try_from(got.pid).map_err(|_| Errno::EOVERFLOW)?,
        number: got.data.nr,
        arch: got.data.arch,
        args: got.data.args,
    })
}

/// Ends the wait of the caller. ENOENT: it has been killed meanwhile.
pub fn answer(
    listener: BorrowedFd<'_>,
    buffers: &mut Buffers,
    id: u64,
    answer: Answer,
) -> Result<(), Errno> {
    let mut response = libc::seccomp_notif_resp {
        id,
        val: 0,
        error: 0,
        flags: 0,
    };
    match answer {
        Answer::Value(value) => response.val = value,
        Answer::Error(errno) => response.error = -(errno as i32),
        // ERESTARTSYS of linux/errno.h, which no program ever sees.
        Answer::Interrupted => response.error = -512,
        // The constant is 1; the field has 32 bits.
        Answer::Continue => response.flags = 1,
    }
    buffers.response.fill(0);
    // SAFETY: the buffer is at least as large as `libc::seccomp_notif_resp` (`Buffers::new`) and aligned for u64, its strictest member.
    unsafe {
        buffers
            .response
            .as_mut_ptr()
            .cast::<libc::seccomp_notif_resp>()
            .write(response);
    }
    // SAFETY: the kernel reads its `struct seccomp_notif_resp` from the buffer, which `Buffers::new` made large enough.
    let r = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SEND,
            buffers.response.as_ptr(),
        )
    };
    Errno::result(r).map(drop)
}

/// Gives the caller a copy of `fd` and returns the number it has there. The caller's own limits hold (EMFILE). With `send` that number
/// is also the answer, and the caller goes on before this returns (5.14).
pub fn add_descriptor(
    listener: BorrowedFd<'_>,
    id: u64,
    fd: BorrowedFd<'_>,
    close_on_exec: bool,
    send: bool,
) -> Result<i32, Errno> {
    let add = libc::seccomp_notif_addfd {
        id,
        // SECCOMP_ADDFD_FLAG_SEND
        flags: if send { 2 } else { 0 },
        srcfd: fd.as_raw_fd().cast_unsigned(),
        newfd: 0,
        newfd_flags: if close_on_exec {
            libc::O_CLOEXEC.cast_unsigned()
        } else {
            0
        },
    };
    // SAFETY: the kernel reads one `struct seccomp_notif_addfd`, whose size is part of the request's number; it lives on this frame.
    let r = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_ADDFD,
            &raw const add,
        )
    };
    Errno::result(r)
}

/// Whether the caller still waits: its thread id means the same thread as at the time of the call.
pub fn is_waiting(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the kernel reads one u64, on this frame.
    let r = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_ID_VALID,
            &raw const id,
        )
    };
    r == 0
}

/// Wakes the two sides of a notification on one CPU (6.6): the caller sleeps anyway while its call is handled.
pub fn wake_up_on_one_cpu(listener: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: the argument is an integer; no memory is touched.
    let r = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS,
            SYNC_WAKE_UP,
        )
    };
    Errno::result(r).map(drop)
}
