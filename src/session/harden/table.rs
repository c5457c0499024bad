//! The filter as data: what is refused, with which errno, and why.
//!
//! Numbers are from arch/x86/entry/syscalls/syscall_64.tbl and scripts/syscall.tbl (asm-generic) of Linux 6.18. Constants are
//! spelled out because the table of both architectures is built on every host, macOS included.

use super::rule::{Arg, Clause, Errno, Row, Rule, Verdict};

/// file_setattr(2), the newest call of Linux 6.17 and 6.18; the same number everywhere. Later ones have not been looked at, so
/// they are answered as an older kernel would: ENOSYS, on which C libraries fall back.
pub(super) const NEWEST_KNOWN: u32 = 469;

/// What a tracer sets to skip a call; the kernel runs nothing for it, and refusing would overwrite the tracer's result.
pub(super) const SKIPPED: u32 = u32::MAX;

use Verdict::Allow;
const EPERM: Verdict = Verdict::Refuse(Errno::Perm);
const EACCES: Verdict = Verdict::Refuse(Errno::Acces);
const EBUSY: Verdict = Verdict::Refuse(Errno::Busy);
const ENOSYS: Verdict = Verdict::Refuse(Errno::NoSys);
const EPROTONOSUPPORT: Verdict = Verdict::Refuse(Errno::ProtoNoSupport);
const EAFNOSUPPORT: Verdict = Verdict::Refuse(Errno::AfNoSupport);

// asm-generic/ioctls.h, both architectures.
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;
const TIOCSETD: u32 = 0x5423;

// linux/sched.h.
const CLONE_NEWTIME: u32 = 0x0000_0080;
const CLONE_NEWNS: u32 = 0x0002_0000;
const CLONE_NEWCGROUP: u32 = 0x0200_0000;
const CLONE_NEWUTS: u32 = 0x0400_0000;
const CLONE_NEWIPC: u32 = 0x0800_0000;
const CLONE_NEWUSER: u32 = 0x1000_0000;
const CLONE_NEWPID: u32 = 0x2000_0000;
const CLONE_NEWNET: u32 = 0x4000_0000;
const NEW_NAMESPACES: u32 = CLONE_NEWNS
    | CLONE_NEWCGROUP
    | CLONE_NEWUTS
    | CLONE_NEWIPC
    | CLONE_NEWUSER
    | CLONE_NEWPID
    | CLONE_NEWNET;

// linux/seccomp.h.
const SECCOMP_SET_MODE_FILTER: u32 = 1;
const SECCOMP_FILTER_FLAG_NEW_LISTENER: u32 = 8;

// linux/socket.h, linux/net.h, linux/netlink.h.
const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const AF_NETLINK: u32 = 16;
const SOCK_TYPE_MASK: u32 = 0xf;
const SOCK_STREAM: u32 = 1;
const SOCK_SEQPACKET: u32 = 5;
const SOCK_PACKET: u32 = 10;
const IPPROTO_TCP: u32 = 6;
const MSG_FASTOPEN: u32 = 0x2000_0000;
const NETLINK_ROUTE: u32 = 0;

const fn clause(when: &'static [super::rule::ArgTest], then: Verdict) -> Clause {
    Clause { when, then }
}

/// Terminal injection. TIOCSTI types into the caller's terminal; TIOCLINUX pastes the console's selection; TIOCSETD swaps the
/// line discipline of a terminal that is shared with the caller (n_gsm, n_hdlc: a long list of CVEs, no unprivileged use).
const IOCTL: Rule = Rule::Cases(
    &[&[
        clause(&[Arg(1).is(TIOCSTI)], EPERM),
        clause(&[Arg(1).is(TIOCLINUX)], EPERM),
        clause(&[Arg(1).is(TIOCSETD)], EPERM),
    ]],
    Allow,
);

// linux/btrfs.h, fs/ocfs2/ocfs2_ioctl.h, bcachefs_ioctl.h (Linux 6.7 to 6.16).
const BTRFS_IOC_SNAP_CREATE: u32 = 0x5000_9401;
const BTRFS_IOC_SUBVOL_CREATE: u32 = 0x5000_940e;
const BTRFS_IOC_SNAP_DESTROY: u32 = 0x5000_940f;
const BTRFS_IOC_SNAP_CREATE_V2: u32 = 0x5000_9417;
const BTRFS_IOC_SUBVOL_CREATE_V2: u32 = 0x5000_9418;
const BTRFS_IOC_SNAP_DESTROY_V2: u32 = 0x5000_943f;
const OCFS2_IOC_REFLINK: u32 = 0x4018_6f04;
const BCH_IOCTL_SUBVOLUME_CREATE: u32 = 0x4020_bc10;
const BCH_IOCTL_SUBVOLUME_DESTROY: u32 = 0x4020_bc11;

