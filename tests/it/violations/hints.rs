//! The line a report gives is true: added to the spec, or taken from it, the very same call succeeds.

use std::path::Path;

use crate::support::{Box, require_sandbox};

use super::own_lines;

/// One refusal that can be lifted: a spec, a call that is refused under it, and what its hint says.
struct Case {
    spec: &'static str,
    args: &'static [&'static str],
    call: &'static str,
    hint: &'static str,
}

const WS: &str = "[[bind_mounts]]\nhost_path = \"@T@/ws\"\n";
const ALL: &str = "[[bind_mounts]]\nhost_path = \"@T@\"\nread_only = true\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n";

const fn case(
    spec: &'static str,
    args: &'static [&'static str],
    call: &'static str,
    hint: &'static str,
) -> Case {
    Case {
        spec,
        args,
        call,
        hint,
    }
}

const CASES: &[Case] = &[
    // A pattern of a profile, by each way a name comes to be.
    case(
        WS,
        &[],
        "echo x > a.pem",
        "[filesystem] allow_create = [\"@T@/ws/a.pem\"]",
    ),
    case(
        WS,
        &[],
        "echo x > 'b[1]$.pem'",
        "[filesystem] allow_create = [{ path = \"@T@/ws/b[1]$$.pem\", literal = true }]",
    ),
    case(
        WS,
        &[],
        "mkdir d.pem",
        "[filesystem] allow_create = [\"@T@/ws/d.pem\"]",
    ),
    case(
        WS,
        &[],
        "ln -s x .env",
        "[filesystem] allow_create = [\"@T@/ws/.env\"]",
    ),
    case(
        WS,
        &[],
        "mkfifo .env",
        "[filesystem] allow_create = [\"@T@/ws/.env\"]",
    ),
    case(
        WS,
        &[],
        "mv file .env",
        "[filesystem] allow_create = [\"@T@/ws/.env\"]",
    ),
    case(
        WS,
        &[],
        "mv old.pem new",
        "[filesystem] allow_create = [\"@T@/ws/old.pem\"]",
    ),
    case(
        WS,
        &[],
        "ln file .env",
        "[filesystem] allow_create = [\"@T@/ws/.env\"]",
    ),
    case(
        WS,
        &[],
        "ln old.pem new",
        "[filesystem] allow_create = [\"@T@/ws/old.pem\"]",
    ),
    case(
        WS,
        &[],
        "rm old.pem",
        "[filesystem] allow_create = [\"@T@/ws/old.pem\"]",
    ),
    case(
        WS,
        &[],
        "chmod 600 old.pem",
        "[filesystem] allow_create = [\"@T@/ws/old.pem\"]",
    ),
    case(
        WS,
        &[],
        "truncate -s 0 old.pem",
        "[filesystem] allow_create = [\"@T@/ws/old.pem\"]",
    ),
    // A rule of the spec, and one of a flag.
    case(
        "[filesystem]\ndeny_write = [\"closed\"]\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n",
        &[],
        "echo x > closed",
        "remove @T@/spec.toml:2",
    ),
    case(
        WS,
        &["--deny-write", "*.txt"],
        "echo x > a.txt",
        "remove --deny-write",
    ),
    // What only the preset of git closes.
    case(
        WS,
        &[],
        "git init -q r && echo x > r/.git/info/attributes",
        "[filesystem] protect_git = false",
    ),
    // Read-only places: what is changed in place, what is made, what is removed, and a bind that says so itself.
    case(
        ALL,
        &[],
        "echo x > ../other/file",
        "[filesystem] allow_write = [\"@T@/other/file\"]",
    ),
    case(
        ALL,
        &[],
        "truncate -s 0 ../other/file",
        "[filesystem] allow_write = [\"@T@/other/file\"]",
    ),
    case(
        ALL,
        &[],
        "chmod 600 ../other/file",
        "[filesystem] allow_write = [\"@T@/other/file\"]",
    ),
    case(
        ALL,
        &[],
        "chgrp \"$(id -g)\" ../other/file",
        "[filesystem] allow_write = [\"@T@/other/file\"]",
    ),
    case(
        ALL,
        &[],
        "touch -h -d 2001-01-01 ../other/file",
        "[filesystem] allow_write = [\"@T@/other/file\"]",
    ),
    case(
        ALL,
        &[],
        "python3 -c 'import os; os.setxattr(\"../other/file\", \"user.kind\", b\"x\")'",
        "[filesystem] allow_write = [\"@T@/other/file\"]",
    ),
    case(
        ALL,
        &[],
        "echo x > ../other/new",
        "[filesystem] allow_write = [\"@T@/other\"]",
    ),
    case(
        ALL,
        &[],
        "mkdir ../other/new",
        "[filesystem] allow_write = [\"@T@/other\"]",
    ),
    case(
        ALL,
        &[],
        "rm ../other/file",
        "[filesystem] allow_write = [\"@T@/other\"]",
    ),
    case(
        ALL,
        &[],
        "rmdir ../other/dir",
        "[filesystem] allow_write = [\"@T@/other\"]",
    ),
    case(
        ALL,
        &[],
        "mv ../other/file ../other/new",
        "[filesystem] allow_write = [\"@T@/other\"]",
    ),
    case(
        ALL,
        &[],
        "ln -s x ../other/new",
        "[filesystem] allow_write = [\"@T@/other\"]",
    ),
    case(
        ALL,
        &[],
        "ln ../other/file ../other/new",
        "[filesystem] allow_write = [\"@T@/other\"]",
    ),
    case(
        "[[bind_mounts]]\nhost_path = \"@T@/ws\"\n[[bind_mounts]]\nhost_path = \"@T@/other\"\nread_only = true\n",
        &[],
        "echo x > ../other/new",
        "remove read_only from @T@/spec.toml:4",
    ),
    case(
        "[[bind_mounts]]\nhost_path = \"@T@/ws\"\n[[bind_mounts]]\nhost_path = \"@T@/other\"\nguest_path = \"/guest\"\nread_only = true\n",
        &[],
        "echo x > /guest/file",
        "remove read_only from @T@/spec.toml:4",
    ),
    // Home is not opened for one name.
    case(
        ALL,
        &[],
        "echo x > \"$HOME/new\"",
        "make it outside, then [filesystem] allow_write = [\"@T@/home/new\"]",
    ),
    // What is there outside and not shown.
    case(
        WS,
        &[],
        "echo x > \"$HOME/notes\"",
        "[filesystem] allow_write = [\"@T@/home/notes\"]",
    ),
    case(
        WS,
        &[],
        "mkdir -p \"$HOME/tools\"",
        "[filesystem] allow_read = [\"@T@/home/tools\"]",
    ),
    // Reads.
    case(
        "[filesystem]\ndeny_read = [\"other/file\"]\n[[bind_mounts]]\nhost_path = \"@T@\"\n",
        &[],
        "cat ../other/file",
        "remove @T@/spec.toml:2",
    ),
    case(
        ALL,
        &["--deny-read", "../other"],
        "ls ../other",
        "remove --deny-read",
    ),
    case(
        ALL,
        &[],
        "cat \"$HOME/.netrc\"",
        "[filesystem] allow_read = [\"@T@/home/.netrc\"]",
    ),
    // Programs.
    case(
        "[exec]\ndeny_writable = true\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n",
        &[],
        "./tool",
        "exec_grant_roots = [\"@T@/ws/tool\"]",
    ),
];

