//! One spec, one meaning: the same text on Linux, as `ccbox check` answers, and on macOS, as its profile is read. Where the answers
//! differ, a difference with a name says so, and the manual lists each.

mod rows;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use super::evaluator::{Rule, TAG, decide, parse};
use super::model::HOME;
use super::{RunFacts, render};
use crate::host::fs_view::FakeFs;
use crate::host::{FsView, HostFacts};
use crate::plan::check;
use crate::plan::fixture::facts;
use crate::plan::{Plan, PlanError, real_path, seatbelt};
use crate::policy::egress::Decision;
use crate::policy::host::Authority;
use crate::policy::{NetworkMode, Policy};
use crate::spec::{self, FlagRules, LoadRequest, SpecSource};
use rows::{DIFFERENCES, EXPECTED, NOT_ASKED, PATHS, SPECS};

const TMP: &str = "/private/var/folders/q1/x0/T/ccbox-run";

fn machine(macos: bool) -> FakeFs {
    let mut fs = FakeFs::new()
        .file("/usr/bin/true", "")
        .dir("/usr/lib")
        .dir("/Users/dev/w/proj/.git/objects")
        .dir("/Users/dev/w/proj/.git/refs/heads")
        .dir("/Users/dev/w/proj/.git/hooks")
        .file("/Users/dev/w/proj/.git/HEAD", "ref: refs/heads/main\n")
        .file("/Users/dev/w/proj/.git/config", "[core]\n")
        .dir("/Users/dev/.local/state/ccbox")
        .dir("/private/var/folders/q1/x0/T");
    for row in PATHS {
        let (kind, path) = row.split_once(' ').unwrap();
        fs = match kind {
            "d" => fs.dir(path),
            "f" => {
                let fs = fs.dir(Path::new(path).parent().unwrap());
                fs.file(
                    path,
                    if path.ends_with("config") {
                        "[core]\n"
                    } else {
                        ""
                    },
                )
            }
            _ => fs,
        };
    }
    if macos {
        let fs = fs.link("/tmp", "private/tmp").link("/var", "private/var");
        return fs.dir("/private/tmp");
    }
    ["/dev", "/sys", "/tmp", "/var/tmp", "/run", "/home", "/mnt"]
        .iter()
        .fold(
            fs.link("/bin", "usr/bin").link("/lib", "usr/lib"),
            FakeFs::dir,
        )
        .file("/proc/keys", "")
}

fn host() -> HostFacts {
    HostFacts {
        home: HOME.into(),
        home_real: HOME.into(),
        cwd: "/Users/dev/w/proj".into(),
        cwd_real: "/Users/dev/w/proj".into(),
        env: Vec::new(),
        state_dir: "/Users/dev/.local/state/ccbox".into(),
        config_dir: "/Users/dev/.config/ccbox".into(),
        ..facts()
    }
}

fn policy(text: &str, macos: bool) -> Policy {
    let request = LoadRequest {
        specs: vec![SpecSource::Inline(text.to_owned())],
        profile: None,
        params: Vec::new(),
        flags: FlagRules::default(),
        env_spec: None,
        env_sandbox: None,
        cwd: "/Users/dev/w".into(),
        home: HOME.into(),
        uid: 1000,
        config_dir: "/nowhere/config".into(),
        state_dir: "/nowhere/state".into(),
        managed: "/nowhere/managed.toml".into(),
        stdin_spec: None,
    };
    spec::load_as(&request, macos).unwrap().policy
}

/// Both sides of one spec.
struct Pair {
    name: &'static str,
    linux: Plan,
    linux_fs: FakeFs,
    rules: Vec<Rule>,
    macos_fs: FakeFs,
    macos: Policy,
}

fn seatbelt_of(text: &str) -> Result<(Policy, Vec<Rule>), PlanError> {
    let macos = policy(text, true);
    let rules = seatbelt::rules(&macos, &host(), &machine(true), Path::new(TMP))?;
    let run = RunFacts {
        tag: TAG.to_owned(),
        proxy_port: 51234,
        terminals: Vec::new(),
    };
    Ok((macos, parse(&render(&rules, &run).unwrap()).unwrap()))
}

