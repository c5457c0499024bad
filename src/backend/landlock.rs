//! Plan → allow list, floor and broker on the host's own file system, for hosts that allow no user namespaces (linux-engine.md §14).
//!
//! The mounts of the plan are read as what they show: a piece of the host where it stands is granted, a hidden or private one is not.
//! What no allow list can say is refused by name (R14):
//!
//! | asked for | why not |
//! |---|---|
//! | `allow_all_unix_sockets` | no mounts keep the host's own out of sight |
//! | hosts or Unix sockets with `filesystem.disabled` | the broker decides about both, and there is none |
//! | something of the host at another path, a limit of the private /tmp | needs mounts |
//! | something hidden inside a writable tree, or by a pattern | what the command makes beside it would be unreadable |
//!
//! Pure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{AllowList, Alone, Engine, Floor, Invocation, Mount, NetSetup, Reach, bwrap};
use crate::broker::plan::{BrokerPlan, SocketPlan};
use crate::plan::{Effect, Plan, PlanError, ReadFloor, place};
use crate::policy::{NetworkMode, Origin, Policy, View};

/// The Landlock ABI this engine needs: from 6 on (Linux 6.12) signals and abstract sockets end at the domain.
pub const ABI: i32 = 6;

/// What a minimal /dev has, but for terminals: those of others are the caller's as well.
const DEVICES: [&str; 6] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];

/// Where the run's `$TMPDIR` is made.
const ROOM: &str = "/tmp";

/// Generated copies whose originals everybody may read.
const PUBLIC: [&str; 5] = [
    "/etc/passwd",
    "/etc/group",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
];

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Host { rw: bool },
    Hidden,
    Process,
}

impl Shown {
    fn readable(self) -> bool {
        self != Self::Hidden
    }
}

/// A directory for `$TMPDIR` that nobody else has, by its number.
#[must_use]
pub fn temporary(number: u64) -> PathBuf {
    Path::new(ROOM).join(format!("ccbox-{number:016x}"))
}

/// Refuses what this engine cannot hold.
pub fn fits(plan: &Plan, policy: &Policy) -> Result<(), PlanError> {
    let at = |key: &str, origin: Option<&Origin>| match origin {
        Some(origin) => format!("{key} ({})", place(origin)),
        None => key.to_owned(),
    };
    let no = |what: String, why: &str, hint: &str| PlanError {
        message: format!("engine `landlock` cannot hold {what}: {why}"),
        hint: Some(hint.to_owned()),
    };
    let namespaces = "`ccbox probe` says what the other engines need";
    let (net, fs) = (&policy.net, &policy.fs);
    if plan.network.mode == NetworkMode::Filtered && fs.disabled {
        let rule = net.allowed.iter().chain(&net.denied).next();
        let what = at("`network.mode = \"filtered\"`", rule.map(|r| &r.origin));
        let why = "with `filesystem.disabled` nobody connects the command to its proxies";
        return Err(no(what, why, namespaces));
    }
    if let Some(origin) = &net.all_unix_sockets {
        let why = "no mounts keep those of the host out of reach";
        let what = at("allow_all_unix_sockets", Some(origin));
        return Err(no(what, why, "name the sockets in `allow_unix_sockets`"));
    }
    if let Some(size) = &policy.tmp_size {
        let what = at("limits.tmp", Some(&size.origin));
        return Err(no(
            what,
            "`$TMPDIR` is a directory of the host in it",
            "leave it out",
        ));
    }
    if fs.disabled {
        return Ok(());
    }
    if let Some(moved) = fs.binds.iter().find(|b| {
        let guest = b.value.guest_path.as_ref();
        guest.is_some_and(|guest| *guest != b.value.host_path)
    }) {
        let what = at("guest_path", Some(&moved.origin));
        return Err(no(
            what,
            "another path needs a mount",
            "leave `guest_path` out",
        ));
    }
    if let Some(entry) = fs.deny_read.iter().find(|e| e.value.exact().is_none()) {
        let what = at("a pattern in deny_read", Some(&entry.origin));
        return Err(no(
            what,
            "reading is held by an allow list in it",
            namespaces,
        ));
    }
    if fs.trace {
        let why = "opens for reading are nobody's to watch in it";
        return Err(no("`--trace`".to_owned(), why, namespaces));
    }
    let elsewhere = plan.mounts.iter().find_map(|mount| {
        let (Mount::RoBind { src, dst } | Mount::Bind { src, dst }) = mount else {
            return None;
        };
        (src != dst).then_some((src, dst))
    });
    if let Some((src, dst)) = elsewhere {
        let what = format!("`{}` shown at `{}`", src.display(), dst.display());
        return Err(no(what, "another path needs a mount", namespaces));
    }
    let shown = with_absent(plan);
    if let Some((at, Shown::Host { rw: true })) = provider(&shown, Path::new(ROOM)) {
        let what = format!("a writable `{}`", at.display());
        return Err(no(what, "`$TMPDIR` is made in `/tmp`", namespaces));
    }
    for (path, what) in &shown {
        let around = path.parent().and_then(|above| provider(&shown, above));
        if let (Shown::Hidden, Some((tree, Shown::Host { rw: true }))) = (what, around) {
            let what = format!(
                "`{}` hidden inside the writable `{}`",
                path.display(),
                tree.display()
            );
            let why = "what the command makes beside it could not be read";
            return Err(no(what, why, namespaces));
        }
    }
    Ok(())
}

