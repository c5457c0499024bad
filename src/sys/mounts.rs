//! Mounts by descriptor (open_tree(2), move_mount(2), mount_setattr(2); Linux 5.12): what was looked at is what is mounted on, wherever
//! its path leads by then.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::mount::MsFlags;
use nix::sys::stat::Mode;

use super::fds::owned;

// linux/mount.h; libc has them for some targets only.
const OPEN_TREE_CLONE: libc::c_uint = 1;
const OPEN_TREE_CLOEXEC: libc::c_uint = libc::O_CLOEXEC.cast_unsigned();
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 0x04;
const MOVE_MOUNT_T_EMPTY_PATH: libc::c_uint = 0x40;
const MOUNT_ATTR_RDONLY: u64 = 1;
const AT_EMPTY_PATH: libc::c_uint = libc::AT_EMPTY_PATH.cast_unsigned();
const AT_RECURSIVE: libc::c_uint = 0x8000;

/// struct mount_attr of linux/mount.h, MOUNT_ATTR_SIZE_VER0.
#[repr(C)]
#[derive(Debug, Default)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// How much of a tree is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// One mount.
    Mount,
    /// Also what is mounted below it.
    Tree,
}

impl Reach {
    fn flag(self) -> libc::c_uint {
        match self {
            Self::Mount => 0,
            Self::Tree => AT_RECURSIVE,
        }
    }
}

/// A copy of what stands at `object`, mounted nowhere yet. It has the flags of the mount it comes from.
pub fn copy(object: BorrowedFd<'_>, reach: Reach) -> io::Result<OwnedFd> {
    let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | reach.flag();
    // SAFETY: open_tree takes a descriptor number, a NUL-terminated path (a literal) and flags, and touches no other memory.
    let fd = unsafe { libc::syscall(libc::SYS_open_tree, object.as_raw_fd(), c"".as_ptr(), flags) };
    owned(Errno::result(fd)?)
}

/// Makes what [`copy`] gave read-only; every other flag stays.
pub fn make_read_only(tree: BorrowedFd<'_>, reach: Reach) -> io::Result<()> {
    let attributes = MountAttr {
        set: MOUNT_ATTR_RDONLY,
        ..MountAttr::default()
    };
    // SAFETY: mount_setattr reads the path (a literal) and exactly the given number of bytes of a structure that outlives the call.
    let r = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            AT_EMPTY_PATH | reach.flag(),
            &raw const attributes,
            size_of::<MountAttr>(),
        )
    };
    Errno::result(r)?;
    Ok(())
}

/// Mounts what [`copy`] gave on `place`.
pub fn attach(tree: BorrowedFd<'_>, place: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: move_mount takes two descriptor numbers, two NUL-terminated paths (literals) and flags, and touches no other memory.
    let r = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            place.as_raw_fd(),
            c"".as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH,
        )
    };
    Errno::result(r)?;
    Ok(())
}

/// One empty file and one empty directory that nobody may open (mode 000), on a mount of their own: read-only, nosuid, nodev, noexec,
/// and so is every copy of them. Copies can only be made while it is mounted somewhere (before Linux 6.15).
#[derive(Debug)]
pub struct Blanks {
    file: OwnedFd,
    directory: OwnedFd,
}

impl Blanks {
    /// Made on a mount over the directory `place`, whose content is out of reach until it is unmounted; copies stay.
    pub fn mount(place: &Path) -> io::Result<Self> {
        nix::mount::mount(
            Some("tmpfs"),
            place,
            Some("tmpfs"),
            MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC,
            Some("mode=0700,nr_inodes=3,size=4k"),
        )?;
        let path = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let create = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        let none = Mode::empty();
        let root = nix::fcntl::open(place, path | OFlag::O_DIRECTORY, none)?;
        drop(nix::fcntl::openat(&root, "file", create, none)?);
        nix::sys::stat::mkdirat(&root, "directory", none)?;
        let blanks = Self {
            file: nix::fcntl::openat(&root, "file", path, none)?,
            directory: nix::fcntl::openat(&root, "directory", path, none)?,
        };
        make_read_only(root.as_fd(), Reach::Mount)?;
        Ok(blanks)
    }

    /// What covers an object of this kind.
    #[must_use]
    pub fn blank(&self, is_dir: bool) -> BorrowedFd<'_> {
        if is_dir {
            self.directory.as_fd()
        } else {
            self.file.as_fd()
        }
    }
}
