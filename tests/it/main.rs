//! Integration tests: one binary, one file per area.

mod net;
mod tools;
