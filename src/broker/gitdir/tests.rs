//! On real directories, with every installed git.

mod config;
mod facts;
mod skeleton;

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::pass::Spot;
use super::*;
use crate::broker::decide::{Dir, Root, RuleSet};
use crate::broker::fold::NameRules;
use crate::broker::git_paths::Gate;
use crate::sys::objects;

const SAFE: &str = "[core]\n\tbare = false\n";
const EVIL: &str = "[core]\n\tfsmonitor = touch planted\n";

/// A covered tree on the disk.
struct Tree {
    dir: tempfile::TempDir,
    set: RuleSet,
    above: Above,
    made: Repositories,
}

impl Tree {
    fn new() -> Self {
        Self::around(tempfile::tempdir().unwrap())
    }

    fn around(dir: tempfile::TempDir) -> Self {
        let top = fs::canonicalize(dir.path()).unwrap();
        let path: Vec<Vec<u8>> = top.iter().skip(1).map(|c| c.as_bytes().to_vec()).collect();
        let above = Above::new(hold(&top), path.len());
        let root = Root {
            top: path.len(),
            path,
            names: NameRules::Unix,
            ignores_case: false,
            git_only: false,
        };
        Self {
            dir,
            set: RuleSet::new(
                vec![root],
                vec![],
                vec![],
                crate::broker::decide::GitRules::Preset,
            ),
            above,
            made: Repositories::default(),
        }
    }

    fn path(&self, below: &str) -> PathBuf {
        fs::canonicalize(self.dir.path()).unwrap().join(below)
    }

    fn write(&self, below: &str, content: impl AsRef<[u8]>) {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn read(&self, below: &str) -> String {
        fs::read_to_string(self.path(below)).unwrap()
    }

    fn inode(&self, below: &str) -> u64 {
        fs::symlink_metadata(self.path(below)).unwrap().ino()
    }

    fn mode(&self, below: &str, mode: u32) {
        fs::set_permissions(self.path(below), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Asks about the last component of `below` in the directory before it.
    fn at<T>(&self, below: &str, with: impl FnOnce(Spot<'_>) -> T) -> T {
        let (parent, name) = below.rsplit_once('/').unwrap_or(("", below));
        let dir = hold(&self.path(parent));
        let parts: Vec<&[u8]> = parent
            .split('/')
            .filter(|c| !c.is_empty())
            .map(str::as_bytes)
            .collect();
        let path = Dir::new(&self.set, 0, &parts).unwrap();
        let facts = Pinned::new(dir.as_fd(), &path, name.as_bytes(), &self.above, &self.made);
        with(Spot {
            dir: dir.as_fd(),
            path: &path,
            name: name.as_bytes(),
            facts: &facts,
        })
    }

    fn pass(&self, gate: Gate, to: &str) -> Result<Passed, GateError> {
        self.at(to, |to| pass(gate, &ask(&self.set, to)))
    }

    /// A rename of `config.lock` to `config` in `git_dir`.
    fn config(&self, git_dir: &str) -> Result<Passed, GateError> {
        self.pass(Gate::Config, &format!("{git_dir}/config"))
    }
}

fn ask<'a>(set: &'a RuleSet, to: Spot<'a>) -> Ask<'a> {
    Ask {
        set,
        to,
        from: None,
        noreplace: false,
        mode: 0o644,
    }
}

fn hold(path: &Path) -> OwnedFd {
    objects::hold_dir(nix::fcntl::AT_FDCWD, path.as_os_str().as_bytes()).unwrap()
}

#[track_caller]
#[allow(clippy::needless_pass_by_value, reason = "reads well at the call")]
fn done(answer: Result<Passed, GateError>) {
    assert!(matches!(answer, Ok(Passed::Done)), "{answer:?}");
}

#[track_caller]
#[allow(clippy::needless_pass_by_value, reason = "reads well at the call")]
fn act(answer: Result<Passed, GateError>) {
    assert!(matches!(answer, Ok(Passed::Act)), "{answer:?}");
}

#[track_caller]
fn refused(answer: Result<Passed, GateError>, words: &str) {
    match answer {
        Err(e @ GateError::Refused(_)) => {
            assert_eq!(e.errno(), nix::errno::Errno::EACCES);
            assert!(e.to_string().contains(words), "{e}");
        }
        other => panic!("{words}: {other:?}"),
    }
}
