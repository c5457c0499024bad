//! `ccbox run` and its relatives with a real sandbox: codes, lines, status, nesting.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use crate::support::{Box, CCBOX, Ran, require_sandbox};

/// A spec that says nothing new; an empty one is refused.
const SOME: &str = "mode = \"chat\"";

#[test]
fn a_clean_run_adds_nothing_and_relays_everything() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    b.run(&["sh", "-c", "echo out; echo err >&2; touch made; exit 7"])
        .expect(7, "out\n", "err\n");
    assert!(b.ws().join("made").exists());
    b.run(&["true"]).expect(0, "", "");
}

#[test]
fn own_codes_and_the_commands_are_told_apart() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    b.run(&["/nonexistent"]).expect_own_failure(
        127,
        &["cannot run `/nonexistent`: No such file or directory"],
    );
    b.run(&["no-such-cmd-xyz"])
        .expect_own_failure(127, &["no-such-cmd-xyz"]);
    b.run(&["/etc/passwd"])
        .expect_own_failure(126, &["Permission denied"]);
    b.run(&["sh", "-c", "exit 125"]).expect(125, "", "");
    b.run(&["sh", "-c", "exit 137"]).expect(137, "", "");
    b.call(&["run", "--spec", "/nonexistent.toml", "--", "true"])
        .expect_own_failure(125, &["/nonexistent.toml"]);
    // A real signal stays one, for the shell that waits.
    let killed = b
        .ccbox(&[
            "run",
            "-f",
            "../spec.toml",
            "--",
            "sh",
            "-c",
            "kill -TERM $$",
        ])
        .output()
        .unwrap();
    assert_eq!(
        (killed.status.signal(), killed.stderr.as_slice()),
        (Some(15), &b""[..])
    );
}

#[test]
fn a_command_that_exists_outside_only_gets_a_hint() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let tool = b.path().join("tool");
    std::fs::write(&tool, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    b.run(&[&tool])
        .expect_own_failure(127, &["is on this host", "--ro"]);
}

#[test]
fn arguments_arrive_byte_for_byte() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let words: [&[u8]; 11] = [
        b"a b",
        b"",
        b"$HOME",
        b"*",
        b"new\nline",
        b"--",
        b"-n",
        b"\xff",
        b"q\"uo'te",
        b"`id`",
        b";true",
    ];
    let mut args: Vec<&OsStr> = ["run", "-f", "../spec.toml", "printf", "[%s]"]
        .iter()
        .map(OsStr::new)
        .collect();
    args.extend(words.iter().map(|w| OsStr::from_bytes(w)));
    let out = b.ccbox(&args).output().unwrap();
    let mut want = Vec::new();
    for w in words {
        want.push(b'[');
        want.extend(w);
        want.push(b']');
    }
    assert_eq!(out.stdout, want);
    assert!(out.stderr.is_empty());
}

#[test]
fn verbose_says_what_is_enforced_and_debug_the_argv() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec().env("LD_PRELOAD", "");
    let spec = b.path().join("spec.toml");
    let call = |flag: &str| {
        b.call(&[
            OsStr::new("run"),
            flag.as_ref(),
            "-f".as_ref(),
            spec.as_ref(),
            "true".as_ref(),
        ])
    };
    let v = call("-v");
    assert_eq!((v.code, v.stdout.as_str()), (0, ""));
    for words in [
        "ccbox: dropped from the environment: LD_PRELOAD (injection)\n",
        "ccbox: sandbox ON (native, builtin)",
        "ccbox: enforced: engine=builtin ",
        " net=proxy+caught ",
        " userns pid no-new-privs seccomp landlock=",
        " fs=mounts+broker",
    ] {
        assert!(v.stderr.contains(words), "{words} in {}", v.stderr);
    }
    assert!(!v.stderr.contains("backend: "));
    let vv = call("-vv");
    for words in [
        "ccbox: backend: builtin\n",
        "ccbox: before the backend: --dev /dev\n",
    ] {
        assert!(vv.stderr.contains(words), "{words} in {}", vv.stderr);
    }
    let other = b.call(&[
        "run".as_ref(),
        "-vv".as_ref(),
        "--engine".as_ref(),
        "bwrap".as_ref(),
        "-f".as_ref(),
        spec.as_os_str(),
        "true".as_ref(),
    ]);
    for words in [
        "ccbox: sandbox ON (native, bwrap-",
        "ccbox: enforced: engine=bwrap-",
        "ccbox: backend: /usr/bin/bwrap --unshare-user ",
    ] {
        assert!(other.stderr.contains(words), "{words} in {}", other.stderr);
    }
    assert!(vv.stderr.lines().all(|l| l.starts_with("ccbox: ")));
}

