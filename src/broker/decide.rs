//! The decision on one operation inside a covered tree (D4, semantics 1–4, 8, 35; linux-engine.md §6).
//!
//! Pure: the broker resolves the parent directory to a descriptor, copies the name, looks up the kinds, and asks here,
//! *inside* the lock that keeps directories from moving (P2). Then it acts on the descriptor. The answer holds for the
//! absolute path of the pinned parent, never for the path the child wrote.
//!
//! | asked | answer |
//! |---|---|
//! | anything on a name a rule covers (the object named, or anything below it) | deny |
//! | rename or exchange of an ancestor of an exact rule's path | deny: with the ancestor the rule would move |
//! | a symbolic link made, linked or renamed to a *proper prefix* of a rule's path or of a pattern of several components | deny: `.git/hooks -> ../evil` defeats the rule without touching a name it denies |
//! | a directory renamed from or to such a prefix, or across an `allow_create` exception | look through the subtree: [`entry_may_move`] for each entry |
//! | exchange | as two renames |
//! | `RENAME_WHITEOUT` | deny: it leaves a device node under a name that was not judged |
//! | hard link | deny from a denied name (an alias would be writable) and to one |
//! | `HEAD`, `objects`, `refs` made at the top of a root that is not a git directory | deny (semantics 8) |
//! | entries of git directories | [`super::git_paths`] |
//!
//! Denies win over everything here; whether the tree is writable at all was decided by the mounts.

mod edges;
#[cfg(test)]
mod model;
mod pattern;
mod rules;
mod subtree;
#[cfg(test)]
mod tests;

pub use edges::Edge;
pub use pattern::{Denied, Excepted};
pub use rules::{Dir, GitRules, Matcher, Root, Rule, RuleSet};
pub use subtree::{entry_may_move, may_hide};

use super::action::{Action, Kind};
use super::git_paths::{self, Facts, Gate, Query, Ruling};

/// One name in a pinned directory.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The directory.
    pub dir: &'a Dir,
    /// The bytes copied from the child, one component: not empty, not `.` or `..`, no `/`.
    pub name: &'a [u8],
    /// What has the name now.
    pub kind: Kind,
    /// The file system around `dir`.
    pub facts: &'a dyn Facts,
}

impl std::fmt::Debug for Target<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}/{} ({:?})",
            self.dir,
            self.name.escape_ascii(),
            self.kind
        )
    }
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Act.
    Allow,
    /// EACCES, and a report.
    Deny(Reason),
    /// Take the exclusive lock and pass this check first.
    NeedsGate(Gate),
    /// Take the exclusive lock, ask [`entry_may_move`] for every entry of what moves, then pass the check, if any.
    NeedsSubtreeWalk(Option<Gate>),
}

/// Why it is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The rule at this index of the set covers the name or stands below it.
    Rule(usize),
    /// The git preset.
    Git(&'static str),
    /// `HEAD`, `objects` or `refs` at the top of a writable root.
    BareRepository,
    /// An 8.3 name: what it stands for cannot be told.
    ShortName,
    /// `RENAME_WHITEOUT`, or an exchange of entries that make a git directory.
    Unsupported,
}

/// Flags of renameat2(2). `RENAME_NOREPLACE` changes nothing here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RenameFlags {
    /// `RENAME_EXCHANGE`.
    pub exchange: bool,
    /// `RENAME_WHITEOUT`.
    pub whiteout: bool,
}

/// Decides a call that concerns one name: open, creat, mkdir, mknod, bind, symlink, unlink, rmdir, truncate, chmod.
#[must_use]
pub fn decide(set: &RuleSet, action: Action, at: &Target<'_>) -> Verdict {
    one(set, action, at, false)
}

/// Decides a call like [`decide`], whichever of these kinds has the name; what [`Target::kind`] says is not looked at.
#[must_use]
pub fn decide_each(set: &RuleSet, action: Action, at: &Target<'_>, kinds: &[Kind]) -> Verdict {
    each(set, action, at, kinds, false)
}

/// Decides `O_TMPFILE` in a directory. The file gets its name by linkat(2), which is asked on its own.
#[must_use]
pub fn decide_unnamed(set: &RuleSet, dir: &Dir, facts: &dyn Facts) -> Verdict {
    if dir.short_name {
        return Verdict::Deny(Reason::ShortName);
    }
    match set.covers_dir(dir, facts) {
        Some(rule) => Verdict::Deny(Reason::Rule(rule)),
        None => Verdict::Allow,
    }
}

/// Decides link(2). For a file without a name there is no `from`.
#[must_use]
pub fn decide_link(set: &RuleSet, from: Option<&Target<'_>>, to: &Target<'_>) -> Verdict {
    let kind = from.map_or(Kind::File, |from| from.kind);
    let from = from.map_or(Verdict::Allow, |from| {
        one(set, Action::LinkFrom, from, false)
    });
    both(from, one(set, Action::LinkTo(kind), to, false))
}

