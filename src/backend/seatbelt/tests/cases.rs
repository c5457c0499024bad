//! Single statements: spellings, strings, patterns, size, and whole profiles to look at.

use std::path::Path;

use super::super::{ProfileError, render};
use super::evaluator::{READINGS, TAG, decide, parse};
use super::expressions::regex_matches;
use super::model::{HOME, TMP, host, mac};
use super::{RunFacts, Spec};
use crate::host::fs_view::FakeFs;
use crate::plan::fixture::{bind, bind_at, dispatch, entry, origin};
use crate::plan::seatbelt;
use crate::policy::path::{ListKind, PathEntry};
use crate::policy::{Caches, NetworkMode, Policy, Ruled, View};

pub(super) fn chat() -> Policy {
    let mut p = dispatch();
    p.fs.view = View::Host;
    p.fs.caches = Caches::None;
    p.fs.terminal_secrets_only = true;
    p.net.mode = NetworkMode::Filtered;
    p.fs.binds.push(bind("/Users/dev/w/proj", false));
    p
}

pub(super) fn profile(p: &Policy, fs: &FakeFs) -> Result<String, ProfileError> {
    let rules = seatbelt::rules(p, &host(), fs, Path::new(TMP)).unwrap();
    let run = RunFacts {
        tag: TAG.to_owned(),
        proxy_port: 51234,
        terminals: vec!["/dev/ttys001".into()],
    };
    render(&rules, &run)
}

#[track_caller]
fn allows(text: &str, op: &str, path: &str, want: bool) {
    let rules = parse(text).unwrap();
    for fold in [false, true] {
        let got = decide(&rules, fold, op, path);
        assert_eq!(got, [want; 3], "{op} {path} {READINGS:?}");
    }
}

/// R36: neither a protected file nor a directory above it is moved.
#[test]
fn protected_paths_and_all_their_ancestors_are_pinned() {
    let mut p = chat();
    p.fs.protected.push(entry("/Users/dev/w/proj/a/b/.env"));
    let text = profile(&p, &mac().file("/Users/dev/w/proj/a/b/.env", "")).unwrap();
    for path in ["/a/b/.env", "/a/b", "/a", ""] {
        allows(
            &text,
            "file-write-unlink",
            &format!("/Users/dev/w/proj{path}"),
            false,
        );
    }
    allows(&text, "file-write-unlink", "/Users/dev/.ssh", false);
    allows(
        &text,
        "file-write-unlink",
        "/Users/dev/w/proj/a/b/other",
        true,
    );
    allows(&text, "file-write-unlink", "/Users/dev/w/proj/c", true);
}

/// R25: as written, and as the links lead; an absent path as written.
#[test]
fn both_spellings_of_paths_that_are_links() {
    let mut p = chat();
    p.fs.binds.push(bind("/tmp/z", false));
    p.fs.protected.push(entry("/tmp/z/.lock"));
    p.fs.deny_read.push(entry("/Users/dev/cfg/gh"));
    p.fs.deny_read.push(entry("/var/gone"));
    let fs = mac()
        .dir("/Users/dev/dot/gh")
        .dir("/Users/dev/cfg")
        .link("/Users/dev/cfg/gh", "/Users/dev/dot/gh");
    let text = profile(&p, &fs).unwrap();
    for path in ["/tmp/z/.lock", "/private/tmp/z/.lock"] {
        assert!(text.contains(&format!("\"{path}\"")), "{path}");
        allows(&text, "file-write-data", path, false);
    }
    for path in ["/tmp/z/x", "/private/tmp/z/x"] {
        allows(&text, "file-write-data", path, true);
    }
    for path in [
        "/Users/dev/cfg/gh/hosts",
        "/Users/dev/dot/gh/hosts",
        "/var/gone",
        "/private/var/gone/x",
        "/System/Volumes/Data/Users/dev/dot/gh/hosts",
        "/Users/dev/.SSH/id",
        "/System/Volumes/Data/Users/dev/.ssh/id",
    ] {
        allows(&text, "file-read-data", path, false);
    }
    // The link itself stays where it is.
    allows(&text, "file-write-unlink", "/Users/dev/cfg/gh", false);
}

