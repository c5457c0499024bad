//! Unix sockets by path (R47, semantics 35 and 36): which sockets of others may be connected to.
//!
//! | entry names | means |
//! |---|---|
//! | a socket, or nothing yet | whoever listens at this path at the time; it is shown where its directory is private, and never made, moved or replaced from inside |
//! | a directory | every socket below; nothing more is shown. Not a directory inside a writable one: the command could move sockets into it |
//!
//! Without an entry there is nothing here, and Unix sockets are refused by number. What the command binds itself needs no entry.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::PlanError;
use super::context::Ctx;
use super::grants::{exact, planted_link};
use super::paths::{Walk, below, within};
use super::rules::{Access, Grant, GrantKind, Named, Never, Strength, place};
use super::seatbelt::Match;
use super::tree::{Node, Tree};
use crate::broker::plan::{SocketGrant, SocketPlan};
use crate::host::fs_view::Kind;
use crate::policy::{Layer, NetworkMode, Origin, Ruled};

/// What the key is called.
const KEY: &str = "allow_unix_sockets";

/// Ways to everywhere, which no entry opens.
const CLOSED: &str = include_str!("../policy/data/sockets.txt");

/// An entry, looked up.
struct Entry {
    walk: Walk,
    named: Named,
}

impl Entry {
    fn is_dir(&self) -> bool {
        self.walk.kind == Some(Kind::Dir)
    }
}

/// Unix sockets are decided by path.
pub(super) fn wanted(ctx: Ctx<'_>) -> bool {
    let net = &ctx.policy.net;
    !ctx.policy.fs.disabled && (!net.unix_sockets.is_empty() || net.all_unix_sockets.is_some())
}

fn entries(ctx: Ctx<'_>) -> Result<Vec<Entry>, PlanError> {
    if !wanted(ctx) {
        return Ok(Vec::new());
    }
    let entries = ctx.policy.net.unix_sockets.iter();
    entries
        .map(|entry| {
            let path = exact(entry, KEY)?;
            Ok(Entry {
                walk: ctx.walk(path),
                named: Named::new(KEY, path, &entry.origin),
            })
        })
        .collect()
}

/// Sockets are shown where they are: in private directories and below hidden ones, too.
pub(super) fn grants(ctx: Ctx<'_>) -> Result<Vec<Grant>, PlanError> {
    let mut out = Vec::new();
    for entry in entries(ctx)? {
        check(ctx, &entry)?;
        if entry.walk.kind == Some(Kind::Other) {
            out.push(Grant {
                walk: entry.walk,
                guest: None,
                access: Access::Read,
                kind: GrantKind::Plain,
                named: entry.named,
            });
        }
    }
    Ok(out)
}

/// What is no socket cannot be meant, and what leads everywhere is nobody's to grant.
fn check(ctx: Ctx<'_>, entry: &Entry) -> Result<(), PlanError> {
    let real = &entry.walk.real;
    let rule = format!("{} ({})", entry.named.words, place(&entry.named.origin));
    if entry.walk.kind == Some(Kind::File) {
        return Err(PlanError {
            message: format!("{rule}: `{}` is no socket", real.display()),
            hint: Some("name a socket, or a directory of sockets".to_owned()),
        });
    }
    if closed(ctx).any(|path| ctx.walk(&path).real == *real || path == *real) {
        return Err(PlanError {
            message: format!(
                "{rule}: whoever can talk to `{}` can do anything outside, so no entry opens it",
                real.display()
            ),
            hint: Some("remove the entry".to_owned()),
        });
    }
    Ok(())
}

