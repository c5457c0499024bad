//! `libc`, with the names of Linux that this system does not have.
//!
//! The engines of Linux and the broker are compiled everywhere, so that they have no second face, and run on Linux only. Here each of
//! their system calls is absent and answers ENOSYS; so the numbers below, which are those of Linux, never reach a kernel.
#![allow(non_camel_case_types, missing_docs)] // as the C library and linux/*.h have them

pub use ::libc::*;

/// The answer of an absent call.
pub fn absent() -> c_long {
    nix::errno::Errno::ENOSYS.set();
    -1
}

/// In the place of a system call.
///
/// # Safety
/// Touches nothing; only as unsafe as what it stands for, whose callers say why theirs is sound.
pub unsafe fn call() -> c_long {
    absent()
}

/// `NAME = VALUE` for each.
macro_rules! numbers {
    ($kind:ty: $($name:ident = $value:expr),* $(,)?) => { $(pub const $name: $kind = $value;)* };
}

// asm-generic/fcntl.h, linux/fcntl.h, linux/openat2.h, linux/fs.h
numbers!(c_int: O_DIRECT = 0o40_000, O_NOATIME = 0o1_000_000, O_PATH = 0o10_000_000, O_TMPFILE = 0o20_200_000);
numbers!(c_int: AT_EMPTY_PATH = 0x1000, AT_NO_AUTOMOUNT = 0x800, F_SETLEASE = 1024);
numbers!(c_uint: CLOSE_RANGE_CLOEXEC = 4, MFD_NOEXEC_SEAL = 8);
numbers!(u64: RESOLVE_NO_XDEV = 1, RESOLVE_NO_MAGICLINKS = 2, RESOLVE_NO_SYMLINKS = 4, RESOLVE_BENEATH = 8, RESOLVE_IN_ROOT = 0x10, RESOLVE_CACHED = 0x20);
numbers!(c_uint: RENAME_NOREPLACE = 1, RENAME_EXCHANGE = 2, RENAME_WHITEOUT = 4);

// Permissions have 32 bits on Linux and 16 here.
pub type mode_t = u32;
numbers!(mode_t: S_IFMT = 0o170_000, S_IFSOCK = 0o140_000, S_IFLNK = 0o120_000, S_IFREG = 0o100_000, S_IFBLK = 0o60_000, S_IFDIR = 0o40_000, S_IFCHR = 0o20_000, S_IFIFO = 0o10_000);
numbers!(mode_t: S_ISUID = 0o4000, S_ISGID = 0o2000, S_ISVTX = 0o1000);

numbers!(mode_t: S_IRUSR = 0o400, S_IWUSR = 0o200, S_IXUSR = 0o100, S_IRGRP = 0o40, S_IWGRP = 0o20, S_IXGRP = 0o10, S_IROTH = 0o4, S_IWOTH = 0o2, S_IXOTH = 0o1);

// linux/stat.h
numbers!(c_uint: STATX_TYPE = 1, STATX_MODE = 2, STATX_NLINK = 4, STATX_UID = 8, STATX_GID = 0x10, STATX_INO = 0x100, STATX_SIZE = 0x200, STATX_BTIME = 0x800, STATX_MNT_ID = 0x1000);
numbers!(c_int: STATX_ATTR_MOUNT_ROOT = 0x2000, STATX_ATTR_IMMUTABLE = 0x10, STATX_ATTR_APPEND = 0x20);

/// What `look` reads of struct statx.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct statx {
    pub stx_mask: u32,
    pub stx_attributes: u64,
    pub stx_nlink: u32,
    pub stx_uid: u32,
    pub stx_gid: u32,
    pub stx_mode: u16,
    pub stx_ino: u64,
    pub stx_size: u64,
    pub stx_btime: statx_timestamp,
    pub stx_rdev_major: u32,
    pub stx_rdev_minor: u32,
    pub stx_dev_major: u32,
    pub stx_dev_minor: u32,
    pub stx_mnt_id: u64,
}

/// A time of it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct statx_timestamp {
    pub tv_sec: i64,
    pub tv_nsec: u32,
}

