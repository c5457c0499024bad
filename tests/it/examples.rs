//! The examples do what they say, with the real binary. `first-run` builds the release and is a step of `.ci/run`.

use std::path::Path;
use std::process::{Command, Output};

use super::support::{CCBOX, program, require_sandbox};

fn example(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(name)
}

/// A directory outside /tmp (the sandbox has its own there), with a home in it.
fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::create_dir(dir.path().join("home")).unwrap();
    std::fs::create_dir(dir.path().join("work")).unwrap();
    dir
}

fn run(dir: &Path, argv: &[&str]) -> Output {
    let bin = Path::new(CCBOX).parent().unwrap().display().to_string();
    let path = std::env::var("PATH").unwrap();
    Command::new(program(argv[0]))
        .args(&argv[1..])
        .current_dir(dir.join("work"))
        .env("PATH", format!("{bin}:{path}"))
        .env("HOME", dir.join("home"))
        .env_remove("XDG_STATE_HOME")
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("MAKEFLAGS")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_makefile_builds_inside() {
    if !require_sandbox() {
        return;
    }
    let dir = place();
    for name in ["Makefile", "sandbox.toml", "hello.c"] {
        std::fs::copy(
            example("make").join(name),
            dir.path().join("work").join(name),
        )
        .unwrap();
    }
    let out = run(dir.path(), &["make", "-s", "-j2", "check"]);
    assert!(out.status.success(), "{out:?}");
    assert_eq!(text(&out.stdout), "hello from the sandbox\n");
    assert_eq!(text(&out.stderr), "");
    // The build could not have changed its own rules.
    let spec = dir.path().join("work/sandbox.toml");
    let out = run(
        dir.path(),
        &[
            "env",
            "ccbox",
            "run",
            "--spec",
            spec.to_str().unwrap(),
            "--",
            "sh",
            "-c",
            "echo x >> Makefile; echo x >> sandbox.toml; echo x >> fine",
        ],
    );
    assert!(out.status.success(), "{out:?}");
    for name in ["Makefile", "sandbox.toml"] {
        assert_eq!(
            std::fs::read(dir.path().join("work").join(name)).unwrap(),
            std::fs::read(example("make").join(name)).unwrap()
        );
    }
    assert!(dir.path().join("work/fine").exists());
}

#[test]
fn the_script_runs_inside_as_a_whole() {
    if !require_sandbox() {
        return;
    }
    let dir = place();
    let script = dir.path().join("work/script");
    std::fs::copy(example("script"), &script).unwrap();
    let out = run(dir.path(), &["env", script.to_str().unwrap()]);
    assert!(out.status.success(), "{out:?}");
    assert_eq!(text(&out.stdout), "inside: native\nhome is read-only\n");
    assert!(dir.path().join("work/out.txt").exists());
    assert!(!dir.path().join("home/outside.txt").exists());
}

#[test]
fn the_harness_reads_the_events() {
    if !require_sandbox() {
        return;
    }
    let dir = place();
    std::fs::create_dir_all(dir.path().join("home/.local/state/agent-runner/scratch")).unwrap();
    let work = dir.path().join("work");
    let workspace = format!("WORKSPACE={}", work.display());
    let command = "echo made > made; echo out ü; ccbox connect evil.example 443 < /dev/null > /dev/null 2>&1; exit 3";
    for (program, name) in [("python3", "harness.py"), ("node", "harness.mjs")] {
        let _ = std::fs::remove_file(work.join("made"));
        let call = |command: &str| {
            let (harness, spec) = (example(name), example("agent.toml"));
            let argv = [
                program,
                harness.to_str().unwrap(),
                spec.to_str().unwrap(),
                command,
                "-D",
                &workspace,
                "-D",
                "SESSION=conv-42",
            ];
            let out = run(dir.path(), &argv);
            assert!(out.status.success(), "{out:?}");
            text(&out.stdout)
        };
        assert_eq!(
            call(command),
            "out ü\n[exit 3]\n[denied network-outbound evil.example:443]\n[hint [network] allowed_domains = [\"evil.example\"]]\n[native destroyed]\n"
        );
        assert!(work.join("made").exists());
        assert_eq!(call("kill -9 $$"), "[killed signal]\n[native destroyed]\n");
        let missing = call("exec no-such-command-xyz");
        assert!(
            missing.contains("no-such-command-xyz")
                && missing.ends_with("[exit 127]\n[native destroyed]\n"),
            "{missing}"
        );
    }
}
