//! Which hidden files the read floor holds, and what is granted around them.

use std::path::Path;

use super::ask::{gap, ws};
use crate::plan::Plan;
use crate::plan::fixture::{bind, bind_at, debian, dev, entry, facts, layer, planned, terminal};
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
    // In the writable tree a mount must do, and that is said.
    let text = gap(&plan, "host-replace").unwrap();
    assert!(
        text.contains("/home/me/proj/.key") && !text.contains(".npmrc"),
        "{text}"
    );
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
