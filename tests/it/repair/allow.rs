//! `ccbox allow`: the record of a run, the lines, the file they are written to.

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use crate::support::{Box, require_sandbox};

/// A workspace bound with a protected directory in it, and a run with one denial of each kind.
fn denied_run() -> Box {
    let b = Box::new().spec(
        "# of the team\nprotected_paths = [\"@T@/ws/prot\"]\n[[bind_mounts]]\nhost_path = \"@T@/ws\" # work\n[network]\nallowed_domains = []\n",
    );
    std::fs::create_dir(b.ws().join("prot")).unwrap();
    std::fs::create_dir(b.path().join("home/.ssh")).unwrap();
    std::fs::write(b.path().join("home/.ssh/id"), "key").unwrap();
    b
}

const CALLS: &str =
    "echo x > .env; echo x > .env; echo x > prot/a; curl -s http://evil.invalid:8080/; true";

fn runs(b: &Box, options: &[&str], command: &str) {
    let mut args = vec!["run", "-q", "-f", "../spec.toml"];
    args.extend(options);
    args.extend(["--", "sh", "-c", command]);
    let ran = b.call(&args);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

fn lines(text: &str) -> String {
    text.lines()
        .filter(|l| !l.starts_with('#'))
        .map(|l| l.split(" #").next().unwrap().to_owned() + "\n")
        .collect()
}

/// Refused reads are told where there are covers.
fn reads_are_told() -> bool {
    let mut fuse = std::fs::OpenOptions::new();
    fuse.read(true).write(true).open("/dev/fuse").is_ok()
}

fn records(b: &Box) -> Vec<PathBuf> {
    let Ok(dir) = std::fs::read_dir(b.path().join("state/ccbox/denials")) else {
        return Vec::new();
    };
    dir.map(|e| e.unwrap().path()).collect()
}

#[test]
fn the_last_runs_denials_are_lines_of_a_spec() {
    if !require_sandbox() {
        return;
    }
    let b = denied_run();
    b.call(&["allow", "--last"])
        .expect_own_failure(125, &["no denials of a run in this directory"]);
    runs(&b, &[], "true");
    assert!(records(&b).is_empty(), "a clean run leaves nothing");
    runs(&b, &["--session", "s-1"], CALLS);
    let listed = b.call(&["allow", "--last"]);
    assert_eq!((listed.code, listed.stderr.as_str()), (0, ""));
    let ws = b.ws();
    let wanted = format!(
        "\n[filesystem]\nallow_create = [\n    \"{}/.env\",\n]\n\n[network]\nallowed_domains = [\n    \"evil.invalid:8080\",\n]\n",
        ws.display()
    );
    assert_eq!(lines(&listed.stdout), wanted, "{}", listed.stdout);
    // It is TOML as it stands, names who asked and how often, and says of the rest why there is no line.
    toml::from_str::<toml::Table>(&listed.stdout).unwrap();
    assert!(
        listed.stdout.contains("/ws/.env [sh ") && listed.stdout.contains("], 2 times: deny_write"),
        "{}",
        listed.stdout
    );
    let protected = listed.stdout.split("prot/a").nth(1).unwrap();
    assert!(
        protected.contains("not a line to add: no entry of a spec opens it"),
        "{}",
        listed.stdout
    );
    // Single ones, by number.
    let first = b.call(&["allow", "--last", "1"]);
    assert!(lines(&first.stdout).contains("allow_create"));
    assert!(!first.stdout.contains("evil"), "{}", first.stdout);
    b.call(&["allow", "--last", "77"])
        .expect_own_failure(125, &["there is no denial 77"]);
    // What a newer run without denials leaves, and one of another directory.
    runs(&b, &[], "true");
    assert_eq!(b.call(&["allow", "--session", "s-1"]).stdout, listed.stdout);
    let elsewhere = b.ccbox(&["allow", "--last"]).current_dir(b.path()).output();
    assert_eq!(elsewhere.unwrap().status.code(), Some(125));
}

#[test]
fn the_lines_are_added_with_comments_kept_and_then_hold() {
    if !require_sandbox() {
        return;
    }
    let b = denied_run();
    runs(&b, &[], CALLS);
    b.call(&["allow", "--last", "--write", "../spec.toml"])
        .expect_own_failure(125, &["which lines to write is not said", "--all"]);
    let spec = b.path().join("spec.toml");
    let before = std::fs::read_to_string(&spec).unwrap();
    let wrote = b.call(&["allow", "--last", "--all", "--write", "../spec.toml"]);
    assert_eq!(wrote.code, 0, "{}", wrote.stderr);
    let after = std::fs::read_to_string(&spec).unwrap();
    for line in before.lines().filter(|l| l.contains('#')) {
        assert!(after.contains(line), "{after}");
    }
    assert!(
        after.contains("allowed_domains = [\"evil.invalid:8080\"]"),
        "{after}"
    );
    assert!(
        !after.contains("hooks") && !after.contains("prot/"),
        "{after}"
    );
    // Once more adds nothing.
    let again = b.call(&["allow", "--last", "--all", "--write", "../spec.toml"]);
    assert!(again.stdout.ends_with("has it all already\n"));
    assert_eq!(std::fs::read_to_string(&spec).unwrap(), after);
    b.run(&["sh", "-c", "echo x > .env"]).expect(0, "", "");
    assert!(!b.run(&["sh", "-c", "echo x > prot/a"]).stderr.is_empty());
}

#[test]
fn secrets_and_what_is_mandatory() {
    if !require_sandbox() {
        return;
    }
    let b = denied_run();
    let home = b.path().join("home");
    std::fs::write(home.join(".bashrc"), "").unwrap();
    std::fs::create_dir_all(home.join(".claude/agents")).unwrap();
    // Every one of these is asked for; nothing of it may come back as a line.
    let command = "cat ~/.ssh/id; echo x >> ~/.bashrc; echo x > ~/.claude/agents/a; echo x > ~/.claude/settings.json; \
        echo x > ~/.config/ccbox/config.toml; echo x > ../config/ccbox/config.toml; echo x >> ../spec.toml; \
        mkdir -p .vscode; ln -s x .mcp.json; git init -q; echo x > .git/hooks/pre-commit; echo x >> /etc/passwd; \
        mkdir -p ../state/ccbox/trust; cat ../state/ccbox/denials/*; true";
    let shown = format!(
        "[filesystem]\nview = \"host\"\nallow_read = [\"{0}/home\", \"{0}/config\", \"{0}/state\"]\n",
        b.path().display()
    );
    for profile in ["dev", "dispatch"] {
        let args = ["-n", profile, "-p", &shown];
        runs(&b, &args, command);
        let listed = b.call(&["allow", "--last"]);
        assert_eq!(
            lines(&listed.stdout).trim(),
            "",
            "{profile}: {}",
            listed.stdout
        );
        let mut told = listed.stdout.lines();
        let Some(secret) = told.find(|l| l.contains(".ssh/id")) else {
            assert!(!reads_are_told(), "{}", listed.stdout);
            continue;
        };
        let n = secret[2..].split(':').next().unwrap();
        b.call(&["allow", "--last", n])
            .expect_own_failure(125, &["is of a secret", "--force"]);
        let forced = b.call(&["allow", "--last", n, "--force"]);
        assert!(
            lines(&forced.stdout).contains("home/.ssh/id\""),
            "{}",
            forced.stdout
        );
        // Not even by force.
        let all = b.call(&["allow", "--last", "--all", "--force"]);
        for never in [
            ".claude",
            ".bashrc",
            "config.toml",
            "spec.toml",
            ".vscode",
            ".mcp",
            "hooks",
            "/trust",
        ] {
            assert!(
                !lines(&all.stdout).contains(never),
                "{never}: {}",
                all.stdout
            );
        }
    }
}

#[test]
fn the_record_is_private_and_hidden_from_later_runs() {
    if !require_sandbox() {
        return;
    }
    let b = denied_run();
    runs(&b, &[], CALLS);
    let [file] = &records(&b)[..] else {
        panic!("one record")
    };
    let mode = |p: &Path| std::fs::metadata(p).unwrap().mode() & 0o777;
    assert_eq!((mode(file), mode(file.parent().unwrap())), (0o600, 0o700));
    let read = format!("cat {}", file.display());
    let host = "[filesystem]\nview = \"host\"\nallow_write = [\"@T@\"]\n";
    let b = b.spec(host);
    let ran = b.run(&["sh", "-c", &read]);
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    assert!(
        ran.stderr.contains("records of earlier denials") || !reads_are_told(),
        "{}",
        ran.stderr
    );
    // Nor can a run make one up, or move the directory away.
    let state = b.path().join("state");
    let attack = format!(
        "cd {}; echo '{{}}' > ccbox/denials/99999999999999-1.json; mv ccbox/denials x; mv ccbox y; rm -rf ccbox; ln -s /tmp ccbox/denials; true",
        state.display()
    );
    let ran = b.run(&["sh", "-c", &attack]);
    assert_eq!(ran.code, 0);
    assert!(file.exists());
    assert!(
        records(&b)
            .iter()
            .all(|r| !r.to_string_lossy().contains("99999999999999"))
    );
}

/// Semantics 18 and 20: trust is kept where it was and never given to what else stands in the file; no link is written through.
#[test]
fn the_file_that_is_written() {
    if !require_sandbox() {
        return;
    }
    let b = denied_run();
    runs(&b, &[], CALLS);
    let all = |file: &str| b.call(&["allow", "--last", "--all", "--write", file]);
    let ours = b.ws().join("ccbox.toml");
    // Somebody's project file, as a clone brings it.
    std::fs::write(&ours, "network_enabled = true\n").unwrap();
    all("ccbox.toml").expect_own_failure(125, &["not trusted", "ccbox trust "]);
    assert_eq!(
        std::fs::read_to_string(&ours).unwrap(),
        "network_enabled = true\n"
    );
    assert_eq!(b.call(&["trust", "ccbox.toml"]).code, 0);
    let wrote = all("ccbox.toml");
    assert!(
        wrote.stdout.contains("recorded it as trusted"),
        "{}",
        wrote.stderr
    );
    b.call(&["run", "--", "sh", "-c", "echo x > .env"])
        .expect(0, "", "");
    // A new one is trusted too.
    std::fs::remove_file(&ours).unwrap();
    std::fs::remove_file(b.ws().join(".env")).unwrap();
    assert!(all("ccbox.toml").stdout.contains("recorded it as trusted"));
    b.call(&["run", "--", "sh", "-c", "echo x > .env"])
        .expect(0, "", "");
    // Links.
    let target = b.path().join("target.toml");
    std::fs::write(&target, "").unwrap();
    symlink(&target, b.ws().join("link.toml")).unwrap();
    symlink(b.path(), b.ws().join("up")).unwrap();
    for through in ["link.toml", "up/target.toml", "up/new.toml"] {
        all(through).expect_own_failure(125, &["never written through a link"]);
    }
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "");
    assert!(!b.path().join("new.toml").exists());
    // A text that would not be a spec afterwards stays as it is, with its mode.
    for broken in ["[filesystem\n", "filesystem = 3\n", "mode = \"chatt\"\n"] {
        std::fs::write(&target, broken).unwrap();
        assert_eq!(all("../target.toml").code, 125, "{broken}");
        assert_eq!(std::fs::read_to_string(&target).unwrap(), broken);
    }
    std::fs::write(&target, "# mine\n").unwrap();
    std::fs::set_permissions(&target, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    assert_eq!(all("../target.toml").code, 0);
    assert_eq!(std::fs::metadata(&target).unwrap().mode() & 0o777, 0o640);
    let left: Vec<_> = std::fs::read_dir(b.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .filter(|n| n.to_string_lossy().starts_with(".ccbox-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A run whose path rules are off can write anything, the record too. What it says of a place does not count.
#[test]
fn a_forged_record_opens_no_secret() {
    if !require_sandbox() {
        return;
    }
    let b = denied_run();
    runs(&b, &[], CALLS);
    let [file] = &records(&b)[..] else {
        panic!("one record")
    };
    let text = std::fs::read_to_string(file).unwrap();
    let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
    let home = b.path().join("home");
    let hint = |key: &str, path: &str| format!("[filesystem] {key} = [\"{path}\"]");
    let forged = [
        hint("allow_read", home.join(".ssh").to_str().unwrap()),
        hint("allow_write", home.to_str().unwrap()),
        hint("allow_write", "/etc/passwd"),
        hint("allow_write", home.join(".claude/agents").to_str().unwrap()),
        "[filesystem] disabled = true".to_owned(),
        "[filesystem] allow_read = [\"/a\"]\ndisabled = true".to_owned(),
    ];
    std::fs::create_dir_all(home.join(".claude/agents")).unwrap();
    let denial = record["denials"][0].clone();
    let denials = forged.iter().map(|hint| {
        let mut denial = denial.clone();
        denial["hint"] = hint.as_str().into();
        denial["class"] = "plain".into();
        denial
    });
    record["denials"] = denials.collect();
    std::fs::write(file, record.to_string()).unwrap();
    let all = b.call(&["allow", "--last", "--all"]);
    assert_eq!(all.code, 0, "{}", all.stderr);
    assert_eq!(lines(&all.stdout).trim(), "", "{}", all.stdout);
}

/// What has to be made first is a line once it is there.
#[test]
fn what_was_made_since_can_be_allowed() {
    if !require_sandbox() {
        return;
    }
    let b = denied_run();
    let call = |args: &[&str]| b.call(args);
    let shown = format!(
        "[filesystem]\nallow_read = [\"{}/home\"]\n",
        b.path().display()
    );
    runs(&b, &["-p", &shown], "mkdir ~/new; true");
    let before = call(&["allow", "--last"]);
    assert!(
        before
            .stdout
            .contains("not a line to add: make it outside, then"),
        "{}",
        before.stdout
    );
    std::fs::create_dir(b.path().join("home/new")).unwrap();
    let after = call(&["allow", "--last", "1"]);
    assert!(
        lines(&after.stdout).contains("home/new\""),
        "{}{}",
        after.stdout,
        after.stderr
    );
}

/// Names are the command's choice, and it would like to write more than one entry.
#[test]
fn hostile_names_stay_one_entry() {
    if !require_sandbox() {
        return;
    }
    let b = denied_run();
    let name = "x\"]\n[filesystem]\ndisabled = true # .pem";
    let command = format!(
        "printf x > '{name}'; mkdir 'a]\n# 1: y' 2>/dev/null; printf x > 'e\x1b[2J.pem'; true"
    );
    runs(&b, &[], &command);
    let listed = b.call(&["allow", "--last"]);
    let read: toml::Table = toml::from_str(&listed.stdout).unwrap();
    assert_eq!(read.keys().collect::<Vec<_>>(), ["filesystem"]);
    let fs = read["filesystem"].as_table().unwrap();
    assert_eq!(fs.keys().collect::<Vec<_>>(), ["allow_create"]);
    assert!(!listed.stdout.contains('\x1b'));
    let wrote = b.call(&["allow", "--last", "--all", "--write", "../spec.toml"]);
    assert_eq!(wrote.code, 0, "{}", wrote.stderr);
    assert!(!wrote.stdout.contains('\x1b'));
    let text = std::fs::read_to_string(b.path().join("spec.toml")).unwrap();
    let read: toml::Table = toml::from_str(&text).unwrap();
    assert_eq!(read["filesystem"].as_table().unwrap().len(), 1);
}