/// Renders a plan that [`fits`]; `tmp` is the run's `$TMPDIR`. [`broker`] goes with it.
#[must_use]
pub fn render(plan: &Plan, tmp: &Path) -> Invocation {
    let mut inner = bwrap::inner(plan, NetSetup::Host);
    let open = plan.network.mode == NetworkMode::Open;
    inner.open_network = open;
    // Here everything is the host's, where it is.
    inner.moved.clear();
    inner.read_floor = ReadFloor::default();
    inner.trap_reads = false;
    inner.trap_sockets = by_path(plan).is_some();
    inner.floor = broker(plan, tmp).map(|broker| {
        let covered: Vec<PathBuf> = broker.trees.iter().map(|t| t.guest.clone()).collect();
        inner.writable = covered.iter().chain(&broker.exempt).cloned().collect();
        let exempt = broker.exempt;
        Floor { covered, exempt }
    });
    inner.alone = Some(Alone {
        view: (!plan.fs_disabled).then(|| list(plan, tmp)),
        network: match plan.network.mode {
            NetworkMode::Open => Reach::Host,
            NetworkMode::Off => Reach::Nothing,
            NetworkMode::Filtered => Reach::Proxies,
        },
    });
    let tmp = tmp.to_path_buf();
    Invocation {
        engine: Engine::Landlock { tmp },
        args: Vec::new(),
        inner,
        premounts: Vec::new(),
    }
}

/// The broker of a run whose covered trees are the host's own: also where nothing of the host is writable, because modes, owners and
/// times are nobody else's to hold. `None` with `filesystem.disabled`.
#[must_use]
pub fn broker(plan: &Plan, tmp: &Path) -> Option<BrokerPlan> {
    if plan.fs_disabled {
        return None;
    }
    let shown = shown(plan);
    let writable_file = |path: &&PathBuf| shown.get(*path) == Some(&Shown::Host { rw: true });
    let mut out = match &plan.broker {
        Some(broker) => {
            let trees = broker.trees.iter().filter(|t| !t.private);
            let files = broker.exempt.iter().filter(writable_file);
            BrokerPlan {
                trees: trees.cloned().collect(),
                exempt: files.cloned().collect(),
                ..BrokerPlan::clone(broker)
            }
        }
        None => BrokerPlan {
            trees: Vec::new(),
            exempt: Vec::new(),
            served: Vec::new(),
            rules: Vec::new(),
            exceptions: Vec::new(),
            git: false,
            lock_dir: None,
            reads: None,
            sockets: None,
            alone: true,
        },
    };
    out.exempt.extend(DEVICES.map(PathBuf::from));
    out.exempt.push(tmp.to_path_buf());
    out.exempt.sort();
    out.exempt.dedup();
    // Nothing private is there to be served.
    out.served.clear();
    (out.reads, out.alone) = (None, true);
    let filtered = plan.network.mode == NetworkMode::Filtered;
    // Whoever connects for the command asks what kind of socket it is.
    let none = || SocketPlan {
        granted: Vec::new(),
        all: false,
        closed: Vec::new(),
        own_network: false,
        private: Vec::new(),
    };
    out.sockets = by_path(plan).or_else(|| filtered.then(none));
    Some(out)
}

/// Unix sockets, where they are decided by path. Nothing is on a mount of the run's own, and the network is the host's.
fn by_path(plan: &Plan) -> Option<SocketPlan> {
    let sockets = plan.broker.as_ref()?.sockets.as_ref()?;
    Some(SocketPlan {
        own_network: false,
        private: Vec::new(),
        ..sockets.clone()
    })
}