/// Decides rename(2) and renameat2(2).
#[must_use]
pub fn decide_rename(
    set: &RuleSet,
    from: &Target<'_>,
    to: &Target<'_>,
    flags: RenameFlags,
) -> Verdict {
    if flags.whiteout {
        return Verdict::Deny(Reason::Unsupported);
    }
    let stays = from.dir.same(to.dir);
    let leaves = one(set, Action::RenameFrom, from, stays);
    let there = both(leaves, one(set, Action::RenameTo(from.kind), to, stays));
    if !flags.exchange {
        return there;
    }
    let back = both(
        one(set, Action::RenameFrom, to, stays),
        one(set, Action::RenameTo(to.kind), from, stays),
    );
    let verdict = both(there, back);
    if matches!(
        verdict,
        Verdict::NeedsGate(_) | Verdict::NeedsSubtreeWalk(Some(_))
    ) {
        // Two directories could change at once; git never exchanges.
        return Verdict::Deny(Reason::Unsupported);
    }
    verdict
}

fn one(set: &RuleSet, action: Action, at: &Target<'_>, stays: bool) -> Verdict {
    each(set, action, at, &[at.kind], stays)
}

/// The first answer that is not "allow".
fn each(set: &RuleSet, action: Action, at: &Target<'_>, kinds: &[Kind], stays: bool) -> Verdict {
    if at.dir.short_name || at.dir.is_short_name(at.name) {
        return Verdict::Deny(Reason::ShortName);
    }
    let name = at.dir.fold(at.name);
    let path = at.dir.path(&[&name], &[at.name]);
    if let Some(rule) = set.covers(at.dir, &path, at.facts) {
        return Verdict::Deny(Reason::Rule(rule));
    }
    let verdicts = kinds
        .iter()
        .map(|&kind| not_covered(set, action, &Target { kind, ..*at }, &path, stays));
    let mut others = verdicts.filter(|verdict| *verdict != Verdict::Allow);
    others.next().unwrap_or(Verdict::Allow)
}

/// The answer for a name that no rule covers.
fn not_covered(
    set: &RuleSet,
    action: Action,
    at: &Target<'_>,
    path: &rules::Path<'_>,
    stays: bool,
) -> Verdict {
    let put = action.puts(at.kind);
    let moves_dir = put == Some(Kind::Dir) && matches!(action, Action::RenameTo(_))
        || action == Action::RenameFrom && at.kind == Kind::Dir;
    let links = put == Some(Kind::Symlink);
    let mut walk = false;
    // Only what moves or leads elsewhere has to do with names below.
    if moves_dir || links || action == Action::RenameFrom {
        if let Some(rule) = set.above_exact(at.dir, path, at.facts) {
            if action == Action::RenameFrom || links {
                return Verdict::Deny(Reason::Rule(rule));
            }
            walk |= moves_dir;
        }
        if let Some(rule) = set.above_pattern(at.dir, path) {
            if links {
                return Verdict::Deny(Reason::Rule(rule));
            }
            walk |= moves_dir;
        }
    }
    walk |= moves_dir && set.near_exception(path);
    if put.is_some() && at.kind == Kind::Absent && set.is_bare_name(at.dir, at.name, at.facts) {
        return Verdict::Deny(Reason::BareRepository);
    }
    if set.git == GitRules::Off {
        return verdict(walk, None);
    }
    match git_paths::rule(&query(at, &path.folded, action, stays)) {
        Ruling::Open => verdict(walk, None),
        Ruling::Closed(reason) if set.git == GitRules::Places && git_paths::is_preset(reason) => {
            verdict(walk, None)
        }
        Ruling::Closed(reason) => Verdict::Deny(Reason::Git(reason)),
        Ruling::Gate(gate) => verdict(walk, Some(gate)),
        Ruling::Walk => verdict(true, None),
    }
}

fn query<'a>(at: &Target<'a>, path: &'a [&'a [u8]], action: Action, stays: bool) -> Query<'a> {
    let (name, dir) = path.split_last().unwrap_or((&at.name, &[]));
    Query {
        dir,
        name,
        action,
        kind: at.kind,
        stays,
        exact: matches!(at.name, b"config" | b"config.worktree"),
        facts: at.facts,
    }
}

fn verdict(walk: bool, gate: Option<Gate>) -> Verdict {
    match (walk, gate) {
        (true, gate) => Verdict::NeedsSubtreeWalk(gate),
        (false, Some(gate)) => Verdict::NeedsGate(gate),
        (false, None) => Verdict::Allow,
    }
}

/// Both answers must be satisfied.
fn both(a: Verdict, b: Verdict) -> Verdict {
    let parts = |v| match v {
        Verdict::NeedsGate(gate) => (false, Some(gate)),
        Verdict::NeedsSubtreeWalk(gate) => (true, gate),
        Verdict::Allow | Verdict::Deny(_) => (false, None),
    };
    match (a, b) {
        (Verdict::Deny(reason), _) | (_, Verdict::Deny(reason)) => Verdict::Deny(reason),
        (a, b) => match (parts(a), parts(b)) {
            ((_, Some(_)), (_, Some(_))) => Verdict::Deny(Reason::Unsupported),
            ((walk_a, gate_a), (walk_b, gate_b)) => verdict(walk_a || walk_b, gate_a.or(gate_b)),
        },
    }
}
