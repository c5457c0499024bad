//! Which system calls trap to the broker: a table, read by the filter compiler and by the supervisor's dispatch.
//!
//! A call is here for one of six reasons, and in no other is a program slowed down:
//!
//! * it makes, removes, moves or opens for writing something that has a name, so the broker does it instead;
//! * it changes the mode of an existing object, which Landlock does not govern: also as an access control list, which is an extended
//!   attribute;
//! * it changes what later paths and modes mean (working directory, umask), so the supervisor must hear of it;
//! * it fails where another process still holds a file open for writing, so the supervisor first lets go of what it handed out;
//! * it names somebody to talk to, who cannot be reached from inside: that is told, and nothing decided ([`Trap::is_network`]);
//! * it changes owner or times of something by its path, which read-only mounts refuse: told as well, and nothing decided. By a descriptor
//!   it does not trap: tar and `cp -a` do that for every file.
//!
//! Where names decide what may be read ([`READS`]), every open traps that gives more than a place. Where paths decide about Unix sockets
//! ([`SOCKETS`]), whatever binds or connects a socket does.
//!
//! What is not here and need not be: reads of what is open, `stat`, `ftruncate`, `fallocate`, `write` (the descriptor was opened through the
//! broker).
//!
//! The filter is transport only. A call it misses ends in the Landlock floor, so a trap may be answered with "continue" where the
//! floor decides the same, and **never** where it does not: truncation and modes are not the floor's (ADR 4), and openat2(2) has
//! its flags, setxattr(2) the attribute's name in memory the child can change after they were looked at.
//!
//! Numbers are from arch/x86/entry/syscalls/syscall_64.tbl and scripts/syscall.tbl (asm-generic) of Linux 6.18. Constants are
//! spelled out because the tables of both architectures are built on every host.

crate::sys::linux_tests! { mod tests; }

/// A system call that traps, on some condition at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the kernel's names
pub enum Call {
    Open,
    Openat,
    Openat2,
    Creat,
    Truncate,
    Mkdir,
    Mkdirat,
    Mknod,
    Mknodat,
    Symlink,
    Symlinkat,
    Link,
    Linkat,
    Rename,
    Renameat,
    Renameat2,
    Unlink,
    Unlinkat,
    Rmdir,
    Chmod,
    Fchmod,
    Fchmodat,
    Fchmodat2,
    Setxattr,
    Lsetxattr,
    Fsetxattr,
    Setxattrat,
    Removexattr,
    Lremovexattr,
    Fremovexattr,
    Removexattrat,
    Chown,
    Lchown,
    Fchown,
    Fchownat,
    Utime,
    Utimes,
    Futimesat,
    Utimensat,
    Umask,
    Chdir,
    Fchdir,
    Clone,
    Unshare,
    Execve,
    Execveat,
    Flock,
    Fcntl,
    Connect,
    Sendto,
    Bind,
    Listen,
}

/// A condition on the low 32 bits of one argument.
///
/// Every argument tested is an `int` or `unsigned int` in the kernel or cut to 32 bits there (clone(2)), or refused when larger
/// (unshare(2)): what stands in the upper half changes nothing about the call and must change nothing here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Any of these bits is set.
    AnyBit {
        /// Which argument, from 0.
        arg: u8,
        /// The bits.
        bits: u32,
    },
    /// The bits under the mask are these.
    Masked {
        /// Which argument, from 0.
        arg: u8,
        /// The mask.
        mask: u32,
        /// The wanted bits.
        value: u32,
    },
}

impl When {
    /// Whether these arguments fulfil it.
    #[must_use]
    pub fn holds(self, args: &[u64; 6]) -> bool {
        // What the kernel cuts off as well.
        #[allow(clippy::cast_possible_truncation)]
        let low = |arg: u8| args.get(usize::from(arg)).map_or(0, |&a| a as u32);
        match self {
            Self::AnyBit { arg, bits } => low(arg) & bits != 0,
            Self::Masked { arg, mask, value } => low(arg) & mask == value,
        }
    }
}

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trap {
    /// The call.
    pub call: Call,
    /// Its name in the kernel's tables.
    pub name: &'static str,
    /// Its number on x86-64.
    pub x86_64: Option<u32>,
    /// Its number on 64-bit Arm.
    pub aarch64: Option<u32>,
    /// It traps if any of these holds; always, if there is none.
    pub when: &'static [When],
}

impl Trap {
    /// Whether the call traps with these arguments.
    #[must_use]
    pub fn traps(&self, args: &[u64; 6]) -> bool {
        self.when.is_empty() || self.when.iter().any(|when| when.holds(args))
    }

    /// It is told of, where the network is the sandbox's own.
    #[must_use]
    pub fn is_network(&self) -> bool {
        matches!(self.call, Call::Connect | Call::Sendto)
    }

