//! The child's tree while it is being planned: what stands at which guest path.
//!
//! One node a path, so there is nothing to contradict; a path without a node is part of its nearest node above.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::paths::{Names, below, rest, upwards, within};
use super::quick::Quick;
use crate::host::FsView;
use crate::host::fs_view::Kind;

/// What stands at one guest path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    /// A piece of the host.
    Host {
        /// Link-free host path.
        src: PathBuf,
        /// Writable.
        rw: bool,
    },
    /// Copy-on-write cache over the host directory of the same path.
    Overlay {
        /// Directory below the state directory with the layers.
        store: PathBuf,
        /// The host's cache.
        lower: PathBuf,
    },
    /// A directory of ccbox's state.
    State {
        /// Host path below the state directory.
        src: PathBuf,
    },
    /// Private in-memory directory; `ro` ones only hold mount points.
    Tmpfs {
        /// Permission bits.
        mode: u32,
        /// Size limit.
        size: Option<u64>,
        /// Read-only once everything in it is made.
        ro: bool,
    },
    /// Directory inside a private one.
    Dir {
        /// Permission bits.
        mode: u32,
    },
    /// Link inside a private directory.
    Symlink {
        /// Its text.
        target: PathBuf,
    },
    /// File inside a private directory.
    File {
        /// Its content.
        content: Vec<u8>,
        /// Permission bits.
        mode: u32,
    },
    /// Generated file over one of the host.
    Data {
        /// Its content.
        content: Vec<u8>,
        /// Permission bits.
        mode: u32,
    },
    /// Hidden object.
    Cover {
        /// Link-free host path.
        of: PathBuf,
        /// Directory or file.
        is_dir: bool,
    },
    /// Minimal /dev.
    Dev,
    /// Fresh /proc.
    Proc,
}

/// What a guest path shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shown {
    /// The host's object at this host path.
    Host {
        /// Host path.
        path: PathBuf,
        /// Writable.
        rw: bool,
    },
    /// The host's object below a private writable layer.
    Cache {
        /// Host path.
        path: PathBuf,
    },
    /// Nothing of the host.
    Private,
    /// Below a cover.
    Hidden,
    /// The child's own /dev or /proc.
    Kernel,
}

/// The planned tree.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    // Keyed by the bytes of normal paths: comparing or hashing `Path`s parses them into components each time.
    nodes: HashMap<OsString, Node, Quick>,
    /// Guest and host path of every piece of the host that was ever put where its own path is not.
    moved: Vec<(PathBuf, PathBuf)>,
}

impl Tree {
    /// The node that decides about `path`, with the path it stands at.
    pub(super) fn provider(&self, path: &Path) -> Option<(&Path, &Node)> {
        upwards(path)
            .find_map(|a| self.nodes.get_key_value(a.as_os_str()))
            .map(|(p, n)| (Path::new(p), n))
    }

    /// What `path` shows.
    pub(super) fn shown(&self, path: &Path) -> Shown {
        let Some((at, node)) = self.provider(path) else {
            return Shown::Private;
        };
        let inside = |src: &Path| join(src, rest(path, at));
        match node {
            Node::Host { src, rw } => Shown::Host {
                path: inside(src),
                rw: *rw,
            },
            Node::Overlay { lower, .. } => Shown::Cache {
                path: inside(lower),
            },
            Node::Cover { .. } => Shown::Hidden,
            Node::Dev | Node::Proc => Shown::Kernel,
            Node::State { .. }
            | Node::Tmpfs { .. }
            | Node::Dir { .. }
            | Node::Symlink { .. }
            | Node::File { .. }
            | Node::Data { .. } => Shown::Private,
        }
    }

    /// The host's object at `path` can be changed through it.
    pub(super) fn host_writable(&self, path: &Path) -> bool {
        matches!(self.shown(path), Shown::Host { rw: true, .. })
    }

    /// The node exactly at `path`.
    pub(super) fn get(&self, path: &Path) -> Option<&Node> {
        self.nodes.get(path.as_os_str())
    }

