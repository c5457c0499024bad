//! Grants: bind_mounts, allow_write, allow_read, runner_state_dirs, and the working directory of the dev profile.

use std::path::Path;

use super::context::Ctx;
use super::paths::{Walk, below};
use super::rules::{Access, Grant, GrantKind, Named, place};
use super::{PlanError, access_log, mandatory, other_runs, sockets};
use crate::host::fs_view::Kind;
use crate::policy::path::PathEntry;
use crate::policy::{Layer, Origin, Ruled};

/// Collects the grants of every list; `notices` takes what the user must be told.
pub(super) fn collect(ctx: Ctx<'_>, notices: &mut Vec<String>) -> Result<Vec<Grant>, PlanError> {
    let fs = &ctx.policy.fs;
    let mut out = Vec::new();
    for bind in &fs.binds {
        let b = &bind.value;
        let access = if b.read_only {
            Access::ReadOnly
        } else {
            Access::Write
        };
        let mut grant = grant(ctx, "bind_mounts", &b.host_path, access, &bind.origin);
        grant.guest = b.guest_path.clone().filter(|g| *g != b.host_path);
        out.push(grant);
    }
    for (key, list, access) in [
        ("allow_write", &fs.allow_write, Access::Write),
        ("allow_read", &fs.allow_read, Access::Read),
        ("runner_state_dirs", &fs.runner_state_dirs, Access::Write),
    ] {
        for entry in list {
            let path = exact(entry, key)?;
            // `--ro DIR` beside a writable tree means what it says to anybody who knows bwrap: read-only from here on.
            let access = if entry.origin.layer == Layer::Flag("--ro") {
                Access::ReadOnly
            } else {
                access
            };
            let mut grant = grant(ctx, key, path, access, &entry.origin);
            if key == "runner_state_dirs" {
                grant.kind = GrantKind::Runner;
            }
            out.push(grant);
        }
    }
    out.extend(sockets::grants(ctx)?);
    out.retain(|g| g.walk.kind.is_some() || !optional(g));
    if fs.cwd_writable && ctx.policy.workdir.is_none() {
        let cwd = cwd_grant(ctx, &out, notices);
        out.extend(cwd);
    }
    for g in &out {
        check(ctx, g)?;
    }
    sockets::check_places(ctx, &out)?;
    access_log::check(ctx, &out)?;
    planted_links(ctx, &out)?;
    notices.extend(wide_and_narrow(ctx, &out));
    Ok(out)
}

/// The exact path of an entry; patterns wait for the creation broker.
pub(super) fn exact<'a>(entry: &'a Ruled<PathEntry>, key: &str) -> Result<&'a Path, PlanError> {
    match &entry.value {
        PathEntry::Exact(p) => Ok(p),
        PathEntry::Pattern(p) => Err(PlanError {
            message: format!(
                "`{}` ({key}, {}) is a pattern, and this list takes none yet",
                p.text,
                place(&entry.origin)
            ),
            hint: Some("name the existing paths one by one".to_owned()),
        }),
    }
}

fn grant(ctx: Ctx<'_>, key: &str, path: &Path, access: Access, origin: &Origin) -> Grant {
    Grant {
        walk: ctx.walk(path),
        guest: None,
        access,
        kind: GrantKind::Plain,
        named: Named::new(key, path, origin),
    }
}

/// A missing path is no mistake of the user where a profile names it, or where it would only be read.
fn optional(g: &Grant) -> bool {
    matches!(g.named.origin.layer, Layer::Profile(_) | Layer::BuiltIn(_))
        || g.access == Access::Read
}

/// A missing path, a path of the kernel's own trees, and a grant at or below what is never writable are errors (semantics 4).
fn check(ctx: Ctx<'_>, g: &Grant) -> Result<(), PlanError> {
    let err = |message: String, hint: &str| {
        Err(PlanError {
            message,
            hint: Some(hint.to_owned()),
        })
    };
    let rule = format!("{} ({})", g.named.words, place(&g.named.origin));
    if g.walk.kind.is_none() {
        return err(
            format!("{rule}: nothing exists at `{}`", g.walk.real.display()),
            "create it first, or remove the entry",
        );
    }
    if g.path().starts_with("/proc") {
        return err(
            format!("{rule}: the host's /proc is never shown"),
            "remove the entry; the command has a /proc of its own",
        );
    }
    if g.access != Access::Write || matches!(g.kind, GrantKind::Runner | GrantKind::Cwd) {
        return Ok(());
    }
    if let Some(name) = mandatory::at_or_below(ctx, g.path()) {
        return err(
            format!("{rule} lies at or below `{name}`, which is never writable"),
            "grant it read-only, or grant another directory",
        );
    }
    let own = own_paths(ctx).into_iter().find(|o| g.path().starts_with(o));
    if let Some(own) = own {
        return err(
            format!(
                "{rule} lies at or below `{}`, which belongs to ccbox and is never writable",
                own.display()
            ),
            "grant another directory",
        );
    }
    Ok(())
}

