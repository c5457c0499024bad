//! `--events`: every call that asks for them tells its end there.

use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::support::{Box, CCBOX, require_sandbox};

fn types(events: &[serde_json::Value]) -> Vec<&str> {
    events.iter().map(|l| l["type"].as_str().unwrap()).collect()
}

fn events_in(file: &Path) -> Vec<serde_json::Value> {
    std::fs::read_to_string(file)
        .unwrap()
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

/// Events of a call that writes them to an inherited descriptor.
fn events(b: &Box, command: &[&str]) -> Vec<serde_json::Value> {
    let (mut r, w) = std::io::pipe().unwrap();
    // The shell puts the pipe on a number above 2, as a harness would.
    let script = format!(
        "exec {CCBOX} run --events fd:9 -f ../spec.toml --session s-1 -- \"$@\" 9>&{}",
        w.as_raw_fd()
    );
    nix::fcntl::fcntl(
        &w,
        nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()),
    )
    .unwrap();
    let mut child = Command::new("bash");
    child
        .args(["-c", &script, "sh"])
        .args(command)
        .current_dir(b.ws())
        .env("HOME", b.path().join("home"));
    let mut child = child
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    drop(w);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut r, &mut text).unwrap();
    child.wait().unwrap();
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

#[test]
fn events_tell_the_whole_life_of_a_run() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let done = events(&b, &["sh", "-c", "exit 125"]);
    assert_eq!(types(&done), ["starting", "ready", "exit"]);
    assert!(
        done.iter()
            .all(|l| l["schema"] == 1 && l["session_id"] == "s-1")
    );
    assert_eq!(done[0]["command"][2], "exit 125");
    assert_eq!(
        (&done[1]["handle"]["backend"], &done[1]["handle"]["state"]),
        (&"native".into(), &"active".into())
    );
    assert_eq!(
        (&done[2]["exit_code"], &done[2]["origin"]),
        (&125.into(), &"command".into())
    );
    assert_eq!(done[2]["state"], "destroyed");
    let killed = events(&b, &["sh", "-c", "kill -9 $$"]);
    assert_eq!(types(&killed), ["starting", "ready", "killed"]);
    assert_eq!(killed[2]["signal"], 9);
    let missing = events(&b, &["no-such-cmd-xyz"]);
    let last = missing.last().unwrap();
    assert_eq!(
        (&last["type"], &last["exit_code"], &last["origin"]),
        (&"error".into(), &127.into(), &"ccbox".into())
    );
    let refused = events(&Box::new().spec("mode = \"chatt\"\n"), &["true"]);
    assert_eq!(types(&refused), ["error"]);
    assert_eq!(
        (&refused[0]["exit_code"], &refused[0]["state"]),
        (&125.into(), &"error".into())
    );
    let named = events(
        &Box::new().spec("session_id = \"s-2\"\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n"),
        &["true"],
    );
    assert!(
        named.iter().all(|l| l["session_id"] == "s-1"),
        "the option wins"
    );
    let denied = events(
        &b,
        &[
            "sh",
            "-c",
            "for i in 1 2; do curl -s http://evil.invalid/; done; true",
        ],
    );
    assert_eq!(
        types(&denied),
        ["starting", "ready", "violation", "violation", "exit"]
    );
    assert_eq!(
        (&denied[2]["target"], &denied[2]["count"]),
        (&"evil.invalid:80".into(), &1.into())
    );
    assert_eq!(denied[3]["count"], 2);
}

#[test]
fn an_events_file_is_private_and_never_a_link() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let file = b.path().join("events");
    b.call(&["run", "--events", "../events", "-f", "../spec.toml", "true"])
        .expect(0, "", "");
    let meta = std::fs::metadata(&file).unwrap();
    assert_eq!(meta.permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 3);
    std::os::unix::fs::symlink(&file, b.path().join("link")).unwrap();
    let refused = b.call(&["run", "--events", "../link", "-f", "../spec.toml", "true"]);
    refused.expect_own_failure(125, &["for events", "never written through a link"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 3);
}

/// A call that is refused before there is a plan, whoever refuses it.
#[test]
fn refused_calls_are_events_too() {
    let refused = |args: &[&str], says: &str| {
        let b = Box::new().spec("mode = \"chatt\"\n");
        let mut all = vec!["run", "--events", "../events", "--session", "s-3"];
        all.extend(args);
        b.call(&all).expect_own_failure(125, &[says]);
        let events = events_in(&b.path().join("events"));
        assert_eq!(types(&events), ["error"]);
        assert_eq!(events[0]["session_id"], "s-3");
        assert!(events[0]["error"].as_str().unwrap().contains(says));
        // The same on a descriptor, with the option behind the mistake.
        let script =
            format!("exec 9>../fd.events; {CCBOX} run \"$@\" 2>/dev/null; wc -l < ../fd.events");
        let mut shell = Command::new("bash");
        shell.args(["-c", &script, "bash"]);
        let (options, command) = args.split_at(args.len() - 1);
        shell
            .args(options)
            .args(["--events", "fd:9"])
            .args(command)
            .current_dir(b.ws());
        assert_eq!(shell.output().unwrap().stdout, b"1\n", "{args:?}");
    };
    refused(&["--bogus", "true"], "unknown option `--bogus`");
    refused(&["--mode", "chatt", "true"], "invalid value `chatt`");
    refused(&["-q", "-v", "true"], "cannot be used with");
    refused(&["--capture", "true"], "`--capture` is not supported yet");
    refused(&["-f", "../spec.toml", "true"], "unknown value `chatt`");
    // Nothing is written through a link that somebody could have planted.
    let b = Box::new();
    std::os::unix::fs::symlink("..", b.ws().join("up")).unwrap();
    b.call(&["run", "--events", "up/events", "--bogus", "true"])
        .expect_own_failure(125, &["--bogus"]);
    assert!(!b.path().join("events").exists());
}

/// Inside another sandbox the command runs beside ccbox, which tells its end.
#[test]
fn a_nested_call_tells_its_end() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new();
    let nested = |code: i32, command: &str| {
        let file = b.ws().join("inner.events");
        let _ = std::fs::remove_file(&file);
        let call =
            format!("exec {CCBOX} run --events inner.events --session in -- sh -c '{command}'");
        b.call(&["run", "--", "sh", "-c", &call])
            .expect(code, "", "");
        events_in(&file)
    };
    let done = nested(3, "exit 3");
    assert_eq!(types(&done), ["starting", "ready", "exit"]);
    assert!(done.iter().all(|l| l["session_id"] == "in"));
    assert_eq!(done[1]["handle"]["backend"], "none");
    assert_eq!(done[1]["handle"]["details"], serde_json::json!(["nested"]));
    assert_eq!(
        (&done[2]["exit_code"], &done[2]["origin"]),
        (&3.into(), &"command".into())
    );
    assert_eq!(
        types(&nested(137, "kill -9 $$")),
        ["starting", "ready", "killed"]
    );
    // The environment is the one of the outer sandbox, and its rules hold.
    nested(
        0,
        "[ $CCBOX_BACKEND = native ] && [ $TMPDIR = /tmp ] && touch ../no",
    );
    assert!(!b.path().join("no").exists());
    let missing = b.call(&[
        "run",
        "--",
        CCBOX,
        "run",
        "--events",
        "e",
        "--",
        "no-such-cmd-xyz",
    ]);
    missing.expect_own_failure(127, &["no-such-cmd-xyz"]);
    assert_eq!(types(&events_in(&b.ws().join("e"))).last(), Some(&"error"));
}
