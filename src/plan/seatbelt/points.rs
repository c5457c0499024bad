//! Where an answer begins: at a path and below it, up to the next deeper one. The same answers as the mounts of Linux.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::spellings::{firmlink, spellings};
use super::{Match, Point, of_kind, path_of};
use crate::host::fs_view::Kind;
use crate::plan::context::Ctx;
use crate::plan::mandatory::Mandatory;
use crate::plan::paths::{Walk, depth, upwards, within};
use crate::plan::rules::{Never, ReadVerdict, Rules, Strength};
use crate::policy::View;
use crate::policy::pattern::fold;

/// Where `bound` hides everything that is not granted (semantics 11).
const CLOSED: [&str; 5] = [
    "/Users",
    "/Volumes",
    "/private/tmp",
    "/private/var/tmp",
    "/private/var/folders",
];

/// Answers at one path: the stricter one where two rules name it.
#[derive(Default)]
struct Answers(BTreeMap<Match, bool>);

impl Answers {
    fn add(&mut self, at: Match, allowed: bool) {
        self.0
            .entry(at)
            .and_modify(|a| *a &= allowed)
            .or_insert(allowed);
    }

    /// A refusal holds by way of the data volume too.
    fn refuse_elsewhere(&mut self, path: &Path, kind: Option<Kind>) {
        if let Some(path) = firmlink(path) {
            self.add(of_kind(path, kind), false);
        }
    }

    /// Parents first: the last rule that matches wins. Of one path in two forms the refusal comes last.
    fn sorted(self) -> Vec<Point> {
        let points = self.0.into_iter();
        let mut out: Vec<Point> = points.map(|(at, allowed)| Point { at, allowed }).collect();
        let key = |p: &Point| {
            let path = path_of(&p.at);
            (
                path.map_or(0, depth),
                path.map(Path::to_path_buf),
                !p.allowed,
            )
        };
        out.sort_by_cached_key(key);
        out
    }

    /// As `sorted`, without what is open in a place that is open anyway.
    fn pruned(self) -> Vec<Point> {
        let mut out = self.sorted();
        let folded = |path: &Path| fold(path.as_os_str().as_encoded_bytes());
        let refused = out.iter().filter(|p| !p.allowed);
        let closed: BTreeSet<Vec<u8>> =
            refused.filter_map(|p| path_of(&p.at).map(folded)).collect();
        // A refusal matches without regard to case.
        let in_closed = |at: &Path| upwards(at).any(|above| closed.contains(&folded(above)));
        out.retain(|p| !p.allowed || path_of(&p.at).is_none_or(in_closed));
        out
    }
}

/// A place where some rule begins.
struct Spot {
    /// Every path that leads there.
    spelled: Vec<PathBuf>,
    /// Without links.
    real: PathBuf,
    kind: Option<Kind>,
}

impl Spot {
    fn new(walk: &Walk) -> Self {
        Self {
            spelled: spellings(walk),
            real: walk.real.clone(),
            kind: walk.kind,
        }
    }
}

/// The rules of a run, and every place where one begins.
pub(super) struct Points<'a> {
    ctx: Ctx<'a>,
    rules: &'a Rules,
    /// The same without what is never written whatever the grants say: that is said last, once.
    open: Rules,
    tmp: &'a Path,
    base: BTreeSet<PathBuf>,
    spots: Vec<Spot>,
    /// What is to be read whatever the view: certificates, ccbox itself.
    shown: Vec<Spot>,
}

