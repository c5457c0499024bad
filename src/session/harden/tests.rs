//! The emitted program, run by an interpreter, against a decision function written a second time from the words of the design.

mod floor;
mod kernel;
mod numbers;
mod trapped;

use libc::{c_int, c_long};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

use trapped::{binds_or_connects, connects, reads, traps};

use super::{Arch, FilterOptions, filter_program, filter_program_for, refused_calls};
use crate::broker::calls::TRAPS;
use crate::sys::bpf::{Program, interpret, trace};
use numbers::CALLS;

const ARCHES: [Arch; 2] = [Arch::X86_64, Arch::Aarch64];

const CLOSED: FilterOptions = FilterOptions {
    unix_sockets: false,
    open_network: false,
    landlock_abi: 7,
    broker: false,
    reads: false,
    sockets: false,
    alone: false,
    no_network: false,
    by_proxies: false,
};
const UNIX: FilterOptions = FilterOptions {
    unix_sockets: true,
    ..CLOSED
};
const BROKER: FilterOptions = FilterOptions {
    broker: true,
    ..CLOSED
};
const BROKER_UNIX: FilterOptions = FilterOptions {
    broker: true,
    ..UNIX
};
const BROKER_READS: FilterOptions = FilterOptions {
    reads: true,
    ..BROKER
};
/// With the host's network.
const BROKER_OPEN: FilterOptions = FilterOptions {
    open_network: true,
    ..BROKER
};
/// Unix sockets by path.
const BROKER_SOCKETS: FilterOptions = FilterOptions {
    sockets: true,
    ..BROKER
};
const BROKER_SOCKETS_OPEN: FilterOptions = FilterOptions {
    open_network: true,
    ..BROKER_SOCKETS
};
const ALL: [FilterOptions; 8] = [
    CLOSED,
    UNIX,
    BROKER,
    BROKER_UNIX,
    BROKER_READS,
    BROKER_OPEN,
    BROKER_SOCKETS,
    BROKER_SOCKETS_OPEN,
];

fn number(name: &str, arch: Arch) -> u32 {
    let (_, x86_64, aarch64) = CALLS.iter().find(|call| call.0 == name).unwrap();
    u32::try_from(match arch {
        Arch::X86_64 => *x86_64,
        Arch::Aarch64 => *aarch64,
    })
    .unwrap()
}

fn name(nr: u32, arch: Arch) -> Option<&'static str> {
    CALLS
        .iter()
        .find(|(_, x86_64, aarch64)| {
            let of = if arch == Arch::X86_64 {
                x86_64
            } else {
                aarch64
            };
            *of == c_long::from(nr)
        })
        .map(|call| call.0)
}

/// [`expected`] for a call that traps.
const NOTIFIED: c_int = -1;

/// The second opinion: 0 for allowed, the errno, or [`NOTIFIED`].
fn expected(options: FilterOptions, arch: Arch, nr: u32, args: [u64; 6]) -> c_int {
    if nr == u32::MAX {
        return 0;
    }
    if nr > 469 {
        return libc::ENOSYS;
    }
    let base = refused(options, arch, nr, args);
    let trapped = match reads(arch, nr, args) {
        Some(trapped) if options.reads => trapped,
        _ => {
            traps(arch, nr, args)
                || !options.open_network && connects(arch, nr, args)
                || options.sockets && binds_or_connects(arch, nr)
        }
    };
    if base == 0 && options.broker && trapped {
        return NOTIFIED;
    }
    base
}