/// What may be read.
fn list(plan: &Plan, tmp: &Path) -> AllowList {
    let shown = with_absent(plan);
    // What is shown as its surroundings are needs no word of its own.
    let edges: Vec<(&PathBuf, bool)> = shown
        .iter()
        .filter(|(path, what)| {
            let around = path.parent().and_then(|above| provider(&shown, above));
            around.is_some_and(|(_, around)| around.readable()) != what.readable()
        })
        .map(|(path, what)| (path, what.readable()))
        .collect();
    let readable = |path: &Path| provider(&shown, path).is_some_and(|(_, what)| what.readable());
    let mut around: Vec<PathBuf> = edges
        .iter()
        .flat_map(|(path, _)| path.ancestors().skip(1))
        .filter(|above| readable(above))
        .map(Path::to_path_buf)
        .collect();
    around.sort();
    around.dedup();
    let mut whole: Vec<PathBuf> = edges
        .iter()
        .filter(|(path, readable)| *readable && !around.contains(path))
        .map(|(path, _)| (*path).clone())
        .collect();
    whole.push(tmp.to_path_buf());
    let mut apart: Vec<PathBuf> = edges.iter().map(|(path, _)| (*path).clone()).collect();
    apart.extend(around.iter().cloned());
    AllowList {
        whole,
        around,
        apart,
        lists: plan.view == View::Bound,
    }
}

/// The deepest path at or above this one that something is said about.
fn provider<'s>(shown: &'s BTreeMap<PathBuf, Shown>, path: &Path) -> Option<(&'s PathBuf, Shown)> {
    path.ancestors()
        .find_map(|at| shown.get_key_value(at))
        .map(|(at, what)| (at, *what))
}

/// What the mounts show, and what shall stay hidden if it comes to exist.
fn with_absent(plan: &Plan) -> BTreeMap<PathBuf, Shown> {
    let mut out = shown(plan);
    let hides = plan
        .rules
        .rules
        .iter()
        .filter(|rule| rule.effect == Effect::Hide);
    for rule in hides {
        // Of the host's processes nothing can be left out.
        if provider(&out, &rule.path).is_some_and(|(_, what)| what != Shown::Process) {
            out.entry(rule.path.clone()).or_insert(Shown::Hidden);
        }
    }
    out
}

/// The mounts, as what they show.
fn shown(plan: &Plan) -> BTreeMap<PathBuf, Shown> {
    let mut out: BTreeMap<PathBuf, Shown> = BTreeMap::new();
    for mount in &plan.mounts {
        let what = match mount {
            // Refused before, or nothing the command could find here.
            Mount::RoBind { src, dst } | Mount::Bind { src, dst } if src != dst => Shown::Hidden,
            Mount::RoBind { .. } => Shown::Host { rw: false },
            Mount::Bind { .. } => Shown::Host { rw: true },
            // The host's own cache, as it is.
            Mount::Overlay { lower, dst, .. } if lower == dst => Shown::Host { rw: false },
            Mount::Data { dst, .. } if PUBLIC.iter().any(|p| dst == Path::new(p)) => {
                Shown::Host { rw: false }
            }
            Mount::Overlay { .. }
            | Mount::State { .. }
            | Mount::Data { .. }
            | Mount::Cover { .. }
            | Mount::Tmpfs { .. }
            | Mount::Dev { .. } => Shown::Hidden,
            Mount::Proc { .. } => Shown::Process,
            Mount::RemountRo { dst } => {
                if let Some(what @ Shown::Host { .. }) = out.get_mut(dst) {
                    *what = Shown::Host { rw: false };
                }
                continue;
            }
            // In something private, which is not there.
            Mount::Dir { .. } | Mount::Symlink { .. } | Mount::File { .. } => continue,
        };
        let dst = mount.dst();
        // Of the host's processes nothing can be left out.
        if matches!(provider(&out, dst), Some((at, Shown::Process)) if at != dst) {
            continue;
        }
        out.retain(|path, _| path == dst || !path.starts_with(dst));
        out.insert(dst.to_path_buf(), what);
        if let Mount::Dev { .. } = mount {
            out.extend(DEVICES.map(|path| (PathBuf::from(path), Shown::Host { rw: true })));
        }
    }
    out
}

#[cfg(test)]
mod tests;
