use super::*;
use crate::policy::{Layer, Origin, Ruled};
use proptest::prelude::*;

fn ruled<T>(value: T) -> Ruled<T> {
    Ruled {
        value,
        origin: Origin {
            layer: Layer::Spec,
            file: None,
            line: None,
        },
    }
}

fn caller(names: &[&str]) -> Vec<(OsString, OsString)> {
    names
        .iter()
        .map(|n| (OsString::from(n), OsString::from("v")))
        .collect()
}

fn names(s: &Scrubbed) -> Vec<String> {
    s.vars
        .iter()
        .map(|(n, _)| n.to_string_lossy().into_owned())
        .collect()
}

/// What happens to one name under a policy: `pass`, `listed GROUP`, `dropped GROUP`.
fn fate(name: &str, policy: &EnvPolicy) -> String {
    let out = scrub(&caller(&[name]), policy);
    match (out.vars.first(), out.dropped.first(), out.listed.first()) {
        (Some(_), None, None) => "pass".into(),
        (Some(_), None, Some((_, g))) => format!("listed {g}"),
        (None, Some((_, g)), None) => format!("dropped {g}"),
        other => panic!("{name}: {other:?}"),
    }
}

fn strict() -> EnvPolicy {
    EnvPolicy {
        strict: true,
        ..EnvPolicy::default()
    }
}

#[test]
fn every_header_is_known_and_every_group_has_rows() {
    for line in TABLE.lines().filter(|l| l.starts_with('[')) {
        let header = line.trim_matches(['[', ']']);
        assert!(Group::from_header(header).is_some(), "{line}");
    }
    for group in [
        Group::Certificates,
        Group::Ccbox,
        Group::Injection,
        Group::Door,
        Group::SearchPath,
        Group::Secret,
    ] {
        assert!(rows().any(|(g, _)| g == group), "{group:?}");
    }
}

#[test]
fn no_row_is_hidden_behind_an_earlier_one() {
    let table: Vec<(Group, &str)> = rows().collect();
    for (group, row) in rows() {
        let sample = row.replace('*', "X");
        assert_eq!(group_of(&table, OsStr::new(&sample)), Some(group), "{row}");
    }
}

#[test]
fn certificate_variables_pass_everywhere_and_match_the_exported_lists() {
    let in_table: Vec<&str> = rows()
        .filter(|(g, _)| *g == Group::Certificates)
        .map(|(_, r)| r)
        .collect();
    let exported: Vec<&str> = CA_FILE_VARS.iter().chain(CA_DIR_VARS).copied().collect();
    assert_eq!(in_table, exported);
    for name in exported {
        assert_eq!(fate(name, &EnvPolicy::default()), "pass", "{name}");
        assert_eq!(fate(name, &strict()), "pass", "{name}");
    }
}

#[test]
fn own_variables_are_dropped_and_cannot_be_brought_back() {
    let policy = EnvPolicy {
        pass: vec![ruled("CCBOX_*".into()), ruled("CCBOX".into())],
        ..EnvPolicy::default()
    };
    for name in ["CCBOX", "CCBOX_SPEC", "CCBOX_SANDBOX", "CCBOX_"] {
        assert_eq!(fate(name, &EnvPolicy::default()), "dropped ccbox", "{name}");
        assert_eq!(fate(name, &policy), "dropped ccbox", "{name}");
    }
    assert_eq!(fate("CCBOXER", &EnvPolicy::default()), "pass");
}

