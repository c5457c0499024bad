//! What a plan asks of the creation broker.

use std::path::{Path, PathBuf};

use super::ask::{exact_rule, pattern, ws};
use crate::broker::action::{Action, Kind};
use crate::broker::decide::{Dir, Reason, Rule, Target, Verdict, decide};
use crate::broker::fold::NameRules;
use crate::broker::git_paths::Facts;
use crate::broker::plan::{BrokerPlan, Tree, components};
use crate::plan::Plan;
use crate::plan::fixture::{
    bind, bind_at, can_write, can_write_in, debian, dispatch, entry, facts, layer, origin, planned,
};
use crate::policy::path::ListKind;
use crate::policy::{Layer, Mode, Ruled};

/// Nothing is there.
pub(super) struct Nothing;

impl Facts for Nothing {
    fn holds(&self, _: usize, _: &str) -> bool {
        false
    }
    fn is_project_git_dir(&self, _: usize) -> bool {
        false
    }
    fn is_old_work_tree(&self, _: usize) -> bool {
        false
    }
}

fn tree_of<'a>(broker: &'a BrokerPlan, guest: &Path) -> Option<(usize, &'a Tree)> {
    let trees = broker.trees.iter().enumerate();
    trees
        .filter(|(_, t)| guest.starts_with(&t.guest) && guest != t.guest)
        .max_by_key(|(_, t)| t.guest.components().count())
}

/// The broker's answer about a path inside; `None` where it lies in no tree.
pub(super) fn verdict(plan: &Plan, guest: &Path, action: Action, kind: Kind) -> Option<Verdict> {
    let broker = plan.broker.as_ref()?;
    let (index, tree) = tree_of(broker, guest)?;
    let below = components(guest.strip_prefix(&tree.guest).unwrap());
    let (name, dir) = below.split_last()?;
    let dir: Vec<&[u8]> = dir.iter().map(Vec::as_slice).collect();
    let set = broker.rule_set();
    let dir = Dir::new(&set, index, &dir)?;
    let target = Target {
        dir: &dir,
        name,
        kind,
        facts: &Nothing,
    };
    Some(decide(&set, action, &target))
}

/// The broker refuses to do this to a directory inside.
pub(super) fn refuses(plan: &Plan, guest: &Path, action: Action) -> bool {
    matches!(
        verdict(plan, guest, action, Kind::Dir),
        Some(Verdict::Deny(_))
    )
}

pub(super) fn broker(plan: &Plan) -> &BrokerPlan {
    plan.broker.as_ref().expect("something is writable")
}

fn guests(plan: &Plan) -> Vec<&str> {
    broker(plan)
        .trees
        .iter()
        .map(|t| t.guest.to_str().unwrap())
        .collect()
}

/// The words of the rule that denies making `guest`.
fn denied_by<'a>(plan: &'a Plan, guest: &str) -> Option<&'a str> {
    let verdict = verdict(plan, Path::new(guest), Action::Write, Kind::Absent)?;
    if let Verdict::Deny(Reason::Rule(index)) = verdict {
        Some(&broker(plan).rules[index].words)
    } else {
        None
    }
}

#[test]
fn nothing_writable_needs_no_broker() {
    let mut p = ws();
    p.mode = Mode::Review;
    assert!(planned(&p, &facts(), &debian()).broker.is_none());
    let mut p = ws();
    p.fs.disabled = true;
    assert!(planned(&p, &facts(), &debian()).broker.is_none());
    let mut p = dispatch();
    p.fs.binds.push(bind("/home/me/proj", true));
    p.fs.allow_write.push(entry("/home/me/proj/main.c"));
    assert!(planned(&p, &facts(), &debian()).broker.is_none());
    assert!(planned(&ws(), &facts(), &debian()).broker.is_some());
}

