//! Bodies of the fuzz targets in `fuzz/`: each takes any bytes, and an assertion fails where a parser breaks its word.
//!
//! Compiled for tests and for cargo-fuzz only. The test below replays the seeds of every target and throws random bytes at it, so
//! a body is never out of date on a machine without cargo-fuzz.

use crate::policy;
use crate::proxy;

/// A body.
pub type Body = fn(&[u8]);

/// Every body, under the name of its target.
pub const BODIES: &[(&str, Body)] = &[
    ("host", host),
    ("host_rule", host_rule),
    ("socks", socks),
    ("http_head", http_head),
    ("client_hello", client_hello),
    ("dns", dns),
];

/// The one parser of host names.
pub fn host(data: &[u8]) {
    policy::fuzz::host(data);
}

/// Allow and deny rules.
pub fn host_rule(data: &[u8]) {
    policy::fuzz::host_rule(data);
}

/// What a SOCKS client says, from the greeting to the request.
pub fn socks(data: &[u8]) {
    proxy::fuzz::socks(data);
}

/// What an HTTP client of the proxy says.
pub fn http_head(data: &[u8]) {
    proxy::fuzz::http_head(data);
}

/// The first bytes of a tunnel.
pub fn client_hello(data: &[u8]) {
    proxy::fuzz::client_hello(data);
}

/// What is sent to the sandbox' own name server.
pub fn dns(data: &[u8]) {
    proxy::fuzz::dns(data);
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use proptest::prelude::*;
    use proptest::test_runner::{Config, TestRunner};

    use super::*;

    fn fuzz_dir() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
    }

    fn seeds(target: &str) -> Vec<Vec<u8>> {
        let dir = fuzz_dir().join("seeds").join(target);
        let entries = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        entries
            .map(|e| std::fs::read(e.unwrap().path()).unwrap())
            .collect()
    }

    #[test]
    fn every_target_has_a_body_and_seeds() {
        let manifest = std::fs::read_to_string(fuzz_dir().join("Cargo.toml")).unwrap();
        let named: Vec<&str> = manifest
            .split("[[bin]]")
            .skip(1)
            .filter_map(|t| t.split('"').nth(1))
            .collect();
        let bodies: Vec<&str> = BODIES.iter().map(|(name, _)| *name).collect();
        assert_eq!(named, bodies);
        for name in bodies {
            let target = fuzz_dir().join(format!("fuzz_targets/{name}.rs"));
            let text = std::fs::read_to_string(&target).unwrap();
            assert!(text.contains(&format!("ccbox::fuzz::{name}(data)")));
            assert!(seeds(name).len() >= 8, "{name}");
        }
    }

    /// Seeds as they are, cut short at every length, and with one byte changed.
    #[test]
    fn seeds_and_their_neighbours_hold() {
        for (name, body) in BODIES {
            for seed in seeds(name) {
                body(&seed);
                for at in 0..seed.len().min(160) {
                    body(&seed[..at]);
                    for byte in [0, b'\n', b':', b'.', b'*', 0x80, 0xff] {
                        let mut changed = seed.clone();
                        changed[at] = byte;
                        body(&changed);
                    }
                }
            }
        }
    }

    /// Random bytes, alone and put into seeds.
    #[test]
    fn random_bytes_hold() {
        for (name, body) in BODIES {
            let seeds = seeds(name);
            let mut runner = TestRunner::new(Config::with_cases(400));
            let strategy = (
                0..seeds.len(),
                any::<proptest::sample::Index>(),
                0_usize..8,
                proptest::collection::vec(any::<u8>(), 0..64),
            );
            runner
                .run(&strategy, |(seed, at, cut, noise)| {
                    body(&noise);
                    let mut data = seeds[seed].clone();
                    let at = at.index(data.len() + 1);
                    let end = (at + cut).min(data.len());
                    data.splice(at..end, noise.iter().copied());
                    body(&data);
                    Ok(())
                })
                .unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
}
