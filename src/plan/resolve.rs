//! Policy and host facts → plan, one phase after the other.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::context::Ctx;
use super::layout::{self, Layout};
use super::mandatory::{self, Mandatory};
use super::memo::Memo;
use super::paths::walk;
use super::rules::{ReadVerdict, Rules, place};
use super::tree::{GuestNames, Node, Shown, Tree};
use super::{
    Gap, Mount, NetworkPlan, Pin, Plan, PlanError, RuleBook, book, crowds, denies, env, etc_files,
    gaps, grants, order, secrets, view, worktree,
};
use crate::host::fs_view::Kind;
use crate::host::{FsView, HostFacts};
use crate::policy::egress::EgressPolicy;
use crate::policy::environment::{self, Scrubbed};
use crate::policy::{NetworkMode, Policy};

impl Plan {
    /// Resolves a policy against the host. Asks the file system, changes nothing.
    pub fn resolve(
        policy: &Policy,
        host: &HostFacts,
        argv: &[OsString],
        fs: &dyn FsView,
    ) -> Result<Self, PlanError> {
        let memo = Memo::new(fs);
        // Most rows of the secrets table name something in the home directory that is not there.
        memo.prime(&host.home_real);
        for dir in [".config", ".local/share"] {
            memo.prime(&host.home_real.join(dir));
        }
        let ctx = Ctx {
            policy,
            host,
            fs: &memo,
        };
        let scrubbed = environment::scrub(&host.env, &policy.env);
        let network = NetworkPlan {
            mode: policy.net.mode,
            egress: EgressPolicy::new(&policy.net),
            forwarded_ports: Vec::new(),
            hint_file: policy.net.hint_file.clone(),
        };
        let files = if policy.fs.disabled {
            FilePlan::disabled(ctx)
        } else {
            files(ctx, argv)?
        };
        Ok(assemble(ctx, argv, files, network, scrubbed))
    }
}

/// The file part of a plan.
#[derive(Debug)]
pub(super) struct FilePlan {
    pub(super) mounts: Vec<Mount>,
    pub(super) pins: Vec<Pin>,
    pub(super) writable: Vec<PathBuf>,
    pub(super) state_dirs: Vec<PathBuf>,
    pub(super) gaps: Vec<Gap>,
    pub(super) notices: Vec<String>,
    pub(super) rules: RuleBook,
    layout: Option<Layout>,
}

impl FilePlan {
    /// `filesystem.disabled`: every path rule falls, mandatory ones included (semantics 16). /proc is still the child's own.
    fn disabled(ctx: Ctx<'_>) -> Self {
        let mut mounts = vec![
            Mount::Bind {
                src: PathBuf::from("/"),
                dst: PathBuf::from("/"),
            },
            Mount::Proc {
                dst: PathBuf::from("/proc"),
            },
        ];
        // No path rule of the user's, but part of keeping uid 0 an ordinary user (D10).
        mounts.extend(view::settings(ctx).map(|p| Mount::RoBind {
            src: p.clone(),
            dst: p,
        }));
        Self {
            mounts,
            pins: Vec::new(),
            writable: vec![PathBuf::from("/")],
            state_dirs: Vec::new(),
            gaps: Vec::new(),
            notices: Vec::new(),
            rules: RuleBook::default(),
            layout: None,
        }
    }
}

/// Rules → tree → mounts.
pub(super) fn files(ctx: Ctx<'_>, argv: &[OsString]) -> Result<FilePlan, PlanError> {
    let mut notices = Vec::new();
    let (mut rules, mandatory) = collect(ctx, &mut notices)?;
    let single = crowds::merge(ctx, &mut rules, &mut notices);
    let layout = layout::build(ctx, &rules)?;
    visible_cwd(ctx, &rules, &layout.tree)?;
    notices.extend(layout::unheld(&rules));
    notices.extend(hidden_arguments(ctx, argv, &layout.tree));
    let mut state_dirs = layout.caches.state_dirs.clone();
    state_dirs.extend(layout.own_dirs.iter().cloned());
    let mounts = order::emit(&layout.tree);
    crowds::bearable(mounts.len())?;
    Ok(FilePlan {
        mounts,
        pins: pins(ctx, &rules, &layout.tree),
        writable: writable(&layout.tree),
        state_dirs,
        gaps: gaps::collect(ctx, &rules, &mandatory, &layout.tree)?,
        notices,
        rules: book::write(&rules, &single),
        layout: Some(layout),
    })
}

pub(super) fn collect(
    ctx: Ctx<'_>,
    notices: &mut Vec<String>,
) -> Result<(Rules, Mandatory), PlanError> {
    let mut granted = grants::collect(ctx, notices)?;
    let trees = worktree::grants(ctx, mandatory::places(ctx, &granted), &granted);
    granted.extend(trees);
    let mandatory = mandatory::collect(ctx, &granted);
    let (denied, mut hides) = denies::collect(ctx, &granted)?;
    let mut nevers = mandatory.nevers.clone();
    nevers.extend(denied);
    hides.extend(secrets::collect(ctx, &granted));
    let rules = Rules {
        grants: granted,
        hides,
        nevers,
        shows: etc_files::shows(ctx),
        read_only_mode: ctx.policy.mode.is_read_only(),
    };
    Ok((rules, mandatory))
}