#[test]
fn path_text_cannot_break_out() {
    let forms = |name: &str| {
        let mut p = chat();
        p.fs.protected
            .push(entry(&format!("/Users/dev/w/proj/{name}")));
        p.fs.deny_read.push(entry(&format!("/Users/dev/{name}")));
        profile(&p, &mac())
    };
    let plain = parse(&forms("harmless").unwrap()).unwrap().len();
    for name in [
        "a\") (allow default) (\"b",
        "back\\slash",
        "$x;y",
        "sp ace",
        "[b]{c}",
        "ünï",
        "\\\"",
        "'",
    ] {
        let text = forms(name).unwrap();
        assert_eq!(parse(&text).unwrap().len(), plain, "{name}");
        allows(
            &text,
            "file-write-data",
            &format!("/Users/dev/w/proj/{name}/x"),
            false,
        );
        allows(
            &text,
            "file-read-data",
            &format!("/Users/dev/{name}"),
            false,
        );
    }
    assert!(matches!(forms("new\nline"), Err(ProfileError::Control(_))));
    assert!(matches!(forms("bell\u{7}"), Err(ProfileError::Control(_))));
    let raw =
        <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"/Users/dev/w/proj/\xff");
    let mut p = chat();
    p.fs.protected.push(Ruled {
        value: PathEntry::Exact(raw.into()),
        origin: origin(1),
    });
    assert!(matches!(profile(&p, &mac()), Err(ProfileError::NotText(_))));
}

#[test]
fn directory_rules_stop_at_the_directory() {
    let text = profile(&chat(), &mac()).unwrap();
    allows(&text, "file-write-create", "/Users/dev/w/proj/x", true);
    allows(&text, "file-write-create", "/Users/dev/w/proj-evil", false);
    allows(&text, "file-write-create", "/Users/dev/w/projx/y", false);
}

/// The same answers as the matcher of Linux.
#[test]
fn expressions_are_the_patterns() {
    let patterns = ["**/.env", "**/*.pem", "/Users/dev/a.b/[x]*/f?", "[!a]x"];
    let paths = [
        "/w/.env",
        "/w/.ENV/x",
        "/w/x.env",
        "/w/env",
        "/w/k.pem",
        "/w/kxpem",
        "/Users/dev/a.b/xyz/f1",
        "/Users/dev/aXb/xyz/f1",
        "/Users/dev/a.b/yx/f1",
        "/w/bx",
        "/w/ax",
        "/w/a+b(c)",
        "/w/aab(c)",
        "/w/x{1}^$|/q",
        "/w/dir",
        "/w/dir/y",
        "/w/a/b",
        "/w/a/c/d/b",
        "/w/ab",
        "/w/]z",
        "/w/^z",
        "/w/-z",
        "/w/straßen",
        "/w/éx",
        "/w/ÉX",
        "/Users",
        "/w/Bq",
        "/w/dq",
    ];
    for pattern in patterns {
        let entry = PathEntry::parse(
            pattern,
            false,
            ListKind::Protected,
            Path::new("/w"),
            Path::new(HOME),
        )
        .unwrap();
        let PathEntry::Pattern(compiled) = &entry else {
            continue;
        };
        let e = compiled.expression().unwrap();
        assert!(!e.contains("(?") && !e.contains("\\d"), "{e}");
        for path in paths {
            // A profile counts characters and Linux bytes.
            if pattern.contains(['?', '[']) && !path.is_ascii() {
                continue;
            }
            let want = compiled.covers(Path::new(path), Path::new("/"));
            for fold in [false, true] {
                assert_eq!(regex_matches(&e, path, fold), want, "{pattern} {path} {e}");
            }
        }
    }
}

#[test]
fn a_thousand_protected_paths_stay_small() {
    let size = |count: usize| {
        let mut p = chat();
        p.exec_deny_writable = true;
        for n in 0..count {
            p.fs.protected
                .push(entry(&format!("/Users/dev/w/proj/{n:0>70}")));
        }
        profile(&p, &mac()).unwrap().len()
    };
    let each = (size(1000) - size(0)) / 1000;
    assert!(each < 600, "{each} bytes a path");
}

/// Go asks the trust daemon, shells need their terminal's settings.
#[test]
fn certificates_and_terminals_work() {
    let text = profile(&chat(), &mac()).unwrap();
    allows(&text, "mach-lookup", "com.apple.trustd.agent", true);
    allows(&text, "file-ioctl", "/dev/ttys001", true);
    allows(&text, "file-write-data", "/dev/ttys001", true);
    assert!(!text.contains("trustd"));
}

#[test]
fn caches_of_the_agent_stay_writable_where_they_are_granted() {
    let mut p = chat();
    p.fs.allow_write.push(entry(HOME));
    let fs = mac().dir("/Users/dev/.claude/todos");
    let text = profile(&p, &fs).unwrap();
    allows(
        &text,
        "file-write-create",
        "/Users/dev/.claude/todos/1",
        true,
    );
    allows(
        &text,
        "file-write-create",
        "/Users/dev/.claude/todos/.env2",
        true,
    );
    allows(
        &text,
        "file-write-create",
        "/Users/dev/.claude/plans",
        false,
    );
    allows(&text, "file-write-unlink", "/Users/dev/.claude", false);
    let bound = profile(&chat(), &fs).unwrap();
    allows(
        &bound,
        "file-write-create",
        "/Users/dev/.claude/todos/1",
        false,
    );
}

