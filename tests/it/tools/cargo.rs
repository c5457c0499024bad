//! cargo with a dependency that is not in the cache yet.

use super::{Desk, Lab, sh};

const MAIN: &str = "fn main() { println!(\"{}\", ccbox_lab::answer()); }\n";

fn project(desk: &Desk<'_>, dependency: &str) {
    desk.write("ws/Cargo.toml", format!("[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nccbox-lab = {dependency}\n"));
    desk.write("ws/src/main.rs", MAIN);
}

const BUILD: &str = "cargo build -q && ./target/debug/app";

/// A registry of the user's own, named in the spec.
#[test]
fn cargo_build_from_an_allowed_registry() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        for allow in [None, Some("crates.test"), Some("allowed.test")] {
            let desk = lab.desk(caller);
            project(&desk, "{ version = \"1\", registry = \"lab\" }");
            let command = allow.map_or_else(
                || desk.control(&sh(BUILD)),
                |a| desk.boxed(&[a], &sh(BUILD)),
            );
            let out = command
                .env("CARGO_REGISTRIES_LAB_INDEX", "sparse+http://crates.test/")
                .env("CARGO_NET_RETRY", "0")
                .output();
            if allow == Some("allowed.test") {
                let out = out.failure();
                out.names_denied("crates.test:80");
                assert!(out.stderr.contains("403"), "the tool says it too: {out}");
            } else {
                let out = out.success();
                assert_eq!(out.stdout, "from the crate\n", "{out}");
            }
        }
    }
}

/// `ccbox run -- cargo build` with a new dependency and no spec: the baseline has the public registry, the cache is private.
#[test]
fn cargo_build_without_a_spec() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        for bare in [false, true, true] {
            let desk = lab.desk(caller);
            project(&desk, "\"1\"");
            let command = if bare {
                desk.bare(&sh(BUILD))
            } else {
                desk.control(&sh(BUILD))
            };
            let out = command.trust_lab().output().success();
            assert_eq!(out.stdout, "from the crate\n", "{out}");
        }
    }
}
