//! What a plan asks of the creation broker (D4): which trees are covered, and what stays writable without it.
//!
//! | in the plan | for the broker |
//! |---|---|
//! | writable directory of the host, and each file system mounted inside it | a tree: every write there is decided by name |
//! | writable single file of the host | exempt: it is a root of its own, and the name of a root is not judged (semantics 1) |
//! | private cache, directory of ccbox's state | a tree where only the git preset holds: the host can see it, and a `.git` file in a work tree could lead there; and what patterns of `deny_read` name keeps its name |
//! | private directories in memory, /dev, /proc | exempt: they carry no name rules (semantics 10) |
//! | one of those that holds a tree | served: a Landlock rule there would open the tree as well (P0) |
//!
//! The rules are those of `names`.

use std::path::{Path, PathBuf};

use super::context::Ctx;
use super::mandatory::Mandatory;
use super::paths::{below, rest, within};
use super::reads::ByName;
use super::rules::Rules;
use super::tree::{Node, Tree as Shape};
use super::{PlanError, judge, names, other_runs, sockets};
use crate::broker::fold::NameRules;
use crate::broker::plan::{BrokerPlan, Tree};
use crate::host::fs_view::Kind;
use crate::host::mount_table::HostMount;

/// What the engine puts into a minimal /dev, but for the directory of shared memory (bwrap(1), `--dev`).
const DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/pts",
    "/dev/console",
];

/// File systems that read names as Windows does.
const WINDOWS: [&str; 10] = [
    "9p", "drvfs", "vfat", "msdos", "exfat", "ntfs", "ntfs3", "fuseblk", "cifs", "smb3",
];
/// Further ones that take `head` for `HEAD`.
const FOLDING: [&str; 4] = ["hfs", "hfsplus", "apfs", "fuse.apfs"];

/// The part of the broker; `None` where nothing of the host is writable by directory and reading is not its affair.
pub(super) fn plan(
    ctx: Ctx<'_>,
    rules: (&Rules, &Rules, &ByName<'_>),
    mandatory: &Mandatory,
    shape: &Shape,
) -> Result<Option<BrokerPlan>, PlanError> {
    let by_name = rules.2;
    let mut trees = trees(ctx, shape)?;
    if trees.is_empty() && !by_name.traps() && !sockets::wanted(ctx) {
        return Ok(None);
    }
    // A private cache shows files of the host: what names decide about must not be given another one there.
    if ctx.policy.fs.protect_git || by_name.decides() {
        trees.extend(caches(shape));
        trees.sort_by(|a, b| a.guest.cmp(&b.guest));
    }
    let (exempt, served) = unruled(ctx, shape, &trees);
    Ok(Some(BrokerPlan {
        rules: names::collect(ctx, rules, mandatory, &trees),
        exceptions: names::exceptions(ctx),
        git: ctx.policy.fs.protect_git,
        lock_dir: other_runs::place(ctx),
        reads: None,
        sockets: None,
        alone: false,
        trees,
        exempt,
        served,
    }))
}

/// The host path of a writable piece of the host.
fn writable_host(node: &Node) -> Option<&PathBuf> {
    if let Node::Host { src, rw: true } = node {
        Some(src)
    } else {
        None
    }
}

/// Writable directories of the host, and what is mounted inside them: a bind brings it along, with an identity of its own.
fn trees(ctx: Ctx<'_>, shape: &Shape) -> Result<Vec<Tree>, PlanError> {
    let is_dir = |path: &Path| ctx.kind(path) == Some(Kind::Dir);
    let mut found: Vec<(PathBuf, PathBuf)> = shape
        .iter()
        .filter_map(|(guest, node)| Some((guest, writable_host(node)?)))
        .filter(|(_, src)| is_dir(src))
        .map(|(guest, src)| (guest.to_path_buf(), src.clone()))
        .collect();
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let mounts = ctx.fs.mounts().map_err(|e| PlanError {
        message: format!(
            "cannot read the table of mounts: {}",
            crate::exit::reason(&e)
        ),
        hint: Some("ccbox needs a mounted /proc".to_owned()),
    })?;
    let mut inner = Vec::new();
    for (guest, host) in &found {
        for mount in mounts.iter().filter(|m| below(&m.at, host)) {
            let at = guest.join(rest(&mount.at, host));
            let own = shape.provider(&at).is_some_and(|(p, _)| p == guest);
            // What is mounted read-only stays so, and its own mount says so.
            if own && !mount.read_only && is_dir(&mount.at) {
                inner.push((at, mount.at.clone()));
            }
        }
    }
    found.extend(inner);
    found.sort();
    let top = |host: &Path| {
        let around = found.iter().map(|(_, h)| h).filter(|h| within(host, h));
        around
            .min_by_key(|h| h.as_os_str().len())
            .map_or_else(|| host.to_path_buf(), Clone::clone)
    };
    Ok(found
        .iter()
        .map(|(guest, host)| {
            let (names, ignores_case) = reading(ctx, file_system(&mounts, host));
            Tree {
                guest: guest.clone(),
                host: host.clone(),
                top: top(host),
                names,
                ignores_case,
                private: false,
            }
        })
        .collect())
}

/// What the child writes outside of the host's own directories and the host can see all the same.
fn caches(shape: &Shape) -> impl Iterator<Item = Tree> {
    shape.iter().filter_map(|(guest, node)| {
        let host = match node {
            Node::Overlay { store, .. } => store.join("upper"),
            Node::State { src } => src.clone(),
            Node::Host { .. }
            | Node::Tmpfs { .. }
            | Node::Dir { .. }
            | Node::Symlink { .. }
            | Node::File { .. }
            | Node::Data { .. }
            | Node::Cover { .. }
            | Node::Dev
            | Node::Proc => return None,
        };
        Some(Tree {
            guest: guest.to_path_buf(),
            top: host.clone(),
            host,
            names: NameRules::Unix,
            ignores_case: false,
            private: true,
        })
    })
}

/// The type of the file system that holds `path`.
fn file_system<'a>(mounts: &'a [HostMount], path: &Path) -> &'a str {
    mounts
        .iter()
        .filter(|m| within(path, &m.at))
        .max_by_key(|m| m.at.as_os_str().len())
        .map_or("", |m| m.kind.as_str())
}