#[test]
fn trees_exempt_and_served_paths() {
    let fs = debian()
        .dir("/tmp/t/ws")
        .dir("/dev/shm/w")
        .dir("/home/me/st")
        .dir("/d/x")
        .file("/home/me/one", "");
    let mut p = ws();
    p.fs.allow_write.push(entry("/tmp/t/ws"));
    p.fs.allow_write.push(entry("/dev/shm/w"));
    p.fs.allow_write.push(entry("/home/me/one"));
    p.fs.runner_state_dirs.push(entry("/home/me/st"));
    p.fs.binds.push(bind_at("/d/x", "/run/there", false));
    let plan = planned(&p, &facts(), &fs);
    assert_eq!(
        guests(&plan),
        [
            "/dev/shm/w",
            "/home/me/proj",
            "/home/me/st",
            "/run/ccbox-caches",
            "/run/there",
            "/tmp/t/ws"
        ]
    );
    let moved = &broker(&plan).trees[4];
    assert_eq!(
        (moved.host.as_path(), moved.top.as_path()),
        (Path::new("/d/x"), Path::new("/d/x"))
    );
    let b = broker(&plan);
    assert_eq!(b.served, ["/dev", "/run", "/tmp"].map(PathBuf::from));
    for path in ["/proc", "/var/tmp", "/home/me/one", "/dev/null", "/dev/tty"] {
        assert!(b.exempt.contains(&path.into()), "{path}: {:?}", b.exempt);
    }
    assert!(!b.exempt.contains(&"/dev".into()));
    // Private mounts carry no name rules (semantics 10).
    assert!(
        verdict(
            &plan,
            Path::new("/var/tmp/.env"),
            Action::Write,
            Kind::Absent
        )
        .is_none()
    );
}

/// The host can see them, so what git would run must not be made there; nothing else is judged (semantics 10).
#[test]
fn private_caches_have_the_rules_of_git_directories_only() {
    let mut p = ws();
    p.fs.caches = crate::policy::Caches::Private;
    let fs = debian().dir("/home/me/.npm");
    let plan = planned(&p, &facts(), &fs);
    let b = broker(&plan);
    let private = || b.trees.iter().filter(|t| t.private);
    assert!(private().any(|t| t.guest == Path::new("/run/ccbox-caches")));
    for dir in private().map(|t| t.guest.to_str().unwrap()) {
        assert!(!b.exempt.contains(&dir.into()), "{dir}");
        let asked = |name: &str| {
            let path = Path::new(dir).join(name);
            verdict(&plan, &path, Action::Write, Kind::Absent).unwrap()
        };
        for open in [".env", "x.pem", ".vscode", "HEAD", "objects"] {
            assert_eq!(asked(open), Verdict::Allow, "{dir}/{open}");
        }
        assert_ne!(asked(".git/config"), Verdict::Allow, "{dir}");
        assert!(matches!(asked(".git/hooks/x"), Verdict::Deny(_)), "{dir}");
    }
    p.fs.caches = crate::policy::Caches::None;
    let plan = planned(&p, &facts(), &fs);
    assert!(broker(&plan).trees.iter().all(|t| !t.private));
}

/// Whoever writes a file that the configuration of a repository includes writes that configuration.
#[test]
fn included_configuration_is_closed_and_followed_from_its_own_directory() {
    let proj = "/home/me/proj";
    let fs = debian()
        .dir(format!("{proj}/.git"))
        .file(format!("{proj}/.git/HEAD"), "")
        .file(
            format!("{proj}/.git/config"),
            "[include]\n\tpath = ../inc/one\n[includeIf \"gitdir:x\"]\n\tpath = ../inc/absent\n",
        )
        .file(
            format!("{proj}/inc/one"),
            "[include]\n\tpath = two\n\tpath = one\n[core]\n\thooksPath = my-hooks\n",
        )
        .file(format!("{proj}/inc/two"), "")
        .file(format!("{proj}/inc/free"), "");
    let plan = planned(&ws(), &facts(), &fs);
    for (name, open) in [
        ("inc/one", false),
        ("inc/two", false),
        ("inc/absent", false),
        ("my-hooks/pre-commit", false),
        ("inc/free", true),
    ] {
        let asked = verdict(
            &plan,
            &Path::new(proj).join(name),
            Action::Write,
            Kind::Absent,
        );
        assert_eq!(asked == Some(Verdict::Allow), open, "{name}: {asked:?}");
    }
}