/// A directory of sockets inside a writable one would be open to every socket that can be moved into it; and no entry goes through a link
/// that the command could have planted (semantics 20).
pub(super) fn check_places(ctx: Ctx<'_>, grants: &[Grant]) -> Result<(), PlanError> {
    let writable = || grants.iter().filter(|g| g.access == Access::Write);
    let roots: Vec<&Path> = writable().map(Grant::path).collect();
    for entry in entries(ctx)? {
        let real = &entry.walk.real;
        planted_link(&roots, &entry.walk, &entry.named.words)?;
        let root = writable().find(|g| entry.is_dir() && below(real, g.path()));
        if let Some(root) = root {
            return Err(PlanError {
                message: format!(
                    "{} ({}) names a directory inside the writable `{}`, where the command could move any socket into it",
                    entry.named.words,
                    place(&entry.named.origin),
                    root.path().display()
                ),
                hint: Some("name the sockets one by one".to_owned()),
            });
        }
    }
    Ok(())
}

/// The name of a granted socket is somebody else's: nobody inside makes it, moves it or puts another socket there. Nor is a way to
/// everywhere moved away, to where a granted directory would open it.
pub(super) fn nevers(ctx: Ctx<'_>, grants: &[Grant]) -> Vec<Never> {
    let entries = entries(ctx).unwrap_or_default();
    let named = entries
        .into_iter()
        .filter(|entry| !entry.is_dir())
        .map(|entry| (entry.walk, entry.named));
    let closed = wanted(ctx).then(|| closed(ctx)).into_iter().flatten();
    let in_reach = |walk: &Walk| {
        let mut roots = grants.iter().filter(|g| g.access == Access::Write);
        roots.any(|g| within(&walk.real, g.path()))
    };
    let closed = closed.filter_map(|path| {
        let words = format!("socket \"{}\"", path.display());
        let walk = ctx.walk(&path);
        in_reach(&walk).then(|| (walk, Named::built_in("sockets", words)))
    });
    named
        .chain(closed)
        .map(|(walk, named)| Never {
            walk,
            except: Vec::new(),
            strength: Strength::Protected,
            named,
        })
        .collect()
}

/// What the supervisor decides by.
pub(super) fn collect(ctx: Ctx<'_>, tree: &Tree) -> Result<Option<SocketPlan>, PlanError> {
    if !wanted(ctx) {
        return Ok(None);
    }
    let granted = entries(ctx)?.into_iter().map(|entry| SocketGrant {
        directory: entry.is_dir(),
        path: entry.walk.real,
    });
    let private = |node: &Node| matches!(node, Node::Tmpfs { ro: false, .. } | Node::Dev);
    Ok(Some(SocketPlan {
        granted: granted.collect(),
        all: ctx.policy.net.all_unix_sockets.is_some(),
        closed: closed(ctx).collect(),
        own_network: ctx.policy.net.mode != NetworkMode::Open,
        private: tree
            .iter()
            .filter(|(_, node)| private(node))
            .map(|(path, _)| path.to_path_buf())
            .collect(),
    }))
}

/// Said once: an entry that cannot do anything in this run.
pub(super) fn notices(ctx: Ctx<'_>, tree: &Tree) -> Vec<String> {
    let entries = entries(ctx).unwrap_or_default();
    let absent = entries.iter().filter(|e| e.walk.kind.is_none());
    absent
        .filter(|e| !matches!(tree.shown(&e.walk.real), super::tree::Shown::Host { .. }))
        .map(|e| {
            format!(
                "{} ({}): nothing listens there yet, and the directory is a private one inside, so it will not be seen in this run",
                e.named.words,
                place(&e.named.origin)
            )
        })
        .collect()
}

/// For Seatbelt, which knows sockets by path: what is open, and what is closed whatever that says.
pub(super) fn seatbelt(ctx: Ctx<'_>) -> Result<(BTreeSet<Match>, BTreeSet<PathBuf>), PlanError> {
    let entries = entries(ctx)?.into_iter().map(|entry| {
        if entry.is_dir() {
            Match::Tree(entry.walk.real)
        } else {
            Match::Exact(entry.walk.real)
        }
    });
    let all = ctx.policy.net.all_unix_sockets.is_some();
    let all = all.then(|| Match::Tree("/".into()));
    let closed = closed(ctx).flat_map(|path| [ctx.walk(&path).real, path]);
    Ok((entries.chain(all).collect(), closed.collect()))
}

