//! What is demanded on macOS, one test a statement: `statement_NN` holds what its name says.

mod second;

use std::path::{Path, PathBuf};

use super::evaluator::{TAG, decide, parse};
use super::model::{HOME, host, mac};
use super::{RunFacts, render};
use crate::host::fs_view::FakeFs;
use crate::plan::fixture::{bind, dispatch, entry, facts, plan, without_broker};
use crate::plan::{PlanError, seatbelt};
use crate::policy::path::{ListKind, PathEntry};
use crate::policy::{Caches, NetworkMode, Policy, View};
use crate::spec::{self, FlagRules, LoadRequest, SpecSource};

const TMP: &str = "/private/var/folders/q1/x0/T/ccbox-run";
const PROJ: &str = "/Users/dev/w/proj";

/// A spec with one writable directory.
fn chat() -> Policy {
    let mut p = dispatch();
    p.fs.view = View::Host;
    p.fs.caches = Caches::None;
    p.net.mode = NetworkMode::Filtered;
    p.fs.binds.push(bind(PROJ, false));
    p
}

fn written(p: &Policy, fs: &FakeFs, tag: &str) -> Result<String, PlanError> {
    let rules = seatbelt::rules(p, &host(), fs, Path::new(TMP))?;
    let run = RunFacts {
        tag: tag.to_owned(),
        proxy_port: 51234,
        terminals: vec![PathBuf::from("/dev/ttys001")],
    };
    Ok(render(&rules, &run).unwrap())
}

fn text(p: &Policy) -> String {
    written(p, &mac(), TAG).unwrap()
}

#[track_caller]
fn says(text: &str, want: bool, op: &str, targets: &[&str]) {
    let rules = parse(text).unwrap();
    for target in targets {
        for fold in [false, true] {
            assert_eq!(decide(&rules, fold, op, target), [want; 3], "{op} {target}");
        }
    }
}

/// A policy as a spec's text makes it on macOS.
fn loaded(text: &str) -> Result<Policy, spec::SpecError> {
    let request = LoadRequest {
        specs: vec![SpecSource::Inline(text.to_owned())],
        profile: None,
        params: Vec::new(),
        flags: FlagRules::default(),
        env_spec: None,
        env_sandbox: None,
        cwd: PROJ.into(),
        home: HOME.into(),
        uid: 1000,
        config_dir: "/nowhere/config".into(),
        state_dir: "/nowhere/state".into(),
        managed: "/nowhere/managed.toml".into(),
        stdin_spec: None,
    };
    spec::load_as(&request, true).map(|l| l.policy)
}

#[test]
fn statement_01_the_backend_is_seatbelt_and_the_note_says_what_that_is() {
    let note = crate::host::probe::SEATBELT_NOTE;
    assert_eq!(
        note,
        "sandbox-exec (Seatbelt): namespace isolation, no kernel boundary"
    );
    // What the probe makes of it: `host::probe::tests::macos_is_available_where_a_profile_is_applied`. The one program it takes:
    let tools = crate::session::seatbelt::Tools::system();
    assert_eq!(tools.sandbox_exec, Path::new("/usr/bin/sandbox-exec"));
}

#[test]
fn statement_02_everything_is_allowed_first() {
    assert!(text(&chat()).starts_with("(version 1)\n(allow default)\n"));
}

#[test]
fn statement_03_each_run_has_a_profile_of_its_own() {
    let of = |tag| written(&chat(), &mac(), tag).unwrap();
    assert_eq!(of("ccbox-1"), of("ccbox-1"));
    assert_eq!(of("ccbox-1").replace("ccbox-1", "ccbox-2"), of("ccbox-2"));
    let mut other = chat();
    other.fs.protected.push(entry("/opt/data"));
    assert_ne!(text(&chat()), text(&other));
}

#[test]
fn statement_04_secrets_cannot_be_read() {
    let text = text(&chat());
    let secrets = [
        ".ssh/id_ed25519",
        ".aws/credentials",
        ".gnupg/key",
        ".config/gh/hosts.yml",
        "Library/Keychains/login.keychain-db",
        ".netrc",
        ".docker/config.json",
        ".kube/config",
        ".npmrc",
        ".pypirc",
        ".cargo/credentials.toml",
        ".config/gcloud/x",
        ".azure/x",
        ".git-credentials",
        "Library/Application Support/Google/Chrome/Default/Cookies",
    ];
    for name in secrets.map(|s| format!("{HOME}/{s}")) {
        for op in [
            "file-read-data",
            "file-read-metadata",
            "file-clone",
            "file-link",
        ] {
            says(&text, false, op, &[&name]);
        }
    }
}

