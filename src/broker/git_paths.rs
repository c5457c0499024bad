//! Which entries of a git directory a sandboxed git may write (R34), and which lead to the gate.
//!
//! # What is a git directory
//!
//! A directory named `.git`, whatever it holds; and any directory that git would take for one. Git wants `HEAD`, `objects`
//! and `refs`, the last two in the directory itself or in the one that `commondir` names. So a directory is *complete* when
//! it has `refs` together with `HEAD` or `worktrees` (it may be the common directory of a linked work tree without
//! having a `HEAD`), or `HEAD` together with `commondir`. `HEAD` alone is not enough to be one: every clone has
//! `refs/remotes/origin/HEAD`, and a branch may be called `config` or `hooks/x`.
//!
//! The entry that would complete a directory is gated: its configuration must pass against an empty file, it must have no
//! hook but samples, no attributes, no foreign common directory, and the files git reads for settings are installed again
//! as fresh copies, so that descriptors and hard links made before point at dead inodes ([`Gate::Skeleton`]). From then
//! on the table below holds. A directory renamed to `.git` passes the same gate. That is the whole induction: whatever
//! git may read settings from has passed the gate since it became a git directory.
//!
//! # The table
//!
//! | entry of a git directory | rule |
//! |---|---|
//! | `config`, `config.worktree` | only replaced by a file beside it (`<name>.lock` with git, a name of its own with rsync), through [`Gate::Config`]; a missing one may be made, and what is written into it passes the same gate once it is closed ([`Gate::EmptyConfig`]); may be removed unless it is the project's own; a mode that lets nobody else write |
//! | `hooks` | may be made as a directory and removed, but never be a link or be moved |
//! | `hooks/*` | closed except `*.sample` |
//! | `info/attributes`, files in `branches/` and `remotes/` | closed; the last two are remotes by another syntax |
//! | `commondir` | closed; in `worktrees/ID/` of a git directory the broker writes it ([`Gate::Commondir`]) |
//! | `worktrees/ID` with a `commondir`, and `worktrees` around it | never moved: `../..` would lead to another directory |
//! | everything else (objects, refs, logs, index, HEAD, reftable, modules, rebase-merge, …) | open |
//!
//! Names are compared folded. The object format (sha1, sha256) and the ref storage (files, reftable) make no difference.

#[cfg(test)]
mod tests;

use super::action::{Action, Kind};

/// What git writes into `worktrees/ID/commondir`, and what the broker writes there in its place.
pub const COMMONDIR: &[u8] = b"../..\n";

/// What has to be looked up on pinned directories. `depth` counts components of the absolute path; the depth of the
/// directory that holds the name in question is the length of its path, that of the object itself one more.
pub trait Facts {
    /// The directory at `depth` has an entry of this name (not following links).
    fn holds(&self, depth: usize, name: &str) -> bool;
    /// The directory at `depth` is the git directory of a repository that the project had before the run: its
    /// configuration and hooks are not removed and it is not moved.
    fn is_project_git_dir(&self, depth: usize) -> bool;
    /// The directory at `depth` is the work tree of a repository that the broker did not see made in this run.
    fn is_old_work_tree(&self, depth: usize) -> bool;
}

/// Which check the broker has to make, under the exclusive lock, before or instead of acting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Gate {
    /// Compare the file with the one it replaces and install a copy: [`super::gate::compare_at`].
    Config,
    /// Make the file in place of the child, empty, and give it another one to write into; what it wrote is judged as a change once it is
    /// closed, and installed: [`super::gitdir::stage`].
    EmptyConfig,
    /// Check the directory that becomes a git directory: [`super::gate::skeleton::check`].
    Skeleton(Becomes),
    /// Check the directory as for [`Gate::Skeleton`] (it may become complete by this), write [`COMMONDIR`] in place of the
    /// child, and give it a descriptor of a file without a name.
    Commondir,
}

/// Which directory becomes a git directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Becomes {
    /// The one that gets the entry.
    Parent,
    /// The one that is renamed.
    Moved,
}

/// The answer for one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ruling {
    /// Nothing of git's stands against it.
    Open,
    /// Refused, with the reason for people.
    Closed(&'static str),
    /// Through the gate.
    Gate(Gate),
    /// Ask [`closed_below`] for each entry of the directory that moves.
    Walk,
}

/// One name in question.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    /// Folded components of the absolute path of the directory.
    pub dir: &'a [&'a [u8]],
    /// The folded name.
    pub name: &'a [u8],
    /// What is asked.
    pub action: Action,
    /// What has the name now.
    pub kind: Kind,
    /// A rename within one directory.
    pub stays: bool,
    /// The name is spelled as git spells it.
    pub exact: bool,
    /// The file system.
    pub facts: &'a dyn Facts,
}

