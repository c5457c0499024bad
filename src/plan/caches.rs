//! Private caches (semantics 45): which directories of `policy/data/caches.txt` become overlays, and which tools are redirected.
//!
//! Nothing may be created in the user's tree, so a cache that does not exist yet has no place to be mounted on: there the tool's own
//! variable points into one private directory, mounted once for all of them.
//!
//! Where ccbox has no place for state of its own (a uid without a home in a container, a read-only root), nothing is kept between
//! runs: the redirected tools get directories on the private /run, and the host's caches stay read-only.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::context::Ctx;
use super::mandatory::fields;
use super::rules::{Access, ReadVerdict, Rules};
use super::tree::{Node, Shown, Tree};
use crate::host::fs_view::Kind;
use crate::policy::Caches;

const TABLE: &str = include_str!("../policy/data/caches.txt");
/// Where redirected tools keep their caches.
const REDIRECT: &str = "/run/ccbox-caches";
/// The same where /run is not private.
const REDIRECT_TMP: &str = "/tmp/.ccbox-caches";

/// One cache of a run, for `explain`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheUse {
    /// Name of the row, also of the directory below `<state>/caches`.
    pub name: String,
    /// Guest path of the writable directory.
    pub at: PathBuf,
    /// `overlay`, `empty`, `redirect`, `temporary` or `shared`.
    pub how: &'static str,
}

struct Row {
    name: &'static str,
    dir: &'static str,
    variable: Option<&'static str>,
    parts: Vec<&'static str>,
    redirect: Option<(&'static str, &'static str)>,
}

fn rows() -> impl Iterator<Item = Row> {
    let word = |w: &'static str| (w != "-").then_some(w);
    fields(TABLE).filter_map(move |mut f| {
        Some(Row {
            name: f.next()?,
            dir: f.next()?,
            variable: word(f.next()?),
            parts: f.next()?.split(',').collect(),
            redirect: word(f.next()?).and_then(|r| r.split_once('=')),
        })
    })
}

/// What the caches add to a plan.
#[derive(Debug)]
pub(super) struct CachePlan {
    /// For `explain`.
    pub(super) uses: Vec<CacheUse>,
    /// Variables for redirected tools.
    pub(super) env: Vec<(OsString, OsString)>,
    /// State directories to create.
    pub(super) state_dirs: Vec<PathBuf>,
    /// Caches whose private copy starts empty.
    foreign: Vec<PathBuf>,
    redirect: bool,
    /// ccbox can keep state of its own.
    kept: bool,
}

/// Directories that could become overlays, for the sweep to visit in path order: (row index, link-free host path).
pub(super) fn candidates(ctx: Ctx<'_>) -> Vec<(PathBuf, String)> {
    if ctx.policy.fs.caches == Caches::None {
        return Vec::new();
    }
    let mut out: Vec<(PathBuf, String)> = Vec::new();
    for row in rows() {
        let dir = place(ctx, &row);
        if ctx.fs.meta(&dir).map(|m| m.kind) != Some(Kind::Dir) {
            continue;
        }
        let real = ctx.walk(&dir).real;
        let parts: Vec<PathBuf> = row.parts.iter().map(|p| real.join(p)).collect();
        let whole = row.parts == ["."];
        let all = parts.iter().all(|p| ctx.fs.kind(p) == Some(Kind::Dir));
        if whole || !all {
            out.push((real, row.name.to_owned()));
        } else {
            for (part, name) in parts.into_iter().zip(&row.parts) {
                out.push((part, format!("{}-{}", row.name, name.replace('/', "-"))));
            }
        }
    }
    out
}

/// Where the layers of a cache are kept. Link-free, because it is mounted.
fn store(ctx: Ctx<'_>, name: &str) -> PathBuf {
    ctx.walk(&ctx.host.state_dir.join("caches").join(name)).real
}

fn redirect_store(ctx: Ctx<'_>) -> PathBuf {
    store(ctx, "redirect")
}

/// Where the row's directory is: what its variable names, else below home.
fn place(ctx: Ctx<'_>, row: &Row) -> PathBuf {
    row.variable
        .and_then(|v| ctx.path_var(v))
        .unwrap_or_else(|| ctx.host.home_real.join(row.dir))
}

/// The directory ccbox's state goes to can be made, or is there and can be written.
pub(super) fn state_can_be_kept(ctx: Ctx<'_>) -> bool {
    let caches = ctx.walk(&ctx.host.state_dir.join("caches"));
    let there = caches.real.ancestors().find(|a| ctx.exists(a));
    there.is_some_and(|dir| ctx.fs.can_create_in(dir))
}

/// A user namespace without privileges has one user and one group (user_namespaces(7)). overlayfs keeps the owner of a file it copies
/// up, so a change to a file of anybody else fails with EOVERFLOW. What is true of the directory is most likely true of its content.
fn foreign(ctx: Ctx<'_>, dir: &Path) -> bool {
    ctx.fs
        .meta(dir)
        .is_some_and(|m| m.uid != ctx.host.uid || m.gid != ctx.host.gid)
}

