//! The rules of a run, compiled for the decision, and the directory a decision is about.

use std::borrow::Cow;
use std::sync::Arc;

use super::super::fold::{self, NameRules};
use super::super::git_paths::{self, Facts};
use super::edges::{Edge, Edges};

/// A pattern over the components of an absolute path.
///
/// Denies are asked with folded components and must have been compiled from folded text; exceptions are asked with the
/// bytes as they are (semantics 3).
pub trait Matcher: std::fmt::Debug + Send + Sync {
    /// The pattern names exactly this path: a tail of it, or all of it where the pattern starts at `/`. `dir/**` names
    /// `dir` as well.
    fn names(&self, path: &[&[u8]]) -> bool;
    /// A proper, not empty prefix of the pattern's components names this path, so that what the pattern names may lie
    /// below it. A `**` at the pattern's start or end is not a component here; one inside stands for any number: with
    /// `a/**/b` everything below `a` is such a prefix, if that `a` is deeper than `root_depth` components. (What holds
    /// everywhere below the root holds before and after a rename.) Never true of a pattern of one component.
    fn starts_at(&self, path: &[&[u8]], root_depth: usize) -> bool;
    /// What an entry of the directory at this path must look like for the pattern to name it.
    fn edge(&self, _dir: &[&[u8]]) -> Edge {
        Edge::Any
    }
}

/// One denying rule. Its index in [`RuleSet::new`] is the one in [`super::Reason::Rule`]; the first that denies is named,
/// so they stand in the order of semantics 4.
#[derive(Debug, Clone)]
pub enum Rule {
    /// An absolute path by components, and everything below: protected paths, ccbox's own files, exact `deny_write`
    /// entries, mandatory names at the places known at the start. Give both spellings where a link is involved (R25).
    Exact(Vec<Vec<u8>>),
    /// As [`Rule::Exact`], but the `open` paths and what lies below them are left to the other rules: an agent's home with
    /// its caches (semantics 7). Grants do not fold, so neither does `open`.
    AllBut {
        /// The path that is denied.
        path: Vec<Vec<u8>>,
        /// Paths below it.
        open: Vec<Vec<Vec<u8>>>,
    },
    /// A path below the work tree of every repository that the broker did not see made (semantics 8).
    Repository(Vec<Vec<u8>>),
    /// A `deny_write` pattern.
    Pattern {
        /// What it names.
        matcher: Arc<dyn Matcher>,
        /// It comes from a built-in profile, so `allow_create` lifts it.
        liftable: bool,
    },
}

/// A covered tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Components of its absolute path.
    pub path: Vec<Vec<u8>>,
    /// How many of them belong to the writable root it lies in: all, unless it is mounted on its own inside a larger
    /// one. What is asked about patterns, repositories and bare names starts there.
    pub top: usize,
    /// How its file system reads names.
    pub names: NameRules,
    /// Its file system takes `head` for `HEAD`: bare-repository names fold only then (semantics 8).
    pub ignores_case: bool,
    /// Nothing but the git preset holds in it: a private cache, which the host can see at a path of its own. What stands there must not
    /// become a git directory that a `.git` file in a work tree leads to.
    pub git_only: bool,
}

/// Everything the decision needs to know about the policy.
#[derive(Debug, Clone)]
pub struct RuleSet {
    roots: Vec<Root>,
    pub(super) rules: Vec<Compiled>,
    exceptions: Vec<Arc<dyn Matcher>>,
    pub(super) git: GitRules,
}

/// How much of the git preset holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitRules {
    /// Git directories are ordinary directories.
    Off,
    /// Hooks, configuration, and what would lead git to others (R31).
    Places,
    /// Attributes and remotes by other means too (R34).
    Preset,
}

#[derive(Debug, Clone)]
pub(super) enum Compiled {
    Exact(Exact),
    Repository(Folds),
    Pattern {
        matcher: Arc<dyn Matcher>,
        liftable: bool,
    },
}

/// An exact path, and what is open below it.
#[derive(Debug, Clone)]
pub(super) struct Exact {
    path: Folds,
    open: Vec<Vec<Vec<u8>>>,
}

impl Exact {
    /// Covers the object at `path`.
    fn covers(&self, path: &Path<'_>) -> bool {
        at_or_below(&path.folded, self.path.get(path.names))
            && !self.open.iter().any(|open| at_or_below(&path.raw, open))
    }

    /// Covers the directory at `path` and with it all of its entries.
    fn covers_whole(&self, path: &Path<'_>) -> bool {
        self.open.is_empty() && self.covers(path)
    }