impl<'a> Points<'a> {
    pub(super) fn new(
        ctx: Ctx<'a>,
        rules: &'a Rules,
        mandatory: &Mandatory,
        tmp: &'a Path,
    ) -> Self {
        let nevers = rules.nevers.iter().chain(&mandatory.names);
        let partly: Vec<Never> = nevers.filter(|n| !n.except.is_empty()).cloned().collect();
        let excepted = partly.iter().flat_map(|n| n.except.iter());
        let excepted: Vec<Walk> = excepted.map(|p| ctx.walk(p)).collect();
        let walks = (rules.grants.iter().map(|g| &g.walk))
            .chain(rules.hides.iter().map(|h| &h.walk))
            .chain(partly.iter().map(|n| &n.walk))
            .chain(&excepted);
        let spots = walks.map(Spot::new).collect();
        Self {
            ctx,
            rules,
            open: Rules {
                nevers: partly.into(),
                ..rules.clone()
            },
            tmp,
            base: base(ctx),
            spots,
            shown: rules.shows.iter().map(Spot::new).collect(),
        }
    }

    fn in_tmp(&self, path: &Path) -> bool {
        within(path, self.tmp)
    }

    /// What a rule says about reading; `None` where only the view has an answer.
    fn ruled_read(&self, path: &Path) -> Option<bool> {
        match self.rules.read(path) {
            ReadVerdict::Hidden(_) => Some(false),
            ReadVerdict::Granted(_) => Some(true),
            ReadVerdict::View => None,
        }
    }

    fn may_read(&self, path: &Path) -> bool {
        let shown = || self.shown.iter().any(|s| within(path, &s.real));
        let viewed = || !self.base.iter().any(|b| within(path, b));
        self.ruled_read(path)
            .unwrap_or_else(|| self.in_tmp(path) || shown() || viewed())
    }

    /// The places of what is shown, but for what a rule hides.
    fn shown(&self) -> impl Iterator<Item = Match> {
        let ruled = |s: &&Spot| self.ruled_read(&s.real) != Some(false);
        let places = self.shown.iter().filter(ruled);
        places.flat_map(|s| s.spelled.iter().map(|p| of_kind(p.clone(), s.kind)))
    }

    pub(super) fn read(&self) -> Vec<Point> {
        let mut out = Answers::default();
        for spot in &self.spots {
            let Some(allowed) = self.ruled_read(&spot.real) else {
                continue;
            };
            for path in &spot.spelled {
                out.add(of_kind(path.clone(), spot.kind), allowed);
                if !allowed {
                    out.refuse_elsewhere(path, spot.kind);
                }
            }
        }
        self.add_tmp(&mut out, true);
        for at in self.shown() {
            out.0.entry(at).or_insert(true);
        }
        for path in &self.base {
            // A rule about the same path has the last word.
            out.0.entry(Match::Tree(path.clone())).or_insert(false);
        }
        out.pruned()
    }

    pub(super) fn write(&self) -> Vec<Point> {
        let wide = self.wide();
        let mut out = Answers::default();
        for spot in &self.spots {
            let allowed = self.open.write(&spot.real).is_ok();
            for path in &spot.spelled {
                out.add(of_kind(path.clone(), spot.kind), allowed);
                // A grant of `/` opens that spelling as well.
                if !allowed && wide {
                    out.refuse_elsewhere(path, spot.kind);
                }
            }
        }
        self.add_tmp(&mut out, true);
        out.sorted()
    }

    /// Something is writable above the directory that the data volume is mounted on.
    fn wide(&self) -> bool {
        let volume = Path::new("/System/Volumes/Data");
        let mut writable = self
            .spots
            .iter()
            .filter(|s| self.open.write(&s.real).is_ok());
        writable.any(|s| within(volume, &s.real))
    }

