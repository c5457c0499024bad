//! What the rules ask for and mounts cannot hold (R14): said in words, never dropped in silence.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::context::Ctx;
use super::mandatory::Mandatory;
use super::paths::Walk;
use super::rules::{Named, Rules, Strength, place};
use super::tree::Tree;
use super::{Gap, PlanError};
use crate::host::fs_view::Kind;
use crate::policy::Layer;

/// Names of a gap's text at most.
const NAMED: usize = 5;

/// Gaps of a finished tree. A protected path that goes *through* a link the child can re-point is refused: nothing would be left of it.
pub(super) fn collect(
    ctx: Ctx<'_>,
    rules: &Rules,
    mandatory: &Mandatory,
    tree: &Tree,
    unheld: &[PathBuf],
) -> Result<Vec<Gap>, PlanError> {
    let mut absent: BTreeSet<String> = BTreeSet::new();
    let mut links: BTreeSet<PathBuf> = BTreeSet::new();
    let mut files: BTreeSet<PathBuf> = BTreeSet::new();
    // What somebody wrote before ccbox's own rows: only the first few are named.
    let mut hidden: BTreeSet<(bool, PathBuf)> = BTreeSet::new();
    for n in &rules.nevers {
        let told = |n: &Named| format!("`{}` ({})", n.words, place(&n.origin));
        if n.walk.kind.is_none()
            && creatable(ctx, tree, &n.walk.real)
            && n.strength != Strength::Own
        {
            absent.insert(told(&n.named));
        }
        if n.walk.kind == Some(Kind::File) && in_writable(tree, &n.walk.real) {
            files.insert(n.walk.real.clone());
        }
        for link in n.walk.links.iter().filter(|l| in_writable(tree, &l.at)) {
            if !link.last && n.strength != Strength::Mandatory {
                return Err(re_pointable(&n.named, &link.at, &n.walk));
            }
            links.insert(link.at.clone());
        }
    }
    for h in &rules.hides {
        if h.walk.kind.is_none() && creatable(ctx, tree, &h.walk.real) {
            absent.insert(format!("`{}` ({})", h.named.words, place(&h.named.origin)));
        }
        // What the caller's own permissions keep from it stays kept.
        if unheld.contains(&h.walk.real) && ctx.fs.readable(&h.walk.real) {
            let own_row = matches!(h.named.origin.layer, Layer::BuiltIn(_));
            hidden.insert((own_row, h.walk.real.clone()));
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

    let mut out = Vec::new();
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
        out.push(Gap {
            name: "absent-names",
            text,
        });
    }
    if !links.is_empty() {
        out.push(Gap {
            name: "link-names",
            text: format!(
                "mounts cannot hold a symbolic link in a writable directory: what it leads to is protected, but the command can point {} elsewhere",
                list(links.iter())
            ),
        });
    }
    // rename(2) over a mount point of another mount namespace takes that mount away.
    let mut lost: Vec<String> = Vec::new();
    if !files.is_empty() {
        lost.push(format!("can then be written: {}", list(files.iter())));
    }
    if !hidden.is_empty() {
        lost.push(format!(
            "can then be read: {}",
            list(hidden.iter().map(|(_, p)| p))
        ));
    }
    if !lost.is_empty() {
        out.push(Gap {
            name: "host-replace",
            text: format!(
                "a host program that replaces a protected or hidden file during the run (write new, rename over) takes its mount away; {}",
                lost.join("; ")
            ),
        });
    }
    Ok(out)
}

fn list<'a>(paths: impl ExactSizeIterator<Item = &'a PathBuf>) -> String {
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
