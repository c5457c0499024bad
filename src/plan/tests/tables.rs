//! Every row of a data file has an effect.

use std::path::{Path, PathBuf};

use super::eval::{Seen, Table};
use crate::host::FsView;
use crate::host::fs_view::{FakeEntry, FakeFs};
use crate::plan::fixture::{
    can_read, can_write, can_write_in, debian, dev, dispatch, entry, facts, planned, set_cwd,
    terminal, without_broker,
};
use crate::plan::secrets::table_paths;

fn at_home(row: &str) -> Option<PathBuf> {
    let rest = row.strip_prefix("~/")?;
    Some(Path::new("/home/me").join(rest))
}

#[test]
fn every_secret_row_hides_what_it_names() {
    for group in ["base", "agent"] {
        for row in table_paths(group) {
            let Some(path) = at_home(row) else { continue };
            let fs = debian().file(&path, "SECRET");
            let plan = planned(&dev(), &facts(), &fs);
            let text = path.to_str().unwrap();
            assert!(!can_read(&plan, text), "{row}");
            assert_eq!(Table::new(&plan.mounts).seen(&path), Seen::Other, "{row}");
        }
    }
    for row in table_paths("etc").into_iter().chain(table_paths("proc")) {
        let fs = debian().file(row, "SECRET");
        let plan = planned(&dev(), &facts(), &fs);
        assert!(!can_read(&plan, row), "{row}");
    }
}

#[test]
fn build_settings_are_secrets_only_where_the_profile_says_so() {
    for row in table_paths("build") {
        let Some(path) = at_home(row) else { continue };
        let fs = debian().file(&path, "SECRET");
        let text = path.to_str().unwrap();
        assert!(can_read(&planned(&dev(), &facts(), &fs), text), "{row}");
        let mut strict = dispatch();
        strict
            .fs
            .binds
            .push(crate::plan::fixture::bind("/home/me", true));
        assert!(!can_read(&planned(&strict, &facts(), &fs), text), "{row}");
    }
}

#[test]
fn terminal_denies_just_the_reads_of_r27() {
    let mut fs = debian();
    for row in table_paths("base") {
        if let Some(p) = at_home(row) {
            fs = fs.with(
                &p,
                FakeEntry::Dir {
                    uid: 1000,
                    mode: 0o700,
                },
            );
        }
    }
    let plan = planned(&terminal("/home/me"), &facts(), &fs);
    let terminal_rows = table_paths("terminal");
    for row in table_paths("base") {
        let Some(p) = at_home(row) else { continue };
        assert_eq!(
            !can_read(&plan, p.to_str().unwrap()),
            terminal_rows.contains(&row),
            "{row}"
        );
    }
}

#[test]
fn variables_move_secrets_along() {
    let fs = debian()
        .file("/srv/conf/gh/hosts.yml", "T")
        .file("/srv/kube/a", "T")
        .file("/srv/kube/b", "T")
        .file("/srv/cargo/credentials.toml", "T");
    let mut host = facts();
    for (k, v) in [
        ("XDG_CONFIG_HOME", "/srv/conf"),
        ("KUBECONFIG", "/srv/kube/a:/srv/kube/b"),
        ("CARGO_HOME", "/srv/cargo"),
    ] {
        crate::plan::fixture::set_var(&mut host, k, v);
    }
    let plan = planned(&dev(), &host, &fs);
    for p in [
        "/srv/conf/gh/hosts.yml",
        "/srv/kube/a",
        "/srv/kube/b",
        "/srv/cargo/credentials.toml",
    ] {
        assert!(!can_read(&plan, p), "{p}");
    }
}

#[test]
fn a_runner_state_directory_lifts_the_agent_rows_it_contains() {
    let fs = debian()
        .file("/home/me/.codex/auth.json", "T")
        .file("/home/me/.claude/.credentials.json", "T")
        .file("/home/me/.claude/settings.json", "{}")
        .dir("/home/me/.claude/projects");
    let mut p = dev();
    p.fs.runner_state_dirs.push(entry("/home/me/.claude"));
    let plan = planned(&p, &facts(), &fs);
    assert!(can_read(&plan, "/home/me/.claude/.credentials.json"));
    assert!(can_write(&plan, "/home/me/.claude/projects/x"));
    assert!(!can_write(&plan, "/home/me/.claude/settings.json"));
    assert!(!can_read(&plan, "/home/me/.codex/auth.json"));
}

