//! The known failure cases and the paragraphs of the semantics, by name.

use std::path::{Path, PathBuf};

use super::ask::{exact_rule, gap, mounts_at, pattern, refusal, refusal_without_broker, var, ws};
use crate::host::fs_view::FakeEntry;
use crate::plan::Mount;
use crate::plan::fixture::{
    bind, bind_at, can_read, can_write, can_write_in, debian, dev, dispatch, entry, facts, layer,
    origin, planned, set_cwd, terminal, without_broker,
};
use crate::policy::path::ListKind;
use crate::policy::{Layer, Mode, Ruled};

#[test]
fn cf4_a_missing_writable_path_is_named_with_its_line() {
    for list in ["bind_mounts", "allow_write", "runner_state_dirs"] {
        let mut p = ws();
        match list {
            "bind_mounts" => p.fs.binds.push(bind("/home/me/gone", false)),
            "allow_write" => p.fs.allow_write.push(entry("/home/me/gone")),
            _ => p.fs.runner_state_dirs.push(entry("/home/me/gone")),
        }
        let text = refusal(&p, &debian());
        assert!(
            text.contains("/home/me/gone") && text.contains(list),
            "{text}"
        );
        assert!(text.contains("/spec/spec.toml:"), "{text}");
    }
}

#[test]
fn cf4_missing_denies_are_kept_and_said() {
    let mut p = ws();
    p.fs.protected.push(entry("/home/me/proj/.env"));
    p.fs.deny_read.push(entry("/home/me/proj/gone"));
    let plan = planned(&p, &facts(), &debian());
    assert!(can_write(&plan, "/home/me/proj/main.c"));
    assert!(!can_write(&plan, "/home/me/proj/.env"));
    assert!(!can_write(&plan, "/home/me/proj/gone") && !can_read(&plan, "/home/me/proj/gone"));
    assert_eq!(gap(&plan, "late-secrets"), None);
    assert_eq!(gap(&plan, "absent-names"), None);
    assert!(plan.refusal.is_none());
    let text = refusal_without_broker(&p, &debian());
    assert!(
        text.contains("proj/.env") && text.contains("spec.toml:1") && text.contains("Landlock"),
        "{text}"
    );
    let ruled = |w: &str| plan.rules.rules.iter().any(|r| r.rule.contains(w));
    assert!(ruled("proj/.env") && ruled("proj/gone"));
}

#[test]
fn fw5_an_absent_name_nobody_inside_can_create_needs_nothing() {
    let mut p = ws();
    p.fs.protected.push(entry("/opt/.conf"));
    for host in [facts(), without_broker()] {
        let before = planned(&ws(), &host, &debian());
        let after = planned(&p, &host, &debian());
        assert_eq!(before.mounts, after.mounts);
        assert!(after.refusal.is_none());
        let absent = gap(&after, "absent-names").unwrap_or_default();
        assert!(!absent.contains("/opt/.conf"));
        assert_eq!(exact_rule(&after, "/opt/.conf"), None);
    }
}

#[test]
fn fw7_read_only_modes_leave_only_state_and_tmp_writable() {
    let fs = debian().dir("/home/me/ws2").dir("/home/me/st");
    for mode in [Mode::Review, Mode::Plan, Mode::Orchestrate] {
        let mut p = ws();
        p.mode = mode;
        p.fs.binds.push(bind("/home/me/ws2", false));
        p.fs.binds.push(bind("/tmp", false));
        p.fs.runner_state_dirs.push(entry("/home/me/st"));
        let plan = planned(&p, &facts(), &fs);
        assert!(!can_write(&plan, "/home/me/proj/a") && !can_write(&plan, "/home/me/ws2/b"));
        assert!(can_write(&plan, "/home/me/st/c"));
        assert_eq!(var(&plan, "TMPDIR").unwrap(), "/var/tmp");
        assert!(can_write(&plan, "/var/tmp/x"));
    }
}

#[test]
fn fw9_a_single_file_grant_is_said_to_be_one() {
    let mut p = ws();
    p.fs.allow_write.push(entry("/home/me/conf.json"));
    let plan = planned(&p, &facts(), &debian().file("/home/me/conf.json", "{}"));
    assert!(can_write(&plan, "/home/me/conf.json"));
    assert!(
        plan.notices
            .iter()
            .any(|n| n.contains("conf.json") && n.contains("rename"))
    );
}