/// As [`IOCTL`], and entries made and removed by ioctl(2) on a directory that was opened for reading, past the path hooks of
/// Landlock: neither the floor nor the broker would see them (linux-engine.md §5).
const IOCTL_WITH_BROKER: Rule = Rule::OneOf(
    Arg(1),
    &[
        TIOCSTI,
        TIOCLINUX,
        TIOCSETD,
        BTRFS_IOC_SNAP_CREATE,
        BTRFS_IOC_SUBVOL_CREATE,
        BTRFS_IOC_SNAP_DESTROY,
        BTRFS_IOC_SNAP_CREATE_V2,
        BTRFS_IOC_SUBVOL_CREATE_V2,
        BTRFS_IOC_SNAP_DESTROY_V2,
        OCFS2_IOC_REFLINK,
        BCH_IOCTL_SUBVOLUME_CREATE,
        BCH_IOCTL_SUBVOLUME_DESTROY,
    ],
    EPERM,
    Allow,
);

/// No further namespaces. CLONE_NEWTIME shares its bit with the exit signal here; clone(2) does not take it.
const CLONE: Rule = Rule::Cases(
    &[&[clause(&[Arg(0).has_any(NEW_NAMESPACES)], EPERM)]],
    Allow,
);
const UNSHARE: Rule = Rule::Cases(
    &[&[clause(
        &[Arg(0).has_any(NEW_NAMESPACES | CLONE_NEWTIME)],
        EPERM,
    )]],
    Allow,
);

/// Ordinary filters may be stacked; a second notify listener may not. EBUSY is what seccomp(2) answers when there is one already.
const SECCOMP: Rule = Rule::Cases(
    &[&[clause(
        &[
            Arg(0).is(SECCOMP_SET_MODE_FILTER),
            Arg(1).has_any(SECCOMP_FILTER_FLAG_NEW_LISTENER),
        ],
        EBUSY,
    )]],
    Allow,
);

/// An allow list of families: AF_VSOCK is not namespaced, AF_ALG, AF_PACKET, AF_XDP, AF_BLUETOOTH … are attack surface only.
/// Netlink is open for routes, which getaddrinfo(3) and if_nametoindex(3) read; EPROTONOSUPPORT for its other protocols is what
/// libaudit (PAM, sudo, login) and ss take as "not in this kernel". SOCK_PACKET makes AF_INET another name of AF_PACKET.
const INET: &[Clause] = &[
    clause(
        &[
            Arg(0).is(AF_INET),
            Arg(1).masked(SOCK_TYPE_MASK, SOCK_PACKET),
        ],
        EAFNOSUPPORT,
    ),
    clause(&[Arg(0).is(AF_INET)], Allow),
    clause(&[Arg(0).is(AF_INET6)], Allow),
    clause(&[Arg(0).is(AF_NETLINK), Arg(2).is(NETLINK_ROUTE)], Allow),
    clause(&[Arg(0).is(AF_NETLINK)], EPROTONOSUPPORT),
];

/// Unix sockets are refused until they are decided by path (semantics 24): a read-only mount does not stop connect(2), and the
/// address is behind a pointer. EACCES is the errno socket(2) documents for "permission to create a socket of this type is
/// denied"; clients of nscd, sssd, nss-systemd, syslog and agents treat any failure of socket() as "service not there" and fall
/// back. (EAFNOSUPPORT would read as a broken kernel to those who show it to a person.)
const SOCKET_WITHOUT_UNIX: Rule = Rule::Cases(
    &[&[clause(&[Arg(0).is(AF_UNIX)], EACCES)], INET],
    EAFNOSUPPORT,
);
const SOCKET_WITH_UNIX: Rule = Rule::Cases(
    &[&[clause(&[Arg(0).is(AF_UNIX)], Allow)], INET],
    EAFNOSUPPORT,
);

