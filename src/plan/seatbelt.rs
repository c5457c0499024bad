//! The path rules of a run in the form a Seatbelt profile takes: decided by path, not by mounts, and whether a path exists or not.
//!
//! | in the policy | for the profile |
//! |---|---|
//! | grants and read-denies | points: the answer at a path and below it, up to the next deeper point |
//! | protected paths, mandatory names, `deny_write`, own files | never written, after every grant |
//! | patterns | expressions that follow the name wherever the directory around it is moved |
//! | every directory above a denied path | pinned: renamed, it would carry the path away from its rule (R36) |
//!
//! Each path stands in every spelling by which it can be reached (R25).

mod spellings;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::PlanError;
use super::context::Ctx;
use super::mandatory::{self, Mandatory};
use super::names;
use super::paths::{Walk, upwards, within};
use super::resolve;
use super::rules::{Access, Never, ReadVerdict, Rules, place};
use super::{secrets, sockets, worktree};
use crate::host::fs_view::Kind;
use crate::host::{BrokerHost, FsView, HostFacts};
use crate::policy::path::PathEntry;
use crate::policy::pattern::PathPattern;
use crate::policy::pattern::expression::of_tail;
use crate::policy::{Layer, NetworkMode, Policy, Ruled, View};
use spellings::{firmlink, spellings};

/// What a rule of a profile matches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Match {
    /// A directory and what lies below it.
    Tree(PathBuf),
    /// The same path as a file, or something that may become one.
    Object(PathBuf),
    /// This very path, and nothing below: a link.
    Exact(PathBuf),
    /// An expression over the whole path.
    Expression(String),
}

/// An answer at a path and below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// Where.
    pub at: Match,
    /// Allowed.
    pub allowed: bool,
}

/// The rules of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeatbeltRules {
    /// `filesystem.disabled`: none of the path rules below.
    pub fs_disabled: bool,
    /// Read answers, parents first.
    pub read: Vec<Point>,
    /// Directories that are closed by the view and lead to something open: listed, so that paths resolve.
    pub ways: BTreeSet<PathBuf>,
    /// Write answers, parents first; where there is none, no.
    pub write: Vec<Point>,
    /// Expressions of built-in profiles that are never written.
    pub soft: Vec<Match>,
    /// What lifts those again, where a point allows it.
    pub lifts: Vec<Match>,
    /// Never written.
    pub never: BTreeSet<Match>,
    /// Neither moved nor removed.
    pub pins: BTreeSet<PathBuf>,
    /// Directories above a denied path that are not there yet: never made.
    pub unmade: BTreeSet<PathBuf>,
    /// Answers for programs, parents first; where there is none, yes.
    pub exec: Vec<Point>,
    /// What is open for programs whatever those say.
    pub exec_open: BTreeSet<Match>,
    /// Nothing but the proxies is reached.
    pub filtered: bool,
    /// Loopback ports of the host that are named in the allow list.
    pub ports: Vec<u16>,
    /// Sockets of others that are open.
    pub sockets: BTreeSet<Match>,
    /// Sockets that no entry opens.
    pub closed_sockets: BTreeSet<PathBuf>,
    /// `allow_local_binding`.
    pub local_binding: bool,
    /// `macos.dns`.
    pub dns: bool,
    /// `macos.allow_apple_events`.
    pub apple_events: bool,
}

/// The rules of a policy on a host. `tmp` is the private directory for temporary files.
pub fn rules(
    policy: &Policy,
    host: &HostFacts,
    fs: &dyn FsView,
    tmp: &Path,
) -> Result<SeatbeltRules, PlanError> {
    let network = resolve::network(policy)?;
    let mut out = SeatbeltRules {
        fs_disabled: policy.fs.disabled,
        filtered: policy.net.mode != NetworkMode::Open,
        ports: network.forwarded_ports,
        local_binding: policy.net.allow_local_binding,
        dns: policy.macos.dns,
        apple_events: policy.macos.allow_apple_events,
        ..SeatbeltRules::default()
    };
    if policy.fs.disabled {
        return Ok(out);
    }
    // Names are judged by the profile itself there.
    let host = &HostFacts {
        broker: BrokerHost::Lacks(String::new()),
        ..host.clone()
    };
    let ctx = Ctx { policy, host, fs };
    let (mut collected, mandatory) = resolve::collect(ctx, &mut Vec::new())?;
    same_paths(&collected)?;
    let found = secrets::absent(ctx, &collected.grants);
    collected.hides.extend(found);
    let mut building = Building {
        ctx,
        rules: &collected,
        tmp,
        out: &mut out,
    };
    building.points(&mandatory);
    building.nevers(&mandatory);
    building.patterns()?;
    building.pins();
    building.exec();
    (out.sockets, out.closed_sockets) = sockets::seatbelt(ctx)?;
    Ok(out)
}