#[test]
fn a_refused_host_is_one_line_with_its_hint() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let script = "for i in 1 2 3; do curl -s -o /dev/null http://evil.invalid/; done; true";
    let out = b.run(&["sh", "-c", script]);
    let lines: Vec<&str> = out.stderr.lines().collect();
    let [denied, hint, count] = lines.as_slice() else {
        panic!("{lines:?}");
    };
    let pid = denied
        .strip_prefix("ccbox: denied network-outbound evil.invalid:80 [curl ")
        .and_then(|rest| rest.strip_suffix("]: not on the allow list"));
    assert!(pid.is_some_and(|p| p.parse::<u32>().is_ok()), "{denied}");
    assert_eq!(
        [*hint, *count],
        [
            "ccbox: hint: [network] allowed_domains = [\"evil.invalid\"]",
            "ccbox: 3 times: network-outbound evil.invalid:80 [curl]",
        ]
    );
    let spec = b.path().join("spec.toml");
    let quiet = b.call(&[
        OsStr::new("run"),
        "-q".as_ref(),
        "-f".as_ref(),
        spec.as_ref(),
        "sh".as_ref(),
        "-c".as_ref(),
        script.as_ref(),
    ]);
    quiet.expect(0, "", "");
}

#[test]
fn backend_none_scrubs_and_says_so_also_when_quiet() {
    let b = Box::new()
        .workspace_spec()
        .env("LD_PRELOAD", "")
        .env("BASH_ENV", "/x")
        .env("NODE_OPTIONS", "/x")
        .env("TOKEN", "s");
    let script = "env | grep -cE '=/x$'; echo $CCBOX_BACKEND; touch ../outside-ok && echo wrote";
    for q in [&[][..], &["-q"]] {
        let mut args = vec!["run", "-f", "../spec.toml", "--backend", "none"];
        args.extend(q);
        args.extend(["sh", "-c", script]);
        let line = "ccbox: backend none: nothing is isolated; only the environment is cleaned\n";
        b.call(&args).expect(0, "0\nnone\nwrote\n", line);
    }
}

#[test]
fn sandbox_off_says_so() {
    let b = Box::new().workspace_spec();
    b.call(&[
        "run",
        "-q",
        "--sandbox",
        "off",
        "-f",
        "../spec.toml",
        "echo",
        "x",
    ])
    .expect(0, "x\n", "ccbox: sandbox DISABLED by --sandbox off\n");
}

/// Runs a shell script in a user namespace that may make no further ones.
fn without_user_namespaces(b: &Box, script: &str) -> Option<Ran> {
    let script = format!("echo 0 > /proc/sys/user/max_user_namespaces && {script}");
    let out = Ran::of(
        Command::new("unshare")
            .args(["-Ur", "sh", "-c", &script])
            .current_dir(b.ws()),
    );
    if out.stderr.starts_with("unshare:") {
        assert!(!require_sandbox(), "{}", out.stderr);
        return None;
    }
    Some(out)
}