#[test]
fn injection_is_dropped() {
    for name in [
        "LD_PRELOAD",
        "LD_AUDIT",
        "LD_LIBRARY_PATH",
        "DYLD_INSERT_LIBRARIES",
        "GLIBC_TUNABLES",
        "GCONV_PATH",
        "BASH_ENV",
        "ENV",
        "BASH_FUNC_ls%%",
        "BASH_FUNC_x()",
        "SHELLOPTS",
        "BASHOPTS",
        "PS4",
        "PROMPT_COMMAND",
        "ZDOTDIR",
        "NODE_OPTIONS",
        "PYTHONSTARTUP",
        "PYTHONBREAKPOINT",
        "PERL5OPT",
        "RUBYOPT",
        "JAVA_TOOL_OPTIONS",
        "_JAVA_OPTIONS",
        "JDK_JAVA_OPTIONS",
        "GIT_SSH",
        "GIT_SSH_COMMAND",
        "GIT_EXEC_PATH",
        "GIT_ASKPASS",
        "GIT_EXTERNAL_DIFF",
        "GIT_PROXY_COMMAND",
        "LESSOPEN",
        "SSLKEYLOGFILE",
    ] {
        assert_eq!(
            fate(name, &EnvPolicy::default()),
            "dropped injection",
            "{name}"
        );
        assert_eq!(fate(name, &strict()), "dropped injection", "{name}");
    }
}

#[test]
fn doors_are_dropped() {
    for name in [
        "SSH_AUTH_SOCK",
        "GPG_AGENT_INFO",
        "GPG_TTY",
        "DBUS_SESSION_BUS_ADDRESS",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "XAUTHORITY",
        "TMUX",
        "STY",
        "WSL_INTEROP",
        "DOCKER_HOST",
        "VSCODE_IPC_HOOK_CLI",
    ] {
        assert_eq!(fate(name, &EnvPolicy::default()), "dropped door", "{name}");
    }
}

#[test]
fn search_paths_and_tools_are_listed_and_dropped_in_strict() {
    for name in [
        "PYTHONPATH",
        "PYTHONHOME",
        "NODE_PATH",
        "PERL5LIB",
        "RUBYLIB",
        "RUSTC_WRAPPER",
        "OPENSSL_CONF",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_COUNT",
        "GIT_CONFIG_KEY_0",
        "GIT_EDITOR",
        "GIT_SEQUENCE_EDITOR",
        "GIT_PAGER",
        "EDITOR",
        "PAGER",
        "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER",
    ] {
        assert_eq!(
            fate(name, &EnvPolicy::default()),
            "listed search path",
            "{name}"
        );
        assert_eq!(fate(name, &strict()), "dropped search path", "{name}");
    }
}

#[test]
fn secrets_by_name_are_listed_and_dropped_in_strict() {
    for name in [
        "GITHUB_TOKEN",
        "NPM_TOKEN_2",
        "CLIENT_SECRET",
        "APP_SECRET_KEY",
        "PGPASSWORD",
        "DB_PASSWORD_FILE",
        "ANTHROPIC_API_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_PROFILE",
        "github_token",
    ] {
        assert_eq!(fate(name, &EnvPolicy::default()), "listed secret", "{name}");
        assert_eq!(fate(name, &strict()), "dropped secret", "{name}");
    }
}

#[test]
fn ordinary_variables_pass() {
    for name in [
        "PATH",
        "HOME",
        "USER",
        "LANG",
        "LC_ALL",
        "TERM",
        "SHELL",
        "PWD",
        "TMPDIR",
        "MAKEFLAGS",
        "CARGO_HOME",
        "GOPATH",
        "XDG_RUNTIME_DIR",
        "NO_COLOR",
        "CI",
        "GIT_AUTHOR_NAME",
        "GIT_DIR",
        "ENVIRONMENT",
        "PS1",
        "HTTPS_PROXY",
        "_",
        "OLD_PATH",
        "TOKENIZERS_PARALLELISM",
    ] {
        assert_eq!(fate(name, &EnvPolicy::default()), "pass", "{name}");
        assert_eq!(fate(name, &strict()), "pass", "{name}");
    }
}

