//! The names that nobody may write, where a plan leaves them to the broker.

use std::path::{Path, PathBuf};

use super::ask::{exact_rule, ws};
use super::broker::{Nothing, broker};
use crate::broker::action::{Action, Kind};
use crate::broker::decide::{Dir, Target, Verdict, decide};
use crate::broker::plan::components;
use crate::host::fs_view::FakeFs;
use crate::plan::fixture::{
    bind, can_write, can_write_in, debian, dev, dispatch, entry, facts, origin, planned, set_cwd,
    set_var, terminal,
};
use crate::policy::Ruled;

#[test]
fn mandatory_names_hold_at_known_places_and_in_old_repositories() {
    let mut p = ws();
    p.fs.allow_write.push(entry("/home/me/proj/inner"));
    let fs = debian().dir("/home/me/proj/inner").dir("/home/me/proj/a/b");
    let mut host = facts();
    set_cwd(&mut host, "/home/me/proj/a/b");
    let plan = planned(&p, &host, &fs);
    for top in ["", "/a", "/a/b", "/inner"] {
        for name in [".mcp.json", ".vscode", ".claude/settings.json", ".zshrc"] {
            let path = format!("/home/me/proj{top}/{name}");
            assert!(!can_write_in(&plan, &fs, &path), "{path}");
        }
    }
    // Elsewhere only in repositories: this one was there before.
    assert!(can_write_in(&plan, &fs, "/home/me/proj/sub/.mcp.json"));
    let with_repository = fs.clone().dir("/home/me/proj/sub/.git");
    assert!(!can_write_in(
        &plan,
        &with_repository,
        "/home/me/proj/sub/.mcp.json"
    ));
    // The second tier by its key.
    assert!(can_write_in(&plan, &fs, "/home/me/proj/.npmrc"));
    p.fs.protect_project_config = true;
    let second = planned(&p, &host, &fs);
    assert!(!can_write_in(&second, &fs, "/home/me/proj/.npmrc"));
    assert!(!can_write_in(
        &second,
        &with_repository,
        "/home/me/proj/sub/.npmrc"
    ));
}

#[test]
fn bare_repository_names_at_the_top_of_every_root() {
    let fs = debian()
        .dir("/home/me/ws/inner/refs")
        .dir("/home/me/ws/deep")
        .file("/home/me/ws/bare/HEAD", "")
        .dir("/home/me/ws/bare/objects")
        .dir("/home/me/ws/bare/refs");
    let mut p = dispatch();
    p.workdir = Some(Ruled {
        value: "/home/me/ws".into(),
        origin: origin(1),
    });
    p.fs.binds.push(bind("/home/me/ws", false));
    p.fs.allow_write.push(entry("/home/me/ws/inner"));
    p.fs.allow_write.push(entry("/home/me/ws/bare"));
    let plan = planned(&p, &facts(), &fs);
    for (path, allowed) in [
        ("HEAD", false),
        ("objects", false),
        ("inner/HEAD", false),
        ("inner/objects/x", false),
        // Somebody's own directory stays as it is.
        ("inner/refs/x", true),
        ("deep/HEAD", true),
        ("bare/objects/x", true),
        ("bare/packed-refs", true),
    ] {
        let path = format!("/home/me/ws/{path}");
        assert_eq!(can_write_in(&plan, &fs, &path), allowed, "{path}");
    }
}

