//! The only module with `unsafe`: one safe function per system call or kernel interface.
#![allow(unsafe_code)]

pub mod bpf;
pub mod inherited;
pub mod landlock;
pub mod seccomp;
pub mod splice;
