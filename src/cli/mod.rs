//! argv → one subcommand → exit code.
