//! Thin binary: everything is in the library.

use std::ffi::OsString;
use std::process::ExitCode;

/// The hidden first argument of the inner stage, the same binary inside the sandbox.
const INNER: &str = "__inner";

fn main() -> ExitCode {
    let argv: Vec<OsString> = std::env::args_os().collect();
    // Before clap: the inner stage runs on every call and needs none of it.
    match argv.get(1).and_then(|a| a.to_str()) {
        Some(INNER) => ExitCode::from(ccbox::session::inner::main(argv.get(2..).unwrap_or(&[]))),
        Some(ccbox::session::seatbelt::STAGE) => ExitCode::from(
            ccbox::session::seatbelt::stage_main(argv.get(2..).unwrap_or(&[])),
        ),
        Some(ccbox::session::seatbelt::GUARD) => ExitCode::from(
            ccbox::session::seatbelt::guard_main(argv.get(2..).unwrap_or(&[])),
        ),
        Some(ccbox::host::probe::observe::CHILD_ARG) => ccbox::cli::probe_child(argv.get(2)),
        _ => ccbox::cli::main(&argv),
    }
}