fn set_up(spec: &str) -> Box {
    use std::os::unix::fs::PermissionsExt;
    let b = Box::new().spec(spec);
    let at = |name: &str| b.path().join(name);
    std::fs::create_dir_all(at("other/dir")).unwrap();
    std::fs::create_dir_all(at("home/tools")).unwrap();
    for name in [
        "ws/file",
        "ws/old.pem",
        "other/file",
        "home/.netrc",
        "home/notes",
    ] {
        std::fs::write(at(name), "text\n").unwrap();
    }
    std::fs::write(at("ws/tool"), "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(at("ws/tool"), std::fs::Permissions::from_mode(0o755)).unwrap();
    b
}

/// The spec with what the hint says done to it; arguments, and what is to be made outside before.
fn follow(case: &Case, hint: &str, base: &Path) -> (String, Vec<&'static str>, Option<String>) {
    let mut spec = case.spec.to_owned();
    let mut args = case.args.to_vec();
    let mut made = None;
    let mut text = hint.replace(base.to_str().unwrap(), "@T@");
    if let Some(rest) = text.strip_prefix("make it outside, then ") {
        text = rest.to_owned();
        made = Some(text.split('"').nth(1).unwrap().to_owned());
    }
    if text.starts_with("remove --") {
        args.clear();
    } else if let Some(place) = text.strip_prefix("remove ") {
        let from: usize = place.rsplit(':').next().unwrap().parse().unwrap();
        let mut lines: Vec<&str> = spec.lines().collect();
        if place.starts_with("read_only") {
            // The line is that of the entry.
            let at = (from - 1..lines.len())
                .find(|n| lines[*n].starts_with("read_only"))
                .unwrap();
            lines.remove(at);
        } else {
            lines.remove(from - 1);
        }
        spec = lines.join("\n");
    } else if let Some((table, line)) = text.split_once("] ") {
        let header = format!("{table}]\n");
        if spec.contains(&header) {
            spec = spec.replace(&header, &format!("{header}{line}\n"));
        } else {
            spec = format!("{spec}{header}{line}\n");
        }
    } else {
        spec = format!("{text}\n{spec}");
    }
    (spec, args, made)
}

fn run(b: &Box, args: &[&str], call: &str) -> crate::support::Ran {
    let mut all = vec!["run", "-f", "../spec.toml"];
    all.extend(args);
    all.extend(["--", "sh", "-c", call]);
    b.call(&all)
}

#[test]
fn following_a_hint_opens_the_call() {
    if !require_sandbox() {
        return;
    }
    // Without it hidden files are placeholders, which tell nobody (SECURITY.md).
    let fuse = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse");
    for case in CASES {
        let reads = case.call.starts_with("cat ") || case.call.starts_with("ls ");
        if reads && fuse.is_err() {
            continue;
        }
        let b = set_up(case.spec);
        let refused = run(&b, case.args, case.call);
        assert_ne!(refused.code, 0, "{}: {}", case.call, refused.stderr);
        let lines = own_lines(&refused);
        let hint = lines.iter().find_map(|l| l.strip_prefix("ccbox: hint: "));
        let base = b.path().to_str().unwrap();
        let hint = hint.unwrap_or_else(|| panic!("{}: {}", case.call, refused.stderr));
        assert_eq!(hint, case.hint.replace("@T@", base), "{}", case.call);
        let (spec, args, made) = follow(case, hint, b.path());
        let b = set_up(&spec);
        if let Some(path) = made {
            std::fs::write(path.replace("@T@", b.path().to_str().unwrap()), "").unwrap();
        }
        let allowed = run(&b, &args, case.call);
        let denied = own_lines(&allowed);
        let denied = denied.iter().any(|l| l.starts_with("ccbox: denied "));
        assert!(
            allowed.code == 0 && !denied,
            "{} with {spec}: {}",
            case.call,
            allowed.stderr
        );
    }
}

/// What nothing lifts says so, or why, and gives no line.
#[test]
fn what_cannot_be_lifted_gives_no_line() {
    if !require_sandbox() {
        return;
    }
    for (spec, call, says) in [
        (WS, "mkdir .vscode", "no entry lifts it"),
        (
            WS,
            "git init -q r && echo x > r/.git/hooks/pre-commit",
            "no entry lifts them",
        ),
        (
            WS,
            "git init -q r && git -C r config core.fsmonitor x",
            "no entry lifts them",
        ),
        (WS, "mkdir objects", "no entry lifts it"),
        // Granting it would be refused.
        (ALL, "echo x > ../other/.bashrc", "mandatory \".bashrc\""),
        (
            "protected_paths = [\"ws/file\"]\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n",
            "echo x > file",
            "protected_paths",
        ),
    ] {
        let b = set_up(spec);
        let refused = run(&b, &[], call);
        let lines = own_lines(&refused);
        assert!(
            lines.first().is_some_and(|l| l.contains(says)),
            "{call}: {}",
            refused.stderr
        );
        assert!(
            !lines.iter().any(|l| l.contains("hint:")),
            "{call}: {lines:?}"
        );
    }
}