impl Pair {
    fn new((name, text): (&'static str, &str)) -> Option<Self> {
        let linux_fs = machine(false);
        let linux = Plan::resolve(&policy(text, false), &host(), &["true".into()], &linux_fs);
        let (macos, rules) = seatbelt_of(text).ok()?;
        Some(Self {
            name,
            linux: linux.unwrap_or_else(|e| panic!("{name}: {e}")),
            linux_fs,
            rules,
            macos_fs: machine(true),
            macos,
        })
    }

    fn on_linux(&self, op: char, path: &Path) -> bool {
        let real = real_path(&self.linux_fs, path);
        match op {
            'r' => check::read(&self.linux, &real).allowed,
            'w' => check::write(&self.linux, &self.linux_fs, &real).allowed,
            _ => check::exec(&self.linux, &real).allowed,
        }
    }

    fn on_macos(&self, op: char, path: &Path) -> bool {
        let real = real_path(&self.macos_fs, path);
        let meta = self.macos_fs.meta(&real);
        let (op, at) = match op {
            'r' => ("file-read-data", real),
            'x' => ("process-exec*", real),
            // A directory is written by making entries in it.
            _ if meta.is_some_and(|m| m.kind == crate::host::fs_view::Kind::Dir) => {
                ("file-write-create", real.join("entry"))
            }
            _ if meta.is_some() => ("file-write-data", real),
            _ => ("file-write-create", real),
        };
        self.decided(op, at.to_str().unwrap())
    }

    /// Every reading says the same.
    fn decided(&self, op: &str, target: &str) -> bool {
        let answers = [false, true].map(|fold| decide(&self.rules, fold, op, target));
        assert_eq!(answers.concat(), vec![answers[0][0]; 6], "{op} {target}");
        answers[0][0]
    }
}

/// What is asked of the network. The two sides of a question that the policy does not answer are written down.
fn network(pair: &Pair, out: &mut Vec<Row>) {
    let open = pair.macos.net.mode == NetworkMode::Open;
    let egress = |policy: &crate::policy::egress::EgressPolicy, target: &str| {
        let asked = Authority::parse(target.as_bytes(), Some(443)).unwrap();
        matches!(policy.decide(&asked.host, asked.port), Decision::Allow(_))
    };
    let macos_egress = crate::policy::egress::EgressPolicy::new(&pair.macos.net);
    for target in [
        "github.com",
        "x.example.com",
        "example.com",
        "a.test:8443",
        "a.test:443",
        "other.test",
        "169.254.169.254:80",
    ] {
        let linux = egress(&pair.linux.network.egress, target);
        let macos =
            egress(&macos_egress, target) && pair.decided("network-outbound", "localhost:51234");
        out.push(Row::new(pair.name, "host", target, linux, macos));
    }
    for (what, op, target, linux) in [
        (
            "past the proxies",
            "network-outbound",
            "192.0.2.1:443",
            open,
        ),
        (
            "loopback of the host",
            "network-outbound",
            "localhost:22",
            open,
        ),
        (
            "named port of the host",
            "network-outbound",
            "localhost:5432",
            open || pair.linux.network.forwarded_ports.contains(&5432),
        ),
        (
            "socket of somebody else",
            "network-outbound",
            "/private/var/run/docker.sock",
            false,
        ),
        (
            "resolver",
            "network-outbound",
            "/private/var/run/mDNSResponder",
            open,
        ),
        ("listen on loopback", "network-bind", "local:*:8080", true),
        ("signal to the host", "signal", "others", false),
        ("signal to itself", "signal", "same-sandbox", true),
        (
            "processes of the host",
            "process-info-pidinfo",
            "others",
            false,
        ),
        (
            "keys typed for the terminal",
            "file-ioctl",
            "TIOCSTI",
            false,
        ),
    ] {
        out.push(Row::new(
            pair.name,
            what,
            target,
            linux,
            pair.decided(op, target),
        ));
    }
}

/// One question and both answers.
struct Row {
    spec: &'static str,
    op: &'static str,
    target: String,
    linux: bool,
    macos: bool,
}

impl Row {
    fn new(spec: &'static str, op: &'static str, target: &str, linux: bool, macos: bool) -> Self {
        Self {
            spec,
            op,
            target: target.to_owned(),
            linux,
            macos,
        }
    }

    /// Why the answers may differ: as narrow as the difference is.
    fn why(&self) -> Option<&'static str> {
        let path = self.target.as_str();
        let bound = !matches!(self.spec, "dev" | "terminal" | "disabled");
        let system = ["/srv/", "/Library/"].iter().any(|p| path.starts_with(p));
        let dispatch = bound && !matches!(self.spec, "exec" | "strict");
        let granted = [
            "/Users/dev/w/proj",
            "/Users/dev/w/outer/inner",
            "/Users/dev/state",
            "/opt/data",
        ];
        let granted = granted.iter().any(|p| path.starts_with(p));
        match (self.op, self.macos) {
            ("run", false) if self.spec == "guest" => Some("guest-path"),
            (_, _) if path.contains("/PROJ/") => Some("case"),
            ("read" | "exec", true) if bound && system => Some("view"),
            ("read" | "write" | "exec", false) if path == "/tmp/x" => Some("tmp"),
            ("exec", false) if path.starts_with("/usr/bin/") => Some("programs"),
            ("exec", false) if dispatch && granted => Some("deny-writable"),
            ("write", false) if path.starts_with("/Users/dev/.cache") => Some("caches"),
            ("write", false) if path.ends_with("/deep/.zshrc") => Some("any-depth"),
            ("write", false) if path.ends_with("/deep/.git") => Some("git"),
            ("write", false) if self.spec == "protected" && path.ends_with("/gone") => {
                Some("above")
            }
            ("write", false) if path.ends_with("cafe\u{301}") => Some("accents"),
            ("write", false) if path.ends_with("b\u{e4}d") => Some("characters"),
            ("write", false) if path.contains("/outer/inner") => Some("pattern-above"),
            ("resolver", true) => Some("dns"),
            ("listen on loopback", false) => Some("listen"),
            ("loopback of the host", true) if self.spec == "net" => Some("loopback"),
            _ => None,
        }
    }
}

