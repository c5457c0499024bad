//! Mounts by descriptor: what was looked at is what is mounted on, wherever its path leads by then. With open_tree(2), move_mount(2),
//! fsmount(2) and mount_setattr(2) (Linux 5.12), or by mount(2) alone (`classic`), as [`Calls`] says; what comes of it is the same.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use super::fds::{O_PATH, owned};
use super::{classic, libc};

// linux/mount.h; libc has them for some targets only.
const OPEN_TREE_CLONE: libc::c_uint = 1;
const OPEN_TREE_CLOEXEC: libc::c_uint = libc::O_CLOEXEC.cast_unsigned();
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 0x04;
const MOVE_MOUNT_T_EMPTY_PATH: libc::c_uint = 0x40;
const MOUNT_ATTR_RDONLY: u64 = 0x01;
const MOUNT_ATTR_NOSUID: u64 = 0x02;
const MOUNT_ATTR_NODEV: u64 = 0x04;
const MOUNT_ATTR_NOEXEC: u64 = 0x08;
const FSOPEN_CLOEXEC: libc::c_uint = 1;
const FSMOUNT_CLOEXEC: libc::c_uint = 1;
const FSCONFIG_SET_STRING: libc::c_uint = 1;
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
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
fn copy(object: BorrowedFd<'_>, reach: Reach) -> io::Result<OwnedFd> {
    let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | reach.flag();
    // SAFETY: open_tree takes a descriptor number, a NUL-terminated path (a literal) and flags, and touches no other memory.
    let fd = unsafe { syscall!(SYS_open_tree, object.as_raw_fd(), c"".as_ptr(), flags) };
    owned(Errno::result(fd)?)
}

/// Like [`copy`], of what a path leads to, links included.
fn copy_of(path: &Path, reach: Reach) -> io::Result<OwnedFd> {
    let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | reach.flag();
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: open_tree takes a directory (AT_FDCWD), a NUL-terminated path that outlives the call and flags, and touches no other memory.
    let fd = unsafe { syscall!(SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) };
    owned(Errno::result(fd)?)
}

/// What is switched off on a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Without(u64);

impl Without {
    /// Writing.
    pub const WRITING: Self = Self(MOUNT_ATTR_RDONLY);
    /// The set-uid, set-gid and capability bits of programs.
    pub const SETUID: Self = Self(MOUNT_ATTR_NOSUID);
    /// Device nodes.
    pub const DEVICES: Self = Self(MOUNT_ATTR_NODEV);
    /// Executing.
    pub const EXECUTING: Self = Self(MOUNT_ATTR_NOEXEC);