fn assemble(
    ctx: Ctx<'_>,
    argv: &[OsString],
    files: FilePlan,
    network: NetworkPlan,
    scrubbed: Scrubbed,
) -> Plan {
    let env_dropped = scrubbed.dropped.clone();
    let env_listed = scrubbed.listed.clone();
    let env_scrubbed = env::child(ctx, scrubbed.clone(), None, &[]);
    let layout = files.layout.as_ref();
    let cache_env = layout.map_or(&[][..], |l| &l.caches.env);
    Plan {
        env: env::child(ctx, scrubbed, layout.map(|l| &l.tree), cache_env),
        caches: layout.map(|l| l.caches.uses.clone()).unwrap_or_default(),
        mounts: files.mounts,
        pins: files.pins,
        writable: files.writable,
        view: ctx.policy.fs.view,
        mode: ctx.policy.mode,
        fs_disabled: ctx.policy.fs.disabled,
        network,
        env_scrubbed,
        env_dropped,
        env_listed,
        cwd: ctx.cwd(),
        argv: argv.to_vec(),
        state_dirs: files.state_dirs,
        gaps: files.gaps,
        notices: files.notices,
        rules: files.rules,
    }
}

/// The command never starts in a directory other than the one asked for (semantics 12).
fn visible_cwd(ctx: Ctx<'_>, rules: &Rules, tree: &Tree) -> Result<(), PlanError> {
    let cwd = ctx.cwd();
    let inside = walk(&GuestNames { tree, fs: ctx.fs }, &cwd);
    let hidden =
        matches!(tree.shown(&inside.real), Shown::Hidden) && !tree.holds_nodes(&inside.real);
    if inside.kind == Some(Kind::Dir) && !hidden {
        return Ok(());
    }
    let real = ctx.cwd_real();
    if let ReadVerdict::Hidden(h) = rules.read(&real) {
        return Err(PlanError {
            message: format!(
                "the working directory `{}` is hidden by {} ({})",
                cwd.display(),
                h.named.words,
                place(&h.named.origin)
            ),
            hint: Some("remove that entry, or grant the directory: a deeper entry wins".to_owned()),
        });
    }
    let (message, hint) = if ctx.fs.meta(&cwd).map(|m| m.kind) == Some(Kind::Dir) {
        (
            format!(
                "the working directory `{}` is not visible inside",
                cwd.display()
            ),
            format!(
                "add [[bind_mounts]] host_path = \"{0}\", or --rw {0} or --ro {0}",
                cwd.display()
            ),
        )
    } else {
        (
            format!("the working directory `{}` does not exist", cwd.display()),
            "create it, or name another one".to_owned(),
        )
    };
    Err(PlanError {
        message,
        hint: Some(hint),
    })
}

/// An argument that names something in the host's /tmp would not be found inside (semantics 11).
fn hidden_arguments(ctx: Ctx<'_>, argv: &[OsString], tree: &Tree) -> Vec<String> {
    let mut out: Vec<String> = argv
        .iter()
        .map(Path::new)
        .filter(|p| p.is_absolute() && ctx.exists(p))
        .filter(|p| {
            let real = ctx.walk(p).real;
            let names = GuestNames { tree, fs: ctx.fs };
            matches!(
                tree.provider(&real),
                Some((_, Node::Tmpfs { ro: false, .. }))
            ) && walk(&names, p).kind.is_none()
        })
        .map(|p| {
            format!(
                "`{0}` is not visible inside, where that directory is private; --ro {0} shows it",
                p.display()
            )
        })
        .collect();
    out.dedup();
    out
}

/// Every granted object as the planner saw it.
fn pins(ctx: Ctx<'_>, rules: &Rules, tree: &Tree) -> Vec<Pin> {
    tree.iter()
        .filter_map(|(path, node)| {
            let Node::Host { src, .. } = node else {
                return None;
            };
            if !rules.grants.iter().any(|g| g.path() == src) {
                return None;
            }
            let meta = ctx.fs.meta(src)?;
            Some(Pin {
                guest: path.to_path_buf(),
                dev: meta.dev,
                ino: meta.ino,
            })
        })
        .collect()
}

/// Guest paths below which the child may write. Landlock rules add up along all ancestors (landlock(7)), so only the top of each
/// writable tree is named; what is read-only inside is so by its mount.
fn writable(tree: &Tree) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = Vec::new();
    for (path, node) in tree.iter() {
        let rw = match node {
            Node::Host { rw, .. } => *rw,
            Node::Tmpfs { ro, .. } => !*ro,
            Node::Overlay { .. } | Node::State { .. } | Node::Dev | Node::Proc => true,
            Node::Dir { .. }
            | Node::Symlink { .. }
            | Node::File { .. }
            | Node::Data { .. }
            | Node::Cover { .. } => false,
        };
        if rw && !out.iter().any(|p| path.starts_with(p)) {
            out.push(path.to_path_buf());
        }
    }
    out
}

/// The network part does not depend on the file system; `check host` asks it directly.
impl NetworkPlan {
    /// The network is the host's own.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.mode == NetworkMode::Open
    }
}
