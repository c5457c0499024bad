//! `[limits]`: each one holds, says how, and ends a run with its reason; what cannot be held is refused.

use std::time::{Duration, Instant};

use crate::support::{Box, Ran, require_sandbox};

/// A box whose spec has these limits.
fn limited(limits: &str) -> Box {
    Box::new().spec(&format!(
        "[[bind_mounts]]\nhost_path = \"@T@/ws\"\n[limits]\n{limits}\n"
    ))
}

fn sh(b: &Box, options: &[&str], command: &str) -> Ran {
    let mut args = vec!["run", "-f", "../spec.toml"];
    args.extend(options);
    args.extend(["--", "sh", "-c", command]);
    b.call(&args)
}

/// How the event stream says that the run ended.
fn reason(b: &Box, command: &str) -> (i32, serde_json::Value, String) {
    let file = b.path().join("events");
    let _ = std::fs::remove_file(&file);
    let ran = sh(b, &["--events", "../events"], command);
    let text = std::fs::read_to_string(&file).unwrap();
    let last = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    (ran.code, last, ran.stderr)
}

fn is_root() -> bool {
    nix::unistd::getuid().is_root()
}

#[test]
fn open_files_are_limited() {
    if !require_sandbox() {
        return;
    }
    let count = "python3 -c 'import os\nn = 0\ntry:\n    while True:\n        os.dup(0); n += 1\nexcept OSError as e:\n    print(n + 3, e.errno)'";
    let b = limited("files = 40");
    sh(&b, &[], "ulimit -n; ulimit -Hn").expect(0, "40\n40\n", "");
    sh(&b, &[], "ulimit -n 100 2>/dev/null || echo kept").expect(0, "kept\n", "");
    sh(&b, &[], count).expect(0, "40 24\n", "");
    let line = sh(&b, &["-v"], "true").stderr;
    assert!(line.contains(" limits=files:40(each-process)"), "{line}");
}

/// Without a control group each process has its own; with one the run has it together, and running out ends it.
#[test]
fn memory_is_limited() {
    if !require_sandbox() {
        return;
    }
    let take = |mib: u32| format!("python3 -c 'x = bytearray({mib} << 20); print(len(x) >> 20)'");
    let b = limited("memory = \"200M\"");
    sh(&b, &[], &take(50)).expect(0, "50\n", "");
    let too_much = sh(&b, &[], &take(400));
    assert_ne!(too_much.code, 0);
    assert_eq!(too_much.stdout, "");
    let line = sh(&b, &["-v"], "true").stderr;
    if line.contains("memory:209715200(control-group)") {
        let (code, last, said) = reason(&b, &take(400));
        assert_eq!((code, &last["reason"]), (137, &"memory".into()), "{said}");
        assert!(said.contains("ended by `limits.memory`"), "{said}");
    } else {
        assert!(
            line.contains(" limits=memory:209715200(data-of-each-process)"),
            "{line}"
        );
        assert!(
            too_much.stderr.contains("MemoryError"),
            "{}",
            too_much.stderr
        );
    }
    // The attack that needs no fork: shared memory. What holds it is the size of the private tmpfs and, with a group, the group.
    sh(&limited(""), &[], &take(400)).expect(0, "400\n", "");
}

#[test]
fn processor_time_is_limited() {
    if !require_sandbox() {
        return;
    }
    let b = limited("cpu_seconds = 1");
    let (code, last, said) = reason(&b, "while :; do :; done");
    assert_eq!(
        (code, last["type"].as_str()),
        (128 + 24, Some("killed")),
        "{said}"
    );
    assert_eq!(
        (&last["reason"], &last["signal"]),
        (&"cpu_seconds".into(), &24.into())
    );
    assert!(said.contains("ended by `limits.cpu_seconds` = 1"), "{said}");
    // Who does not care for the first signal is killed by the second.
    let since = Instant::now();
    assert_eq!(sh(&b, &[], "trap '' XCPU; while :; do :; done").code, 137);
    assert!(since.elapsed() < Duration::from_secs(20));
    // Waiting is free.
    sh(&b, &[], "sleep 1.5; echo done").expect(0, "done\n", "");
}