#[test]
fn what_macos_cannot_do_is_refused() {
    let mut p = chat();
    p.fs.binds.push(bind_at("/opt/data", "/elsewhere", false));
    let e = seatbelt::rules(&p, &host(), &mac(), Path::new(TMP)).unwrap_err();
    assert!(e.message.contains("guest_path"), "{e}");
}

#[test]
fn a_disabled_file_system_keeps_the_other_doors() {
    let mut p = chat();
    p.fs.disabled = true;
    let text = profile(&p, &mac()).unwrap();
    allows(&text, "file-write-data", "/Users/dev/.ssh/id", true);
    allows(&text, "network-outbound", "192.0.2.1:80", false);
    allows(&text, "lsopen", "", false);
    p.net.mode = NetworkMode::Open;
    allows(
        &profile(&p, &mac()).unwrap(),
        "network-outbound",
        "192.0.2.1:80",
        true,
    );
}

#[test]
fn local_binding_opens_loopback_only() {
    let mut p = chat();
    p.net.allow_local_binding = true;
    let text = profile(&p, &mac()).unwrap();
    allows(&text, "network-bind", "local:*:8080", true);
    allows(&text, "network-outbound", "localhost:8080", true);
    allows(&text, "network-outbound", "192.0.2.1:80", false);
}

#[test]
fn profiles() {
    let spec = |p: &Policy| profile(p, &mac()).unwrap();
    insta::assert_snapshot!("chat", spec(&chat()));
    let mut p = chat();
    p.fs.view = View::Bound;
    p.mode = crate::policy::Mode::Review;
    p.fs.runner_state_dirs.push(entry("/opt/data"));
    insta::assert_snapshot!("review_bound", spec(&p));
    let mut d = super::Dice(5);
    let busy = Spec {
        soft: true,
        exec: Some(vec!["/Users/dev/w/other".to_owned()]),
        ..Spec::random(&mut d)
    };
    insta::assert_snapshot!("busy", spec(&busy.policy()));
}

/// What the bound view shows whatever it closes: the program itself, certificates that variables name, and every link on the way.
#[test]
fn the_bound_view_leads_to_what_is_shown() {
    let mut p = chat();
    p.fs.view = View::Bound;
    p.exec_deny_writable = true;
    p.fs.allow_read.push(entry("/Users/dev/first"));
    let fs = mac()
        .link("/Users/dev/first", "/Users/dev/second")
        .link("/Users/dev/second", "/opt/data")
        .file("/Users/dev/certs/ca.pem", "")
        .file("/Users/dev/w/proj/target/ccbox", "");
    let mut host = host();
    host.exe = "/Users/dev/w/proj/target/ccbox".into();
    crate::plan::fixture::set_var(&mut host, "SSL_CERT_FILE", "/Users/dev/certs/ca.pem");
    let rules = seatbelt::rules(&p, &host, &fs, Path::new(TMP)).unwrap();
    let run = RunFacts {
        tag: TAG.to_owned(),
        proxy_port: 51234,
        terminals: Vec::new(),
    };
    let text = render(&rules, &run).unwrap();
    for path in [
        "/Users/dev/first",
        "/Users/dev/second",
        "/Users/dev/certs/ca.pem",
    ] {
        allows(&text, "file-read-metadata", path, true);
    }
    allows(&text, "file-read-data", "/Users/dev/certs/key.pem", false);
    // The program is run, so it is not written; others beside it are written and not run.
    let own = "/Users/dev/w/proj/target/ccbox";
    allows(&text, "process-exec*", own, true);
    allows(&text, "file-write-data", own, false);
    allows(
        &text,
        "file-write-unlink",
        "/Users/dev/w/proj/target",
        false,
    );
    allows(&text, "process-exec*", "/Users/dev/w/proj/target/x", false);
    allows(&text, "file-write-data", "/Users/dev/w/proj/target/x", true);
}

/// The command never starts elsewhere than asked (semantics 12).
#[test]
fn a_working_directory_that_is_not_visible_is_refused() {
    let mut p = chat();
    p.fs.view = View::Bound;
    p.fs.binds = vec![bind("/opt/data", false)];
    let refused = |p: &Policy| seatbelt::rules(p, &host(), &mac(), Path::new(TMP)).unwrap_err();
    assert!(refused(&p).message.contains("is not visible inside"));
    p.fs.binds = vec![bind("/Users/dev/w/proj", false)];
    p.fs.deny_read.push(entry("/Users/dev/w/proj"));
    assert!(refused(&p).message.contains("is hidden by deny_read"));
}
