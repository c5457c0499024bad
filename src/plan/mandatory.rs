//! Mandatory write-denies (R31, semantics 7 and 8): the names of `policy/data/mandatory.txt`.
//!
//! Mounts can hold only what exists. What does not is held by the creation broker, and without one becomes a gap; nothing is ever
//! created in its place.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::context::Ctx;
use super::paths::Walk;
use super::rules::{Grant, GrantKind, Named, Never, Strength};
use super::{git_includes, hooks_path, worktree};
use crate::host::fs_view::Kind;

const TABLE: &str = include_str!("../policy/data/mandatory.txt");
const AGENT_HOME: &str = include_str!("../policy/data/agent_home.txt");

/// The agent's directory in the home directory, of which most is never writable.
pub const AGENT_HOME_NAME: &str = ".claude";

/// How deep `modules/*/modules/*` of submodules is followed.
const MODULE_DEPTH: usize = 4;

/// Mandatory denies of a run.
#[derive(Debug, Default)]
pub(super) struct Mandatory {
    /// What exists, to be mounted read-only.
    pub(super) nevers: Vec<Never>,
    /// What does not, as host paths.
    pub(super) absent: Vec<PathBuf>,
    /// What the broker holds by name, whether it exists or not. Not what lies in git directories: that is the git preset's.
    pub(super) names: Vec<Never>,
    /// Links that lead to a git directory: what they lead to stays writable, they themselves should not.
    pub(super) links: Vec<PathBuf>,
}

struct Row {
    tier: &'static str,
    place: &'static str,
    name: &'static str,
}

fn rows() -> impl Iterator<Item = Row> {
    fields(TABLE).filter_map(|mut f| {
        Some(Row {
            tier: f.next()?,
            place: f.next()?,
            name: f.next()?,
        })
    })
}

/// Lines of a data file, split at blanks, without comments.
pub(super) fn fields(
    text: &'static str,
) -> impl Iterator<Item = std::str::SplitWhitespace<'static>> {
    text.lines()
        .filter(|l| !l.starts_with('#') && !l.trim().is_empty())
        .map(str::split_whitespace)
}

