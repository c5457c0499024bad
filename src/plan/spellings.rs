//! Other spellings of a denied name that exist beside it: denies fold case (semantics 3).
//!
//! On a file system that tells case apart `SECRET` is another file than `secret`, but a rule written on one machine means the same on
//! the next; so both are denied where both exist.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::context::Ctx;
use super::paths::below;
use super::rules::Grant;
use crate::policy::pattern::fold;

/// More spellings of one path than this are somebody's attack on the planner, not a tree anybody works in.
const MOST: usize = 64;

/// Directory listings by folded name, read once each.
pub(super) struct Spellings<'a> {
    ctx: Ctx<'a>,
    roots: Vec<PathBuf>,
    listed: HashMap<PathBuf, HashMap<Vec<u8>, Vec<OsString>>>,
}

impl<'a> Spellings<'a> {
    /// Folds below home, the working directory and the grants: above them nobody plants a second spelling, and directories such as
    /// /nix/store are too long to list.
    pub(super) fn new(ctx: Ctx<'a>, grants: &[Grant]) -> Self {
        let mut roots = vec![ctx.host.home_real.clone(), ctx.cwd_real()];
        for g in grants {
            roots.push(g.walk.real.clone());
            roots.push(g.walk.spelled.clone());
        }
        roots.push(ctx.host.home.clone());
        roots.retain(|r| r != Path::new("/"));
        Self {
            ctx,
            roots,
            listed: HashMap::new(),
        }
    }

    /// Existing paths that differ from `path` only in case.
    pub(super) fn others(&mut self, path: &Path) -> Vec<PathBuf> {
        let root = self
            .roots
            .iter()
            .filter(|r| below(path, r))
            .max_by_key(|r| r.as_os_str().len())
            .cloned();
        let base = match (root, path.parent()) {
            (Some(root), _) => root,
            (None, Some(parent)) if parent != Path::new("/") => parent.to_path_buf(),
            (None, _) => return Vec::new(),
        };
        let Ok(rest) = path.strip_prefix(&base) else {
            return Vec::new();
        };
        let mut found = vec![base];
        for name in rest {
            let wanted = fold(name.as_encoded_bytes());
            found = found
                .into_iter()
                .flat_map(|dir| {
                    let names = self.named(&dir, &wanted);
                    names.into_iter().map(move |n| dir.join(n))
                })
                .take(MOST)
                .collect();
        }
        found.retain(|p| p != path);
        found
    }

    fn named(&mut self, dir: &Path, folded: &[u8]) -> Vec<OsString> {
        let ctx = self.ctx;
        let names = self.listed.entry(dir.to_path_buf()).or_insert_with(|| {
            let mut names: HashMap<Vec<u8>, Vec<OsString>> = HashMap::new();
            for name in ctx.fs.list(dir) {
                names
                    .entry(fold(name.as_encoded_bytes()))
                    .or_default()
                    .push(name);
            }
            names
        });
        names.get(folded).cloned().unwrap_or_default()
    }
}
