use super::super::fixtures::plan;
use super::*;
use crate::broker::plan::BrokerPlan;
use crate::plan::{BookRule, Effect, Mount};
use crate::policy::Mode;

fn origin(layer: Layer, line: Option<u32>) -> Origin {
    Origin {
        layer,
        file: line.map(|_| PathBuf::from("/s/spec.toml")),
        line,
    }
}

fn exact(words: &str, origin: Origin) -> NamedRule {
    NamedRule {
        rule: Rule::Exact(vec![b"w".to_vec()]),
        words: words.to_owned(),
        origin,
    }
}

fn pattern(text: &str, liftable: bool, origin: Origin) -> NamedRule {
    let root = Path::new("/");
    let entry = PathEntry::parse(text, false, ListKind::DenyWrite, root, root);
    let Ok(PathEntry::Pattern(compiled)) = entry else {
        panic!("{text}");
    };
    NamedRule {
        rule: Rule::Pattern {
            matcher: Arc::new(crate::broker::decide::Denied::new(&compiled)),
            liftable,
        },
        words: format!("deny_write \"{text}\""),
        origin,
    }
}

fn writes(rules: Vec<NamedRule>) -> Writes {
    let mut plan = plan();
    plan.broker = Some(Arc::new(BrokerPlan {
        trees: Vec::new(),
        exempt: Vec::new(),
        served: Vec::new(),
        rules,
        exceptions: Vec::new(),
        git: true,
        lock_dir: None,
        reads: None,
        alone: false,
        sockets: None,
    }));
    of(plan)
}

fn of(plan: Plan) -> Writes {
    Writes::new(
        &Arc::new(plan),
        Path::new("/home/me"),
        &Arc::new(Reporter::stderr(Verbosity::Quiet)),
    )
}

fn denial(action: &'static str, path: &str, cause: Cause) -> Denial {
    Denial {
        action,
        path: path.into(),
        host_path: None,
        pid: 4711,
        inner_pid: Some(3),
        program: "sh".into(),
        cause,
    }
}

#[test]
fn the_line_of_the_contract() {
    let writes = writes(vec![pattern(
        ".env",
        true,
        origin(Layer::Profile("dispatch".into()), Some(10)),
    )]);
    let v = writes.violation(denial("create", "/no/app/.env", Cause::Rule(0)));
    assert_eq!(
        crate::report::text::violation_text(&v, crate::report::text::Colour::Never),
        "denied file-write-create /no/app/.env [sh 4711]: deny_write \".env\" (profile dispatch)"
    );
    assert_eq!(
        v.hint.as_deref(),
        Some("[filesystem] allow_create = [\"/no/app/.env\"]")
    );
    let moved = Denial {
        host_path: Some("/no/host/.env".into()),
        ..denial("create", "/g/.env", Cause::Rule(0))
    };
    let v = writes.violation(moved);
    assert_eq!(v.target, "/g/.env (/no/host/.env)");
    assert!(v.hint.unwrap().contains("\"/no/host/.env\""));
}