    /// What cannot be read is not run; under `exec.deny_writable` neither is what can be written, outside of `exec_grant_roots`.
    pub(super) fn exec(&self) -> Vec<Point> {
        let deny = self.ctx.policy.exec_deny_writable;
        let walk = |path: &Path| Spot::new(&self.ctx.walk(path));
        let roots = &self.ctx.policy.fs.exec_grant_roots;
        let roots: Vec<Spot> = (roots.iter().filter(|_| deny))
            .filter_map(|e| e.value.exact().map(walk))
            .collect();
        // What is not there cannot be run, and what is never made will not be.
        let there = |n: &&Never| deny && n.walk.kind.is_some() && !is_git_config(n);
        let nevers = self.rules.nevers.iter().filter(there);
        let nevers: Vec<Spot> = nevers.map(|n| Spot::new(&n.walk)).collect();
        let mut out = Answers::default();
        let exe = self.ctx.walk(&self.ctx.host.exe).real;
        let spots = self.spots.iter().chain(&self.shown);
        for spot in spots.chain(&roots).chain(&nevers) {
            let path = &spot.real;
            let writable = self.in_tmp(path) || self.rules.write(path).is_ok();
            let own = path == &exe;
            let granted = own || roots.iter().any(|r| within(path, &r.real));
            let allowed = self.may_read(path) && !(deny && writable && !granted);
            for path in &spot.spelled {
                // A file has nothing below it, and one form is enough for a permission.
                let at = match spot.kind {
                    Some(Kind::File) if allowed => Match::Exact(path.clone()),
                    kind => of_kind(path.clone(), kind),
                };
                out.add(at, allowed);
                if !allowed {
                    out.refuse_elsewhere(path, spot.kind);
                }
            }
        }
        self.add_tmp(&mut out, !deny);
        for path in &self.base {
            out.0.entry(Match::Tree(path.clone())).or_insert(false);
        }
        out.pruned()
    }

    /// The command can start in that directory.
    pub(super) fn can_stand_in(&self, dir: &Path, ways: &BTreeSet<PathBuf>) -> bool {
        let is_dir = self.ctx.fs.meta(dir).map(|m| m.kind) == Some(Kind::Dir);
        let real = self.ctx.walk(dir).real;
        is_dir && (self.may_read(&real) || ways.contains(&real))
    }

    fn add_tmp(&self, out: &mut Answers, allowed: bool) {
        let at = Match::Tree(self.tmp.to_path_buf());
        out.0.entry(at).or_insert(allowed);
    }

    /// The closed directories on the way to what is open; those can be listed.
    pub(super) fn ways(&self, read: &[Point]) -> BTreeSet<PathBuf> {
        let open = read.iter().filter(|p| p.allowed).map(|p| &p.at);
        let open = open.filter_map(path_of).map(|p| (p, 1));
        let home = self.ctx.host.home_real.join("_");
        // A link on the way to another one is read under its own name.
        let grants = self.rules.grants.iter().map(|g| &g.walk);
        let walks = grants.chain(&self.rules.shows);
        let walks = walks.filter(|w| self.ruled_read(&w.real) != Some(false));
        let links = walks.flat_map(|w| w.links.iter().map(|l| (l.at.as_path(), 0)));
        let mut out = BTreeSet::new();
        for (path, from) in open.chain([(home.as_path(), 1)]).chain(links) {
            for dir in upwards(path).skip(from) {
                let closed = self.base.iter().any(|b| within(dir, b));
                if closed && self.ruled_read(dir) != Some(false) {
                    out.insert(dir.to_path_buf());
                }
            }
        }
        out
    }
}

/// Git writes its configuration anew where it can: on Linux it is among what can be written.
fn is_git_config(never: &Never) -> bool {
    let mut names = ["config", "config.worktree"].iter();
    never.strength == Strength::Mandatory && names.any(|n| never.walk.real.ends_with(n))
}

/// What the bound view closes.
fn base(ctx: Ctx<'_>) -> BTreeSet<PathBuf> {
    if ctx.policy.fs.view != View::Bound {
        return BTreeSet::new();
    }
    let host = ctx.host;
    let homes = host.home_real.parent().filter(|p| *p != Path::new("/"));
    CLOSED
        .iter()
        .map(Path::new)
        .chain([host.home.as_path(), host.home_real.as_path()])
        .chain(homes)
        .flat_map(|p| spellings(&ctx.walk(p)))
        .flat_map(|p| firmlink(&p).into_iter().chain([p]))
        .collect()
}
