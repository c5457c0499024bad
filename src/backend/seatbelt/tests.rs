//! The profile against the requirements: on random specs, under every reading of rule order.

mod answers;
mod cases;
mod doors;
mod evaluator;
mod expressions;
mod goldens;
mod model;
mod mutants;
mod properties;
mod shared;
mod statements;

use std::path::{Path, PathBuf};

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
        terminals: vec![PathBuf::from("/dev/ttys001")],
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
    const MORE: [&str; 7] = [
        "/Users/dev/w/proj/caf\u{e9}",
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
    if d.roll(2) == 0 {
        path = path.replace('\u{e9}', "e\u{301}");
    }
    if d.roll(8) == 0 && path.starts_with("/private/tmp") {
        path = path.replacen("/private", "", 1);
    }
    path
}

const OPS: [&str; 9] = [
    "file-read-data",
    "file-write-data",
    "file-write-xattr",
    "file-write-unlink",
    "file-write-create",
    "file-link",
    "file-mknod",
    "file-clone",
    "process-exec*",
];

/// What the requirements say.
fn wanted(spec: &Spec, op: &str, path: &str) -> bool {
    let path = path.to_lowercase().replace("e\u{301}", "\u{e9}");
    let path = path
        .strip_prefix("/tmp")
        .map_or(path.clone(), |r| format!("/private/tmp{r}"));
    match op {
        "file-read-data" => spec.readable(&path) || spec.listed(&path),
        "file-write-data" | "file-write-xattr" | "file-mknod" => spec.writable(&path),
        "file-write-unlink" => spec.unlinkable(&path),
        "file-write-create" => spec.creatable(&path),
        "file-link" => spec.linkable(&path),
        "file-clone" => spec.clonable(&path),
        _ => spec.executable(&path),
    }
}

/// Questions that no roll of the dice may leave out: each name that is closed, in each place that could be writable; each path of the
/// spec, what is above it and beside it.
fn directed(spec: &Spec) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    let mut ask = |ops: &[&'static str], path: String| {
        out.extend(ops.iter().map(|op| (*op, path.clone())));
    };
    for dir in ["/Users/dev/w/proj", "/Users/dev/w/proj/deep/er"] {
        for name in answers::closed_names() {
            ask(&["file-write-data", "file-link"], format!("{dir}/{name}"));
            ask(
                &["file-write-create"],
                format!("{dir}/{}", name.to_uppercase()),
            );
        }
        for name in [
            "t.key",
            "T.KEY/x",
            "node_modules/m/t.key",
            "node_modules/t.keys",
        ] {
            ask(&["file-write-data", "file-link"], format!("{dir}/{name}"));
        }
    }
    let grants = spec.grants.iter().map(|(g, _)| g);
    let lists = grants.chain(&spec.hides).chain(&spec.protected);
    for path in lists.chain(spec.exec.iter().flatten()) {
        ask(&OPS, path.clone());
        ask(&OPS, format!("{path}/x"));
        ask(&["file-read-data", "file-write-data"], format!("{path}x"));
        if let Some((above, _)) = path.rsplit_once('/') {
            ask(
                &["file-write-unlink", "file-write-create"],
                above.to_owned(),
            );
            ask(&["file-read-data"], above.to_owned());
        }
    }
    out
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
    for (op, path) in directed(spec) {
        let want = wanted(spec, op, &path);
        out.extend(disagree(&rules, op, &path, want));
    }
    for (op, target, want) in doors::answers(spec) {
        out.extend(disagree(&rules, op, &target, want));
    }
    // By way of the data volume nothing is open that is not open by its name.
    for _ in 0..probes / 4 {
        let (op, path) = (OPS[d.roll(OPS.len())], probe(&mut d));
        let other = format!("/System/Volumes/Data{path}");
        if path.starts_with("/Users") && !wanted(spec, op, &path) {
            let open = disagree(&rules, op, &other, false);
            out.extend(open.filter(|_| op != "file-clone" || !spec.readable(&path.to_lowercase())));
        }
    }
    Ok(out)
}

fn disagree(rules: &[Rule], op: &str, path: &str, want: bool) -> Option<String> {
    for fold in [false, true] {
        let got = decide(rules, fold, op, path);
        if got != [want; 3] {
            return Some(format!("{op} {path}: {READINGS:?} fold {fold} say {got:?}"));
        }
    }
    None
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

/// A work tree that is read-only within a writable one: its `HEAD` is not among what is never written, and can be copied.
#[test]
fn what_is_read_only_is_no_place_of_its_own() {
    let seed = 1_041_576_248_487_156_563;
    let spec = specs(seed, 1).remove(0);
    let found = differences(&spec, &text(&spec).unwrap(), seed, 40).unwrap();
    assert!(found.is_empty(), "{found:#?} {spec:?}");
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
