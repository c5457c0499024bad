//! The lock that all runs of a user share.

use std::path::Path;

use super::ask::ws;
use crate::host::fs_view::FakeEntry;
use crate::plan::fixture::{bind, debian, dispatch, facts, planned};

#[test]
fn runs_meet_in_the_state_directory_or_the_plan_says_that_they_do_not() {
    let mut host = facts();
    let plan = planned(&ws(), &host, &debian());
    let broker = plan.broker.as_ref().unwrap();
    let runs = Path::new("/home/me/.local/state/ccbox/runs");
    assert_eq!(broker.lock_dir.as_deref(), Some(runs));
    assert!(plan.gaps.iter().all(|gap| gap.name != "other-runs"));

    host.state_dir = "/nobody/writes/here".into();
    let shut = FakeEntry::Dir {
        uid: 0,
        mode: 0o555,
    };
    let fs = debian().with("/nobody/writes", shut);
    let plan = planned(&ws(), &host, &fs);
    assert_eq!(plan.broker.as_ref().unwrap().lock_dir, None);
    let gap = plan.gaps.iter().find(|gap| gap.name == "other-runs");
    assert!(gap.unwrap().text.contains("`/nobody/writes/here`"));

    // Where nothing is writable there is nothing to race for.
    let mut reads = dispatch();
    reads.fs.binds.push(bind("/home/me/proj", true));
    let plan = planned(&reads, &host, &fs);
    assert!(plan.broker.is_none() && plan.gaps.iter().all(|gap| gap.name != "other-runs"));
}
