//! Statements 17 to 32: modes, profiles, what is refused, names, reads.

use super::super::model::{HOME, host, mac};
use super::super::{RunFacts, render};
use super::{PROJ, TAG, TMP, chat, loaded, says, text, written};
use crate::exit::Failure;
use crate::plan::fixture::{bind, bind_at, entry};
use crate::plan::seatbelt;
use crate::policy::environment::scrub;
use crate::policy::{EnvPolicy, Mode, View};
use std::path::Path;

#[test]
fn statement_17_what_does_not_resolve_is_kept_as_written() {
    let mut p = chat();
    p.fs.protected.push(entry("/Users/dev/w/proj/not/there"));
    let text = text(&p);
    assert!(text.contains("(literal \"/Users/dev/w/proj/not/there\")"));
    says(
        &text,
        false,
        "file-write-create",
        &["/Users/dev/w/proj/not/there", "/Users/dev/w/proj/not"],
    );
}

/// Protected, and what each mode makes of grants.
fn in_mode(mode: Mode) -> String {
    let mut p = chat();
    p.mode = mode;
    p.fs.protected.push(entry("/Users/dev/w/proj/vendor"));
    p.fs.runner_state_dirs.push(entry("/opt/data"));
    text(&p)
}

const MODES: [Mode; 4] = [Mode::Chat, Mode::Review, Mode::Plan, Mode::Orchestrate];

#[test]
fn statement_18_protected_paths_hold_in_every_mode() {
    for mode in MODES {
        says(
            &in_mode(mode),
            false,
            "file-write-create",
            &["/Users/dev/w/proj/vendor/x"],
        );
    }
}

#[test]
fn statement_19_only_chat_writes_to_grants() {
    for mode in MODES {
        let want = mode == Mode::Chat;
        says(
            &in_mode(mode),
            want,
            "file-write-create",
            &["/Users/dev/w/proj/x"],
        );
    }
}

#[test]
fn statement_20_runner_state_is_written_in_every_mode() {
    for mode in MODES {
        says(&in_mode(mode), true, "file-write-create", &["/opt/data/x"]);
    }
}

#[test]
fn statement_21_another_guest_path_is_refused() {
    let mut p = chat();
    p.fs.binds.push(bind_at("/opt/data", "/elsewhere", false));
    let refused = written(&p, &mac(), TAG).unwrap_err();
    assert!(
        refused
            .message
            .contains("`guest_path` must be the same as `host_path`")
    );
    assert_eq!(refused.exit_code(), 125);
}

#[test]
fn statement_22_terminal_writes_home_and_hides_five_places() {
    let text = text(&loaded("profile = 'terminal'").unwrap());
    says(
        &text,
        true,
        "file-write-create",
        &["/Users/dev/x", "/Users/dev/w/proj/x"],
    );
    says(&text, true, "network-outbound", &["192.0.2.1:443"]);
    says(
        &text,
        false,
        "network-outbound",
        &["/private/var/run/docker.sock"],
    );
    for name in [".ssh", ".aws", ".gnupg", ".config/gh", "Library/Keychains"] {
        let path = format!("{HOME}/{name}/x");
        says(&text, false, "file-read-data", &[&path]);
        says(&text, false, "file-write-create", &[&path]);
    }
    says(&text, true, "file-read-data", &["/Users/dev/.npmrc"]);
}

#[test]
fn statement_23_what_cannot_be_said_is_refused() {
    let mut p = chat();
    p.fs.protected.push(entry("/Users/dev/w/proj/new\nline"));
    let rules = seatbelt::rules(&p, &host(), &mac(), Path::new(TMP)).unwrap();
    let run = RunFacts {
        tag: TAG.to_owned(),
        proxy_port: 1,
        terminals: Vec::new(),
    };
    let refused = render(&rules, &run).unwrap_err();
    assert_eq!(refused.exit_code(), 125);
    assert!(refused.hint().is_some());
}

#[test]
fn statement_24_every_refusal_has_the_tag_of_its_run() {
    let text = text(&chat());
    let refusals = text.matches("(deny ").count();
    assert!(refusals > 15);
    assert_eq!(
        text.matches(&format!("(with message \"{TAG}\")")).count(),
        refusals
    );
}

#[test]
fn statement_25_the_environment_is_scrubbed() {
    let names = [
        "DYLD_INSERT_LIBRARIES",
        "LD_PRELOAD",
        "NODE_OPTIONS",
        "GIT_SSH_COMMAND",
        "BASH_ENV",
    ];
    let caller: Vec<_> = names
        .iter()
        .chain(&["PATH"])
        .map(|n| ((*n).into(), "x".into()))
        .collect();
    let kept = scrub(&caller, &EnvPolicy::default()).vars;
    assert_eq!(
        kept.iter().map(|(n, _)| n.clone()).collect::<Vec<_>>(),
        ["PATH"]
    );
}

