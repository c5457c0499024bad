//! Policy and host facts → plan, one phase after the other.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::context::Ctx;
use super::exec::{self, ExecRule};
use super::gaps::Missing;
use super::layout::{self, Layout};
use super::mandatory::{self, Mandatory};
use super::memo::Memo;
use super::paths::walk;
use super::reads::ByName;
use super::rules::{Grant, ReadVerdict, Rules, place};
use super::tree::{GuestNames, Node, Shown, Tree};
use super::{
    Mount, NetworkPlan, Pin, Plan, PlanError, ReadFloor, RuleBook, access_log, book, broker,
    crowds, denies, env, etc_files, gaps, grants, order, read_floor, reads, secrets, sockets,
    upstream, view, worktree,
};
use crate::broker::plan::BrokerPlan;
use crate::host::fs_view::Kind;
use crate::host::{FsView, HostFacts};
use crate::policy::egress::{Catchment, EgressPolicy};
use crate::policy::environment::{self, Scrubbed};
use crate::policy::upstream::Chain;
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
        let scrubbed = scrubbed(ctx);
        let mut network = NetworkPlan {
            access_log: access_log::path(ctx),
            ..network(policy)?
        };
        let said = upstream::attach(&mut network, ctx);
        let mut files = if policy.fs.disabled {
            FilePlan::disabled(ctx)
        } else {
            files(ctx, argv)?
        };
        files.notices.extend(said);
        Ok(assemble(ctx, argv, files, network, scrubbed))
    }

    /// As [`Self::resolve`], without what is mounted where: for an engine that decides by path.
    pub fn without_files(
        policy: &Policy,
        host: &HostFacts,
        argv: &[OsString],
        fs: &dyn FsView,
    ) -> Result<Self, PlanError> {
        let ctx = Ctx { policy, host, fs };
        let mut network = NetworkPlan {
            access_log: access_log::path(ctx),
            ..network(policy)?
        };
        let mut files = FilePlan::empty();
        files.notices = upstream::attach(&mut network, ctx);
        Ok(assemble(ctx, argv, files, network, scrubbed(ctx)))
    }
}

/// The caller's environment, with the variables that lead to a granted socket.
fn scrubbed(ctx: Ctx<'_>) -> Scrubbed {
    let doors = sockets::doors(ctx);
    if doors.is_empty() {
        return environment::scrub(&ctx.host.env, &ctx.policy.env);
    }
    let mut env = ctx.policy.env.clone();
    env.pass.extend(doors);
    environment::scrub(&ctx.host.env, &env)
}

/// Loopback ports of the host that one run can forward. Each takes two sockets (127.0.0.1 and ::1), and one packet carries them
/// all, together with those of the proxies (`sys::fds::MAX_PASSED`).
pub const MAX_FORWARDED: usize = 100;

/// The network part of a plan.
pub(super) fn network(policy: &Policy) -> Result<NetworkPlan, PlanError> {
    let egress = EgressPolicy::new(&policy.net);
    let user_proxies = upstream::user_proxies(policy)?;
    let mut user_ports: Vec<u16> = user_proxies.iter().map(|(_, p)| p.value).collect();
    user_ports.sort_unstable();
    user_ports.dedup();
    let mut forwarded_ports = egress.forwarded_ports();
    forwarded_ports.extend(&user_ports);
    forwarded_ports.sort_unstable();
    forwarded_ports.dedup();
    if forwarded_ports.len() > MAX_FORWARDED {
        return Err(PlanError {
            message: format!(
                "the allow list names {} loopback ports; at most {MAX_FORWARDED} can be forwarded",
                forwarded_ports.len()
            ),
            hint: None,
        });
    }
    Ok(NetworkPlan {
        mode: policy.net.mode,
        egress,
        forwarded_ports,
        catch: Catchment::of(&policy.net),
        user_ports,
        user_proxies,
        upstream: Chain::default(),
        hint_file: policy.net.hint_file.clone(),
        access_log: None,
    })
}

