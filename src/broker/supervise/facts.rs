//! What the rules ask about the directories around a name, looked up from the pinned directory upwards.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

use crate::broker::git_paths::Facts;
use crate::sys::at::{self, How};

use super::place;

/// The surroundings of one name. Until repositories made in the run are remembered, every git directory is the project's.
#[derive(Debug)]
pub(super) struct Around<'a> {
    dir: &'a OwnedFd,
    depth: usize,
    name: &'a CStr,
}

impl<'a> Around<'a> {
    /// `depth` counts the components of the directory's path.
    pub(super) fn new(dir: &'a OwnedFd, depth: usize, name: &'a CStr) -> Self {
        Self { dir, depth, name }
    }

    fn at(&self, depth: usize) -> Option<OwnedFd> {
        let how = How {
            flags: place::PATH_DIR | place::flags(libc::O_NOFOLLOW),
            ..How::default()
        };
        let path = match self.depth.checked_sub(depth) {
            Some(0) => CString::from(c"."),
            Some(up) => CString::new(vec![".."; up].join("/")).ok()?,
            None if depth == self.depth + 1 => self.name.to_owned(),
            None => return None,
        };
        at::open(self.dir.as_fd(), &path, how).ok()
    }
}

impl Facts for Around<'_> {
    fn holds(&self, depth: usize, name: &str) -> bool {
        let Ok(name) = CString::new(name) else {
            return true;
        };
        self.at(depth)
            .is_some_and(|dir| at::look(dir.as_fd(), &name).is_ok())
    }

    fn is_project_git_dir(&self, depth: usize) -> bool {
        self.holds(depth, "HEAD")
    }

    fn is_old_work_tree(&self, depth: usize) -> bool {
        self.holds(depth, ".git")
    }
}
