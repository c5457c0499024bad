//! The name rules of a run, in the order in which they are named (semantics 4): ccbox's own files, protected paths, mandatory names,
//! `deny_write`, then what is hidden or read-only inside a writable tree.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::context::Ctx;
use super::mandatory::{self, Mandatory};
use super::paths::{below, within};
use super::reads::ByName;
use super::rules::{Access, Grant, Hide, Named, Never, Rules, Strength};
use super::worktree;
use crate::broker::decide::{Denied, Excepted, Matcher, Rule};
use crate::broker::plan::{NamedRule, Tree, components};
use crate::host::fs_view::Kind;
use crate::policy::path::PathEntry;
use crate::policy::pattern::PathPattern;
use crate::policy::{Layer, Ruled};

/// Rules while they grow.
struct Names<'a> {
    ctx: Ctx<'a>,
    trees: &'a [Tree],
    seen: HashSet<PathBuf>,
    out: Vec<NamedRule>,
}

/// Every rule that can say something inside `trees`. `single` are the rules that are too many to be mounted.
pub(super) fn collect(
    ctx: Ctx<'_>,
    (rules, single, by_name): (&Rules, &Rules, &ByName<'_>),
    mandatory: &Mandatory,
    trees: &[Tree],
) -> Vec<NamedRule> {
    let mut names = Names {
        ctx,
        trees,
        seen: HashSet::new(),
        out: Vec::new(),
    };
    let of = |strength| {
        let all = rules.nevers.iter().chain(single.nevers.iter());
        all.filter(move |n| n.strength == strength)
    };
    for never in of(Strength::Own).chain(of(Strength::Protected)) {
        names.never(never);
    }
    names.patterns("protected_paths", &ctx.policy.fs.protected);
    for never in &mandatory.names {
        names.never(never);
    }
    names.links(&mandatory.links);
    names.repositories();
    names.bare(&rules.grants);
    for never in of(Strength::DenyWrite) {
        names.never(never);
    }
    names.patterns("deny_write", &ctx.policy.fs.deny_write);
    names.hidden(&rules.hides, by_name, &rules.grants);
    // What may not be read is not made either, and above all not moved to a name that may.
    names.patterns("deny_read", &ctx.policy.fs.deny_read);
    names.read_only(&rules.grants);
    names.out
}

impl Names<'_> {
    fn add(&mut self, rule: Rule, named: &Named) {
        self.out.push(NamedRule {
            rule,
            words: named.words.clone(),
            origin: named.origin.clone(),
        });
    }

    /// A rule about one path, where that lies in a tree. The first one about a path is the one that is named.
    fn exact(&mut self, path: &Path, open: &[PathBuf], named: &Named) {
        if !self.trees.iter().any(|t| within(path, &t.host)) {
            return;
        }
        let open: Vec<_> = open
            .iter()
            .filter(|o| below(o, path))
            .map(|o| components(o))
            .collect();
        if open.is_empty() {
            if self.seen.insert(path.to_path_buf()) {
                self.add(Rule::Exact(components(path)), named);
            }
        } else {
            let path = components(path);
            self.add(Rule::AllBut { path, open }, named);
        }
    }

    /// What a rule names, and each link on the way to it: pointed elsewhere, it would free the name (R25, R36).
    fn never(&mut self, never: &Never) {
        self.exact(&never.walk.real, &never.except, &never.named);
        for link in &never.walk.links {
            self.exact(&link.at, &[], &never.named);
        }
    }

    /// Links that lead to a git directory; what they lead to is the preset's.
    fn links(&mut self, links: &[PathBuf]) {
        let named = Named::built_in("mandatory", "mandatory \".git\"".to_owned());
        for link in links {
            self.exact(link, &[], &named);
        }
    }

    fn patterns(&mut self, key: &str, entries: &[Ruled<PathEntry>]) {
        // `allow_create` is about writing.
        let liftable = key != "deny_read";
        for entry in entries {
            let PathEntry::Pattern(pattern) = &entry.value else {
                continue;
            };
            let named = Named {
                words: format!("{key} \"{}\"", pattern.text),
                origin: entry.origin.clone(),
            };
            let liftable = liftable && matches!(entry.origin.layer, Layer::Profile(_));
            for spelled in spellings(self.ctx, pattern) {
                let matcher: Arc<dyn Matcher> = Arc::new(Denied::new(&spelled));
                self.add(Rule::Pattern { matcher, liftable }, &named);
            }
        }
    }

    /// Agent settings and the like of every repository that was there before the run (semantics 8).
    fn repositories(&mut self) {
        for name in mandatory::repository_names(self.ctx) {
            let named = Named::built_in("mandatory", format!("mandatory \"{name}\""));
            self.add(Rule::Repository(components(Path::new(name))), &named);
        }
    }

    /// The top of a writable root inside a larger one: the decision knows only the larger one's.
    fn bare(&mut self, grants: &[Grant]) {
        for grant in grants.iter().filter(|g| g.access == Access::Write) {
            let dir = grant.path();
            let inner = self
                .trees
                .iter()
                .any(|t| within(dir, &t.host) && below(dir, &t.top));
            if !inner || grant.walk.kind != Some(Kind::Dir) || worktree::is_git_dir(self.ctx, dir) {
                continue;
            }
            for name in mandatory::BARE {
                let path = dir.join(name);
                // What is there is the user's own and stays as it is.
                if !self.ctx.exists(&path) {
                    let words = format!("mandatory \"{name}\" (bare repository)");
                    self.exact(&path, &[], &Named::built_in("mandatory", words));
                }
            }
        }
    }

    /// Nothing that is hidden is written. What does not exist is not hidden, so the child may make it, and read it (semantics 6), but for
    /// what its name keeps closed: nobody could tell the child's from the host's.
    fn hidden(&mut self, hides: &[Hide], by_name: &ByName<'_>, grants: &[Grant]) {
        let there = |h: &&Hide| h.walk.kind.is_some() || by_name.holds(h);
        for hide in hides.iter().filter(there) {
            let path = &hide.walk.real;
            let lifted = grants.iter().filter(|g| g.is_identity());
            if hide.liftable && lifted.clone().any(|g| g.path() == path) {
                continue;
            }
            let open: Vec<PathBuf> = lifted
                .filter(|g| below(g.path(), path))
                .map(|g| g.path().to_path_buf())
                .collect();
            self.exact(path, &open, &hide.named);
            for link in &hide.walk.links {
                self.exact(&link.at, &[], &hide.named);
            }
        }
    }

    /// A read-only grant inside a writable one keeps its place.
    fn read_only(&mut self, grants: &[Grant]) {
        let identity = || grants.iter().filter(|g| g.is_identity());
        for grant in identity().filter(|g| g.access == Access::ReadOnly) {
            let path = grant.path();
            let open: Vec<PathBuf> = identity()
                .filter(|g| g.access == Access::Write && below(g.path(), path))
                .map(|g| g.path().to_path_buf())
                .collect();
            self.exact(path, &open, &grant.named);
        }
    }
}

