//! The profile against the requirements: on random specs, under every reading of rule order.

mod cases;
mod evaluator;
mod model;
mod mutants;

use std::path::Path;

use super::{RunFacts, render};
use crate::plan::{PlanError, seatbelt};
use evaluator::{READINGS, Rule, TAG, decide, parse};
use model::{DIRS, Dice, FILES, Spec, TMP, host, mac};
use proptest::prelude::*;

fn text(spec: &Spec) -> Result<String, PlanError> {
    let rules = seatbelt::rules(&spec.policy(), &host(), &mac(), Path::new(TMP))?;
    let run = RunFacts {
        tag: TAG.to_owned(),
        proxy_port: 51234,
    };
    Ok(render(&rules, &run).unwrap())
}

/// Paths worth asking about: those of the specs, near misses, other cases, what lies above and below.
fn probe(d: &mut Dice) -> String {
    const TAILS: [&str; 24] = [
        "",
        "",
        "",
        "/x",
        "/.env",
        "/xenv",
        "/foo.env",
        "/.env.bak",
        "/k.pem",
        "/k.pem/y",
        "/kpem",
        "/key",
        "/kEy",
        "/ax.toml",
        "/a/gen/o",
        "/.git/hooks/p",
        "/.git",
        "/.git/refs/heads/m",
        "/.vscode/s",
        "/.claude/settings.json",
        "/.claude",
        "/.zshrc",
        "/node_modules/m/t.key",
        "/t.key",
    ];
    const OTHERS: [&str; 11] = [
        "/Users/dev",
        "/Users",
        "/Users/other/f",
        "/etc/hosts",
        "/usr/bin/osascript",
        "/usr/bin/security",
        "/usr/bin/true",
        "/private/var/folders/q1/x0/T/ccbox-run/f",
        "/Users/dev/.config/gh",
        "/Users/dev/w/sub/q/secret",
        "/Users/dev/w/n/top",
    ];
    const MORE: [&str; 6] = [
        "/Users/dev/w/proj/new",
        "/Users/dev/w/proj/new/deep",
        "/Users/dev/w/gone",
        "/Users/dev/w/proj/x.a.b",
        "/Users/dev/w/proj/HEAD",
        "/Users/dev/.aws/credentials",
    ];
    let base = match d.roll(8) {
        0 => d.pick(&OTHERS),
        1 => d.pick(&MORE),
        2 => d.pick(&FILES),
        _ => d.pick(&DIRS),
    };
    let mut path = format!("{base}{}", d.pick(&TAILS));
    if d.roll(8) == 0 {
        path.push('x');
    }
    // Exceptions do not fold.
    if d.roll(6) == 0 && !path.contains("node_modules") {
        path = path.to_uppercase();
    }
    if d.roll(8) == 0 && path.starts_with("/private/tmp") {
        path = path.replacen("/private", "", 1);
    }
    path
}

const OPS: [&str; 6] = [
    "file-read-data",
    "file-write-data",
    "file-write-unlink",
    "file-write-create",
    "file-link",
    "process-exec*",
];

/// What the requirements say.
fn wanted(spec: &Spec, op: &str, path: &str) -> bool {
    let path = path.to_lowercase();
    let path = path
        .strip_prefix("/tmp")
        .map_or(path.clone(), |r| format!("/private/tmp{r}"));
    match op {
        "file-read-data" => spec.readable(&path) || way(spec, &path),
        "file-write-data" => spec.writable(&path),
        "file-write-unlink" => spec.unlinkable(&path),
        "file-write-create" => spec.creatable(&path),
        "file-link" => spec.linkable(&path),
        _ => spec.executable(&path),
    }
}

/// A directory on the way to something open is listed.
fn way(spec: &Spec, path: &str) -> bool {
    let open = spec.grants.iter().map(|(g, _)| g.to_lowercase());
    let open = open.filter(|g| spec.readable(g));
    !spec.readable(&format!("{path}/x"))
        && open
            .chain([TMP.to_lowercase(), "/users/dev/_".to_owned()])
            .any(|g| g != path && model::below(&g, path))
        && spec.unhidden(path)
}

/// The first answers that differ.
fn differences(spec: &Spec, text: &str, seed: u64, probes: usize) -> Result<Vec<String>, String> {
    let rules = parse(text)?;
    let mut d = Dice(seed);
    let mut out = Vec::new();
    for _ in 0..probes {
        let (op, path) = (OPS[d.roll(OPS.len())], probe(&mut d));
        let want = wanted(spec, op, &path);
        out.extend(disagree(&rules, op, &path, want));
    }
    for (op, target, want) in others(spec) {
        out.extend(disagree(&rules, op, target, want));
    }
    Ok(out)
}

fn disagree(rules: &[Rule], op: &str, path: &str, want: bool) -> Option<String> {
    for reading in READINGS {
        for fold in [false, true] {
            let got = decide(rules, reading, fold, op, path);
            if got != want {
                return Some(format!("{op} {path}: {reading:?} fold {fold} says {got}"));
            }
        }
    }
    None
}

/// Doors and the network.
fn others(spec: &Spec) -> Vec<(&'static str, &'static str, bool)> {
    vec![
        ("file-write-data", "/dev/null", true),
        ("file-write-data", "/dev/ttys003", true),
        ("file-write-data", "/dev/disk0", false),
        ("network-outbound", "localhost:51234", true),
        ("network-outbound", "localhost:22", false),
        ("network-outbound", "192.0.2.1:443", false),
        (
            "network-outbound",
            "/private/var/run/mDNSResponder",
            spec.dns,
        ),
        ("network-outbound", "/private/var/run/docker.sock", false),
        ("network-bind", "local:*:8080", false),
        ("network-inbound", "local:*:8080", false),
        ("lsopen", "", spec.events),
        ("appleevent-send", "com.apple.finder", spec.events),
        (
            "mach-lookup",
            "com.apple.coreservices.launchservicesd",
            spec.events,
        ),
        ("mach-lookup", "com.apple.securityd", false),
        ("mach-lookup", "com.apple.trustd.agent", true),
        ("file-ioctl", "TIOCSTI", false),
        ("file-ioctl", "TIOCGWINSZ", true),
        ("signal", "same-sandbox", true),
        ("signal", "others", false),
        ("user-preference-write", "com.example", false),
    ]
}

/// Specs that can be run, from a seed.
fn specs(seed: u64, count: usize) -> Vec<Spec> {
    let mut d = Dice(seed);
    let mut out = Vec::new();
    for _ in 0..count * 20 {
        let spec = Spec::random(&mut d);
        if text(&spec).is_ok() {
            out.push(spec);
        }
        if out.len() == count {
            return out;
        }
    }
    panic!("too few specs can be run: {}", out.len());
}

#[test]
fn the_profile_says_what_the_requirements_say() {
    let mut all = Vec::new();
    for (n, spec) in specs(1, 40).iter().enumerate() {
        let text = text(spec).unwrap();
        for found in differences(spec, &text, n as u64, 60).unwrap() {
            all.push(format!("{found} in {spec:?}"));
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn and_so_do_others(seed in any::<u64>()) {
        let spec = specs(seed, 1).remove(0);
        let text = text(&spec).unwrap();
        prop_assert_eq!(&text, &self::text(&spec).unwrap());
        let found = differences(&spec, &text, seed, 40).unwrap();
        prop_assert!(found.is_empty(), "{:#?} {:?}", found, spec);
    }
}