impl std::fmt::Debug for Query<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?} {}/{}",
            self.action,
            self.dir.join(&b'/').escape_ascii(),
            self.name.escape_ascii()
        )
    }
}

pub(super) const CONFIG: &str = "git configuration is written by git itself, through config.lock";
const HOOKS: &str = "git hooks run on the host";
const ATTRIBUTES: &str = "git attributes select filters";
const REMOTES: &str = "a remote outside of the git configuration";
const COMMON: &str = "a common directory moves git configuration and hooks";
const PROJECT: &str = "the git directory of the project";

/// The reason is one of the places that only the preset closes (`filesystem.protect_git`); the others are mandatory.
#[must_use]
pub fn is_preset(reason: &str) -> bool {
    reason == ATTRIBUTES || reason == REMOTES
}

/// Judges one name.
#[must_use]
pub fn rule(q: &Query<'_>) -> Ruling {
    if let Some(ruling) = below_closed(q) {
        return ruling;
    }
    let depth = q.dir.len();
    match q.name {
        b"config" | b"config.worktree" if is_git_dir(q, depth) => config(q),
        b"hooks" if is_git_dir(q, depth) => hooks(q),
        b"info" if is_git_dir(q, depth) => match (q.action.puts(q.kind), q.action) {
            (Some(Kind::Symlink), _) => Ruling::Closed(ATTRIBUTES),
            (Some(Kind::Dir), Action::RenameTo(_)) => Ruling::Walk,
            (_, Action::RenameFrom) if q.kind == Kind::Dir => Ruling::Walk,
            _ => Ruling::Open,
        },
        b"attributes" if parent_is(q, b"info") => Ruling::Closed(ATTRIBUTES),
        b"branches" | b"remotes" if is_git_dir(q, depth) => {
            match (q.action.puts(q.kind), q.action) {
                (Some(Kind::Symlink), _) | (Some(Kind::Dir), Action::RenameTo(_)) => {
                    Ruling::Closed(REMOTES)
                }
                _ => Ruling::Open,
            }
        }
        b".git" => dot_git(q),
        b"commondir" if is_linked(q, depth) || is_git_dir(q, depth) => commondir(q),
        b"head" | b"refs" | b"worktrees" | b"commondir" => completing(q),
        _ if q.action == Action::RenameFrom && q.kind == Kind::Dir => moved_away(q),
        _ => Ruling::Open,
    }
}

