use std::path::{Path, PathBuf};

use super::*;
use crate::host::fs_view::FakeFs;
use crate::plan::fixture::{bind, bind_at, debian, dispatch, entry, facts, planned};
use crate::policy::path::{ListKind, PathEntry};
use crate::policy::{Policy, Ruled};

const TMP: &str = "/tmp/ccbox-0000000000000007";

fn policy() -> Policy {
    let mut p = dispatch();
    p.fs.view = View::Host;
    p.net.mode = NetworkMode::Off;
    p.fs.binds.push(bind("/home/me/proj", false));
    p
}

fn machine() -> FakeFs {
    debian()
        .file("/home/me/.ssh/id", "")
        .file("/home/me/notes", "")
        .file("/home/me/proj/Makefile", "")
}

fn fitted(p: &Policy, fs: &FakeFs) -> Invocation {
    let plan = planned(p, &facts(), fs);
    fits(&plan, p).unwrap();
    render(&plan, Path::new(TMP))
}

/// What the allow list says, as the session carries it out.
fn reads(list: &AllowList, path: &str) -> bool {
    let has = |paths: &[PathBuf], at: &Path| paths.iter().any(|p| p == at);
    for at in Path::new(path).ancestors() {
        if has(&list.whole, at) {
            return true;
        }
        if has(&list.apart, at) {
            return false;
        }
        if at.parent().is_some_and(|above| has(&list.around, above)) {
            return true;
        }
    }
    false
}

#[test]
fn the_host_is_readable_but_for_what_is_hidden() {
    let mut p = policy();
    p.fs.deny_read.push(entry("/home/me/notes"));
    let list = fitted(&p, &machine()).inner.alone.unwrap().view.unwrap();
    for path in [
        "/usr/bin/env",
        "/etc/hosts",
        "/home/me/proj/Makefile",
        "/dev/null",
        TMP,
        "/home/me/other",
    ] {
        assert!(reads(&list, path), "{path}");
    }
    for path in [
        "/home/me/.ssh/id",
        "/home/me/notes",
        "/tmp/x",
        "/run/x",
        "/dev/sda",
        "/dev/shm/x",
    ] {
        assert!(!reads(&list, path), "{path}");
    }
    assert!(!list.lists);
}

#[test]
fn a_bound_view_shows_what_is_bound_and_lists_nothing_else() {
    let mut p = policy();
    p.fs.view = View::Bound;
    let list = fitted(&p, &machine()).inner.alone.unwrap().view.unwrap();
    for path in ["/usr/bin/env", "/home/me/proj/Makefile"] {
        assert!(reads(&list, path), "{path}");
    }
    for path in ["/home/me/notes", "/home/me/.ssh/id", "/srv/x", "/home"] {
        assert!(!reads(&list, path), "{path}");
    }
    assert!(list.lists);
}

/// Neither the private directories nor the caches of a mounted view are granted on the host.
#[test]
fn nothing_of_the_host_is_writable_but_the_grants() {
    let p = policy();
    let inner = fitted(&p, &machine()).inner;
    let floor = inner.floor.unwrap();
    assert_eq!(floor.covered, [PathBuf::from("/home/me/proj")]);
    let mut wanted: Vec<PathBuf> = DEVICES.iter().map(PathBuf::from).collect();
    wanted.push(TMP.into());
    wanted.sort();
    assert_eq!(floor.exempt, wanted);
    assert!(!inner.trap_reads && !inner.trap_sockets && !inner.unix_sockets);
    assert!(inner.alone.unwrap().network == super::Reach::Nothing);
    let broker = broker(&planned(&p, &facts(), &machine()), Path::new(TMP)).unwrap();
    assert!(broker.alone && broker.served.is_empty() && broker.sockets.is_none());
    // Modes and times are held by the broker alone, so there is always one.
    let mut p = policy();
    p.fs.binds.clear();
    assert!(fitted(&p, &machine()).inner.floor.is_some());
}

