//! Made-up machines and specs, and a matcher of patterns that shares nothing with the planner's.

use std::path::{Path, PathBuf};

use crate::host::HostFacts;
use crate::host::fs_view::FakeFs;
use crate::plan::fixture::{bind, dispatch, entry, facts, layer, origin};
use crate::policy::path::{ListKind, PathEntry};
use crate::policy::{Caches, Layer, Mode, NetworkMode, Policy, Ruled, View};

pub(super) const HOME: &str = "/Users/dev";
pub(super) const TMP: &str = "/private/var/folders/q1/x0/T/ccbox-run";

/// Directories and files that exist, and names that do not.
pub(super) const DIRS: [&str; 10] = [
    "/Users/dev/w",
    "/Users/dev/w/proj",
    "/Users/dev/w/proj/vendor",
    "/Users/dev/w/proj/vendor/in",
    "/Users/dev/w/other",
    "/Users/dev/lib",
    "/private/tmp/z",
    "/private/tmp/z/in",
    "/opt/data",
    "/Users/dev/.ssh",
];
const ABSENT: [&str; 6] = [
    "/Users/dev/w/proj/caf\u{e9}",
    "/Users/dev/w/proj/new/deep/f",
    "/Users/dev/w/gone",
    "/Users/dev/w/proj/a b (1)",
    "/private/tmp/z/x",
    "/Users/dev/.aws/credentials",
];
pub(super) const FILES: [&str; 3] = [
    "/Users/dev/w/proj/lock",
    "/Users/dev/w/proj/q\"uo)te\\",
    "/Users/dev/lib/x",
];
const PATTERNS: [&str; 8] = [
    ".env",
    "*.pem",
    "k?y",
    "[ab]x.toml",
    "**/gen/**",
    "./sub/*/secret",
    "/Users/dev/w/*/top",
    "*.a.b",
];

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Access {
    Write,
    ReadOnly,
    Read,
    Runner,
}

#[derive(Debug, Clone)]
pub(super) struct Spec {
    pub(super) host_view: bool,
    pub(super) read_only: bool,
    pub(super) grants: Vec<(String, Access)>,
    pub(super) hides: Vec<String>,
    pub(super) protected: Vec<String>,
    pub(super) patterns: Vec<String>,
    /// Patterns of `deny_read`.
    pub(super) hidden_names: Vec<String>,
    /// `*.key` of the profile, lifted below `node_modules`.
    pub(super) soft: bool,
    pub(super) exec: Option<Vec<String>>,
    pub(super) dns: bool,
    pub(super) events: bool,
    pub(super) keychain: bool,
}

/// A small generator: the same seed, the same specs.
#[derive(Debug)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % (n as u64)).unwrap()
    }
    pub(super) fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.roll(list.len())]
    }
}

impl Spec {
    pub(super) fn random(d: &mut Dice) -> Self {
        let anything: Vec<&str> = DIRS.iter().chain(&ABSENT).chain(&FILES).copied().collect();
        let some = |d: &mut Dice, from: &[&str], n: usize| -> Vec<String> {
            (0..d.roll(n)).map(|_| d.pick(from).to_owned()).collect()
        };
        let mut grants = vec![(
            "/Users/dev/w/proj".to_owned(),
            if d.roll(4) == 0 {
                Access::ReadOnly
            } else {
                Access::Write
            },
        )];
        for _ in 0..d.roll(5) {
            let access = [
                Access::Write,
                Access::ReadOnly,
                Access::Read,
                Access::Runner,
            ][d.roll(4)];
            grants.push((d.pick(&DIRS[..9]).to_owned(), access));
        }
        Self {
            host_view: d.roll(2) == 0,
            read_only: d.roll(4) == 0,
            grants,
            hides: some(d, &anything, 3),
            protected: some(d, &anything, 4),
            patterns: some(d, &PATTERNS, 4),
            hidden_names: some(d, &["*.pem", "**/t.key", "./sub/*/secret", "k?y"], 2),
            soft: d.roll(2) == 0,
            exec: (d.roll(2) == 0).then(|| some(d, &DIRS[1..5], 3)),
            dns: d.roll(2) == 0,
            events: d.roll(4) == 0,
            keychain: d.roll(4) == 0,
        }
    }