#[test]
fn pass_brings_back_by_name_and_by_prefix() {
    let policy = EnvPolicy {
        pass: vec![ruled("LD_LIBRARY_PATH".into()), ruled("VSCODE_*".into())],
        ..EnvPolicy::default()
    };
    let out = scrub(
        &caller(&[
            "LD_LIBRARY_PATH",
            "LD_PRELOAD",
            "VSCODE_PID",
            "VSCODE_IPC",
            "PATH",
        ]),
        &policy,
    );
    assert_eq!(
        names(&out),
        ["LD_LIBRARY_PATH", "VSCODE_PID", "VSCODE_IPC", "PATH"]
    );
    assert_eq!(out.dropped, [("LD_PRELOAD".into(), "injection")]);
    assert_eq!(
        out.listed.first(),
        Some(&("LD_LIBRARY_PATH".into(), "injection"))
    );
}

#[test]
fn only_turns_the_default_set_off() {
    let policy = EnvPolicy {
        pass: vec![ruled("PATH".into()), ruled("LC_*".into())],
        only: true,
        ..EnvPolicy::default()
    };
    let out = scrub(
        &caller(&["PATH", "HOME", "LC_ALL", "LD_PRELOAD", "SSL_CERT_FILE"]),
        &policy,
    );
    assert_eq!(names(&out), ["PATH", "LC_ALL"]);
    assert_eq!(
        out.dropped,
        [
            ("HOME".into(), "only"),
            ("LD_PRELOAD".into(), "injection"),
            ("SSL_CERT_FILE".into(), "only"),
        ]
    );
}

#[test]
fn set_replaces_and_adds_and_unset_comes_last() {
    let policy = EnvPolicy {
        set: vec![
            ruled(("PATH".into(), "/bin".into())),
            ruled(("NEW".into(), "".into())),
            ruled(("GONE".into(), "x".into())),
        ],
        unset: vec![
            ruled("GONE".into()),
            ruled("HOME".into()),
            ruled("ABSENT".into()),
        ],
        ..EnvPolicy::default()
    };
    let out = scrub(&caller(&["PATH", "HOME"]), &policy);
    assert_eq!(
        out.vars,
        [
            ("PATH".into(), "/bin".into()),
            ("NEW".into(), OsString::new())
        ]
    );
    assert_eq!(
        out.dropped,
        [("GONE".into(), "unset"), ("HOME".into(), "unset")]
    );
}

#[test]
fn a_name_held_twice_keeps_its_last_value() {
    let twice = [
        ("A".into(), "1".into()),
        ("B".into(), "2".into()),
        ("A".into(), "3".into()),
    ];
    let out = scrub(&twice, &EnvPolicy::default());
    assert_eq!(
        out.vars,
        [("A".into(), "3".into()), ("B".into(), "2".into())]
    );
}

#[test]
fn rows_match_by_stars() {
    for (row, name, want) in [
        ("A", "A", true),
        ("A", "AB", false),
        ("A*", "A", true),
        ("*A", "BA", true),
        ("*A", "BAB", false),
        ("*A*", "BAB", true),
        ("A*B*C", "AxBxC", true),
        ("A*B*C", "AxCxB", false),
        ("*_TOKEN", "TOKEN", false),
    ] {
        assert_eq!(
            row_matches(row.as_bytes(), name.as_bytes()),
            want,
            "{row} {name}"
        );
    }
}

proptest! {
    #[test]
    fn nothing_of_the_injection_group_passes_without_being_named(
        prefix in prop_oneof![Just("LD_"), Just("DYLD_"), Just("BASH_FUNC_"), Just("CCBOX_")],
        rest in "[A-Za-z0-9_%]{0,12}",
        strict: bool,
    ) {
        let policy = EnvPolicy { strict, ..EnvPolicy::default() };
        let out = scrub(&caller(&[&format!("{prefix}{rest}")]), &policy);
        prop_assert!(out.vars.is_empty());
    }

    #[test]
    fn strict_never_passes_more(names in proptest::collection::vec("[A-Z_]{1,14}", 0..20)) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let loose = scrub(&caller(&names), &EnvPolicy::default());
        let tight = scrub(&caller(&names), &strict());
        prop_assert!(tight.vars.iter().all(|v| loose.vars.contains(v)));
    }
}
