//! Binds shown at another path than their own: what ccbox needs and says about the host's objects follows them.

use std::path::PathBuf;

use super::ask::gap;
use crate::plan::fixture::{bind_at, can_write, debian, dispatch, entry, facts, origin, planned};
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
    let plan = planned(&p, &facts(), &debian());
    assert!(gap(&plan, "absent-names").unwrap().contains("proj/absent"));
    assert!(gap(&plan, "host-replace").unwrap().contains("proj/main.c"));
    // Shown read-only, nothing in it can come to exist.
    p.fs.binds.clear();
    p.fs.binds.push(bind_at("/home/me/proj", "/srv/p", true));
    assert!(gap(&planned(&p, &facts(), &debian()), "absent-names").is_none());
}
