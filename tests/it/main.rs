//! Integration tests: one binary, one file per area.

fn main() {}