#[test]
fn statement_26_the_names_of_agents_and_repositories() {
    let mut p = chat();
    p.fs.binds.push(bind("/opt/data", false));
    let text = text(&p);
    let mut names: Vec<&str> = vec![".mcp.json"];
    names.extend([
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".claude/skills/x",
        ".claude/agents/x",
        ".claude/commands/x",
        ".claude/hooks/x",
        ".claude/workflows/x",
        ".claude/scheduled_tasks.json",
        ".bashrc",
        ".zshenv",
        ".profile",
        ".gitconfig",
        ".vscode/tasks.json",
        ".idea/x",
        ".git/hooks/x",
        ".git/config",
    ]);
    for name in names {
        says(
            &text,
            false,
            "file-write-create",
            &[&format!("{PROJ}/{name}"), &format!("/opt/data/{name}")],
        );
    }
    // A directory that is none yet becomes no repository.
    says(
        &text,
        false,
        "file-write-create",
        &["/opt/data/HEAD", "/opt/data/objects", "/opt/data/refs"],
    );
    let home = [
        "/Users/dev/.claude/x",
        "/Users/dev/.claude.json",
        "/Users/dev/.claude/.credentials.json",
    ];
    says(&text, false, "file-write-create", &home);
}

#[test]
fn statement_27_a_worktree_writes_the_common_directory_but_not_what_runs() {
    let main = "/Users/dev/w/main/.git";
    let fs = mac()
        .file(
            "/Users/dev/w/tree/.git",
            "gitdir: /Users/dev/w/main/.git/worktrees/tree\n",
        )
        .file(format!("{main}/HEAD"), "ref: refs/heads/main\n")
        .dir(format!("{main}/objects"))
        .dir(format!("{main}/refs"))
        .dir(format!("{main}/hooks"))
        .file(format!("{main}/config"), "[core]\n")
        .file(format!("{main}/worktrees/tree/commondir"), "../..\n")
        .file(
            format!("{main}/worktrees/tree/gitdir"),
            "/Users/dev/w/tree/.git\n",
        );
    let mut p = chat();
    p.fs.binds.push(bind("/Users/dev/w/tree", false));
    let text = written(&p, &fs, TAG).unwrap();
    let refs = format!("{main}/refs/heads/x");
    says(&text, true, "file-write-create", &[&refs]);
    for name in ["hooks/post-commit", "config"] {
        says(
            &text,
            false,
            "file-write-create",
            &[&format!("{main}/{name}")],
        );
    }
    // Protection of the main checkout wins.
    p.fs.protected.push(entry("/Users/dev/w/main"));
    let text = written(&p, &fs, TAG).unwrap();
    says(&text, false, "file-write-create", &[&refs]);
}

#[test]
fn statement_28_the_temporary_directory_of_the_run_is_written() {
    let mut p = chat();
    p.fs.view = View::Bound;
    for (mode, dir) in [(Mode::Chat, TMP), (Mode::Review, TMP)] {
        p.mode = mode;
        let text = text(&p);
        says(&text, true, "file-write-create", &[&format!("{dir}/x")]);
        says(&text, true, "file-read-data", &[&format!("{dir}/x")]);
        // It is the run's: the shared one around it stays closed.
        says(
            &text,
            false,
            "file-write-create",
            &["/private/var/folders/q1/x0/T/other"],
        );
    }
}

#[test]
fn statement_29_apple_events_are_closed_unless_somebody_trusted_opens_them() {
    let doors: [(&str, &[&str]); 4] = [
        ("appleevent-send", &["com.apple.finder"]),
        ("lsopen", &[""]),
        ("mach-lookup", &["com.apple.coreservices.appleevents"]),
        ("process-exec*", &["/usr/bin/open", "/usr/bin/osascript"]),
    ];
    let mut p = chat();
    for open in [false, true] {
        p.macos.allow_apple_events = open;
        for (op, targets) in doors {
            says(&text(&p), open, op, targets);
        }
    }
    assert!(!loaded("mode = 'chat'").unwrap().macos.allow_apple_events);
}

#[test]
fn statement_30_a_mask_is_never_less_than_a_refusal() {
    let masked = "[[credentials.files]]\npath = '~/.token'\nmode = 'mask'";
    match loaded(masked) {
        // Refused as long as nothing can be masked.
        Err(refused) => assert!(refused.to_string().contains("credentials"), "{refused}"),
        Ok(p) => says(&text(&p), false, "file-read-data", &["/Users/dev/.token"]),
    }
}

#[test]
fn statement_31_the_more_specific_read_rule_wins() {
    let mut p = chat();
    p.fs.deny_read.push(entry("/Users/dev/lib"));
    p.fs.allow_read.push(entry("/Users/dev/lib/open"));
    p.fs.deny_read.push(entry("/Users/dev/lib/open/shut"));
    let fs = mac().dir("/Users/dev/lib/open/shut");
    let text = written(&p, &fs, TAG).unwrap();
    says(
        &text,
        false,
        "file-read-data",
        &["/Users/dev/lib/x", "/Users/dev/lib/open/shut/x"],
    );
    says(&text, true, "file-read-data", &["/Users/dev/lib/open/x"]);
}

#[test]
fn statement_32_certificates_can_be_checked() {
    says(
        &text(&chat()),
        true,
        "mach-lookup",
        &["com.apple.trustd", "com.apple.trustd.agent"],
    );
}