#[test]
fn forbidden_user_namespaces_are_refused_or_said() {
    let b = Box::new().workspace_spec();
    let call = |when: &str| {
        format!(
            "exec setpriv --no-new-privs {CCBOX} run --sandbox {when} -f ../spec.toml sh -c 'echo STARTED; kill -l >/dev/null; grep SigBlk /proc/self/status'"
        )
    };
    if let Some(out) = without_user_namespaces(&b, &call("require")) {
        out.expect_own_failure(
            125,
            &[
                "user namespaces are not available",
                "user.max_user_namespaces is 0",
                "sysctl",
            ],
        );
    }
    // What fits engine landlock gets it; the rest gets nothing, and hears of it.
    let none = "[network]\nallow_all_unix_sockets = true\n";
    for (more, line) in [
        ("", "engine landlock instead"),
        (
            none,
            "ccbox: no OS-native sandbox on this host: user namespaces are not available",
        ),
    ] {
        let b = Box::new().spec(&format!("[[bind_mounts]]\nhost_path = \"@T@/ws\"\n{more}"));
        let Some(out) = without_user_namespaces(&b, &call("on")) else {
            continue;
        };
        // No signal stays blocked by the first attempt.
        assert_eq!(
            (out.code, out.stdout.as_str()),
            (0, "STARTED\nSigBlk:\t0000000000000000\n"),
            "{}",
            out.stderr
        );
        assert_eq!(out.stderr.lines().count(), 1, "{}", out.stderr);
        assert!(out.stderr.contains(line), "{}", out.stderr);
    }
}

#[test]
fn a_missing_bubblewrap_names_what_to_install() {
    if !nix::unistd::geteuid().is_root() || !require_sandbox() {
        // Hiding a system file needs a mount: the rule itself is a table test of `host::bwrap` and `cli::engine`.
        return;
    }
    let b = Box::new().workspace_spec();
    let hidden = |how: &str, args: &str| {
        let script = format!(
            "mount --bind {how} /usr/bin/bwrap && exec {CCBOX} run --engine bwrap -f ../spec.toml {args}"
        );
        Ran::of(
            Command::new("unshare")
                .args(["-m", "sh", "-c", &script])
                .current_dir(b.ws()),
        )
    };
    for how in ["/bin/false", "/etc/passwd"] {
        hidden(how, "echo STARTED").expect_own_failure(125, &["bwrap", "bubblewrap", "install"]);
        let on = hidden(how, "--sandbox on echo STARTED");
        assert_eq!(
            (on.code, on.stdout.as_str()),
            (0, "STARTED\n"),
            "{}",
            on.stderr
        );
        assert!(
            on.stderr
                .starts_with("ccbox: no OS-native sandbox on this host: "),
            "{}",
            on.stderr
        );
    }
    let microvm = hidden("/bin/false", "--backend microvm --sandbox on echo STARTED");
    microvm.expect_own_failure(125, &["microvm", "not supported yet"]);
}

#[test]
fn nothing_is_sandboxed_twice() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new();
    let nested = |inner: &[&str]| {
        let mut args = vec!["run", "--", CCBOX, "run"];
        args.extend(inner);
        b.call(&args)
    };
    nested(&["echo", "x"]).expect(0, "x\n", "");
    nested(&["--env", "A=b", "sh", "-c", "echo $A"]).expect(0, "b\n", "");
    nested(&["-v", "true"]).expect(
        0,
        "",
        "ccbox: inside a ccbox sandbox: running the command under the outer one\n",
    );
    nested(&["-p", SOME, "echo", "x"]).expect_own_failure(125, &["already inside a ccbox sandbox"]);
    nested(&["--no-network", "echo", "x"]).expect_own_failure(125, &["--no-network"]);
    nested(&["no-such-cmd-xyz"]).expect_own_failure(127, &["no-such-cmd-xyz"]);
    nested(&["sh", "-c", "exit 9"]).expect(9, "", "");
    // Questions are answered for what stands there, under the outer sandbox too.
    let asked = |args: &[&str]| b.call(&[&["run", "--", CCBOX], args].concat());
    asked(&["check", "write", "/etc/x"]).expect(1, "denied: no entry makes it writable\n", "");
    let told = asked(&["explain", "--", "true"]);
    assert!(
        told.stdout.starts_with("inside a ccbox sandbox: "),
        "{told:?}"
    );
}

