//! What the command has started and left: there is no namespace of processes that would end with it.
//!
//! The tree is followed by who started whom. All of it is stopped before any of it is killed, so that nothing is started meanwhile. A
//! process whose parent had ended before, and that one's, too, may be missed: SECURITY.md says so.

use std::collections::BTreeSet;

use crate::sys;
use crate::sys::family::{self, Member};
use crate::sys::signals;

/// Looks at the tree at most; each finds what was started during the one before.
const ROUNDS: usize = 50;

/// How it is known later what the command has started.
#[derive(Debug)]
pub(super) struct Record {
    /// On Linux orphans come to this process.
    own: Option<u64>,
    /// Those that it had before: the program that became ccbox may have started some.
    earlier: BTreeSet<i32>,
}

impl Record {
    /// Before anything is started. Elsewhere each process keeps the number of the one that started it, so none is adopted.
    pub(super) fn begin() -> Self {
        let own = i32::try_from(std::process::id())
            .ok()
            .filter(|_| sys::prctl::adopt_orphans().is_ok())
            .and_then(|pid| family::of(pid).map(|m| m.id));
        let before = own.map(|own| (family::all().unwrap_or_default(), BTreeSet::from([own])));
        Self {
            own,
            earlier: before
                .map(|(all, mut roots)| family::below(&all, &mut roots))
                .unwrap_or_default()
                .into_iter()
                .collect(),
        }
    }

    /// By what the command is known to those it started.
    pub(super) fn roots(&self, command: i32) -> BTreeSet<u64> {
        let command = family::of(command).map(|m| m.id);
        command.into_iter().chain(self.own).collect()
    }
}

/// Ends what descends from `roots`, but for `spared` and for what was there before.
pub(super) fn end(mut roots: BTreeSet<u64>, record: &Record, spared: &BTreeSet<i32>) {
    let spared = spared.union(&record.earlier).copied().collect();
    kill(&mut roots, &spared, Vec::new());
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