#[test]
fn the_time_of_a_run_is_limited() {
    if !require_sandbox() {
        return;
    }
    let b = limited("wall_seconds = 1");
    for (command, code, signal) in [
        ("exec sleep 1000", 143, 15),
        // Asked to end, it does so in its own way; it was ended all the same.
        (
            "trap 'echo bye > bye; exit 0' TERM; sleep 1000 & wait",
            143,
            15,
        ),
        ("trap '' TERM; sleep 1000; sleep 1000", 137, 9),
        // Who stops itself does not stop the clock.
        ("kill -STOP $$; echo no", 137, 9),
    ] {
        let since = Instant::now();
        let (got, last, said) = reason(&b, command);
        assert_eq!(
            (got, last["type"].as_str()),
            (code, Some("killed")),
            "{command}: {said}"
        );
        assert_eq!(
            (&last["reason"], &last["signal"]),
            (&"wall_seconds".into(), &signal.into())
        );
        assert!(
            said.contains("ended by `limits.wall_seconds` = 1"),
            "{said}"
        );
        let took = since.elapsed();
        assert!(
            took > Duration::from_millis(900) && took < Duration::from_secs(20),
            "{took:?}"
        );
    }
    assert!(b.ws().join("bye").exists());
    sh(&b, &[], "echo fast").expect(0, "fast\n", "");
    let ages = limited(
        "wall_seconds = 9223372036854775807\ncpu_seconds = 9223372036854775807\nmemory = 9223372036854775807\nfiles = 9223372036854775807",
    );
    sh(&ages, &[], "echo fast").expect(0, "fast\n", "");
    let line = sh(&b, &["-v"], "true").stderr;
    assert!(line.contains(" limits=wall_seconds:1(run)"), "{line}");
    // Without a sandbox, too: it is ccbox that holds it.
    let out = sh(&b, &["--sandbox", "off"], "exec sleep 1000");
    assert_eq!(out.code, 143, "{}", out.stderr);
}

/// A command that was asked to end and does not is killed, and that is another reason.
#[test]
fn the_end_of_the_grace_is_its_own_reason() {
    if !require_sandbox() {
        return;
    }
    let b = limited("");
    let file = b.path().join("events");
    let mut run = b
        .ccbox(&[
            "run",
            "-f",
            "../spec.toml",
            "--events",
            "../events",
            "--",
            "sh",
            "-c",
            "trap '' TERM; touch up; sleep 1000; sleep 1000",
        ])
        .spawn()
        .unwrap();
    let since = Instant::now();
    while !b.ws().join("up").exists() {
        assert!(since.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = nix::unistd::Pid::from_raw(run.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    run.wait().unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["reason"], &last["signal"]),
        (&"grace".into(), &9.into()),
        "{text}"
    );
}

/// Where the kernel counts by user namespace the limit is exact, and a run does not see the user's other processes; where nothing
/// counts, the spec is refused.
#[test]
fn processes_are_limited_or_the_spec_is_refused() {
    if !require_sandbox() {
        return;
    }
    let b = limited("pids = 20");
    let line = sh(&b, &["-v"], "true");
    if line.code == 125 {
        line.expect_own_failure(125, &["`limits.pids`", "spec.toml:4", "cannot be held"]);
        assert!(
            is_root() || line.stderr.contains("before Linux 5.14"),
            "{}",
            line.stderr
        );
        let explained = b.call(&["explain", "-f", "../spec.toml"]);
        assert!(
            explained.stdout.contains("cannot be held"),
            "{}",
            explained.stdout
        );
        assert!(!b.ws().join("ran").exists());
        return;
    }
    assert!(line.stderr.contains("limits=pids:20("), "{}", line.stderr);
    let forks = "import os, time\nn = 1\ntry:\n    while n < 100:\n        if os.fork() == 0:\n            time.sleep(1000)\n        n += 1\nexcept OSError as e:\n    print(n, e.errno)\n";
    std::fs::write(b.ws().join("forks.py"), forks).unwrap();
    for engine in ["builtin", "bwrap"] {
        let ran = sh(&b, &["--engine", engine], "exec python3 forks.py");
        ran.expect(0, "20 11\n", "");
    }
    // Threads count as well.
    let threads = "import threading, time\nn = 1\ntry:\n    while n < 100:\n        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start(); n += 1\nexcept RuntimeError:\n    print(n, flush=True)\nimport os; os._exit(0)\n";
    std::fs::write(b.ws().join("threads.py"), threads).unwrap();
    sh(&b, &[], "exec python3 threads.py").expect(0, "20\n", "");
}

/// What a project file that nobody trusts may say about limits is only that they are lower (semantics 18).
#[test]
fn an_untrusted_project_only_lowers() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new();
    std::fs::create_dir(b.path().join("config/ccbox")).unwrap();
    std::fs::write(
        b.path().join("config/ccbox/config.toml"),
        "[limits]\nfiles = 50\n",
    )
    .unwrap();
    for (files, held) in [("30", "30\n"), ("90", "50\n")] {
        std::fs::write(
            b.ws().join("ccbox.toml"),
            format!("[limits]\nfiles = {files}\n"),
        )
        .unwrap();
        let ran = b.call(&["run", "-q", "--", "sh", "-c", "ulimit -n"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, held), "{}", ran.stderr);
    }
}

#[test]
fn explain_says_how_each_is_held() {
    if !require_sandbox() {
        return;
    }
    let b = limited("files = 40\nwall_seconds = 7");
    let words = b.call(&["explain", "-f", "../spec.toml"]).stdout;
    assert!(
        words.contains("files:40(each-process)") && words.contains("wall_seconds:7(run)"),
        "{words}"
    );
    let json = b.call(&["explain", "--json", "-f", "../spec.toml"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        json["limits"]["held"],
        serde_json::json!(["files:40(each-process)", "wall_seconds:7(run)"])
    );
}
