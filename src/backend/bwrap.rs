//! Plan → bubblewrap argv (golden-tested against bubblewrap 0.8.0's bwrap(1)).
//!
//! Where a pre-stage runs, it makes the child's file system and bubblewrap only takes it over: bubblewrap 0.8.0 reads the whole mount
//! table for every bind (some 60 to 100 µs each), which the pre-stage need not (docs/adr/0006). What belongs to /proc stays with
//! bubblewrap: a /proc shows the process namespace of who mounts it, and that is bubblewrap's.
//!
//! Pure: the same plan gives the same words. Nothing here decides what is visible or writable; it only spells the plan.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{
    Engine, EngineArg, Floor, InnerPlan, Invocation, Mount, NetSetup, OverlayMount, PreMount, STAGE,
};
use crate::host::HostFacts;
use crate::plan::Plan;

/// The port proxies listen on inside the child's own network namespace, on 127.0.0.1 and ::1.
pub const PROXY_PORT: u16 = 3128;

/// The port of the proxies beside these forwarded ones: [`PROXY_PORT`], or the next that is free, so that a host's own proxy on
/// that port can be forwarded too (semantics 42).
#[must_use]
pub fn proxy_port(forwarded: &[u16]) -> u16 {
    (PROXY_PORT..=u16::MAX)
        .find(|p| !forwarded.contains(p))
        .unwrap_or(PROXY_PORT)
}

/// First argument of this executable when it is the inner stage.
pub const INNER_ARGUMENT: &str = "__inner";

/// Namespaces and privileges, the same for every plan:
///
/// - no `--unshare-all`: it would unshare the network too, which the pre-stage has done (D6);
/// - `--as-pid-1`: the inner stage is pid 1, so no unfiltered process of bubblewrap's stays inside (semantics 24);
/// - `--disable-userns` with `--unshare-user`: no nested user namespace, also for uid 0 (D10);
/// - no `--new-session`: the child's terminal is the caller's (D8), TIOCSTI is closed by the filter;
/// - no `--setenv`, no `--chdir`: the inner stage does both from the plan, so that no dirty value is readable in /proc/1 (D11).
const FIXED: [&str; 9] = [
    "--unshare-user",
    "--unshare-ipc",
    "--unshare-pid",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--die-with-parent",
    "--as-pid-1",
    "--disable-userns",
    "--cap-drop",
];

/// Where the process information is.
const PROC: &str = "/proc";
/// Renders the plan for bubblewrap at `program`. Session facts (kept descriptors, ignored signals) are left empty.
///
/// The options end at the literal `--`; what follows is the command, which bwrap does not take from `--args`.
#[must_use]
pub fn render(plan: &Plan, _host: &HostFacts, program: &Path, net: NetSetup) -> Invocation {
    let mut args = Args::default();
    for word in FIXED {
        args.text(word);
    }
    args.text("ALL");
    if net == NetSetup::Inner {
        args.text("--unshare-net");
    }
    let premounts = if net == NetSetup::PreStage {
        args.pair("--dev-bind", Path::new(STAGE), Path::new("/"));
        premounts(plan, &mut args)
    } else {
        mounts(plan, &mut args);
        Vec::new()
    };
    args.text("--");
    args.0.push(EngineArg::SelfExe);
    args.text(INNER_ARGUMENT);
    Invocation {
        engine: Engine::Bwrap {
            program: program.to_path_buf(),
            version: None,
        },
        args: args.0,
        inner: inner(plan, net),
        premounts,
    }
}

/// A mount of the plan in bubblewrap's words.
#[must_use]
pub fn words(mount: &Mount, devices: bool) -> Vec<EngineArg> {
    let mut args = Args::default();
    args.mount(mount, devices);
    args.0
}

/// The mounts, for the pre-stage and, in and below /proc, for bubblewrap.
fn premounts(plan: &Plan, args: &mut Args) -> Vec<PreMount> {
    let of_proc = |mount: &Mount| mount.dst().starts_with(PROC);
    for mount in plan.mounts.iter().filter(|m| of_proc(m)) {
        args.mount(mount, devices(mount, plan.fs_disabled));
    }
    staged(&plan.mounts, plan.fs_disabled, |mount| !of_proc(mount))
}

/// The mounts that are `here` to be made, for the pre-stage. Caches first: they are bound like anything else.
pub(super) fn staged(
    mounts: &[Mount],
    whole_host: bool,
    here: impl Fn(&Mount) -> bool,
) -> Vec<PreMount> {
    let mut caches = Vec::new();
    let mut guest = Vec::new();
    let mut put = |mount: Mount| {
        guest.push(PreMount::Guest {
            devices: devices(&mount, whole_host),
            mount,
        });
    };
    for mount in mounts {
        if !here(mount) {
            if let Mount::Proc { dst } = mount {
                // bubblewrap could not make a mount point in what is read-only by then.
                let (dst, mode) = (dst.clone(), 0o755);
                put(Mount::Dir { dst, mode });
            }
            continue;
        }
        if let Mount::Overlay {
            lower,
            upper,
            work,
            dst,
        } = mount
        {
            // Beside its layers: on the cache itself it would also stand between the host and what a grant shows of it.
            let merged = upper.with_file_name("merged");
            caches.push(PreMount::Overlay(OverlayMount {
                lowers: vec![lower.clone()],
                upper: upper.clone(),
                work: work.clone(),
                at: merged.clone(),
            }));
            let (src, dst) = (merged, dst.clone());
            put(Mount::State { src, dst });
        } else {
            put(mount.clone());
        }
    }
    caches.extend(guest);
    caches
}

