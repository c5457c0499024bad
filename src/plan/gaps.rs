//! What the rules ask for and this plan cannot hold (R14): said in words, never dropped in silence.
//!
//! Where the creation broker works that is little. Where it does not, mounts hold what exists; a rule that somebody wrote down and that
//! mounts cannot hold is refused, the rest is named.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::context::Ctx;
use super::mandatory::Mandatory;
use super::paths::Walk;
use super::reads::ByName;
use super::rules::{Named, Rules, Strength, place};
use super::tree::{Node, Tree};
use super::{Gap, PlanError, other_runs, sockets};
use crate::broker::plan::BrokerPlan;
use crate::host::BrokerHost;
use crate::host::fs_view::Kind;
use crate::policy::path::PathEntry;
use crate::policy::{Layer, Origin};

/// Names of a gap's text at most.
const NAMED: usize = 5;

/// What is missing of a plan.
#[derive(Debug, Default)]
pub(super) struct Missing {
    /// What is said.
    pub(super) gaps: Vec<Gap>,
    /// Somebody wrote a rule that is not held: no sandboxed run may start.
    pub(super) refusal: Option<PlanError>,
    /// Protected files that nothing but a mount protects.
    replaceable: BTreeSet<PathBuf>,
}

/// Gaps of a finished tree.
///
/// `unheld` are hidden files that nothing but a mount hides.
pub(super) fn collect(
    ctx: Ctx<'_>,
    (rules, mandatory): (&Rules, &Mandatory),
    tree: &Tree,
    (broker, by_name): (Option<&BrokerPlan>, &ByName<'_>),
    unheld: &[PathBuf],
) -> Missing {
    let mut out = match &ctx.host.broker {
        BrokerHost::Works => Missing {
            gaps: other_runs::gap(ctx, broker).into_iter().collect(),
            ..Missing::default()
        },
        BrokerHost::Lacks(why) => of_mounts(ctx, rules, mandatory, tree, why),
    };
    let replaced = host_replace(ctx, rules, unheld, &out.replaceable);
    out.gaps.extend(replaced);
    out.gaps.extend(late_secrets(ctx, rules, tree, by_name));
    out
}

/// What the child makes itself it may read (semantics 6), but the host may put a secret there too.
fn late_secrets(ctx: Ctx<'_>, rules: &Rules, tree: &Tree, by_name: &ByName<'_>) -> Option<Gap> {
    let hides = rules.hides.iter().filter(|h| !by_name.holds(h));
    let absent: BTreeSet<String> = hides
        .filter(|h| h.walk.kind.is_none() && creatable(ctx, tree, &h.walk.real))
        .map(|h| format!("`{}` ({})", h.named.words, place(&h.named.origin)))
        .collect();
    (!absent.is_empty()).then(|| {
        let shown: Vec<String> = absent.iter().take(NAMED).cloned().collect();
        Gap {
            name: "late-secrets",
            text: format!(
                "what does not exist yet cannot be hidden: if the host makes it during the run, the command can read {}",
                shown.join(", ")
            ),
        }
    })
}

/// Gaps without a broker. A protected path that goes *through* a link the child can re-point is refused: nothing would be left of it;
/// so is one that does not exist yet.
fn of_mounts(
    ctx: Ctx<'_>,
    rules: &Rules,
    mandatory: &Mandatory,
    tree: &Tree,
    why: &str,
) -> Missing {
    let mut refusal = patterns(ctx, tree, why).or_else(|| sockets::refusal(ctx, why));
    let mut absent: BTreeSet<String> = BTreeSet::new();
    let mut links: BTreeSet<PathBuf> = BTreeSet::new();
    let mut files: BTreeSet<PathBuf> = BTreeSet::new();
    for n in rules.nevers.iter() {
        let told = |n: &Named| format!("`{}` ({})", n.words, place(&n.origin));
        if n.walk.kind.is_none()
            && creatable(ctx, tree, &n.walk.real)
            && n.strength != Strength::Own
        {
            if is_asked_for(&n.named.origin) {
                refusal.get_or_insert_with(|| not_yet(&n.named, why));
            }
            absent.insert(told(&n.named));
        }
        if n.walk.kind == Some(Kind::File) && in_writable(tree, &n.walk.real) {
            files.insert(n.walk.real.clone());
        }
        for link in n.walk.links.iter().filter(|l| in_writable(tree, &l.at)) {
            if !link.last && n.strength != Strength::Mandatory {
                refusal.get_or_insert_with(|| re_pointable(&n.named, &link.at, &n.walk));
            }
            links.insert(link.at.clone());
        }
    }
    links.extend(
        mandatory
            .links
            .iter()
            .filter(|l| in_writable(tree, l))
            .cloned(),
    );
    let mut built_in: Vec<&Path> = mandatory
        .absent
        .iter()
        .filter(|p| creatable(ctx, tree, p))
        .filter_map(|p| p.parent())
        .collect();
    built_in.sort_unstable();
    built_in.dedup();

    let mut gaps = Vec::new();
    if !absent.is_empty() || !built_in.is_empty() {
        let mut text = String::from(
            "mounts cannot refuse a name that does not exist yet: the command can create ",
        );
        let spec: Vec<String> = absent.iter().take(NAMED).cloned().collect();
        text.push_str(&spec.join(", "));
        if absent.len() > NAMED {
            // Writing into a String cannot fail.
            let _ = write!(text, " and {} more", absent.len() - NAMED);
        }
        if !built_in.is_empty() {
            if !absent.is_empty() {
                text.push_str("; also ");
            }
            text.push_str("mandatory names (.mcp.json, .git/hooks and the like) in writable directories that lack them, and git directories below their top");
        }
        gaps.push(Gap {
            name: "absent-names",
            text,
        });
    }
    if !links.is_empty() {
        gaps.push(Gap {
            name: "link-names",
            text: format!(
                "mounts cannot hold a symbolic link in a writable directory: what it leads to is protected, but the command can point {} elsewhere",
                list(links.iter().map(PathBuf::as_path))
            ),
        });
    }
    gaps.extend(profile_patterns(ctx, tree));
    Missing {
        gaps,
        refusal,
        replaceable: files,
    }
}

/// Files whose mount a host program takes away by rename(2) over it: protected ones, and hidden ones the caller could read.
fn host_replace(
    ctx: Ctx<'_>,
    rules: &Rules,
    unheld: &[PathBuf],
    files: &BTreeSet<PathBuf>,
) -> Option<Gap> {
    // What somebody wrote before ccbox's own rows: only the first few are named.
    let mut hidden: BTreeSet<(bool, &Path)> = BTreeSet::new();
    for h in &rules.hides {
        let path = &h.walk.real;
        // What the caller's own permissions keep from it stays kept.
        if unheld.contains(path) && ctx.fs.readable(path) {
            let own_row = matches!(h.named.origin.layer, Layer::BuiltIn(_));
            hidden.insert((own_row, path));
        }
    }
    let mut lost: Vec<String> = Vec::new();
    if !files.is_empty() {
        let files = files.iter().map(PathBuf::as_path);
        lost.push(format!("can then be written: {}", list(files)));
    }
    if !hidden.is_empty() {
        let hidden = hidden.iter().map(|(_, p)| *p);
        lost.push(format!(
            "can then be read: {} (a pattern in deny_read, of this or any other name, has opens decided by name, which holds them)",
            list(hidden)
        ));
    }
    (!lost.is_empty()).then(|| Gap {
        name: "host-replace",
        text: format!(
            "a host program that replaces a protected or hidden file during the run (write new, rename over) takes its mount away; {}",
            lost.join("; ")
        ),
    })
}

/// Some directory of the host is writable.
fn writable_host(tree: &Tree) -> bool {
    tree.iter()
        .any(|(_, node)| matches!(node, Node::Host { rw: true, .. }))
}

/// Patterns somebody asked for are held by the broker or not at all.
fn patterns(ctx: Ctx<'_>, tree: &Tree, why: &str) -> Option<PlanError> {
    let fs = &ctx.policy.fs;
    if fs.trace {
        return Some(PlanError {
            message: format!("`--trace` needs the creation broker, which cannot work here: {why}"),
            hint: Some("leave it out".to_owned()),
        });
    }
    let lists = [
        ("protected_paths", &fs.protected),
        ("deny_write", &fs.deny_write),
        ("deny_read", &fs.deny_read),
    ];
    let asked = lists.iter().flat_map(|(key, list)| {
        list.iter()
            .filter(|e| is_asked_for(&e.origin))
            .map(move |e| (*key, e))
    });
    let written = writable_host(tree);
    let (key, entry) = asked
        .filter(|(key, _)| written || *key == "deny_read")
        .find(|(_, e)| e.value.exact().is_none())?;
    let PathEntry::Pattern(pattern) = &entry.value else {
        return None;
    };
    Some(PlanError {
        message: format!(
            "`{}` ({key}, {}): name patterns need the creation broker, which cannot work here: {why}",
            pattern.text,
            place(&entry.origin)
        ),
        hint: Some("name the existing paths one by one".to_owned()),
    })
}

/// Not a rule that ccbox brings along.
pub(super) fn is_asked_for(origin: &Origin) -> bool {
    !matches!(origin.layer, Layer::Profile(_) | Layer::BuiltIn(_))
}

/// Patterns a built-in profile brings along.
fn profile_patterns(ctx: Ctx<'_>, tree: &Tree) -> Option<Gap> {
    let texts: Vec<String> = ctx
        .policy
        .fs
        .deny_write
        .iter()
        .filter_map(|e| match &e.value {
            PathEntry::Pattern(pattern) => Some(format!("`{}`", pattern.text)),
            PathEntry::Exact(_) => None,
        })
        .collect();
    (!texts.is_empty() && writable_host(tree)).then(|| Gap {
        name: "name-patterns",
        text: format!(
            "mounts cannot hold name patterns: the command can create and change {}",
            texts.join(", ")
        ),
    })
}

fn not_yet(named: &Named, why: &str) -> PlanError {
    PlanError {
        message: format!(
            "{} ({}) does not exist yet and lies in a writable directory: only the creation broker can hold it, which cannot work here: {why}",
            named.words,
            place(&named.origin)
        ),
        hint: Some("create it first, or remove the entry".to_owned()),
    }
}

fn list<'a>(paths: impl ExactSizeIterator<Item = &'a Path>) -> String {
    let more = paths.len().saturating_sub(NAMED);
    let mut shown: Vec<String> = paths
        .take(NAMED)
        .map(|p| format!("`{}`", p.display()))
        .collect();
    if more > 0 {
        shown.push(format!("{more} more"));
    }
    shown.join(", ")
}

/// The entry at `path` lies in a directory whose entries the child can change.
fn in_writable(tree: &Tree, path: &Path) -> bool {
    path.parent()
        .is_some_and(|p| tree.places(p).any(|(_, rw)| rw))
}

/// The child could make `path` come to exist on the host.
fn creatable(ctx: Ctx<'_>, tree: &Tree, path: &Path) -> bool {
    path.ancestors()
        .skip(1)
        .find(|a| ctx.exists(a))
        .is_some_and(|a| tree.places(a).any(|(_, rw)| rw))
}

fn re_pointable(named: &Named, link: &Path, walk: &Walk) -> PlanError {
    PlanError {
        message: format!(
            "{} ({}) goes through the link `{}`, which lies in a writable directory: the command could point it elsewhere, and mounts cannot prevent that",
            named.words,
            place(&named.origin),
            link.display()
        ),
        hint: Some(format!(
            "protect `{}`, or the directory of the link",
            walk.real.display()
        )),
    }
}
