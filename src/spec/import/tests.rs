//! What settings of other tools amount to: each row beside the spec that says the same.

use std::fmt::Write as _;

use super::super::tests::{Lab, exact};
use crate::policy::{Policy, SandboxMode, View};

mod claude;
mod properties;
mod srt;

/// A key of a list that no branch takes would be an unknown key to whoever writes it.
pub(super) fn every_key_is_known(place: &str, keys: &[&str]) {
    for key in keys {
        for value in ["true", "\"x\"", "[]", "{}", "1"] {
            let entry = format!("{{\"{key}\": {value}}}");
            let text = match place {
                "" if matches!(*key, "network" | "filesystem") => entry,
                "" => format!("{{\"network\": {{}}, \"{key}\": {value}}}"),
                "network" => format!("{{\"network\": {entry}}}"),
                "sandbox" | "permissions" => format!("{{\"{place}\": {entry}}}"),
                _ => format!("{{\"network\": {{}}, \"{place}\": {entry}}}"),
            };
            if let Err(e) = Lab::new().json("settings.json", &text).load() {
                assert!(!e.message.contains("unknown key"), "{text}: {}", e.message);
                assert!(
                    e.message.starts_with(':') || e.message.contains("settings.json:1:"),
                    "{}",
                    e.message
                );
            }
        }
    }
}

/// Every value of a policy without the places they come from, one a line. The working directory that Claude Code opens by
/// itself stands in no key of a spec.
fn values(p: &Policy) -> String {
    let mut out = String::new();
    let fs = &p.fs;
    let net = &p.net;
    let _ = writeln!(
        out,
        "{:?} {:?} {:?} {:?} {:?}",
        p.mode, p.sandbox, p.backend, p.engine, p.profile
    );
    let _ = writeln!(
        out,
        "{:?} {:?} {:?} {:?} {:?}",
        fs.view, fs.disabled, fs.protect_git, fs.protect_project_config, fs.caches
    );
    let _ = writeln!(
        out,
        "{:?} {:?} {:?} {:?}",
        net.mode,
        net.baseline,
        net.allow_local_binding,
        net.all_unix_sockets.is_some()
    );
    let ports = (&net.user_proxies.http, &net.user_proxies.socks);
    let _ = writeln!(
        out,
        "{:?} {:?}",
        ports.0.as_ref().map(|p| p.value),
        ports.1.as_ref().map(|p| p.value)
    );
    let _ = writeln!(
        out,
        "{:?} {:?} {:?}",
        p.upstream, p.macos, p.exec_deny_writable
    );
    for (name, list) in [
        ("allow_write", &fs.allow_write),
        ("deny_write", &fs.deny_write),
        ("deny_read", &fs.deny_read),
        ("allow_read", &fs.allow_read),
        ("protected", &fs.protected),
        ("sockets", &net.unix_sockets),
    ] {
        for entry in list {
            let _ = writeln!(out, "{name} {:?}", entry.value);
        }
    }
    for (name, list) in [("allowed", &net.allowed), ("denied", &net.denied)] {
        for rule in list {
            let _ = writeln!(out, "{name} {:?}", rule.value);
        }
    }
    for name in &p.env.unset {
        let _ = writeln!(out, "unset {}", name.value);
    }
    out
}

/// Settings and the spec that says the same, and what is said beside; `@` is the root of the lab.
struct Row {
    settings: &'static str,
    spec: &'static str,
    notices: &'static [&'static str],
}

/// Every imported file shows everything and reaches nothing that it does not name.
const ALWAYS: &str = "[filesystem]\nview = \"host\"\n[network]\nbaseline = false\n";

/// The same places in both labs.
fn places(lab: &Lab) {
    for file in [
        "home/.npm/x",
        "home/cache/x",
        "ws/src/main.rs",
        "ws/[id]/page.tsx",
        "ws/out/x",
        "opt/x",
        "ws/.claude/x",
        "ws/a$b/x",
    ] {
        lab.write(file, "");
    }
}

fn compare(name: &str, row: &Row) -> Policy {
    let lab = Lab::new();
    places(&lab);
    let root = lab.root().display().to_string();
    let lab = lab.json(name, &row.settings.replace('@', &root));
    let got = lab
        .load()
        .unwrap_or_else(|e| panic!("{}: {e}", row.settings))
        .policy;
    let spec = if row.spec.contains("view =") {
        row.spec.to_owned()
    } else {
        merged(row.spec)
    };
    let want = lab
        .with(|r| r.specs.clear())
        .spec(spec.replace('@', &root))
        .policy();
    let (got_values, want_values) = (values(&got), values(&want));
    for (got, want) in got_values.lines().zip(want_values.lines()) {
        assert_eq!(got, want, "{}", row.settings);
    }
    assert_eq!(got_values, want_values, "{}", row.settings);
    let notices: Vec<String> = got.notices.iter().map(|n| n.replace(&root, "@")).collect();
    assert_eq!(notices, row.notices, "{}", row.settings);
    got
}