#[test]
fn git_configuration_is_left_to_the_gate_and_hooks_stay_mounted() {
    let fs = debian();
    let plan = planned(&ws(), &facts(), &fs);
    assert!(super::ask::mounts_at(&plan, "/home/me/proj/.git/config").is_empty());
    assert_eq!(
        super::ask::mounts_at(&plan, "/home/me/proj/.git/hooks").len(),
        1
    );
    assert_eq!(exact_rule(&plan, "/home/me/proj/.git/config"), None);
    let answer = crate::plan::check::write(&plan, &fs, Path::new("/home/me/proj/.git/config"));
    assert!(
        !answer.allowed && answer.rule.contains("config.lock"),
        "{}",
        answer.rule
    );
    // A configuration that is a link is not git's to replace.
    let fs = debian()
        .file("/home/me/proj/shared.cfg", "")
        .link("/home/me/proj/.git/config", "../shared.cfg");
    let plan = planned(&ws(), &facts(), &fs);
    assert!(!can_write_in(&plan, &fs, "/home/me/proj/shared.cfg"));
    assert!(exact_rule(&plan, "/home/me/proj/.git/config").is_some());
    // A `.git` that leads elsewhere is not pointed anywhere else.
    let fs = FakeFs::new()
        .dir("/home/me/ws/other/git/hooks")
        .file("/home/me/ws/other/git/config", "")
        .link("/home/me/ws/.git", "other/git")
        .dir("/tmp")
        .dir("/var/tmp")
        .dir("/run")
        .dir("/usr");
    let mut p = dispatch();
    p.fs.binds.push(bind("/home/me/ws", false));
    let mut host = facts();
    set_cwd(&mut host, "/home/me/ws");
    let plan = planned(&p, &host, &fs);
    assert_eq!(
        exact_rule(&plan, "/home/me/ws/.git"),
        Some("mandatory \".git\"")
    );
}

#[test]
fn hooks_kept_elsewhere_are_closed_too() {
    for (config, at) in [
        (
            "[core]\n\thooksPath = .githooks\n",
            "/home/me/proj/.githooks",
        ),
        (
            "[core]\n\thookspath = /home/me/proj/tools/hooks\n",
            "/home/me/proj/tools/hooks",
        ),
        ("[core]\n\tHooksPath = ~/proj/h\n", "/home/me/proj/h"),
    ] {
        let fs = debian().file("/home/me/proj/.git/config", config);
        let plan = planned(&ws(), &facts(), &fs);
        assert!(!can_write(&plan, &format!("{at}/pre-commit")), "{config}");
        assert!(exact_rule(&plan, at).unwrap().contains("core.hooksPath"));
    }
    let fs = debian().file("/home/me/.gitconfig", "[core]\n\thooksPath = team/hooks\n");
    let plan = planned(&ws(), &facts(), &fs);
    assert!(!can_write(&plan, "/home/me/proj/team/hooks/pre-commit"));
}

#[test]
fn the_agents_home_keeps_its_caches_by_name() {
    let fs = debian()
        .dir("/home/me/.claude/todos")
        .dir("/home/me/.claude/plugins");
    let plan = planned(&terminal("/home/me"), &facts(), &fs);
    for (path, denied) in [
        (".claude/todos/x", false),
        // There, so making it fails anyway; where the host takes it away, it is a cache again.
        (".claude/todos", false),
        (".claude/new", true),
        (".claude", true),
        (".claude.json", true),
        (".config/x", false),
    ] {
        let path = PathBuf::from("/home/me").join(path);
        // Asked of the home's tree, as after the host has replaced the directory.
        let b = broker(&plan);
        let set = b.rule_set();
        let (index, _) = b
            .trees
            .iter()
            .enumerate()
            .find(|(_, t)| t.guest == Path::new("/home/me"))
            .unwrap();
        let parts = components(path.strip_prefix("/home/me").unwrap());
        let (name, dir) = parts.split_last().unwrap();
        let dir: Vec<&[u8]> = dir.iter().map(Vec::as_slice).collect();
        let dir = Dir::new(&set, index, &dir).unwrap();
        let target = Target {
            dir: &dir,
            name,
            kind: Kind::Absent,
            facts: &Nothing,
        };
        let verdict = decide(&set, Action::Mkdir, &target);
        assert_eq!(matches!(verdict, Verdict::Deny(_)), denied, "{path:?}");
    }
    // A runner's own directory lifts the group, not its settings.
    let mut p = dev();
    p.fs.runner_state_dirs.push(entry("/home/me/.claude"));
    let plan = planned(&p, &facts(), &fs);
    assert!(can_write(&plan, "/home/me/.claude/plugins/x"));
    assert!(!can_write(&plan, "/home/me/.claude/settings.json"));
    assert!(!can_write(&plan, "/home/me/.claude/hooks/x"));
    let mut host = facts();
    set_var(&mut host, "CLAUDE_CONFIG_DIR", "/home/me/proj/conf");
    let plan = planned(&ws(), &host, &debian());
    assert!(
        !can_write(&plan, "/home/me/proj/conf/x"),
        "absent, and stays so"
    );
}
