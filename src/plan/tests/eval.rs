//! A second opinion: carries out a mount list step by step, the way the kernel would, knowing nothing of rules or trees.

use std::path::{Path, PathBuf};

use crate::plan::Mount;

/// What a guest path shows after all mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// The host's object, writable or not.
    Host(PathBuf, bool),
    /// The host's object under a private writable layer.
    Copy(PathBuf),
    /// Nothing of the host.
    Other,
}

#[derive(Debug)]
struct Mounted {
    dst: PathBuf,
    src: Option<PathBuf>,
    rw: bool,
    copy: bool,
}

/// The mount table after `mounts`.
#[derive(Debug)]
pub(super) struct Table(Vec<Mounted>);

impl Table {
    pub(super) fn new(mounts: &[Mount]) -> Self {
        let mut table = Vec::new();
        for m in mounts {
            let mut add = |dst: &PathBuf, src: Option<&PathBuf>, rw: bool, copy: bool| {
                table.push(Mounted {
                    dst: dst.clone(),
                    src: src.cloned(),
                    rw,
                    copy,
                });
            };
            match m {
                Mount::RoBind { src, dst } => add(dst, Some(src), false, false),
                Mount::Bind { src, dst } => add(dst, Some(src), true, false),
                Mount::Overlay { lower, dst, .. } => add(dst, Some(lower), true, true),
                Mount::State { dst, .. }
                | Mount::Tmpfs { dst, .. }
                | Mount::Dev { dst }
                | Mount::Proc { dst } => add(dst, None, true, false),
                Mount::Data { dst, .. } | Mount::Cover { dst, .. } => add(dst, None, false, false),
                // Made inside what is mounted there already.
                Mount::Dir { .. } | Mount::Symlink { .. } | Mount::File { .. } => {}
                Mount::RemountRo { dst } => {
                    if let Some(m) = table.iter_mut().rev().find(|m| m.dst == *dst) {
                        m.rw = false;
                    }
                }
            }
        }
        Self(table)
    }

    fn top(&self, path: &Path) -> Option<&Mounted> {
        self.0.iter().rev().find(|m| path.starts_with(&m.dst))
    }

    pub(super) fn seen(&self, path: &Path) -> Seen {
        let Some(m) = self.top(path) else {
            return Seen::Other;
        };
        let Some(src) = &m.src else {
            return Seen::Other;
        };
        let rest = path.strip_prefix(&m.dst).unwrap();
        let host = if rest.as_os_str().is_empty() {
            src.clone()
        } else {
            src.join(rest)
        };
        if m.copy {
            Seen::Copy(host)
        } else {
            Seen::Host(host, m.rw)
        }
    }

    /// rename(2) of `path` would succeed as far as mounts go.
    pub(super) fn can_rename(&self, path: &Path) -> bool {
        let parent = path.parent().unwrap();
        matches!(self.seen(parent), Seen::Host(_, true)) && !self.0.iter().any(|m| m.dst == path)
    }
}
