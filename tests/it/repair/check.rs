//! `ccbox check` says why, and what a report of the same refusal says would allow it.

use crate::support::{Box, require_sandbox};

#[test]
fn the_answer_and_the_report_name_the_same_line() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().spec(
        "protected_paths = [\"@T@/ws/prot\"]\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n[[bind_mounts]]\nhost_path = \"@T@/ro\"\nread_only = true\n\
         [filesystem]\ndeny_write = [\"*.lock\"]\n",
    );
    for dir in ["ro", "ws/prot"] {
        std::fs::create_dir(b.path().join(dir)).unwrap();
    }
    std::fs::write(b.path().join("ro/file"), "x").unwrap();
    for (target, has_hint) in [
        (".env", true),
        ("a.lock", true),
        ("../ro/file", true),
        ("prot/x", false),
        (".mcp.json", false),
    ] {
        let check = b.call(&["check", "-f", "../spec.toml", "write", target]);
        assert_eq!(check.code, 1, "{target}: {}", check.stdout);
        let call = format!("echo x > {target}");
        let ran = b.call(&["run", "-f", "../spec.toml", "--", "sh", "-c", &call]);
        let hint = |text: &str, prefix: &str| {
            text.lines()
                .find_map(|l| l.strip_prefix(prefix))
                .map(str::to_owned)
        };
        let said = hint(&ran.stderr, "ccbox: hint: ");
        assert_eq!(said.is_some(), has_hint, "{target}: {}", ran.stderr);
        assert_eq!(hint(&check.stdout, "hint: "), said, "{target}");
        let rule = check
            .stdout
            .lines()
            .next()
            .unwrap()
            .strip_prefix("denied: ")
            .unwrap()
            .trim_end_matches(')');
        assert!(
            ran.stderr.contains(rule),
            "{target}: {} {}",
            check.stdout,
            ran.stderr
        );
    }
}

#[test]
fn reads_and_programs() {
    let b = Box::new().workspace_spec();
    std::fs::create_dir(b.path().join("home/.ssh")).unwrap();
    std::fs::write(b.path().join("home/note"), "x").unwrap();
    std::fs::write(b.ws().join("tool"), "x").unwrap();
    let ask = |args: &[&str]| {
        let answer = b.call(args);
        assert_eq!(
            (answer.code, answer.stderr.as_str()),
            (1, ""),
            "{}",
            answer.stdout
        );
        answer
            .stdout
            .split_once("hint: ")
            .map(|(_, hint)| hint.trim_end().to_owned())
    };
    let home = b.path().join("home");
    let line = |name: &str| {
        Some(format!(
            "[filesystem] allow_read = [\"{}/{name}\"]",
            home.display()
        ))
    };
    assert_eq!(
        ask(&["check", "-f", "../spec.toml", "read", "~/note"]),
        line("note")
    );
    assert_eq!(
        ask(&["check", "-f", "../spec.toml", "exec", "~/note"]),
        line("note")
    );
    assert_eq!(
        ask(&["check", "-f", "../spec.toml", "read", "~/.ssh"]),
        line(".ssh")
    );
    assert_eq!(
        ask(&["check", "-f", "../spec.toml", "read", "~/absent"]),
        None
    );
    let tool = ask(&[
        "check",
        "-f",
        "../spec.toml",
        "-n",
        "strict",
        "exec",
        "tool",
    ]);
    assert_eq!(
        tool,
        Some(format!(
            "exec_grant_roots = [\"{}/tool\"]",
            b.ws().display()
        ))
    );
}
