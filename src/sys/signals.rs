//! Signals by number, real-time ones included: sets, masks, dispositions, signalfd.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::FromRawFd;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::libc;
use nix::errno::Errno;
use serde::{Deserialize, Serialize};

/// A set of signals as the kernel stores it: bit `n - 1` is signal `n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SignalSet(u64);

impl SignalSet {
    /// Signals that a process can block and ccbox can pass on. Left out: KILL and STOP, those a fault raises
    /// (blocked, they would kill a faulting process without trace), and glibc's own 32 and 33.
    #[must_use]
    pub fn catchable() -> Self {
        let mut set = Self(u64::MAX);
        for n in [
            libc::SIGKILL,
            libc::SIGSTOP,
            libc::SIGILL,
            libc::SIGTRAP,
            libc::SIGABRT,
            libc::SIGBUS,
            libc::SIGFPE,
            libc::SIGSEGV,
            libc::SIGSYS,
            32,
            33,
        ] {
            set.remove(n);
        }
        set
    }

    /// Whether `n` is in the set.
    #[must_use]
    pub fn contains(self, n: i32) -> bool {
        self.0 & bit(n) != 0
    }

    /// Adds `n`.
    pub fn insert(&mut self, n: i32) {
        self.0 |= bit(n);
    }

    /// Removes `n`.
    pub fn remove(&mut self, n: i32) {
        self.0 &= !bit(n);
    }

    /// The numbers in the set, ascending.
    pub fn iter(self) -> impl Iterator<Item = i32> {
        (1..=64).filter(move |n| self.contains(*n))
    }
}

impl FromIterator<i32> for SignalSet {
    fn from_iter<T: IntoIterator<Item = i32>>(numbers: T) -> Self {
        let mut set = Self::default();
        numbers.into_iter().for_each(|n| set.insert(n));
        set
    }
}

fn bit(n: i32) -> u64 {
    match u32::try_from(n) {
        Ok(n @ 1..=64) => 1 << (n - 1),
        _ => 0,
    }
}

/// Replaces the calling thread's signal mask and returns the old one.
#[cfg(not(target_os = "linux"))]
pub fn set_mask(set: SignalSet) -> io::Result<SignalSet> {
    use nix::sys::signal::{SigSet, SigmaskHow, Signal};
    let named = set.iter().filter_map(|n| Signal::try_from(n).ok());
    let wanted: SigSet = named.collect();
    let old = wanted.thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    Ok(old.iter().map(|signal| signal as i32).collect())
}

/// Replaces the calling thread's signal mask and returns the old one.
#[cfg(target_os = "linux")]
pub fn set_mask(set: SignalSet) -> io::Result<SignalSet> {
    let mut old = 0u64;
    // SAFETY: rt_sigprocmask reads one and writes one kernel sigset of the size given (8 bytes), both on this frame.
    // The C library's wrapper is avoided because its sigset_t is not the kernel's.
    let r = unsafe {
        syscall!(
            SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const set.0,
            &raw mut old,
            size_of::<u64>(),
        )
    };
    Errno::result(r)?;
    Ok(SignalSet(old))
}

/// Signals that are ignored at this moment.
#[must_use]
pub fn ignored() -> SignalSet {
    (1..=64).filter(|n| disposition_is_ignore(*n)).collect()
}

fn disposition_is_ignore(n: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with a null new action sigaction only writes the current one into `action`, which is large enough.
    let r = unsafe { libc::sigaction(n, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: all-zero bytes are a valid `sigaction`, so the value is initialised whether or not the call wrote it.
    let action = unsafe { action.assume_init() };
    r == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Sets a signal to its default action.
pub fn set_default(n: i32) -> io::Result<()> {
    set_disposition(n, libc::SIG_DFL)
}

/// Ignores a signal.
pub fn set_ignored(n: i32) -> io::Result<()> {
    set_disposition(n, libc::SIG_IGN)
}

fn set_disposition(n: i32, handler: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid `sigaction` (no flags, empty mask).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    // SAFETY: sigaction reads `action`, which lives through the call; SIG_DFL and SIG_IGN install no handler, so no
    // code of ours ever runs in signal context.
    let r = unsafe { libc::sigaction(n, &raw const action, std::ptr::null_mut()) };
    Errno::result(r).map(drop).map_err(Into::into)
}

/// Sends a signal; a process that is gone is not an error.
pub fn send(pid: i32, n: i32) -> io::Result<()> {
    // SAFETY: kill takes two integers.
    let r = unsafe { libc::kill(pid, n) };
    match Errno::result(r) {
        Ok(_) | Err(Errno::ESRCH) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Delivers `n` to the calling thread with its default action and this one signal unblocked; returns if that action
/// does not end the process (stop and continue, or ignore), with the mask as before.
pub fn raise_default(n: i32) -> io::Result<()> {
    // SIGKILL and SIGSTOP have no disposition to set; EINVAL is their answer.
    let _ = set_default(n);
    let blocked = set_mask(SignalSet::catchable())?;
    // SAFETY: raise takes one integer.
    unsafe { libc::raise(n) };
    let mut open = SignalSet::catchable();
    open.remove(n);
    set_mask(open)?;
    set_mask(blocked)?;
    Ok(())
}

/// Stops this process by `n` (TSTP, TTIN or TTOU), which is blocked, unless `cancelled` says so once the signal is
/// pending; a SIGCONT that comes in between cancels as well (signal(7)). Comes back when continued.
pub fn stop_unless(n: i32, cancelled: impl FnOnce() -> bool) -> io::Result<()> {
    set_default(n)?;
    // SAFETY: raise takes one integer.
    unsafe { libc::raise(n) };
    if cancelled() {
        // Ignoring a pending signal discards it (POSIX, Signal Actions).
        set_ignored(n)?;
        return set_default(n);
    }
    let mut open = SignalSet::catchable();
    open.remove(n);
    let blocked = set_mask(open)?;
    set_mask(blocked)?;
    Ok(())
}

/// Blocked signals as readable events.
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

impl SignalFd {
    /// Absent.
    #[cfg(not(target_os = "linux"))]
    pub fn new(_set: SignalSet) -> io::Result<Self> {
        Err(Errno::ENOSYS.into())
    }

    /// For the signals of `set`, which the caller has blocked. Close-on-exec and non-blocking.
    #[cfg(target_os = "linux")]
    pub fn new(set: SignalSet) -> io::Result<Self> {
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: signalfd4 reads one kernel sigset of the size given from this frame.
        let r = unsafe { syscall!(SYS_signalfd4, -1, &raw const set.0, size_of::<u64>(), flags,) };
        let fd = i32::try_from(Errno::result(r)?).map_err(|_| Errno::EBADF)?;
        // SAFETY: a fresh descriptor that nobody else knows.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next pending signal's number, if any.
    pub fn next(&self) -> io::Result<Option<i32>> {
        // signalfd_siginfo is 128 bytes with the number first (signalfd(2)).
        let mut info = [0u8; 128];
        match nix::unistd::read(&self.0, &mut info) {
            Ok(_) => {
                let [a, b, c, d, ..] = info;
                Ok(i32::try_from(u32::from_ne_bytes([a, b, c, d])).ok())
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