/// Nothing can be shown at another path (semantics 12).
fn same_paths(rules: &Rules) -> Result<(), PlanError> {
    let Some(grant) = rules.grants.iter().find(|g| !g.is_identity()) else {
        return Ok(());
    };
    Err(PlanError {
        message: format!(
            "{} ({}): on macOS `guest_path` must be the same as `host_path`",
            grant.named.words,
            place(&grant.named.origin)
        ),
        hint: Some("remove `guest_path`".to_owned()),
    })
}

struct Building<'a> {
    ctx: Ctx<'a>,
    rules: &'a Rules,
    tmp: &'a Path,
    out: &'a mut SeatbeltRules,
}

/// Where `bound` hides everything that is not granted (semantics 11).
const CLOSED: [&str; 5] = [
    "/Users",
    "/Volumes",
    "/private/tmp",
    "/private/var/tmp",
    "/private/var/folders",
];

impl Building<'_> {
    /// The same answers as the mounts of Linux: between two points nothing changes.
    fn points(&mut self, mandatory: &Mandatory) {
        let all = (self.rules.nevers.iter()).chain(&mandatory.names);
        let partly: Vec<Never> = all.filter(|n| !n.except.is_empty()).cloned().collect();
        let excepted: Vec<Walk> = partly
            .iter()
            .flat_map(|n| n.except.iter().map(|p| self.ctx.walk(p)))
            .collect();
        let hides = self.rules.hides.iter().map(|h| &h.walk);
        let walks = (self.rules.grants.iter().map(|g| &g.walk))
            .chain(hides)
            .chain(partly.iter().map(|n| &n.walk))
            .chain(&excepted);
        let open = Rules {
            nevers: partly.clone(),
            ..self.rules.clone()
        };
        let base = self.base();
        let mut read: BTreeMap<Match, bool> = BTreeMap::new();
        let mut write: BTreeMap<Match, bool> = BTreeMap::new();
        let add = |map: &mut BTreeMap<Match, bool>, at: Match, allowed: bool| {
            map.entry(at)
                .and_modify(|a| *a &= allowed)
                .or_insert(allowed);
        };
        for walk in walks {
            let may_read = match open.read(&walk.real) {
                ReadVerdict::Hidden(_) => Some(false),
                ReadVerdict::Granted(_) => Some(true),
                ReadVerdict::View => None,
            };
            let may_write = open.write(&walk.real).is_ok();
            for path in spellings(walk) {
                let at = of_kind(path.clone(), walk.kind);
                add(&mut write, at.clone(), may_write);
                if let Some(may_read) = may_read {
                    add(&mut read, at, may_read);
                }
                if let (Some(false), Some(path)) = (may_read, firmlink(&path)) {
                    add(&mut read, of_kind(path, walk.kind), false);
                }
            }
        }
        for map in [&mut read, &mut write] {
            map.entry(Match::Tree(self.tmp.to_path_buf()))
                .or_insert(true);
        }
        for path in &base {
            read.entry(Match::Tree(path.clone())).or_insert(false);
        }
        for (at, _) in read.iter().filter(|(_, allowed)| **allowed) {
            self.ways_to(at, &base);
        }
        self.ways_to(&Match::Tree(self.ctx.host.home_real.join("_")), &base);
        self.out.read = sorted(read);
        self.out.write = sorted(write);
    }

    fn base(&self) -> BTreeSet<PathBuf> {
        if self.ctx.policy.fs.view != View::Bound {
            return BTreeSet::new();
        }
        let host = self.ctx.host;
        let homes = host.home_real.parent().filter(|p| *p != Path::new("/"));
        CLOSED
            .iter()
            .map(Path::new)
            .chain([host.home.as_path(), host.home_real.as_path()])
            .chain(homes)
            .flat_map(|p| spellings(&self.ctx.walk(p)))
            .flat_map(|p| firmlink(&p).into_iter().chain([p]))
            .collect()
    }

    fn ways_to(&mut self, at: &Match, base: &BTreeSet<PathBuf>) {
        let Some(path) = path_of(at) else { return };
        for dir in upwards(path).skip(1) {
            let closed = base.iter().any(|b| within(dir, b));
            if closed && !matches!(self.rules.read(dir), ReadVerdict::Hidden(_)) {
                self.out.ways.insert(dir.to_path_buf());
            }
        }
    }

    fn nevers(&mut self, mandatory: &Mandatory) {
        for never in self.rules.nevers.iter().chain(&mandatory.names) {
            if never.except.is_empty() {
                for path in spellings(&never.walk) {
                    self.never(path, never.walk.kind);
                }
            }
            for link in &never.walk.links {
                self.never(link.at.clone(), Some(Kind::Link));
            }
        }
        for path in &mandatory.absent {
            let walk = self.ctx.walk(path);
            for path in spellings(&walk) {
                self.never(path, walk.kind);
            }
        }
        for link in &mandatory.links {
            self.never(link.clone(), Some(Kind::Link));
        }
        for hide in &self.rules.hides {
            for link in &hide.walk.links {
                self.never(link.at.clone(), Some(Kind::Link));
            }
        }
        self.bare();
        for name in anywhere(self.ctx) {
            self.out.never.insert(Match::Expression(name));
        }
    }

    fn never(&mut self, path: PathBuf, kind: Option<Kind>) {
        // Only where somebody made it writable by that spelling.
        if let Some(other) = firmlink(&path).filter(|p| self.may_write(p)) {
            self.out.never.insert(of_kind(other, kind));
        }
        if kind.is_none() {
            for dir in upwards(&path).skip(1) {
                if self.may_write(dir) && self.ctx.walk(dir).kind.is_none() {
                    self.out.unmade.insert(dir.to_path_buf());
                }
            }
        }
        self.out.never.insert(of_kind(path, kind));
    }

    /// What the points say; the last one that covers the path.
    fn may_write(&self, path: &Path) -> bool {
        self.out
            .write
            .iter()
            .rev()
            .find(|p| path_of(&p.at).is_some_and(|at| within(path, at)))
            .is_some_and(|p| p.allowed)
    }

    /// Nothing makes the top of a writable root a bare repository (semantics 8).
    fn bare(&mut self) {
        for grant in self
            .rules
            .grants
            .iter()
            .filter(|g| g.access == Access::Write)
        {
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
        ] {
            for entry in entries {
                let PathEntry::Pattern(pattern) = &entry.value else {
                    continue;
                };
                let soft = matches!(entry.origin.layer, Layer::Profile(_));
                for expression in expressions(self.ctx, key, entry, pattern)? {
                    let at = Match::Expression(expression);
                    if soft {
                        self.out.soft.push(at);
                    } else {
                        self.out.never.insert(at);
                    }
                }
                if let Some(dir) = pattern.fixed() {
                    self.pin(dir);
                    let real = self.ctx.walk(dir).real;
                    self.pin(&real);
                }
            }
        }
        for entry in &fs.allow_create {
            match &entry.value {
                PathEntry::Pattern(pattern) => {
                    let found = expressions(self.ctx, "allow_create", entry, pattern)?;
                    self.out
                        .lifts
                        .extend(found.into_iter().map(Match::Expression));
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

    /// Everything a rule names, and all directories above.
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
    }

    fn exec(&mut self) {
        if !self.ctx.policy.exec_deny_writable {
            return;
        }
        // Written means not run; what is hidden is not opened by being read-only.
        let hidden = |at: &Match| self.out.read.iter().any(|p| p.at == *at && !p.allowed);
        let points = self
            .out
            .write
            .iter()
            .filter(|p| p.allowed || !hidden(&p.at));
        let points = points.map(|p| Point {
            at: p.at.clone(),
            allowed: !p.allowed,
        });
        self.out.exec = points.skip_while(|p| p.allowed).collect();
        let mut open = BTreeSet::new();
        // What cannot be written is as good as the rest of the system.
        for never in self.rules.nevers.iter().filter(|n| n.except.is_empty()) {
            if matches!(self.rules.read(&never.walk.real), ReadVerdict::Hidden(_)) {
                continue;
            }
            for path in spellings(&never.walk) {
                let below =
                    |p: &Point| p.allowed && path_of(&p.at).is_some_and(|at| within(at, &path));
                if self.may_write(&path) || self.out.write.iter().any(below) {
                    open.insert(of_kind(path, never.walk.kind));
                }
            }
        }
        let roots = &self.ctx.policy.fs.exec_grant_roots;
        for path in roots.iter().filter_map(|e| e.value.exact()) {
            let walk = self.ctx.walk(path);
            open.extend(spellings(&walk).into_iter().map(|p| of_kind(p, walk.kind)));
        }
        self.out.exec_open = open;
    }
}

/// The path of a match that has one.
#[must_use]
pub fn path_of(at: &Match) -> Option<&Path> {
    match at {
        Match::Tree(path) | Match::Object(path) | Match::Exact(path) => Some(path),
        Match::Expression(_) => None,
    }
}

fn of_kind(path: PathBuf, kind: Option<Kind>) -> Match {
    match kind {
        Some(Kind::Dir) => Match::Tree(path),
        Some(Kind::Link) => Match::Exact(path),
        Some(Kind::File | Kind::Other) | None => Match::Object(path),
    }
}

/// Parents first: the last rule that matches wins.
fn sorted(map: BTreeMap<Match, bool>) -> Vec<Point> {
    let mut out: Vec<Point> = map
        .into_iter()
        .map(|(at, allowed)| Point { at, allowed })
        .collect();
    let depth = |p: &Point| path_of(&p.at).map_or(0, super::paths::depth);
    // Of one path in both forms the refusal comes last.
    out.sort_by_key(|p| (depth(p), path_of(&p.at).map(Path::to_path_buf), !p.allowed));
    out
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
            let others = spellings::both(dir).into_iter().filter(|d| d != dir);
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