    /// Can say something about an entry of the directory at `path` that is not said of the directory.
    fn is_near(&self, path: &Path<'_>) -> bool {
        let rule = self.path.get(path.names);
        above(&path.folded, rule) || !self.open.is_empty() && at_or_below(&path.folded, rule)
    }

    fn is_below(&self, path: &Path<'_>) -> bool {
        above(&path.folded, self.path.get(path.names))
    }
}

/// A path in both folds.
#[derive(Debug, Clone)]
pub(super) struct Folds {
    unix: Vec<Vec<u8>>,
    windows: Vec<Vec<u8>>,
}

impl Folds {
    fn new(path: &[Vec<u8>]) -> Self {
        let with = |rules| {
            path.iter()
                .map(|c| fold::fold(c, rules).into_owned())
                .collect()
        };
        Self {
            unix: with(NameRules::Unix),
            windows: with(NameRules::Windows),
        }
    }

    fn get(&self, names: NameRules) -> &[Vec<u8>] {
        match names {
            NameRules::Unix => &self.unix,
            NameRules::Windows => &self.windows,
        }
    }
}

impl Compiled {
    fn new(rule: Rule) -> Self {
        match rule {
            Rule::Exact(path) => Self::Exact(Exact {
                path: Folds::new(&path),
                open: Vec::new(),
            }),
            Rule::AllBut { path, open } => Self::Exact(Exact {
                path: Folds::new(&path),
                open,
            }),
            Rule::Repository(path) => Self::Repository(Folds::new(&path)),
            Rule::Pattern { matcher, liftable } => Self::Pattern { matcher, liftable },
        }
    }
}

/// A directory inside a covered root, by the absolute path of its descriptor. Worth keeping between calls: it holds what
/// can be said without a name.
#[derive(Debug, Clone)]
pub struct Dir {
    raw: Vec<Vec<u8>>,
    folded: Vec<Vec<u8>>,
    root: usize,
    root_depth: usize,
    names: NameRules,
    /// The first exact or pattern rule that covers the directory itself.
    cover: Option<usize>,
    /// The rules that can say something about an entry of it: not the exact rules that lead elsewhere.
    near: Vec<usize>,
    /// Those of them that are no patterns, and what an entry looks like that a pattern names.
    exact: Vec<usize>,
    edges: Edges,
    /// As [`Root::git_only`].
    pub(super) git_only: bool,
    /// Some component below the root is an 8.3 name.
    pub(super) short_name: bool,
}

impl std::fmt::Display for Dir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for c in &self.raw {
            write!(f, "/{}", c.escape_ascii())?;
        }
        Ok(())
    }
}

/// An absolute path in question, folded and as it is.
#[derive(Debug, Clone)]
pub(super) struct Path<'a> {
    pub(super) folded: Vec<&'a [u8]>,
    raw: Vec<&'a [u8]>,
    pub(super) root_depth: usize,
    names: NameRules,
}

impl Dir {
    /// The directory `below` (components) the root at index `root`; `None` where there is no such root.
    #[must_use]
    pub fn new(set: &RuleSet, root: usize, below: &[&[u8]]) -> Option<Self> {
        let Root {
            path,
            names,
            top,
            git_only,
            ..
        } = set.roots.get(root)?;
        let raw: Vec<Vec<u8>> = path
            .iter()
            .cloned()
            .chain(below.iter().map(|c| c.to_vec()))
            .collect();
        let mut dir = Self {
            folded: raw
                .iter()
                .map(|c| fold::fold(c, *names).into_owned())
                .collect(),
            raw,
            root,
            root_depth: path.len().min(*top),
            names: *names,
            cover: None,
            near: Vec::new(),
            exact: Vec::new(),
            edges: Edges::default(),
            git_only: *git_only,
            short_name: *names == NameRules::Windows
                && below.iter().any(|c| fold::is_short_name(c)),
        };
        if *git_only {
            return Some(dir);
        }
        let (cover, near, edges) = {
            let path = dir.path(&[], &[]);
            let covers = |rule: &Compiled| match rule {
                Compiled::Exact(rule) => rule.covers_whole(&path),
                Compiled::Repository(_) => false,
                Compiled::Pattern { .. } => set.rule_covers(rule, &path, 0, None, 0),
            };
            let says = |(index, rule): (usize, &Compiled)| match rule {
                Compiled::Exact(rule) if !rule.is_near(&path) => None,
                Compiled::Exact(_) | Compiled::Repository(_) | Compiled::Pattern { .. } => {
                    Some(index)
                }
            };
            let mut edges = Edges::default();
            for rule in &set.rules {
                if let Compiled::Pattern { matcher, .. } = rule {
                    edges.add(matcher.edge(&path.folded));
                }
            }
            let near: Vec<usize> = set.rules.iter().enumerate().filter_map(says).collect();
            (set.rules.iter().position(covers), near, edges)
        };
        let is_pattern =
            |index: usize| matches!(set.rules.get(index), Some(Compiled::Pattern { .. }));
        dir.exact = near
            .iter()
            .copied()
            .filter(|&index| !is_pattern(index))
            .collect();
        (dir.cover, dir.near, dir.edges) = (cover, near, edges);
        Some(dir)
    }

