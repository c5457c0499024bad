//! The two views before any rule is applied (R22, semantics 11).
//!
//! `bound` starts from an empty read-only root and adds the system directories that exist here; `host` starts from everything,
//! read-only. Both get a fresh /proc, a minimal /dev and private temporary directories.

use std::path::{Path, PathBuf};

use super::context::Ctx;
use super::paths::Walk;
use super::tree::{Node, Shown, Tree};
use crate::host::fs_view::Kind;
use crate::policy::View;

/// The mark by which ccbox knows that it runs inside one of its own sandboxes (semantics 46): a file on the private /run. The host's
/// /run belongs to root, so an ordinary process cannot fake it outside.
pub const NESTING_MARK: &str = "/run/ccbox";

/// Directories every command may need, shown whole in the bound view. Absent ones are left out, links are re-created.
const SYSTEM: [&str; 5] = ["/usr", "/bin", "/sbin", "/opt", "/etc"];
/// Stores of Nix and Guix.
const STORES: [&str; 2] = ["/nix/store", "/gnu/store"];
/// Links of NixOS below the private /run.
const RUN_LINKS: [&str; 3] = [
    "/run/current-system",
    "/run/booted-system",
    "/run/opengl-driver",
];
/// Private directories and their modes.
const PRIVATE: [(&str, u32); 3] = [("/tmp", 0o1777), ("/var/tmp", 0o1777), ("/run", 0o755)];

/// Kernel settings that uid 0 may write without any capability, because it owns the files (`core_pattern` names a program the host
/// runs). bubblewrap 0.8.0 covers a directory of /proc only where access(2) calls the directory itself writable, which these are not.
const SETTINGS: [&str; 4] = ["/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs"];

/// The base tree, and the walks whose links have to exist inside.
pub(super) struct Base {
    /// Planned so far.
    pub(super) tree: Tree,
    /// Link-carrying ways that must work inside.
    pub(super) ways: Vec<Walk>,
}

/// Builds the view of the policy.
pub(super) fn base(ctx: Ctx<'_>) -> Base {
    let mut base = Base {
        tree: Tree::default(),
        ways: Vec::new(),
    };
    match ctx.policy.fs.view {
        View::Bound => bound(ctx, &mut base),
        View::Host => base.tree.put("/", host_root()),
    }
    base.tree.put("/dev", Node::Dev);
    base.tree.put("/proc", Node::Proc);
    for path in settings(ctx) {
        base.tree.put(
            path.clone(),
            Node::Host {
                src: path,
                rw: false,
            },
        );
    }
    privates(ctx, &mut base);
    home(ctx, &mut base);
    base
}

/// Directories of the fresh /proc that get a read-only mount of their own.
pub(super) fn settings(ctx: Ctx<'_>) -> impl Iterator<Item = PathBuf> {
    SETTINGS
        .iter()
        .filter(move |_| ctx.host.uid == 0)
        .map(PathBuf::from)
        .filter(move |p| ctx.fs.kind(p) == Some(Kind::Dir))
}

fn host_root() -> Node {
    Node::Host {
        src: PathBuf::from("/"),
        rw: false,
    }
}

fn bound(ctx: Ctx<'_>, base: &mut Base) {
    base.tree.put(
        "/",
        Node::Tmpfs {
            mode: 0o755,
            size: None,
            ro: true,
        },
    );
    let libs: Vec<PathBuf> = ctx
        .fs
        .list(Path::new("/"))
        .into_iter()
        .filter(|n| n.as_encoded_bytes().starts_with(b"lib"))
        .map(|n| Path::new("/").join(n))
        .collect();
    let system = SYSTEM.iter().map(PathBuf::from);
    let stores = STORES.iter().map(PathBuf::from);
    let brew = std::iter::once(PathBuf::from("/home/linuxbrew/.linuxbrew"));
    for path in system
        .chain(libs)
        .chain(stores)
        .chain(brew)
        .chain([PathBuf::from("/sys")])
    {
        show(ctx, base, ctx.walk(&path));
    }
    // Old names that programs still use; on most systems links into /run.
    for old in ["/var/run", "/var/lock"] {
        let walk = ctx.walk(Path::new(old));
        if !walk.links.is_empty() {
            base.ways.push(walk);
        }
    }
}

