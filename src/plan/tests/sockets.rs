//! Unix sockets by path: which are shown, whose names are closed, what is refused.

use std::path::Path;

use super::ask::{exact_rule, mounts_at, refusal, refusal_without_broker, var, ws};
use crate::host::fs_view::{FakeEntry, FakeFs};
use crate::plan::fixture::{bind, debian, entry, facts, origin, planned, set_var};
use crate::plan::{Mount, Plan};
use crate::policy::{NetworkMode, Policy};

fn granting(paths: &[&str]) -> Policy {
    let mut p = ws();
    p.net.unix_sockets.extend(paths.iter().map(|p| entry(p)));
    p
}

fn with_sockets() -> FakeFs {
    debian()
        .with("/run/user/1000/agent", FakeEntry::Other)
        .with("/run/docker.sock", FakeEntry::Other)
        .with("/home/me/proj/s", FakeEntry::Other)
        .with("/home/me/.gnupg/S.gpg-agent", FakeEntry::Other)
        .file("/home/me/.gnupg/key", "K")
        .dir("/home/me/proj/run")
}

fn shown(plan: &Plan, path: &str) -> bool {
    let bind = |m: &&Mount| matches!(m, Mount::RoBind { src, .. } if src == Path::new(path));
    mounts_at(plan, path).iter().any(bind)
}

#[test]
fn without_an_entry_nothing_is_asked() {
    let plan = planned(&ws(), &facts(), &with_sockets());
    assert_eq!(plan.broker.as_ref().unwrap().sockets, None);
    let mut p = granting(&["/run/user/1000/agent"]);
    p.fs.disabled = true;
    assert!(planned(&p, &facts(), &with_sockets()).broker.is_none());
}

#[test]
fn a_socket_is_shown_where_its_directory_is_private_or_hidden() {
    let p = granting(&["/run/user/1000/agent", "/home/me/.gnupg/S.gpg-agent"]);
    let plan = planned(&p, &facts(), &with_sockets());
    for path in ["/run/user/1000/agent", "/home/me/.gnupg/S.gpg-agent"] {
        assert!(shown(&plan, path), "{path}");
    }
    assert!(!shown(&plan, "/home/me/.gnupg/key"));
    let sockets = plan.broker.as_ref().unwrap().sockets.as_ref().unwrap();
    assert!(sockets.own_network && !sockets.all);
    assert!(sockets.private.contains(&"/tmp".into()) && sockets.private.contains(&"/dev".into()));
    assert!(!sockets.private.contains(&"/home/me/proj".into()));
    // A directory opens what is below and shows nothing more.
    let plan = planned(&granting(&["/run/user/1000"]), &facts(), &with_sockets());
    assert!(!shown(&plan, "/run/user/1000/agent"));
    let mut p = granting(&["/run/user/1000"]);
    p.net.mode = NetworkMode::Open;
    let plan = planned(&p, &facts(), &with_sockets());
    let sockets = plan.broker.as_ref().unwrap().sockets.as_ref().unwrap();
    assert!(!sockets.own_network && sockets.granted[0].directory);
}

#[test]
fn the_name_of_a_granted_socket_is_closed_inside() {
    for path in ["/home/me/proj/s", "/home/me/proj/later"] {
        let plan = planned(&granting(&[path]), &facts(), &with_sockets());
        let rule = exact_rule(&plan, path).unwrap();
        assert!(rule.starts_with("allow_unix_sockets"), "{rule}");
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let fs = with_sockets();
    for (path, word) in [
        ("/run/docker.sock", "no entry opens it"),
        ("/var/run/docker.sock", "no entry opens it"),
        ("/run/user/1000/bus", "no entry opens it"),
        ("/home/me/.gnupg/key", "is no socket"),
        ("/home/me/proj/run", "could move any socket into it"),
    ] {
        let said = refusal(&granting(&[path]), &fs);
        assert!(
            said.contains(word) && said.contains("allow_unix_sockets"),
            "{said}"
        );
    }
    let said = refusal_without_broker(&granting(&["/run/user/1000/agent"]), &fs);
    assert!(
        said.contains("Unix sockets by path need the creation broker"),
        "{said}"
    );
    let mut p = ws();
    p.net.all_unix_sockets = Some(origin(3));
    let said = refusal_without_broker(&p, &fs);
    assert!(said.contains("allow_all_unix_sockets"), "{said}");
}

/// A link in the writable tree that leads out of it may be an earlier run's.
#[test]
fn no_entry_goes_through_a_link_of_the_commands() {
    let fs = with_sockets().link("/home/me/proj/l", "/run/user/1000");
    for path in [
        "/home/me/proj/l",
        "/home/me/proj/l/agent",
        "/home/me/proj/l/later",
    ] {
        let said = refusal(&granting(&[path]), &fs);
        assert!(said.contains("passes through the link"), "{said}");
    }
}

/// Where home is writable, what no entry opens is not moved below a directory that one does.
#[test]
fn ways_to_everywhere_keep_their_names() {
    let mut p = granting(&["/home/me"]);
    p.fs.binds = vec![bind("/home/me", false)];
    let path = "/home/me/.docker/run/docker.sock";
    let plan = planned(&p, &facts(), &with_sockets().with(path, FakeEntry::Other));
    assert_eq!(
        exact_rule(&plan, path),
        Some("socket \"/home/me/.docker/run/docker.sock\"")
    );
}

#[test]
fn an_entry_that_cannot_work_is_said() {
    let told = |paths: &[&str]| {
        let plan = planned(&granting(paths), &facts(), &with_sockets());
        plan.notices
            .iter()
            .any(|n| n.contains("not be seen in this run"))
    };
    assert!(told(&["/run/user/1000/later"]));
    assert!(!told(&["/home/me/proj/later"]));
    assert!(!told(&["/run/user/1000/agent"]));
}

#[test]
fn variables_lead_to_granted_sockets_only() {
    let mut host = facts();
    for (name, value) in [
        ("SSH_AUTH_SOCK", "/run/user/1000/agent"),
        ("DOCKER_HOST", "unix:///run/docker.sock"),
        (
            "DBUS_SESSION_BUS_ADDRESS",
            "unix:path=/run/user/1000/bus,guid=1",
        ),
        ("WAYLAND_DISPLAY", "wayland-0"),
        ("TMUX", "/tmp/tmux-1000/default,1,0"),
        ("PULSE_SERVER", "unix:/run/user/1000/pulse/native"),
    ] {
        set_var(&mut host, name, value);
    }
    let names = |p: &Policy| -> Vec<&str> {
        let plan = planned(p, &host, &with_sockets());
        let all = [
            "SSH_AUTH_SOCK",
            "DOCKER_HOST",
            "DBUS_SESSION_BUS_ADDRESS",
            "WAYLAND_DISPLAY",
            "TMUX",
            "PULSE_SERVER",
        ];
        all.into_iter()
            .filter(|n| var(&plan, n).is_some())
            .collect()
    };
    assert_eq!(names(&ws()), Vec::<&str>::new());
    assert_eq!(
        names(&granting(&["/run/user/1000/agent"])),
        ["SSH_AUTH_SOCK"]
    );
    assert_eq!(
        names(&granting(&["/run/user/1000/wayland-0"])),
        ["WAYLAND_DISPLAY"]
    );
    assert_eq!(
        names(&granting(&["/run", "/tmp"])),
        ["SSH_AUTH_SOCK", "WAYLAND_DISPLAY", "PULSE_SERVER"]
    );
}
