//! The planned tree as an ordered list of mounts.

use std::path::PathBuf;

use super::Mount;
use super::paths::depth;
use super::tree::{Node, Tree};

/// The mount order, the only place that knows it:
///
/// 1. the root: nothing in the bound view (the engine starts from an empty one), the host's `/` in the host view;
/// 2. every other node, a directory before what lies in it and names in byte order, so that
///    - a private directory comes before the links, files and binds inside it,
///    - a bind comes before the binds, read-only binds and covers inside it: the deeper rule wins by being mounted later,
///    - a cache comes before the covers of the secrets inside it,
///    - /proc and /dev come before what covers parts of them;
/// 3. read-only remounts of private directories that only hold mount points, deepest first, once everything in them is made;
///    the root of the bound view last.
///
/// No destination contains a link (bubblewrap would follow it relative to the wrong root), and every destination outside a private
/// directory exists (bubblewrap would create it on the host).
pub(super) fn emit(tree: &Tree) -> Vec<Mount> {
    let mut mounts = Vec::new();
    let mut remounts: Vec<PathBuf> = Vec::new();
    for (path, node) in tree.iter() {
        let dst = path.to_path_buf();
        match node {
            Node::Host { src, rw: true } => mounts.push(Mount::Bind {
                src: src.clone(),
                dst,
            }),
            Node::Host { src, rw: false } => mounts.push(Mount::RoBind {
                src: src.clone(),
                dst,
            }),
            Node::Overlay { store, lower } => mounts.push(Mount::Overlay {
                lower: lower.clone(),
                upper: store.join("upper"),
                work: store.join("work"),
                dst,
            }),
            Node::State { src } => mounts.push(Mount::State {
                src: src.clone(),
                dst,
            }),
            Node::Tmpfs { mode, size, ro } => {
                if *ro {
                    remounts.push(dst.clone());
                }
                if path.parent().is_some() {
                    mounts.push(Mount::Tmpfs {
                        dst,
                        mode: *mode,
                        size: *size,
                    });
                }
            }
            Node::Dir { mode } => mounts.push(Mount::Dir { dst, mode: *mode }),
            Node::Symlink { target } => mounts.push(Mount::Symlink {
                target: target.clone(),
                dst,
            }),
            Node::File { content, mode } => mounts.push(Mount::File {
                dst,
                content: content.clone(),
                mode: *mode,
            }),
            Node::Data { content, mode } => mounts.push(Mount::Data {
                dst,
                content: content.clone(),
                mode: *mode,
            }),
            // A hidden directory with something shown inside can be passed through, but neither listed nor written.
            Node::Cover { is_dir: true, .. } if tree.holds_nodes(path) => {
                remounts.push(dst.clone());
                mounts.push(Mount::Tmpfs {
                    dst,
                    mode: 0o111,
                    size: None,
                });
            }
            Node::Cover { of, is_dir } => mounts.push(Mount::Cover {
                of: of.clone(),
                dst,
                is_dir: *is_dir,
            }),
            Node::Dev => mounts.push(Mount::Dev { dst }),
            Node::Proc => mounts.push(Mount::Proc { dst }),
        }
    }
    remounts.sort_by_key(|p| std::cmp::Reverse(depth(p)));
    mounts.extend(remounts.into_iter().map(|dst| Mount::RemountRo { dst }));
    mounts
}
