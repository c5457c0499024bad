//! Links on the way to what is protected or granted.

use std::path::Path;

use super::ask::{exact_rule, gap, mounts_at, refusal, refusal_without_broker, ws};
use crate::plan::fixture::{can_write, debian, entry, facts, origin, planned, without_broker};
use crate::policy::{Mode, Ruled};

#[test]
fn sl_protected_links() {
    let fs = debian()
        .file("/home/me/proj/real", "K")
        .link("/home/me/proj/lnk", "real")
        .file("/home/me/proj/shared/skills/a", "K")
        .link("/home/me/proj/skills", "shared/skills")
        .link("/home/me/proj/dl", "/srv/elsewhere/missing");
    let mut p = ws();
    for name in ["lnk", "skills", "dl"] {
        p.fs.protected.push(entry(&format!("/home/me/proj/{name}")));
    }
    let held = planned(&p, &facts(), &fs);
    assert_eq!(gap(&held, "link-names"), None);
    assert!(mounts_at(&held, "/home/me/proj/shared").is_empty());
    for name in ["lnk", "skills", "dl", "real", "shared/skills"] {
        let rule = exact_rule(&held, &format!("/home/me/proj/{name}"));
        assert!(
            rule.is_some_and(|r| r.starts_with("protected_paths")),
            "{name}"
        );
    }
    let plan = planned(&p, &without_broker(), &fs);
    assert!(!can_write(&plan, "/home/me/proj/real"));
    assert!(!can_write(&plan, "/home/me/proj/shared/skills/a"));
    assert_eq!(
        mounts_at(&plan, "/home/me/proj/shared").len(),
        1,
        "the directory above is pinned"
    );
    let text = gap(&plan, "link-names").unwrap();
    assert!(
        text.contains("proj/lnk") && text.contains("proj/skills") && text.contains("proj/dl"),
        "{text}"
    );
    for m in plan.mounts.iter().chain(&held.mounts) {
        let d = crate::plan::explain::destination(m).unwrap_or(Path::new("/"));
        assert!(
            ![
                Path::new("/home/me/proj/lnk"),
                Path::new("/home/me/proj/dl")
            ]
            .contains(&d)
        );
    }
}

#[test]
fn sl5_a_protected_path_through_a_link_holds_the_link_or_is_refused() {
    let fs = debian()
        .file("/home/me/proj/rel1/conf", "K")
        .link("/home/me/proj/cur", "rel1");
    let mut p = ws();
    p.fs.protected.push(entry("/home/me/proj/cur/conf"));
    let plan = planned(&p, &facts(), &fs);
    for path in ["cur", "rel1/conf"] {
        assert!(exact_rule(&plan, &format!("/home/me/proj/{path}")).is_some());
    }
    let text = refusal_without_broker(&p, &fs);
    assert!(
        text.contains("/home/me/proj/cur`") && text.contains("/home/me/proj/rel1/conf"),
        "{text}"
    );
}

#[test]
fn sl4_nothing_is_mounted_below_a_planted_link() {
    let fs = debian()
        .dir("/srv/outside")
        .link("/home/me/proj/link", "/srv/outside");
    let mut p = ws();
    p.fs.protected.push(entry("/home/me/proj/link/new"));
    assert!(refusal_without_broker(&p, &fs).contains("/home/me/proj/link"));
    let plan = planned(&p, &facts(), &fs);
    assert!(mounts_at(&plan, "/srv/outside/new").is_empty());
    assert!(exact_rule(&plan, "/home/me/proj/link").is_some());
}

#[test]
fn semantics_20_grants_never_pass_through_planted_links() {
    let fs = debian()
        .dir("/srv/other")
        .link("/home/me/proj/out", "/srv/other")
        .dir("/home/me/proj/in/side")
        .link("/home/me/proj/near", "in/side");
    for list in 0..3 {
        let mut p = ws();
        match list {
            0 => p.fs.allow_write.push(entry("/home/me/proj/out")),
            1 => p.fs.allow_read.push(entry("/home/me/proj/out")),
            _ => {
                p.workdir = Some(Ruled {
                    value: "/home/me/proj/out".into(),
                    origin: origin(9),
                });
            }
        }
        let text = refusal(&p, &fs);
        assert!(
            text.contains("proj/out") && text.contains("/srv/other"),
            "{text}"
        );
        // An earlier run in chat mode could have planted it.
        p.mode = Mode::Review;
        refusal(&p, &fs);
    }
    let mut p = ws();
    p.fs.allow_write.push(entry("/home/me/proj/near"));
    planned(&p, &facts(), &fs);
}
