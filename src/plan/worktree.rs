//! Linked git worktrees (R34, semantics 9): the main repository's common directory, granted as git needs it.
//!
//! The `.git` file of a worktree lies where the child may write, so it is believed only if the main repository points back at it:
//! otherwise a planted `gitdir:` line would grant any directory in the next run (semantics 20).

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::context::Ctx;
use super::paths::normal;
use super::rules::{Access, Grant, GrantKind, Named};
use crate::host::fs_view::Kind;

/// A linked worktree, believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Linked {
    /// `<main>/.git/worktrees/<name>`, link-free.
    pub(super) git_dir: PathBuf,
    /// `<main>/.git`, link-free.
    pub(super) common: PathBuf,
}

/// gitrepository-layout(5): what makes git take a directory for a repository.
pub(super) fn is_git_dir(ctx: Ctx<'_>, dir: &Path) -> bool {
    let is = |name: &str, kind: Kind| ctx.kind(&dir.join(name)) == Some(kind);
    is("HEAD", Kind::File) && is("objects", Kind::Dir) && is("refs", Kind::Dir)
}

/// The worktree whose top is `dir`, where its `.git` is a file and the main repository agrees.
pub(super) fn linked(ctx: Ctx<'_>, dir: &Path) -> Option<Linked> {
    let dot_git = dir.join(".git");
    if ctx.fs.kind(&dot_git) != Some(Kind::File) {
        return None;
    }
    let text = ctx.fs.read(&dot_git)?;
    let target = line(text.strip_prefix(b"gitdir: ")?)?;
    let git_dir = ctx.walk(&dir.join(target)).real;
    // `<common>/worktrees/<name>` and nothing else.
    let worktrees = git_dir.parent()?;
    if worktrees.file_name()? != "worktrees" {
        return None;
    }
    let common = worktrees.parent()?.to_path_buf();
    let named = line(&ctx.fs.read(&git_dir.join("commondir"))?)?;
    if normal(&git_dir.join(named)) != common || !is_git_dir(ctx, &common) {
        return None;
    }
    let back = line(&ctx.fs.read(&git_dir.join("gitdir"))?)?;
    if ctx.walk(&git_dir.join(back)).real != ctx.walk(&dot_git).real {
        return None;
    }
    Some(Linked { git_dir, common })
}

/// The first line as a path.
fn line(bytes: &[u8]) -> Option<PathBuf> {
    let end = bytes
        .iter()
        .position(|b| *b == b'\n')
        .unwrap_or(bytes.len());
    let text = bytes.get(..end)?;
    (!text.is_empty()).then(|| PathBuf::from(std::ffi::OsStr::from_bytes(text)))
}

/// Grants for the common directories of the worktrees at `places`.
pub(super) fn grants(
    ctx: Ctx<'_>,
    places: impl IntoIterator<Item = PathBuf>,
    existing: &[Grant],
) -> Vec<Grant> {
    let mut out: Vec<Grant> = Vec::new();
    for dir in places {
        let Some(found) = linked(ctx, &dir) else {
            continue;
        };
        let known = |list: &[Grant]| {
            list.iter().any(|g| {
                g.is_identity() && found.common.starts_with(g.path()) && g.access == Access::Write
            })
        };
        if known(existing) || known(&out) {
            continue;
        }
        out.push(Grant {
            walk: ctx.walk(&found.common),
            guest: None,
            access: Access::Write,
            kind: GrantKind::Worktree,
            named: Named::built_in(
                "git preset",
                format!("main repository of the worktree \"{}\"", dir.display()),
            ),
        });
    }
    out
}
