//! The only module with `unsafe`: one safe function per system call or kernel interface.
#![allow(unsafe_code)] // the one place for it; each block names the requirement it meets

pub mod at;
pub mod bpf;
pub mod counter;
#[cfg(test)]
pub(crate) mod direct;
pub mod fds;
pub mod fifo;
pub mod fuse;
pub mod inherited;
pub mod landlock;
pub mod mounts;
pub mod namespaces;
pub mod netlink;
pub mod notify;
pub mod objects;
pub mod prctl;
pub mod process;
pub mod seccomp;
pub mod signals;
pub mod sockets;
pub mod splice;
pub mod task;
pub mod title;
pub mod tty;
pub mod unix;
