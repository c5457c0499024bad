//! Turns the answers of the rules into nodes of the tree.
//!
//! The sweep visits every path some rule names, parents first, compares what the rules say with what the tree shows there so far, and
//! puts a node only where the two differ. So mounts are few, and the order of rules in a file cannot matter.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::PlanError;
use super::caches::{self, CachePlan};
use super::context::Ctx;
use super::etc_files;
use super::paths::{Walk, below, depth, walk, within};
use super::rules::{Access, Grant, GrantKind, ReadVerdict, Rules, place};
use super::tree::{GuestNames, Node, Shown, Tree};
use super::view::{self, Base};
use crate::host::fs_view::Kind;

/// A finished tree with what the caches added.
#[derive(Debug)]
pub(super) struct Layout {
    /// What stands where.
    pub(super) tree: Tree,
    /// Cache directories, variables, state directories.
    pub(super) caches: CachePlan,
    /// ccbox's own directories that do not exist yet and must, because the child could create them otherwise.
    pub(super) own_dirs: Vec<PathBuf>,
}

/// Builds the child's tree.
pub(super) fn build(ctx: Ctx<'_>, rules: &Rules) -> Result<Layout, PlanError> {
    let Base { mut tree, mut ways } = view::base(ctx);
    let mut cache_plan = CachePlan::new(ctx);
    let candidates: BTreeMap<PathBuf, String> = caches::candidates(ctx).into_iter().collect();
    for path in named_paths(rules)
        .iter()
        .chain(candidates.keys())
        .collect::<BTreeSet<_>>()
    {
        visit(ctx, rules, &mut tree, path);
        if let Some(name) = candidates.get(path) {
            cache_plan.visit(ctx, rules, &mut tree, path, name);
        }
    }
    let mut moved: Vec<(PathBuf, &Grant)> = Vec::new();
    for grant in &rules.grants {
        if let Some(guest) = &grant.guest {
            let names = GuestNames {
                tree: &tree,
                fs: ctx.fs,
            };
            moved.push((walk(&names, guest).real, grant));
        }
    }
    // The outer ones first: an inner bind is part of what stands at the end, whatever the order in the spec.
    moved.sort_by_key(|(at, _)| depth(at));
    for (at, grant) in &moved {
        let other = moved
            .iter()
            .find(|(a, g)| a == at && !std::ptr::eq(*g, *grant));
        if let Some((_, other)) = other {
            return Err(two_at_one_path(at, grant, other));
        }
        elsewhere(ctx, rules, &mut tree, at, grant)?;
    }
    for walk in &rules.shows {
        show(ctx, rules, &mut tree, walk);
    }
    job_server(ctx, &mut tree);
    let own_dirs = own_dirs(ctx, &mut tree);
    if !ctx.has_broker() {
        pin_ancestors(&mut tree);
    }
    etc_files::user_database(ctx, &mut tree);
    etc_files::resolver(ctx, &mut tree);
    ways.extend(rules.shows.iter().cloned());
    ways.extend(
        rules
            .grants
            .iter()
            .filter(|g| g.is_identity())
            .map(|g| g.walk.clone()),
    );
    ways.push(ctx.walk(&ctx.cwd()));
    links(&mut tree, &ways);
    cache_plan.redirect_rest(ctx, &mut tree);
    mount_points(ctx, &tree, &own_dirs)?;
    Ok(Layout {
        tree,
        caches: cache_plan,
        own_dirs,
    })
}

/// Link-free host paths of every rule.
fn named_paths(rules: &Rules) -> BTreeSet<PathBuf> {
    let grants = rules
        .grants
        .iter()
        .filter(|g| g.is_identity())
        .map(|g| g.path().to_path_buf());
    let hides = rules.hides.iter().map(|h| h.walk.real.clone());
    let nevers = rules
        .nevers
        .iter()
        .flat_map(|n| std::iter::once(n.walk.real.clone()).chain(n.except.iter().cloned()));
    grants.chain(hides).chain(nevers).collect()
}