#[test]
fn semantics_4_grants_on_what_is_never_writable() {
    for path in [
        "/home/me/proj/.git/hooks",
        "/home/me/proj/.vscode/x",
        "/home/me/.bashrc",
        "/home/me/.claude",
        "/spec/spec.toml",
        "/home/me/.local/state/ccbox",
    ] {
        let fs = debian()
            .dir("/home/me/proj/.vscode/x")
            .dir("/home/me/.claude");
        let mut p = ws();
        p.fs.own_files.push(Ruled {
            value: "/spec/spec.toml".into(),
            origin: origin(0),
        });
        p.fs.allow_write.push(entry(path));
        let text = refusal(&p, &fs);
        assert!(text.contains("never writable"), "{path}: {text}");
        p.fs.allow_write.clear();
        p.fs.allow_read.push(entry(path));
        assert!(!can_write(&planned(&p, &facts(), &fs), path), "{path}");
    }
    let mut p = ws();
    p.fs.protected.push(entry("/home/me/proj"));
    let plan = planned(&p, &facts(), &debian());
    assert!(!can_write(&plan, "/home/me/proj/main.c"));
    let told: Vec<_> = plan
        .notices
        .iter()
        .filter(|n| n.contains("stays read-only"))
        .collect();
    assert_eq!(told.len(), 1, "{told:?}");
}

#[test]
fn semantics_4_the_deepest_bind_wins_and_equal_depth_is_read_only() {
    let fs = debian().dir("/home/me/proj/ro/rw");
    let mut p = ws();
    p.fs.binds.push(bind("/home/me/proj/ro", true));
    p.fs.allow_write.push(entry("/home/me/proj/ro/rw"));
    let plan = planned(&p, &facts(), &fs);
    assert!(can_write(&plan, "/home/me/proj/x"));
    assert!(!can_write(&plan, "/home/me/proj/ro/x"));
    assert!(can_write(&plan, "/home/me/proj/ro/rw/x"));
    p.fs.binds.push(bind("/home/me/proj/ro/rw", true));
    assert!(!can_write(
        &planned(&p, &facts(), &fs),
        "/home/me/proj/ro/rw/x"
    ));
    let mut p = dev();
    let mut e = entry("/home/me/proj/ro");
    e.origin = layer(Layer::Flag("--ro"));
    p.fs.allow_read.push(e);
    assert!(!can_write(
        &planned(&p, &facts(), &fs),
        "/home/me/proj/ro/x"
    ));
}

#[test]
fn semantics_5_reads() {
    let fs = debian()
        .file("/home/me/.netrc", "S")
        .file("/home/me/.ssh/known_hosts", "")
        .dir("/home/me/data/open");
    // A row of ccbox's own is lifted by an entry naming it, or narrowed by a deeper one.
    let mut p = dev();
    assert!(!can_read(&planned(&p, &facts(), &fs), "/home/me/.netrc"));
    p.fs.allow_read.push(entry("/home/me/.netrc"));
    p.fs.allow_read.push(entry("/home/me/.ssh/known_hosts"));
    let plan = planned(&p, &facts(), &fs);
    assert!(can_read(&plan, "/home/me/.netrc") && can_read(&plan, "/home/me/.ssh/known_hosts"));
    assert!(!can_read(&plan, "/home/me/.ssh/id_rsa"));
    // A wider allow lifts nothing; a written deny stands at equal depth.
    let mut p = dev();
    p.fs.allow_read.push(entry("/home/me"));
    p.fs.deny_read.push(entry("/home/me/data"));
    p.fs.allow_read.push(entry("/home/me/data"));
    let plan = planned(&p, &facts(), &fs);
    assert!(!can_read(&plan, "/home/me/.netrc") && !can_read(&plan, "/home/me/data/x"));
    p.fs.allow_read.push(entry("/home/me/data/open"));
    assert!(can_read(
        &planned(&p, &facts(), &fs),
        "/home/me/data/open/x"
    ));
    // A managed deny is a ceiling.
    p.fs.deny_read[0].origin = layer(Layer::Managed);
    assert!(!can_read(
        &planned(&p, &facts(), &fs),
        "/home/me/data/open/x"
    ));
}

