//! The built-in profiles, value by value.

use super::*;
use crate::policy::path::PathEntry;
use crate::policy::{Caches, Mode, NetworkMode, Ruled, View};

fn profile(name: &str, macos: bool) -> Policy {
    let lab = Lab::new().with(|r| r.profile = Some(name.into()));
    lab.load_as(macos).unwrap().policy
}

#[test]
fn which_profile_applies() {
    assert_eq!(Lab::new().policy().profile, "dev");
    assert_eq!(
        Lab::new().project("mode = \"plan\"").policy().profile,
        "dev"
    );
    assert_eq!(
        Lab::new().spec("mode = \"plan\"").policy().profile,
        "dispatch"
    );
    assert_eq!(
        Lab::new().inline("profile = \"strict\"").policy().profile,
        "strict"
    );
    let lab = Lab::new()
        .inline("profile = \"strict\"")
        .with(|r| r.profile = Some("dev".into()));
    assert_eq!(lab.policy().profile, "dev");
    assert_eq!(
        Lab::new()
            .project("profile = \"terminal\"")
            .policy()
            .profile,
        "dev",
        "not trusted"
    );
    let flags = Lab::new().with(|r| r.flags.rw = vec![os("/x")]);
    assert_eq!(flags.policy().profile, "dev");
}

#[test]
fn values() {
    for (name, view, net, caches, cwd, tools, strict_env) in [
        (
            "dispatch",
            View::Bound,
            NetworkMode::Filtered,
            Caches::Private,
            false,
            true,
            false,
        ),
        (
            "dev",
            View::Host,
            NetworkMode::Filtered,
            Caches::Private,
            true,
            false,
            false,
        ),
        (
            "terminal",
            View::Host,
            NetworkMode::Open,
            Caches::Shared,
            true,
            false,
            false,
        ),
        (
            "strict",
            View::Bound,
            NetworkMode::Off,
            Caches::None,
            false,
            true,
            true,
        ),
    ] {
        let p = profile(name, false);
        assert_eq!(
            (p.fs.view, p.net.mode, p.fs.caches),
            (view, net, caches),
            "{name}"
        );
        assert_eq!(
            (
                p.fs.cwd_writable,
                p.fs.deny_build_tool_secrets,
                p.env.strict
            ),
            (cwd, tools, strict_env),
            "{name}"
        );
        assert_eq!(
            (p.mode, p.sandbox, p.backend),
            (
                Mode::Chat,
                SandboxMode::Require,
                crate::policy::BackendChoice::Auto
            )
        );
        assert!(
            p.fs.protect_git && !p.fs.disabled && !p.fs.protect_project_config,
            "{name}"
        );
        assert_eq!(p.net.baseline, net == NetworkMode::Filtered, "{name}");
        assert!(p.net.allowed.is_empty() && p.net.denied.is_empty());
    }
}

#[test]
fn name_patterns_of_profiles() {
    let env = [".env", ".env.local", ".env.*.local"];
    let keys = [".env", ".env.local", ".env.*.local", "*.key", "*.pem"];
    for (name, patterns, exceptions) in [
        ("dispatch", &keys[..], true),
        ("strict", &keys[..], true),
        ("dev", &env[..], false),
        ("terminal", &[], false),
    ] {
        let p = profile(name, false);
        let texts = |list: &[Ruled<PathEntry>]| -> Vec<String> {
            list.iter()
                .map(|e| match &e.value {
                    PathEntry::Pattern(pattern) => pattern.text.clone(),
                    PathEntry::Exact(path) => panic!("{}", path.display()),
                })
                .collect()
        };
        assert_eq!(texts(&p.fs.deny_write), patterns, "{name}");
        let from = |e: &Ruled<PathEntry>| e.origin.layer == Layer::Profile(name.to_owned());
        assert!(p.fs.deny_write.iter().all(from));
        let lifted = texts(&p.fs.allow_create);
        if !exceptions {
            assert!(lifted.is_empty(), "{name}");
            continue;
        }
        for dir in [
            "node_modules",
            "site-packages",
            "dist-packages",
            "vendor",
            "target",
            ".venv",
            ".tox",
            ".cargo",
            "pkg/mod",
        ] {
            for end in ["*.pem", "*.key"] {
                assert!(lifted.contains(&format!("{dir}/**/{end}")), "{name} {dir}");
            }
        }
        assert_eq!(lifted.len(), 18);
    }
}

#[test]
fn execution_from_writable_trees_by_platform() {
    for (name, linux, macos) in [
        ("dispatch", false, true),
        ("dev", false, false),
        ("terminal", false, false),
        ("strict", true, true),
    ] {
        assert_eq!(profile(name, false).exec_deny_writable, linux, "{name}");
        assert_eq!(profile(name, true).exec_deny_writable, macos, "{name}");
    }
}

#[test]
fn terminal_opens_home_and_closes_the_keys() {
    let lab = Lab::new().with(|r| r.profile = Some("terminal".into()));
    let p = lab.policy();
    let home = &lab.request.home;
    assert_eq!(exact(&p.fs.allow_write), std::slice::from_ref(home));
    assert_eq!(
        exact(&p.fs.deny_read),
        [".ssh", ".aws", ".gnupg", ".config/gh", "Library/Keychains"].map(|d| home.join(d))
    );
    assert!(p.fs.terminal_secrets_only);
    assert_eq!(
        p.fs.deny_read[0].origin.layer,
        Layer::Profile("terminal".into())
    );
}

#[test]
fn a_spec_can_open_the_network_of_strict_again() {
    let p = Lab::new()
        .inline("profile = \"strict\"\nnetwork_enabled = true\negress_allowlist = [\"a.example\"]")
        .policy();
    assert_eq!(p.net.mode, NetworkMode::Filtered);
    assert!(!p.net.baseline);
}

#[test]
fn profile_texts_are_available_by_name() {
    for (name, _) in profile::NAMES {
        assert!(
            profile_text(name).is_some_and(|t| t.starts_with('#')),
            "{name}"
        );
    }
    assert_eq!(profile_text("nope"), None);
}