#[test]
fn a_closed_or_full_stderr_is_no_error() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    for to in ["2>&-", "2>/dev/full"] {
        let script = format!("{CCBOX} run -v -f ../spec.toml sh -c 'echo x; exit 3' {to}");
        Ran::of(Command::new("sh").args(["-c", &script]).current_dir(b.ws())).expect(3, "x\n", "");
    }
}

#[test]
fn inside_only_the_marks_of_this_run_are_set() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new()
        .workspace_spec()
        .env("CCBOX_PROFILE", "evil")
        .env("CCBOX", "0")
        .env("PWD", "/");
    let script = "env | grep -E '^(CCBOX|TMPDIR|PWD)' | sort";
    let out = b.call(&[
        "run",
        "-f",
        "../spec.toml",
        "--session",
        "s-1",
        "sh",
        "-c",
        script,
    ]);
    let ws = b.ws();
    let want = format!(
        "CCBOX=1\nCCBOX_BACKEND=native\nCCBOX_SESSION_ID=s-1\nCCBOX_SOCKS_PROXY=socks5h://127.0.0.1:3128\nPWD={}\nTMPDIR=/tmp\n",
        ws.display()
    );
    out.expect(0, &want, "");
}

#[test]
fn dry_run_prints_a_line_that_bash_runs_and_runs_nothing_itself() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let line = b.call(&[
        "run",
        "--dry-run",
        "-f",
        "../spec.toml",
        "sh",
        "-c",
        "echo made; touch made",
    ]);
    assert_eq!(
        (line.code, line.stderr.as_str(), line.stdout.lines().count()),
        (0, "", 1)
    );
    assert!(!b.ws().join("made").exists());
    assert!(line.stdout.contains("--bind") && line.stdout.contains("--unshare-net"));
    // The line names directories that a run makes.
    b.run(&["true"]).expect(0, "", "");
    let pasted = Ran::of(
        Command::new("bash")
            .args(["-c", &line.stdout])
            .current_dir(b.ws()),
    );
    assert_eq!(
        (pasted.code, pasted.stdout.as_str()),
        (0, "made\n"),
        "{}",
        pasted.stderr
    );
    let profile = b.call(&["profile", "--format", "bwrap", "-f", "../spec.toml"]);
    assert!(
        profile.stdout.starts_with("--unshare-user\n"),
        "{}",
        profile.stdout
    );
    // Of another system, and printed all the same.
    let profile = b.call(&["profile", "--format", "seatbelt", "-f", "../spec.toml"]);
    assert_eq!((profile.code, profile.stderr.as_str()), (0, ""));
    let ws = format!("(subpath \"{}\")", b.ws().display());
    for words in ["(version 1)\n(allow default)\n", "\"localhost:3128\"", &ws] {
        assert!(profile.stdout.contains(words), "{}", profile.stdout);
    }
}

#[test]
fn check_answers_with_a_rule_and_a_code() {
    let b = Box::new().spec(
        "[[bind_mounts]]\nhost_path = \"@T@/ws\"\n[network]\nallowed_domains = [\"ok.example\"]\n",
    );
    let check = |args: &[&str]| {
        let mut all = vec!["check", "-f", "../spec.toml"];
        all.extend(args);
        b.call(&all)
    };
    let table: &[(&[&str], i32, &str)] = &[
        (&["write", "x"], 0, "allowed: bind_mounts"),
        (&["write", "/usr/x"], 1, "denied: "),
        (&["read", "/usr"], 0, "allowed: "),
        (&["read", "/etc/shadow"], 1, "denied: "),
        (
            &["host", "ok.example"],
            0,
            "allowed: allowed_domains \"ok.example\"",
        ),
        (
            &["host", "evil.example:22"],
            1,
            "denied: not on the allow list\nhint: [network] allowed_domains = [\"evil.example:22\"]\n",
        ),
        (&["host", "169.254.169.254:80"], 1, "denied: "),
    ];
    for (args, code, words) in table {
        let out = check(args);
        assert_eq!((out.code, out.stderr.as_str()), (*code, ""), "{args:?}");
        assert!(out.stdout.starts_with(words), "{args:?}: {}", out.stdout);
    }
    check(&["host", "a b"]).expect_own_failure(125, &["`a b`"]);
    check(&["host", "a:99999"]).expect_own_failure(125, &["a:99999"]);
    check(&["host", "https://a/"]).expect_own_failure(125, &["without a scheme"]);
}