#[test]
fn hints_give_the_narrowest_change() {
    let rules = vec![
        pattern("*.key", false, origin(Layer::Spec, Some(3))),
        pattern("*.pem", false, origin(Layer::Flag("--deny-write"), None)),
        pattern("*.p12", false, origin(Layer::Managed, Some(4))),
        exact("protected_paths \"/w\"", origin(Layer::Spec, Some(5))),
        exact(
            "mandatory \".vscode\"",
            origin(Layer::BuiltIn("mandatory"), None),
        ),
        exact("deny_write \"/w\"", origin(Layer::User, Some(6))),
        exact(
            "file of ccbox \"/w\"",
            origin(Layer::BuiltIn("own files"), None),
        ),
    ];
    let writes = writes(rules);
    let hints = [
        Some("remove /s/spec.toml:3"),
        Some("remove --deny-write"),
        Some("set by /s/spec.toml:4"),
        None,
        None,
        Some("remove /s/spec.toml:6"),
        None,
    ];
    for (index, wanted) in hints.into_iter().enumerate() {
        let v = writes.violation(denial("write", "/no/x", Cause::Rule(index)));
        assert_eq!(v.hint.as_deref(), wanted, "{}", v.rule);
    }
    let preset = "[filesystem] protect_git = false";
    let table = [
        (
            Cause::Git("git hooks run on the host".into()),
            "git hooks run on the host (built-in git rules, no entry lifts them)".to_owned(),
            None,
        ),
        (
            Cause::Git("git attributes select filters".into()),
            "git attributes select filters (built-in git preset)".to_owned(),
            Some(preset),
        ),
        (
            Cause::BareRepository,
            plan::BARE_REPOSITORY.to_owned(),
            None,
        ),
        (Cause::ShortName, plan::SHORT_NAME.to_owned(), None),
        (
            Cause::Unsupported,
            "not carried out in a sandbox".to_owned(),
            None,
        ),
        (Cause::Rule(99), "a rule of this run".to_owned(), None),
        (
            Cause::Rule(4),
            "mandatory \".vscode\" (built-in mandatory, no entry lifts it)".to_owned(),
            None,
        ),
    ];
    for (cause, words, hint) in table {
        let v = writes.violation(denial("rename", "/no/x", cause));
        assert_eq!((v.rule, v.hint.as_deref()), (words, hint));
    }
}

/// A directory that is refused for what is in it: opening the one name would not be enough.
#[test]
fn a_directory_that_holds_a_closed_name_has_no_single_line() {
    let origin = origin(Layer::Profile("dev".into()), Some(10));
    let writes = writes(vec![pattern(".env", true, origin)]);
    let v = writes.violation(denial("move", "/no/d", Cause::Rule(0)));
    assert_eq!(
        (v.action, v.rule.as_str(), v.hint),
        (
            "file-write-unlink",
            "it holds a closed name: deny_write \".env\" (profile dev)",
            None
        )
    );
}

#[test]
fn operations_have_seatbelts_names() {
    for (asked, wanted) in [
        ("create", "file-write-create"),
        ("mkdir", "file-write-create"),
        ("symlink", "file-write-create"),
        ("mknod", "file-write-create"),
        ("write", "file-write-data"),
        ("truncate", "file-write-data"),
        ("unlink", "file-write-unlink"),
        ("rmdir", "file-write-unlink"),
        ("rename", "file-write-unlink"),
        ("move", "file-write-unlink"),
        ("rename-to", "file-write-create"),
        ("link", "file-link"),
        ("chmod", "file-write-mode"),
        ("exec", "process-exec"),
    ] {
        assert_eq!(action(asked), wanted, "{asked}");
    }
}

