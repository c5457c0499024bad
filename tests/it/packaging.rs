//! `packaging/macos-check.sh`, with stand-ins for the programs of macOS: one line for each point, and each tells a rule that holds from
//! one that does not.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::support::{CCBOX, program};

/// As `/usr/bin/sandbox-exec`, with its exit codes and words. A profile that refuses something keeps every command from running where
/// the file `strict` is there; elsewhere it keeps nothing.
const SANDBOX_EXEC: &str = r#"#!/bin/sh
here=$(dirname "$0")
[ $# -ge 3 ] || { echo 'usage: sandbox-exec' >&2; exit 64; }
[ "$1" = -f ] && text=$(cat "$2") || text=$2
case $text in *frobnicate*) echo 'sandbox-exec: <input string>:1:27: unbound variable: frobnicate' >&2; exit 65 ;; esac
case $text in *'(deny '*)
    [ -z "$INSIDE" ] || { echo 'sandbox-exec: sandbox_apply: Operation not permitted' >&2; exit 71; }
    export INSIDE=1
    [ -e "$here/strict" ] && [ "$1" = -p ] && [ "$5" != -p ] && [ "${4##*/}" != sandbox-exec ] && exit 1 ;;
esac
shift 2
[ "$1" = -- ] && shift
exec "$@"
"#;

/// As `/usr/bin/log show`.
const LOG: &str = r#"#!/bin/sh
tag=$(printf '%s' "$*" | grep -o 'ccbox-[0-9a-f]*' | head -n 1)
printf '{"processID":0,"eventMessage":"Sandbox: nc(7) deny(1) network-outbound remote:*:443\\n%s"}\n' "$tag"
"#;

/// The word of each point, by its number; what it prints besides.
fn points(strict: bool) -> (BTreeMap<String, String>, String) {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let (sandbox_exec, log) = (put("sandbox-exec", SANDBOX_EXEC), put("log", LOG));
    if strict {
        put("strict", "");
    }
    let temp = dir.path().join("temp");
    std::fs::create_dir(&temp).unwrap();
    let out = Command::new(script())
        .arg("--ccbox")
        .arg(CCBOX)
        .arg("--sandbox-exec")
        .arg(sandbox_exec)
        .arg("--log")
        .arg(log)
        .env("TMPDIR", &temp)
        .output()
        .unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    let mut words = BTreeMap::new();
    for line in text.lines() {
        let mut parts = line.split_whitespace();
        let (word, number) = (parts.next().unwrap(), parts.next().unwrap());
        assert!(["ok", "FAIL", "told", "skipped"].contains(&word), "{line}");
        assert!(line.contains(": "), "{line}");
        assert_eq!(
            words.insert(number.to_owned(), word.to_owned()),
            None,
            "{line}"
        );
    }
    // Every point in its order, and nothing left.
    let wanted: Vec<String> = (0..=43).map(|n| format!("{n:02}")).collect();
    assert_eq!(
        words.keys().cloned().collect::<Vec<_>>(),
        wanted,
        "{text}{said}"
    );
    assert_eq!(std::fs::read_dir(&temp).unwrap().count(), 0);
    let failed = words.values().any(|word| word == "FAIL");
    assert_eq!(out.status.code(), Some(i32::from(failed)), "{text}");
    (words, text)
}

fn script() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/macos-check.sh")
}

#[test]
fn the_checklist_for_a_mac_tells_what_holds_from_what_does_not() {
    let (open, text) = points(false);
    let (closed, strict) = points(true);
    let word = |words: &BTreeMap<String, String>, n: u32| words[&format!("{n:02}")].clone();
    // Refusals that can be tried on any system: one sandbox keeps nothing, the other everything.
    for n in [5, 7, 8, 9, 10, 15, 17, 18, 21, 22, 23] {
        assert_eq!(
            (word(&open, n).as_str(), word(&closed, n).as_str()),
            ("FAIL", "ok"),
            "{n}\n{text}\n{strict}"
        );
    }
    for n in [19, 20, 24] {
        assert_eq!(
            (word(&open, n).as_str(), word(&closed, n).as_str()),
            ("ok", "FAIL"),
            "{n}\n{text}\n{strict}"
        );
    }
    // A call that works nowhere proves nothing.
    for n in [11, 12, 13, 14] {
        assert_eq!(word(&closed, n), "skipped", "{n}\n{strict}");
    }
    for n in (1..=4).chain(25..=29).chain([32, 34]) {
        assert_eq!(word(&open, n), "ok", "{n}\n{text}");
    }
}

#[test]
fn the_checklist_for_a_mac_is_clean_and_says_how_it_is_called() {
    let shellcheck = Command::new(program("shellcheck"))
        .arg(script())
        .output()
        .unwrap();
    assert!(
        shellcheck.status.success(),
        "{}",
        String::from_utf8_lossy(&shellcheck.stdout)
    );
    let help = Command::new(script()).arg("--help").output().unwrap();
    assert!(help.status.success() && help.stdout.starts_with(b"usage: packaging/macos-check.sh"));
    let wrong = Command::new(script()).arg("--frob").output().unwrap();
    assert_eq!(
        (wrong.status.code(), wrong.stdout.as_slice()),
        (Some(2), &b""[..])
    );
}
