//! Attributes of the calling process: privileges, dumpability, parent death, limits, key ring.

use std::io;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;

/// The calling process gets SIGKILL when the *thread* that forked it ends (prctl(2), PR_SET_PDEATHSIG).
pub fn die_with_parent() -> io::Result<()> {
    Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?)
}

/// Orphans among the descendants become children of this process instead of pid 1.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(nix::sys::prctl::set_child_subreaper(true)?)
}

/// Neither ptrace nor /proc/PID/{mem,environ,fd} of this process for others of the same user; no core file.
pub fn set_dumpable(dumpable: bool) -> io::Result<()> {
    Ok(nix::sys::prctl::set_dumpable(dumpable)?)
}

/// execve grants no privilege any more.
pub fn no_new_privileges() -> io::Result<()> {
    Ok(nix::sys::prctl::set_no_new_privs()?)
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

/// A limit of this process and what it starts, which nobody raises again; one that is lower already stays.
fn lower(resource: Resource, value: u64, hard_above: u64) -> io::Result<()> {
    let (_, hard) = getrlimit(resource)?;
    let hard = hard.min(value.saturating_add(hard_above));
    Ok(setrlimit(resource, value.min(hard), hard)?)
}

/// Bytes of private writable memory (setrlimit(2), RLIMIT_DATA; mappings count since Linux 4.7).
pub fn limit_data(bytes: u64) -> io::Result<()> {
    lower(Resource::RLIMIT_DATA, bytes, 0)
}

/// Processes and threads of the user.
pub fn limit_processes(count: u64) -> io::Result<()> {
    lower(Resource::RLIMIT_NPROC, count, 0)
}

/// Seconds of processor time: SIGXCPU then, and SIGKILL two seconds later for who does not care.
pub fn limit_cpu(seconds: u64) -> io::Result<()> {
    lower(Resource::RLIMIT_CPU, seconds, 2)
}

/// Open descriptors.
pub fn limit_files(count: u64) -> io::Result<()> {
    lower(Resource::RLIMIT_NOFILE, count, 0)
}

/// A fresh anonymous session key ring, so that the caller's keys are out of reach (semantics 39).
pub fn own_session_keyring() -> io::Result<()> {
    // linux/keyctl.h
    const KEYCTL_JOIN_SESSION_KEYRING: libc::c_int = 1;
    // SAFETY: KEYCTL_JOIN_SESSION_KEYRING with a null name makes an anonymous ring and reads no memory.
    let r = unsafe {
        syscall!(
            SYS_keyctl,
            KEYCTL_JOIN_SESSION_KEYRING,
            std::ptr::null::<libc::c_char>(),
        )
    };
    Errno::result(r).map(drop).map_err(Into::into)
}

/// Empties the bounding set: whatever is executed from here on gains no capability. Needs CAP_SETPCAP, so it comes before
/// [`drop_capabilities`].
pub fn drop_bounding_set() -> io::Result<()> {
    for capability in 0..64 {
        // SAFETY: PR_CAPBSET_DROP takes one integer; the others must be zero (prctl(2)); no memory is read.
        let r = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        match Errno::result(r) {
            Ok(_) => {}
            // Beyond the last one this kernel has.
            Err(Errno::EINVAL) if capability > 0 => break,
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// A question that no kernel knows (EINVAL): "ccbx". The filter of a run without mounts answers it.
pub const INSIDE: u32 = 0x6363_6278;

/// Whether this process is inside such a run.
#[must_use]
pub fn is_inside() -> bool {
    // SAFETY: an option that does not exist reads no memory (prctl(2), EINVAL).
    let r = unsafe { syscall!(SYS_prctl, INSIDE, 0usize, 0usize, 0usize, 0usize) };
    Errno::result(r) == Err(Errno::EXFULL)
}

/// What is left of the capabilities in [`drop_capabilities`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// None.
    Nothing,
    /// CAP_SETFCAP alone.
    SetFileCapabilities,
}

/// Empties the effective, permitted, inheritable and (by that) ambient capability sets.
pub fn drop_capabilities(left: Left) -> io::Result<()> {
    // linux/capability.h
    const CAP_SETFCAP: u32 = 31;
    #[repr(C)]
    struct Header {
        version: u32,
        pid: libc::c_int,
    }
    // _LINUX_CAPABILITY_VERSION_3 of linux/capability.h: two words a set.
    let header = Header {
        version: 0x2008_0522,
        pid: 0,
    };
    let keep = match left {
        Left::Nothing => 0,
        Left::SetFileCapabilities => 1 << CAP_SETFCAP,
    };
    // effective, permitted, inheritable; low word first
    let sets = [[keep, keep, 0u32], [0; 3]];
    // SAFETY: capset reads one `__user_cap_header_struct` and, for version 3, two `__user_cap_data_struct` of three
    // u32 each; both live on this stack frame for the whole call. Lowering `permitted` also lowers `ambient`
    // (capabilities(7)).
    let r = unsafe { syscall!(SYS_capset, &raw const header, sets.as_ptr()) };
    Errno::result(r).map(drop).map_err(Into::into)
}