/// The lines of a row with those that every import has.
fn merged(spec: &str) -> String {
    let mut out = ALWAYS.to_owned();
    let mut top = String::new();
    for line in spec.lines() {
        match line.split_once(": ") {
            Some(("top", line)) => top = format!("{top}{line}\n"),
            Some((table, line)) => {
                let head = format!("[{table}]\n");
                if out.contains(&head) {
                    out = out.replace(&head, &format!("{head}{line}\n"));
                } else {
                    out = format!("{out}{head}{line}\n");
                }
            }
            None => panic!("{line}"),
        }
    }
    format!("{top}{out}")
}

fn refuses(name: &str, settings: &str, says: &str) {
    let e = Lab::new().json(name, settings).error();
    assert_eq!(e.replace("@/ws/", ""), says, "{settings}");
}

#[test]
fn values_know_their_line() {
    let lab = Lab::new();
    places(&lab);
    let p = lab
        .json("s.json", "{\n \"network\": {\n  \"allowedDomains\": [\n   \"a.example\"\n  ]\n },\n \"filesystem\": {\"denyRead\": [\n  \"~/x\"\n ]}\n}")
        .policy();
    let place = |o: &crate::policy::Origin| {
        (
            o.file.clone().unwrap().file_name().unwrap().to_owned(),
            o.line,
        )
    };
    assert_eq!(place(&p.net.allowed[0].origin), ("s.json".into(), Some(4)));
    assert_eq!(place(&p.fs.deny_read[0].origin), ("s.json".into(), Some(8)));
    // The file itself is closed to the command, and no hint adds TOML to it.
    assert!(p.fs.own_files.iter().any(|f| f.value.ends_with("s.json")));
    assert_eq!(p.net.hint_file, None);
}

#[test]
fn which_tool_and_what_is_no_settings_file() {
    for (settings, says) in [
        (
            "{}",
            "s.json:1:1: neither settings of Claude Code (`sandbox`, `permissions`) nor of srt (`network`, `filesystem`); hint: `ccbox init` writes a commented TOML spec",
        ),
        (
            "{\"sandbox\": {}, \"network\": {}}",
            "s.json:1:17: `network` is a key of srt's settings, `sandbox` one of Claude Code's; hint: put the two into files of their own and give both",
        ),
        (
            "{\"network\": {}, // x\n}",
            "s.json:1:17: not JSON: `/` where a key in quotes belongs; hint: JSON takes no comments",
        ),
        (
            "{\"network\": {},}",
            "s.json:1:16: not JSON: `}` where a key in quotes belongs",
        ),
        (
            "{\n\"network\": {\"allowedDomains\": [\"x.example\"}}",
            "s.json:2:43: not JSON: `}` where `,` or `]` belongs",
        ),
    ] {
        refuses("s.json", settings, says);
    }
    // Nowhere else: a file that is found is not a given one.
    let lab = Lab::new().project("{\"network\": {}}");
    assert_eq!(
        lab.error(),
        "@/ws/ccbox.toml:1:1: JSON settings of another tool count only where they are given with `--spec`; hint: `ccbox init` writes a commented TOML spec"
    );
}

#[test]
fn what_is_only_implied_gives_way() {
    let spec = "[filesystem]\nview = \"bound\"\n";
    let p = Lab::new()
        .spec(spec)
        .json("s.json", "{\"network\": {}}")
        .policy();
    assert_eq!(p.fs.view, View::Bound);
    let block = "{\"permissions\": {\"blockReadsOutsideWorkingDirectories\": true}}";
    let open = "{\"permissions\": {\"blockReadsOutsideWorkingDirectories\": false}}";
    for (first, second) in [(block, open), (open, block)] {
        let p = Lab::new()
            .json("a.json", first)
            .json("b.json", second)
            .policy();
        assert_eq!(p.fs.view, View::Bound);
    }
    assert_eq!(p.sandbox, SandboxMode::Require);
    let lab = Lab::new().user("[filesystem]\nview = \"bound\"\ndeny_read = [\"/u\"]");
    let p = lab.json("s.json", "{\"network\": {}}").policy();
    assert_eq!((p.fs.view, exact(&p.fs.deny_read).len()), (View::Host, 1));
}
