//! Properties of the merge: an untrusted file opens nothing, nothing removes a deny.

use super::*;
use crate::policy::NetworkMode;
use proptest::prelude::*;

/// Some spec text with grants and denies.
fn any_spec() -> impl Strategy<Value = String> {
    let words = |key: &'static str, values: &'static [&'static str]| {
        proptest::option::of(proptest::sample::select(values))
            .prop_map(move |v| v.map_or(String::new(), |v| format!("{key} = {v}\n")))
    };
    let list = |key: &'static str| {
        proptest::collection::vec("/[a-c]{1,2}", 0..3).prop_map(move |v| format!("{key} = {v:?}\n"))
    };
    let hosts = |key: &'static str| {
        proptest::collection::vec("[a-c]{1,2}\\.example", 0..3)
            .prop_map(move |v| format!("{key} = {v:?}\n"))
    };
    let top = (
        words("mode", &["\"chat\"", "\"review\"", "\"plan\""]),
        words("sandbox", &["\"require\"", "\"on\"", "\"off\""]),
        words("backend", &["\"auto\"", "\"native\"", "\"none\""]),
        words("network_enabled", &["false"]),
        list("protected_paths"),
        list("runner_state_dirs"),
        hosts("egress_allowlist"),
        words(
            "profile",
            &["\"dev\"", "\"terminal\"", "\"strict\"", "\"dispatch\""],
        ),
    );
    let fs = (
        words("view", &["\"host\"", "\"bound\""]),
        words("disabled", &["true", "false"]),
        words("protect_git", &["true", "false"]),
        words("caches", &["\"shared\"", "\"private\"", "\"none\""]),
        list("allow_write"),
        list("allow_read"),
        list("deny_read"),
        list("deny_write"),
    );
    let net = (
        words("baseline", &["true", "false"]),
        hosts("denied_domains"),
        words("allow_local_binding", &["true", "false"]),
    );
    let env = (
        words("pass", &["[\"LD_PRELOAD\"]", "[]"]),
        words("unset", &["[\"PATH\"]", "[]"]),
        words("only", &["true", "false"]),
    );
    (top, fs, net, env).prop_map(|(t, f, n, e)| {
        format!(
            "{}{}{}{}{}{}{}{}[filesystem]\n{}{}{}{}{}{}{}{}[network]\n{}{}{}[env]\n{}{}{}",
            t.0,
            t.1,
            t.2,
            t.3,
            t.4,
            t.5,
            t.6,
            t.7,
            f.0,
            f.1,
            f.2,
            f.3,
            f.4,
            f.5,
            f.6,
            f.7,
            n.0,
            n.1,
            n.2,
            e.0,
            e.1,
            e.2
        )
    })
}

fn rank_network(m: NetworkMode) -> u8 {
    match m {
        NetworkMode::Off => 0,
        NetworkMode::Filtered => 1,
        NetworkMode::Open => 2,
    }
}

/// `after` opens nothing that `before` does not.
fn opens_no_more(before: &Policy, after: &Policy) -> Result<(), TestCaseError> {
    let (b, a) = (&before.fs, &after.fs);
    for (old, new) in [
        (&b.allow_write, &a.allow_write),
        (&b.allow_read, &a.allow_read),
        (&b.runner_state_dirs, &a.runner_state_dirs),
        (&b.exec_grant_roots, &a.exec_grant_roots),
        (&b.allow_create, &a.allow_create),
    ] {
        prop_assert_eq!(old, new);
    }
    prop_assert_eq!(&b.binds, &a.binds);
    prop_assert_eq!(&before.net.allowed, &after.net.allowed);
    prop_assert_eq!(&before.env.pass, &after.env.pass);
    prop_assert_eq!(&before.env.set, &after.env.set);
    prop_assert!(before.mode == after.mode || after.mode.is_read_only());
    prop_assert!(rank_network(after.net.mode) <= rank_network(before.net.mode));
    prop_assert!(before.net.baseline || !after.net.baseline);
    prop_assert_eq!(
        (before.sandbox, before.backend, before.engine),
        (after.sandbox, after.backend, after.engine)
    );
    prop_assert_eq!(
        (
            b.view,
            b.disabled,
            b.protect_git,
            b.protect_project_config,
            b.caches,
            b.cwd_writable
        ),
        (
            a.view,
            a.disabled,
            a.protect_git,
            a.protect_project_config,
            a.caches,
            a.cwd_writable
        )
    );
    prop_assert_eq!(&before.profile, &after.profile);
    prop_assert_eq!(before.env.only, after.env.only);
    prop_assert_eq!(
        before.net.allow_local_binding,
        after.net.allow_local_binding
    );
    prop_assert_eq!(before.macos, after.macos);
    denies_kept(before, after)
}

fn denies_kept(before: &Policy, after: &Policy) -> Result<(), TestCaseError> {
    for (old, new) in [
        (&before.fs.protected, &after.fs.protected),
        (&before.fs.deny_read, &after.fs.deny_read),
        (&before.fs.deny_write, &after.fs.deny_write),
    ] {
        prop_assert!(old.iter().all(|d| new.iter().any(|n| n.value == d.value)));
    }
    prop_assert!(
        before
            .net
            .denied
            .iter()
            .all(|d| after.net.denied.iter().any(|n| n.value == d.value))
    );
    prop_assert!(
        before
            .env
            .unset
            .iter()
            .all(|d| after.env.unset.iter().any(|n| n.value == d.value))
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn an_untrusted_project_file_never_adds_a_grant(user in any_spec(), project in any_spec()) {
        let lab = Lab::new().user(&user);
        let Ok(before) = lab.load() else { return Ok(()) };
        let lab = lab.project(&project);
        // A deny may meet an open network and be refused; that opens nothing.
        let Ok(after) = lab.load() else { return Ok(()) };
        opens_no_more(&before.policy, &after.policy)?;
    }

    #[test]
    fn merging_never_removes_a_deny(first in any_spec(), second in any_spec(), managed in any_spec()) {
        let lab = Lab::new().inline(&first);
        let Ok(before) = lab.load() else { return Ok(()) };
        // Another base profile is another base; its own denies come and go with it.
        let keep = |text: &str| text.lines().filter(|l| !l.starts_with("profile")).collect::<Vec<_>>().join("\n");
        let lab = lab.inline(&keep(&second));
        let Ok(more) = lab.load() else { return Ok(()) };
        denies_kept(&before.policy, &more.policy)?;
        let lab = lab.managed(&keep(&managed));
        let Ok(ceiling) = lab.load() else { return Ok(()) };
        denies_kept(&more.policy, &ceiling.policy)?;
        prop_assert!(rank_network(ceiling.policy.net.mode) <= rank_network(more.policy.net.mode));
        prop_assert!(more.policy.mode == ceiling.policy.mode || ceiling.policy.mode.is_read_only());
        prop_assert!(!ceiling.policy.fs.disabled || more.policy.fs.disabled);
    }
}
