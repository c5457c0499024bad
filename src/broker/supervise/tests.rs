//! The supervisor with a real filter and a real floor around a thread of the test, without a sandbox around both.

mod attacks;
mod basics;
mod details;
mod fidelity;
mod harness;
mod kept;
mod near;
mod paths;
mod races;
mod read_races;
mod runs;
mod sockets;
mod storm;
