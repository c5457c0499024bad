//! The words the filter table is written in.

/// Processor architectures the filter can be built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arch {
    /// x86-64; x32 numbers and 32-bit calls are refused.
    X86_64,
    /// 64-bit Arm, little endian; 32-bit calls are refused.
    Aarch64,
}

impl Arch {
    /// The architecture of this executable, where it is one of the two.
    pub fn native() -> Option<Self> {
        if cfg!(target_arch = "x86_64") {
            Some(Self::X86_64)
        } else if cfg!(all(target_arch = "aarch64", target_endian = "little")) {
            Some(Self::Aarch64)
        } else {
            None
        }
    }

    /// What the kernel puts into `seccomp_data.arch` for native calls: AUDIT_ARCH_* of linux/audit.h.
    pub(super) fn audit(self) -> u32 {
        match self {
            Self::X86_64 => 0xc000_003e,
            Self::Aarch64 => 0xc000_00b7,
        }
    }
}

/// errno values the filter answers with: Linux numbers, which are the same on both architectures (asm-generic/errno.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Errno {
    Perm = 1,
    Acces = 13,
    Busy = 16,
    NoSys = 38,
    /// EXFULL, which prctl(2) never answers with.
    ExFull = 54,
    ProtoNoSupport = 93,
    AfNoSupport = 97,
}

/// What happens to a call in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Allow,
    Refuse(Errno),
    /// The supervisor is asked (seccomp_unotify(2)).
    Notify,
}

/// What the table says about one system call.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    /// Whatever the arguments are.
    Always(Verdict),
    /// Groups of clauses, read one after the other: the first clause that holds decides, else the verdict.
    Cases(&'static [&'static [Clause]], Verdict),
    /// The low 32 bits of the argument are one of these values → the first verdict, else the second.
    OneOf(Arg, &'static [u32], Verdict, Verdict),
}

/// All tests hold → this verdict.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clause {
    pub(super) when: &'static [ArgTest],
    pub(super) then: Verdict,
}

/// A test of the low 32 bits of one argument.
///
/// Every argument tested is an `int` or `unsigned int` in the kernel, or (flags of clone, unshare) cut to 32 bits or refused when
/// larger, so the upper half must be ignored: a compare of all 64 bits would be dodged by setting a bit the kernel drops.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArgTest {
    pub(super) arg: u8,
    pub(super) op: Op,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Op {
    /// `value & mask == wanted`.
    Masked(u32, u32),
    /// `value & bits != 0`.
    AnyBit(u32),
}

/// An argument, counted from 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arg(pub(super) u8);

impl Arg {
    pub(super) const fn is(self, wanted: u32) -> ArgTest {
        self.masked(u32::MAX, wanted)
    }
    pub(super) const fn masked(self, mask: u32, wanted: u32) -> ArgTest {
        ArgTest {
            arg: self.0,
            op: Op::Masked(mask, wanted),
        }
    }
    pub(super) const fn has_any(self, bits: u32) -> ArgTest {
        ArgTest {
            arg: self.0,
            op: Op::AnyBit(bits),
        }
    }
}

/// One row: a call, its numbers, its rule.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) x86_64: Option<u32>,
    pub(super) aarch64: Option<u32>,
    pub(super) rule: Rule,
}

impl Row {
    /// The number of the call on this architecture.
    pub(super) fn number(&self, arch: Arch) -> Option<u32> {
        match arch {
            Arch::X86_64 => self.x86_64,
            Arch::Aarch64 => self.aarch64,
        }
    }
}