/// Where the supervisor decides by path: sockets that must be connected before anything is sent. One for datagrams (SOCK_RAW is another
/// name of it) takes an address with each message, in sendmsg(2) behind two pointers.
const SOCKET_BY_PATH: Rule = Rule::Cases(
    &[
        &[
            clause(
                &[
                    Arg(0).is(AF_UNIX),
                    Arg(1).masked(SOCK_TYPE_MASK, SOCK_STREAM),
                ],
                Allow,
            ),
            clause(
                &[
                    Arg(0).is(AF_UNIX),
                    Arg(1).masked(SOCK_TYPE_MASK, SOCK_SEQPACKET),
                ],
                Allow,
            ),
            clause(&[Arg(0).is(AF_UNIX)], EACCES),
        ],
        INET,
    ],
    EAFNOSUPPORT,
);

/// A connected stream or seqpacket pair cannot be pointed at anybody else (connect: EISCONN, listen: EINVAL, addresses in
/// sendmsg ignored or refused). A datagram pair can send to any address; SOCK_RAW is a datagram socket in AF_UNIX.
const SOCKETPAIR_WITHOUT_UNIX: Rule = Rule::Cases(
    &[&[
        clause(
            &[
                Arg(0).is(AF_UNIX),
                Arg(1).masked(SOCK_TYPE_MASK, SOCK_STREAM),
            ],
            Allow,
        ),
        clause(
            &[
                Arg(0).is(AF_UNIX),
                Arg(1).masked(SOCK_TYPE_MASK, SOCK_SEQPACKET),
            ],
            Allow,
        ),
        clause(&[Arg(0).is(AF_UNIX)], EACCES),
    ]],
    EAFNOSUPPORT,
);
const SOCKETPAIR_WITH_UNIX: Rule =
    Rule::Cases(&[&[clause(&[Arg(0).is(AF_UNIX)], Allow)]], EAFNOSUPPORT);

/// Without a namespace of its own the only network is none: a port that the command may talk to would be that port on every host.
/// EACCES as with Unix sockets.
const SOCKET_OF_NOTHING: Rule = Rule::Always(EACCES);

/// Unix sockets that are decided by path.
const UNIX: &[Clause] = &[
    clause(
        &[
            Arg(0).is(AF_UNIX),
            Arg(1).masked(SOCK_TYPE_MASK, SOCK_STREAM),
        ],
        Allow,
    ),
    clause(
        &[
            Arg(0).is(AF_UNIX),
            Arg(1).masked(SOCK_TYPE_MASK, SOCK_SEQPACKET),
        ],
        Allow,
    ),
];
const SOCKET_OF_UNIX: Rule = Rule::Cases(&[UNIX], EACCES);

/// Sockets that reach nobody before they are connected. With the host's network UDP would send past every proxy, and MPTCP and SCTP are no
/// matter of the Landlock domain.
const TCP: &[Clause] = &[
    clause(
        &[
            Arg(0).is(AF_INET),
            Arg(1).masked(SOCK_TYPE_MASK, SOCK_STREAM),
            Arg(2).is(0),
        ],
        Allow,
    ),
    clause(
        &[
            Arg(0).is(AF_INET),
            Arg(1).masked(SOCK_TYPE_MASK, SOCK_STREAM),
            Arg(2).is(IPPROTO_TCP),
        ],
        Allow,
    ),
    clause(
        &[
            Arg(0).is(AF_INET6),
            Arg(1).masked(SOCK_TYPE_MASK, SOCK_STREAM),
            Arg(2).is(0),
        ],
        Allow,
    ),
    clause(
        &[
            Arg(0).is(AF_INET6),
            Arg(1).masked(SOCK_TYPE_MASK, SOCK_STREAM),
            Arg(2).is(IPPROTO_TCP),
        ],
        Allow,
    ),
];
const SOCKET_OF_TCP: Rule = Rule::Cases(&[TCP], EACCES);
const SOCKET_OF_BOTH: Rule = Rule::Cases(&[TCP, UNIX], EACCES);

/// What is sent together with the connection goes where its address says (tcp(7), MSG_FASTOPEN), past connect(2) and, in some kernels, past
/// Landlock.
const SENDTO: Rule = Rule::Cases(
    &[&[clause(&[Arg(3).masked(MSG_FASTOPEN, MSG_FASTOPEN)], EPERM)]],
    Allow,
);
const SENDMSG: Rule = Rule::Cases(
    &[&[clause(&[Arg(2).masked(MSG_FASTOPEN, MSG_FASTOPEN)], EPERM)]],
    Allow,
);

/// What marks a run on the private /run elsewhere (semantics 46) is an answer here, which only a filter can give.
const INSIDE: Rule = Rule::Cases(
    &[&[clause(
        &[Arg(0).is(crate::sys::prctl::INSIDE)],
        Verdict::Refuse(Errno::ExFull),
    )]],
    Allow,
);

