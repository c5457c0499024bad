//! Thousands of denied entries (case PF-1).

use std::path::Path;

use super::ask::ws;
use crate::plan::fixture::{can_read, can_write, debian, entry, facts, planned, without_broker};

#[test]
fn pf1_crowds_are_closed_with_their_directory() {
    let mut fs = debian();
    let mut p = ws();
    let mut q = ws();
    for i in 0..5000 {
        let f = format!("/home/me/proj/d/{i}.key");
        fs = fs.file(&f, "K");
        p.fs.protected.push(entry(&f));
        q.fs.deny_read.push(entry(&f));
    }
    for host in [facts(), without_broker()] {
        let closed = !host.broker.works();
        let plan = planned(&p, &host, &fs);
        assert!(plan.mounts.len() < 40);
        assert!(can_write(&plan, "/home/me/proj/main.c"));
        assert_eq!(can_write(&plan, "/home/me/proj/d/other"), !closed);
        let told = plan.notices.iter().filter(|n| n.contains("5000 protected"));
        assert_eq!(told.count(), usize::from(closed));
        let ask = crate::plan::check::write(&plan, &fs, Path::new("/home/me/proj/d/17.key"));
        assert!(!ask.allowed && ask.rule.contains("17.key"), "{}", ask.rule);
    }
    let plan = planned(&q, &facts(), &fs);
    assert!(plan.mounts.len() < 40 && !can_read(&plan, "/home/me/proj/d/17.key"));
    // Spread over directories there is nothing to merge.
    let mut p = ws();
    let mut fs = debian();
    for i in 0..4100 {
        let f = format!("/home/me/proj/d{i}/f");
        fs = fs.file(&f, "K");
        p.fs.protected.push(entry(&f));
    }
    let e = super::super::fixture::plan(&p, &without_broker(), &fs).unwrap_err();
    assert!(e.message.contains("bearable"));
    let plan = planned(&p, &facts(), &fs);
    assert!(plan.mounts.len() < 600);
    assert!(!can_write(&plan, "/home/me/proj/d7/f") && !can_write(&plan, "/home/me/proj/d4007/f"));
}