    /// Components of the absolute path, those of the root included.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.raw.len()
    }

    /// The index of the root it lies in.
    #[must_use]
    pub fn root(&self) -> usize {
        self.root
    }

    /// Components of the root's absolute path.
    #[must_use]
    pub fn root_depth(&self) -> usize {
        self.root_depth
    }

    /// The folded components of the absolute path.
    #[must_use]
    pub fn folded(&self) -> &[Vec<u8>] {
        &self.folded
    }

    /// The components of the absolute path as they are.
    #[must_use]
    pub fn components(&self) -> &[Vec<u8>] {
        &self.raw
    }

    /// It lies in a private cache ([`Root::git_only`]).
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.git_only
    }

    pub(super) fn same(&self, other: &Self) -> bool {
        self.raw == other.raw
    }

    /// Every name in it has one spelling, but for case and the like.
    #[must_use]
    pub fn has_plain_names(&self) -> bool {
        self.names == NameRules::Unix
    }

    pub(super) fn is_short_name(&self, name: &[u8]) -> bool {
        self.names == NameRules::Windows && fold::is_short_name(name)
    }

    /// The folded form of a name in it.
    #[must_use]
    pub fn fold<'n>(&self, name: &'n [u8]) -> Cow<'n, [u8]> {
        fold::fold(name, self.names)
    }

    /// The path of an object below the directory, by its folded components and as they are.
    pub(super) fn path<'a>(&'a self, folded: &[&'a [u8]], raw: &[&'a [u8]]) -> Path<'a> {
        let join = |dir: &'a [Vec<u8>], rest: &[&'a [u8]]| -> Vec<&'a [u8]> {
            dir.iter()
                .map(Vec::as_slice)
                .chain(rest.iter().copied())
                .collect()
        };
        Path {
            folded: join(&self.folded, folded),
            raw: join(&self.raw, raw),
            root_depth: self.root_depth,
            names: self.names,
        }
    }
}

/// The first `depth` components.
fn head<'p, 'a>(path: &'p [&'a [u8]], depth: usize) -> &'p [&'a [u8]] {
    path.get(..depth).unwrap_or(path)
}

/// What follows the first `depth` components.
fn tail<'p, 'a>(path: &'p [&'a [u8]], depth: usize) -> &'p [&'a [u8]] {
    path.get(depth..).unwrap_or_default()
}

/// `path` is `rule` or lies below it.
fn at_or_below(path: &[&[u8]], rule: &[Vec<u8>]) -> bool {
    path.len() >= rule.len() && path.iter().zip(rule).all(|(a, b)| *a == b.as_slice())
}

/// `path` is a directory on the way to `rule`.
fn above(path: &[&[u8]], rule: &[Vec<u8>]) -> bool {
    path.len() < rule.len() && path.iter().zip(rule).all(|(a, b)| *a == b.as_slice())
}

impl RuleSet {
    /// The rules in the order in which they are named.
    #[must_use]
    pub fn new(
        roots: Vec<Root>,
        rules: Vec<Rule>,
        exceptions: Vec<Arc<dyn Matcher>>,
        git: GitRules,
    ) -> Self {
        Self {
            roots,
            rules: rules.into_iter().map(Compiled::new).collect(),
            exceptions,
            git,
        }
    }

    /// Components of the absolute paths of the covered trees.
    #[must_use]
    pub fn roots(&self) -> Vec<&[Vec<u8>]> {
        self.roots.iter().map(|root| root.path.as_slice()).collect()
    }

    /// The first rule near the directory that passes the test.
    fn first(&self, dir: &Dir, test: impl Fn(&Compiled) -> bool) -> Option<usize> {
        self.first_of(&dir.near, test)
    }

    fn first_of(&self, some: &[usize], test: impl Fn(&Compiled) -> bool) -> Option<usize> {
        let pass = |index: &&usize| self.rules.get(**index).is_some_and(&test);
        some.iter().find(pass).copied()
    }

