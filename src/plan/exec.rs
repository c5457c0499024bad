//! `exec.deny_writable` (semantics 15): where programs cannot be executed from.
//!
//! Whatever the command can write, anywhere, is closed under every path that shows it; what stands in a closed place and cannot be
//! written is open. `exec_grant_roots` open again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::context::Ctx;
use super::paths::{upwards, within};
use super::tree::{Node, Shown, Tree};

/// Guest paths; the deepest one at or above a path decides about it, and without one it is open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecRule {
    /// Nothing below is executed.
    pub closed: Vec<PathBuf>,
    /// Open places in closed ones.
    pub open: Vec<PathBuf>,
}

impl ExecRule {
    /// Programs at `path` are not executed.
    #[must_use]
    pub fn denies(&self, path: &Path) -> bool {
        upwards(path)
            .find_map(|at| {
                let is = |list: &[PathBuf]| list.iter().any(|p| p == at);
                (is(&self.closed) || is(&self.open)).then(|| !is(&self.open))
            })
            .unwrap_or(false)
    }

    /// Leaves out what says nothing new; parents come before what lies in them.
    fn push(&mut self, path: &Path, closed: bool) {
        if self.denies(path) == closed {
            return;
        }
        let list = if closed {
            &mut self.closed
        } else {
            &mut self.open
        };
        list.push(path.to_path_buf());
    }
}

/// The rule of a finished tree.
pub(super) fn rule(ctx: Ctx<'_>, tree: &Tree) -> Option<ExecRule> {
    if !ctx.policy.exec_deny_writable {
        return None;
    }
    // In the order of paths, parents first.
    let mut all: BTreeMap<PathBuf, bool> = BTreeMap::new();
    let mut add = |path: &Path, closed: bool| {
        *all.entry(path.to_path_buf()).or_default() |= closed;
    };
    for (path, node) in tree.iter() {
        match node {
            Node::Host { src, rw } => {
                add(path, tree.places(src).any(|(_, rw)| rw));
                if *rw {
                    tree.places(src).for_each(|(at, _)| add(&at, true));
                }
            }
            Node::Tmpfs { ro, .. } => add(path, !ro),
            Node::Overlay { .. } | Node::State { .. } | Node::Dev | Node::Proc => add(path, true),
            // Of the directory they stand in, or nothing to execute.
            Node::Dir { .. }
            | Node::Symlink { .. }
            | Node::File { .. }
            | Node::Data { .. }
            | Node::Cover { .. } => {}
        }
    }
    let roots = granted(ctx, tree);
    all.retain(|path, _| !roots.iter().any(|r| within(path, r)));
    all.extend(roots.into_iter().map(|r| (r, false)));
    let mut out = ExecRule::default();
    for (path, closed) in all {
        out.push(&path, closed);
    }
    Some(out)
}

/// Guest paths of `exec_grant_roots`.
fn granted(ctx: Ctx<'_>, tree: &Tree) -> Vec<PathBuf> {
    let exact = ctx
        .policy
        .fs
        .exec_grant_roots
        .iter()
        .filter_map(|e| e.value.exact());
    exact
        .flat_map(|path| {
            let real = ctx.walk(path).real;
            let cached = matches!(tree.shown(&real), Shown::Cache { path } if path == real);
            let shown: Vec<PathBuf> = tree.places(&real).map(|(at, _)| at).collect();
            shown.into_iter().chain(cached.then_some(real))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fs_view::FakeFs;
    use crate::plan::fixture::{bind, bind_at, debian, dispatch, entry, facts, planned, set_cwd};
    use crate::policy::{Policy, View};

    fn strict() -> Policy {
        let mut p = dispatch();
        p.fs.view = View::Host;
        p.exec_deny_writable = true;
        p.fs.binds.push(bind("/home/me/proj", false));
        p
    }

    fn rule_of(p: &Policy, fs: &FakeFs) -> ExecRule {
        planned(p, &facts(), fs).exec.unwrap()
    }

    #[test]
    fn what_can_be_written_cannot_be_executed() {
        let fs = debian()
            .file("/home/me/proj/tool", "")
            .file("/home/me/proj/prot", "")
            .dir("/home/me/proj/bin");
        let mut p = strict();
        p.fs.protected.push(entry("/home/me/proj/prot"));
        let rule = rule_of(&p, &fs);
        for path in [
            "/home/me/proj/tool",
            "/home/me/proj/bin/x",
            "/tmp/x",
            "/var/tmp/x",
            "/dev/shm/x",
            "/run/x",
            "/proc/self/exe",
        ] {
            assert!(rule.denies(Path::new(path)), "{path}");
        }
        for path in ["/usr/bin/env", "/home/me/other", "/home/me/proj/prot", "/"] {
            assert!(!rule.denies(Path::new(path)), "{path}");
        }
        p.fs.exec_grant_roots.push(entry("/home/me/proj/bin"));
        let rule = rule_of(&p, &fs);
        assert!(!rule.denies(Path::new("/home/me/proj/bin/x")));
        assert!(rule.denies(Path::new("/home/me/proj/tool")));
        // A root above everything: nothing is left to deny.
        p.fs.exec_grant_roots.push(entry("/home/me"));
        assert!(!rule_of(&p, &fs).denies(Path::new("/home/me/proj/tool")));
        p.exec_deny_writable = false;
        assert_eq!(planned(&p, &facts(), &fs).exec, None);
    }

    /// The same file under another, read-only, path is as good as the writable one.
    #[test]
    fn every_path_of_a_writable_tree_is_closed() {
        let mut p = strict();
        p.fs.binds = vec![bind_at("/home/me/proj", "/tmp/p", false)];
        let mut host = facts();
        set_cwd(&mut host, "/usr/bin");
        let rule = planned(&p, &host, &debian()).exec.unwrap();
        assert!(rule.denies(Path::new("/tmp/p/tool")));
        assert!(rule.denies(Path::new("/home/me/proj/tool")));
        assert!(!rule.denies(Path::new("/home/me/other")));
    }
}
