//! What is never written, whatever is granted, and what keeps its place because of that.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::spellings::{self, firmlink, forms, spellings};
use super::{Match, SeatbeltRules, of_kind, path_of};
use crate::host::fs_view::Kind;
use crate::plan::PlanError;
use crate::plan::context::Ctx;
use crate::plan::mandatory::{self, Mandatory};
use crate::plan::names;
use crate::plan::paths::{upwards, within};
use crate::plan::rules::{Access, Rules, place};
use crate::plan::worktree;
use crate::policy::path::PathEntry;
use crate::policy::pattern::PathPattern;
use crate::policy::pattern::expression::of_tail;
use crate::policy::{Layer, Ruled};

/// Adds to rules that have their write answers.
pub(super) struct Nevers<'a> {
    ctx: Ctx<'a>,
    rules: &'a Rules,
    out: &'a mut SeatbeltRules,
}

impl<'a> Nevers<'a> {
    pub(super) fn new(ctx: Ctx<'a>, rules: &'a Rules, out: &'a mut SeatbeltRules) -> Self {
        Self { ctx, rules, out }
    }

    pub(super) fn collect(mut self, mandatory: &Mandatory) -> Result<(), PlanError> {
        self.paths(mandatory);
        self.bare();
        self.patterns()?;
        self.exceptions()?;
        self.pins();
        Ok(())
    }

    fn paths(&mut self, mandatory: &Mandatory) {
        for never in self.rules.nevers.iter().chain(&mandatory.names) {
            if never.except.is_empty() {
                let ours = matches!(never.named.origin.layer, Layer::BuiltIn(_));
                for path in spellings(&never.walk) {
                    let unmade = self.never(path, never.walk.kind);
                    if !ours {
                        self.out.unmade_for_spec.extend(unmade);
                    }
                }
            }
            never.walk.links.iter().for_each(|l| self.link(&l.at));
        }
        for path in &mandatory.absent {
            let walk = self.ctx.walk(path);
            for path in spellings(&walk) {
                self.never(path, walk.kind);
            }
        }
        mandatory.links.iter().for_each(|at| self.link(at));
        // The stage that becomes the command is this program: it is run wherever it stands, so it is not written there.
        if self.ctx.policy.exec_deny_writable {
            for path in spellings(&self.ctx.walk(&self.ctx.host.exe)) {
                if self.may_write(&path) {
                    self.never(path, Some(Kind::File));
                }
            }
        }
        let hidden = self.rules.hides.iter().flat_map(|h| &h.walk.links);
        hidden.for_each(|l| self.link(&l.at));
        let names = anywhere(self.ctx).into_iter().map(Match::Expression);
        self.out.never.extend(names);
    }

    /// A link on the way to a denied path: pointed elsewhere, it would free the name.
    fn link(&mut self, at: &Path) {
        for path in forms(at) {
            self.never(path, Some(Kind::Link));
        }
    }

    /// Also the directories above it that are not there; those are told.
    fn never(&mut self, path: PathBuf, kind: Option<Kind>) -> Vec<PathBuf> {
        // Only where somebody made it writable by that spelling.
        if let Some(other) = firmlink(&path).filter(|p| self.may_write(p)) {
            self.out.never.insert(of_kind(other, kind));
        }
        let unmade: Vec<PathBuf> = upwards(&path)
            .skip(1)
            .filter(|dir| kind.is_none() && self.may_write(dir))
            .filter(|dir| self.ctx.walk(dir).kind.is_none())
            .map(Path::to_path_buf)
            .collect();
        self.out.unmade.extend(unmade.iter().cloned());
        self.out.never.insert(of_kind(path, kind));
        unmade
    }

    /// What the points say; the last one that covers the path.
    fn may_write(&self, path: &Path) -> bool {
        let mut points = self.out.write.iter().rev();
        let covers = |at: &Match| path_of(at).is_some_and(|at| within(path, at));
        points.find(|p| covers(&p.at)).is_some_and(|p| p.allowed)
    }

    /// Nothing makes the top of a writable root a bare repository (semantics 8).
    fn bare(&mut self) {
        let written = |a| a == Access::Write;
        for grant in self.rules.grants.iter().filter(|g| written(g.access)) {
            let dir = grant.path();
            if grant.walk.kind != Some(Kind::Dir) || worktree::is_git_dir(self.ctx, dir) {
                continue;
            }
            for name in mandatory::BARE {
                let path = dir.join(name);
                if !self.ctx.exists(&path) {
                    self.never(path, None);
                }
            }
        }
    }

