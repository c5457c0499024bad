//! The only module with `unsafe`: one safe function per system call or kernel interface.

pub mod splice;
