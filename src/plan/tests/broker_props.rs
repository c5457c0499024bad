//! What the broker is asked for, over random policies.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::broker::{broker, verdict};
use super::eval::{Seen, Table};
use super::props::{here, policy, questions, world};
use crate::broker::action::{Action, Kind};
use crate::broker::decide::Verdict;
use crate::host::FsView;
use crate::plan::Plan;
use crate::plan::fixture::plan;

/// At or below a single writable file.
fn single(plan: &Plan, path: &Path) -> bool {
    let among = |paths: &[PathBuf]| paths.iter().any(|p| path.starts_with(p));
    match &plan.broker {
        Some(broker) => among(&broker.exempt),
        None => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// P0: a Landlock rule on an ancestor would open the tree.
    #[test]
    fn nothing_exempt_holds_a_tree(p in policy()) {
        let Ok(plan) = plan(&p, &here(), &world()) else { return Ok(()) };
        let Some(broker) = &plan.broker else { return Ok(()) };
        for tree in &broker.trees {
            for path in &broker.exempt {
                prop_assert!(!tree.guest.starts_with(path), "{path:?} holds {:?}", tree.guest);
            }
            prop_assert!(tree.host.starts_with(&tree.top));
        }
        for path in &broker.served {
            prop_assert!(broker.trees.iter().any(|t| t.guest.starts_with(path)));
        }
    }

    /// Whatever of the host can be written lies in a tree, at the path the tree says, or is a single file.
    #[test]
    fn every_writable_piece_of_the_host_is_covered(p in policy()) {
        let fs = world();
        let Ok(plan) = plan(&p, &here(), &fs) else { return Ok(()) };
        let table = Table::new(&plan.mounts);
        for q in questions() {
            let Seen::Host(host, true) = table.seen(&q) else { continue };
            if single(&plan, &q) {
                prop_assert!(fs.kind(&host) != Some(crate::host::fs_view::Kind::Dir), "{q:?}");
                continue;
            }
            let trees = &broker(&plan).trees;
            let tree = trees
                .iter()
                .filter(|t| q.starts_with(&t.guest))
                .max_by_key(|t| t.guest.components().count());
            prop_assert!(tree.is_some(), "{q:?}\n{:#?}", plan.mounts);
            let tree = tree.unwrap();
            prop_assert_eq!(tree.host.join(q.strip_prefix(&tree.guest).unwrap()), host.join(""));
        }
    }

    /// What is denied in words is denied by name, whether it exists or not, and cannot be freed by a rename above it.
    #[test]
    fn literal_denies_hold_by_name(p in policy()) {
        let Ok(plan) = plan(&p, &here(), &world()) else { return Ok(()) };
        let table = Table::new(&plan.mounts);
        let never: Vec<PathBuf> = p.fs.protected
            .iter()
            .chain(&p.fs.deny_write)
            .filter_map(|e| e.value.exact())
            .map(|path| crate::plan::real_path(&world(), path))
            .collect();
        for q in questions() {
            let Seen::Host(host, true) = table.seen(&q) else { continue };
            let single = single(&plan, &q);
            if never.iter().any(|n| host.starts_with(n)) {
                prop_assert!(!single, "{q:?}");
                let asked = verdict(&plan, &q, Action::Write, Kind::Absent);
                // The top of a tree is a mount point, and everything in it is asked about.
                let asked = asked.or_else(|| verdict(&plan, &q.join("x"), Action::Write, Kind::Absent));
                prop_assert!(matches!(asked, Some(Verdict::Deny(_))), "{q:?} {asked:?}");
            }
            // The kernel moves no mount point.
            let mounted = plan.broker.iter().flat_map(|b| &b.trees).any(|t| t.guest == q);
            let above = never.iter().any(|n| n.starts_with(&host) && *n != host);
            if !single && !mounted && above {
                let asked = verdict(&plan, &q, Action::RenameFrom, Kind::Dir);
                prop_assert!(!matches!(asked, Some(Verdict::Allow)), "{q:?}");
            }
        }
    }
}