    fn native(&self) -> Option<u32> {
        if cfg!(target_arch = "x86_64") {
            self.x86_64
        } else if cfg!(all(target_arch = "aarch64", target_endian = "little")) {
            self.aarch64
        } else {
            None
        }
    }
}

impl Call {
    /// The call with this number on this executable's architecture, if it is one that may trap.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        let number = u32::try_from(number).ok()?;
        TRAPS
            .iter()
            .chain(SOCKETS)
            .chain(LISTENS)
            .chain(METADATA)
            .find(|trap| trap.native() == Some(number))
            .map(|trap| trap.call)
    }

    /// Its name in the kernel's tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        TRAPS
            .iter()
            .chain(SOCKETS)
            .chain(LISTENS)
            .chain(METADATA)
            .find(|trap| trap.call == self)
            .map_or("", |trap| trap.name)
    }
}

// asm-generic/fcntl.h; the same on x86-64 and 64-bit Arm.
const O_ACCMODE: u32 = 0o3;
const O_CREAT: u32 = 0o100;
const O_TRUNC: u32 = 0o1000;
const O_PATH: u32 = 0o1000_0000;
const F_OFD_SETLK: u32 = 37;
const F_OFD_SETLKW: u32 = 38;
const F_SETLEASE: u32 = 1024;
const LOCK_SH: u32 = 1;
const LOCK_EX: u32 = 2;

// linux/sched.h.
const CLONE_FS: u32 = 0x0000_0200;
const CLONE_THREAD: u32 = 0x0001_0000;

/// O_TMPFILE needs no bit of its own: it is refused by the kernel without write access (open(2)).
const FOR_WRITING: u32 = O_ACCMODE | O_CREAT | O_TRUNC;

const ALWAYS: &[When] = &[];

/// A pointer that is not NULL, as far as its lower half tells.
const NAMES: &[When] = &[When::AnyBit {
    arg: 1,
    bits: u32::MAX,
}];

/// Processes that share a working directory and umask, and threads that do not: caches are kept per process.
const SPLITS_FS: &[When] = &[
    When::Masked {
        arg: 0,
        mask: CLONE_FS | CLONE_THREAD,
        value: CLONE_FS,
    },
    When::Masked {
        arg: 0,
        mask: CLONE_FS | CLONE_THREAD,
        value: CLONE_THREAD,
    },
];

const fn both(
    call: Call,
    name: &'static str,
    x86_64: u32,
    aarch64: u32,
    when: &'static [When],
) -> Trap {
    Trap {
        call,
        name,
        x86_64: Some(x86_64),
        aarch64: Some(aarch64),
        when,
    }
}

/// The calls by path without a descriptor came before 64-bit Arm, which has their `…at` successors only.
const fn only_x86_64(call: Call, name: &'static str, x86_64: u32, when: &'static [When]) -> Trap {
    Trap {
        call,
        name,
        x86_64: Some(x86_64),
        aarch64: None,
        when,
    }
}