#[test]
fn every_mandatory_name_that_exists_is_read_only() {
    let table = include_str!("../../policy/data/mandatory.txt");
    for line in table
        .lines()
        .filter(|l| !l.starts_with('#') && !l.is_empty())
    {
        let mut f = line.split_whitespace();
        let (tier, place, name) = (f.next().unwrap(), f.next().unwrap(), f.next().unwrap());
        let base = if place == "tree" {
            "/home/me/proj"
        } else {
            "/home/me/proj/.git"
        };
        let path = format!("{base}/{name}");
        let fs = debian();
        let fs = if fs.kind(Path::new(&path)).is_some() {
            fs
        } else {
            fs.file(&path, "x")
        };
        let mut p = dev();
        p.fs.protect_project_config = tier == "second";
        for host in [facts(), without_broker()] {
            p.fs.protect_git = true;
            let plan = planned(&p, &host, &fs);
            assert!(!can_write_in(&plan, &fs, &path), "{name}");
            assert!(can_write_in(&plan, &fs, "/home/me/proj/main.c"));
            if tier == "second" {
                let first = planned(&dev(), &host, &fs);
                assert!(can_write_in(&first, &fs, &path), "{name}");
            }
            // By name more is held: these two would lead git to other hooks and another configuration.
            let redirects = matches!(name, "commondir" | "config.worktree");
            if tier == "preset" && !(redirects && host.broker.works()) {
                p.fs.protect_git = false;
                let open = planned(&p, &host, &fs);
                assert!(can_write_in(&open, &fs, &path), "{name}");
            }
        }
    }
}

#[test]
fn the_agents_home_is_closed_but_for_caches() {
    let fs: FakeFs = debian()
        .dir("/home/me/.claude/todos")
        .dir("/home/me/.claude/plugins")
        .file("/home/me/.claude.json", "{}");
    let plan = planned(&terminal("/home/me"), &facts(), &fs);
    assert!(can_write(&plan, "/home/me/.claude/todos/x"));
    assert!(!can_write(&plan, "/home/me/.claude/plugins/x"));
    assert!(!can_write(&plan, "/home/me/.claude/new"));
    assert!(!can_write(&plan, "/home/me/.claude.json"));
    let mut host = facts();
    crate::plan::fixture::set_var(&mut host, "CLAUDE_CONFIG_DIR", "/home/me/conf");
    let fs = fs.dir("/home/me/conf/hooks");
    let plan = planned(&terminal("/home/me"), &host, &fs);
    assert!(!can_write(&plan, "/home/me/conf/hooks/x"));
}

#[test]
fn working_directories_that_stay_read_only_in_dev() {
    for cwd in [
        "/",
        "/home",
        "/home/me",
        "/etc",
        "/etc/ssl",
        "/usr",
        "/usr/bin",
        "/var",
        "/opt",
        "/srv",
        "/root",
        "/boot/grub",
        "/lib64",
    ] {
        let fs = debian().dir("/boot/grub").dir(cwd);
        let mut host = facts();
        set_cwd(&mut host, cwd);
        if cwd == "/root" {
            continue;
        }
        let plan = planned(&dev(), &host, &fs);
        assert!(!can_write(&plan, &format!("{cwd}/x")), "{cwd}");
        assert_eq!(
            plan.notices.iter().filter(|n| n.contains("--rw")).count(),
            1,
            "{cwd}"
        );
    }
    for cwd in [
        "/usr/src/linux",
        "/usr/local/src/p",
        "/var/lib/p",
        "/opt/p",
        "/srv/p",
        "/home/me/p",
    ] {
        let mut host = facts();
        set_cwd(&mut host, cwd);
        let plan = planned(&dev(), &host, &debian().dir(cwd));
        assert!(can_write(&plan, &format!("{cwd}/x")), "{cwd}");
    }
    // Nobody is told that it stays read-only where an entry opens it.
    for (write, read, told) in [("/srv", "/etc", 0), ("/etc", "/srv", 1)] {
        let mut host = facts();
        set_cwd(&mut host, "/srv");
        let mut p = dev();
        p.fs.allow_write.push(entry(write));
        p.fs.allow_read.push(entry(read));
        let plan = planned(&p, &host, &debian().dir("/srv/p"));
        let notices = plan.notices.iter().filter(|n| n.contains("--rw")).count();
        let opens = can_write(&plan, "/srv/x");
        assert_eq!((notices, opens), (told, told == 0), "{write} {read}");
    }
}
