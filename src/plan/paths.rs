//! Where a path leads: every link on the way and the link-free end.
//!
//! Works on any tree that can name kinds and link texts, so the same walk answers for the host and for the view inside.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::host::FsView;
use crate::host::fs_view::Kind;

/// A tree of names.
pub(super) trait Names {
    /// Kind of a link-free path, final link not followed.
    fn kind(&self, path: &Path) -> Option<Kind>;
    /// Text of a link.
    fn read_link(&self, path: &Path) -> Option<PathBuf>;
}

/// The host's tree.
pub(super) struct HostNames<'a>(pub(super) &'a dyn FsView);

impl Names for HostNames<'_> {
    fn kind(&self, path: &Path) -> Option<Kind> {
        self.0.kind(path)
    }
    fn read_link(&self, path: &Path) -> Option<PathBuf> {
        self.0.read_link(path)
    }
}

/// One link crossed by a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    /// Where the link itself stands; link-free.
    pub(super) at: PathBuf,
    /// Its text.
    pub(super) text: PathBuf,
    /// The link is the end of the path as spelled, not a directory on the way.
    pub(super) last: bool,
}

/// The result of a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Walk {
    /// As asked, lexically normal.
    pub(super) spelled: PathBuf,
    /// Link-free; what does not exist is appended as written.
    pub(super) real: PathBuf,
    /// Links crossed, in order.
    pub(super) links: Vec<Link>,
    /// What stands at `real`; `None` where nothing does.
    pub(super) kind: Option<Kind>,
}

/// Linux gives up after 40 links (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// Follows `path` (absolute) through `names`.
pub(super) fn walk(names: &dyn Names, path: &Path) -> Walk {
    let spelled = normal(path);
    match straight(names, &spelled) {
        Some(kind) => Walk {
            real: spelled.clone(),
            spelled,
            links: Vec::new(),
            kind,
        },
        None => crooked(names, spelled),
    }
}

/// What stands at a normal path on whose way there is no link; `None` where one is. Most paths are such, and need no pieces.
#[allow(clippy::option_option, reason = "the inner one is the answer")]
fn straight(names: &dyn Names, path: &Path) -> Option<Option<Kind>> {
    let bytes = path.as_os_str().as_bytes();
    let mut kind = Some(Kind::Dir);
    for end in ends(bytes) {
        if kind != Some(Kind::Dir) {
            return Some(None);
        }
        kind = names.kind(prefix(bytes, end));
        match kind {
            Some(Kind::Link) => return None,
            None => return Some(None),
            Some(Kind::Dir | Kind::File | Kind::Other) => {}
        }
    }
    Some(kind)
}

/// Where each component of a normal path ends.
fn ends(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let inner = bytes.iter().enumerate().skip(1);
    let slashes = inner.filter(|(_, b)| **b == b'/').map(|(at, _)| at);
    slashes.chain((bytes.len() > 1).then_some(bytes.len()))
}

fn prefix(bytes: &[u8], end: usize) -> &Path {
    Path::new(OsStr::from_bytes(bytes.get(..end).unwrap_or_default()))
}

/// A normal path and those above it, down from `path` to `/`. As `Path::ancestors`, which parses components anew at each step.
pub(super) fn upwards(path: &Path) -> impl Iterator<Item = &Path> {
    let bytes = path.as_os_str().as_bytes();
    std::iter::successors(Some(bytes), |at| above(at)).map(|b| Path::new(OsStr::from_bytes(b)))
}

/// The bytes of the directory that holds a normal path.
pub(super) fn above(path: &[u8]) -> Option<&[u8]> {
    let slash = path.iter().rposition(|b| *b == b'/')?;
    match path.get(..slash)? {
        [] if path.len() > 1 => path.get(..1),
        [] => None,
        parent => Some(parent),
    }
}

/// What of `path` lies below `dir`, both normal and the one within the other; empty where they are the same.
pub(super) fn rest<'a>(path: &'a Path, dir: &Path) -> &'a Path {
    let (path, dir) = (path.as_os_str().as_bytes(), dir.as_os_str().as_bytes());
    let tail = path.strip_prefix(dir).unwrap_or_default();
    Path::new(OsStr::from_bytes(tail.strip_prefix(b"/").unwrap_or(tail)))
}

/// As [`walk`], through links.
fn crooked(names: &dyn Names, spelled: PathBuf) -> Walk {
    let mut rest: VecDeque<OsString> = parts(&spelled);
    // How many components of `rest` came from the spelling itself and not from a link's text.
    let mut own = rest.len();
    let mut real = PathBuf::from("/");
    let mut links: Vec<Link> = Vec::new();
    let mut kind = Some(Kind::Dir);
    while let Some(name) = rest.pop_front() {
        own = own.min(rest.len());
        if name == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&name);
        kind = names.kind(&next);
        match kind {
            Some(Kind::Link) if links.len() < MAX_LINKS => {
                let Some(text) = names.read_link(&next) else {
                    kind = None;
                    real = next;
                    break;
                };
                links.push(Link {
                    at: next,
                    text: text.clone(),
                    last: own == 0,
                });
                if text.is_absolute() {
                    real = PathBuf::from("/");
                }
                for part in raw_parts(&text).into_iter().rev() {
                    rest.push_front(part);
                }
                kind = Some(Kind::Dir);
            }
            Some(Kind::Dir) => real = next,
            Some(Kind::File | Kind::Other) if rest.is_empty() => real = next,
            // One link too many, a file used as a directory, or nothing: the remaining names are kept as written.
            Some(Kind::Link | Kind::File | Kind::Other) | None => {
                kind = None;
                real = next;
                break;
            }
        }
    }
    for name in rest {
        if name == ".." {
            real.pop();
        } else {
            real.push(name);
        }
    }
    Walk {
        spelled,
        real,
        links,
        kind,
    }
}

