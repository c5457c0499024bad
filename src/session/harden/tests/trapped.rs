//! Which calls trap, written a second time.

use super::Arch;

/// The trapped calls, from the words of the design (linux-engine.md §5, linux-engine-2.md §1 and §7) and the kernel's headers.
pub(super) fn traps(arch: Arch, nr: u32, args: [u64; 6]) -> bool {
    #[allow(clippy::cast_possible_truncation)]
    let int = |i: usize| args[i] as u32;
    let writes = |flags: u32| flags & (3 | 0o100 | 0o1000) != 0;
    let splits = |flags: u32| (flags & 0x200 != 0) != (flags & 0x1_0000 != 0);
    let always: &[u32] = match arch {
        Arch::X86_64 => &[
            59, 76, 80, 81, 82, 83, 84, 85, 86, 87, 88, 90, 91, 92, 94, 95, 132, 133, 188, 189,
            190, 197, 198, 199, 235, 258, 259, 260, 263, 264, 265, 266, 268, 316, 322, 437, 452,
            463, 466,
        ],
        Arch::Aarch64 => &[
            5, 6, 7, 14, 15, 16, 33, 34, 35, 36, 37, 38, 45, 49, 50, 52, 53, 54, 166, 221, 276,
            281, 437, 452, 463, 466,
        ],
    };
    let (open, openat, clone, unshare, flock, fcntl) = match arch {
        Arch::X86_64 => (Some(2), 257, 56, 272, 73, 72),
        Arch::Aarch64 => (None, 56, 220, 97, 32, 25),
    };
    let times: &[u32] = match arch {
        Arch::X86_64 => &[261, 280],
        Arch::Aarch64 => &[88],
    };
    always.contains(&nr)
        || times.contains(&nr) && int(1) != 0
        || Some(nr) == open && writes(int(1))
        || nr == openat && writes(int(2))
        || nr == clone && splits(int(0))
        || nr == unshare && int(0) & 0x200 != 0
        || nr == flock && int(1) & 3 != 0
        || nr == fcntl && [37, 38, 1024].contains(&int(1))
}

/// connect, and sendto with an address.
pub(super) fn connects(arch: Arch, nr: u32, args: [u64; 6]) -> bool {
    let (connect, sendto) = match arch {
        Arch::X86_64 => (42, 44),
        Arch::Aarch64 => (203, 206),
    };
    nr == connect || nr == sendto && args[4] & 0xffff_ffff != 0
}

/// Where Unix sockets are decided by path, whatever the network is.
pub(super) fn binds_or_connects(arch: Arch, nr: u32) -> bool {
    match arch {
        Arch::X86_64 => [42, 49].contains(&nr),
        Arch::Aarch64 => [200, 203].contains(&nr),
    }
}

/// Of an open: it gives more than a place.
pub(super) fn reads(arch: Arch, nr: u32, args: [u64; 6]) -> Option<bool> {
    let flags = match (arch, nr) {
        (Arch::X86_64, 2) => args[1],
        (Arch::X86_64, 257) | (Arch::Aarch64, 56) => args[2],
        _ => return None,
    };
    Some(flags & 0o1000_0000 == 0)
}