/// # Safety
/// Touches nothing.
pub unsafe fn statx(_: c_int, _: *const c_char, _: c_int, _: c_uint, _: *mut statx) -> c_int {
    absent() as c_int
}

/// # Safety
/// Touches nothing.
pub unsafe fn mkdirat(_: c_int, _: *const c_char, _: mode_t) -> c_int {
    absent() as c_int
}

/// # Safety
/// Touches nothing.
pub unsafe fn chmod(_: *const c_char, _: mode_t) -> c_int {
    absent() as c_int
}

/// # Safety
/// Touches nothing.
pub unsafe fn setxattr(
    _: *const c_char,
    _: *const c_char,
    _: *const c_void,
    _: size_t,
    _: c_int,
) -> c_int {
    absent() as c_int
}

/// # Safety
/// Reads and writes nothing.
pub unsafe fn getxattr(_: *const c_char, _: *const c_char, _: *mut c_void, _: size_t) -> ssize_t {
    absent() as ssize_t
}

/// # Safety
/// Touches nothing.
pub unsafe fn removexattr(_: *const c_char, _: *const c_char) -> c_int {
    absent() as c_int
}

/// # Safety
/// Touches nothing.
pub unsafe fn dup3(_: c_int, _: c_int, _: c_int) -> c_int {
    absent() as c_int
}

// linux/seccomp.h, linux/prctl.h, sys/signalfd.h, linux/socket.h
numbers!(c_uint: SECCOMP_GET_NOTIF_SIZES = 3);
numbers!(c_ulong: SECCOMP_IOCTL_NOTIF_RECV = 0, SECCOMP_IOCTL_NOTIF_SEND = 0, SECCOMP_IOCTL_NOTIF_ID_VALID = 0, SECCOMP_IOCTL_NOTIF_ADDFD = 0, SECCOMP_IOCTL_NOTIF_SET_FLAGS = 0);
pub type __rlimit_resource_t = c_int;
numbers!(c_int: SOCK_CLOEXEC = 0o2_000_000, MSG_NOSIGNAL = 0x4000, MSG_CMSG_CLOEXEC = 0x4000_0000);
numbers!(c_int: EBADFD = 77, F_RDLCK = 0, F_UNLCK = 2);
numbers!(u64: RLIM64_INFINITY = u64::MAX);

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct rlimit64 {
    pub rlim_cur: u64,
    pub rlim_max: u64,
}

/// # Safety
/// Touches nothing.
pub unsafe fn prlimit64(_: c_int, _: c_int, _: *const rlimit64, _: *mut rlimit64) -> c_int {
    absent() as c_int
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct seccomp_notif_sizes {
    pub seccomp_notif: u16,
    pub seccomp_notif_resp: u16,
    pub seccomp_data: u16,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct seccomp_data {
    pub nr: c_int,
    pub arch: u32,
    pub instruction_pointer: u64,
    pub args: [u64; 6],
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct seccomp_notif {
    pub id: u64,
    pub pid: u32,
    pub flags: u32,
    pub data: seccomp_data,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct seccomp_notif_resp {
    pub id: u64,
    pub val: i64,
    pub error: i32,
    pub flags: u32,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct seccomp_notif_addfd {
    pub id: u64,
    pub flags: u32,
    pub srcfd: u32,
    pub newfd: u32,
    pub newfd_flags: u32,
}

/// The major number of a device, as linux/kdev_t.h has it for programs.
#[must_use]
pub const fn major(device: u64) -> c_uint {
    ((device >> 8 & 0xfff) | (device >> 32 & 0xffff_f000)) as c_uint
}

/// Its minor number.
#[must_use]
pub const fn minor(device: u64) -> c_uint {
    ((device & 0xff) | (device >> 12 & 0xffff_ff00)) as c_uint
}

/// The device of both numbers.
#[must_use]
pub const fn makedev(major: c_uint, minor: c_uint) -> u64 {
    let (major, minor) = (major as u64, minor as u64);
    (major & 0xfff) << 8 | (major & 0xffff_f000) << 32 | minor & 0xff | (minor & 0xffff_ff00) << 12
}