// linux/fs.h, linux/fsverity.h.
const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
const FS_IOC_SETVERSION: u32 = 0x4008_7602;
const FS_IOC_FSSETXATTR: u32 = 0x401c_5820;
const FS_IOC_ENABLE_VERITY: u32 = 0x4080_6685;
const FS_IOC_SET_ENCRYPTION_POLICY: u32 = 0x800c_6613;

/// As [`IOCTL_WITH_BROKER`], and what changes the attributes of a file of the caller's that is open for reading, past Landlock: on a
/// read-only mount the kernel refuses it.
const IOCTL_ALONE: Rule = Rule::OneOf(
    Arg(1),
    &[
        TIOCSTI,
        TIOCLINUX,
        TIOCSETD,
        BTRFS_IOC_SNAP_CREATE,
        BTRFS_IOC_SUBVOL_CREATE,
        BTRFS_IOC_SNAP_DESTROY,
        BTRFS_IOC_SNAP_CREATE_V2,
        BTRFS_IOC_SUBVOL_CREATE_V2,
        BTRFS_IOC_SNAP_DESTROY_V2,
        OCFS2_IOC_REFLINK,
        BCH_IOCTL_SUBVOLUME_CREATE,
        BCH_IOCTL_SUBVOLUME_DESTROY,
        FS_IOC_SETFLAGS,
        FS_IOC_SETVERSION,
        FS_IOC_FSSETXATTR,
        FS_IOC_ENABLE_VERITY,
        FS_IOC_SET_ENCRYPTION_POLICY,
    ],
    EPERM,
    Allow,
);

/// Limits of the command's own processes only: those of any other process of the same user could be changed, too (prlimit(2)).
const PRLIMIT: Rule = Rule::Cases(&[&[clause(&[Arg(0).is(0)], Allow)]], EPERM);

const fn row(name: &'static str, x86_64: u32, aarch64: u32, rule: Rule) -> Row {
    Row {
        name,
        x86_64: Some(x86_64),
        aarch64: Some(aarch64),
        rule,
    }
}

const fn only_x86_64(name: &'static str, x86_64: u32, rule: Rule) -> Row {
    Row {
        name,
        x86_64: Some(x86_64),
        aarch64: None,
        rule,
    }
}

const NO: Rule = Rule::Always(EPERM);
const UNKNOWN: Rule = Rule::Always(ENOSYS);

/// What holds in every run.
pub(super) const ROWS: &[Row] = &[
    row("clone", 56, 220, CLONE),
    row("unshare", 272, 97, UNSHARE),
    row("seccomp", 317, 277, SECCOMP),
    // Flags and address are behind a pointer; C libraries fall back to clone.
    row("clone3", 435, 435, UNKNOWN),
    // Rings do socket and file work no filter sees; libraries fall back to epoll and threads.
    row("io_uring_setup", 425, 425, UNKNOWN),
    row("io_uring_enter", 426, 426, UNKNOWN),
    row("io_uring_register", 427, 427, UNKNOWN),
    // The mount family: covers and read-only mounts stay where they are, also for a uid 0 that found a capability.
    row("mount", 165, 40, NO),
    row("umount2", 166, 39, NO),
    row("pivot_root", 155, 41, NO),
    row("chroot", 161, 51, NO),
    row("open_tree", 428, 428, NO),
    row("move_mount", 429, 429, NO),
    row("fsopen", 430, 430, NO),
    row("fsconfig", 431, 431, NO),
    row("fsmount", 432, 432, NO),
    row("fspick", 433, 433, NO),
    row("mount_setattr", 442, 442, NO),
    row("open_tree_attr", 467, 467, NO),
    row("setns", 308, 268, NO),
    // Handles reach any inode of a file system, mounted here or not.
    row("name_to_handle_at", 303, 264, NO),
    row("open_by_handle_at", 304, 265, NO),
    // Key rings are not namespaced: the caller's keys (Kerberos, ecryptfs) are one KEYCTL_READ away.
    row("add_key", 248, 217, NO),
    row("request_key", 249, 218, NO),
    row("keyctl", 250, 219, NO),
    // Kernel attack surface that no command needs. EACCES and EPERM are what the sysctls that close them for everybody answer.
    row("bpf", 321, 280, NO),
    row("userfaultfd", 323, 282, NO),
    row("perf_event_open", 298, 241, Rule::Always(EACCES)),
    // The kernel log, as kernel.dmesg_restrict.
    row("syslog", 103, 116, NO),
    // The machine itself; all need a capability in the initial namespace.
    row("acct", 163, 89, NO),
    row("swapon", 167, 224, NO),
    row("swapoff", 168, 225, NO),
    row("reboot", 169, 142, NO),
    row("init_module", 175, 105, NO),
    row("delete_module", 176, 106, NO),
    row("finit_module", 313, 273, NO),
    row("kexec_load", 246, 104, NO),
    row("kexec_file_load", 320, 294, NO),
    row("quotactl", 179, 60, NO),
    row("quotactl_fd", 443, 443, NO),
    only_x86_64("iopl", 172, NO),
    only_x86_64("ioperm", 173, NO),
    only_x86_64("create_module", 174, NO),
];