/// All mounts, for bubblewrap.
fn mounts(plan: &Plan, args: &mut Args) {
    // Where no pre-stage can mount them, caches are empty private directories: nothing of the host is in there to be covered.
    let mut empty_caches: Vec<PathBuf> = Vec::new();
    for mount in &plan.mounts {
        if inside_empty_cache(mount, &empty_caches) {
            continue;
        }
        if let Mount::Overlay { upper, dst, .. } = mount {
            args.pair("--bind", &upper.with_file_name("plain"), dst);
            empty_caches.push(dst.clone());
        } else {
            args.mount(mount, devices(mount, plan.fs_disabled));
        }
    }
}

/// A plain bind is nodev: device nodes granted by name, or the whole host, would not open.
fn devices(mount: &Mount, whole_host: bool) -> bool {
    matches!(mount, Mount::Bind { src, .. } if whole_host || src.starts_with("/dev"))
}

/// Covers and protections inside a cache that is an empty private directory: there is nothing to hide, and bwrap would create mount
/// points in it.
fn inside_empty_cache(mount: &Mount, caches: &[PathBuf]) -> bool {
    let (Mount::Cover { dst, .. } | Mount::RoBind { dst, .. }) = mount else {
        return false;
    };
    caches.iter().any(|p| dst.starts_with(p))
}

pub(super) fn inner(plan: &Plan, net: NetSetup) -> InnerPlan {
    InnerPlan {
        argv: plan.argv.clone(),
        env: plan.env.clone(),
        cwd: plan.cwd.clone(),
        pins: plan
            .pins
            .iter()
            .map(|p| (p.guest.clone(), p.dev, p.ino))
            .collect(),
        writable: plan.writable.clone(),
        moved: plan.moved.clone(),
        keep_fds: Vec::new(),
        confine: true,
        listen: if net == NetSetup::Inner {
            vec![proxy_port(&plan.network.forwarded_ports)]
        } else {
            Vec::new()
        },
        ignored_signals: Vec::new(),
        unix_sockets: plan.fs_disabled,
        open_network: net == NetSetup::Host,
        programs: plan.exec.clone(),
        read_floor: plan.read_floor.clone(),
        trap_reads: plan.broker.as_ref().is_some_and(|b| b.reads.is_some()),
        trap_sockets: plan.broker.as_ref().is_some_and(|b| b.sockets.is_some()),
        own_group: false,
        limits: Vec::new(),
        floor: plan.broker.as_ref().map(|broker| Floor {
            covered: broker.trees.iter().map(|t| t.guest.clone()).collect(),
            exempt: broker.exempt.clone(),
        }),
        alone: None,
    }
}

/// The argument vector while it grows.
#[derive(Default)]
struct Args(Vec<EngineArg>);

impl Args {
    fn text(&mut self, word: impl Into<OsString>) {
        self.0.push(EngineArg::Text(word.into()));
    }

    fn one(&mut self, option: &str, path: &Path) {
        self.text(option);
        self.text(path);
    }

    fn pair(&mut self, option: &str, a: &Path, b: &Path) {
        self.one(option, a);
        self.text(b);
    }

    /// `--perms` holds for the next option only (bwrap(1)); `usual` is what that option does without it.
    fn perms(&mut self, mode: u32, usual: u32) {
        if mode != usual {
            self.text("--perms");
            self.text(format!("{mode:04o}"));
        }
    }

    fn content(&mut self, option: &str, content: &[u8], dst: &Path) {
        self.text(option);
        self.0.push(EngineArg::Data(content.to_vec()));
        self.text(dst);
    }

    fn mount(&mut self, mount: &Mount, devices: bool) {
        match mount {
            Mount::RoBind { src, dst } => self.pair("--ro-bind", src, dst),
            Mount::Bind { src, dst } => {
                self.pair(if devices { "--dev-bind" } else { "--bind" }, src, dst);
            }
            Mount::State { src, dst } => self.pair("--bind", src, dst),
            // Rendered by the caller, who knows whether a pre-stage mounts it.
            Mount::Overlay { lower, dst, .. } => self.pair("--ro-bind", lower, dst),
            Mount::Tmpfs { dst, mode, size } => {
                self.perms(*mode, 0o755);
                if let Some(size) = size {
                    self.text("--size");
                    self.text(size.to_string());
                }
                self.one("--tmpfs", dst);
            }
            Mount::Dir { dst, mode } => {
                self.perms(*mode, 0o755);
                self.one("--dir", dst);
            }
            Mount::Symlink { target, dst } => self.pair("--symlink", target, dst),
            Mount::File { dst, content, mode } => {
                self.perms(*mode, 0o666);
                self.content("--file", content, dst);
            }
            Mount::Data { dst, content, mode } => {
                self.perms(*mode, 0o600);
                self.content("--ro-bind-data", content, dst);
            }
            Mount::Cover {
                dst, is_dir: false, ..
            } => {
                self.perms(0, 0o600);
                self.content("--ro-bind-data", b"", dst);
            }
            Mount::Cover {
                dst, is_dir: true, ..
            } => {
                self.perms(0, 0o755);
                self.one("--tmpfs", dst);
                self.one("--remount-ro", dst);
            }
            Mount::RemountRo { dst } => self.one("--remount-ro", dst),
            Mount::Dev { dst } => self.one("--dev", dst),
            Mount::Proc { dst } => self.one("--proc", dst),
        }
    }
}

#[cfg(test)]
mod real_tests;
#[cfg(test)]
mod tests;