/// A piece of the host, read-only, unless it is shown already; the links on the way are remembered.
pub(super) fn show(ctx: Ctx<'_>, base: &mut Base, walk: Walk) {
    if !matches!(ctx.kind(&walk.real), Some(Kind::Dir | Kind::File)) {
        return;
    }
    let seen = matches!(base.tree.shown(&walk.real), Shown::Host { path, .. } if path == walk.real);
    if !seen {
        base.tree.put(
            walk.real.clone(),
            Node::Host {
                src: walk.real.clone(),
                rw: false,
            },
        );
    }
    if !walk.links.is_empty() {
        base.ways.push(walk);
    }
}

/// `$HOME` exists in every view; where it is not the host's, it is an empty read-only directory.
fn home(ctx: Ctx<'_>, base: &mut Base) {
    let walk = ctx.walk(&ctx.host.home);
    let node = match base.tree.provider(&walk.real) {
        Some((at, _)) if at == walk.real => None,
        Some((_, Node::Tmpfs { ro: true, .. })) => Some(Node::Dir { mode: 0o755 }),
        // A home below the private /tmp: there a plain directory would be writable.
        Some((_, Node::Tmpfs { ro: false, .. })) => Some(Node::Tmpfs {
            mode: 0o755,
            size: None,
            ro: true,
        }),
        _ => None,
    };
    if let Some(node) = node {
        base.tree.put(walk.real.clone(), node);
    }
    base.ways.push(walk);
}

/// What `limits.tmp` is about.
const TMP: &str = "/tmp";

fn privates(ctx: Ctx<'_>, base: &mut Base) {
    let is_host = ctx.policy.fs.view == View::Host;
    // Half of what the machine can give, so that a runaway command fills its /tmp and not the memory (semantics 11).
    let half = (ctx.host.memory_limit / 2).max(1 << 20);
    for (path, mode) in PRIVATE {
        let walk = ctx.walk(Path::new(path));
        // A mount needs a place to stand; below the host's read-only root none can be made.
        if is_host && walk.kind != Some(Kind::Dir) {
            continue;
        }
        let asked = ctx.policy.tmp_size.as_ref().filter(|_| path == TMP);
        let size = (mode == 0o1777).then(|| asked.map_or(half, |size| size.value));
        let inside_private = matches!(
            base.tree.provider(&walk.real),
            Some((_, Node::Tmpfs { ro: false, .. }))
        );
        if !inside_private {
            let node = Node::Tmpfs {
                mode,
                size,
                ro: false,
            };
            base.tree.put(walk.real.clone(), node);
        }
        base.ways.push(walk);
    }
    runtime_dir(ctx, base);
    if private(&base.tree, Path::new("/run")) {
        base.tree.put(
            NESTING_MARK,
            Node::File {
                content: b"ccbox\n".to_vec(),
                mode: 0o444,
            },
        );
        for path in RUN_LINKS {
            let walk = ctx.walk(Path::new(path));
            if walk.kind.is_some() {
                show(ctx, base, walk);
            }
        }
    }
}

/// `$XDG_RUNTIME_DIR` keeps its value and is private and empty (semantics 39).
fn runtime_dir(ctx: Ctx<'_>, base: &mut Base) {
    let Some(path) = ctx.path_var("XDG_RUNTIME_DIR") else {
        return;
    };
    let walk = ctx.walk(&path);
    let real = walk.real.clone();
    // A variable that names a home, a parent of it or of the working directory is no runtime directory.
    let wrong = [&ctx.host.home_real, &ctx.cwd_real()]
        .iter()
        .any(|p| p.starts_with(&real));
    if wrong {
        return;
    }
    match base.tree.shown(&real) {
        Shown::Private => base.tree.put_new(real, Node::Dir { mode: 0o700 }),
        Shown::Host { .. } if walk.kind == Some(Kind::Dir) => base.tree.put(
            real,
            Node::Tmpfs {
                mode: 0o700,
                size: None,
                ro: false,
            },
        ),
        Shown::Host { .. } | Shown::Cache { .. } | Shown::Hidden | Shown::Kernel => return,
    }
    base.ways.push(walk);
}

/// `path` is a private directory of its own.
pub(super) fn private(tree: &Tree, path: &Path) -> bool {
    matches!(tree.shown(path), Shown::Private)
}