impl CachePlan {
    pub(super) fn new(ctx: Ctx<'_>) -> Self {
        Self {
            uses: Vec::new(),
            env: Vec::new(),
            state_dirs: Vec::new(),
            foreign: Vec::new(),
            redirect: false,
            kept: state_can_be_kept(ctx),
        }
    }

    /// Visits one candidate: puts an overlay over what the view shows read-only.
    pub(super) fn visit(
        &mut self,
        ctx: Ctx<'_>,
        rules: &Rules,
        tree: &mut Tree,
        path: &Path,
        name: &str,
    ) {
        let read_only = match rules.read(path) {
            ReadVerdict::Hidden(_) => return,
            // `read_only` is the user's word; plain visibility is not.
            ReadVerdict::Granted(g) => g.access == Access::ReadOnly,
            ReadVerdict::View => false,
        };
        let denied = matches!(rules.write(path), Err(Some(_)));
        let shown = matches!(tree.shown(path), Shown::Host { path: p, rw: false } if p == path);
        if read_only || denied || !shown {
            return;
        }
        let (node, how) = match ctx.policy.fs.caches {
            Caches::None => return,
            Caches::Private if !self.kept => return,
            Caches::Shared => {
                let node = Node::Host {
                    src: path.to_path_buf(),
                    rw: true,
                };
                (node, "shared")
            }
            Caches::Private => {
                let store = store(ctx, name);
                for sub in ["upper", "work", "plain", "merged"] {
                    self.state_dirs.push(store.join(sub));
                }
                if foreign(ctx, path) {
                    self.foreign.push(path.to_path_buf());
                    let src = store.join("plain");
                    (Node::State { src }, "empty")
                } else {
                    let lower = path.to_path_buf();
                    (Node::Overlay { store, lower }, "overlay")
                }
            }
        };
        self.uses.push(CacheUse {
            name: name.to_owned(),
            at: path.to_path_buf(),
            how,
        });
        tree.put(path, node);
    }

    /// What the user is told.
    pub(super) fn notice(&self) -> Option<String> {
        let list: Vec<String> = self
            .foreign
            .iter()
            .map(|p| format!("`{}`", p.display()))
            .collect();
        (!list.is_empty()).then(|| {
            format!(
                "the private copy of {} starts empty: files of another user or group than this call's could not be changed in it",
                list.join(", ")
            )
        })
    }

    /// After the sweep: tools whose directory is absent or not shown are sent to the private place.
    pub(super) fn redirect_rest(&mut self, ctx: Ctx<'_>, tree: &mut Tree) {
        if ctx.policy.fs.caches != Caches::Private {
            return;
        }
        let Some(root) = [REDIRECT, REDIRECT_TMP].into_iter().find(|r| {
            let parent = Path::new(r).parent().unwrap_or(Path::new("/"));
            matches!(
                tree.provider(parent),
                Some((_, Node::Tmpfs { ro: false, .. }))
            )
        }) else {
            return;
        };
        for row in rows() {
            let Some((variable, template)) = row.redirect else {
                continue;
            };
            // A tool the caller has moved by other means is left alone.
            if Some(variable) != row.variable && ctx.host.var(variable).is_some() {
                continue;
            }
            let dir = ctx.walk(&place(ctx, &row));
            let there = dir.kind == Some(Kind::Dir)
                && !matches!(tree.shown(&dir.real), Shown::Private | Shown::Hidden);
            let can_be_made = match tree.provider(&dir.real) {
                Some((_, Node::Host { rw, .. })) => *rw,
                Some((_, Node::Tmpfs { ro, .. })) => !*ro,
                _ => false,
            };
            if there || can_be_made {
                continue;
            }
            let at = Path::new(root).join(row.name);
            if self.kept {
                self.state_dirs.push(redirect_store(ctx).join(row.name));
            } else {
                tree.put(at.clone(), Node::Dir { mode: 0o700 });
            }
            let value = template.replace('%', &at.display().to_string());
            self.env.push((variable.into(), value.into()));
            self.uses.push(CacheUse {
                name: row.name.to_owned(),
                at,
                how: if self.kept { "redirect" } else { "temporary" },
            });
            self.redirect = true;
        }
        if self.redirect {
            let node = if self.kept {
                Node::State {
                    src: redirect_store(ctx),
                }
            } else {
                Node::Dir { mode: 0o700 }
            };
            tree.put(root, node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_complete() {
        assert_eq!(rows().count(), fields(TABLE).count());
        for r in rows() {
            assert!(!r.dir.starts_with('/'), "{}", r.name);
            assert!(
                r.redirect.is_none_or(|(_, v)| v.contains('%')),
                "{}",
                r.name
            );
        }
        let names: Vec<_> = rows().map(|r| r.name).collect();
        for want in ["xdg", "cargo", "npm", "go", "gradle", "maven", "pnpm"] {
            assert!(names.contains(&want), "{want}");
        }
    }
}
