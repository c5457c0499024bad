//! What the requirements say about a path, written without a look at the planner: on strings, with a matcher of its own.

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
const ABSENT: [&str; 5] = [
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
    /// `*.key` of the profile, lifted below `node_modules`.
    pub(super) soft: bool,
    pub(super) exec: Option<Vec<String>>,
    pub(super) dns: bool,
    pub(super) events: bool,
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
            soft: d.roll(2) == 0,
            exec: (d.roll(2) == 0).then(|| some(d, &DIRS[1..5], 3)),
            dns: d.roll(2) == 0,
            events: d.roll(4) == 0,
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

fn names(path: &str) -> Vec<&str> {
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

const AGENT: [&str; 9] = [
    "settings.json",
    "settings.local.json",
    "skills",
    "agents",
    "commands",
    "hooks",
    "workflows",
    "scheduled_tasks.json",
    ".mcp.json",
];
const START_UP: [&str; 13] = [
    ".mcp.json",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".gitconfig",
];
const GIT: [&str; 5] = [
    "hooks",
    "config",
    "config.worktree",
    "info/attributes",
    "commondir",
];
const SECRETS: [&str; 5] = [".ssh", ".aws", ".gnupg", ".config/gh", "Library/Keychains"];

impl Spec {
    fn places(&self) -> Vec<String> {
        let roots: Vec<&String> = self
            .grants
            .iter()
            .filter(|(_, a)| matches!(a, Access::Write | Access::Runner))
            .map(|(p, _)| p)
            .collect();
        let mut out: Vec<String> = roots.iter().map(|r| (*r).clone()).collect();
        for up in ["/Users/dev/w/proj", "/Users/dev/w"] {
            if roots.iter().any(|r| below(up, r)) {
                out.push(up.to_owned());
            }
        }
        out.sort();
        out.dedup();
        out
    }

    /// Never written, whatever is granted.
    fn never(&self, p: &str) -> bool {
        let n = names(p);
        let tail = |name: &str| pattern_covers(name, p);
        let own = [
            ".local/state/ccbox",
            ".config/ccbox",
            ".claude",
            ".claude.json",
        ];
        let git = (0..n.len()).filter(|i| n[*i] == ".git").any(|i| {
            let rest = &n[i + 1..];
            let at = |rest: &[&str]| {
                GIT.iter()
                    .any(|g| rest.join("/") == *g || rest.join("/").starts_with(&format!("{g}/")))
            };
            rest.is_empty()
                || at(rest)
                || rest[0] == "modules" && (1..rest.len()).any(|j| at(&rest[j..]))
        });
        let runner = self.grants.iter().filter(|(_, a)| *a == Access::Runner);
        git || START_UP.iter().any(|name| tail(name))
            || AGENT[..8].iter().any(|a| tail(&format!(".claude/{a}")))
            || own
                .iter()
                .any(|o| below(p, &format!("{HOME}/{o}").to_lowercase()))
            || runner.into_iter().any(|(r, _)| {
                AGENT
                    .iter()
                    .any(|a| below(p, &format!("{r}/{a}").to_lowercase()))
            })
            || self.protected.iter().any(|q| below(p, &q.to_lowercase()))
            || self.patterns.iter().any(|q| pattern_covers(q, p))
            || self.places().iter().any(|top| {
                let top = top.to_lowercase();
                [".vscode", ".idea"]
                    .iter()
                    .any(|x| below(p, &format!("{top}/{x}")))
                    || top != "/users/dev/w/proj/.git"
                        && ["head", "objects", "refs"]
                            .iter()
                            .any(|x| below(p, &format!("{top}/{x}")))
            })
    }

    fn deepest(&self, p: &str, want: impl Fn(Access) -> bool) -> Option<(usize, Access)> {
        let rank = |a: Access| match a {
            Access::ReadOnly => 3,
            Access::Runner => 2,
            Access::Write => 1,
            Access::Read => 0,
        };
        self.grants
            .iter()
            .filter(|(g, a)| want(*a) && below(p, &g.to_lowercase()))
            .map(|(g, a)| (names(g).len(), *a))
            .max_by_key(|(depth, a)| (*depth, rank(*a)))
    }

    /// Deepest entry wins; a secret of ccbox's own is lifted by a grant of the same path.
    fn hidden(&self, p: &str) -> bool {
        let grant = self.deepest(p, |_| true).map_or(0, |(d, _)| d);
        let hides = self.hides.iter().map(|h| (h.to_lowercase(), false));
        let secrets = SECRETS
            .iter()
            .map(|s| (format!("{HOME}/{s}").to_lowercase(), true));
        hides.chain(secrets).any(|(h, liftable)| {
            below(p, &h) && (names(&h).len() > grant || names(&h).len() == grant && !liftable)
        })
    }

    pub(super) fn unhidden(&self, p: &str) -> bool {
        !self.hidden(p)
    }

    pub(super) fn readable(&self, p: &str) -> bool {
        if below(p, &TMP.to_lowercase()) && !self.hidden(p) {
            return true;
        }
        let closed = [
            "/users",
            "/volumes",
            "/private/tmp",
            "/private/var/tmp",
            "/private/var/folders",
        ];
        !self.hidden(p)
            && (self.host_view
                || self.deepest(p, |_| true).is_some()
                || !closed.iter().any(|c| below(p, c)))
    }

    /// What the grants say, before what is never written.
    fn granted(&self, p: &str) -> bool {
        if below(p, &TMP.to_lowercase()) {
            return true;
        }
        !self.hidden(p)
            && match self.deepest(p, |a| a != Access::Read) {
                Some((_, Access::Runner)) => true,
                Some((_, Access::Write)) => !self.read_only,
                _ => false,
            }
    }

    pub(super) fn writable(&self, p: &str) -> bool {
        let soft = self.soft && pattern_covers("*.key", p) && !lifted(p);
        self.granted(p) && !self.never(p) && !soft
    }

    fn pinned(&self, p: &str) -> bool {
        let tops = self
            .grants
            .iter()
            .map(|(g, _)| g.clone())
            .chain(self.hides.clone());
        let own = [".local/state/ccbox", ".config/ccbox", ".claude"].map(|o| format!("{HOME}/{o}"));
        let secrets = SECRETS.map(|s| format!("{HOME}/{s}"));
        let fixed = self.patterns.iter().filter_map(|q| match q.as_str() {
            "./sub/*/secret" => Some("/Users/dev/w/sub".to_owned()),
            "/Users/dev/w/*/top" => Some("/Users/dev/w".to_owned()),
            _ => None,
        });
        let places = self
            .places()
            .into_iter()
            .flat_map(|t| [format!("{t}/.claude"), format!("{t}/.git/info")]);
        let git = "/Users/dev/w/proj/.git".to_owned();
        tops.chain(self.protected.clone())
            .chain(own)
            .chain(secrets)
            .chain(fixed)
            .chain(places)
            .chain([TMP.to_owned(), git])
            .any(|t| below(&t.to_lowercase(), p))
    }

    pub(super) fn unlinkable(&self, p: &str) -> bool {
        self.writable(p) && !self.pinned(p)
    }

    /// Directories above a protected path that are not there are never made.
    pub(super) fn creatable(&self, p: &str) -> bool {
        let there: Vec<String> = DIRS.iter().map(|d| d.to_lowercase()).collect();
        let exists = |p: &str| there.iter().any(|d| below(d, p));
        let above = self
            .protected
            .iter()
            .map(|q| q.to_lowercase())
            .filter(|q| !exists(q));
        let mut way = above.chain(
            self.places()
                .into_iter()
                .map(|t| format!("{t}/.claude/x").to_lowercase()),
        );
        let unmade = !exists(p) && self.granted(p) && way.any(|q| q != p && below(&q, p));
        self.writable(p) && !unmade
    }

    pub(super) fn linkable(&self, p: &str) -> bool {
        self.readable(p) && !self.never(p)
    }

    pub(super) fn executable(&self, p: &str) -> bool {
        let scripting = ["/usr/bin/osascript", "/usr/bin/open"];
        if p == "/usr/bin/security"
            || p == "/bin/launchctl"
            || scripting.contains(&p) && !self.events
        {
            return false;
        }
        let Some(roots) = &self.exec else { return true };
        let same = |q: &String| below(p, &q.to_lowercase()) && !self.hidden(&q.to_lowercase());
        roots.iter().any(|r| below(p, &r.to_lowercase()))
            || self.protected.iter().any(same)
            || !self.surroundings_writable(p)
    }

    /// What is hidden is as closed as what it stands in.
    fn surroundings_writable(&self, p: &str) -> bool {
        if !self.hidden(p) || below(p, &TMP.to_lowercase()) {
            return self.granted(p);
        }
        let secrets = SECRETS.map(|s| format!("{HOME}/{s}").to_lowercase());
        let hides = self.hides.iter().map(|h| h.to_lowercase()).chain(secrets);
        let covering = hides.filter(|h| below(p, h)).map(|h| names(&h).len());
        let at = covering.max().unwrap_or(0);
        let up = names(p)[..at - 1].join("/");
        match self.deepest(&up, |a| a != Access::Read) {
            Some((_, Access::Runner)) => true,
            Some((_, Access::Write)) => !self.read_only,
            _ => false,
        }
    }
}

fn lifted(p: &str) -> bool {
    pattern_covers("node_modules/**/*.key", p)
}