    fn patterns(&mut self) -> Result<(), PlanError> {
        let fs = &self.ctx.policy.fs;
        for (key, entries) in [
            ("protected_paths", &fs.protected),
            ("deny_write", &fs.deny_write),
            // What may not be read is not made either, and above all not moved to a name that may.
            ("deny_read", &fs.deny_read),
        ] {
            for entry in entries {
                let PathEntry::Pattern(pattern) = &entry.value else {
                    continue;
                };
                let hides = key == "deny_read";
                let soft = !hides && matches!(entry.origin.layer, Layer::Profile(_));
                for expression in expressions(self.ctx, key, entry, pattern)? {
                    let at = Match::Expression(expression);
                    if hides {
                        self.out.hidden.insert(at.clone());
                    }
                    if soft {
                        self.out.soft.push(at);
                    } else {
                        self.out.never.insert(at);
                    }
                }
                if let Some(dir) = pattern.fixed() {
                    let walk = self.ctx.walk(dir);
                    for dir in spellings(&walk) {
                        self.pin(&dir);
                    }
                }
            }
        }
        Ok(())
    }

    /// `allow_create`: what lifts the patterns of built-in profiles.
    fn exceptions(&mut self) -> Result<(), PlanError> {
        for entry in &self.ctx.policy.fs.allow_create {
            match &entry.value {
                PathEntry::Pattern(pattern) => {
                    let found = expressions(self.ctx, "allow_create", entry, pattern)?;
                    let found = found.into_iter().map(Match::Expression);
                    self.out.lifts.extend(found);
                }
                PathEntry::Exact(path) => {
                    let walk = self.ctx.walk(path);
                    let found = spellings(&walk).into_iter().map(Match::Object);
                    self.out.lifts.extend(found);
                }
            }
        }
        Ok(())
    }

    fn pin(&mut self, path: &Path) {
        let all = upwards(path).take_while(|p| *p != Path::new("/"));
        self.out.pins.extend(all.map(Path::to_path_buf));
    }

    /// Everything a rule names, and all directories above: renamed, one would carry the path away from its rule; replaced by another
    /// directory, it would bring in what the rule refuses.
    fn pins(&mut self) {
        let out = &*self.out;
        let mut paths: BTreeSet<PathBuf> = BTreeSet::new();
        let above = |at: &Match| path_of(at).and_then(Path::parent).map(Path::to_path_buf);
        paths.extend(out.never.iter().filter_map(above));
        let points = out.write.iter().filter_map(|p| path_of(&p.at));
        paths.extend(points.map(Path::to_path_buf));
        for path in paths {
            self.pin(&path);
        }
        let standing: Vec<PathBuf> = (self.out.pins.iter())
            .filter(|p| self.may_write(p) && self.ctx.exists(p))
            .cloned()
            .collect();
        self.out.unmade.extend(standing);
    }
}

/// Names that are closed at any depth. A profile cannot ask whose repository a directory is, so those that packages carry
/// (`.vscode`, `.idea`) and the second tier are held at the places of R31 only.
fn anywhere(ctx: Ctx<'_>) -> Vec<String> {
    let mut out: Vec<String> = mandatory::repository_names(ctx)
        .filter(|n| mandatory::is_first(n) && !matches!(*n, ".vscode" | ".idea"))
        .map(of_tail)
        .collect();
    // A link or a file of that name would lead git to another directory, and one made elsewhere would be moved into place.
    out.push("/[.][gG][iI][tT]$".to_owned());
    for name in mandatory::git_names(ctx.policy.fs.protect_git) {
        let tail = of_tail(name);
        out.push(format!("/[.][gG][iI][tT]{tail}"));
        out.push(format!(
            "/[.][gG][iI][tT]/[mM][oO][dD][uU][lL][eE][sS](/.*)?{tail}"
        ));
    }
    out
}

fn expressions(
    ctx: Ctx<'_>,
    key: &str,
    entry: &Ruled<PathEntry>,
    pattern: &PathPattern,
) -> Result<Vec<String>, PlanError> {
    let mut all = Vec::new();
    for spelled in names::spellings(ctx, pattern) {
        if let Some(dir) = spelled.fixed() {
            let mut others = spellings::both(dir);
            others.extend(firmlink(dir).filter(|_| key != "allow_create"));
            let others = others.into_iter().filter(|d| d != dir);
            all.extend(others.map(|d| spelled.with_fixed(&d)));
        }
        all.push(spelled);
    }
    let expression = |p: &PathPattern| {
        p.expression().map_err(|why| PlanError {
            message: format!(
                "{key} \"{}\" ({}) cannot be held on macOS: {why}",
                pattern.text,
                place(&entry.origin)
            ),
            hint: Some("write the names it stands for".to_owned()),
        })
    };
    all.iter().map(expression).collect()
}