#[test]
fn semantics_3_denies_fold_case_and_grants_do_not() {
    let fs = debian()
        .file("/home/me/proj/Secret.TXT", "S")
        .file("/home/me/proj/SUB/prot", "K")
        .file("/home/me/proj/straße/f", "K")
        .dir("/home/me/other")
        .dir("/home/me/OTHER");
    let mut p = ws();
    p.fs.deny_read.push(entry("/home/me/proj/secret.txt"));
    p.fs.protected.push(entry("/home/me/proj/sub/PROT"));
    p.fs.deny_write.push(entry("/home/me/proj/STRAßE"));
    p.fs.allow_write.push(entry("/home/me/other"));
    let plan = planned(&p, &facts(), &fs);
    assert!(!can_read(&plan, "/home/me/proj/Secret.TXT"));
    assert!(!can_write(&plan, "/home/me/proj/SUB/prot"));
    assert!(!can_write(&plan, "/home/me/proj/straße/f"));
    assert!(can_write(&plan, "/home/me/other/x") && !can_write(&plan, "/home/me/OTHER/x"));
}

#[test]
fn fr3_the_working_directory_is_never_another_one() {
    let fs = debian().file("/home/me/sib", "S");
    let mut p = ws();
    p.fs.view = crate::policy::View::Host;
    p.fs.deny_read.push(entry("/home/me"));
    let shown = planned(&p, &facts(), &fs);
    assert!(can_write(&shown, "/home/me/proj/here") && !can_read(&shown, "/home/me/sib"));
    p.fs.binds.clear();
    let text = refusal(&p, &fs);
    assert!(
        text.contains("/home/me/proj") && text.contains("deny_read \"/home/me\""),
        "{text}"
    );
    // In the bound view without its bind.
    let text = refusal(&dispatch(), &fs);
    assert!(
        text.contains("not visible") && text.contains("--rw /home/me/proj"),
        "{text}"
    );
}

#[test]
fn semantics_9_worktrees_are_believed_only_by_agreement() {
    let linked = |back: &str| {
        debian()
            .file(
                "/home/me/wt/.git",
                "gitdir: /home/me/proj/.git/worktrees/wt\n",
            )
            .file("/home/me/proj/.git/worktrees/wt/commondir", "../..\n")
            .file("/home/me/proj/.git/worktrees/wt/gitdir", back)
    };
    let mut p = dispatch();
    p.fs.binds.push(bind("/home/me/wt", false));
    let mut host = facts();
    set_cwd(&mut host, "/home/me/wt");
    let plan = planned(&p, &host, &linked("/home/me/wt/.git\n"));
    assert!(can_write(&plan, "/home/me/proj/.git/objects/x"));
    for closed in [
        "/home/me/proj/.git/hooks/x",
        "/home/me/wt/.git",
        "/home/me/proj/main.c",
    ] {
        assert!(!can_write(&plan, closed), "{closed}");
    }
    // The main repository does not know this worktree: the `.git` file was planted.
    let planted = planned(&p, &host, &linked("/home/me/else/.git\n"));
    assert!(!can_read(&planted, "/home/me/proj/.git/objects/x"));
    // Protection of the main checkout wins, and is named.
    p.fs.protected.push(entry("/home/me/proj"));
    let plan = planned(&p, &host, &linked("/home/me/wt/.git\n"));
    assert!(!can_write(&plan, "/home/me/proj/.git/objects/x"));
    assert!(
        plan.notices
            .iter()
            .any(|n| n.contains("/home/me/proj/.git")),
        "{:?}",
        plan.notices
    );
}

#[test]
fn submodules_and_roots_that_are_git_directories() {
    let module = "/home/me/proj/.git/modules/sub";
    let fs = debian()
        .file(format!("{module}/HEAD"), "")
        .dir(format!("{module}/objects"))
        .dir(format!("{module}/refs"))
        .dir(format!("{module}/hooks"))
        .file(format!("{module}/config"), "")
        .file("/home/me/bare.git/HEAD", "")
        .dir("/home/me/bare.git/objects")
        .dir("/home/me/bare.git/refs")
        .dir("/home/me/bare.git/hooks")
        .file("/home/me/bare.git/config", "");
    for host in [facts(), without_broker()] {
        let plan = planned(&ws(), &host, &fs);
        let open = |path: &str| can_write_in(&plan, &fs, path);
        assert!(!open(&format!("{module}/config")) && !open(&format!("{module}/hooks/x")));
        assert!(open(&format!("{module}/objects/x")));
        let mut p = ws();
        p.fs.allow_write.push(entry("/home/me/bare.git"));
        let plan = planned(&p, &host, &fs);
        let open = |path: &str| can_write_in(&plan, &fs, path);
        assert!(!open("/home/me/bare.git/hooks/x") && !open("/home/me/bare.git/config"));
        assert!(open("/home/me/bare.git/refs/x") && open("/home/me/bare.git/packed-refs"));
    }
}

