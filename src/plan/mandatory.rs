//! Mandatory write-denies (R31, semantics 7 and 8): the names of `policy/data/mandatory.txt`, where they exist.
//!
//! Mounts can hold only what exists. What does not is returned as absent and becomes a gap; nothing is ever created in its place.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::context::Ctx;
use super::paths::Walk;
use super::rules::{Grant, GrantKind, Named, Never, Strength};
use super::worktree;
use crate::host::fs_view::Kind;

const TABLE: &str = include_str!("../policy/data/mandatory.txt");
const AGENT_HOME: &str = include_str!("../policy/data/agent_home.txt");

/// How deep `modules/*/modules/*` of submodules is followed.
const MODULE_DEPTH: usize = 4;

/// Mandatory denies of a run.
#[derive(Debug, Default)]
pub(super) struct Mandatory {
    /// What exists.
    pub(super) nevers: Vec<Never>,
    /// What does not, as host paths.
    pub(super) absent: Vec<PathBuf>,
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
    let second = ctx.policy.fs.protect_project_config;
    for row in rows().filter(|r| r.place == "tree" && (r.tier == "first" || second)) {
        let path = dir.join(row.name);
        // One question for all of `.claude/…` where there is no `.claude`.
        if path.parent().is_some_and(|p| p == dir || ctx.exists(p)) {
            add(ctx, path, row.name, out);
        } else {
            out.absent.push(path);
        }
    }
}

fn add(ctx: Ctx<'_>, path: PathBuf, name: &str, out: &mut Mandatory) {
    if ctx.exists(&path) {
        let walk = ctx.walk(&path);
        out.nevers.push(never(walk, name));
    } else {
        out.absent.push(path);
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
    match ctx.fs.meta(&dot_git).map(|m| m.kind) {
        Some(Kind::Dir) => {
            let walk = ctx.walk(&dot_git);
            git_dir(ctx, &walk.real, MODULE_DEPTH, out);
            out.links.extend(walk.links.into_iter().map(|l| l.at));
        }
        Some(Kind::File) => {
            // Re-pointing this file would lend the next git command another configuration.
            out.nevers.push(never(ctx.walk(&dot_git), ".git"));
            if let Some(linked) = worktree::linked(ctx, dir) {
                git_dir(ctx, &linked.common, MODULE_DEPTH, out);
                for name in ["commondir", "gitdir", "config.worktree"] {
                    add(ctx, linked.git_dir.join(name), name, out);
                }
            }
        }
        Some(Kind::Link | Kind::Other) => {}
        None if worktree::is_git_dir(ctx, dir) => git_dir(ctx, dir, MODULE_DEPTH, out),
        None => {
            out.absent.push(dot_git.join("hooks"));
            out.absent.push(dot_git.join("config"));
            for name in ["HEAD", "objects", "refs"] {
                if !ctx.exists(&dir.join(name)) {
                    out.absent.push(dir.join(name));
                }
            }
        }
    }
}

fn git_dir(ctx: Ctx<'_>, git: &Path, levels: usize, out: &mut Mandatory) {
    let preset = ctx.policy.fs.protect_git;
    for row in rows().filter(|r| r.place == "gitdir" && (r.tier == "git" || preset)) {
        // A normal git directory has no `commondir`, and none of these needs to be there.
        let path = git.join(row.name);
        let known = ctx.exists(&path);
        if known || matches!(row.name, "hooks" | "config") {
            add(ctx, path, &format!(".git/{}", row.name), out);
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
        .unwrap_or_else(|| ctx.host.home_real.join(".claude"));
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
    } else if ctx.exists(&home) {
        let mut rule = never(ctx.walk(&home), "~/.claude");
        rule.except = agent_names("cache")
            .map(|n| home.join(n))
            .filter(|p| ctx.fs.kind(p) == Some(Kind::Dir))
            .chain(runners.iter().map(|r| r.to_path_buf()))
            .collect();
        out.nevers.push(rule);
    }
    for dir in keep_in {
        for name in agent_names("keep") {
            add(ctx, dir.join(name), name, out);
        }
    }
    for file in [
        ctx.host.home_real.join(".claude.json"),
        home.join(".credentials.json"),
    ] {
        if !lifted(&file) {
            let name = format!("~/{}", file.file_name().unwrap_or_default().display());
            add(ctx, file, &name, out);
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