/// What is refused or allowed before anybody is asked.
fn refused(options: FilterOptions, arch: Arch, nr: u32, args: [u64; 6]) -> c_int {
    #[allow(clippy::cast_possible_truncation)]
    let int = |i: usize| args[i] as u32;
    let kind = int(1) & 0xf;
    let Some(name) = name(nr, arch) else {
        return 0;
    };
    let namespaces = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ];
    let new_namespace = namespaces
        .iter()
        .any(|flag| int(0) & flag.cast_unsigned() != 0);
    match name {
        "io_uring_setup" | "io_uring_enter" | "io_uring_register" | "clone3" => libc::ENOSYS,
        "perf_event_open" => libc::EACCES,
        "clone" if new_namespace => libc::EPERM,
        "unshare" if new_namespace || int(0) & 0x80 != 0 => libc::EPERM,
        // TIOCSTI, TIOCLINUX, TIOCSETD
        "ioctl" if [0x5412, 0x541c, 0x5423].contains(&int(1)) => libc::EPERM,
        // btrfs: SNAP_CREATE, SUBVOL_CREATE, SNAP_DESTROY and their second versions; ocfs2: REFLINK; bcachefs: SUBVOLUME_*
        "ioctl"
            if options.broker
                && [
                    0x5000_9401,
                    0x5000_940e,
                    0x5000_940f,
                    0x5000_9417,
                    0x5000_9418,
                    0x5000_943f,
                    0x4018_6f04,
                    0x4020_bc10,
                    0x4020_bc11,
                ]
                .contains(&int(1)) =>
        {
            libc::EPERM
        }
        "seccomp" if int(0) == 1 && int(1) & 8 != 0 => libc::EBUSY,
        "clone" | "unshare" | "ioctl" | "seccomp" => 0,
        "socket" => match int(0).cast_signed() {
            libc::AF_UNIX if options.sockets && (kind == 1 || kind == 5) => 0,
            libc::AF_UNIX if options.unix_sockets => 0,
            libc::AF_UNIX => libc::EACCES,
            libc::AF_INET if kind == 10 => libc::EAFNOSUPPORT,
            libc::AF_INET | libc::AF_INET6 => 0,
            libc::AF_NETLINK if int(2) == 0 => 0,
            libc::AF_NETLINK => libc::EPROTONOSUPPORT,
            _ => libc::EAFNOSUPPORT,
        },
        "socketpair" => match int(0).cast_signed() {
            libc::AF_UNIX if options.unix_sockets || kind == 1 || kind == 5 => 0,
            libc::AF_UNIX => libc::EACCES,
            _ => libc::EAFNOSUPPORT,
        },
        _ => libc::EPERM,
    }
}

/// Runs the program on one call; the answer as [`expected`] gives it.
fn decide(program: &Program, audit: u32, nr: u32, args: [u64; 6]) -> c_int {
    let mut data = [0u8; 64];
    data[0..4].copy_from_slice(&nr.to_le_bytes());
    data[4..8].copy_from_slice(&audit.to_le_bytes());
    data[8..16].copy_from_slice(&0xdead_beef_dead_beef_u64.to_le_bytes());
    for (at, arg) in args.iter().enumerate() {
        data[16 + 8 * at..24 + 8 * at].copy_from_slice(&arg.to_le_bytes());
    }
    // As the kernel: aligned words inside `struct seccomp_data` only.
    let word = |offset: u32| -> Option<u32> {
        let at = usize::try_from(offset).unwrap();
        let bytes = data.get(at..at + 4).filter(|_| at % 4 == 0)?;
        Some(u32::from_le_bytes(bytes.try_into().unwrap()))
    };
    let value = interpret(program, &word).expect("a program the kernel takes");
    match value & 0xffff_0000 {
        0x7fff_0000 => 0,
        0x7fc0_0000 => NOTIFIED,
        0x0005_0000 => c_int::try_from(value & 0xffff).unwrap(),
        other => panic!("unexpected action {other:#x}"),
    }
}

fn check(options: FilterOptions, arch: Arch, program: &Program, nr: u32, args: [u64; 6]) {
    assert_eq!(
        decide(program, arch.audit(), nr, args),
        expected(options, arch, nr, args),
        "{arch:?} {options:?} call {nr:#x} ({:?}) {args:x?}",
        name(nr, arch)
    );
}

/// Values at which some call changes its mind, each also with bits the kernel drops, and their neighbours.
fn corner_values() -> Vec<u64> {
    let mut values: Vec<u64> = (0..=18).collect();
    values.extend([38, 40, 44, 45, 0x80, 0x81, 262, 0x5411, 0x5412, 0x5413]);
    values.extend([0x541b, 0x541c, 0x5422, 0x5423, 0x5424]);
    values.extend([
        0x80001, 0x80801, 0x80002, 0x80802, 0x80005, 0x8000a, 0x80003,
    ]);
    values.extend((16..32).map(|bit| 1u64 << bit));
    values.extend([0x003d_0f00, 0x0120_0011, 0x0000_4111]); // pthread_create, fork, vfork
    values.extend([0x200, 0x211, 0x1_0200, 0x3d_0d00, 0x400]); // CLONE_FS, CLONE_THREAD, neither
    values.extend([
        0o1000,
        0o100,
        0o101,
        0o2_1000,
        0o2000_0000,
        0o2020_0000,
        0o2020_0002,
    ]); // O_*
    values.extend([36, 37, 39, 1023, 1024, 1025]); // F_*
    values.extend([0x5000_9401, 0x5000_940e, 0x5000_940f, 0x5000_9410]);
    values.extend([0x5000_9417, 0x5000_9418, 0x5000_943f, 0x4018_6f04]);
    values.extend([0x4020_bc10, 0x4020_bc11, 0x4020_bc12]);
    let with_high: Vec<u64> = values
        .iter()
        .flat_map(|v| [v | 1 << 32, v | 0xffff_ffff_0000_0000])
        .collect();
    values.extend(with_high);
    values.push(u64::MAX);
    values
}