#[test]
fn explain_names_layers_rules_hosts_and_the_command_line() {
    let b = Box::new().spec(
        "protected_paths = [\"@T@/ws/keep\"]\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n[network]\nallowed_domains = [\"ok.example\"]\n",
    );
    std::fs::write(b.ws().join("keep"), "").unwrap();
    let text = b.call(&["explain", "-f", "../spec.toml", "--", "echo", "x"]);
    assert_eq!((text.code, text.stderr.as_str()), (0, ""));
    for words in [
        "profile: dispatch",
        "layers, weakest first:",
        "spec.toml",
        "ok.example",
        "keep",
        "HTTP_PROXY",
        "backend: ",
        "--ro-bind",
    ] {
        assert!(text.stdout.contains(words), "{words}");
    }
    let json = b.call(&["explain", "--json", "-f", "../spec.toml"]);
    let v: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(
        (&v["schema"], &v["profile"]),
        (&1.into(), &"dispatch".into())
    );
    assert!(
        v["hosts"]["allowed"]
            .as_array()
            .unwrap()
            .iter()
            .any(|h| h["host"] == "ok.example")
    );
    assert!(
        !v["layers"].as_array().unwrap().is_empty() && v["backend"]["command_line"].is_string()
    );
}

#[test]
fn wrong_specs_start_nothing_and_name_their_place() {
    let table = [
        ("protcted = []", "protected_paths"),
        ("[Network]", "network"),
        ("[network]\nallowed_domains = \"x\"", "spec.toml:2"),
        ("mode = \"\"", "mode"),
        ("mode = \"chatt\"", "chat"),
        ("backend = \"\"", "backend"),
        ("backend = \"NATIVE \"", "native"),
        ("network_enabled = \"false\"", "network_enabled"),
        ("network_enabled = 0", "network_enabled"),
        ("mode = \"chat\"\nmode = \"chat\"", "spec.toml:2"),
        (
            "[[bind_mounts]]\nhost_path = \"/nonexistent-dir\"",
            "/nonexistent-dir",
        ),
        ("(version 1)\n(deny default)", "sandbox-exec"),
    ];
    for (spec, word) in table {
        let b = Box::new().spec(spec);
        b.run(&["sh", "-c", "echo STARTED"])
            .expect_own_failure(125, &[word]);
    }
}

#[test]
fn init_never_overwrites_and_trust_lists_grants() {
    let b = Box::new();
    let made = b.call(&["init"]);
    assert_eq!((made.code, made.stderr.as_str()), (0, ""));
    assert!(made.stdout.contains("ccbox.toml"));
    b.call(&["init"])
        .expect_own_failure(125, &["`ccbox.toml` is already here"]);
    let file = b.ws().join("ccbox.toml");
    std::fs::write(&file, "[filesystem]\nallow_write = [\"../x\"]\n").unwrap();
    let trusted = b.call(&["trust", "ccbox.toml"]);
    assert_eq!(trusted.code, 0, "{}", trusted.stderr);
    assert!(
        trusted
            .stdout
            .contains("2: filesystem.allow_write = [\"../x\"]"),
        "{}",
        trusted.stdout
    );
    b.call(&["trust", "nothing.toml"])
        .expect_own_failure(125, &["nothing.toml"]);
}

#[test]
fn caches_can_be_cleared() {
    let b = Box::new();
    let cache = b.path().join("state/ccbox/caches/npm");
    std::fs::create_dir_all(&cache).unwrap();
    std::fs::write(cache.join("x"), "").unwrap();
    assert_eq!(b.call(&["caches", "clear"]).code, 0);
    assert!(!cache.exists());
}