#[test]
fn statement_05_the_rest_can_be_read_and_the_manual_says_so() {
    let text = text(&chat());
    says(
        &text,
        true,
        "file-read-data",
        &[
            "/etc/hosts",
            "/Users/dev/notes",
            "/opt/data/x",
            "/Library/p",
        ],
    );
    let manual = include_str!("../../../../man/ccbox.toml.5");
    assert!(manual.contains("What is elsewhere can be read"));
}

#[test]
fn statement_06_nothing_is_written_but_what_is_granted() {
    let text = text(&chat());
    let reset = text.find("(deny file-write*").unwrap();
    assert!(reset < text.find("(allow file-write*").unwrap());
    says(
        &text,
        false,
        "file-write-create",
        &["/Users/dev/x", "/opt/x", "/private/tmp/x"],
    );
    says(&text, true, "file-write-create", &["/Users/dev/w/proj/x"]);
}

#[test]
fn statement_07_mandatory_names_hold_inside_a_grant() {
    let mut p = chat();
    p.fs.protected.push(entry("/Users/dev/w/proj/vendor"));
    let text = text(&p);
    for name in [
        ".zshrc",
        ".bashrc",
        ".git/hooks/pre-commit",
        ".claude/settings.json",
        "vendor/x",
    ] {
        let path = format!("{PROJ}/{name}");
        for op in [
            "file-write-create",
            "file-write-data",
            "file-write-mode",
            "file-link",
            "file-mknod",
        ] {
            says(&text, false, op, &[&path]);
        }
    }
}

#[test]
fn statement_08_name_patterns_hold_for_files_that_are_not_there() {
    let parse = |text| {
        PathEntry::parse(
            text,
            false,
            ListKind::DenyWrite,
            Path::new(PROJ),
            Path::new(HOME),
        )
        .unwrap()
    };
    let mut p = chat();
    for name in [".env", "*.key", "*.pem"] {
        p.fs.deny_write.push(crate::policy::Ruled {
            value: parse(name),
            origin: crate::plan::fixture::origin(3),
        });
    }
    let text = text(&p);
    let names = [
        "/Users/dev/w/proj/.env",
        "/Users/dev/w/proj/a/b/K.PEM",
        "/Users/dev/w/proj/x.key",
    ];
    says(&text, false, "file-write-create", &names);
    says(
        &text,
        true,
        "file-write-create",
        &["/Users/dev/w/proj/.envrc", "/Users/dev/w/proj/x.keys"],
    );
    // Linux holds them by the broker; where there is none, the run is refused.
    let mut linux = dispatch();
    linux.fs.binds.push(bind("/home/me/proj", false));
    linux.fs.deny_write = p.fs.deny_write;
    let fs = crate::plan::fixture::debian();
    assert!(plan(&linux, &facts(), &fs).unwrap().refusal.is_none());
    assert!(
        plan(&linux, &without_broker(), &fs)
            .unwrap()
            .refusal
            .is_some()
    );
}

#[test]
fn statement_09_denied_paths_and_all_above_keep_their_place() {
    let mut p = chat();
    p.fs.protected.push(entry("/Users/dev/w/proj/a/b/keep"));
    let fs = mac().file("/Users/dev/w/proj/a/b/keep", "");
    let text = written(&p, &fs, TAG).unwrap();
    let kept = [
        "/Users/dev/w/proj/a/b/keep",
        "/Users/dev/w/proj/a/b",
        "/Users/dev/w/proj/a",
        PROJ,
        "/Users/dev/w",
        HOME,
        "/Users",
        "/Users/dev/.ssh",
        "/Users/dev/.config",
    ];
    says(&text, false, "file-write-unlink", &kept);
    // Nothing takes the place of a directory that stands there.
    says(&text, false, "file-write-create", &kept[1..3]);
    says(
        &text,
        true,
        "file-write-unlink",
        &["/Users/dev/w/proj/c", "/Users/dev/w/proj/a/b/other"],
    );
}

#[test]
fn statement_10_dangerous_programs_and_written_ones_are_not_run() {
    let mut p = chat();
    p.exec_deny_writable = true;
    let text = text(&p);
    says(
        &text,
        false,
        "process-exec*",
        &["/Users/dev/w/proj/a.out", "/usr/bin/osascript"],
    );
    says(
        &text,
        false,
        "process-exec-interpreter",
        &["/Users/dev/w/proj/run.sh"],
    );
    says(
        &text,
        false,
        "process-exec*",
        &["/private/var/folders/q1/x0/T/ccbox-run/x"],
    );
    says(
        &text,
        true,
        "process-exec*",
        &["/bin/sh", "/usr/bin/make", "/usr/bin/codesign"],
    );
}

