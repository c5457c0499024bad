//! Everyday tools inside: each leaves the file tree, the output and the exit code that it leaves outside, while name patterns, path
//! patterns, a protected path and the git rules hold.
//!
//! A tool is a script. It is run outside first, then inside in the same place made anew, the cheap ones with each engine; what it
//! leaves is compared entry by entry.

mod build;
mod files;
mod languages;
mod text;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use super::lab::sysroot;
use crate::support::{self, Ran, require_sandbox};

/// A tool and what it is given to do.
struct Tool {
    /// What is shown when it fails; starts with the program.
    name: &'static str,
    /// Outside, before.
    before: &'static str,
    /// The work, in the workspace.
    work: &'static str,
    /// Whatever lies below these is compared by name and kind only: two runs outside differ there as well.
    loose: &'static [&'static str],
}

/// A tool whose results are the same each time.
const fn tool(name: &'static str, before: &'static str, work: &'static str) -> Tool {
    loose(name, &[], before, work)
}

/// A tool that writes times, random numbers or process numbers.
const fn loose(
    name: &'static str,
    loose: &'static [&'static str],
    before: &'static str,
    work: &'static str,
) -> Tool {
    Tool {
        name,
        before,
        work,
        loose,
    }
}

/// Start of every script: no home, no configuration of the machine, times and names that stay the same.
const HEAD: &str = r#"set -eu; umask 022; export LC_ALL=C.UTF-8 TZ=UTC TMPDIR=${TMPDIR:-/tmp} SHELL=/bin/sh USER=u
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x.test GIT_COMMITTER_NAME=c GIT_COMMITTER_EMAIL=c@x.test
export GIT_AUTHOR_DATE='2001-01-01T00:00:00Z' GIT_COMMITTER_DATE='2001-01-01T00:00:00Z'
git() { command git -c init.defaultBranch=main -c gc.auto=0 -c maintenance.auto=false -c advice.detachedHead=false -c core.checkStat=minimal -c protocol.file.allow=always "$@"; }
"#;

/// Programs are looked for in the system's directories and in the Rust toolchain.
fn path() -> String {
    format!("{}/bin:/usr/local/bin:/usr/bin:/bin", sysroot())
}

/// A place whose workspace has every kind of write rule over it.
fn desk() -> support::Box {
    let rust = match sysroot() {
        root if root.starts_with("/usr") => String::new(),
        root => format!("[[bind_mounts]]\nhost_path = \"{root}\"\nread_only = true\n"),
    };
    support::Box::new().env("PATH", path()).spec(&format!(
        "network_enabled = false\nprotected_paths = [\"ws/closed\"]\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n{rust}\
         [filesystem]\ndeny_write = [\"*.blocked\", \"**/generated/**\"]\n"
    ))
}

/// `sh -c` of the script with the common start.
fn shell(script: &str) -> [String; 3] {
    let path = path();
    [
        "/bin/bash".into(),
        "-c".into(),
        format!("export PATH={path}\n{HEAD}\n{script}\n"),
    ]
}

fn outside(desk: &support::Box, script: &str) -> Ran {
    let argv = shell(script);
    let scratch = desk.path().join("scratch");
    let _ = fs::remove_dir_all(&scratch);
    fs::create_dir(&scratch).unwrap();
    Ran::of(
        Command::new(&argv[0])
            .args(&argv[1..])
            .current_dir(desk.ws())
            .env_clear()
            .env("HOME", desk.path().join("home"))
            .env("TMPDIR", scratch)
            .stdin(Stdio::null()),
    )
}

fn inside(desk: &support::Box, options: &[&str], script: &str) -> Ran {
    let spec = desk.path().join("spec.toml");
    let mut args = vec!["run", "--spec", spec.to_str().unwrap()];
    args.extend(options);
    args.push("--");
    let command = shell(script);
    args.extend(command.iter().map(String::as_str));
    desk.call(&args)
}

/// Every entry below the workspace, in words.
fn tree(desk: &support::Box, loose: &[&str]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    walk(&desk.ws(), Path::new(""), loose, &mut found);
    found
}

fn walk(root: &Path, below: &Path, loose: &[&str], found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(root.join(below)).unwrap() {
        let name = below.join(entry.unwrap().file_name());
        let path = root.join(&name);
        let meta = fs::symlink_metadata(&path).unwrap();
        let kind = meta.file_type();
        let shown = if kind.is_dir() {
            "directory".to_owned()
        } else if kind.is_symlink() {
            format!("-> {}", fs::read_link(&path).unwrap().display())
        } else if kind.is_fifo() {
            "fifo".to_owned()
        } else if kind.is_socket() {
            "socket".to_owned()
        } else if loose.iter().any(|l| name.starts_with(l)) {
            "file".to_owned()
        } else {
            format!("file, {} links, {}", meta.nlink(), content(&path))
        };
        // A time long ago was set by the tool; any other is that of the run.
        let time = if meta.mtime() < 1_500_000_000 {
            format!(", {}.{:09}", meta.mtime(), meta.mtime_nsec())
        } else {
            String::new()
        };
        let text = format!("{:o} {shown}{time}", meta.mode() & 0o7777);
        found.insert(name.to_string_lossy().into_owned(), text);
        if kind.is_dir() {
            walk(root, &name, loose, found);
        }
    }
}

