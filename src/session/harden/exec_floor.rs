//! Programs in places the command can write are not executed (`exec.deny_writable`): a second Landlock domain around the command,
//! made only where the rule is asked for.
//!
//! | handled | granted on |
//! |---|---|
//! | EXECUTE | what cannot be written, beside and between the closed places; `exec_grant_roots` |
//! | REFER | `/`: never handling it would forbid all renames between directories |
//!
//! Landlock looks at execve(2) alone. An interpreter, or the loader called by name, reads a program instead of executing it, and a
//! file in memory (memfd_create(2)) lies on no file system that a domain governs: SECURITY.md says so.

use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::backend::ExecRule;
use crate::sys::fds::open_no_links;
use crate::sys::landlock::{Ruleset, abi};

/// Why the rule cannot be held.
#[derive(Debug, thiserror::Error)]
pub enum ExecFloorError {
    /// Landlock is missing or too old.
    #[error("`exec.deny_writable` needs Landlock ABI 2 (Linux 5.19), the kernel has {abi}")]
    Abi {
        /// What there is.
        abi: i32,
    },
    /// A path could not be granted.
    #[error("cannot allow programs below `{}` in a Landlock domain: {source}", path.display())]
    Grant {
        /// Guest path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel has Landlock but refused a ruleset.
    #[error("cannot create a Landlock ruleset: {0}")]
    Create(#[source] io::Error),
}

/// A domain ready to be entered; holds one close-on-exec descriptor.
#[derive(Debug)]
pub struct ExecFloor(Ruleset);

impl ExecFloor {
    /// Opens and grants everything; to be called inside the finished mounts.
    pub fn prepare(rule: &ExecRule) -> Result<Self, ExecFloorError> {
        // ABI 1 can never grant REFER.
        if abi() < 2 {
            return Err(ExecFloorError::Abi { abi: abi() });
        }
        let mut ruleset = Ruleset::for_programs().map_err(ExecFloorError::Create)?;
        let root = Path::new("/");
        open_no_links(root)
            .and_then(|fd| ruleset.allow_refer(fd))
            .map_err(|source| grant(root, source))?;
        for path in open_places(rule, entries) {
            let object = match open_no_links(&path) {
                Ok(object) => object,
                Err(e) if nothing_to_execute(&e) => continue,
                Err(source) => return Err(grant(&path, source)),
            };
            ruleset
                .allow_programs(object)
                .map_err(|source| grant(&path, source))?;
        }
        Ok(Self(ruleset))
    }

    /// Enters the domain with the calling thread and everything it starts. Callable between fork and exec.
    pub fn apply(&self) -> io::Result<()> {
        self.0.restrict_self()
    }
}

/// What has to be opened one by one so that `rule` comes out, found by asking for the entries of the directories on the way.
///
/// A right on a directory holds for everything below it (landlock(7)), so no directory above a closed place can have it.
fn open_places(rule: &ExecRule, mut entries: impl FnMut(&Path) -> Vec<PathBuf>) -> Vec<PathBuf> {
    let mut out = Vec::new();
    let mut todo: Vec<PathBuf> = rule.open.iter().rev().cloned().collect();
    if !rule.denies(Path::new("/")) {
        todo.push(PathBuf::from("/"));
    }
    while let Some(at) = todo.pop() {
        if rule.closed.iter().any(|c| *c != at && c.starts_with(&at)) {
            let next = entries(&at);
            todo.extend(next.into_iter().filter(|p| !rule.closed.contains(p)));
        } else {
            out.push(at);
        }
    }
    out
}

fn grant(path: &Path, source: io::Error) -> ExecFloorError {
    ExecFloorError::Grant {
        path: path.to_owned(),
        source,
    }
}

/// Entries of a directory as the command sees it. What cannot be listed has no grant.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let Ok(list) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    list.flatten().map(|e| e.path()).collect()
}

/// A link has the rights of what it leads to; what is gone, or cannot be reached, is not executed.
fn nothing_to_execute(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::ENOENT | Errno::ELOOP | Errno::EACCES | Errno::ENOTDIR)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_given_beside_the_closed_places() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for name in ["ws/bin", "home/tools", "tmp", "usr"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        std::fs::write(root.join("home/file"), "").unwrap();
        let at = |name: &str| root.join(name);
        let rule = ExecRule {
            closed: vec![at("ws"), at("tmp"), at("home/me")],
            open: vec![at("ws/bin")],
        };
        let only_ours = |dir: &Path| -> Vec<PathBuf> {
            let all = entries(dir);
            let ours = |p: &PathBuf| p.starts_with(root) || root.starts_with(p);
            all.into_iter().filter(ours).collect()
        };
        let mut places = open_places(&rule, only_ours);
        places.sort();
        assert_eq!(
            places,
            [at("home/file"), at("home/tools"), at("usr"), at("ws/bin")]
        );
        let nothing = ExecRule {
            closed: vec!["/".into()],
            open: vec![at("usr")],
        };
        assert_eq!(open_places(&nothing, entries), [at("usr")]);
    }
}