fn agent_names(word: &'static str) -> impl Iterator<Item = &'static str> {
    fields(AGENT_HOME).filter_map(move |mut f| (f.next()? == word).then(|| f.next()).flatten())
}

/// Collects what exists below the writable roots, the working directory, the directories above it and their repositories.
pub(super) fn collect(ctx: Ctx<'_>, grants: &[Grant]) -> Mandatory {
    let mut out = Mandatory::default();
    for dir in places(ctx, grants) {
        tree_rows(ctx, &dir, &mut out);
        git_rows(ctx, &dir, &mut out);
    }
    agent_home(ctx, grants, &mut out);
    // The working directory is often a root, and a worktree's common directory is found from both sides.
    let mut seen = BTreeSet::new();
    out.nevers.retain(|n| seen.insert(n.walk.real.clone()));
    out
}

/// Names below the top of a work tree that are closed in every repository (semantics 8).
pub(super) fn repository_names(ctx: Ctx<'_>) -> impl Iterator<Item = &'static str> {
    let second = ctx.policy.fs.protect_project_config;
    rows()
        .filter(move |r| r.place == "tree" && (r.tier == "first" || second))
        .map(|r| r.name)
}

/// One of the first tier.
pub(super) fn is_first(name: &str) -> bool {
    rows().any(|r| r.tier == "first" && r.name == name)
}

/// Places in a git directory that are closed, the preset's with it.
pub(super) fn git_names(preset: bool) -> impl Iterator<Item = &'static str> {
    rows()
        .filter(move |r| r.place == "gitdir" && (r.tier == "git" || preset))
        .map(|r| r.name)
}

/// Names that would make the top of a writable root a bare repository.
pub(super) const BARE: [&str; 3] = ["HEAD", "objects", "refs"];

/// Tops of writable roots, and the working directory with its parents as far as a writable root reaches.
pub(super) fn places(ctx: Ctx<'_>, grants: &[Grant]) -> BTreeSet<PathBuf> {
    let roots: Vec<&Path> = grants
        .iter()
        .filter(|g| g.access == super::rules::Access::Write && g.walk.kind == Some(Kind::Dir))
        .map(Grant::path)
        .collect();
    let cwd = ctx.cwd_real();
    let above = cwd
        .ancestors()
        .filter(|a| roots.iter().any(|r| a.starts_with(r)));
    roots
        .iter()
        .copied()
        .chain(above)
        .map(Path::to_path_buf)
        .collect()
}

fn tree_rows(ctx: Ctx<'_>, dir: &Path, out: &mut Mandatory) {
    for name in repository_names(ctx) {
        let walk = walk_below(ctx, dir, name);
        hold(never(walk, name), out);
    }
}

/// As [`Ctx::walk`] of a name in a link-free directory, with two questions to the file system where there is no link.
fn walk_below(ctx: Ctx<'_>, dir: &Path, name: &str) -> Walk {
    let path = dir.join(name);
    let parent = match path.parent() {
        Some(parent) if parent != dir => ctx.fs.kind(parent),
        Some(_) | None => Some(Kind::Dir),
    };
    let kind = match parent {
        Some(Kind::Dir) => ctx.fs.kind(&path),
        Some(Kind::Link) => Some(Kind::Link),
        Some(Kind::File | Kind::Other) | None => None,
    };
    if kind == Some(Kind::Link) {
        return ctx.walk(&path);
    }
    Walk {
        spelled: path.clone(),
        real: path,
        links: Vec::new(),
        kind,
    }
}

/// A name that is closed whatever stands there.
fn add(ctx: Ctx<'_>, path: &Path, name: &str, out: &mut Mandatory) {
    hold(never(ctx.walk(path), name), out);
}

fn hold(rule: Never, out: &mut Mandatory) {
    // A dangling link exists, and what it leads to does not.
    if rule.walk.kind.is_some() || rule.walk.links.iter().any(|l| l.last) {
        out.nevers.push(rule.clone());
    } else {
        out.absent.push(rule.walk.spelled.clone());
    }
    out.names.push(rule);
}

/// A place in a git directory. The broker's git preset knows it by its name there; where a link stands at that name, or leads to the
/// directory, the link and what it leads to are closed as well.
fn add_git(ctx: Ctx<'_>, git: &Path, name: &str, out: &mut Mandatory) {
    let path = git.join(name);
    if !ctx.exists(&path) {
        out.absent.push(path);
        return;
    }
    let rule = never(ctx.walk(&path), &format!(".git/{name}"));
    if !rule.walk.links.is_empty() {
        out.names.push(rule.clone());
    }
    // git replaces its configuration by rename, which nothing mounted there survives; the gate judges each new one.
    let gated = ctx.has_broker() && matches!(name, "config" | "config.worktree");
    if !gated || rule.walk.kind != Some(Kind::File) || !rule.walk.links.is_empty() {
        out.nevers.push(rule);
    }
}

fn never(walk: Walk, name: &str) -> Never {
    Never {
        walk,
        except: Vec::new(),
        strength: Strength::Mandatory,
        named: Named::built_in("mandatory", format!("mandatory \"{name}\"")),
    }
}

/// The git directories that belong to `dir`: its `.git`, or itself where it is one.
fn git_rows(ctx: Ctx<'_>, dir: &Path, out: &mut Mandatory) {
    let dot_git = dir.join(".git");
    match ctx.kind(&dot_git) {
        Some(Kind::Dir) => {
            let walk = ctx.walk(&dot_git);
            git_dir(ctx, &walk.real, MODULE_DEPTH, out);
            elsewhere(ctx, dir, &walk.real, out);
            out.links.extend(walk.links.into_iter().map(|l| l.at));
        }
        Some(Kind::File) => {
            // Re-pointing this file would lend the next git command another configuration.
            add(ctx, &dot_git, ".git", out);
            if let Some(linked) = worktree::linked(ctx, dir) {
                git_dir(ctx, &linked.common, MODULE_DEPTH, out);
                elsewhere(ctx, dir, &linked.common, out);
                for name in ["commondir", "gitdir"] {
                    add(ctx, &linked.git_dir.join(name), name, out);
                }
                add_git(ctx, &linked.git_dir, "config.worktree", out);
            }
        }
        Some(Kind::Link | Kind::Other) => {}
        None if worktree::is_git_dir(ctx, dir) => git_dir(ctx, dir, MODULE_DEPTH, out),
        None => {
            out.absent.push(dot_git.join("hooks"));
            out.absent.push(dot_git.join("config"));
            for name in BARE {
                if !ctx.exists(&dir.join(name)) {
                    out.absent.push(dir.join(name));
                }
            }
        }
    }
}

/// What the configuration of a repository is made of beside its own file: the files it includes. And the directories that
/// `core.hooksPath` names there: closed, or where more than hooks is in them, the names of hooks there.
fn elsewhere(ctx: Ctx<'_>, top: &Path, git: &Path, out: &mut Mandatory) {
    let mut hooks = Vec::new();
    let own = git.join("config");
    for file in hooks_path::files_of_caller(ctx).into_iter().chain([own]) {
        hooks.extend(hooks_path::of_file(ctx, &file, top));
        for included in git_includes::of_file(ctx, &file) {
            hooks.extend(hooks_path::of_file(ctx, &included, top));
            add(ctx, &included, "include.path", out);
        }
    }
    for dir in hooks {
        if top.starts_with(&dir) {
            for name in hooks_path::NAMES {
                add(ctx, &dir.join(name), "core.hooksPath", out);
            }
        } else {
            add(ctx, &dir, "core.hooksPath", out);
        }
    }
}

fn git_dir(ctx: Ctx<'_>, git: &Path, levels: usize, out: &mut Mandatory) {
    let preset = ctx.policy.fs.protect_git;
    for row in rows().filter(|r| r.place == "gitdir" && (r.tier == "git" || preset)) {
        // A normal git directory has no `commondir`, and none of these needs to be there.
        if matches!(row.name, "hooks" | "config") || ctx.exists(&git.join(row.name)) {
            add_git(ctx, git, row.name, out);
        }
    }
    if preset && levels > 0 {
        for name in ctx.fs.list(&git.join("modules")) {
            let module = git.join("modules").join(name);
            if worktree::is_git_dir(ctx, &module) {
                git_dir(ctx, &module, levels - 1, out);
            }
        }
    }
}

/// Link-free `~/.claude` or `$CLAUDE_CONFIG_DIR`.
fn agent_home_path(ctx: Ctx<'_>) -> PathBuf {
    let path = ctx
        .path_var("CLAUDE_CONFIG_DIR")
        .unwrap_or_else(|| ctx.host.home_real.join(AGENT_HOME_NAME));
    ctx.walk(&path).real
}

/// `~/.claude`: everything but caches, lifted for what runner_state_dirs name, except the files that are code or settings (semantics 7).
fn agent_home(ctx: Ctx<'_>, grants: &[Grant], out: &mut Mandatory) {
    let home = agent_home_path(ctx);
    let runners: Vec<&Path> = grants
        .iter()
        .filter(|g| g.kind == GrantKind::Runner)
        .map(Grant::path)
        .collect();
    let lifted = |p: &Path| runners.iter().any(|r| p.starts_with(r));
    let mut keep_in: BTreeSet<PathBuf> = runners.iter().map(|r| r.to_path_buf()).collect();
    if lifted(&home) {
        keep_in.insert(home.clone());
    } else {
        let mut rule = never(ctx.walk(&home), "~/.claude");
        rule.except = agent_names("cache")
            .map(|n| home.join(n))
            .filter(|p| ctx.fs.kind(p) == Some(Kind::Dir))
            .chain(runners.iter().map(|r| r.to_path_buf()))
            .collect();
        if ctx.exists(&home) {
            out.nevers.push(rule.clone());
        }
        out.names.push(rule);
    }
    for dir in keep_in {
        for name in agent_names("keep") {
            add(ctx, &dir.join(name), name, out);
        }
    }
    for file in [
        ctx.host.home_real.join(".claude.json"),
        home.join(".credentials.json"),
    ] {
        if !lifted(&file) {
            let name = format!("~/{}", file.file_name().unwrap_or_default().display());
            add(ctx, &file, &name, out);
        }
    }
}

/// The mandatory name that `path` lies at or below, by spelling alone: such a writable grant is an error whatever else is granted.
pub(super) fn at_or_below(ctx: Ctx<'_>, path: &Path) -> Option<String> {
    let home = agent_home_path(ctx);
    let in_cache = || agent_names("cache").any(|n| path.starts_with(home.join(n)));
    if path.starts_with(&home) && !in_cache() {
        return Some(home.display().to_string());
    }
    named(path)
}

/// The row that names `path` or what it lies below, wherever that is.
pub(super) fn named(path: &Path) -> Option<String> {
    let names = rows().filter_map(|r| match (r.tier, r.place) {
        ("first", "tree") => Some(PathBuf::from(r.name)),
        ("git", _) => Some(Path::new(".git").join(r.name)),
        _ => None,
    });
    for name in names {
        let hit = path.ancestors().any(|a| a.ends_with(&name));
        if hit {
            return Some(name.display().to_string());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_known_words() {
        let lines = fields(TABLE).count();
        assert_eq!(rows().count(), lines);
        for r in rows() {
            assert!(
                ["first", "second", "git", "preset"].contains(&r.tier),
                "{}",
                r.tier
            );
            assert!(["tree", "gitdir"].contains(&r.place), "{}", r.place);
            assert!(!r.name.starts_with('/'), "{}", r.name);
        }
        assert_eq!(
            fields(AGENT_HOME).count(),
            agent_names("cache").count() + agent_names("keep").count()
        );
    }

    #[test]
    fn the_names_of_r31_are_all_there() {
        let first: Vec<_> = rows()
            .filter(|r| r.tier == "first")
            .map(|r| r.name)
            .collect();
        for name in [
            ".claude/settings.json",
            ".claude/settings.local.json",
            ".claude/skills",
            ".claude/agents",
            ".claude/commands",
            ".claude/hooks",
            ".claude/workflows",
            ".claude/scheduled_tasks.json",
            ".mcp.json",
            ".bashrc",
            ".bash_profile",
            ".bash_login",
            ".bash_aliases",
            ".profile",
            ".zshrc",
            ".zshenv",
            ".zprofile",
            ".zlogin",
            ".gitconfig",
            ".vscode",
            ".idea",
        ] {
            assert!(first.contains(&name), "{name}");
        }
    }
}
