//! Other spellings of a denied name that exist beside it: denies fold case (semantics 3).
//!
//! On a file system that tells case apart `SECRET` is another file than `secret`, but a rule written on one machine means the same on
//! the next; so both are denied where both exist.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::context::Ctx;
use super::paths::within;
use super::quick::Quick;
use super::rules::Grant;
use crate::policy::pattern::fold;

/// More spellings of one path than this are somebody's attack on the planner, not a tree anybody works in.
const MOST: usize = 64;

/// Directory listings by folded name, read once each, and the spellings of each directory that was asked about.
pub(super) struct Spellings<'a> {
    ctx: Ctx<'a>,
    roots: Vec<PathBuf>,
    listed: Listed,
    directories: HashMap<OsString, Vec<PathBuf>, Quick>,
}

/// By directory and folded name; names are whatever a command has left there, so they get the hash that nobody can aim at.
type Listed = HashMap<OsString, HashMap<Vec<u8>, Vec<OsString>>, Quick>;

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
            listed: Listed::default(),
            directories: HashMap::default(),
        }
    }

    /// Existing paths that differ from `path` only in case.
    pub(super) fn others(&mut self, path: &Path) -> Vec<PathBuf> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Vec::new();
        };
        if !self.directories.contains_key(parent.as_os_str()) {
            let found = self.directories(parent);
            self.directories.insert(parent.into(), found);
        }
        let wanted = fold(name.as_encoded_bytes());
        let mut found = Vec::new();
        for dir in self
            .directories
            .get(parent.as_os_str())
            .into_iter()
            .flatten()
        {
            let names = named(self.ctx, &mut self.listed, dir, &wanted);
            // Mostly there is one, and that is the path itself.
            let others = names.iter().map(|n| dir.join(n)).filter(|p| p != path);
            found.extend(others.take(MOST - found.len().min(MOST)));
        }
        found
    }

    /// The directory under all its spellings, below the deepest root.
    fn directories(&mut self, dir: &Path) -> Vec<PathBuf> {
        let root = self
            .roots
            .iter()
            .filter(|r| within(dir, r))
            .max_by_key(|r| r.as_os_str().len());
        let base = match root {
            Some(root) => root.clone(),
            None if dir == Path::new("/") => return Vec::new(),
            None => dir.to_path_buf(),
        };
        let Ok(rest) = dir.strip_prefix(&base) else {
            return Vec::new();
        };
        let mut found = vec![base];
        for name in rest {
            let wanted = fold(name.as_encoded_bytes());
            let mut next = Vec::new();
            for dir in &found {
                let names = named(self.ctx, &mut self.listed, dir, &wanted);
                next.extend(names.iter().map(|n| dir.join(n)));
            }
            next.truncate(MOST);
            found = next;
        }
        found
    }
}

/// Names in a directory that are one when folded.
fn named<'l>(ctx: Ctx<'_>, listed: &'l mut Listed, dir: &Path, folded: &[u8]) -> &'l [OsString] {
    if !listed.contains_key(dir.as_os_str()) {
        let mut names: HashMap<Vec<u8>, Vec<OsString>> = HashMap::new();
        for name in ctx.fs.list(dir) {
            names
                .entry(fold(name.as_encoded_bytes()))
                .or_default()
                .push(name);
        }
        listed.insert(dir.into(), names);
    }
    listed
        .get(dir.as_os_str())
        .and_then(|names| names.get(folded))
        .map_or(&[], Vec::as_slice)
}
