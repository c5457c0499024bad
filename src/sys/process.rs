//! Processes: clone, exec, exit, wait.

use std::ffi::{CStr, CString};
use std::io;
use std::time::{Duration, Instant};

use super::libc;
use super::namespaces::CloneFlags;
use nix::errno::Errno;
use nix::unistd::Pid;

/// Which side of a fork this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forked {
    /// The parent, with the child's pid.
    Parent(Pid),
    /// The child.
    Child,
}

/// How a process changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Ended with this code.
    Exited(u8),
    /// Killed by this signal.
    Signalled(i32),
    /// Stopped by this signal.
    Stopped(i32),
    /// Continued.
    Continued,
}

/// What waitpid(2) should wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFor {
    /// The end of the process, as long as it takes.
    End,
    /// The end or the next stop, as long as it takes.
    EndOrStop,
    /// Any change that is already there.
    AnyNow,
}

/// How long a joined thread may take to vanish; more than a busy machine needs.
const PUT_AWAY: Duration = Duration::from_millis(100);

/// Whether this process has exactly one thread.
fn single_threaded() -> io::Result<bool> {
    // A /proc directory has two links plus one a subdirectory, and `task` has one subdirectory a thread (proc(5)).
    // Other implementations of /proc may not count, so anything else is looked at.
    if nix::sys::stat::stat(c"/proc/self/task")?.st_nlink == 3 {
        return Ok(true);
    }
    Ok(std::fs::read_dir("/proc/self/task")?.count() == 1)
}

/// Forks into new namespaces (none: plain fork). Refuses when another thread exists.
pub fn fork_into(namespaces: CloneFlags) -> io::Result<Forked> {
    // A thread that has been joined is counted until the kernel has put it away.
    let begin = Instant::now();
    while !single_threaded()? {
        if begin.elapsed() < PUT_AWAY {
            std::thread::yield_now();
            continue;
        }
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "fork with more than one thread",
        ));
    }
    let flags = i64::from(namespaces.bits()) | i64::from(libc::SIGCHLD);
    // SAFETY: clone without CLONE_VM and with a null stack is fork: the child continues on a copy of this stack. The
    // process has one thread (checked), so no lock of the allocator or of std can be held by a thread that does not
    // exist in the child, and both sides may go on running ordinary code. The remaining arguments are read only under
    // flags that `CloneFlags` for namespaces does not contain; null in any order (it differs by architecture).
    let r = unsafe { syscall!(SYS_clone, flags, 0usize, 0usize, 0usize, 0usize) };
    match Errno::result(r)? {
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(Pid::from_raw(
            i32::try_from(pid).map_err(|_| Errno::EOVERFLOW)?,
        ))),
    }
}

/// Ends this process at once: no destructors, no buffers, no atexit handlers.
pub fn exit_now(code: u8) -> ! {
    // SAFETY: _exit takes an integer and does not return.
    unsafe { libc::_exit(i32::from(code)) }
}

/// execve(2); comes back only with the reason it failed.
#[must_use]
pub fn exec(program: &CStr, argv: &[CString], env: &[CString]) -> Errno {
    match nix::unistd::execve(program, argv, env) {
        Err(e) => e,
        Ok(never) => match never {},
    }
}