#[test]
fn every_number_with_a_few_arguments() {
    for arch in ARCHES {
        for options in ALL {
            let program = filter_program_for(options, arch).unwrap();
            let special = [
                0x4000_0000u32,
                0x7fff_ffff,
                0x8000_0000,
                0xffff_fffe,
                u32::MAX,
            ];
            let x32 = (0..600).map(|nr| nr | 0x4000_0000);
            for nr in (0..600).chain(x32).chain(special) {
                for args in [
                    [0; 6],
                    [1; 6],
                    [u64::MAX; 6],
                    [0x1000_0000, 0x5412, 0, 0, 0, 0],
                    [0, 0o1000, 0o1000, 0, 0, 0],
                ] {
                    check(options, arch, &program, nr, args);
                }
            }
        }
    }
}

#[test]
fn argument_corners() {
    let values = corner_values();
    for arch in ARCHES {
        for options in ALL {
            let program = filter_program_for(options, arch).unwrap();
            for call in [
                "ioctl",
                "clone",
                "unshare",
                "seccomp",
                "socket",
                "socketpair",
            ] {
                // The broker changes nothing about these.
                if options.broker && ["seccomp", "socket", "socketpair"].contains(&call) {
                    continue;
                }
                let nr = number(call, arch);
                for &a in &values {
                    for &b in &values {
                        let protocols: &[u64] = match call {
                            "socket" => &[0, 4, 9, 15, 1 << 32, u64::MAX],
                            _ => &[0],
                        };
                        for &c in protocols {
                            check(options, arch, &program, nr, [a, b, c, 0, 0, 0]);
                        }
                    }
                }
            }
        }
    }
}

/// Each argument of each call that traps, alone and between the others' extremes.
#[test]
fn argument_corners_of_what_traps() {
    let values = corner_values();
    for arch in ARCHES {
        let program = filter_program_for(BROKER, arch).unwrap();
        let numbers = TRAPS.iter().filter_map(|trap| match arch {
            Arch::X86_64 => trap.x86_64,
            Arch::Aarch64 => trap.aarch64,
        });
        for nr in numbers {
            for at in 0..6 {
                for &value in &values {
                    for others in [0, u64::MAX, u64::MAX << 32] {
                        let mut args = [others; 6];
                        args[at] = value;
                        check(BROKER, arch, &program, nr, args);
                    }
                }
            }
        }
    }
}

/// Every flag of open(2) that the kernel knows, alone and with its neighbours' bits: 2^13 combinations of the ones that matter.
#[test]
fn flags_of_open() {
    const BITS: [u64; 13] = [
        0o1,
        0o2,
        0o100,
        0o200,
        0o1000,
        0o2000,
        0o4000,
        0o20_0000,
        0o40_0000,
        0o200_0000,
        0o1000_0000,
        0o2000_0000,
        1 << 33,
    ];
    for (arch, calls) in [
        (Arch::X86_64, &[(2, 1), (257, 2)][..]),
        (Arch::Aarch64, &[(56, 2)]),
    ] {
        let program = filter_program_for(BROKER, arch).unwrap();
        let reading = filter_program_for(BROKER_READS, arch).unwrap();
        for set in 0u32..1 << BITS.len() {
            let flags = BITS
                .iter()
                .enumerate()
                .filter(|(n, _)| set & (1 << n) != 0)
                .fold(0, |flags, (_, bit)| flags | bit);
            for &(nr, arg) in calls {
                let mut args = [0; 6];
                args[arg] = flags;
                check(BROKER, arch, &program, nr, args);
                check(BROKER_READS, arch, &reading, nr, args);
            }
        }
    }
}

/// The table the filter is made from says the same as the filter; the supervisor's dispatch reads it too.
#[test]
fn the_table_of_traps_is_what_traps() {
    let values = corner_values();
    for arch in ARCHES {
        for trap in TRAPS {
            let number = match arch {
                Arch::X86_64 => trap.x86_64,
                Arch::Aarch64 => trap.aarch64,
            };
            let Some(nr) = number else { continue };
            for &value in &values {
                let args = [value; 6];
                let wanted = traps(arch, nr, args) || connects(arch, nr, args);
                assert_eq!(trap.traps(&args), wanted);
            }
        }
    }
}