/// Spec, configuration, state and the lock of all runs, link-free.
pub(super) fn own_paths(ctx: Ctx<'_>) -> Vec<std::path::PathBuf> {
    let files = ctx.policy.fs.own_files.iter().map(|f| f.value.clone());
    files
        .chain([ctx.host.state_dir.clone(), ctx.host.config_dir.clone()])
        .chain(other_runs::common(ctx))
        .map(|p| ctx.walk(&p).real)
        .collect()
}

/// A grant never passes through a link a child could have planted: one that lies in a writable tree and leads out of it (semantics 20).
fn planted_links(ctx: Ctx<'_>, grants: &[Grant]) -> Result<(), PlanError> {
    let roots: Vec<&Path> = grants
        .iter()
        .filter(|g| g.access == Access::Write)
        .map(Grant::path)
        .collect();
    for g in grants.iter().filter(|g| g.kind != GrantKind::Cwd) {
        planted_link(&roots, &g.walk, &g.named.words)?;
    }
    // In `terminal`, where home is writable, the cwd is the directory the caller stands in.
    if ctx.policy.workdir.is_some() || !ctx.policy.fs.terminal_secrets_only {
        planted_link(&roots, &ctx.walk(&ctx.cwd()), "the working directory")?;
    }
    Ok(())
}

/// One path against the writable roots.
pub(super) fn planted_link(roots: &[&Path], walk: &Walk, what: &str) -> Result<(), PlanError> {
    for link in &walk.links {
        for root in roots {
            if below(&link.at, root) && !walk.real.starts_with(root) {
                return Err(PlanError {
                    message: format!(
                        "{what} passes through the link `{}`, which lies in the writable `{}` and leads out of it to `{}`",
                        link.at.display(),
                        root.display(),
                        walk.real.display()
                    ),
                    hint: Some(format!("name `{}` itself", walk.real.display())),
                });
            }
        }
    }
    Ok(())
}

/// The working directory of the dev profile, unless it is a place nobody means to hand over whole (semantics 10).
fn cwd_grant(ctx: Ctx<'_>, others: &[Grant], notices: &mut Vec<String>) -> Option<Grant> {
    let real = &ctx.host.cwd_real;
    let shown = ctx.host.cwd.display();
    let refused = if ctx.host.home_real.starts_with(real) {
        Some("it is the home directory or above it".to_owned())
    } else if is_system(real) {
        Some("it is a system directory".to_owned())
    } else if let Some(name) = mandatory::at_or_below(ctx, real) {
        Some(format!("it lies at or below `{name}`"))
    } else {
        own_paths(ctx)
            .into_iter()
            .find(|o| real.starts_with(o))
            .map(|o| format!("`{}` belongs to ccbox", o.display()))
    };
    if let Some(why) = refused {
        let around = others.iter().filter(|g| real.starts_with(g.path()));
        let nearest = around.max_by_key(|g| g.path().components().count());
        if nearest.is_none_or(|g| g.access != Access::Write) {
            notices.push(format!(
                "the working directory `{shown}` stays read-only because {why}; --rw names what should be writable"
            ));
        }
        return None;
    }
    Some(Grant {
        walk: ctx.walk(&ctx.host.cwd),
        guest: None,
        access: Access::Write,
        kind: GrantKind::Cwd,
        named: Named {
            words: format!("working directory \"{shown}\""),
            origin: Origin {
                layer: Layer::Profile(ctx.policy.profile.clone()),
                file: None,
                line: None,
            },
        },
    })
}

/// System directories of semantics 10.
#[must_use]
pub fn is_system(path: &Path) -> bool {
    let text = path.as_os_str().as_encoded_bytes();
    let whole = ["/var", "/opt", "/srv"]
        .iter()
        .any(|d| path == Path::new(d));
    let below = [
        "/etc", "/boot", "/dev", "/proc", "/sys", "/run", "/bin", "/sbin",
    ]
    .iter()
    .any(|d| path.starts_with(d));
    let usr = path.starts_with("/usr")
        && !path.starts_with("/usr/src")
        && !path.starts_with("/usr/local/src");
    // `/lib*`: /lib, /lib32, /lib64, /libx32.
    whole || below || usr || text.starts_with(b"/lib")
}

/// One notice each for a grant far wider than usual, and for one that a rename cannot replace (semantics 40, FW-9).
fn wide_and_narrow(ctx: Ctx<'_>, grants: &[Grant]) -> Vec<String> {
    let mut out = Vec::new();
    for g in grants.iter().filter(|g| g.access == Access::Write) {
        let from_user = !optional(g);
        let whole = g.path() == Path::new("/") || ctx.host.home_real.starts_with(g.path());
        if whole && from_user {
            out.push(format!(
                "{} ({}) makes all of `{}` writable",
                g.named.words,
                place(&g.named.origin),
                g.path().display()
            ));
        }
        if matches!(g.walk.kind, Some(Kind::File)) {
            out.push(format!(
                "`{}` is granted as a single file: it can be changed in place but not replaced by rename (most editors and installers do that); grant its directory instead",
                g.path().display()
            ));
        }
    }
    out
}
