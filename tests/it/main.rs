//! Integration tests: one binary, one file per area.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test ends by panicking and may say why"
)]

mod arch;
mod cases;
mod cli;
mod docs;
mod engines;
mod escape;
mod events;
mod examples;
mod generated;
mod git;
mod limits;
mod net;
mod other_runs;
mod packages;
mod packaging;
mod process;
mod repair;
mod run;
mod shells;
#[path = "../lab/kills.rs"]
mod storms;
mod support;
mod tools;
mod tty;
mod violations;
