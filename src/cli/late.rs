//! What the read floor makes unreadable: files that the host has made or replaced during the run in a directory above a hidden one
//! (docs/adr/0008). Asked once, after a command has failed: whoever looks for the reason finds it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::plan::{Plan, check};

/// Names of one notice at most.
const NAMED: usize = 3;

/// One notice, if there is anything to say.
pub(super) fn notice(plan: &Plan, since: SystemTime) -> Option<String> {
    let floor = &plan.read_floor;
    // In directories further up a file that is missing is hardly what failed.
    let beside: BTreeSet<&Path> = floor.closed.iter().filter_map(|p| p.parent()).collect();
    let found: Vec<PathBuf> = beside
        .into_iter()
        .flat_map(|dir| {
            let host = check::host_path(plan, dir);
            host.into_iter().flat_map(move |host| {
                let new = made_since(&host, since);
                new.into_iter().map(move |name| dir.join(name))
            })
        })
        .filter(|path| !floor.closed.contains(path) && !floor.above.contains(path))
        .collect();
    let mut shown: Vec<String> = found
        .iter()
        .take(NAMED)
        .map(|p| format!("`{}`", p.display()))
        .collect();
    if found.len() > NAMED {
        shown.push(format!("{} more", found.len() - NAMED));
    }
    (!found.is_empty()).then(|| {
        format!(
            "made or replaced on the host during this run, so not readable inside before the next one: {} (hidden files lie beside)",
            shown.join(", ")
        )
    })
}

/// Entries of a directory whose objects are that young, but for links.
fn made_since(dir: &Path, since: SystemTime) -> Vec<std::ffi::OsString> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| {
            entry.metadata().is_ok_and(|meta| {
                !meta.is_symlink() && meta.created().is_ok_and(|born| born >= since)
            })
        })
        .map(|entry| entry.file_name())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::plan;
    use super::*;
    use crate::plan::Mount;

    #[test]
    fn only_what_is_younger_than_the_run_and_beside_the_way_is_named() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        fs::write(home.join("old"), "").unwrap();
        // The kernel stamps files with the time of its last tick, which may be 10 ms ago.
        std::thread::sleep(std::time::Duration::from_millis(200));
        let since = SystemTime::now() - std::time::Duration::from_millis(100);
        let mut plan = plan();
        assert_eq!(notice(&plan, since), None);
        plan.mounts = vec![Mount::RoBind {
            src: "/".into(),
            dst: "/".into(),
        }];
        plan.read_floor.closed = vec![home.join(".netrc")];
        plan.read_floor.above = vec![home.clone()];
        assert_eq!(notice(&plan, since), None);
        for name in [".netrc", ".gitconfig"] {
            fs::write(home.join(name), "").unwrap();
        }
        let said = notice(&plan, since).unwrap();
        assert!(
            said.contains(&format!("`{}/.gitconfig`", home.display())),
            "{said}"
        );
        assert!(!said.contains(".netrc") && !said.contains("old"), "{said}");
    }
}
