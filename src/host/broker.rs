//! Whether this machine can carry the creation broker (D4): found by asking the kernel, a few system calls, no process.

use std::path::Path;

use super::FsView;

/// What the broker needs of the kernel, together with the next step where it is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BrokerHost {
    /// Names can be judged when they are made.
    Works,
    /// They cannot: why, in words that follow "the creation broker cannot work here: ".
    Lacks(String),
}

impl BrokerHost {
    /// True where it can work.
    #[must_use]
    pub fn works(&self) -> bool {
        *self == Self::Works
    }
}

/// The first ABI that can grant REFER; older kernels would forbid every rename between directories (linux-engine.md §7).
pub const LEAST_ABI: i32 = 2;

/// Looks at this machine.
pub(in crate::host) fn look(fs: &dyn FsView) -> BrokerHost {
    judge(
        crate::sys::landlock::abi(),
        crate::sys::seccomp::notifications().map_err(|e| e.raw_os_error()),
        yama(fs),
    )
}

/// Yama's restriction of ptrace(2), where the kernel has it.
pub(super) fn yama(fs: &dyn FsView) -> Option<u8> {
    let text = fs.read(Path::new("/proc/sys/kernel/yama/ptrace_scope"))?;
    String::from_utf8_lossy(&text).trim().parse().ok()
}

/// Turns what was found into an answer. `notifications` is refused with an errno.
#[must_use]
pub fn judge(
    landlock_abi: i32,
    notifications: Result<(), Option<i32>>,
    yama: Option<u8>,
) -> BrokerHost {
    let why = if landlock_abi == 0 {
        "the kernel has no Landlock, or it is off (Linux 5.19 or later with `landlock` in the kernel parameter lsm=)"
    } else if landlock_abi < LEAST_ABI {
        "the kernel's Landlock cannot allow renames (ABI 2 is needed, Linux 5.19)"
    } else if notifications == Err(Some(libc::EBUSY)) {
        // seccomp(2): one listener for all filters of a task.
        "a filter over this process traps system calls already (a sandbox or a container's manager), and the kernel allows one such filter"
    } else if notifications.is_err() {
        "the kernel has no seccomp user notification, or a container's filter refuses it"
    } else if yama == Some(3) {
        // ptrace(2): 3 forbids attaching to anybody, and with it reading a process' memory.
        "kernel.yama.ptrace_scope is 3, so the paths of system calls cannot be read"
    } else {
        return BrokerHost::Works;
    };
    BrokerHost::Lacks(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fs_view::FakeFs;

    #[test]
    fn every_missing_piece_is_named() {
        assert_eq!(judge(2, Ok(()), None), BrokerHost::Works);
        assert_eq!(judge(7, Ok(()), Some(2)), BrokerHost::Works);
        for (abi, notify, scope, word) in [
            (0, Ok(()), None, "no Landlock"),
            (1, Ok(()), None, "ABI 2"),
            (7, Err(Some(libc::ENOSYS)), None, "notification"),
            (7, Err(None), None, "notification"),
            (7, Err(Some(libc::EBUSY)), None, "already"),
            (7, Ok(()), Some(3), "ptrace_scope"),
        ] {
            let BrokerHost::Lacks(why) = judge(abi, notify, scope) else {
                panic!("{abi} {notify:?} {scope:?}");
            };
            assert!(why.contains(word), "{why}");
        }
    }

    #[test]
    fn yama_is_read_where_there_is_one() {
        let fs = FakeFs::new().file("/proc/sys/kernel/yama/ptrace_scope", "3\n");
        assert_eq!(yama(&fs), Some(3));
        assert_eq!(yama(&FakeFs::new()), None);
    }
}
