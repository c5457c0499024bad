//! Binds shown at another path than their own: what ccbox needs and says about the host's objects follows them.

use std::path::PathBuf;

use super::ask::{gap, ws};
use crate::plan::fixture::{
    bind_at, can_write, debian, dispatch, entry, facts, origin, planned, without_broker,
};
use crate::policy::Ruled;

fn at(workdir: &str) -> Ruled<PathBuf> {
    Ruled {
        value: workdir.into(),
        origin: origin(9),
    }
}

#[test]
fn semantics_18_ccboxs_own_directories_stay_closed_in_a_moved_home() {
    // Absent so far: the command must not be the one that makes them.
    let mut host = facts();
    host.config_dir = "/home/me/.fresh/config".into();
    host.state_dir = "/home/me/.fresh/state".into();
    let mut p = dispatch();
    p.workdir = Some(at("/srv/home"));
    p.fs.binds.push(bind_at("/home/me", "/srv/home", false));
    let plan = planned(&p, &host, &debian());
    assert!(can_write(&plan, "/srv/home/file"));
    assert!(!can_write(&plan, "/srv/home/.fresh/config/config.toml"));
    assert!(!can_write(&plan, "/srv/home/.fresh/state/trust"));
}

#[test]
fn r14_gaps_of_moved_binds_are_named() {
    let mut p = dispatch();
    p.workdir = Some(at("/srv/p"));
    p.fs.binds.push(bind_at("/home/me/proj", "/srv/p", false));
    p.fs.protected.push(entry("/home/me/proj/absent"));
    p.fs.protected.push(entry("/home/me/proj/main.c"));
    let plan = planned(&p, &without_broker(), &debian());
    assert!(gap(&plan, "absent-names").unwrap().contains("proj/absent"));
    assert!(gap(&plan, "host-replace").unwrap().contains("proj/main.c"));
    let held = planned(&p, &facts(), &debian());
    assert_eq!(gap(&held, "absent-names"), None);
    assert!(!gap(&held, "host-replace").is_some_and(|t| t.contains("main.c")));
    assert!(!can_write(&held, "/srv/p/absent") && can_write(&held, "/srv/p/other"));
    // Shown read-only, nothing in it can come to exist.
    p.fs.binds.clear();
    p.fs.binds.push(bind_at("/home/me/proj", "/srv/p", true));
    let plan = planned(&p, &without_broker(), &debian());
    assert!(gap(&plan, "absent-names").is_none() && plan.refusal.is_none());
}

#[test]
fn r14_a_hidden_file_a_host_program_can_replace_is_named() {
    let mut p = ws();
    p.fs.deny_read.push(entry("/home/me/proj/main.c"));
    p.fs.deny_read.push(entry("/home/me/proj/.git"));
    let plan = planned(&p, &without_broker(), &debian());
    let text = gap(&plan, "host-replace").unwrap();
    let (_, read) = text.split_once("can then be read: ").unwrap();
    assert!(read.contains("`/home/me/proj/main.c`"), "{read}");
    // Not a directory: what happens in it stays below the cover.
    assert!(!read.contains(".git"), "{read}");
    // With a broker its name holds it.
    assert_eq!(gap(&planned(&p, &facts(), &debian()), "host-replace"), None);
    // Nor a file whose directory is not shown.
    let mut p = ws();
    p.fs.deny_read.push(entry("/home/me/.netrc"));
    let plan = planned(&p, &facts(), &debian().file("/home/me/.netrc", ""));
    assert!(!gap(&plan, "host-replace").is_some_and(|t| t.contains(".netrc")));
}