/// Absolute and lexically normal: no `.`, no `..`, no doubled or trailing slash.
pub(super) fn normal(path: &Path) -> PathBuf {
    if is_normal(path.as_os_str().as_bytes()) {
        return path.to_path_buf();
    }
    let mut out = PathBuf::from("/");
    for c in path.components() {
        match c {
            Component::Normal(n) => out.push(n),
            Component::ParentDir => {
                out.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    out
}

/// As [`normal`] makes them.
pub(super) fn is_normal(path: &[u8]) -> bool {
    match path.strip_prefix(b"/") {
        Some([]) => true,
        Some(names) => names
            .split(|b| *b == b'/')
            .all(|name| !matches!(name, b"" | b"." | b"..")),
        None => false,
    }
}

fn parts(path: &Path) -> VecDeque<OsString> {
    raw_parts(path).into()
}

/// Components of a link's text; `..` is kept, because it means the parent of where the link leads.
fn raw_parts(path: &Path) -> Vec<OsString> {
    path.components()
        .filter_map(|c| match c {
            Component::Normal(n) => Some(n.to_os_string()),
            Component::ParentDir => Some(OsString::from("..")),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

/// Number of components of a normal path: `/` is 0.
pub(super) fn depth(path: &Path) -> usize {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes == b"/" {
        0
    } else {
        bytes.split(|b| *b == b'/').count().saturating_sub(1)
    }
}

/// `path` is `dir` or below it, both normal. `Path::starts_with` parses both anew at each call, and the rules ask thousands of times.
pub(crate) fn within(path: &Path, dir: &Path) -> bool {
    let (path, dir) = (
        path.as_os_str().as_encoded_bytes(),
        dir.as_os_str().as_encoded_bytes(),
    );
    match path.strip_prefix(dir) {
        Some(rest) => rest.is_empty() || rest.first() == Some(&b'/') || dir == b"/",
        None => false,
    }
}

/// `path` is strictly below `dir`.
pub(crate) fn below(path: &Path, dir: &Path) -> bool {
    path.as_os_str().len() > dir.as_os_str().len() && within(path, dir)
}

/// The host path of `path`, link-free; absent parts as written. For `check`, whose questions are about link-free paths.
#[must_use]
pub fn real_path(fs: &dyn FsView, path: &Path) -> PathBuf {
    walk(&HostNames(fs), path).real
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fs_view::FakeFs;

    fn w(fs: &FakeFs, p: &str) -> Walk {
        walk(&HostNames(fs), Path::new(p))
    }

    #[test]
    fn follows_relative_absolute_and_chained_links() {
        let fs = FakeFs::new()
            .file("/data/real/f", "x")
            .link("/home/u/lnk", "../../data/real")
            .link("/home/u/abs", "/home/u/lnk");
        let got = w(&fs, "/home/u/abs/f");
        assert_eq!(got.real, Path::new("/data/real/f"));
        assert_eq!(got.kind, Some(Kind::File));
        let at: Vec<_> = got.links.iter().map(|l| (l.at.clone(), l.last)).collect();
        assert_eq!(
            at,
            [("/home/u/abs".into(), false), ("/home/u/lnk".into(), false)]
        );
        assert!(w(&fs, "/home/u/abs").links.iter().all(|l| l.last));
    }

    #[test]
    fn absent_tails_are_kept_as_written() {
        let fs = FakeFs::new().dir("/ws").link("/ws/dl", "/gone/x");
        assert_eq!(w(&fs, "/ws/a/b").real, Path::new("/ws/a/b"));
        assert_eq!(w(&fs, "/ws/a/b").kind, None);
        let dangling = w(&fs, "/ws/dl/y");
        assert_eq!(dangling.real, Path::new("/gone/x/y"));
        assert_eq!(dangling.kind, None);
    }

    #[test]
    fn a_loop_ends() {
        let fs = FakeFs::new().link("/a", "/b").link("/b", "/a");
        assert_eq!(w(&fs, "/a/x").kind, None);
    }

    #[test]
    fn byte_steps_are_those_of_path() {
        for p in ["/", "/a", "/a/b", "/a/b/cd"] {
            let p = Path::new(p);
            let ours: Vec<_> = upwards(p).collect();
            assert_eq!(ours, p.ancestors().collect::<Vec<_>>());
            for dir in ours {
                assert_eq!(rest(p, dir), p.strip_prefix(dir).unwrap());
            }
            let bytes = p.as_os_str().as_bytes();
            let mut down: Vec<_> = ends(bytes).map(|e| prefix(bytes, e)).collect();
            down.reverse();
            down.push(Path::new("/"));
            assert_eq!(down, p.ancestors().collect::<Vec<_>>());
        }
    }

    #[test]
    fn spellings_are_made_normal() {
        for p in ["/", "/a", "/a/..b/.c"] {
            assert!(is_normal(p.as_bytes()), "{p}");
        }
        for p in ["", "a", "//", "/a/", "/a//b", "/./a", "/a/.", "/../a"] {
            assert!(!is_normal(p.as_bytes()), "{p}");
        }
        assert_eq!(normal(Path::new("//a/./b//../c/")), Path::new("/a/c"));
        assert_eq!(normal(Path::new("/../..")), Path::new("/"));
        let within = |a: &str, b: &str| within(Path::new(a), Path::new(b));
        assert!(
            within("/a/b", "/a") && within("/a", "/a") && within("/a", "/") && within("/", "/")
        );
        assert!(!within("/ab", "/a") && !within("/a", "/a/b") && !within("/", "/a"));
        assert_eq!(depth(Path::new("/")), 0);
        assert_eq!(depth(Path::new("/a/b")), 2);
    }
}
