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
        reads: None,
    }));
    of(plan)
}

fn of(plan: Plan) -> Writes {
    Writes::new(
        &Arc::new(plan),
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
    for (cause, words) in [
        (
            Cause::Git("git hooks run on the host".into()),
            "git hooks run on the host (built-in git preset)",
        ),
        (Cause::BareRepository, plan::BARE_REPOSITORY),
        (Cause::ShortName, plan::SHORT_NAME),
        (Cause::Unsupported, "not carried out in a sandbox"),
        (Cause::Rule(99), "a rule of this run"),
    ] {
        let v = writes.violation(denial("rename", "/no/x", cause));
        assert_eq!((v.rule.as_str(), v.hint), (words, None));
    }
}

#[test]
fn operations_have_seatbelts_names() {
    for (asked, exists, wanted) in [
        ("create", false, "file-write-create"),
        ("mkdir", false, "file-write-create"),
        ("symlink", false, "file-write-create"),
        ("mknod", false, "file-write-create"),
        ("write", true, "file-write-data"),
        ("truncate", true, "file-write-data"),
        ("unlink", true, "file-write-unlink"),
        ("rmdir", true, "file-write-unlink"),
        ("rename", true, "file-write-unlink"),
        ("rename", false, "file-write-create"),
        ("link", false, "file-link"),
        ("chmod", true, "file-write-mode"),
    ] {
        assert_eq!(action(asked, exists), wanted, "{asked} {exists}");
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
    let asked = |plan: &Plan, name: &str| {
        let v = of(plan.clone()).violation(denial("create", &text(name), Cause::ReadOnly));
        (v.rule, v.hint)
    };
    let grant = |path: &str| Some(format!("[filesystem] allow_write = [\"{path}\"]"));
    assert_eq!(
        asked(&plan, "there"),
        (
            "no entry makes it writable".to_owned(),
            grant(&text("there"))
        )
    );
    assert_eq!(asked(&plan, "new").1, grant(work.to_str().unwrap()));
    assert_eq!(asked(&plan, "no/such").1, None);
    assert_eq!(
        asked(&plan, "closed/x"),
        (
            "deny_write \"closed\" (/s/spec.toml:7)".to_owned(),
            Some("remove /s/spec.toml:7".to_owned())
        )
    );
    plan.mode = Mode::Review;
    assert_eq!(
        asked(&plan, "there").1,
        None,
        "another mode is no narrow change"
    );
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