/// The file part of a plan.
#[derive(Debug)]
pub(super) struct FilePlan {
    pub(super) mounts: Vec<Mount>,
    pub(super) pins: Vec<Pin>,
    pub(super) writable: Vec<PathBuf>,
    pub(super) moved: Vec<(PathBuf, PathBuf)>,
    pub(super) read_floor: ReadFloor,
    pub(super) state_dirs: Vec<PathBuf>,
    pub(super) broker: Option<BrokerPlan>,
    pub(super) missing: Missing,
    pub(super) notices: Vec<String>,
    pub(super) rules: RuleBook,
    exec: Option<ExecRule>,
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
            writable: vec![PathBuf::from("/")],
            ..Self::empty()
        }
    }

    fn empty() -> Self {
        Self {
            mounts: Vec::new(),
            pins: Vec::new(),
            writable: Vec::new(),
            moved: Vec::new(),
            read_floor: ReadFloor::default(),
            state_dirs: Vec::new(),
            broker: None,
            missing: Missing::default(),
            notices: Vec::new(),
            rules: RuleBook::default(),
            exec: None,
            layout: None,
        }
    }
}

/// Rules → tree → mounts.
pub(super) fn files(ctx: Ctx<'_>, argv: &[OsString]) -> Result<FilePlan, PlanError> {
    let mut notices = Vec::new();
    let (mut rules, mandatory) = collect(ctx, &mut notices)?;
    let single = crowds::merge(ctx, &mut rules, &mut notices);
    let mut layout = layout::build(ctx, &rules)?;
    let by_name = ByName::find(ctx, &rules, &layout.tree);
    let broker = broker(
        ctx,
        (&rules, &single, &by_name),
        &mandatory,
        &mut layout,
        &mut notices,
    )?;
    visible_cwd(ctx, &rules, &layout.tree)?;
    notices.extend(layout::unheld(&rules));
    notices.extend(hidden_arguments(ctx, argv, &layout.tree));
    notices.extend(layout.caches.notice());
    let mut state_dirs = layout.caches.state_dirs.clone();
    state_dirs.extend(layout.own_dirs.iter().cloned());
    let mounts = order::emit(&layout.tree);
    crowds::bearable(mounts.len())?;
    let (read_floor, unheld) = read_floor::collect(ctx, &rules, &layout.tree);
    let mut broker = broker;
    if let Some(plan) = &mut broker {
        plan.reads = reads::collect(ctx, &rules, &by_name, &read_floor, &layout.tree);
        plan.sockets = sockets::collect(ctx, &layout.tree)?;
    }
    notices.extend(sockets::notices(ctx, &layout.tree));
    // What is decided by name stays hidden whatever takes its place.
    let unheld = if broker.is_some() && by_name.decides() {
        notices.extend(reads::notice(ctx, &by_name));
        Vec::new()
    } else {
        unheld
    };
    Ok(FilePlan {
        mounts,
        pins: pins(ctx, &rules, &layout)?,
        writable: writable(&layout.tree),
        moved: moved(&layout.tree),
        read_floor,
        state_dirs,
        missing: gaps::collect(
            ctx,
            (&rules, &mandatory),
            &layout.tree,
            (broker.as_ref(), &by_name),
            &unheld,
        ),
        broker,
        notices,
        rules: book::write(&rules, &single),
        exec: exec::rule(ctx, &layout.tree),
        layout: Some(layout),
    })
}