    pub(super) fn policy(&self) -> Policy {
        let mut p = dispatch();
        p.fs.caches = Caches::None;
        p.fs.terminal_secrets_only = true;
        p.fs.view = if self.host_view {
            View::Host
        } else {
            View::Bound
        };
        p.mode = if self.read_only {
            Mode::Review
        } else {
            Mode::Chat
        };
        p.net.mode = NetworkMode::Filtered;
        p.macos.dns = self.dns;
        p.macos.allow_apple_events = self.events;
        p.macos.keychain = self.keychain;
        p.exec_deny_writable = self.exec.is_some();
        for (path, access) in &self.grants {
            match access {
                Access::Write => p.fs.binds.push(bind(path, false)),
                Access::ReadOnly => p.fs.binds.push(bind(path, true)),
                Access::Read => p.fs.allow_read.push(entry(path)),
                Access::Runner => p.fs.runner_state_dirs.push(entry(path)),
            }
        }
        // The rows of the table that this profile has; named here, because the profile's own text does it elsewhere.
        p.fs.deny_read.extend(self.hides.iter().map(|h| entry(h)));
        p.fs.protected
            .extend(self.protected.iter().map(|h| entry(h)));
        let parse = |text: &str, kind| {
            PathEntry::parse(
                text,
                false,
                kind,
                Path::new("/Users/dev/w"),
                Path::new(HOME),
            )
            .unwrap()
        };
        for text in &self.patterns {
            p.fs.deny_write.push(Ruled {
                value: parse(text, ListKind::DenyWrite),
                origin: origin(9),
            });
        }
        for text in &self.hidden_names {
            p.fs.deny_read.push(Ruled {
                value: parse(text, ListKind::DenyRead),
                origin: origin(9),
            });
        }
        if self.soft {
            let profile = layer(Layer::Profile("dispatch".to_owned()));
            p.fs.deny_write.push(Ruled {
                value: parse("*.key", ListKind::DenyWrite),
                origin: profile,
            });
            p.fs.allow_create.push(Ruled {
                value: parse("node_modules/**/*.key", ListKind::AllowCreate),
                origin: origin(9),
            });
        }
        for root in self.exec.iter().flatten() {
            p.fs.exec_grant_roots.push(entry(root));
        }
        p
    }
}

pub(super) fn host() -> HostFacts {
    HostFacts {
        home: PathBuf::from(HOME),
        home_real: PathBuf::from(HOME),
        cwd: PathBuf::from("/Users/dev/w/proj"),
        cwd_real: PathBuf::from("/Users/dev/w/proj"),
        hostname: "box".into(),
        env: Vec::new(),
        state_dir: PathBuf::from("/Users/dev/.local/state/ccbox"),
        config_dir: PathBuf::from("/Users/dev/.config/ccbox"),
        ..facts()
    }
}

pub(super) fn mac() -> FakeFs {
    let mut fs = FakeFs::new()
        .link("/tmp", "private/tmp")
        .link("/var", "private/var")
        .link("/etc", "private/etc")
        .dir("/Users/dev/w/proj/.git/hooks")
        .file("/Users/dev/w/proj/.git/HEAD", "")
        .file("/Users/dev/w/proj/.git/config", "")
        .dir("/Users/dev/w/proj/.git/objects")
        .dir("/Users/dev/w/proj/.git/refs")
        .dir("/private/var/folders/q1/x0/T");
    for dir in DIRS {
        fs = fs.dir(dir);
    }
    for file in FILES {
        fs = fs.file(file, "");
    }
    fs
}

pub(super) const SECRETS: [&str; 5] = [".ssh", ".aws", ".gnupg", ".config/gh", "Library/Keychains"];

pub(super) fn names(path: &str) -> Vec<&str> {
    path.split('/').filter(|n| !n.is_empty()).collect()
}

pub(super) fn below(path: &str, dir: &str) -> bool {
    let (p, d) = (names(path), names(dir));
    p.len() >= d.len() && p[..d.len()] == d[..]
}

fn glob_name(p: &[u8], n: &[u8]) -> bool {
    match (p.first(), n.first()) {
        (None, None) => true,
        (Some(b'*'), _) => glob_name(&p[1..], n) || !n.is_empty() && glob_name(p, &n[1..]),
        (Some(b'?'), Some(_)) => glob_name(&p[1..], &n[1..]),
        (Some(b'['), Some(c)) => {
            let end = p.iter().position(|b| *b == b']').unwrap();
            p[1..end].contains(c) && glob_name(&p[end + 1..], &n[1..])
        }
        (Some(a), Some(b)) if a == b => glob_name(&p[1..], &n[1..]),
        _ => false,
    }
}

fn glob(p: &[&str], n: &[&str]) -> bool {
    match (p.first(), n.first()) {
        (None, _) => n.is_empty(),
        (Some(&"**"), _) => glob(&p[1..], n) || !n.is_empty() && glob(p, &n[1..]),
        (Some(a), Some(b)) => glob_name(a.as_bytes(), b.as_bytes()) && glob(&p[1..], &n[1..]),
        (Some(_), None) => false,
    }
}

/// The pattern names the path or a directory above.
pub(super) fn pattern_covers(pattern: &str, path: &str) -> bool {
    let anchored = pattern
        .strip_prefix("./")
        .map(|r| format!("/Users/dev/w/{r}"));
    let pattern = anchored.as_deref().unwrap_or(pattern).to_lowercase();
    let (p, n) = (names(&pattern), names(path));
    let starts = if pattern.starts_with('/') {
        0..1
    } else {
        0..n.len()
    };
    starts
        .into_iter()
        .any(|from| (from + 1..=n.len()).any(|to| glob(&p, &n[from..to])))
}