/// How a file system reads names. On WSL the drives of Windows may also come as virtiofs.
fn reading(ctx: Ctx<'_>, kind: &str) -> (NameRules, bool) {
    if WINDOWS.contains(&kind) || ctx.host.wsl2 && kind == "virtiofs" {
        (NameRules::Windows, true)
    } else {
        (NameRules::Unix, FOLDING.contains(&kind))
    }
}

/// Exempt and served paths.
fn unruled(ctx: Ctx<'_>, shape: &Shape, trees: &[Tree]) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let mut exempt = Vec::new();
    let mut served = Vec::new();
    for (path, node) in shape.iter() {
        let writable = match node {
            Node::Host { src, rw } => *rw && ctx.kind(src) != Some(Kind::Dir),
            Node::Tmpfs { ro, .. } => !*ro,
            Node::Overlay { .. } | Node::State { .. } | Node::Dev | Node::Proc => true,
            Node::Dir { .. }
            | Node::Symlink { .. }
            | Node::File { .. }
            | Node::Data { .. }
            | Node::Cover { .. } => false,
        };
        if !writable {
            continue;
        }
        if trees.iter().any(|t| t.guest == path) {
            continue;
        }
        if !trees.iter().any(|t| within(&t.guest, path)) {
            exempt.push(path.to_path_buf());
            continue;
        }
        served.push(path.to_path_buf());
        if *node == Node::Dev {
            exempt.extend(DEVICES.iter().map(PathBuf::from));
        }
    }
    (exempt, served)
}

/// Single files that are granted below another writable directory, and that a rule denies there: the name is judged whatever path
/// leads to it (semantics 4). Guest path, host path, and the rule.
pub(super) fn denied_files(
    ctx: Ctx<'_>,
    plan: &BrokerPlan,
    shape: &Shape,
) -> Vec<(PathBuf, PathBuf, String)> {
    let files: Vec<(&Path, &PathBuf)> = shape
        .iter()
        .filter_map(|(path, node)| Some((path, writable_host(node)?)))
        .filter(|(_, src)| ctx.kind(src) == Some(Kind::File))
        .collect();
    if files.is_empty() {
        return Vec::new();
    }
    let set = plan.rule_set();
    files
        .into_iter()
        .filter_map(|(path, src)| {
            let judged = judge::write(plan, &set, ctx.fs, src)?;
            let words = judged.words.unwrap_or_default();
            (!judged.allowed).then(|| (path.to_path_buf(), src.clone(), words))
        })
        .collect()
}