#[test]
fn mandatory_names_hold_from_the_working_directory_up_to_the_root() {
    let fs = debian()
        .dir("/home/me/proj/a/b")
        .file("/home/me/proj/a/.mcp.json", "{}")
        .file("/home/me/proj/a/b/.bashrc", "");
    let mut host = facts();
    set_cwd(&mut host, "/home/me/proj/a/b");
    for broker in [facts().broker, without_broker().broker] {
        let pinned = usize::from(!broker.works());
        host.broker = broker;
        let plan = planned(&ws(), &host, &fs);
        assert!(
            !can_write(&plan, "/home/me/proj/a/.mcp.json")
                && !can_write(&plan, "/home/me/proj/a/b/.bashrc")
        );
        assert_eq!(mounts_at(&plan, "/home/me/proj/a").len(), pinned);
        assert!(can_write(&plan, "/home/me/proj/a/other"));
    }
}

#[test]
fn cf3_own_files_are_protected_wherever_they_lie() {
    let mut p = ws();
    let spec = PathBuf::from("/home/me/proj/.ccbox.toml");
    p.fs.own_files.push(Ruled {
        value: spec,
        origin: origin(0),
    });
    let plan = planned(
        &p,
        &facts(),
        &debian().file("/home/me/proj/.ccbox.toml", ""),
    );
    assert!(!can_write(&plan, "/home/me/proj/.ccbox.toml"));
    // Where home is writable, state and configuration exist before the child could make them.
    let plan = planned(&terminal("/home/me"), &facts(), &debian());
    assert!(plan.state_dirs.contains(&"/home/me/.config/ccbox".into()));
    assert!(!can_write(&plan, "/home/me/.config/ccbox/config.toml"));
    assert!(!can_write(&plan, "/home/me/.local/state/ccbox/trust"));
    assert!(can_write(&plan, "/home/me/.config/other"));
}

#[test]
fn what_only_the_broker_can_hold_is_refused_without_one() {
    for kind in [ListKind::DenyWrite, ListKind::Protected] {
        let mut p = ws();
        let entry = pattern("*.key", kind, origin(7));
        if kind == ListKind::DenyWrite {
            p.fs.deny_write.push(entry);
        } else {
            p.fs.protected.push(entry);
        }
        let text = refusal_without_broker(&p, &debian());
        for word in ["*.key", "creation broker", "spec.toml:7", "no Landlock"] {
            assert!(text.contains(word), "{text}");
        }
        assert!(planned(&p, &facts(), &debian()).refusal.is_none());
        // Nothing is writable, so nothing can be made.
        p.mode = Mode::Review;
        assert!(planned(&p, &without_broker(), &debian()).refusal.is_none());
    }
    // What a profile brings along is said instead.
    let mut p = ws();
    let profile = layer(Layer::Profile("dispatch".to_owned()));
    p.fs.deny_write
        .push(pattern(".env", ListKind::DenyWrite, profile));
    let plan = planned(&p, &without_broker(), &debian());
    assert!(plan.refusal.is_none());
    assert!(gap(&plan, "name-patterns").unwrap().contains("`.env`"));
    assert_eq!(
        gap(&planned(&p, &facts(), &debian()), "name-patterns"),
        None
    );
}

#[test]
fn the_hosts_proc_is_never_granted() {
    let mut p = ws();
    p.fs.allow_read.push(entry("/proc/keys"));
    assert!(refusal(&p, &debian()).contains("/proc"));
    p.fs.allow_read.clear();
    p.fs.binds.push(bind_at("/srv", "/proc/x", true));
    assert!(refusal(&p, &debian()).contains("/proc/x"));
}

#[test]
fn a_guest_path_needs_a_place_to_stand() {
    let mut p = ws();
    p.fs.binds.push(bind_at("/srv", "/usr/nowhere", true));
    assert!(refusal(&p, &debian()).contains("/usr/nowhere"));
}

#[test]
fn explain_says_it_all() {
    let mut p = ws();
    p.fs.protected.push(entry("/home/me/proj/main.c"));
    p.fs.deny_read.push(entry("/home/me/proj/\u{202e}x"));
    let plan = planned(&p, &facts(), &debian());
    let text = crate::plan::explain::text(&plan);
    for want in [
        "view: bound",
        "writable   /home/me/proj",
        "never-write /home/me/proj/main.c  [protected_paths \"/home/me/proj/main.c\", /spec/spec.toml:1]",
        "LD_PRELOAD  [injection]",
        "every open for reading is decided by name, which makes it slower\n",
        "redirect  /run/ccbox-caches/cargo",
    ] {
        assert!(text.contains(want), "{want}\n{text}");
    }
    assert!(!text.contains('\u{202e}'));
    let value = crate::plan::explain::value(&plan);
    assert_eq!(value["view"], "bound");
    assert!(value["mounts"].as_array().unwrap().len() > 10);
    let ask = crate::plan::check::write(&plan, &debian(), Path::new("/home/me/proj/main.c"));
    assert!(!ask.allowed && ask.rule.contains("protected_paths") && ask.origin == Some(origin(1)));
}

