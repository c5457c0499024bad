//! The nodes of the file system: its root, and one for each hidden object.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use crate::sys::fds;
use crate::sys::fuse::{Attributes, ROOT};

/// A hidden object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::session) struct Covered {
    /// Link-free host path.
    pub(in crate::session) host: PathBuf,
    /// Path inside.
    pub(in crate::session) guest: PathBuf,
    /// A directory is hidden by a directory.
    pub(in crate::session) is_dir: bool,
}

/// Name of the `nth` object's node in the root.
pub(in crate::session) fn name(nth: usize) -> String {
    nth.to_string()
}

/// All of them; the `nth` has the number `nth` behind the root's.
#[derive(Debug)]
pub(super) struct Nodes(Vec<(u64, Covered)>);

impl Nodes {
    pub(super) fn new(covered: Vec<Covered>) -> Self {
        Self((ROOT + 1..).zip(covered).collect())
    }

    pub(super) fn get(&self, node: u64) -> Option<&Covered> {
        let nth = usize::try_from(node.checked_sub(ROOT + 1)?).ok()?;
        self.0.get(nth).map(|(_, covered)| covered)
    }

    /// The node of a name in the root.
    pub(super) fn find(&self, wanted: &str) -> Option<(u64, &Covered)> {
        let nth: usize = wanted.parse().ok()?;
        let (node, covered) = self.0.get(nth).filter(|_| name(nth) == wanted)?;
        Some((*node, covered))
    }

    /// From the `nth` on, with its place and number.
    pub(super) fn behind(&self, nth: u64) -> impl Iterator<Item = (usize, u64, &Covered)> {
        let skipped = usize::try_from(nth).unwrap_or(usize::MAX);
        let all = self.0.iter().enumerate().skip(skipped);
        all.map(|(nth, (node, covered))| (nth, *node, covered))
    }
}

impl Covered {
    /// Its metadata as it is now on the host: a tool that lists what it may not read shows the truth, also after a host program has
    /// changed it. What has gone, or is of another kind by now, has none.
    pub(super) fn attributes(&self, node: u64) -> Attributes {
        let look = || -> io::Result<_> {
            // Not through a link that came up since the plan was made.
            let object = File::from(fds::open_no_links(&self.host)?);
            object.metadata()
        };
        match look() {
            Ok(meta) if meta.is_dir() == self.is_dir => Attributes::of(&meta, self.is_dir),
            Ok(_) | Err(_) => Attributes::bare(node, self.is_dir),
        }
    }
}