/// Where no namespaces and no mounts stand behind the filter. Shared memory, semaphores and message queues are the host's there.
pub(super) const ALONE: &[Row] = &[
    row("ioctl", 16, 29, IOCTL_ALONE),
    row("prctl", 157, 167, INSIDE),
    row("file_setattr", 469, 469, NO),
    row("prlimit64", 302, 261, PRLIMIT),
    row("shmget", 29, 194, UNKNOWN),
    row("shmat", 30, 196, UNKNOWN),
    row("shmctl", 31, 195, UNKNOWN),
    row("semget", 64, 190, UNKNOWN),
    row("semop", 65, 193, UNKNOWN),
    row("semtimedop", 220, 192, UNKNOWN),
    row("semctl", 66, 191, UNKNOWN),
    row("msgget", 68, 186, UNKNOWN),
    row("msgsnd", 69, 189, UNKNOWN),
    row("msgrcv", 70, 188, UNKNOWN),
    row("msgctl", 71, 187, UNKNOWN),
    row("mq_open", 240, 180, UNKNOWN),
    row("mq_unlink", 241, 181, UNKNOWN),
];

/// Sockets where there is no network.
pub(super) const WITHOUT_NETWORK: &[Row] = &[
    row("socket", 41, 198, SOCKET_OF_NOTHING),
    row("socketpair", 53, 199, SOCKETPAIR_WITHOUT_UNIX),
];

/// Unix sockets by path, and no network.
pub(super) const UNIX_ALONE: &[Row] = &[
    row("socket", 41, 198, SOCKET_OF_UNIX),
    row("socketpair", 53, 199, SOCKETPAIR_WITHOUT_UNIX),
];

/// The host's network, by the proxies of the run.
pub(super) const TCP_ALONE: &[Row] = &[
    row("socket", 41, 198, SOCKET_OF_TCP),
    row("socketpair", 53, 199, SOCKETPAIR_WITHOUT_UNIX),
];

/// That, and Unix sockets by path.
pub(super) const TCP_AND_UNIX: &[Row] = &[
    row("socket", 41, 198, SOCKET_OF_BOTH),
    row("socketpair", 53, 199, SOCKETPAIR_WITHOUT_UNIX),
];

/// Sending, where connecting is the broker's.
pub(super) const SENDS: &[Row] = &[
    row("sendto", 44, 206, SENDTO),
    row("sendmsg", 46, 211, SENDMSG),
    row("sendmmsg", 307, 269, SENDTO),
];

/// Without the broker.
pub(super) const PLAIN: &[Row] = &[row("ioctl", 16, 29, IOCTL)];

/// With the broker, beside the calls that trap.
pub(super) const BROKER: &[Row] = &[row("ioctl", 16, 29, IOCTL_WITH_BROKER)];

/// Sockets while Unix sockets are refused.
pub(super) const WITHOUT_UNIX: &[Row] = &[
    row("socket", 41, 198, SOCKET_WITHOUT_UNIX),
    row("socketpair", 53, 199, SOCKETPAIR_WITHOUT_UNIX),
];

/// Sockets where Unix sockets are allowed.
pub(super) const WITH_UNIX: &[Row] = &[
    row("socket", 41, 198, SOCKET_WITH_UNIX),
    row("socketpair", 53, 199, SOCKETPAIR_WITH_UNIX),
];

/// Sockets where the supervisor decides by path.
pub(super) const UNIX_BY_PATH: &[Row] = &[
    row("socket", 41, 198, SOCKET_BY_PATH),
    row("socketpair", 53, 199, SOCKETPAIR_WITHOUT_UNIX),
];