#[test]
fn cr3_a_bind_above_a_home_in_tmp_shows_it_without_its_secrets() {
    let fs = debian()
        .file("/tmp/t/h/readme", "")
        .file("/tmp/t/h/.ssh/id", "");
    let mut host = facts();
    host.home = PathBuf::from("/tmp/t/h");
    host.home_real = host.home.clone();
    for mut p in [dispatch(), dev()] {
        p.fs.binds.push(bind("/tmp/t", true));
        set_cwd(&mut host, "/tmp/t");
        let plan = planned(&p, &host, &fs);
        assert!(can_read(&plan, "/tmp/t/h/readme"), "{}", p.profile);
        assert!(!can_read(&plan, "/tmp/t/h/.ssh/id"), "{}", p.profile);
        // Alone it stays the empty read-only directory of every view.
        p.fs.binds.pop();
        p.fs.binds.push(bind("/tmp/t/h/w", false));
        let fs = fs.clone().dir("/tmp/t/h/w");
        set_cwd(&mut host, "/tmp/t/h/w");
        let plan = planned(&p, &host, &fs);
        assert!(!can_read(&plan, "/tmp/t/h/readme") && can_write(&plan, "/tmp/t/h/w/x"));
    }
}

#[test]
fn a_home_that_refuses_state_gets_temporary_caches() {
    let fs = debian()
        .with(
            "/var/empty",
            FakeEntry::Dir {
                uid: 0,
                mode: 0o555,
            },
        )
        .dir("/var/empty/.npm");
    let mut host = facts();
    host.home = PathBuf::from("/var/empty");
    host.home_real = host.home.clone();
    host.state_dir = host.home.join(".local/state/ccbox");
    host.config_dir = host.home.join(".config/ccbox");
    for p in [dispatch(), dev()] {
        let mut p = p;
        p.fs.binds.push(bind("/home/me/proj", false));
        let plan = planned(&p, &host, &fs);
        assert!(plan.state_dirs.is_empty(), "{:?}", plan.state_dirs);
        assert!(plan.caches.iter().all(|c| c.how == "temporary"));
        assert_eq!(
            var(&plan, "GOPATH").as_deref(),
            Some("/run/ccbox-caches/go")
        );
        assert!(matches!(
            mounts_at(&plan, "/run/ccbox-caches/go")[..],
            [Mount::Dir { .. }]
        ));
    }
}

#[test]
fn two_binds_cannot_stand_at_one_guest_path() {
    let fs = debian().file("/d/x", "").file("/e/y", "");
    let mut p = ws();
    p.fs.binds.push(bind_at("/d", "/mnt/g", false));
    p.fs.binds.push(bind_at("/e", "/mnt/../mnt/g/", false));
    let text = refusal(&p, &fs);
    assert!(text.contains("`/mnt/g`") && text.contains("\"/d\"") && text.contains("\"/e\""));
}

#[test]
fn a_moved_bind_shows_nothing_of_what_it_stands_on() {
    let fs = debian()
        .file("/d/x", "")
        .file("/home/me/src/x", "")
        .dir("/home/me/src/sub");
    let mut p = ws();
    p.fs.binds.push(bind("/home/me/src", false));
    p.fs.binds.push(bind("/home/me/src/sub", true));
    p.fs.binds.push(bind_at("/d", "/home/me/src", false));
    p.fs.protected.push(entry("/home/me/src/x"));
    // Not what the rule about the host's /home/me/src/x would have mounted here, and the grant below needs a place to stand.
    assert!(refusal(&p, &fs).contains("/d/sub"));
    let plan = planned(&p, &facts(), &fs.dir("/d/sub"));
    assert!(mounts_at(&plan, "/home/me/src/x").is_empty());
    assert!(can_write(&plan, "/home/me/src/x"));
    assert!(can_read(&plan, "/home/me/src/sub") && !can_write(&plan, "/home/me/src/sub"));
}