#[test]
fn read_only_places_name_their_rule_or_the_grant_that_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().canonicalize().unwrap().join("a/b/c");
    std::fs::create_dir_all(&work).unwrap();
    std::fs::write(work.join("there"), "").unwrap();
    let text = |name: &str| work.join(name).display().to_string();
    let mut plan = plan();
    plan.mounts = vec![Mount::RoBind {
        src: "/".into(),
        dst: "/".into(),
    }];
    plan.rules.rules = vec![BookRule {
        effect: Effect::NeverWrite,
        path: work.join("closed"),
        rule: "deny_write \"closed\"".into(),
        origin: origin(Layer::Spec, Some(7)),
    }];
    let ask = |plan: &Plan, action: &'static str, name: &str| {
        let v = of(plan.clone()).violation(denial(action, &text(name), Cause::ReadOnly));
        (v.rule, v.hint)
    };
    let grant = |path: &str| Some(format!("[filesystem] allow_write = [\"{path}\"]"));
    let nothing = "no entry makes it writable".to_owned();
    // What is changed in place is granted alone; an entry is made and removed in its directory.
    let dir = grant(work.to_str().unwrap());
    for (action, name, wanted) in [
        ("write", "there", grant(&text("there"))),
        ("chmod", "there", grant(&text("there"))),
        ("unlink", "there", dir.clone()),
        ("rename-to", "there", dir.clone()),
        ("create", "new", dir),
        ("create", "no/such", None),
    ] {
        assert_eq!(
            ask(&plan, action, name),
            (nothing.clone(), wanted),
            "{action}"
        );
    }
    assert_eq!(
        ask(&plan, "create", "closed/x"),
        (
            "deny_write \"closed\" (/s/spec.toml:7)".to_owned(),
            Some("remove /s/spec.toml:7".to_owned())
        )
    );
    // At equal depth a read-only grant wins, deeper than it does not.
    let shown = |path: &Path, line| BookRule {
        effect: Effect::Read,
        path: path.to_path_buf(),
        rule: "bind_mounts \"x\"".into(),
        origin: origin(Layer::Spec, Some(line)),
    };
    plan.rules.rules = vec![shown(&work, 8)];
    let says = "remove read_only from /s/spec.toml:8".to_owned();
    assert_eq!(ask(&plan, "create", "new").1, Some(says));
    assert_eq!(ask(&plan, "write", "there").1, grant(&text("there")));
    // Shown at another path there is no other line at all.
    plan.mounts.push(Mount::RoBind {
        src: work.clone(),
        dst: "/guest".into(),
    });
    plan.rules.rules = vec![shown(Path::new("/guest"), 9)];
    let moved = of(plan.clone()).violation(denial("write", "/guest/there", Cause::ReadOnly));
    assert_eq!(moved.target, format!("/guest/there ({})", text("there")));
    assert_eq!(
        moved.hint.as_deref(),
        Some("remove read_only from /s/spec.toml:9")
    );
    plan.rules.rules.clear();
    plan.mode = Mode::Review;
    assert_eq!(
        ask(&plan, "write", "there").1,
        None,
        "another mode is no narrow change"
    );
}

/// Home and the directories of the system are not opened for one entry.
#[test]
fn wide_directories_are_not_granted_for_one_entry() {
    let mut plan = plan();
    plan.mounts = vec![Mount::RoBind {
        src: "/".into(),
        dst: "/".into(),
    }];
    let hint = |action: &'static str, path: &str| {
        let v = of(plan.clone()).violation(denial(action, path, Cause::ReadOnly));
        v.hint
    };
    assert_eq!(
        hint("create", "/home/me/x").as_deref(),
        Some("make it outside, then [filesystem] allow_write = [\"/home/me/x\"]")
    );
    for (action, path) in [
        ("unlink", "/home/me/x"),
        // Grants there are refused.
        ("mkdir", "/home/me/.claude"),
        ("create", "/home/me/.claude/settings.json"),
        ("create", "/home/x"),
        ("create", "/x"),
        ("create", "/usr/x"),
        ("create", "/etc/x"),
    ] {
        assert_eq!(hint(action, path), None, "{action} {path}");
    }
}

#[test]
fn what_programs_try_and_do_without_is_not_worth_a_line() {
    let writes = writes(Vec::new());
    let told = |path: &str, cause| !writes.is_noise(&denial("create", path, cause));
    for path in [
        "/home/me/.cargo/.package-cache",
        "/home/me/.cargo/registry/index/x/.cache/ab/cd",
        "/w/.git/index.lock",
        "/usr/lib/python3/__pycache__/x.cpython.pyc.1234",
        "/home/me/.lesshst",
        "/home/me/.npm/_logs/2026.log",
    ] {
        assert!(!told(path, Cause::ReadOnly), "{path}");
        assert!(told(path, Cause::Rule(0)), "a rule is always told");
    }
    for path in [
        "/w/Cargo.lock",
        "/w/a.py",
        "/etc/x",
        "/w/lock/x",
        "/w/.git/HEAD",
    ] {
        assert!(told(path, Cause::ReadOnly), "{path}");
    }
    assert!(noise().len() > 15, "every line is a pattern");
}