#[test]
fn what_is_mounted_inside_a_tree_is_a_tree_with_its_own_idea_of_names() {
    let fs = debian()
        .mount("/", "ext4", false)
        .mount("/home/me/proj/usb", "vfat", false)
        .mount("/home/me/proj/cd", "iso9660", true)
        .mount("/home/me/proj/.git/hooks/x", "tmpfs", false)
        .mount("/mnt/c", "9p", false)
        .mount("/srv/mac", "hfsplus", false)
        .dir("/mnt/c/ws");
    let mut p = ws();
    p.fs.allow_write.push(entry("/mnt/c/ws"));
    p.fs.allow_write.push(entry("/srv/mac"));
    let plan = planned(&p, &facts(), &fs);
    let seen: Vec<_> = broker(&plan)
        .trees
        .iter()
        .map(|t| {
            (
                t.guest.to_str().unwrap(),
                t.top.to_str().unwrap(),
                t.names,
                t.ignores_case,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("/home/me/proj", "/home/me/proj", NameRules::Unix, false),
            (
                "/home/me/proj/usb",
                "/home/me/proj",
                NameRules::Windows,
                true
            ),
            ("/mnt/c/ws", "/mnt/c/ws", NameRules::Windows, true),
            (
                "/run/ccbox-caches",
                "/home/me/.local/state/ccbox/caches/redirect",
                NameRules::Unix,
                false
            ),
            ("/srv/mac", "/srv/mac", NameRules::Unix, true),
        ]
    );
    let mut host = facts();
    host.wsl2 = true;
    for (wsl2, names) in [(false, NameRules::Unix), (true, NameRules::Windows)] {
        host.wsl2 = wsl2;
        let fs = debian().mount("/home/me/proj", "virtiofs", false);
        assert_eq!(broker(&planned(&ws(), &host, &fs)).trees[0].names, names);
    }
}

#[test]
fn rules_stand_in_the_order_of_semantics_4() {
    let mut p = ws();
    p.fs.own_files.push(Ruled {
        value: "/home/me/proj/ccbox.toml".into(),
        origin: origin(0),
    });
    p.fs.protected.push(entry("/home/me/proj/deploy"));
    p.fs.protected
        .push(pattern("prod.*", ListKind::Protected, origin(2)));
    p.fs.deny_write.push(entry("/home/me/proj/gen"));
    p.fs.deny_write
        .push(pattern("*.key", ListKind::DenyWrite, origin(3)));
    p.fs.binds.push(bind("/home/me/proj/docs", true));
    let fs = debian().dir("/home/me/proj/docs");
    let plan = planned(&p, &facts(), &fs);
    let at = |words: &str| {
        let rules = &broker(&plan).rules;
        rules.iter().position(|r| r.words.contains(words)).unwrap()
    };
    let order = [
        "file of ccbox",
        "proj/deploy",
        "prod.*",
        "mandatory \".claude/settings.json\"",
        "proj/gen",
        "*.key",
        "proj/docs",
    ]
    .map(at);
    assert!(order.is_sorted(), "{order:?}");
    // Of several the first is named.
    assert_eq!(
        denied_by(&plan, "/home/me/proj/.vscode/a.key"),
        Some("mandatory \".vscode\"")
    );
    assert_eq!(
        denied_by(&plan, "/home/me/proj/docs/a.key"),
        Some("deny_write \"*.key\"")
    );
    for (path, allowed) in [
        ("main.c", true),
        ("ccbox.toml", false),
        ("sub/Prod.YML", false),
        ("GEN/x", false),
        ("docs/x", false),
        ("ok/x", true),
        (".mcp.json", false),
        (".git/config", false),
        (".git/hooks/pre-commit", false),
        (".git/index", true),
        ("HEAD", false),
        ("ok/HEAD", true),
    ] {
        let path = format!("/home/me/proj/{path}");
        assert_eq!(can_write_in(&plan, &fs, &path), allowed, "{path}");
    }
}

#[test]
fn profile_patterns_are_lifted_by_allow_create_and_others_are_not() {
    let profile = || layer(Layer::Profile("dispatch".to_owned()));
    let mut p = ws();
    p.fs.deny_write
        .push(pattern("*.pem", ListKind::DenyWrite, profile()));
    p.fs.deny_write
        .push(pattern(".env", ListKind::DenyWrite, profile()));
    p.fs.deny_write
        .push(pattern("*.p12", ListKind::DenyWrite, origin(3)));
    for text in ["node_modules/**/*.pem", "./fixtures/*.p12", "./conf/.env"] {
        p.fs.allow_create
            .push(pattern(text, ListKind::AllowCreate, origin(4)));
    }
    let plan = planned(&p, &facts(), &debian());
    for (path, allowed) in [
        ("a.pem", false),
        ("node_modules/x/y/a.pem", true),
        ("Node_Modules/x/a.pem", false),
        ("conf/.env", true),
        ("conf/.env/x", true),
        ("conf2/.env", false),
        ("fixtures/a.p12", false),
    ] {
        let path = format!("/home/me/proj/{path}");
        assert_eq!(can_write(&plan, &path), allowed, "{path}");
    }
}

#[test]
fn a_pattern_holds_where_its_directory_leads() {
    let fs = debian()
        .dir("/home/me/proj/real/conf")
        .link("/home/me/proj/conf", "real/conf");
    let mut p = ws();
    p.fs.deny_write
        .push(pattern("./conf/*.yml", ListKind::DenyWrite, origin(3)));
    let plan = planned(&p, &facts(), &fs);
    for path in ["real/conf/a.yml", "conf/a.yml"] {
        assert!(
            !can_write(&plan, &format!("/home/me/proj/{path}")),
            "{path}"
        );
    }
    assert!(can_write(&plan, "/home/me/proj/real/a.yml"));
    assert!(refuses(
        &plan,
        Path::new("/home/me/proj/conf"),
        Action::Symlink
    ));
}

#[test]
fn a_single_file_that_a_rule_denies_by_name_stays_read_only() {
    let fs = debian().file("/home/me/proj/a.key", "");
    let mut p = ws();
    p.fs.deny_write
        .push(pattern("*.key", ListKind::DenyWrite, origin(3)));
    p.fs.binds
        .push(bind_at("/home/me/proj/a.key", "/run/key", false));
    let plan = planned(&p, &facts(), &fs);
    assert!(!can_write_in(&plan, &fs, "/run/key"));
    assert!(!broker(&plan).exempt.contains(&"/run/key".into()));
    assert!(
        plan.notices
            .iter()
            .any(|n| n.contains("/run/key") && n.contains("*.key"))
    );
    // Alone it is a root of its own, whose name nobody judges.
    let mut p = dispatch();
    p.fs.binds.push(bind("/home/me/proj", true));
    p.fs.allow_write.push(entry("/home/me/proj/a.key"));
    p.fs.deny_write
        .push(pattern("*.key", ListKind::DenyWrite, origin(3)));
    assert!(can_write_in(
        &planned(&p, &facts(), &fs),
        &fs,
        "/home/me/proj/a.key"
    ));
}

#[test]
fn rules_that_lead_nowhere_near_a_tree_are_left_out() {
    let mut p = ws();
    p.fs.protected.push(entry("/srv/x"));
    let plan = planned(&p, &facts(), &debian());
    assert_eq!(exact_rule(&plan, "/srv/x"), None);
    let exact = broker(&plan).rules.iter().filter_map(|r| match &r.rule {
        Rule::Exact(path) | Rule::AllBut { path, .. } => Some(path),
        Rule::Repository(_) | Rule::Pattern { .. } => None,
    });
    for path in exact {
        assert!(path.starts_with(&components(Path::new("/home/me/proj"))));
    }
}
