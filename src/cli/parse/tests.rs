use super::*;
use std::os::unix::ffi::OsStrExt;

fn os(args: &[&str]) -> Vec<OsString> {
    std::iter::once("ccbox")
        .chain(args.iter().copied())
        .map(OsString::from)
        .collect()
}

fn run(args: &[&str]) -> super::super::args::RunArgs {
    let Command::Run(r) = parse(&os(args)).unwrap().cli.command else {
        panic!("{args:?}");
    };
    r
}

fn wrong(args: &[&str]) -> (String, String) {
    match parse(&os(args)) {
        Err(Understood::Wrong(e)) => (e.message, e.hint.unwrap_or_default()),
        other => panic!("{args:?}: {other:?}"),
    }
}

#[test]
fn the_command_begins_at_the_first_positional() {
    let table: [(&[&str], &[&str]); 10] = [
        (&["run", "gcc", "-c", "foo.c"], &["gcc", "-c", "foo.c"]),
        (&["run", "--", "gcc", "-c"], &["gcc", "-c"]),
        (&["run", "echo", "--quiet"], &["echo", "--quiet"]),
        (
            &["run", "make", "-j8", "--", "x"],
            &["make", "-j8", "--", "x"],
        ),
        (&["run", "echo", "--", "x"], &["echo", "--", "x"]),
        (&["run", "--", "echo", "--", "x"], &["echo", "--", "x"]),
        (&["run", "--", "--", "x"], &["--", "x"]),
        (&["run", "--", "--help"], &["--help"]),
        (
            &["run", "-q", "sh", "--help", "--version"],
            &["sh", "--help", "--version"],
        ),
        (
            &["run", "printf", "", "a b", "\n"],
            &["printf", "", "a b", "\n"],
        ),
    ];
    for (given, want) in table {
        assert_eq!(run(given).command, want, "{given:?}");
    }
}

#[test]
fn arguments_that_are_not_utf8_arrive_as_they_are() {
    let mut argv = os(&["run", "--rw"]);
    argv.push(std::ffi::OsStr::from_bytes(b"/a\xff").to_owned());
    argv.push("x".into());
    argv.push(std::ffi::OsStr::from_bytes(b"\xfe").to_owned());
    let call = parse(&argv).unwrap();
    let Command::Run(r) = call.cli.command else {
        panic!()
    };
    assert_eq!(r.policy.rw[0].as_bytes(), b"/a\xff");
    assert_eq!(r.command[1].as_bytes(), b"\xfe");
}

#[test]
fn the_short_way_understands_what_the_tree_does() {
    let table: [&[&str]; 9] = [
        &["run", "true"],
        &["run"],
        &["run", "--"],
        &[
            "run", "-vv", "-f", "a", "-p", "b=1", "-f", "c", "--", "x", "--", "-y",
        ],
        &["run", "--rw=/x", "--keep-fd", "7", "make", "-j8", "--", "x"],
        &["run", "--help"],
        &["run", "--quite", "x"],
        &["run", "-q", "-v", "x"],
        &["check", "read", "x"],
    ];
    for args in table {
        let argv = os(args);
        let long = command().try_get_matches_from(&argv).ok().and_then(|m| {
            let (name, sub) = m.subcommand()?;
            (name == "run").then(|| (RunArgs::from_arg_matches(sub).unwrap(), specs_in_order(sub)))
        });
        let short = plain_run(&argv).map(|call| {
            let Command::Run(r) = call.cli.command else {
                panic!("{args:?}");
            };
            (r, call.specs)
        });
        assert_eq!(format!("{short:?}"), format!("{long:?}"), "{args:?}");
    }
}

#[test]
fn specs_keep_their_order() {
    let call = parse(&os(&[
        "run", "-f", "a", "-p", "b=1", "--spec", "c", "-p", "", "x",
    ]))
    .unwrap();
    assert_eq!(
        call.specs,
        [
            SpecSource::File("a".into()),
            SpecSource::Inline("b=1".into()),
            SpecSource::File("c".into()),
            SpecSource::Inline(String::new()),
        ]
    );
}