#[test]
fn statement_11_exec_grant_roots_open_the_written_and_no_dangerous_one() {
    let mut p = chat();
    p.exec_deny_writable = true;
    p.fs.binds.push(bind("/usr/bin", false));
    p.fs.exec_grant_roots
        .push(entry("/Users/dev/w/proj/vendor"));
    p.fs.exec_grant_roots.push(entry("/usr/bin"));
    let fs = mac().file("/usr/bin/sudo", "");
    let text = written(&p, &fs, TAG).unwrap();
    says(
        &text,
        true,
        "process-exec*",
        &["/Users/dev/w/proj/vendor/x", "/usr/bin/make"],
    );
    says(
        &text,
        false,
        "process-exec*",
        &["/Users/dev/w/proj/x", "/usr/bin/sudo", "/usr/bin/osascript"],
    );
    // On Linux they say nothing where exec.deny_writable is off.
    let mut linux = dispatch();
    linux.fs.binds.push(bind("/home/me/proj", false));
    linux.fs.exec_grant_roots.push(entry("/home/me/proj"));
    assert!(
        plan(&linux, &facts(), &crate::plan::fixture::debian())
            .unwrap()
            .exec
            .is_none()
    );
}

#[test]
fn statement_12_only_the_proxies_and_names_are_reached() {
    let mut p = chat();
    let on = text(&p);
    says(
        &on,
        true,
        "network-outbound",
        &["localhost:51234", "/private/var/run/mDNSResponder"],
    );
    let closed = [
        "192.0.2.1:443",
        "localhost:22",
        "127.0.0.1:5432",
        "/private/var/run/docker.sock",
        "/private/tmp/s",
    ];
    says(&on, false, "network-outbound", &closed);
    says(
        &on,
        false,
        "network-bind",
        &["local:*:80", "/Users/dev/w/proj/s"],
    );
    says(&on, false, "network-inbound", &["local:*:80"]);
    p.macos.dns = false;
    let off = text(&p);
    says(
        &off,
        false,
        "network-outbound",
        &["/private/var/run/mDNSResponder"],
    );
    says(&off, false, "mach-lookup", &["com.apple.dnssd.service"]);
}

#[test]
fn statement_13_no_network_has_the_same_shape() {
    let mut p = chat();
    p.net.mode = NetworkMode::Off;
    assert_eq!(text(&p), text(&chat()));
}

#[test]
fn statement_14_the_proxies_are_on_the_loopback_of_the_host() {
    says(
        &text(&chat()),
        true,
        "network-outbound",
        &["localhost:51234"],
    );
    says(
        &text(&chat()),
        false,
        "network-outbound",
        &["localhost:51235", "localhost:5123"],
    );
    let exe = Path::new("/opt/ccbox");
    let vars = crate::proxy::child_env(
        51234,
        crate::proxy::Instead::default(),
        crate::policy::AllProxy::Http,
        Some("token"),
        exe,
        None,
    );
    let of = |name: &str| {
        let found = vars.iter().find(|(n, _)| n == name).unwrap();
        found.1.to_str().unwrap().to_owned()
    };
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        assert_eq!(of(name), "http://ccbox:token@127.0.0.1:51234");
    }
    assert!(of("GIT_SSH_COMMAND").contains("/opt/ccbox connect"));
}

#[test]
fn statement_15_refusals_stand_in_every_spelling() {
    let mut p = chat();
    p.fs.binds.push(bind("/private/tmp/z", false));
    p.fs.protected.push(entry("/tmp/z/keep"));
    p.fs.deny_read.push(entry("/var/hidden"));
    p.fs.deny_read.push(entry("/Users/dev/lib"));
    let text = text(&p);
    says(
        &text,
        false,
        "file-write-data",
        &["/tmp/z/keep", "/private/tmp/z/keep"],
    );
    says(
        &text,
        false,
        "file-read-data",
        &["/var/hidden", "/private/var/hidden"],
    );
    says(
        &text,
        false,
        "file-read-data",
        &["/Users/dev/lib/x", "/System/Volumes/Data/Users/dev/lib/x"],
    );
}

#[test]
fn statement_16_patterns_are_not_resolved() {
    let parse = |text| {
        PathEntry::parse(
            text,
            false,
            ListKind::DenyWrite,
            Path::new(PROJ),
            Path::new(HOME),
        )
        .unwrap()
    };
    let mut p = chat();
    p.fs.deny_write.push(crate::policy::Ruled {
        value: parse("**/k?y"),
        origin: crate::plan::fixture::origin(3),
    });
    assert!(text(&p).contains("(regex \"/[kK][^/][yY](/.*)?$\")"));
}

#[test]
fn every_statement_has_its_test() {
    let own = concat!(
        include_str!("statements.rs"),
        include_str!("statements/second.rs")
    );
    for n in 1..=32 {
        assert_eq!(
            own.matches(&format!("fn statement_{n:02}_")).count(),
            1,
            "{n}"
        );
    }
}