/// waitpid(2) for `pid` (-1: any child). `None`: nothing to report yet, or no such child.
pub fn wait(pid: i32, what: WaitFor) -> io::Result<Option<(i32, Change)>> {
    let options = match what {
        WaitFor::End => 0,
        WaitFor::EndOrStop => libc::WUNTRACED,
        WaitFor::AnyNow => libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED,
    };
    loop {
        let mut status = 0;
        // SAFETY: waitpid writes one int, on this frame.
        let r = unsafe { libc::waitpid(pid, &raw mut status, options) };
        match Errno::result(r) {
            Ok(0) | Err(Errno::ECHILD) => return Ok(None),
            Ok(pid) => return Ok(Some((pid, decode(status)))),
            Err(Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

fn decode(status: i32) -> Change {
    if libc::WIFEXITED(status) {
        // WEXITSTATUS is the low byte of the code by definition.
        Change::Exited(u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(u8::MAX))
    } else if libc::WIFSTOPPED(status) {
        Change::Stopped(libc::WSTOPSIG(status))
    } else if libc::WIFCONTINUED(status) {
        Change::Continued
    } else {
        Change::Signalled(libc::WTERMSIG(status))
    }
}

/// Pids of the direct children of this (single-threaded) process.
pub fn children() -> io::Result<Vec<i32>> {
    match std::fs::read_to_string("/proc/thread-self/children") {
        Ok(list) => Ok(list
            .split_whitespace()
            .filter_map(|p| p.parse().ok())
            .collect()),
        // CONFIG_PROC_CHILDREN is optional: look at everybody's parent instead.
        Err(e) if e.kind() == io::ErrorKind::NotFound => children_by_scan(),
        Err(e) => Err(e),
    }
}

fn children_by_scan() -> io::Result<Vec<i32>> {
    let me = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let Some(pid) = entry?
            .file_name()
            .to_str()
            .and_then(|n| n.parse::<i32>().ok())
        else {
            continue;
        };
        // A process may vanish between listing and reading.
        let Ok(stat) = std::fs::read(format!("/proc/{pid}/stat")) else {
            continue;
        };
        // `pid (name) state ppid …`; the name may hold anything, so look behind its last parenthesis.
        let tail = stat.rsplit(|b| *b == b')').next().unwrap_or_default();
        let parent = tail.split(|b| *b == b' ').filter(|f| !f.is_empty()).nth(1);
        if parent == Some(me.as_bytes()) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// The system call a thread waits in, by its number (proc(5), `/proc/pid/syscall`); needs the rights of ptrace(2) on it.
pub fn waits_in(thread: i32) -> io::Result<Option<i64>> {
    let text = std::fs::read_to_string(format!("/proc/{thread}/syscall"))?;
    // `running`, or a number and its arguments.
    Ok(text.split_whitespace().next().and_then(|n| n.parse().ok()))
}

/// Whether a system call only asks about a path: what it is, whether it may be used, whether a program is there.
#[must_use]
#[cfg(target_os = "linux")]
pub fn only_asks(call: i64) -> bool {
    // Those that only the older tables have.
    #[cfg(target_arch = "x86_64")]
    if [
        libc::SYS_stat,
        libc::SYS_lstat,
        libc::SYS_access,
        libc::SYS_readlink,
    ]
    .contains(&call)
    {
        return true;
    }
    [
        libc::SYS_newfstatat,
        libc::SYS_statx,
        libc::SYS_faccessat,
        libc::SYS_faccessat2,
        libc::SYS_readlinkat,
        libc::SYS_chdir,
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_statfs,
        libc::SYS_getxattr,
        libc::SYS_lgetxattr,
        libc::SYS_listxattr,
        libc::SYS_llistxattr,
    ]
    .contains(&call)
}

/// No call has such a number here.
#[must_use]
#[cfg(not(target_os = "linux"))]
pub fn only_asks(_call: i64) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_statuses_decode_for_every_signal() {
        assert_eq!(decode(0), Change::Exited(0));
        assert_eq!(decode(137 << 8), Change::Exited(137));
        assert_eq!(decode(255 << 8), Change::Exited(255));
        // Real-time signals have no name in nix and must not get lost.
        for n in [1, 9, 15, 34, 64] {
            assert_eq!(decode(n), Change::Signalled(n));
        }
        assert_eq!(
            decode(libc::SIGSEGV | 0x80),
            Change::Signalled(libc::SIGSEGV)
        );
        assert_eq!(
            decode((libc::SIGTSTP << 8) | 0x7f),
            Change::Stopped(libc::SIGTSTP)
        );
        assert_eq!(decode(0xffff), Change::Continued);
    }

    #[test]
    fn a_process_with_threads_is_not_forked() {
        // The test harness itself runs this on a second thread.
        let refused = fork_into(CloneFlags::empty()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
    }
}