/// A short text as it is, anything else by its hash.
fn content(path: &Path) -> String {
    let Ok(bytes) = fs::read(path) else {
        return "not readable".to_owned();
    };
    match std::str::from_utf8(&bytes) {
        Ok(text) if text.len() < 100 => format!("{text:?}"),
        _ => format!("{} bytes, {:x}", bytes.len(), Sha256::digest(&bytes)),
    }
}

/// The workspace empty, then with what the tool needs.
fn set_up(desk: &support::Box, tool: &Tool) {
    let ws = desk.ws();
    // Caches of Go are read-only, and an ordinary user removes nothing from a read-only directory.
    let made_writable = Command::new("chmod")
        .args(["-R", "u+rwX"])
        .arg(&ws)
        .status();
    assert!(made_writable.unwrap().success());
    fs::remove_dir_all(&ws).unwrap();
    fs::create_dir(&ws).unwrap();
    let ran = outside(desk, tool.before);
    assert_eq!(ran.code, 0, "before {}: {}", tool.name, ran.stderr);
}

/// How the tool's results inside differ from those outside; empty where they do not.
fn differences(tool: &Tool, ways: &[&[&str]]) -> Vec<String> {
    let desk = desk();
    set_up(&desk, tool);
    let control = outside(&desk, tool.work);
    let left = tree(&desk, tool.loose);
    assert_eq!(
        control.code, 0,
        "the control of {}: {}{}",
        tool.name, control.stdout, control.stderr
    );
    let mut found = Vec::new();
    for &options in ways {
        set_up(&desk, tool);
        let ran = inside(&desk, options, tool.work);
        let now = tree(&desk, tool.loose);
        let before = found.len();
        if (ran.code, &ran.stdout) != (control.code, &control.stdout) {
            found.push(format!(
                "{} {:?}, not {} {:?}",
                ran.code, ran.stdout, control.code, control.stdout
            ));
        }
        for name in left
            .keys()
            .chain(now.keys().filter(|n| !left.contains_key(*n)))
        {
            let (outside, inside) = (left.get(name), now.get(name));
            if outside != inside {
                found.push(format!("`{name}`: {inside:?}, not {outside:?}"));
            }
        }
        // Nothing was refused, so nothing may say so.
        if found.len() > before || ran.stderr.contains("ccbox:") {
            found.push(format!("{} {options:?}: {}", tool.name, ran.stderr));
        }
    }
    found
}

/// The engine the host's is, and bubblewrap.
const WAYS: [&[&str]; 2] = [&[], &["--engine", "bwrap"]];

/// Each tool outside, and inside each way.
#[track_caller]
fn same_inside(tools: &[Tool], ways: &[&[&str]]) {
    if !require_sandbox() {
        return;
    }
    let found: Vec<String> = tools.iter().flat_map(|t| differences(t, ways)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What the tools are run under does hold.
#[test]
fn the_rules_hold_meanwhile() {
    if !require_sandbox() {
        return;
    }
    let script = "mkdir d; git init -q; for f in .env a.pem x.blocked d/generated closed .git/hooks/pre-commit .git/config; do
            (echo x >>$f) 2>/dev/null && echo open $f; done
        (mkdir generated) 2>/dev/null && echo open; chmod 777 .git/config 2>/dev/null && echo open; echo end";
    let desk = desk();
    assert_eq!(outside(&desk, script).stdout.matches("open").count(), 9);
    for options in WAYS {
        fs::remove_dir_all(desk.ws()).unwrap();
        fs::create_dir(desk.ws()).unwrap();
        let ran = inside(&desk, options, script);
        assert_eq!(ran.stdout, "end\n", "{options:?} {}", ran.stderr);
    }
}

/// The list is as long as it is meant to be, and names no work twice.
#[test]
fn there_are_many_tools() {
    let mut names: Vec<&str> = files::TOOLS
        .iter()
        .chain(text::TOOLS)
        .chain(build::TOOLS)
        .chain(languages::TOOLS)
        .map(|tool| tool.name)
        .collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
    for name in &mut names {
        *name = name.split(' ').next().unwrap();
    }
    names.dedup();
    assert!(names.len() >= 40, "{} programs: {names:?}", names.len());
}

#[test]
fn files_and_directories() {
    same_inside(files::TOOLS, &WAYS);
}

#[test]
fn text_and_archives() {
    same_inside(text::TOOLS, &WAYS);
}

#[test]
fn compilers_and_build_tools() {
    same_inside(build::TOOLS, &WAYS[..1]);
}

#[test]
fn languages_and_their_packages() {
    same_inside(languages::TOOLS, &WAYS[..1]);
}