/// Every call that traps. The first row is the call made most: the filter asks for it before it searches.
pub const TRAPS: &[Trap] = &[
    // Opening. The flags of openat2 are behind a pointer.
    both(
        Call::Openat,
        "openat",
        257,
        56,
        &[When::AnyBit {
            arg: 2,
            bits: FOR_WRITING,
        }],
    ),
    only_x86_64(
        Call::Open,
        "open",
        2,
        &[When::AnyBit {
            arg: 1,
            bits: FOR_WRITING,
        }],
    ),
    only_x86_64(Call::Creat, "creat", 85, ALWAYS),
    both(Call::Openat2, "openat2", 437, 437, ALWAYS),
    both(Call::Truncate, "truncate", 76, 45, ALWAYS),
    // Making.
    only_x86_64(Call::Mkdir, "mkdir", 83, ALWAYS),
    both(Call::Mkdirat, "mkdirat", 258, 34, ALWAYS),
    only_x86_64(Call::Mknod, "mknod", 133, ALWAYS),
    both(Call::Mknodat, "mknodat", 259, 33, ALWAYS),
    only_x86_64(Call::Symlink, "symlink", 88, ALWAYS),
    both(Call::Symlinkat, "symlinkat", 266, 36, ALWAYS),
    only_x86_64(Call::Link, "link", 86, ALWAYS),
    both(Call::Linkat, "linkat", 265, 37, ALWAYS),
    // Moving and removing.
    only_x86_64(Call::Rename, "rename", 82, ALWAYS),
    both(Call::Renameat, "renameat", 264, 38, ALWAYS),
    both(Call::Renameat2, "renameat2", 316, 276, ALWAYS),
    only_x86_64(Call::Unlink, "unlink", 87, ALWAYS),
    both(Call::Unlinkat, "unlinkat", 263, 35, ALWAYS),
    only_x86_64(Call::Rmdir, "rmdir", 84, ALWAYS),
    // Modes.
    only_x86_64(Call::Chmod, "chmod", 90, ALWAYS),
    both(Call::Fchmod, "fchmod", 91, 52, ALWAYS),
    both(Call::Fchmodat, "fchmodat", 268, 53, ALWAYS),
    both(Call::Fchmodat2, "fchmodat2", 452, 452, ALWAYS),
    // An access control list is a mode, and comes as an extended attribute (acl(5)).
    both(Call::Setxattr, "setxattr", 188, 5, ALWAYS),
    both(Call::Lsetxattr, "lsetxattr", 189, 6, ALWAYS),
    both(Call::Fsetxattr, "fsetxattr", 190, 7, ALWAYS),
    both(Call::Setxattrat, "setxattrat", 463, 463, ALWAYS),
    both(Call::Removexattr, "removexattr", 197, 14, ALWAYS),
    both(Call::Lremovexattr, "lremovexattr", 198, 15, ALWAYS),
    both(Call::Fremovexattr, "fremovexattr", 199, 16, ALWAYS),
    both(Call::Removexattrat, "removexattrat", 466, 466, ALWAYS),
    // Owner and times, where a path is given: without one it is the descriptor's (futimesat(2), utimensat(2)).
    only_x86_64(Call::Chown, "chown", 92, ALWAYS),
    only_x86_64(Call::Lchown, "lchown", 94, ALWAYS),
    both(Call::Fchownat, "fchownat", 260, 54, ALWAYS),
    only_x86_64(Call::Utime, "utime", 132, ALWAYS),
    only_x86_64(Call::Utimes, "utimes", 235, ALWAYS),
    only_x86_64(Call::Futimesat, "futimesat", 261, NAMES),
    both(Call::Utimensat, "utimensat", 280, 88, NAMES),
    // What later calls mean.
    both(Call::Umask, "umask", 95, 166, ALWAYS),
    both(Call::Chdir, "chdir", 80, 49, ALWAYS),
    both(Call::Fchdir, "fchdir", 81, 50, ALWAYS),
    both(Call::Clone, "clone", 56, 220, SPLITS_FS),
    both(
        Call::Unshare,
        "unshare",
        272,
        97,
        &[When::AnyBit {
            arg: 0,
            bits: CLONE_FS,
        }],
    ),
    // What fails where somebody else still has the file open: ETXTBSY, and locks and leases that belong to an open file.
    both(Call::Execve, "execve", 59, 221, ALWAYS),
    both(Call::Execveat, "execveat", 322, 281, ALWAYS),
    both(
        Call::Flock,
        "flock",
        73,
        32,
        &[When::AnyBit {
            arg: 1,
            bits: LOCK_SH | LOCK_EX,
        }],
    ),
    both(
        Call::Fcntl,
        "fcntl",
        72,
        25,
        &[
            When::Masked {
                arg: 1,
                mask: u32::MAX,
                value: F_OFD_SETLK,
            },
            When::Masked {
                arg: 1,
                mask: u32::MAX,
                value: F_OFD_SETLKW,
            },
            When::Masked {
                arg: 1,
                mask: u32::MAX,
                value: F_SETLEASE,
            },
        ],
    ),
    // Whom a program wants to talk to; sendto only with an address, as far as the lower half of the pointer tells.
    both(Call::Connect, "connect", 42, 203, ALWAYS),
    both(
        Call::Sendto,
        "sendto",
        44,
        206,
        &[When::AnyBit {
            arg: 4,
            bits: u32::MAX,
        }],
    ),
];

/// Rows instead of those of [`TRAPS`] where reading is decided by name: every open but those with `O_PATH`, which read nothing.
pub const READS: &[Trap] = &[
    both(
        Call::Openat,
        "openat",
        257,
        56,
        &[When::Masked {
            arg: 2,
            mask: O_PATH,
            value: 0,
        }],
    ),
    only_x86_64(
        Call::Open,
        "open",
        2,
        &[When::Masked {
            arg: 1,
            mask: O_PATH,
            value: 0,
        }],
    ),
];

/// Rows beside and instead of those of [`TRAPS`] where no read-only mount stands behind the broker: owner and times by a descriptor as
/// well, which may be open for reading only.
pub const METADATA: &[Trap] = &[
    both(Call::Fchown, "fchown", 93, 55, ALWAYS),
    only_x86_64(Call::Futimesat, "futimesat", 261, ALWAYS),
    both(Call::Utimensat, "utimensat", 280, 88, ALWAYS),
];

/// Further rows where Unix sockets are decided by path. connect(2) traps there with the host's network, too: nothing is left to the kernel.
pub const SOCKETS: &[Trap] = &[
    both(Call::Bind, "bind", 49, 200, ALWAYS),
    both(Call::Connect, "connect", 42, 203, ALWAYS),
];

/// A further row where the network is the host's and the proxies are the only way.
pub const LISTENS: &[Trap] = &[both(Call::Listen, "listen", 50, 201, ALWAYS)];