#[test]
fn every_option_reaches_its_place() {
    let r = run(&[
        "run",
        "-n",
        "dev",
        "-D",
        "K=a=b",
        "--mode",
        "plan",
        "--backend",
        "none",
        "--engine",
        "bwrap",
        "--sandbox",
        "on",
        "--rw",
        "1",
        "--rw",
        "2",
        "--ro",
        "3",
        "--deny-read",
        "4",
        "--deny-write",
        "5",
        "--protect",
        "6",
        "--allow-host",
        "h",
        "--deny-host",
        "i",
        "--no-network",
        "--env",
        "A=b",
        "--pass-env",
        "C",
        "--chdir",
        "d",
        "--session",
        "s-1",
        "--events",
        "fd:9",
        "--dry-run",
        "--keep-fd",
        "4",
        "--keep-fd",
        "5",
        "-vv",
        "x",
    ]);
    let p = &r.policy;
    assert_eq!(p.profile.as_deref(), Some("dev"));
    assert_eq!(p.params, [("K".to_owned(), "a=b".to_owned())]);
    assert_eq!(p.rw, ["1", "2"]);
    assert_eq!(
        (&p.ro[0], &p.deny_read[0], &p.deny_write[0], &p.protect[0]),
        (&"3".into(), &"4".into(), &"5".into(), &"6".into())
    );
    assert_eq!(
        (p.allow_host[0].as_str(), p.deny_host[0].as_str()),
        ("h", "i")
    );
    assert!(p.no_network && r.dry_run && r.verbose == 2 && !r.quiet);
    assert_eq!(r.keep_fd, [4, 5]);
    assert_eq!(r.command, ["x"]);
}

#[test]
fn mistakes_are_one_line_with_the_next_step() {
    let table: [(&[&str], &str, &str); 15] = [
        (
            &["run", "--quite", "--", "echo"],
            "unknown option `--quite`",
            "did you mean `--quiet`; options of the command go after its name",
        ),
        (
            &["make", "test"],
            "unknown command `make`",
            "ccbox run -- make test",
        ),
        (
            &["make", "a b"],
            "unknown command `make`",
            "ccbox run -- make 'a b'",
        ),
        (
            &["rum", "x"],
            "unknown command `rum`",
            "did you mean `ccbox run`, or `ccbox run -- rum x`",
        ),
        (
            &[],
            "no command given",
            "ccbox run [OPTIONS] [--] CMD [ARG…]",
        ),
        (
            &["caches"],
            "nothing to do with the caches",
            "ccbox caches clear",
        ),
        (
            &["run", "--mode", "chatt", "x"],
            "invalid value `chatt` for `--mode`",
            "did you mean `chat`",
        ),
        (
            &["run", "--backend", "NATIVE ", "x"],
            "invalid value `NATIVE ` for `--backend`",
            "one of auto, native, none, microvm",
        ),
        (
            &["run", "--mode", "", "x"],
            "`--mode` needs a value",
            "one of chat, review, plan, orchestrate",
        ),
        (
            &["run", "--mode"],
            "`--mode` needs a value",
            "one of chat, review, plan, orchestrate",
        ),
        (
            &["run", "-q", "-v", "x"],
            "`--quiet` cannot be used with `--verbose`",
            "",
        ),
        (
            &["run", "--mode", "chat", "--mode", "plan", "x"],
            "`--mode` is given twice",
            "",
        ),
        (
            &["run", "-D", "x", "y"],
            "invalid value `x` for `--define`: expected KEY=VALUE",
            "",
        ),
        (
            &["run", "--session", "a/b", "y"],
            "invalid value `a/b` for `--session`: expected 1 to 64 of letters, digits, `.`, `_`, `-`",
            "",
        ),
        (&["check", "read"], "missing argument: <TARGET>", ""),
    ];
    for (given, message, hint) in table {
        assert_eq!(
            wrong(given),
            (message.to_owned(), hint.to_owned()),
            "{given:?}"
        );
    }
}

#[test]
fn keep_fd_cannot_name_a_standard_stream() {
    assert!(wrong(&["run", "--keep-fd", "2", "x"]).0.contains("`2`"));
}

#[test]
fn help_and_version_are_answers() {
    for args in [
        &["--help"][..],
        &["run", "--help"],
        &["--version"],
        &["-h"],
        &["check", "--help"],
    ] {
        assert!(
            matches!(parse(&os(args)), Err(Understood::Answer(_))),
            "{args:?}"
        );
    }
}

#[test]
fn shell_mode_takes_anything() {
    for args in [&["sh", "-c", "x"][..], &["sh", "--rw", "-x"], &["sh"]] {
        assert!(parse(&os(args)).is_ok(), "{args:?}");
    }
    for args in [
        &["shell", "bash"][..],
        &["allow", "0"],
        &["learn", "--rw", "x", "y"],
    ] {
        assert!(parse(&os(args)).is_err(), "{args:?}");
    }
}

#[test]
fn the_clap_tree_is_sound() {
    command().debug_assert();
}