/// One path, where host and guest path are the same.
fn visit(ctx: Ctx<'_>, rules: &Rules, tree: &mut Tree, path: &Path) {
    let Some(kind) = ctx.kind(path) else {
        return;
    };
    // Below anything else nothing stands.
    let put = |tree: &mut Tree, node| match kind {
        Kind::Dir => tree.replace(path, node),
        Kind::File | Kind::Link | Kind::Other => tree.put(path, node),
    };
    let shown = tree.shown(path);
    let own_piece =
        matches!(&shown, Shown::Host { path: p, .. } | Shown::Cache { path: p } if p == path);
    let granted = match rules.read(path) {
        ReadVerdict::Hidden(_) => {
            if own_piece || is_masked_kernel_file(path, &shown) {
                hide(tree, path, path, kind);
            }
            return;
        }
        ReadVerdict::Granted(g) => Some(g),
        ReadVerdict::View => None,
    };
    let verdict = rules.write(path);
    let rw = verdict.is_ok();
    let node = Node::Host {
        src: path.to_path_buf(),
        rw,
    };
    match shown {
        Shown::Host { rw: now, .. } if own_piece => {
            if now != rw {
                put(tree, node);
            }
        }
        // A private copy: only a writable grant, or a rule that forbids writing here by name, changes that.
        Shown::Cache { .. } if own_piece => {
            if rw || matches!(verdict, Err(Some(_))) {
                tree.put(path, node);
            }
        }
        Shown::Host { .. }
        | Shown::Cache { .. }
        | Shown::Private
        | Shown::Hidden
        | Shown::Kernel => {
            // Only the grant's own path: a wider one leaves the private directories inside it private.
            if granted.is_some_and(|g| g.path() == path) {
                put(tree, node);
            }
        }
    }
}

/// /proc is the child's own, but some of its files are the kernel's for everybody.
fn is_masked_kernel_file(path: &Path, shown: &Shown) -> bool {
    matches!(shown, Shown::Kernel) && path.starts_with("/proc")
}

fn hide(tree: &mut Tree, path: &Path, of: &Path, kind: Kind) {
    tree.drop_host_below(path);
    tree.put(
        path,
        Node::Cover {
            of: of.to_path_buf(),
            is_dir: kind == Kind::Dir,
        },
    );
}

fn two_at_one_path(at: &Path, a: &Grant, b: &Grant) -> PlanError {
    PlanError {
        message: format!(
            "{} ({}) and {} ({}) are both shown at `{}`",
            a.named.words,
            place(&a.named.origin),
            b.named.words,
            place(&b.named.origin),
            at.display()
        ),
        hint: Some("give one of them another guest_path".to_owned()),
    }
}

/// A bind at another guest path: every deny on the host's tree is applied to it too.
fn elsewhere(
    ctx: Ctx<'_>,
    rules: &Rules,
    tree: &mut Tree,
    at: &Path,
    grant: &Grant,
) -> Result<(), PlanError> {
    if at.starts_with("/proc") || at.starts_with("/dev") && at != Path::new("/dev") {
        return Err(PlanError {
            message: format!(
                "{} ({}): nothing can be mounted at `{}`",
                grant.named.words,
                place(&grant.named.origin),
                at.display()
            ),
            hint: Some("choose another guest_path".to_owned()),
        });
    }
    let root = grant.path();
    if let ReadVerdict::Hidden(h) = rules.read_through(root, Some(grant)) {
        return Err(PlanError {
            message: format!(
                "{} ({}) is hidden by {} ({})",
                grant.named.words,
                place(&grant.named.origin),
                h.named.words,
                place(&h.named.origin)
            ),
            hint: Some("remove one of the two".to_owned()),
        });
    }
    // What the rules said about the tree that stood here says nothing about this one; what is granted below stays.
    tree.clear_below(at, |p| {
        rules
            .grants
            .iter()
            .any(|g| g.is_identity() && below(g.path(), at) && within(p, g.path()))
    });
    tree.put(
        at,
        Node::Host {
            src: root.to_path_buf(),
            rw: rules.write_through(root, Some(grant)).is_ok(),
        },
    );
    for path in named_paths(rules).iter().filter(|p| below(p, root)) {
        let Some(kind) = ctx.kind(path) else {
            continue;
        };
        let inside = at.join(path.strip_prefix(root).unwrap_or(Path::new("")));
        let Shown::Host { path: now, rw } = tree.shown(&inside) else {
            continue;
        };
        if now != *path {
            continue;
        }
        if matches!(
            rules.read_through(path, Some(grant)),
            ReadVerdict::Hidden(_)
        ) {
            hide(tree, &inside, path, kind);
            continue;
        }
        let wanted = rules.write_through(path, Some(grant)).is_ok();
        if rw != wanted {
            tree.put(
                inside,
                Node::Host {
                    src: path.clone(),
                    rw: wanted,
                },
            );
        }
    }
    Ok(())
}