/// Paths of the table on this host.
fn closed(ctx: Ctx<'_>) -> impl Iterator<Item = PathBuf> {
    let runtime = ctx
        .path_var("XDG_RUNTIME_DIR")
        .unwrap_or_else(|| format!("/run/user/{}", ctx.host.uid).into());
    let (home, uid) = (ctx.host.home_real.clone(), ctx.host.uid.to_string());
    CLOSED
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(move |line| {
            if let Some(rest) = line.strip_prefix("~/") {
                home.join(rest)
            } else if let Some(rest) = line.strip_prefix("$RUNTIME/") {
                runtime.join(rest)
            } else {
                line.replace("$UID", &uid).into()
            }
        })
}

/// Variables that say where a granted socket is (semantics 21): they pass.
pub(super) fn doors(ctx: Ctx<'_>) -> Vec<Ruled<String>> {
    if !wanted(ctx) {
        return Vec::new();
    }
    let entries = entries(ctx).unwrap_or_default();
    let open = |path: &Path| {
        let real = ctx.walk(path).real;
        entries.iter().any(|e| within(&real, &e.walk.real))
            && !closed(ctx).any(|closed| ctx.walk(&closed).real == real)
    };
    let env = ctx.host.env.iter();
    env.filter_map(|(name, value)| {
        let path = socket_of(ctx, name, value)?;
        let name = name.to_str()?;
        open(&path).then(|| Ruled {
            value: name.to_owned(),
            origin: Origin {
                layer: Layer::BuiltIn("doors"),
                file: None,
                line: None,
            },
        })
    })
    .collect()
}

/// The socket that a variable names, as far as its form says one.
fn socket_of(ctx: Ctx<'_>, name: &OsString, value: &OsStr) -> Option<PathBuf> {
    let bytes = value.as_bytes();
    let until = |stop: u8| bytes.split(move |&b| b == stop).next().unwrap_or_default();
    let path = match name.to_str()? {
        "WAYLAND_DISPLAY" if !bytes.starts_with(b"/") => {
            return Some(ctx.path_var("XDG_RUNTIME_DIR")?.join(value));
        }
        "SSH_AUTH_SOCK"
        | "WAYLAND_DISPLAY"
        | "PIPEWIRE_REMOTE"
        | "SWAYSOCK"
        | "I3SOCK"
        | "NVIM"
        | "NVIM_LISTEN_ADDRESS"
        | "EMACS_SOCKET_NAME"
        | "ALACRITTY_SOCKET"
        | "WEZTERM_UNIX_SOCKET" => bytes,
        "PULSE_SERVER" | "KITTY_LISTEN_ON" => bytes.strip_prefix(b"unix:")?,
        "DOCKER_HOST" | "CONTAINER_HOST" => bytes.strip_prefix(b"unix://")?,
        "TMUX" => until(b','),
        "DBUS_SESSION_BUS_ADDRESS" | "DBUS_SYSTEM_BUS_ADDRESS" => {
            until(b',').strip_prefix(b"unix:path=")?
        }
        _ => return None,
    };
    let path = Path::new(OsStr::from_bytes(path));
    path.is_absolute().then(|| path.to_path_buf())
}

/// Without the creation broker nobody could decide.
pub(super) fn refusal(ctx: Ctx<'_>, why: &str) -> Option<PlanError> {
    if !wanted(ctx) {
        return None;
    }
    let net = &ctx.policy.net;
    let (key, origin) = match (net.unix_sockets.first(), &net.all_unix_sockets) {
        (Some(entry), _) => (KEY, &entry.origin),
        (None, Some(origin)) => ("allow_all_unix_sockets", origin),
        (None, None) => return None,
    };
    Some(PlanError {
        message: format!(
            "`{key}` ({}): Unix sockets by path need the creation broker, which cannot work here: {why}",
            place(origin)
        ),
        hint: Some("remove the entry; Unix sockets are closed then".to_owned()),
    })
}
