//! The command line as scripts meet it: streams, codes, one line an error. What a sandbox does is tested elsewhere.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::support::{Box, Ran, require_sandbox};

#[test]
fn mistakes_are_one_line_and_125() {
    let b = Box::new();
    let table: &[(&[&str], &[&str])] = &[
        (&[], &["no command given"]),
        (&["run"], &["no command given"]),
        (&["run", "--"], &["no command given"]),
        (&["run", ""], &["name is empty"]),
        (
            &["make", "test"],
            &["unknown command `make`", "hint: ccbox run -- make test"],
        ),
        (
            &["run", "--quite", "--", "echo"],
            &["unknown option `--quite`", "--quiet"],
        ),
        (
            &["run", "--backend", "nonsense", "true"],
            &["invalid value `nonsense` for `--backend`"],
        ),
        (&["run", "--backend", "NATIVE ", "true"], &["invalid value"]),
        (&["run", "--mode", "", "true"], &["`--mode` needs a value"]),
        (
            &["run", "--capture", "true"],
            &["`--capture` needs somewhere to write events to"],
        ),
        (
            &["run", "--capture", "true"],
            &["`--capture` needs somewhere to write events to"],
        ),
        (
            &["run", "--events", "fd:1", "true"],
            &["descriptor above 2"],
        ),
        (&["run", "-q", "-v", "true"], &["cannot be used with"]),
        (&["-f", "x.toml", "-c", "y"], &["unknown option `-f`"]),
        (
            &["shell", "bash"],
            &["unexpected argument `bash`", "ccbox run -- COMMAND"],
        ),
        (&["learn"], &["no command given"]),
        (
            &["allow", "1"],
            &["which run is not said", "ccbox allow --last"],
        ),
        (&["man", "nothing"], &["no man page `nothing`"]),
    ];
    for (args, words) in table {
        b.call(args).expect_own_failure(125, words);
    }
}

#[test]
fn hostile_bytes_in_a_mistake_stay_on_one_line() {
    let b = Box::new();
    let name = OsStr::from_bytes(b"ma\nke\x1b[31m\xff");
    let out = b.call(&[name]);
    out.expect_own_failure(125, &["\\n", "\\x1b"]);
    assert!(!out.stderr.contains('\x1b'));
}

#[test]
fn help_and_version_are_on_stdout() {
    let b = Box::new();
    for args in [
        &["--help"][..],
        &["-h"],
        &["run", "--help"],
        &["check", "-h"],
        &["probe", "--help"],
    ] {
        let out = b.call(args);
        assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{args:?}");
        assert!(out.stdout.contains("Usage: ccbox"), "{}", out.stdout);
    }
    b.call(&["--version"])
        .expect(0, &format!("ccbox {}\n", env!("CARGO_PKG_VERSION")), "");
}

#[test]
fn help_names_every_command_of_the_contract() {
    let out = Box::new().call(&["--help"]);
    for name in [
        "run",
        "shell",
        "sh",
        "explain",
        "profile",
        "check",
        "probe",
        "init",
        "trust",
        "allow",
        "learn",
        "caches",
        "connect",
        "completions",
        "man",
    ] {
        assert!(out.stdout.contains(&format!("\n  {name} ")), "{name}");
    }
}

#[test]
fn pages_and_completions_are_printed_as_checked_in() {
    let b = Box::new();
    for (args, file) in [
        (&["man"][..], "man/ccbox.1"),
        (&["man", "run"], "man/ccbox-run.1"),
        (&["man", "ccbox.toml"], "man/ccbox.toml.5"),
        (&["completions", "bash"], "completions/ccbox.bash"),
        (&["completions", "zsh"], "completions/_ccbox"),
        (&["completions", "fish"], "completions/ccbox.fish"),
    ] {
        let want =
            std::fs::read_to_string(format!("{}/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        b.call(args).expect(0, &want, "");
    }
}

#[test]
fn an_answer_nobody_reads_is_no_error() {
    let b = Box::new();
    let script = format!(
        "{} man ccbox.toml | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}",
        crate::support::CCBOX
    );
    let out = Ran::of(
        std::process::Command::new("bash")
            .args(["-c", &script])
            .current_dir(b.ws()),
    );
    out.expect(0, "0\n", "");
}

#[test]
fn the_probe_answers_in_words_and_in_json() {
    let b = Box::new();
    let text = b.call(&["probe"]);
    assert_eq!((text.code, text.stderr.as_str()), (0, ""));
    for word in [
        "backends",
        "native",
        "none",
        "microvm",
        "engines",
        "builtin",
        "mechanisms",
        "landlock",
        "seccomp",
        "broker",
        "host-replace",
    ] {
        assert!(text.stdout.contains(word), "{word} in {}", text.stdout);
    }
    let json = b.call(&["doctor", "--json"]);
    let v: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(v["schema"], 1);
    assert_eq!(v["backends"][1]["name"], "none");
    assert_eq!(v["backends"][1]["available"], true);
    assert_eq!(v["backends"][2]["available"], false);
    for (n, name) in ["builtin", "bwrap", "landlock"].into_iter().enumerate() {
        assert_eq!(v["engines"][n]["name"], name);
        assert!(
            !require_sandbox() || v["engines"][n]["available"] == true,
            "{v}"
        );
    }
    if require_sandbox() {
        assert_eq!(v["backends"][0]["available"], true);
        assert_eq!(
            v["backends"][0]["note"],
            "bubblewrap: namespace isolation, no kernel boundary"
        );
    }
}

#[test]
fn the_probe_names_forbidden_user_namespaces() {
    let b = Box::new();
    // The limit is that of a namespace made for it: nothing outside changes.
    let script = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces; exec {} probe --json",
        crate::support::CCBOX
    );
    let mut unshare = std::process::Command::new("unshare");
    let out = Ran::of(
        unshare
            .args(["-Ur", "sh", "-c", &script])
            .current_dir(b.ws()),
    );
    let Ok(v) = serde_json::from_str::<serde_json::Value>(&out.stdout) else {
        assert!(!require_sandbox(), "{}", out.stderr);
        return;
    };
    let native = &v["backends"][0];
    assert_eq!(native["available"], false);
    assert!(
        native["reason"]
            .as_str()
            .unwrap()
            .contains("user.max_user_namespaces is 0"),
        "{native}"
    );
    assert_eq!(native["hint"], "sysctl -w user.max_user_namespaces=28633");
    let available = |n: usize| v["engines"][n]["available"].as_bool();
    assert_eq!(
        [0, 1, 2].map(available),
        [Some(false), Some(false), Some(true)]
    );
}