/// ccbox's own needs never beat a deny: only what the view leaves out is added.
fn show(ctx: Ctx<'_>, rules: &Rules, tree: &mut Tree, walk: &Walk) {
    if matches!(rules.read(&walk.real), ReadVerdict::Hidden(_)) {
        return;
    }
    let seen = match tree.shown(&walk.real) {
        // Another object of that name belongs to a bind: nothing of ccbox's is put over it, and there is no place beside it.
        Shown::Host { .. } | Shown::Cache { .. } | Shown::Kernel => true,
        Shown::Private | Shown::Hidden => false,
    };
    if !seen && ctx.fs.meta(&walk.real).is_some() {
        tree.put(
            walk.real.clone(),
            Node::Host {
                src: walk.real.clone(),
                rw: false,
            },
        );
    }
}

/// Where home is writable the child could create ccbox's state or configuration before ccbox does, and with them a trust record.
/// They are ccbox's own, so the session creates them first and they are mounted read-only.
fn own_dirs(ctx: Ctx<'_>, tree: &mut Tree) -> Vec<PathBuf> {
    let mut made = Vec::new();
    for dir in [&ctx.host.state_dir, &ctx.host.config_dir] {
        let walk = ctx.walk(dir);
        // What the caller cannot create, the command cannot either.
        let there = walk.real.ancestors().find(|a| ctx.exists(a));
        let possible = there.is_some_and(|a| ctx.fs.can_create_in(a));
        let places: Vec<PathBuf> = tree
            .places(&walk.real)
            .filter_map(|(at, rw)| rw.then_some(at))
            .collect();
        if walk.kind.is_none() && possible && !places.is_empty() {
            for at in places {
                tree.put(
                    at,
                    Node::Host {
                        src: walk.real.clone(),
                        rw: false,
                    },
                );
            }
            made.push(walk.real);
        }
    }
    made
}

/// make's FIFO job server lies in /tmp (GNU make 4.4); the private one would hide it (semantics 11).
fn job_server(ctx: Ctx<'_>, tree: &mut Tree) {
    let Some(flags) = ctx.host.var("MAKEFLAGS").and_then(|f| f.to_str()) else {
        return;
    };
    let named = flags
        .split_whitespace()
        .filter_map(|w| w.strip_prefix("--jobserver-auth=fifo:"));
    for path in named.map(Path::new) {
        let usable = path.is_absolute() && ctx.fs.kind(path) == Some(Kind::Other);
        let real = ctx.walk(path).real;
        if usable && matches!(tree.shown(&real), Shown::Private) {
            tree.put(
                real.clone(),
                Node::Host {
                    src: real,
                    rw: true,
                },
            );
        }
    }
}

/// Renaming a directory above a protected object would take the mount along and free the old name (FW-1, R36). A mount point cannot be
/// renamed (EBUSY, rename(2)), so every directory between is bound onto itself. The price: rename(2) and link(2) across such a
/// directory fail with EXDEV, which mv and cp handle by copying. Where the creation broker is, it refuses such renames by name.
fn pin_ancestors(tree: &mut Tree) {
    let mounts: Vec<PathBuf> = tree
        .iter()
        .filter(|(_, n)| {
            matches!(
                n,
                Node::Host { .. } | Node::Cover { .. } | Node::Overlay { .. }
            )
        })
        .map(|(p, _)| p.to_path_buf())
        .collect();
    for mount in mounts {
        for above in mount.ancestors().skip(1) {
            let Some(parent) = above.parent() else {
                break;
            };
            if tree.get(above).is_some() || !tree.host_writable(parent) {
                continue;
            }
            if let Shown::Host { path, rw } = tree.shown(above) {
                tree.put(above, Node::Host { src: path, rw });
            }
        }
    }
}