    /// Guest paths that show the host's object `host`, whether it exists or not, and whether it can be changed there.
    pub(super) fn places<'a>(
        &'a self,
        host: &'a Path,
    ) -> impl Iterator<Item = (PathBuf, bool)> + 'a {
        let moved = self
            .moved
            .iter()
            .filter(move |(_, src)| within(host, src))
            .map(move |(at, src)| join(at, rest(host, src)));
        std::iter::once(host.to_path_buf())
            .chain(moved)
            .filter_map(move |guest| match self.shown(&guest) {
                Shown::Host { path, rw } if path == host => Some((guest, rw)),
                Shown::Host { .. }
                | Shown::Cache { .. }
                | Shown::Private
                | Shown::Hidden
                | Shown::Kernel => None,
            })
    }

    /// Puts a node.
    pub(super) fn put(&mut self, path: impl Into<PathBuf>, node: Node) {
        let path = path.into();
        if let Node::Host { src, .. } = &node
            && *src != path
        {
            self.moved.push((path.clone(), src.clone()));
        }
        self.nodes.insert(path.into_os_string(), node);
    }

    /// Puts a node where none stands.
    pub(super) fn put_new(&mut self, path: impl Into<PathBuf>, node: Node) {
        self.nodes
            .entry(path.into().into_os_string())
            .or_insert(node);
    }

    /// Removes the pieces of the host strictly below `path`: they are hidden with it.
    pub(super) fn drop_host_below(&mut self, path: &Path) {
        self.nodes
            .retain(|p, n| !(below(Path::new(p), path) && matches!(n, Node::Host { .. })));
    }

    /// Removes what stands strictly below `path`, but for what is to be kept and for private directories with what stands in them.
    pub(super) fn clear_below(&mut self, path: &Path, keep: impl Fn(&Path) -> bool) {
        let in_private = |p: &Path| {
            upwards(p).take_while(|a| below(a, path)).any(|a| {
                // A read-only one only stands in for a home the view does not show.
                matches!(
                    self.get(a),
                    Some(Node::Tmpfs { ro: false, .. } | Node::Dev | Node::Proc)
                )
            })
        };
        let gone: Vec<OsString> = self
            .nodes
            .keys()
            .filter(|p| {
                let p = Path::new(p);
                below(p, path) && !in_private(p) && !keep(p)
            })
            .cloned()
            .collect();
        for p in gone {
            self.nodes.remove(&p);
        }
    }

    /// Puts a piece of the host in place of what the view had there: what the view made of that piece, or in it, goes with it. Private
    /// directories deeper down and what stands in them stay.
    pub(super) fn replace(&mut self, path: &Path, node: Node) {
        self.clear_below(path, |_| false);
        self.put(path, node);
    }

    /// Some node stands strictly below `path`.
    pub(super) fn holds_nodes(&self, path: &Path) -> bool {
        self.nodes.keys().any(|p| below(Path::new(p), path))
    }

    /// All nodes, a directory before what lies in it.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Path, &Node)> {
        let mut all: Vec<(&Path, &Node)> =
            self.nodes.iter().map(|(p, n)| (Path::new(p), n)).collect();
        // By component: `/a/b` before `/a-b`, which plain byte order would turn round.
        let key = |p: &Path| -> Vec<u8> {
            p.as_os_str()
                .as_encoded_bytes()
                .iter()
                .map(|b| if *b == b'/' { 0 } else { *b })
                .collect()
        };
        all.sort_by_cached_key(|(p, _)| key(p));
        all.into_iter()
    }
}

/// `src` joined with a possibly empty rest (`Path::join` of an empty path would add a slash).
fn join(src: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() {
        src.to_path_buf()
    } else {
        src.join(rest)
    }
}

/// The tree as the child will see it.
pub(super) struct GuestNames<'a> {
    /// Planned tree.
    pub(super) tree: &'a Tree,
    /// Host below it.
    pub(super) fs: &'a dyn FsView,
}

impl Names for GuestNames<'_> {
    fn kind(&self, path: &Path) -> Option<Kind> {
        if let Some(node) = self.tree.get(path) {
            return match node {
                Node::Host { src, .. } => self.fs.meta(src).map(|m| m.kind),
                Node::Symlink { .. } => Some(Kind::Link),
                Node::File { .. } | Node::Data { .. } | Node::Cover { is_dir: false, .. } => {
                    Some(Kind::File)
                }
                Node::Overlay { .. }
                | Node::State { .. }
                | Node::Tmpfs { .. }
                | Node::Dir { .. }
                | Node::Cover { is_dir: true, .. }
                | Node::Dev
                | Node::Proc => Some(Kind::Dir),
            };
        }
        match self.tree.shown(path) {
            Shown::Host { path, .. } | Shown::Cache { path } => self.fs.kind(&path),
            Shown::Kernel => self.fs.kind(path),
            // Parents of mount points are made on the way.
            Shown::Private | Shown::Hidden => self.tree.holds_nodes(path).then_some(Kind::Dir),
        }
    }

    fn read_link(&self, path: &Path) -> Option<PathBuf> {
        if let Some(Node::Symlink { target }) = self.tree.get(path) {
            return Some(target.clone());
        }
        match self.tree.shown(path) {
            Shown::Host { path, .. } | Shown::Cache { path } => self.fs.read_link(&path),
            Shown::Kernel => self.fs.read_link(path),
            Shown::Private | Shown::Hidden => None,
        }
    }
}
