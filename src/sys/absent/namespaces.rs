//! There are no namespaces here: the face of `namespaces` on Linux, and each call of it says so.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

/// Kinds of namespaces, with the numbers of linux/sched.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloneFlags(i32);

#[allow(missing_docs)] // as in linux/sched.h
impl CloneFlags {
    pub const CLONE_FS: Self = Self(0x200);
    pub const CLONE_NEWNS: Self = Self(0x2_0000);
    pub const CLONE_NEWCGROUP: Self = Self(0x200_0000);
    pub const CLONE_NEWUTS: Self = Self(0x400_0000);
    pub const CLONE_NEWIPC: Self = Self(0x800_0000);
    pub const CLONE_NEWUSER: Self = Self(0x1000_0000);
    pub const CLONE_NEWPID: Self = Self(0x2000_0000);
    pub const CLONE_NEWNET: Self = Self(0x4000_0000);

    #[must_use]
    pub const fn empty() -> Self {
        Self(0)
    }

    #[must_use]
    pub const fn bits(self) -> i32 {
        self.0
    }

    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl std::ops::BitOr for CloneFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for CloneFlags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

fn absent<T>() -> io::Result<T> {
    Err(Errno::ENOSYS.into())
}

/// Absent.
pub fn map_own_ids(_uid: u32, _gid: u32) -> io::Result<()> {
    absent()
}

/// Absent.
pub fn enter(_kinds: CloneFlags) -> io::Result<()> {
    absent()
}

/// Absent.
pub fn make_mounts_private() -> io::Result<()> {
    absent()
}

/// Absent.
pub fn change_root(_root: impl AsFd) -> io::Result<()> {
    absent()
}

/// Absent.
pub fn forbid_user_namespaces() -> io::Result<()> {
    absent()
}

/// Absent.
pub fn mount_proc() -> io::Result<()> {
    absent()
}

/// Absent.
pub fn mount_overlay(
    _lowers: &[PathBuf],
    _upper: &Path,
    _work: &Path,
    _at: &Path,
) -> io::Result<()> {
    absent()
}

/// Absent.
pub fn process_and_thread(_namespace: impl AsFd, _thread: i32) -> io::Result<(i32, i32)> {
    absent()
}
