//! `ccbox learn`: what a run touched becomes a spec under which the same run works, and nothing wide or secret is in it.

use std::path::Path;

use crate::support::{Box, require_sandbox};

/// A home with a tool chain, settings and secrets.
fn furnished() -> Box {
    let b = Box::new();
    let home = b.path().join("home");
    for dir in [".kit/v1/bin", ".kit/v1/lib", ".config/tool", ".ssh", ".aws"] {
        std::fs::create_dir_all(home.join(dir)).unwrap();
    }
    let put = |name: &str, text: &str| std::fs::write(home.join(name), text).unwrap();
    for n in 0..6 {
        put(&format!(".kit/v1/lib/f{n}"), "f");
    }
    put(".kit/v1/bin/run", "#!/bin/sh\ncat ~/.kit/v1/lib/*\n");
    put(".config/tool/conf", "c");
    put(".ssh/id", "key");
    put(".aws/credentials", "key");
    put("note", "n");
    let run = home.join(".kit/v1/bin/run");
    std::fs::set_permissions(&run, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    b
}

fn learned(b: &Box, command: &str) -> String {
    let spec = b.path().join("learned.toml");
    let _ = std::fs::remove_file(&spec);
    let ran = b.call(&[
        "learn",
        "--write",
        "../learned.toml",
        "--",
        "sh",
        "-c",
        command,
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    std::fs::read_to_string(spec).unwrap()
}

fn list(spec: &str, table: &str, key: &str) -> Vec<String> {
    let spec: toml::Table = toml::from_str(spec).unwrap();
    let list = spec
        .get(table)
        .and_then(|t| t.get(key))
        .and_then(|l| l.as_array());
    let text = |v: &toml::Value| v.as_str().unwrap().to_owned();
    list.map(|l| l.iter().map(text).collect())
        .unwrap_or_default()
}

#[test]
fn the_same_command_works_under_the_spec_it_taught() {
    if !require_sandbox() {
        return;
    }
    let b = furnished();
    let command = "set -e; ~/.kit/v1/bin/run; cat ~/.config/tool/conf; echo x > out; mkdir -p ~/.local/share/tool; \
        echo 1 > ~/.local/share/tool/db; echo h >> ~/.tool_history; echo t > $TMPDIR/learned; cat /etc/hostname >/dev/null";
    let spec = learned(&b, command);
    let home = b.path().join("home");
    let at = |name: &str| home.join(name).to_str().unwrap().to_owned();
    assert_eq!(
        list(&spec, "filesystem", "allow_read"),
        [at(".config/tool/conf"), at(".kit/v1")],
        "{spec}"
    );
    assert_eq!(
        list(&spec, "filesystem", "allow_write"),
        [at(".local/share/tool"), at(".tool_history")],
        "{spec}"
    );
    assert!(spec.contains("mode = \"off\""), "{spec}");
    let args = [
        "run",
        "-q",
        "-f",
        "../learned.toml",
        "--",
        "sh",
        "-c",
        command,
    ];
    b.call(&args).expect(0, "ffffffc", "");
    // And nothing beside it.
    for closed in [
        "cat ~/note",
        "echo x > ~/new",
        "cat ~/.aws/credentials",
        "curl -sf http://a.invalid/",
    ] {
        let ran = b.call(&[
            "run",
            "-q",
            "-f",
            "../learned.toml",
            "--",
            "sh",
            "-c",
            closed,
        ]);
        assert_ne!(ran.code, 0, "{closed}");
    }
    // The program itself, by PATH and through a link, and its interpreter.
    std::os::unix::fs::symlink("v1/bin/tool", home.join(".kit/tool")).unwrap();
    std::fs::copy("/bin/sh", home.join(".kit/v1/bin/shell")).unwrap();
    let tool = home.join(".kit/v1/bin/tool");
    std::fs::write(&tool, format!("#!{}\necho tool\n", at(".kit/v1/bin/shell"))).unwrap();
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let b = b.env("PATH", format!("{}:/usr/bin:/bin", at(".kit")));
    let _ = std::fs::remove_file(b.path().join("learned.toml"));
    let ran = b.call(&["learn", "--write", "../learned.toml", "--", "tool"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "tool\n"),
        "{}",
        ran.stderr
    );
    b.call(&["run", "-f", "../learned.toml", "--", "tool"])
        .expect(0, "tool\n", "");
    // A run that changes nothing is not given the right to.
    let spec = learned(&b, "cat out");
    assert!(spec.contains("read_only = true"), "{spec}");
    // Once more does not overwrite.
    let again = b.call(&["learn", "--write", "../learned.toml", "--", "true"]);
    assert_eq!(again.code, 125);
    assert!(
        again.stderr.contains("is not overwritten"),
        "{}",
        again.stderr
    );
}

#[test]
fn hard_denies_hold_and_nothing_wide_is_proposed() {
    if !require_sandbox() {
        return;
    }
    let b = furnished();
    let home = b.path().join("home");
    for n in 0..8 {
        std::fs::write(home.join(format!("d{n}")), "x").unwrap();
        std::fs::write(home.join(format!(".config/c{n}")), "x").unwrap();
    }
    std::fs::write(home.join(".bashrc"), "old").unwrap();
    let spec = learned(
        &b,
        "cat ~/d* ~/.config/c* ~/.ssh/id ~/.aws/*; cat /etc/*.conf /etc/ssl/*; ls -R ~ /etc; echo evil >> ~/.bashrc; \
         mkdir -p .git/hooks; git init -q; echo evil > .git/hooks/pre-commit; cp ~/.ssh/id ~/stolen; for i in 1 2 3 4 5; do echo > ~/n$i; done; true",
    );
    assert_eq!(
        std::fs::read_to_string(home.join(".bashrc")).unwrap(),
        "old"
    );
    assert!(!b.ws().join(".git/hooks/pre-commit").exists());
    assert_ne!(
        std::fs::read_to_string(home.join("stolen")).unwrap_or_default(),
        "key"
    );
    let mut all = list(&spec, "filesystem", "allow_read");
    all.extend(list(&spec, "filesystem", "allow_write"));
    assert!(!all.is_empty());
    for grant in all.iter().map(Path::new) {
        for never in [
            &home.join(".ssh"),
            &home.join(".aws"),
            &home.join(".config"),
            &home.join(".bashrc"),
            &home,
        ] {
            assert!(!never.starts_with(grant), "{grant:?} in {spec}");
        }
        assert!(!grant.starts_with(home.join(".ssh")), "{grant:?}");
        assert!(!grant.is_dir() || !grant.starts_with("/etc"), "{grant:?}");
    }
}

/// What cannot be learned is said before anything runs.
#[test]
fn places_where_nothing_is_learned() {
    let b = Box::new();
    std::fs::create_dir_all(b.path().join("home/.config/gh")).unwrap();
    for dir in ["home", ".", "home/.config", "home/.config/gh"] {
        let out = b
            .ccbox(&["learn", "--", "touch", "ran"])
            .current_dir(b.path().join(dir))
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(125));
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(said.contains("is no place to learn in"), "{said}");
        assert!(!b.path().join(dir).join("ran").exists());
    }
    if require_sandbox() {
        let missing = b.call(&["learn", "--", "no-such-cmd-xyz"]);
        assert_eq!((missing.code, missing.stdout.as_str()), (127, ""));
    }
}
