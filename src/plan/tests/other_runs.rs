//! The lock that all runs of a user share.

use super::ask::ws;
use crate::host::fs_view::{FakeEntry, FakeFs};
use crate::plan::fixture::{bind, can_write, debian, dispatch, facts, plan, planned};

/// Where the runs meet, and what is said about it.
fn meeting(fs: &FakeFs) -> (Option<String>, Option<String>) {
    let mut host = facts();
    host.state_dir = "/home/me/elsewhere/ccbox".into();
    let plan = planned(&ws(), &host, fs);
    let dir = plan.broker.as_ref().unwrap().lock_dir.as_ref();
    let mut gaps = plan.gaps.iter().filter(|gap| gap.name == "other-runs");
    (
        dir.map(|dir| dir.display().to_string()),
        gaps.next().map(|gap| gap.text.clone()),
    )
}

fn dir(uid: u32, mode: u32) -> FakeEntry {
    FakeEntry::Dir { uid, mode }
}

#[test]
fn all_runs_of_a_user_meet_in_one_place_or_the_plan_says_that_they_do_not() {
    let common = "/tmp/.ccbox-1000";
    let usual = debian().with("/tmp", dir(0, 0o1777));
    for fs in [
        debian(),
        usual.clone(),
        usual.clone().with(common, dir(1000, 0o700)),
        usual.clone().with("/tmp/.ccbox-0", dir(7, 0o777)),
    ] {
        assert_eq!(meeting(&fs), (Some(common.into()), None));
    }
    let own = "/home/me/elsewhere/ccbox/runs";
    for (fs, why) in [
        (
            debian().with("/tmp", dir(0, 0o777)),
            "anybody could replace",
        ),
        (
            debian().with("/tmp", dir(7, 0o1777)),
            "anybody could replace",
        ),
        (debian().with("/tmp", dir(0, 0o555)), "cannot be made"),
        (usual.clone().with(common, dir(7, 0o700)), "another user"),
        (
            usual.clone().with(common, dir(1000, 0o750)),
            "open to other users",
        ),
        (
            usual.clone().with(common, dir(1000, 0o500)),
            "cannot be written",
        ),
        (usual.clone().file(common, ""), "is no directory"),
        (usual.clone().link(common, "/home/me"), "is no directory"),
    ] {
        let (dir, said) = meeting(&fs);
        let said = said.unwrap();
        assert_eq!(dir.as_deref(), Some(own), "{said}");
        assert!(
            said.contains(why) && said.contains("another state directory"),
            "{said}"
        );
    }
    // Nowhere at all.
    let shut = usual
        .with(common, dir(7, 0o700))
        .with("/home/me", dir(0, 0o555));
    let (place, said) = meeting(&shut);
    assert_eq!(place, None);
    assert!(said.unwrap().contains("keeps another run in"));
}

#[test]
fn where_nothing_is_writable_there_is_nothing_to_race_for() {
    let mut reads = dispatch();
    reads.fs.binds.push(bind("/home/me/proj", true));
    let fs = debian().with("/tmp", dir(0, 0o777));
    let plan = planned(&reads, &facts(), &fs);
    assert!(plan.broker.is_none() && plan.gaps.iter().all(|gap| gap.name != "other-runs"));
}

/// A harness keeps /tmp between calls by a bind.
#[test]
fn the_place_is_never_the_commands() {
    let common = "/tmp/.ccbox-1000";
    let fs = debian().with("/tmp", dir(0, 0o1777));
    let mut policy = ws();
    policy.fs.binds.push(bind("/tmp", false));
    for fs in [&fs, &fs.clone().with(common, dir(1000, 0o700))] {
        let plan = planned(&policy, &facts(), fs);
        assert!(can_write(&plan, "/tmp/x"));
        for path in [common, "/tmp/.ccbox-1000/lock", "/tmp/.CCBOX-1000/lock"] {
            assert!(!can_write(&plan, path), "{path}");
        }
    }
    let mut policy = dispatch();
    policy.fs.binds.push(bind(common, false));
    let refused = plan(&policy, &facts(), &fs.with(common, dir(1000, 0o700)));
    assert!(refused.unwrap_err().message.contains("belongs to ccbox"));
}
