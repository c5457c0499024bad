//! What a directory may not carry along when it is renamed.

use std::borrow::Cow;

use super::super::action::{Action, Kind};
use super::super::git_paths::{self};
use super::rules::{Compiled, GitRules, Path, RuleSet};
use super::{Reason, Target, query};

/// Judges one entry, `rel` below a directory that goes from `from` to `to`, after [`super::Verdict::NeedsSubtreeWalk`].
/// For an exchange ask once more with the two swapped, for the entries of the other directory.
///
/// Refused is an entry that a rule covers at its new path or covered at its old one, where the rule's path or pattern
/// crosses the point that moves (a rule that lies wholly below it, such as `*.pem`, says the same before and after), an
/// entry that an exception lifts on one side only, and a symbolic link that would stand on the way of a rule.
#[must_use]
pub fn entry_may_move(
    set: &RuleSet,
    from: &Target<'_>,
    to: &Target<'_>,
    rel: &[&[u8]],
    kind: Kind,
) -> Option<Reason> {
    let old_names = names(from, rel);
    let new_names = names(to, rel);
    let (old_object, old) = paths(from, &old_names, rel);
    let (new_object, new) = paths(to, &new_names, rel);
    // Nothing moves from one tree to another: a tree is a mount.
    let rules = if from.dir.git_only || to.dir.git_only {
        &[]
    } else {
        set.rules.as_slice()
    };
    for (index, rule) in rules.iter().enumerate() {
        let refused = match rule {
            Compiled::Exact(_) | Compiled::Repository(_) => {
                set.rule_covers(rule, &new, 0, Some(to.facts), to.dir.depth())
                    || set.rule_covers(rule, &old, 0, Some(from.facts), from.dir.depth())
                    || kind == Kind::Symlink
                        && RuleSet::is_above(rule, &new, to.dir.depth(), to.facts)
            }
            Compiled::Pattern { matcher, liftable } => {
                let crosses = matcher.starts_at(&old_object.folded, old.root_depth)
                    || matcher.starts_at(&new_object.folded, new.root_depth);
                let was = set.rule_covers(rule, &old, old_object.folded.len(), None, 0);
                let will = set.rule_covers(rule, &new, new_object.folded.len(), None, 0);
                let link = kind == Kind::Symlink && matcher.starts_at(&new.folded, new.root_depth);
                crosses && (was || will || link) || *liftable && was != will
            }
        };
        if refused {
            return Some(Reason::Rule(index));
        }
    }
    if set.git == GitRules::Off {
        return None;
    }
    [
        (from, &old_object, Action::RenameFrom),
        (to, &new_object, Action::RenameTo(Kind::Dir)),
    ]
    .into_iter()
    .find_map(|(at, object, action)| {
        let rel: Vec<&[u8]> = old_names.iter().skip(1).map(|c| &**c).collect();
        git_paths::closed_below(&query(at, &object.folded, action, false), &rel)
            .filter(|reason| set.git == GitRules::Preset || !git_paths::is_preset(reason))
    })
    .map(Reason::Git)
}

/// Whether [`entry_may_move`] could refuse anything below the directory `rel` (the object itself, if empty), whatever stands there: then a
/// directory that cannot be read may not move along.
#[must_use]
pub fn may_hide(set: &RuleSet, from: &Target<'_>, to: &Target<'_>, rel: &[&[u8]]) -> bool {
    let old_names = names(from, rel);
    let new_names = names(to, rel);
    let (old_object, old) = paths(from, &old_names, rel);
    let (new_object, new) = paths(to, &new_names, rel);
    if !from.dir.git_only && !to.dir.git_only {
        for rule in &set.rules {
            let hides = match rule {
                Compiled::Exact(_) | Compiled::Repository(_) => {
                    RuleSet::is_above(rule, &new, to.dir.depth(), to.facts)
                        || RuleSet::is_above(rule, &old, from.dir.depth(), from.facts)
                        || set.rule_covers(rule, &new, 0, Some(to.facts), to.dir.depth())
                        || set.rule_covers(rule, &old, 0, Some(from.facts), from.dir.depth())
                }
                Compiled::Pattern { matcher, liftable } => {
                    let crosses = matcher.starts_at(&old_object.folded, old.root_depth)
                        || matcher.starts_at(&new_object.folded, new.root_depth);
                    crosses || *liftable && (set.near_exception(&old) || set.near_exception(&new))
                }
            };
            if hides {
                return true;
            }
        }
    }
    set.git != GitRules::Off
        && [from, to].into_iter().any(|at| {
            let name = at.dir.fold(at.name);
            *name == *b"info" || *name == *b"worktrees"
        })
}

/// The folded name of the object and of each component below it.
fn names<'a>(at: &Target<'a>, rel: &[&'a [u8]]) -> Vec<Cow<'a, [u8]>> {
    std::iter::once(at.name)
        .chain(rel.iter().copied())
        .map(|c| at.dir.fold(c))
        .collect()
}

/// The paths of the object and of the entry below it.
fn paths<'a>(
    at: &Target<'a>,
    names: &'a [Cow<'a, [u8]>],
    rel: &[&'a [u8]],
) -> (Path<'a>, Path<'a>) {
    let folded: Vec<&[u8]> = names.iter().map(|c| &**c).collect();
    let raw: Vec<&[u8]> = std::iter::once(at.name)
        .chain(rel.iter().copied())
        .collect();
    let object = at.dir.path(
        folded.get(..1).unwrap_or_default(),
        raw.get(..1).unwrap_or_default(),
    );
    (object, at.dir.path(&folded, &raw))
}
