//! The only module with `unsafe`: one safe function per system call or kernel interface.
#![allow(unsafe_code)] // the one place for it; each block names the requirement it meets

/// The C library, with the names of Linux everywhere.
#[cfg(target_os = "linux")]
pub use ::libc;
#[cfg(not(target_os = "linux"))]
#[path = "absent/libc.rs"]
pub mod libc;

// The unwinder as part of the binary: of `libgcc_s.so` a release needs nothing else, and loading that library takes every start some
// 0.1 ms, most of it for a constructor that asks the processor what it is (cpuid, which leaves a virtual machine each time).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[link(name = "gcc_eh", kind = "static", modifiers = "-bundle")]
// SAFETY: declares nothing, so no declaration can be wrong; it only names what is linked.
unsafe extern "C" {}

/// syscall(2). The kernel of Linux keeps the numbers of its calls for ever; others have no such promise, and none of these calls.
#[cfg(target_os = "linux")]
macro_rules! syscall {
    ($number:ident $(, $argument:expr)* $(,)?) => { ::libc::syscall(::libc::$number $(, $argument)*) };
}
/// There is no such call.
#[cfg(not(target_os = "linux"))]
macro_rules! syscall {
    ($number:ident $(, $argument:expr)* $(,)?) => {{
        let _ = ($($argument,)*);
        crate::sys::libc::call()
    }};
}

/// Whether this is Linux, whose engines make the sandbox themselves.
pub const LINUX: bool = cfg!(target_os = "linux");

#[cfg(target_os = "macos")]
#[path = "absent/family.rs"]
mod absent_family;
/// Test modules whose subject is Linux itself, which are built there only: `linux_tests! { mod tests; }`. rustfmt does not follow a
/// module into a macro, so `.ci/fmt` names them to it.
#[cfg(target_os = "linux")]
macro_rules! linux_tests { ($($item:item)*) => { $(#[cfg(test)] $item)* }; }
/// None of them.
#[cfg(not(target_os = "linux"))]
macro_rules! linux_tests {
    ($($item:item)*) => {};
}
pub(crate) use linux_tests;

pub mod at;
pub mod bpf;
#[cfg_attr(not(target_os = "linux"), path = "absent/classic.rs")]
pub mod classic;
pub mod counter;
#[cfg_attr(not(target_os = "linux"), path = "absent/cpu.rs")]
pub mod cpu;
#[cfg(target_os = "linux")]
#[cfg(test)]
pub(crate) mod direct;
pub mod family;
pub mod fds;
pub mod fifo;
pub mod fuse;
pub mod inherited;
pub mod landlock;
pub mod mounts;
pub mod names;
#[cfg_attr(not(target_os = "linux"), path = "absent/namespaces.rs")]
pub mod namespaces;
#[cfg_attr(not(target_os = "linux"), path = "absent/netlink.rs")]
pub mod netlink;
pub mod notify;
pub mod objects;
#[cfg_attr(not(target_os = "linux"), path = "absent/prctl.rs")]
pub mod prctl;
pub mod process;
pub mod seccomp;
pub mod signals;
#[cfg_attr(not(target_os = "linux"), path = "absent/sockets.rs")]
pub mod sockets;
pub mod splice;
pub mod task;
pub mod title;
pub mod tty;
pub mod unix;
