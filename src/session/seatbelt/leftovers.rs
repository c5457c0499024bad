//! What the command has started and left: there is no namespace of processes that would end with it.
//!
//! The tree is followed by who started whom. All of it is stopped before any of it is killed, so that nothing is started meanwhile. A
//! process whose parent had ended before, and that one's, too, may be missed: SECURITY.md says so.

use std::collections::BTreeSet;

use crate::sys::family::{self, Member};
use crate::sys::signals;

/// Looks at the tree at most; each finds what was started during the one before.
const ROUNDS: usize = 50;

/// By what the command is known to those it started. On Linux orphans come to this process, if it is a child subreaper.
pub(super) fn roots(command: i32) -> BTreeSet<u64> {
    let own = i32::try_from(std::process::id()).ok();
    [Some(command), own]
        .into_iter()
        .flatten()
        .filter_map(|pid| family::of(pid).map(|m| m.id))
        .collect()
}

/// Ends what descends from `roots`, but for `spared`.
pub(super) fn end(mut roots: BTreeSet<u64>, spared: &BTreeSet<i32>) {
    kill(&mut roots, spared, Vec::new());
}

/// Ends these processes and what descends from them.
pub(super) fn end_now(pids: &[i32]) {
    let known = |pid: &i32| family::of(*pid).map(|m| m.id);
    let mut roots = pids.iter().filter_map(known).collect();
    for pid in pids {
        let _ = signals::send(*pid, libc::SIGSTOP);
    }
    kill(&mut roots, &BTreeSet::new(), pids.to_vec());
}

fn kill(roots: &mut BTreeSet<u64>, spared: &BTreeSet<i32>, mut stopped: Vec<i32>) {
    for _ in 0..ROUNDS {
        let all: Vec<Member> = family::all()
            .unwrap_or_default()
            .into_iter()
            .filter(|member| !spared.contains(&member.pid))
            .collect();
        let mut new = family::below(&all, roots);
        new.retain(|pid| !stopped.contains(pid));
        if new.is_empty() {
            break;
        }
        for pid in &new {
            let _ = signals::send(*pid, libc::SIGSTOP);
        }
        stopped.extend(new);
    }
    for pid in stopped {
        let _ = signals::send(pid, libc::SIGKILL);
    }
}
