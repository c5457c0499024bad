//! The supervisor with a real filter and a real floor around a thread of the test, without a sandbox around both.

mod basics;
mod fidelity;
mod harness;
