//! `--events`: every call that asks for them tells its end there.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Box, CCBOX, program, require_sandbox};

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

/// What the published schema says of these lines; nothing if it has no objection.
fn objections(lines: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut check = Command::new(program("python3"))
        .arg(root.join("tests/lab/validate.py"))
        .arg(root.join("docs/events.schema.json"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    check
        .stdin
        .take()
        .unwrap()
        .write_all(lines.as_bytes())
        .unwrap();
    let out = check.wait_with_output().unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.status.success(), said.is_empty(), "{said}");
    said
}

/// R71: real lines of every type hold against `docs/events.schema.json`, and it is strict enough to mean something.
#[test]
fn the_schema_describes_every_event_of_real_runs() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new()
        .spec("workspace_id = \"w\"\nagent_id = \"a\"\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n");
    let call = |options: &[&str], command: &[&str]| {
        let mut args = vec!["run", "--events", "../all", "-f", "../spec.toml"];
        args.extend(options);
        args.push("--");
        args.extend(command);
        b.call(&args)
    };
    let shell = "printf 'text \\303\\274'; printf '\\377\\n' >&2; for i in 1 2; do echo x > .env; curl -s http://evil.invalid/; done; exit 3";
    assert_eq!(call(&["--capture"], &["sh", "-c", shell]).code, 3);
    assert_eq!(call(&["-v"], &["sh", "-c", "kill -9 $$"]).code, 137);
    assert_eq!(call(&[], &["no-such-cmd-xyz"]).code, 127);
    assert_eq!(call(&["--bogus"], &["true"]).code, 125);
    assert_eq!(call(&["--sandbox", "off"], &["true"]).code, 0);
    let stopped = "kill -STOP $$; true";
    let mut run = b
        .ccbox(&[
            "run",
            "--events",
            "../all",
            "-f",
            "../spec.toml",
            "sh",
            "-c",
            stopped,
        ])
        .spawn()
        .unwrap();
    let all = || std::fs::read_to_string(b.path().join("all")).unwrap();
    let since = Instant::now();
    while !all().contains("suspended") {
        assert!(since.elapsed() < Duration::from_secs(20), "{}", all());
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = nix::unistd::Pid::from_raw(run.id().cast_signed());
    while run.try_wait().unwrap().is_none() {
        // Until it is stopped there is nothing to continue.
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert!(since.elapsed() < Duration::from_secs(20), "{}", all());
    }
    let text = all();
    assert_eq!(objections(&text), "");
    let events = events_in(&b.path().join("all"));
    let mut seen = types(&events);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(
        seen,
        [
            "continued",
            "error",
            "exit",
            "killed",
            "ready",
            "starting",
            "stderr",
            "stdout",
            "stopped",
            "violation"
        ]
    );
    // Each member counts: without those that every line has, with another kind of value, or with a member more, a line is refused.
    let mut wrong: Vec<String> = Vec::new();
    for kind in seen {
        let event = events.iter().find(|e| e["type"] == kind).unwrap();
        for member in event.as_object().unwrap().keys() {
            let mut other = event.clone();
            other[member] = serde_json::json!({ "no": 1 });
            wrong.push(other.to_string());
        }
        let mut more = event.clone();
        more["more"] = serde_json::json!(1);
        wrong.push(more.to_string());
        for needed in ["type", "schema", "time", "session_id"] {
            let mut less = event.clone();
            less.as_object_mut().unwrap().remove(needed);
            wrong.push(less.to_string());
        }
    }
    let said = objections(&(wrong.join("\n") + "\n"));
    for line in &wrong {
        assert!(said.contains(line), "not refused: {line}");
    }
}

/// `--capture`: all of the output and nothing else, byte for byte, in order; none of it on ccbox's own streams.
#[test]
fn captured_output_is_whole() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let captured = |command: &str, stream: &str| {
        let file = b.path().join("captured");
        let _ = std::fs::remove_file(&file);
        let ran = b.call(&[
            "run",
            "--capture",
            "--events",
            "../captured",
            "-f",
            "../spec.toml",
            "--",
            "sh",
            "-c",
            command,
        ]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
        let mut bytes = Vec::new();
        let events = events_in(&file);
        for event in events.iter().filter(|e| e["type"] == stream) {
            match event["text"].as_str() {
                Some(text) => bytes.extend(text.as_bytes()),
                None => bytes.extend(decoded(event["base64"].as_str().unwrap())),
            }
        }
        assert_eq!(types(&events).last(), Some(&"exit"));
        (bytes, ran.stderr)
    };
    let (bytes, stderr) = captured("echo out; echo err >&2; test -t 1 || echo pipe", "stdout");
    assert_eq!(
        (bytes.as_slice(), stderr.as_str()),
        (&b"out\npipe\n"[..], "")
    );
    // What ccbox says stays on its own standard error.
    let (bytes, stderr) = captured("echo err >&2; (echo x > .env) 2>/dev/null; true", "stderr");
    assert_eq!(bytes, b"err\n");
    assert!(
        stderr.starts_with("ccbox: denied file-write-create"),
        "{stderr}"
    );
    // Much, with characters that fall on every boundary, and bytes that are no text.
    let (bytes, _) = captured(
        "i=0; while [ $i -lt 3000 ]; do printf 'aü€😀%d' $i; i=$((i+1)); done",
        "stdout",
    );
    let numbers: Vec<String> = (0..3000).map(|i| i.to_string()).collect();
    let wanted = format!("aü€😀{}", numbers.join("aü€😀"));
    assert!(bytes == wanted.as_bytes());
    let (bytes, _) = captured("head -c 300000 /dev/urandom | tee random", "stdout");
    assert!(bytes == std::fs::read(b.ws().join("random")).unwrap());
    // A background process that holds the streams ends with the run.
    let (bytes, _) = captured("sleep 1000 & echo done", "stdout");
    assert_eq!(bytes, b"done\n");
    b.call(&["run", "--capture", "true"])
        .expect_own_failure(125, &["`--capture` needs somewhere"]);
}

fn decoded(base64: &str) -> Vec<u8> {
    let mut tool = Command::new(program("base64"))
        .arg("-d")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    tool.stdin
        .take()
        .unwrap()
        .write_all(base64.as_bytes())
        .unwrap();
    let mut out = Vec::new();
    tool.stdout.take().unwrap().read_to_end(&mut out).unwrap();
    assert!(tool.wait().unwrap().success());
    out
}
