//! Which processes a process has started, and those again.

use std::collections::BTreeSet;
use std::io;

/// One process of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub pid: i32,
    /// What it is known by to those it started.
    pub id: u64,
    /// The same of the one that started it.
    pub parent: u64,
    /// Stopped by a signal.
    pub stopped: bool,
}

/// All processes that have not ended.
#[cfg(target_os = "linux")]
pub fn all() -> io::Result<Vec<Member>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        if let Some(pid) = name.to_str().and_then(|n| n.parse().ok()) {
            found.extend(of(pid));
        }
    }
    Ok(found)
}

/// One of them (proc(5)): the number of an orphan's parent is that of whoever has adopted it.
#[must_use]
#[cfg(target_os = "linux")]
pub fn of(pid: i32) -> Option<Member> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // `pid (name) state ppid …`; the name may hold anything, so look behind its last parenthesis.
    let tail = stat.rsplit(|b| *b == b')').next()?;
    let mut fields = std::str::from_utf8(tail).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(Member {
        pid,
        id: u64::try_from(pid).ok()?,
        parent,
        stopped: matches!(state, "T" | "t"),
    })
}

#[cfg(target_os = "macos")]
pub use super::absent_family::{all, of};

/// Nothing is known of processes here.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub fn all() -> io::Result<Vec<Member>> {
    Ok(Vec::new())
}

/// Nothing is known of processes here.
#[must_use]
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub fn of(_pid: i32) -> Option<Member> {
    None
}

/// Whether a process is stopped.
#[must_use]
pub fn is_stopped(pid: i32) -> bool {
    of(pid).is_some_and(|member| member.stopped)
}

/// Those that descend from one of `roots`; their ids join the roots.
#[must_use]
pub fn below(all: &[Member], roots: &mut BTreeSet<u64>) -> Vec<i32> {
    let mut found = BTreeSet::new();
    loop {
        let before = found.len();
        for member in all {
            // The first process of a system is its own parent or nobody's.
            if member.parent != member.id && roots.contains(&member.parent) {
                roots.insert(member.id);
                found.insert(member.pid);
            }
        }
        if found.len() == before {
            return found.into_iter().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_of_every_degree_and_no_others() {
        let member = |pid: i32, id, parent| Member {
            pid,
            id,
            parent,
            stopped: false,
        };
        // In any order; 1 is its own parent.
        let all = [
            member(14, 104, 103),
            member(1, 1, 1),
            member(12, 102, 101),
            member(13, 103, 102),
            member(20, 200, 1),
        ];
        let mut roots = BTreeSet::from([101]);
        assert_eq!(below(&all, &mut roots), [12, 13, 14]);
        assert_eq!(roots, BTreeSet::from([101, 102, 103, 104]));
        // What one of them has started is found although it is gone itself.
        let later = [member(15, 105, 103), member(20, 200, 1)];
        assert_eq!(below(&later, &mut roots), [15]);
        assert_eq!(below(&all, &mut BTreeSet::from([7])), Vec::<i32>::new());
    }

    #[test]
    fn this_process_is_one() {
        let me = i32::try_from(std::process::id()).unwrap();
        let found = all().unwrap().into_iter().find(|m| m.pid == me).unwrap();
        assert_eq!(Some(found.id), of(me).map(|m| m.id));
        assert!(!is_stopped(me) && of(i32::MAX).is_none());
    }
}