#[test]
fn a_list_shows_what_it_grants() {
    let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect();
    let list = crate::backend::AllowList {
        whole: paths(&["/usr", "/home/me/proj"]),
        around: paths(&["/", "/etc"]),
        apart: paths(&["/etc/shadow", "/etc", "/home", "/home/me/proj"]),
        lists: true,
    };
    for (path, shown) in [
        ("/usr/bin/env", true),
        ("/home/me/proj/a", true),
        ("/home/me/.gitconfig", false),
        ("/etc/hosts", true),
        ("/etc/ssl/certs/x", true),
        ("/etc/shadow", false),
        ("/opt/x", true),
        ("/home/other", false),
    ] {
        assert_eq!(list.shows(Path::new(path)), shown, "{path}");
    }
}

/// Hosts by name and Unix sockets by path are the broker's.
#[test]
fn connections_are_the_brokers() {
    let mut p = policy();
    p.net.mode = NetworkMode::Filtered;
    let inner = fitted(&p, &machine()).inner;
    assert_eq!(inner.alone.unwrap().network, super::Reach::Proxies);
    assert!(!inner.trap_sockets);
    let broker_of = |p: &Policy| broker(&planned(p, &facts(), &machine()), Path::new(TMP));
    let sockets = broker_of(&p).unwrap().sockets.unwrap();
    assert!(sockets.granted.is_empty() && !sockets.all && !sockets.own_network);
    p.net.mode = NetworkMode::Off;
    p.net.unix_sockets.push(entry("/run/x.sock"));
    let inner = fitted(&p, &machine()).inner;
    assert_eq!(inner.alone.unwrap().network, super::Reach::Nothing);
    assert!(inner.trap_sockets);
    let sockets = broker_of(&p).unwrap().sockets.unwrap();
    assert!(sockets.granted.len() == 1 && sockets.private.is_empty() && !sockets.own_network);
}

#[test]
fn what_no_allow_list_can_say_is_refused_by_name() {
    type Change = fn(&mut Policy);
    let rows: [(Change, &[&str]); 8] = [
        (
            |p| {
                p.net.mode = NetworkMode::Filtered;
                p.fs.disabled = true;
            },
            &["network.mode", "filtered", "filesystem.disabled"],
        ),
        (
            |p| p.net.all_unix_sockets = Some(crate::plan::fixture::origin(3)),
            &["allow_all_unix_sockets", "/spec/spec.toml:3"],
        ),
        (
            |p| {
                p.tmp_size = Some(Ruled {
                    value: 1 << 20,
                    origin: crate::plan::fixture::origin(9),
                });
            },
            &["limits.tmp", "/spec/spec.toml:9"],
        ),
        (
            |p| p.fs.binds.push(bind_at("/home/me/proj", "/srv", true)),
            &["guest_path", "/spec/spec.toml:2"],
        ),
        (
            |p| {
                let pattern = PathEntry::parse(
                    "*.key",
                    false,
                    ListKind::DenyRead,
                    Path::new("/home/me/proj"),
                    Path::new("/home/me"),
                );
                p.fs.deny_read.push(Ruled {
                    value: pattern.unwrap(),
                    origin: crate::plan::fixture::origin(4),
                });
            },
            &["a pattern in deny_read", "/spec/spec.toml:4"],
        ),
        (|p| p.fs.trace = true, &["--trace"]),
        (
            |p| p.fs.deny_read.push(entry("/home/me/proj/Makefile")),
            &[
                "/home/me/proj/Makefile",
                "hidden inside the writable `/home/me/proj`",
            ],
        ),
        (
            |p| p.fs.binds.push(bind("/tmp", false)),
            &["a writable `/tmp`"],
        ),
    ];
    for (change, words) in rows {
        let mut p = policy();
        change(&mut p);
        let plan = planned(&p, &facts(), &machine());
        let said = fits(&plan, &p).unwrap_err().to_string();
        for word in ["engine `landlock` cannot hold"].iter().chain(words) {
            assert!(said.contains(word), "`{word}` in {said}");
        }
    }
}
