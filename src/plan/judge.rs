//! What the broker would answer, asked of a file system that is only looked at: for `check`, and for grants of single files.

use std::path::{Path, PathBuf};

use super::paths::{rest, within};
use super::place;
use crate::broker::action::{Action, Kind};
use crate::broker::decide::{Dir, Reason, RuleSet, Target, Verdict, decide, decide_unnamed};
use crate::broker::git_paths::{self, Facts};
use crate::broker::plan::{BrokerPlan, Tree, components};
use crate::host::{FsView, fs_view};
use crate::policy::Origin;

/// An answer about one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) allowed: bool,
    /// The rule in words, with its place. For what is allowed: how, where that needs saying.
    pub(super) words: Option<String>,
    /// Where the rule was written, where it is one.
    pub(super) origin: Option<Origin>,
}

impl Judged {
    fn denied(words: impl Into<String>) -> Self {
        Self {
            allowed: false,
            words: Some(words.into()),
            origin: None,
        }
    }
}

/// May a host path be written, where it lies in a tree? What a rule of a built-in profile or the like says about a name is the same
/// through every tree, so the innermost is asked.
pub(super) fn write(
    plan: &BrokerPlan,
    set: &RuleSet,
    fs: &dyn FsView,
    path: &Path,
) -> Option<Judged> {
    let trees = plan.trees.iter().enumerate();
    let (index, tree) = trees
        .filter(|(_, t)| within(path, &t.host))
        .max_by_key(|(_, t)| t.host.as_os_str().len())?;
    Some(judge(plan, set, fs, (index, tree), path))
}

/// May a path inside be written, where it lies in a tree?
pub(super) fn write_inside(plan: &BrokerPlan, fs: &dyn FsView, guest: &Path) -> Option<Judged> {
    let trees = plan.trees.iter().enumerate();
    let (index, tree) = trees
        .filter(|(_, t)| within(guest, &t.guest))
        .max_by_key(|(_, t)| t.guest.as_os_str().len())?;
    let host = tree.host.join(rest(guest, &tree.guest));
    Some(judge(plan, &plan.rule_set(), fs, (index, tree), &host))
}

fn judge(
    plan: &BrokerPlan,
    set: &RuleSet,
    fs: &dyn FsView,
    (index, tree): (usize, &Tree),
    path: &Path,
) -> Judged {
    let facts = Looked { fs, path };
    let below = components(rest(path, &tree.host));
    let parts: Vec<&[u8]> = below.iter().map(Vec::as_slice).collect();
    let kind = kind(fs, path);
    let verdict = if let (Some((name, dir)), false) = (parts.split_last(), kind == Kind::Dir) {
        Dir::new(set, index, dir).map(|dir| {
            let target = Target {
                dir: &dir,
                name,
                kind,
                facts: &facts,
            };
            decide(set, Action::Write, &target)
        })
    } else {
        // A directory is written by making entries in it.
        Dir::new(set, index, &parts).map(|dir| decide_unnamed(set, &dir, &facts))
    };
    match verdict {
        Some(Verdict::Deny(reason)) => denied(plan, reason),
        Some(Verdict::NeedsGate(_)) => Judged {
            allowed: true,
            words: Some("through the check of what becomes a git directory".to_owned()),
            origin: None,
        },
        Some(Verdict::Allow | Verdict::NeedsSubtreeWalk(_)) => Judged {
            allowed: true,
            words: None,
            origin: None,
        },
        None => Judged::denied("not part of a writable tree"),
    }
}

fn denied(plan: &BrokerPlan, reason: Reason) -> Judged {
    match reason {
        Reason::Rule(index) => plan.rules.get(index).map_or_else(
            || Judged::denied("a rule of this run"),
            |rule| Judged {
                origin: Some(rule.origin.clone()),
                ..Judged::denied(format!("{} ({})", rule.words, place(&rule.origin)))
            },
        ),
        Reason::Git(why) => Judged::denied(git_words(why)),
        Reason::BareRepository => Judged::denied(BARE_REPOSITORY),
        Reason::ShortName => Judged::denied(SHORT_NAME),
        Reason::Unsupported => Judged::denied("no sandboxed command may do that"),
    }
}

/// Words of a git rule (`Reason::Git`, and what the gate of a configuration says).
#[must_use]
pub fn git_words(why: &str) -> String {
    if git_paths::is_preset(why) {
        format!("{why} (built-in git preset)")
    } else {
        format!("{why} (built-in git rules, no entry lifts them)")
    }
}

/// Words of a bare repository at the top of a root (`Reason::BareRepository`).
pub const BARE_REPOSITORY: &str = "it would make the top of a writable root a bare repository (built-in mandatory, no entry lifts it)";
/// Words of an 8.3 name (`Reason::ShortName`).
pub const SHORT_NAME: &str = "a short (8.3) name may stand for a protected one";

fn kind(fs: &dyn FsView, path: &Path) -> Kind {
    match fs.kind(path) {
        None => Kind::Absent,
        Some(fs_view::Kind::File) => Kind::File,
        Some(fs_view::Kind::Dir) => Kind::Dir,
        Some(fs_view::Kind::Link) => Kind::Symlink,
        Some(fs_view::Kind::Other) => Kind::Other,
    }
}

/// The file system around a path before the run: every repository in it is an old one.
struct Looked<'a> {
    fs: &'a dyn FsView,
    path: &'a Path,
}

impl Looked<'_> {
    /// The directory at `depth` components of the path.
    fn at(&self, depth: usize) -> PathBuf {
        self.path.components().take(depth + 1).collect()
    }
}

impl Facts for Looked<'_> {
    fn holds(&self, depth: usize, name: &str) -> bool {
        self.fs.kind(&self.at(depth).join(name)).is_some()
    }

    fn is_project_git_dir(&self, depth: usize) -> bool {
        let dir = components(&self.at(depth));
        let path: Vec<&[u8]> = dir.iter().map(Vec::as_slice).collect();
        path.len() == depth
            && self.fs.kind(&self.at(depth)) == Some(fs_view::Kind::Dir)
            && git_paths::is_git_directory(&path, self)
    }

    fn is_old_work_tree(&self, depth: usize) -> bool {
        self.holds(depth, ".git")
    }
}