/// Links on the way to something shown exist inside where the directory that holds them is a private one.
fn links(tree: &mut Tree, ways: &[Walk]) {
    for link in ways.iter().flat_map(|w| &w.links) {
        let free = matches!(tree.shown(&link.at), Shown::Private | Shown::Hidden);
        if free && tree.get(&link.at).is_none() && !tree.holds_nodes(&link.at) {
            tree.put(
                link.at.clone(),
                Node::Symlink {
                    target: link.text.clone(),
                },
            );
        }
    }
}

/// bubblewrap creates missing mount points, in a writable bind on the host itself. So every one must exist already, with the right
/// type, unless it lies in a private directory.
fn mount_points(ctx: Ctx<'_>, tree: &Tree, made: &[PathBuf]) -> Result<(), PlanError> {
    for (path, node) in tree.iter().filter(|(p, _)| *p != Path::new("/")) {
        let Some(parent) = path.parent() else {
            continue;
        };
        let host = match tree.shown(parent) {
            Shown::Host { path: p, .. } | Shown::Cache { path: p } => {
                p.join(path.file_name().unwrap_or_default())
            }
            Shown::Private | Shown::Hidden | Shown::Kernel => continue,
        };
        if made.iter().any(|m| m.starts_with(&host)) {
            continue;
        }
        let wanted_dir = match node {
            Node::Host { src, .. } => ctx.kind(src).map(|k| k == Kind::Dir),
            Node::Data { .. } | Node::File { .. } => Some(false),
            Node::Cover { is_dir, .. } => Some(*is_dir),
            Node::Overlay { .. }
            | Node::State { .. }
            | Node::Tmpfs { .. }
            | Node::Dir { .. }
            | Node::Dev
            | Node::Proc => Some(true),
            Node::Symlink { .. } => None,
        };
        let found_dir = match ctx.fs.kind(&host) {
            Some(Kind::Dir) => Some(true),
            Some(Kind::File | Kind::Other) => Some(false),
            Some(Kind::Link) | None => None,
        };
        // /dev and /proc are the first thing any mount tree needs; a host view without them is no host.
        if wanted_dir.is_none() || wanted_dir != found_dir {
            return Err(PlanError {
                message: format!(
                    "`{}` cannot be placed in the view: `{}` is not there to be mounted on",
                    path.display(),
                    host.display()
                ),
                hint: Some("choose a guest_path that exists, or one below /tmp or /run".to_owned()),
            });
        }
    }
    Ok(())
}

/// Notices about grants that do not hold as written (semantics 4, 5, 9).
pub(super) fn unheld(rules: &Rules) -> Vec<String> {
    let mut out = Vec::new();
    for g in &rules.grants {
        let via = (!g.is_identity()).then_some(g);
        let rule = format!("{} ({})", g.named.words, place(&g.named.origin));
        if let ReadVerdict::Hidden(h) = rules.read_through(g.path(), via) {
            out.push(format!(
                "{rule} stays hidden: {} ({})",
                h.named.words,
                place(&h.named.origin)
            ));
            continue;
        }
        if g.access != Access::Write {
            continue;
        }
        let refused = rules
            .nevers
            .iter()
            .filter(|n| g.path().starts_with(&n.walk.real))
            .filter(|n| !n.except.iter().any(|e| g.path().starts_with(e)))
            .min_by_key(|n| n.strength);
        if let Some(n) = refused {
            let what = if g.kind == GrantKind::Worktree {
                format!("{rule} at `{}`", g.path().display())
            } else {
                rule
            };
            out.push(format!(
                "{what} stays read-only: {} ({})",
                n.named.words,
                place(&n.named.origin)
            ));
        }
    }
    out
}
