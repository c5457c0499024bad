//! Thousands of denied entries (case PF-1).

use std::path::Path;

use super::ask::{refusal, ws};
use crate::plan::fixture::{can_read, can_write, debian, entry, facts, planned};

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
    let plan = planned(&p, &facts(), &fs);
    assert!(plan.mounts.len() < 40 && !can_write(&plan, "/home/me/proj/d/17.key"));
    assert!(can_write(&plan, "/home/me/proj/main.c"));
    assert_eq!(
        plan.notices
            .iter()
            .filter(|n| n.contains("5000 protected"))
            .count(),
        1
    );
    let ask = crate::plan::check::write(&plan, Path::new("/home/me/proj/d/17.key"));
    assert!(ask.rule.contains("17.key"), "{}", ask.rule);
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
    assert!(refusal(&p, &fs).contains("bearable"));
}