    /// This and that.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Adds these restrictions; what is switched off already stays so.
fn restrict(tree: BorrowedFd<'_>, reach: Reach, without: Without) -> io::Result<()> {
    let attributes = MountAttr {
        set: without.0,
        ..MountAttr::default()
    };
    // SAFETY: mount_setattr reads the path (a literal) and exactly the given number of bytes of a structure that outlives the call.
    let r = unsafe {
        syscall!(
            SYS_mount_setattr,
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

/// A new file system with these `key=value` options, mounted nowhere yet (fsopen(2), fsconfig(2), fsmount(2); Linux 5.2).
fn file_system(kind: &CStr, options: &[(&CStr, &CStr)], without: Without) -> io::Result<OwnedFd> {
    // SAFETY: fsopen takes a NUL-terminated name and flags.
    let context = unsafe { syscall!(SYS_fsopen, kind.as_ptr(), FSOPEN_CLOEXEC) };
    let context = owned(Errno::result(context)?)?;
    for (key, value) in options {
        configure(&context, FSCONFIG_SET_STRING, key.as_ptr(), value.as_ptr())?;
    }
    configure(
        &context,
        FSCONFIG_CMD_CREATE,
        std::ptr::null(),
        std::ptr::null(),
    )?;
    // SAFETY: fsmount takes a descriptor and two sets of flags.
    let mount = unsafe {
        syscall!(
            SYS_fsmount,
            context.as_raw_fd(),
            FSMOUNT_CLOEXEC,
            libc::c_uint::try_from(without.0).map_err(|_| Errno::EINVAL)?,
        )
    };
    owned(Errno::result(mount)?)
}

fn configure(
    context: &OwnedFd,
    command: libc::c_uint,
    key: *const libc::c_char,
    value: *const libc::c_char,
) -> io::Result<()> {
    // SAFETY: fsconfig reads two NUL-terminated strings, which the only caller borrows from `CStr`s for the length of this call, or
    // null where the command takes none (FSCONFIG_CMD_CREATE); the last argument is unused by both commands.
    let r = unsafe {
        syscall!(
            SYS_fsconfig,
            context.as_raw_fd(),
            command,
            key,
            value,
            0usize,
        )
    };
    Errno::result(r)?;
    Ok(())
}

/// Mounts what is mounted nowhere yet on `place`.
fn attach(tree: BorrowedFd<'_>, place: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: move_mount takes two descriptor numbers, two NUL-terminated paths (literals) and flags, and touches no other memory.
    let r = unsafe {
        syscall!(
            SYS_move_mount,
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

/// With which calls mounts are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// open_tree(2) and what came with it, up to mount_setattr(2), the last of them (Linux 5.12).
    New,
    /// mount(2).
    Classic,
}

impl Calls {
    /// Those that this kernel, or the filter around this process, knows.
    #[must_use]
    pub fn known() -> Self {
        // SAFETY: with flags that do not exist mount_setattr looks at no memory and changes nothing (EINVAL).
        let asked = unsafe {
            syscall!(
                SYS_mount_setattr,
                -1,
                c"".as_ptr(),
                libc::c_uint::MAX,
                std::ptr::null::<MountAttr>(),
                0usize,
            )
        };
        match Errno::result(asked) {
            Err(Errno::ENOSYS) => Self::Classic,
            _ => Self::New,
        }
    }

    /// A copy of what stands at `object`, to be mounted. It has the flags of the mount it comes from.
    pub fn copy(self, object: OwnedFd, reach: Reach) -> io::Result<Tree> {
        Ok(match self {
            Self::New => Tree::Detached(copy(object.as_fd(), reach)?),
            Self::Classic => Tree::Object(object, reach, None),
        })
    }

    /// Like [`Self::copy`], of what a path leads to, links included.
    pub fn copy_of(self, path: &Path, reach: Reach) -> io::Result<Tree> {
        Ok(match self {
            Self::New => Tree::Detached(copy_of(path, reach)?),
            Self::Classic => {
                let object = nix::fcntl::open(path, O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
                Tree::Object(object, reach, None)
            }
        })
    }

    /// A new file system with these `key=value` options, to be mounted.
    pub fn file_system(
        self,
        kind: &CStr,
        options: &[(&CStr, &CStr)],
        without: Without,
    ) -> io::Result<Tree> {
        Ok(match self {
            Self::New => Tree::Detached(file_system(kind, options, without)?),
            Self::Classic => {
                let owned = |(key, value): &(&CStr, &CStr)| (CString::from(*key), (*value).into());
                let options = options.iter().map(owned).collect();
                Tree::Kind(kind.into(), options, without)
            }
        })
    }

    /// Adds these restrictions to the mount that `root` is the root of; what is switched off already stays so.
    pub fn restrict(self, root: BorrowedFd<'_>, without: Without) -> io::Result<()> {
        match self {
            Self::New => restrict(root, Reach::Mount, without),
            Self::Classic => classic::restrict(root, Reach::Mount, without),
        }
    }
}

/// Something that is mounted nowhere yet.
#[derive(Debug)]
pub enum Tree {
    /// The mounts are made.
    Detached(OwnedFd),
    /// This object will be bound, then restricted.
    Object(OwnedFd, Reach, Option<Without>),
    /// A file system of this kind will be made, with these options.
    Kind(CString, Vec<(CString, CString)>, Without),
}

impl Tree {
    /// All of it will have these restrictions; what is switched off already stays so.
    pub fn restrict(&mut self, more: Without) -> io::Result<()> {
        match self {
            Self::Detached(tree) => restrict(tree.as_fd(), Reach::Tree, more)?,
            Self::Object(_, _, without) => {
                *without = Some(without.map_or(more, |some| some.and(more)));
            }
            Self::Kind(_, _, without) => *without = without.and(more),
        }
        Ok(())
    }

    /// Its root, or what will be.
    #[must_use]
    pub fn object(&self) -> Option<&OwnedFd> {
        match self {
            Self::Detached(object) | Self::Object(object, _, _) => Some(object),
            Self::Kind(..) => None,
        }
    }

    /// Mounts it on `place` and returns its root, for which `again` opens the path of the place once more.
    pub fn attach(
        self,
        place: BorrowedFd<'_>,
        again: impl FnOnce() -> io::Result<OwnedFd>,
    ) -> io::Result<OwnedFd> {
        match self {
            Self::Detached(tree) => {
                attach(tree.as_fd(), place)?;
                Ok(tree)
            }
            Self::Object(object, reach, without) => {
                classic::bind(object.as_fd(), place, reach)?;
                let root = again()?;
                if let Some(without) = without {
                    classic::restrict(root.as_fd(), reach, without)?;
                }
                Ok(root)
            }
            Self::Kind(kind, options, without) => {
                classic::file_system(&kind, &options, without, place)?;
                let root = again()?;
                if without.and(Without::WRITING) == without {
                    classic::restrict(root.as_fd(), Reach::Mount, Without::WRITING)?;
                }
                Ok(root)
            }
        }
    }
}

/// Small files and directories on a mount of their own: read-only, nosuid, nodev, noexec, and so is every copy of them. Copies can
/// only be made while it is mounted somewhere (before Linux 6.15).
#[derive(Debug)]
pub struct Workshop {
    root: OwnedFd,
}

impl Workshop {
    /// The file system it is made on.
    pub fn place(calls: Calls) -> io::Result<Tree> {
        let without = Without::SETUID
            .and(Without::DEVICES)
            .and(Without::EXECUTING);
        calls.file_system(c"tmpfs", &[(c"mode", c"0700")], without)
    }

    /// In that file system, whose root this is.
    #[must_use]
    pub fn at(root: OwnedFd) -> Self {
        Self { root }
    }

    /// A file with this content.
    pub fn file(&self, name: &CStr, content: &[u8], mode: Mode) -> io::Result<OwnedFd> {
        let create = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        let file = nix::fcntl::openat(&self.root, name, create, mode)?;
        File::from(file).write_all(content)?;
        self.open(name)
    }

    /// An empty directory.
    pub fn directory(&self, name: &CStr, mode: Mode) -> io::Result<OwnedFd> {
        nix::sys::stat::mkdirat(&self.root, name, mode)?;
        self.open(name)
    }

    fn open(&self, name: &CStr) -> io::Result<OwnedFd> {
        let path = O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(nix::fcntl::openat(&self.root, name, path, Mode::empty())?)
    }

    /// From here on nothing can be made in it, and copies are read-only.
    pub fn seal(&self, calls: Calls) -> io::Result<()> {
        calls.restrict(self.root.as_fd(), Without::WRITING)
    }
}