/// A pattern as written and, where the directory before its first wildcard is reached through links, where that leads (R25).
pub(super) fn spellings(ctx: Ctx<'_>, pattern: &PathPattern) -> Vec<PathPattern> {
    let mut out = vec![pattern.clone()];
    if let Some(dir) = pattern.fixed() {
        let real = ctx.walk(dir).real;
        if real != dir {
            out.push(pattern.with_fixed(&real));
        }
    }
    out
}

/// `allow_create`: what lifts the patterns of built-in profiles.
pub(super) fn exceptions(ctx: Ctx<'_>) -> Vec<Arc<dyn Matcher>> {
    let mut out: Vec<Arc<dyn Matcher>> = Vec::new();
    for entry in &ctx.policy.fs.allow_create {
        match &entry.value {
            PathEntry::Pattern(pattern) => {
                for spelled in spellings(ctx, pattern) {
                    out.push(Arc::new(Excepted::new(spelled)));
                }
            }
            PathEntry::Exact(path) => {
                let walk = ctx.walk(path);
                if walk.real != walk.spelled {
                    out.push(Arc::new(OnePath(components(&walk.spelled))));
                }
                out.push(Arc::new(OnePath(components(&walk.real))));
            }
        }
    }
    out
}

/// An exact entry of `allow_create`: that path and what lies below.
#[derive(Debug)]
struct OnePath(Vec<Vec<u8>>);

impl Matcher for OnePath {
    fn names(&self, path: &[&[u8]]) -> bool {
        self.0.iter().map(Vec::as_slice).eq(path.iter().copied())
    }

    fn starts_at(&self, path: &[&[u8]], _root_depth: usize) -> bool {
        !path.is_empty()
            && path.len() < self.0.len()
            && self
                .0
                .iter()
                .map(Vec::as_slice)
                .zip(path)
                .all(|(a, b)| a == *b)
    }
}
