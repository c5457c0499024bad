//! Looks through a directory that is about to move, under the exclusive lock.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;

use super::judge::{cause, kind};
use super::{Cause, place};
use crate::broker::action::Kind;
use crate::broker::decide::{RuleSet, Target, entry_may_move, may_hide};
use crate::sys::at::{self, How};
use crate::sys::libc;

/// More entries than this are not looked through while everybody waits.
const MOST: usize = 1_000_000;
/// Deeper than this is not looked either: each level holds a descriptor.
const DEEPEST: usize = 512;

/// Why the directory may not move, if it may not. What cannot be read may hold anything.
pub(super) fn refused(
    set: &RuleSet,
    from: &Target<'_>,
    to: &Target<'_>,
    dir: &OwnedFd,
    name: &CStr,
) -> Option<Cause> {
    let rules = Rules {
        refuses: &|rel, kind| entry_may_move(set, from, to, rel, kind).map(cause),
        may_hide: &|rel| may_hide(set, from, to, rel),
    };
    rules.walk(dir, name)
}

/// Why an entry, by its path below the directory and its kind, may not move along.
type Refuses<'a> = dyn Fn(&[&[u8]], Kind) -> Option<Cause> + 'a;

/// What is asked about the entries of a directory.
pub(super) struct Rules<'a> {
    /// About each of them.
    pub(super) refuses: &'a Refuses<'a>,
    /// Below this directory something could be refused, so that one that cannot be read may not move along.
    pub(super) may_hide: &'a dyn Fn(&[&[u8]]) -> bool,
}

impl Rules<'_> {
    /// The first refusal of what lies below `name` in `dir`.
    pub(super) fn walk(&self, dir: &OwnedFd, name: &CStr) -> Option<Cause> {
        // Only directories have entries.
        if !at::look(dir.as_fd(), name).is_ok_and(|look| look.is(libc::S_IFDIR)) {
            return None;
        }
        let mut walk = Walk {
            rules: self,
            path: Vec::new(),
            left: MOST,
        };
        walk.entries(dir, name)
    }
}

struct Walk<'a> {
    rules: &'a Rules<'a>,
    path: Vec<CString>,
    left: usize,
}

impl Walk<'_> {
    /// What cannot be read may hold something that may not move along.
    fn may_hide(&self) -> bool {
        let rel: Vec<&[u8]> = self.path.iter().map(|c| c.to_bytes()).collect();
        (self.rules.may_hide)(&rel)
    }

    fn entries(&mut self, above: &OwnedFd, name: &CStr) -> Option<Cause> {
        let how = How {
            flags: place::flags(libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW),
            mode: 0,
            resolve: libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_XDEV,
        };
        let opened = at::open(above.as_fd(), name, how).and_then(|dir| {
            let copy = dir.try_clone().map_err(|_| Errno::EMFILE)?;
            Ok((copy, nix::dir::Dir::from_fd(dir)?))
        });
        let (dir, mut entries) = match opened {
            Ok(opened) => opened,
            Err(Errno::EACCES) if !self.may_hide() => return None,
            Err(_) => return Some(Cause::Unsupported),
        };
        if self.path.len() >= DEEPEST {
            return Some(Cause::Unsupported);
        }
        for entry in entries.iter() {
            let Ok(entry) = entry else {
                return Some(Cause::Unsupported);
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if self.left == 0 {
                return Some(Cause::Unsupported);
            }
            self.left -= 1;
            let look = match at::look(dir.as_fd(), name) {
                Ok(look) => look,
                // It can be read and not searched: the same goes for all of it.
                Err(Errno::EACCES) if !self.may_hide() => return None,
                Err(_) => return Some(Cause::Unsupported),
            };
            self.path.push(name.to_owned());
            let rel: Vec<&[u8]> = self.path.iter().map(|c| c.to_bytes()).collect();
            let refused = (self.rules.refuses)(&rel, kind(Some(&look)));
            if refused.is_some() {
                return refused;
            }
            if look.is(libc::S_IFDIR)
                && let Some(cause) = self.entries(&dir, name)
            {
                return Some(cause);
            }
            self.path.pop();
        }
        None
    }
}