fn rows() -> Vec<Row> {
    let mut out = Vec::new();
    for spec in SPECS {
        let Some(pair) = Pair::new(spec) else {
            out.push(Row::new(spec.0, "run", "-", true, false));
            continue;
        };
        for row in PATHS {
            let path = Path::new(&row[2..]);
            for (op, name) in [('r', "read"), ('w', "write"), ('x', "exec")] {
                let (linux, macos) = (pair.on_linux(op, path), pair.on_macos(op, path));
                out.push(Row::new(pair.name, name, &row[2..], linux, macos));
            }
        }
        network(&pair, &mut out);
    }
    out
}

/// `rwx` of a path.
fn letters(rows: &[Row], spec: &str, path: &str, of: fn(&Row) -> bool) -> String {
    let asked = rows.iter().filter(|r| r.spec == spec && r.target == path);
    let one = |r: &Row| {
        let letter = if r.op == "exec" {
            'x'
        } else {
            r.op.chars().next().unwrap()
        };
        if of(r) { letter } else { '-' }
    };
    asked.map(one).collect()
}

#[test]
fn one_spec_means_the_same_on_both_systems() {
    let rows = rows();
    assert!(rows.len() >= 300, "{}", rows.len());
    let mut wrong = String::new();
    for r in rows.iter().filter(|r| r.linux != r.macos) {
        let listed = |why| DIFFERENCES.iter().any(|(name, _)| *name == why);
        if !r.why().is_some_and(listed) {
            let Row {
                spec,
                op,
                target,
                linux,
                macos,
            } = r;
            let _ = writeln!(wrong, "{spec} {op} {target}: linux {linux}, macos {macos}");
        }
    }
    for (spec, path, linux, macos) in EXPECTED {
        let got = (
            letters(&rows, spec, path, |r| r.linux),
            letters(&rows, spec, path, |r| r.macos),
        );
        if (got.0.as_str(), got.1.as_str()) != (linux, macos) {
            let _ = writeln!(wrong, "{spec} {path}: wanted {linux} {macos}, is {got:?}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    insta::assert_snapshot!("shared", table(&rows));
}

/// The table as it is kept, a line for each path: what is allowed on Linux, on macOS, and why that differs.
fn table(rows: &[Row]) -> String {
    let mut out = String::new();
    let is_path = |r: &Row| matches!(r.op, "read" | "write" | "exec");
    let same = |a: &Row, b: &Row| is_path(a) && is_path(b) && a.target == b.target;
    for of_path in rows.chunk_by(same) {
        let said = |of: fn(&Row) -> bool| -> String {
            let letter = |r: &Row| match r.op {
                _ if !of(r) => "-",
                "read" => "r",
                "write" => "w",
                "exec" => "x",
                _ => "yes",
            };
            of_path.iter().map(letter).collect()
        };
        let differing = of_path.iter().filter(|r| r.linux != r.macos);
        let why: BTreeSet<&str> = differing.filter_map(Row::why).collect();
        let why: Vec<&str> = why.into_iter().collect();
        let (spec, op) = (of_path[0].spec, of_path[0].op);
        let what = if is_path(&of_path[0]) { "path" } else { op };
        let (linux, macos) = (said(|r| r.linux), said(|r| r.macos));
        let line = format!(
            "{spec:<10} {linux:<4} {macos:<4} {what} {} {}",
            of_path[0].target,
            why.join(" ")
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

#[test]
fn each_difference_occurs_and_is_in_the_manual() {
    let rows = rows();
    let differing = rows.iter().filter(|r| r.linux != r.macos);
    let found: BTreeSet<&str> = differing.filter_map(Row::why).chain(NOT_ASKED).collect();
    let listed: BTreeSet<&str> = DIFFERENCES.iter().map(|(name, _)| *name).collect();
    assert_eq!(found, listed);
    let manual = include_str!("../../../../man/ccbox.toml.5");
    let (_, section) = manual.split_once(".Sh DIFFERENCES ON MACOS").unwrap();
    let (section, _) = section.split_once("\n.Sh ").unwrap();
    let plain = plain(section);
    for (name, words) in DIFFERENCES {
        assert!(
            plain.contains(words),
            "{name}: `{words}` is not in\n{plain}"
        );
    }
}

/// The text of a manual page without its macros.
fn plain(section: &str) -> String {
    let mut out = String::new();
    for line in section.lines() {
        let text = line
            .strip_prefix('.')
            .map_or(line, |m| m.split_once(' ').map_or("", |(_, t)| t));
        let text = text
            .replace("\\&", "")
            .replace(" ,", ",")
            .replace(" .", ".");
        let text = text.trim_start_matches("Ic ");
        if !out.is_empty() && !text.is_empty() && !text.starts_with([',', '.', ';'])
            || text.starts_with(".git")
        {
            out.push(' ');
        }
        out.push_str(text);
    }
    out
}
