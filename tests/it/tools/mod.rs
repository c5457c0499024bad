//! Real tools. Those that need a network go through the proxies, each against servers the test starts: as an ordinary user
//! and as root, with a control outside the sandbox, and with a refused host whose refusal the user sees. `everyday` has the
//! ones that work on files.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends by panicking"
)]

mod build;
mod cargo;
mod everyday;
mod fetch;
mod git;
mod go;
mod java;
mod neighbours;
mod node;
mod python;

use crate::net::lab::{self, Caller, Desk, Lab, LabCommand};

/// `sh -c SCRIPT`.
fn sh(script: &str) -> [&str; 3] {
    ["sh", "-c", script]
}
