use super::super::fixtures::host;
use super::*;
use crate::plan::fixture::{bind, dispatch, entry, facts, origin};
use crate::policy::{NetworkMode, Policy, View};

/// A home with a project, and a policy with a rule of each kind.
fn refusals(policy: &Policy) -> Refusals {
    let fs = crate::plan::fixture::debian();
    let plan = crate::plan::fixture::plan(policy, &facts(), &fs).unwrap();
    let rules = SeatbeltRules {
        pins: ["/home/me".into()].into(),
        unmade: ["/home/me/proj/new".into()].into(),
        closed_sockets: ["/private/var/run/docker.sock".into()].into(),
        ..SeatbeltRules::default()
    };
    let report = Arc::new(Reporter::stderr(Verbosity::Quiet));
    Refusals::new(Arc::new(plan), &rules, &host(), &report)
}

fn policy() -> Policy {
    let mut p = dispatch();
    p.fs.view = View::Host;
    p.net.mode = NetworkMode::Filtered;
    p.fs.binds.push(bind("/home/me/proj", false));
    p.fs.protected.push(entry("/home/me/proj/vendor"));
    p.exec_deny_writable = true;
    p
}

#[track_caller]
fn says(action: &str, target: &str, rule: &str, hint: Option<&str>) {
    let (said, line) = refusals(&policy()).reason(action, target);
    assert!(said.contains(rule), "{action} {target}: {said}");
    assert_eq!(line.as_deref(), hint, "{action} {target}: {said}");
}

/// R70: the key of the spec that would open it, or only why.
#[test]
fn every_operation_names_its_rule_and_key() {
    let events = Some("[macos] allow_apple_events = true");
    let around = "it went around the proxy in HTTP_PROXY, the only way out";
    for (action, target, rule, hint) in [
        (
            "file-write-unlink",
            "/home/me",
            "a closed name lies below",
            None,
        ),
        (
            "file-write-create",
            "/home/me/proj/new",
            "a closed name lies below",
            None,
        ),
        (
            "file-write-create",
            "/home/me/proj/vendor/x",
            "protected_paths",
            None,
        ),
        (
            "file-write-data",
            "/home/me/proj/.git/hooks/post-commit",
            "git",
            None,
        ),
        ("file-write-create", "/private/tmp/x", "$TMPDIR", None),
        ("file-write-create", "/tmp/x", "$TMPDIR", None),
        (
            "process-exec*",
            "/home/me/proj/payload",
            "exec.deny_writable",
            Some("exec_grant_roots = [\"/home/me/proj/payload\"]"),
        ),
        (
            "process-exec-interpreter",
            "/home/me/proj/run.sh",
            "exec.deny_writable",
            Some("exec_grant_roots = [\"/home/me/proj/run.sh\"]"),
        ),
        ("process-exec*", "/usr/bin/osascript", "driven", events),
        ("process-exec*", "/usr/bin/sudo", "leads out", None),
        ("network-outbound", "remote:*:443", around, None),
        ("network-outbound", "192.0.2.7:443", around, None),
        ("network-outbound", "[2001:db8::1]:443", around, None),
        ("network-outbound", "", around, None),
        (
            "network-outbound",
            "127.0.0.1:5432",
            "a port of the host",
            Some("[network] allowed_domains = [\"127.0.0.1:5432\"]"),
        ),
        (
            "network-outbound",
            "/private/var/run/x.sock",
            "a socket of the host",
            Some("[network] allow_unix_sockets = [\"/private/var/run/x.sock\"]"),
        ),
        (
            "network-outbound",
            "/private/var/run/docker.sock",
            "no entry opens it",
            None,
        ),
        (
            "network-bind",
            "local:*:8080",
            "listened",
            Some("[network] allow_local_binding = true"),
        ),
        (
            "network-inbound",
            "local:*:8080",
            "listened",
            Some("[network] allow_local_binding = true"),
        ),
        (
            "mach-lookup",
            "com.apple.SecurityServer",
            "keychain",
            Some("[macos] keychain = \"allow\""),
        ),
        (
            "mach-lookup",
            "com.apple.coreservices.appleevents",
            "driven",
            events,
        ),
        (
            "mach-lookup",
            "com.apple.nsurlsessiond",
            "past the proxy",
            None,
        ),
        ("mach-lookup", "com.apple.pasteboard.1", "leads out", None),
        ("appleevent-send", "com.apple.finder", "driven", events),
        ("lsopen", "", "driven", events),
        ("signal", "", "this run", None),
        ("job-creation", "", "outside", None),
        (
            "user-preference-write",
            "com.example.app",
            "preferences",
            None,
        ),
        ("file-ioctl", "/dev/ttys004", "terminal", None),
        (
            "file-link",
            "/home/me/proj/vendor/f",
            "protected_paths",
            None,
        ),
        ("forbidden-sandbox-reinit", "", "second sandbox", None),
        ("forbidden-exec-sugid", "", "another user", None),
        ("sandbox", "?", "the sandbox of macOS", None),
    ] {
        says(action, target, rule, hint);
    }
}

/// What is hidden or not granted is opened as on Linux.
#[test]
fn reads_and_writes_have_the_hints_of_linux() {
    let mut p = policy();
    p.fs.deny_read.push(entry("/home/me/.ssh"));
    let all = refusals(&p);
    let (rule, hint) = all.reason("file-read-data", "/home/me/.ssh/id");
    assert!(rule.contains("deny_read"), "{rule}");
    assert_eq!(hint, reads::hint(&origin(1), Path::new("/home/me/.ssh/id")));
    let (rule, hint) = all.reason("file-write-create", "/home/me/other/x");
    assert!(!rule.is_empty());
    assert!(hint.is_none_or(|line| line.contains("allow_write") || line.contains("make it")));
}

#[test]
fn one_report_that_stands_for_many_is_counted() {
    let all = refusals(&policy());
    let denial = |count| Denial {
        action: "signal",
        target: String::new(),
        process: "sh".into(),
        pid: 4,
        count,
        tagged: true,
    };
    // Bounded, whatever the number says.
    all.denied(denial(3));
    all.denied(denial(u64::MAX));
    assert!(!all.hears_noise());
}
