//! Which hidden files the read floor holds, and what is granted around them.

use std::path::Path;

use super::ask::{gap, ws};
use crate::plan::Plan;
use crate::plan::fixture::{
    bind, bind_at, can_read, debian, dev, entry, facts, layer, planned, terminal, without_broker,
};
use crate::policy::{Layer, Policy, Ruled};

fn closed(plan: &Plan) -> Vec<&str> {
    let paths = plan.read_floor.closed.iter();
    paths.map(|p| p.to_str().unwrap()).collect()
}

fn hiding(mut p: Policy, paths: &[&str]) -> Policy {
    p.fs.deny_read.extend(paths.iter().map(|d| entry(d)));
    p
}

#[test]
fn files_outside_writable_trees_stay_closed_absent_ones_too() {
    let fs = debian().file("/home/me/proj/.key", "K").dir("/home/me/d");
    let p = hiding(
        dev(),
        &[
            "/home/me/.later",
            "/home/me/gone/x",
            "/home/me/d",
            "/home/me/proj/.key",
        ],
    );
    let plan = planned(&p, &facts(), &fs);
    assert_eq!(
        closed(&plan),
        ["/home/me/.later", "/home/me/.npmrc", "/home/me/gone/x"]
    );
    let above: Vec<_> = plan
        .read_floor
        .above
        .iter()
        .map(|p| p.to_str().unwrap())
        .collect();
    assert_eq!(above, ["/", "/home", "/home/me", "/home/me/gone"]);
    // In the writable tree its name holds it. Without a broker a mount must do, and that is said.
    assert!(decides(&plan));
    assert_eq!(gap(&plan, "host-replace"), None);
    let plan = planned(&p, &without_broker(), &fs);
    let text = gap(&plan, "host-replace").unwrap();
    assert!(
        text.contains("/home/me/proj/.key") && !text.contains(".npmrc"),
        "{text}"
    );
}

fn decides(plan: &Plan) -> bool {
    let reads = plan.broker.as_ref().and_then(|b| b.reads.as_ref());
    reads.is_some_and(|r| r.decides)
}

/// The cost is paid where a written path lies in a tree that the command can write to, or where it makes files it must be able to read.
#[test]
fn names_decide_only_where_nothing_else_holds() {
    let fs = || {
        debian()
            .file("/home/me/.key", "K")
            .dir("/home/me/vault")
            .file("/home/me/proj/.key", "K")
            .file("/tmp/x/key", "K")
            .file("/home/me/.npm/key", "K")
    };
    for (path, trapped) in [
        ("/home/me/.key", false),
        ("/home/me/.later", false),
        ("/home/me/vault", false),
        ("/etc/machine-id", false),
        ("/home/me/proj/.key", true),
        ("/home/me/proj/later", true),
        ("/home/me/proj/a/b/later", true),
        ("/home/me/proj/.git", true),
        ("/home/me/.npm/key", false),
        ("/home/me/.npm/later", true),
        ("/tmp/x/key", true),
        ("/tmp/x/later", true),
        // Private: nothing of the host is there.
        ("/tmp/y/key", false),
        ("/run/later", false),
    ] {
        let mut p = hiding(dev(), &[path]);
        p.fs.binds.push(bind("/tmp/x", true));
        let plan = planned(&p, &facts(), &fs());
        assert_eq!(decides(&plan), trapped, "{path}");
        let named = |n: &&String| n.contains(path) && n.contains("decided by name");
        assert_eq!(plan.notices.iter().any(|n| named(&n)), trapped, "{path}");
        // Neither made nor read, with the tree around it writable.
        assert!(!can_read(&plan, path) || !trapped, "{path}");
    }
    // ccbox's own rows, and those of a profile, are a named gap at most.
    let plan = planned(&terminal("/home/me"), &facts(), &fs());
    assert!(!decides(&plan));
    let mut p = hiding(dev(), &[]);
    p.fs.deny_read.push(Ruled {
        origin: layer(Layer::Profile("x".into())),
        ..entry("/home/me/proj/later")
    });
    let plan = planned(&p, &facts(), &fs());
    assert!(!decides(&plan) && gap(&plan, "late-secrets").is_some());
    // A mode in which nothing is writable needs none either.
    let mut p = hiding(dev(), &["/home/me/proj/.key", "/home/me/proj/later"]);
    p.mode = crate::policy::Mode::Review;
    assert!(!decides(&planned(&p, &facts(), &fs())));
}

/// A link may be replaced by what it is not.
#[test]
fn a_link_on_the_way_is_held_by_every_spelling() {
    let fs = debian()
        .dir("/home/me/proj/real")
        .file("/home/me/proj/real/key", "K")
        .link("/home/me/proj/way", "real")
        .link("/home/me/proj/end", "real/key");
    let p = hiding(dev(), &["/home/me/proj/way/key", "/home/me/proj/end"]);
    let plan = planned(&p, &facts(), &fs);
    let reads = plan.broker.as_ref().and_then(|b| b.reads.as_ref()).unwrap();
    for path in ["real/key", "way/key", "end"] {
        let path = format!("/home/me/proj/{path}");
        assert!(reads.denies(path.as_bytes()).is_some(), "{path}");
    }
    assert!(reads.denies(b"/home/me/proj/way").is_none());
}

#[test]
fn without_such_a_file_there_is_no_floor() {
    for p in [ws(), hiding(ws(), &["/home/me/.ssh", "/home/me/proj/x"])] {
        let plan = planned(&p, &facts(), &debian());
        assert_eq!(plan.read_floor, crate::plan::ReadFloor::default());
    }
}

#[test]
fn where_the_command_makes_files_it_may_read_them() {
    // Home is writable, a private directory or a copy of the host's cache.
    let fs = debian()
        .file("/tmp/key", "K")
        .file("/home/me/.npm/key", "K");
    let plan = planned(&terminal("/home/me"), &facts(), &fs);
    assert_eq!(closed(&plan), [] as [&str; 0]);
    let mut p = hiding(dev(), &["/tmp/key", "/home/me/.npm/key"]);
    p.fs.allow_read.push(entry("/home/me/.npmrc"));
    assert_eq!(closed(&planned(&p, &facts(), &fs)), [] as [&str; 0]);
}

#[test]
fn the_systems_own_secrets_leave_etc_readable() {
    let mut root = facts();
    root.uid = 0;
    let plan = planned(&dev(), &root, &debian());
    assert!(
        plan.mounts
            .iter()
            .any(|m| m.dst() == Path::new("/etc/shadow"))
    );
    assert_eq!(closed(&plan), ["/home/me/.npmrc"]);
    // Whoever names it means it.
    let plan = planned(&hiding(dev(), &["/etc/shadow"]), &root, &debian());
    assert_eq!(closed(&plan), ["/etc/shadow", "/home/me/.npmrc"]);
}

#[test]
fn at_another_guest_path_too() {
    let fs = debian().dir("/data").file("/data/key", "K");
    let mut p = hiding(ws(), &["/data/key"]);
    p.fs.binds
        .extend([bind("/data", true), bind_at("/data", "/opt/data", true)]);
    let plan = planned(&p, &facts(), &fs.dir("/opt/data"));
    assert_eq!(closed(&plan), ["/data/key", "/opt/data/key"]);
}

#[test]
fn what_is_lifted_is_not_closed() {
    let mut p = dev();
    p.fs.allow_read.push(Ruled {
        origin: layer(Layer::Spec),
        ..entry("/home/me/.npmrc")
    });
    assert_eq!(closed(&planned(&p, &facts(), &debian())), [] as [&str; 0]);
}