/// A plan without write rules pays nothing for there being a broker: these are the programs from before it existed.
#[test]
fn without_the_broker_nothing_has_changed() {
    for (arch, options, length, digest) in [
        (
            Arch::X86_64,
            CLOSED,
            100,
            "99b656de9ad44694e064e395b291b3852d9720803c6ec3b2b95c8ccb71b2a141",
        ),
        (
            Arch::X86_64,
            UNIX,
            90,
            "5c59dc6665a21f10e6364b36e20ac92baad280c710445cba50a10d13137509f3",
        ),
        (
            Arch::Aarch64,
            CLOSED,
            99,
            "c13717ef0407b2bbe801ab8d3513e361f975fa6a9e38719d65d5d20155e1e062",
        ),
        (
            Arch::Aarch64,
            UNIX,
            89,
            "1e3bd354c79b9b7d5479d65ee7d66fa72cb38ddb9eb47bae1b67676d16f92956",
        ),
    ] {
        let program = filter_program_for(options, arch).unwrap();
        assert_eq!(program.instructions().len(), length);
        let seen = Sha256::digest(format!("{:?}", program.instructions()));
        assert_eq!(format!("{seen:x}"), digest, "{arch:?} {options:?}");
    }
}

#[test]
fn other_architectures_are_refused() {
    let audits = [
        0x4000_0003, // i386
        0x4000_0028, // Arm
        0xc000_003e, // x86-64
        0xc000_00b7, // aarch64
        0x8000_00b7, // aarch64, big endian
        0xc000_00f3, // riscv64
        0,
        u32::MAX,
    ];
    for arch in ARCHES {
        for options in [CLOSED, BROKER] {
            let program = filter_program_for(options, arch).unwrap();
            for audit in audits.into_iter().filter(|audit| *audit != arch.audit()) {
                for nr in 0..600 {
                    assert_eq!(decide(&program, audit, nr, [0; 6]), libc::ENOSYS);
                }
            }
        }
    }
}

#[test]
fn open_network_needs_scoped_abstract_sockets() {
    let options = |open_network, landlock_abi| FilterOptions {
        unix_sockets: true,
        open_network,
        landlock_abi,
        broker: false,
        reads: false,
        sockets: false,
        alone: false,
        no_network: false,
        by_proxies: false,
    };
    for (open, abi, allowed) in [
        (true, 0, false),
        (true, 5, false),
        (true, 6, true),
        (true, 9, true),
        (false, 0, true),
    ] {
        let program = filter_program_for(options(open, abi), Arch::X86_64).unwrap();
        let answer = decide(&program, Arch::X86_64.audit(), 41, [1, 1, 0, 0, 0, 0]);
        assert_eq!(answer == 0, allowed, "open network {open}, ABI {abi}");
    }
}

/// Installation costs time per instruction and call number; 100 is also what fits the kernel's own evaluation at start.
#[test]
fn stays_small() {
    for arch in ARCHES {
        for options in ALL {
            let program = filter_program_for(options, arch).unwrap();
            let len = program.instructions().len();
            let most = match (options.broker, options.sockets) {
                // bind, and two types of sockets.
                (true, true) => 190,
                (true, false) => 180,
                (false, _) => 100,
            };
            assert!(len <= most, "{arch:?}: {len} instructions");
        }
    }
}

/// How many instructions a call runs through: openat for reading seven, nothing more than 25.
#[test]
fn stays_shallow() {
    for arch in ARCHES {
        let program = filter_program_for(BROKER, arch).unwrap();
        let depth = |nr: u32| {
            let word = |offset: u32| match offset {
                0 => Some(nr),
                4 => Some(arch.audit()),
                _ => Some(0),
            };
            trace(&program, &word).unwrap().1
        };
        let openat = if arch == Arch::X86_64 { 257 } else { 56 };
        assert!(depth(openat) <= 7, "{arch:?} openat: {}", depth(openat));
        for nr in 0..600 {
            assert!(depth(nr) <= 25, "{arch:?} {nr}: {}", depth(nr));
        }
    }
}

/// The table and the design name the same calls.
#[test]
fn no_call_is_forgotten() {
    let argument_dependent = [
        "ioctl",
        "clone",
        "unshare",
        "seccomp",
        "socket",
        "socketpair",
    ];
    let mut ours: Vec<&str> = refused_calls().chain(argument_dependent).collect();
    let mut theirs: Vec<&str> = CALLS.iter().map(|call| call.0).collect();
    ours.sort_unstable();
    theirs.sort_unstable();
    assert_eq!(ours, theirs);
}

#[test]
fn the_native_filter_is_the_one_for_this_processor() {
    let native = Arch::native().expect("tests run on x86-64 or aarch64");
    assert_eq!(
        filter_program(CLOSED).unwrap(),
        filter_program_for(CLOSED, native).unwrap()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_call(
        nr in prop_oneof![0u32..600, any::<u32>()],
        args in proptest::array::uniform6(prop_oneof![
            proptest::sample::select(corner_values()),
            any::<u64>(),
        ]),
        options in proptest::sample::select(ALL.to_vec()),
        aarch64 in any::<bool>(),
    ) {
        let arch = ARCHES[usize::from(aarch64)];
        check(options, arch, &filter_program_for(options, arch).unwrap(), nr, args);
    }
}