/// Judges an entry, `rel` below a directory that moves from or to `dir`/`name`, after [`Ruling::Walk`].
#[must_use]
pub fn closed_below(q: &Query<'_>, rel: &[&[u8]]) -> Option<&'static str> {
    match (q.name, rel) {
        (b"info", [b"attributes"]) if is_git_dir(q, q.dir.len()) => Some(ATTRIBUTES),
        (b"worktrees", [_, b"commondir"]) => Some(COMMON),
        _ => None,
    }
}

/// True where git takes the directory at this folded path for a git directory, or it is named like one.
#[must_use]
pub fn is_git_directory(path: &[&[u8]], facts: &dyn Facts) -> bool {
    path.last().is_some_and(|name| *name == b".git")
        || complete(|name| facts.holds(path.len(), name))
}

/// True where the directory at this folded path is `worktrees/ID` of a git directory: the settings of a linked work tree
/// live there, and its `commondir` leads to the git directory two levels up.
#[must_use]
pub fn is_linked_directory(path: &[&[u8]], facts: &dyn Facts) -> bool {
    match path {
        [git_dir @ .., worktrees, _] => {
            *worktrees == b"worktrees" && is_git_directory(git_dir, facts)
        }
        _ => false,
    }
}

fn is_git_dir(q: &Query<'_>, depth: usize) -> bool {
    q.dir
        .get(..depth)
        .is_some_and(|path| is_git_directory(path, q.facts))
}

/// Whether git takes a directory with such entries for a git directory.
pub(super) fn complete(has: impl Fn(&str) -> bool) -> bool {
    has("refs") && (has("HEAD") || has("worktrees")) || has("HEAD") && has("commondir")
}

/// The directory at `depth` is `worktrees/ID` of a git directory.
fn is_linked(q: &Query<'_>, depth: usize) -> bool {
    q.dir
        .get(..depth)
        .is_some_and(|path| is_linked_directory(path, q.facts))
}

/// The directory that holds the name is called `name` and lies in a git directory.
fn parent_is(q: &Query<'_>, name: &[u8]) -> bool {
    q.dir
        .split_last()
        .is_some_and(|(last, above)| *last == name && is_git_dir(q, above.len()))
}

/// The git directory at `depth`, or one around it, is the project's.
fn is_project(q: &Query<'_>, depth: usize) -> bool {
    (0..=depth).any(|d| q.facts.is_project_git_dir(d))
}

/// Entries of `hooks`, `branches` and `remotes`, at any depth.
fn below_closed(q: &Query<'_>) -> Option<Ruling> {
    let (at, hooks) = q.dir.iter().enumerate().find_map(|(at, name)| {
        let hooks = *name == b"hooks";
        let closed = hooks || *name == b"branches" || *name == b"remotes";
        (closed && is_git_dir(q, at)).then_some((at, hooks))
    })?;
    let removes = matches!(q.action, Action::Unlink | Action::Rmdir);
    if !hooks {
        // Directories hold nothing by themselves; git's templates bring an empty `branches`.
        let harmless = matches!(
            q.action,
            Action::Mkdir | Action::Chmod { .. } | Action::RenameFrom
        );
        return Some(open_if(removes || harmless, REMOTES));
    }
    // rsync makes `.NAME.sample.XXXXXX` first. No hook has a name that starts with a dot.
    let kept = |name: &[u8]| {
        name.ends_with(b".sample")
            || name.starts_with(b".") && name.windows(8).any(|part| part == b".sample.")
    };
    let sample = at + 1 == q.dir.len() && q.name.len() > 7 && kept(q.name);
    // `rm -r` of a clone.
    Some(open_if(sample || removes && !is_project(q, at), HOOKS))
}

fn open_if(open: bool, reason: &'static str) -> Ruling {
    if open {
        Ruling::Open
    } else {
        Ruling::Closed(reason)
    }
}

fn config(q: &Query<'_>) -> Ruling {
    if q.action == Action::RenameTo(Kind::File) && q.stays && q.exact {
        return Ruling::Gate(Gate::Config);
    }
    if q.action == Action::Write && q.kind == Kind::Absent && q.exact {
        return Ruling::Gate(Gate::EmptyConfig);
    }
    let removed = q.action == Action::Unlink && !q.facts.is_project_git_dir(q.dir.len());
    // `git init` turns the execute bit on and off to learn whether the file system has one, and would write
    // `core.filemode = false` if it could not. Nobody else may get to write, and the owner keeps reading.
    let mode = matches!(q.action, Action::Chmod { from, to }
        if to & !from & 0o7022 == 0 && to & 0o600 == 0o600);
    open_if(removed || mode, CONFIG)
}

fn hooks(q: &Query<'_>) -> Ruling {
    let own = matches!(
        q.action,
        Action::Unlink | Action::Rmdir | Action::Chmod { .. }
    );
    let open = q.action == Action::Mkdir || own && !is_project(q, q.dir.len());
    open_if(open, HOOKS)
}

/// `.git` itself: a file or a link that points to a git directory is judged there.
fn dot_git(q: &Query<'_>) -> Ruling {
    match (q.action, q.kind) {
        (Action::RenameTo(Kind::Dir), _) => Ruling::Gate(Gate::Skeleton(Becomes::Moved)),
        (Action::RenameFrom, _) if q.facts.is_project_git_dir(q.dir.len() + 1) => {
            Ruling::Closed(PROJECT)
        }
        (Action::RenameFrom, Kind::Dir) => moved_away(q),
        _ => Ruling::Open,
    }
}

fn commondir(q: &Query<'_>) -> Ruling {
    match (q.action, q.kind) {
        (Action::Write, Kind::Absent) if is_linked(q, q.dir.len()) => Ruling::Gate(Gate::Commondir),
        // `git worktree remove` and `prune`.
        (Action::Unlink, _) => Ruling::Open,
        _ => Ruling::Closed(COMMON),
    }
}

/// An entry that can make the directory around it a git directory.
fn completing(q: &Query<'_>) -> Ruling {
    let depth = q.dir.len();
    if q.action.puts(q.kind).is_none() {
        return match (q.action, q.kind) {
            (Action::RenameFrom, Kind::Dir) if q.name == b"worktrees" => Ruling::Walk,
            (Action::RenameFrom, Kind::Dir) => moved_away(q),
            _ => Ruling::Open,
        };
    }
    let new = |name: &str| name.as_bytes().eq_ignore_ascii_case(q.name);
    if !is_git_dir(q, depth) && complete(|name| new(name) || q.facts.holds(depth, name)) {
        // Its content comes only after the gate, so no gate could judge it.
        if q.name == b"commondir" {
            return Ruling::Closed(COMMON);
        }
        return Ruling::Gate(Gate::Skeleton(Becomes::Parent));
    }
    Ruling::Open
}

/// A directory that goes to another place: a linked git directory may not, because its `commondir` is relative. Under another name in
/// the same directory it leads to where it led, and need not be looked into (which takes the right to search it).
fn moved_away(q: &Query<'_>) -> Ruling {
    let depth = q.dir.len() + 1;
    if !q.stays && q.facts.holds(depth, "commondir") && q.facts.holds(depth, "HEAD") {
        return Ruling::Closed(COMMON);
    }
    Ruling::Open
}
