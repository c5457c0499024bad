//! argv → one subcommand → exit code.

pub mod args;
mod parse;
pub mod usage;