    /// The first rule that covers the object at `path` in `dir`.
    pub(super) fn covers(&self, dir: &Dir, path: &Path<'_>, facts: &dyn Facts) -> Option<usize> {
        // What covers the directory is known; for the rest only the last component is new.
        let entry = path.folded.get(dir.depth()..);
        let some = match entry {
            // Most names are like none that a pattern names.
            Some([name]) if !dir.edges.fit(name) => &dir.exact,
            _ => &dir.near,
        };
        let new = self.first_of(some, |rule| {
            self.rule_covers(rule, path, dir.depth(), Some(facts), dir.depth())
        });
        match (dir.cover, new) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The first rule that covers the directory itself.
    pub(super) fn covers_dir(&self, dir: &Dir, facts: &dyn Facts) -> Option<usize> {
        self.covers(dir, &dir.path(&[], &[]), facts)
    }

    /// The rule names the object at `path` or something above it, deeper than `from` components. Of the work trees
    /// around it only those at most `tops` components deep count: deeper ones move along.
    pub(super) fn rule_covers(
        &self,
        rule: &Compiled,
        path: &Path<'_>,
        from: usize,
        facts: Option<&dyn Facts>,
        tops: usize,
    ) -> bool {
        match rule {
            Compiled::Exact(rule) => rule.covers(path),
            Compiled::Repository(rule) => Self::tops(path, tops, facts, |rel| {
                at_or_below(rel, rule.get(path.names))
            }),
            Compiled::Pattern { matcher, liftable } => {
                // What is asked lies below a root; the root itself is not (semantics 1).
                let from = from.max(path.root_depth);
                (from + 1..=path.folded.len()).any(|depth| {
                    matcher.names(head(&path.folded, depth))
                        && !(*liftable && self.lifted(path, depth))
                })
            }
        }
    }

    /// Some old work tree at most `deepest` components deep around the object, from which the object's path passes `test`.
    fn tops(
        path: &Path<'_>,
        deepest: usize,
        facts: Option<&dyn Facts>,
        test: impl Fn(&[&[u8]]) -> bool,
    ) -> bool {
        facts.is_some_and(|facts| {
            (path.root_depth..=deepest)
                .any(|depth| test(tail(&path.folded, depth)) && facts.is_old_work_tree(depth))
        })
    }

    /// An exception names the object or something above it.
    fn lifted(&self, path: &Path<'_>, depth: usize) -> bool {
        (path.root_depth + 1..=depth).any(|d| {
            self.exceptions
                .iter()
                .any(|exception| exception.names(head(&path.raw, d)))
        })
    }

    /// The first exact or repository rule whose path goes through the object.
    pub(super) fn above_exact(
        &self,
        dir: &Dir,
        path: &Path<'_>,
        facts: &dyn Facts,
    ) -> Option<usize> {
        self.first(dir, |rule| {
            Self::is_above(rule, path, path.folded.len(), facts)
        })
    }

    /// As [`Self::above_exact`] for one rule; only work trees at most `deepest` components deep count.
    pub(super) fn is_above(
        rule: &Compiled,
        path: &Path<'_>,
        deepest: usize,
        facts: &dyn Facts,
    ) -> bool {
        match rule {
            Compiled::Exact(rule) => rule.is_below(path),
            Compiled::Repository(rule) => {
                let deepest = deepest.min(path.folded.len().saturating_sub(1));
                Self::tops(path, deepest, Some(facts), |rel| {
                    above(rel, rule.get(path.names))
                })
            }
            Compiled::Pattern { .. } => false,
        }
    }

    /// The first pattern of several components that may go on below the object.
    pub(super) fn above_pattern(&self, dir: &Dir, path: &Path<'_>) -> Option<usize> {
        self.first(dir, |rule| match rule {
            Compiled::Pattern { matcher, .. } => matcher.starts_at(&path.folded, path.root_depth),
            Compiled::Exact(_) | Compiled::Repository(_) => false,
        })
    }

    /// An exception may hold for what lies below the object, and may not elsewhere.
    pub(super) fn near_exception(&self, path: &Path<'_>) -> bool {
        self.lifted(path, path.raw.len())
            || self
                .exceptions
                .iter()
                .any(|e| e.starts_at(&path.raw, path.root_depth))
    }

    /// `HEAD`, `objects`, `refs` at the top of a root that is not a git directory itself.
    pub(super) fn is_bare_name(&self, dir: &Dir, name: &[u8], facts: &dyn Facts) -> bool {
        let ignores_case = self.roots.get(dir.root).is_some_and(|r| r.ignores_case);
        let is = |want: &str| {
            name == want.as_bytes()
                || ignores_case && *dir.fold(name) == *want.to_ascii_lowercase().as_bytes()
        };
        !dir.git_only
            && dir.depth() == dir.root_depth
            && ["HEAD", "objects", "refs"].into_iter().any(is)
            && !git_paths::is_git_directory(&dir.path(&[], &[]).folded, facts)
    }
}