/// The part of the broker. Where it denies a single file that is granted, that one is shown read-only.
fn broker(
    ctx: Ctx<'_>,
    rules: (&Rules, &Rules, &ByName<'_>),
    mandatory: &Mandatory,
    layout: &mut Layout,
    notices: &mut Vec<String>,
) -> Result<Option<BrokerPlan>, PlanError> {
    if !ctx.has_broker() {
        return Ok(None);
    }
    let Some(mut plan) = broker::plan(ctx, rules, mandatory, &layout.tree)? else {
        return Ok(None);
    };
    for (at, src, words) in broker::denied_files(ctx, &plan, &layout.tree) {
        notices.push(format!("`{}` stays read-only: {words}", at.display()));
        plan.exempt.retain(|p| *p != at);
        layout.tree.put(at, Node::Host { src, rw: false });
    }
    Ok(Some(plan))
}

pub(super) fn collect(
    ctx: Ctx<'_>,
    notices: &mut Vec<String>,
) -> Result<(Rules, Mandatory), PlanError> {
    let mut granted = grants::collect(ctx, notices)?;
    let trees = worktree::grants(ctx, mandatory::places(ctx, &granted), &granted);
    granted.extend(trees);
    let mandatory = mandatory::collect(ctx, &granted);
    let (denied, mut hides) = denies::collect(ctx, &granted);
    let mut nevers = mandatory.nevers.clone();
    nevers.extend(denied);
    hides.extend(secrets::collect(ctx, &granted));
    let rules = Rules {
        grants: granted,
        hides,
        nevers: nevers.into(),
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
        moved: files.moved,
        exec: files.exec,
        read_floor: files.read_floor,
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
        broker: files.broker.map(Arc::new),
        gaps: files.missing.gaps,
        refusal: files.missing.refusal,
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
    Err(no_cwd(ctx, rules))
}

/// Why the command cannot start in its directory.
pub(super) fn no_cwd(ctx: Ctx<'_>, rules: &Rules) -> PlanError {
    let cwd = ctx.cwd();
    let real = ctx.cwd_real();
    if let ReadVerdict::Hidden(h) = rules.read(&real) {
        return PlanError {
            message: format!(
                "the working directory `{}` is hidden by {} ({})",
                cwd.display(),
                h.named.words,
                place(&h.named.origin)
            ),
            hint: Some("remove that entry, or grant the directory: a deeper entry wins".to_owned()),
        };
    }
    let (message, hint) = if ctx.kind(&cwd) == Some(Kind::Dir) {
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
    PlanError {
        message,
        hint: Some(hint),
    }
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

/// What must stand at its guest path once everything is mounted: every granted object, and every directory mounted in a writable
/// tree, whose names a process left over from another run could swap until then (semantics 20). The engine follows links when it
/// mounts; a pin is taken without following any, so that a link in place of the object never agrees with it. Files that are only
/// protected are left out: tools replace them by rename at any time (git its `config`), and the new one is mounted as well.
fn pins(ctx: Ctx<'_>, rules: &Rules, layout: &Layout) -> Result<Vec<Pin>, PlanError> {
    let granted: BTreeSet<&Path> = rules.grants.iter().map(Grant::path).collect();
    let mut out = Vec::new();
    for (path, node) in layout.tree.iter() {
        let Node::Host { src, .. } = node else {
            continue;
        };
        let kind = ctx.kind(src);
        let in_writable =
            kind == Some(Kind::Dir) && path.parent().is_some_and(|p| layout.tree.host_writable(p));
        // What ccbox itself makes first, with its parents, is not there to be looked at.
        let made = layout.own_dirs.iter().any(|d| d.starts_with(src)) && !ctx.exists(src);
        if made || !(in_writable || granted.contains(src.as_path())) {
            continue;
        }
        let seen = ctx.fs.pin(src).map_err(|_| replaced(src))?;
        if kind != Some(seen.kind) {
            return Err(replaced(src));
        }
        out.push(Pin {
            guest: path.to_path_buf(),
            dev: seen.dev,
            ino: seen.ino,
        });
    }
    Ok(out)
}

fn replaced(path: &Path) -> PlanError {
    PlanError {
        message: format!(
            "`{}` was replaced while it was being looked at",
            path.display()
        ),
        hint: Some("something else changes that path; run again when it is done".to_owned()),
    }
}

/// Guest paths below which the child may write. Landlock rules add up along all ancestors (landlock(7)), so only the top of each
/// writable tree is named; what is read-only inside is so by its mount. A piece of the host in a private directory is a tree of its
/// own: a descriptor the caller hands over leads up the host's directories, where the private one is not met.
fn writable(tree: &Tree) -> Vec<PathBuf> {
    let mut out: Vec<(&Path, bool)> = Vec::new();
    for (path, node) in tree.iter() {
        let (rw, host) = match node {
            Node::Host { rw, .. } => (*rw, true),
            Node::Tmpfs { ro, .. } => (!*ro, false),
            Node::Overlay { .. } | Node::State { .. } | Node::Dev | Node::Proc => (true, false),
            Node::Dir { .. }
            | Node::Symlink { .. }
            | Node::File { .. }
            | Node::Data { .. }
            | Node::Cover { .. } => (false, false),
        };
        let covered = |(top, of_host): &(&Path, bool)| path.starts_with(top) && (*of_host || !host);
        if rw && !out.iter().any(covered) {
            out.push((path, host));
        }
    }
    out.into_iter().map(|(p, _)| p.to_path_buf()).collect()
}

/// Writable binds at another guest path. Their source may be a name inside another bind, so every one counts.
fn moved(tree: &Tree) -> Vec<(PathBuf, PathBuf)> {
    tree.iter()
        .filter_map(|(path, node)| {
            let Node::Host { src, rw: true } = node else {
                return None;
            };
            (src != path).then(|| (src.clone(), path.to_path_buf()))
        })
        .collect()
}

/// The network part does not depend on the file system; `check host` asks it directly.
impl NetworkPlan {
    /// The network is the host's own.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.mode == NetworkMode::Open
    }
}
