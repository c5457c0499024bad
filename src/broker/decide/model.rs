//! A file system in memory, and a broker that acts on it as the decision says: for tests.

use std::collections::{BTreeMap, BTreeSet};

use super::super::gate::keys::Place;
use super::super::gate::skeleton::{self, Found, Hooks, Skeleton};
use super::super::gate::{self};
use super::super::git_paths::{Becomes, COMMONDIR};
use super::*;

pub(super) type Inode = usize;

#[derive(Debug, Clone)]
pub(super) enum Node {
    File(Vec<u8>),
    Dir(BTreeMap<String, Inode>),
    /// The target, absolute or relative.
    Symlink(String),
}

/// The tree; inode 0 is `/`.
#[derive(Debug, Clone)]
pub(super) struct Fs {
    pub(super) nodes: Vec<Node>,
    /// Made or written by the child.
    pub(super) touched: BTreeSet<Inode>,
    /// Descriptors the child holds.
    pub(super) open: Vec<Inode>,
    pub(super) project_git_dirs: BTreeSet<Inode>,
    pub(super) old_work_trees: BTreeSet<Inode>,
}

pub(super) fn split(path: &str) -> Vec<&str> {
    path.split('/').filter(|c| !c.is_empty()).collect()
}

impl Fs {
    pub(super) fn new() -> Self {
        Self {
            nodes: vec![Node::Dir(BTreeMap::new())],
            touched: BTreeSet::new(),
            open: Vec::new(),
            project_git_dirs: BTreeSet::new(),
            old_work_trees: BTreeSet::new(),
        }
    }

    /// The host makes a file (or, with a trailing slash, a directory) with its parents.
    pub(super) fn host(&mut self, path: &str, content: &str) {
        let mut at = 0;
        let parts = split(path);
        for (i, part) in parts.iter().enumerate() {
            let last = i + 1 == parts.len() && !path.ends_with('/');
            at = match self.child(at, part) {
                Some(next) => next,
                None if last => self.put(at, part, Node::File(content.into())),
                None => self.put(at, part, Node::Dir(BTreeMap::new())),
            };
        }
    }

    fn put(&mut self, dir: Inode, name: &str, node: Node) -> Inode {
        self.nodes.push(node);
        let inode = self.nodes.len() - 1;
        self.link(dir, name, inode);
        inode
    }

    fn link(&mut self, dir: Inode, name: &str, inode: Inode) {
        if let Node::Dir(entries) = &mut self.nodes[dir] {
            entries.insert(name.to_owned(), inode);
        }
    }

    fn unlink(&mut self, dir: Inode, name: &str) {
        if let Node::Dir(entries) = &mut self.nodes[dir] {
            entries.remove(name);
        }
    }

    pub(super) fn child(&self, dir: Inode, name: &str) -> Option<Inode> {
        match &self.nodes[dir] {
            Node::Dir(entries) => entries.get(name).copied(),
            Node::File(_) | Node::Symlink(_) => None,
        }
    }

    pub(super) fn entries(&self, dir: Inode) -> Vec<(String, Inode)> {
        match &self.nodes[dir] {
            Node::Dir(entries) => entries.iter().map(|(n, i)| (n.clone(), *i)).collect(),
            Node::File(_) | Node::Symlink(_) => Vec::new(),
        }
    }

    /// Without following links.
    pub(super) fn at(&self, path: &[&str]) -> Option<Inode> {
        path.iter().try_fold(0, |at, name| self.child(at, name))
    }

    /// As the host resolves a path, links and all.
    pub(super) fn resolve(&self, path: &str) -> Option<Inode> {
        let mut done: Vec<String> = Vec::new();
        let mut todo: Vec<String> = split(path).iter().rev().map(ToString::to_string).collect();
        let mut hops = 0;
        while let Some(part) = todo.pop() {
            match part.as_str() {
                "." => {}
                ".." => {
                    done.pop();
                }
                name => {
                    let here: Vec<&str> = done.iter().map(String::as_str).collect();
                    let inode = self.child(self.at(&here)?, name)?;
                    if let Node::Symlink(target) = &self.nodes[inode] {
                        hops += 1;
                        if hops > 40 {
                            return None;
                        }
                        if target.starts_with('/') {
                            done.clear();
                        }
                        todo.extend(split(target).iter().rev().map(ToString::to_string));
                    } else {
                        done.push(part);
                    }
                }
            }
        }
        let here: Vec<&str> = done.iter().map(String::as_str).collect();
        self.at(&here)
    }

    pub(super) fn kind(&self, inode: Option<Inode>) -> Kind {
        match inode.map(|i| &self.nodes[i]) {
            None => Kind::Absent,
            Some(Node::File(_)) => Kind::File,
            Some(Node::Dir(_)) => Kind::Dir,
            Some(Node::Symlink(_)) => Kind::Symlink,
        }
    }

    pub(super) fn content(&self, inode: Option<Inode>) -> Option<&[u8]> {
        match inode.map(|i| &self.nodes[i]) {
            Some(Node::File(content)) => Some(content),
            _ => None,
        }
    }

    /// Every path below `/`, without following links.
    pub(super) fn walk(&self) -> Vec<(Vec<String>, Inode)> {
        let mut all = Vec::new();
        let mut todo = vec![(Vec::new(), 0)];
        while let Some((path, inode)) = todo.pop() {
            for (name, child) in self.entries(inode) {
                let mut path: Vec<String> = path.clone();
                path.push(name);
                todo.push((path.clone(), child));
                all.push((path, child));
            }
        }
        all.sort();
        all
    }
}

/// The facts around one path.
struct Around<'a> {
    fs: &'a Fs,
    path: Vec<&'a str>,
}

impl Around<'_> {
    fn dir(&self, depth: usize) -> Option<Inode> {
        self.fs.at(&self.path[..depth])
    }
}

impl Facts for Around<'_> {
    fn holds(&self, depth: usize, name: &str) -> bool {
        self.dir(depth)
            .is_some_and(|d| self.fs.child(d, name).is_some())
    }

    fn is_project_git_dir(&self, depth: usize) -> bool {
        self.dir(depth)
            .is_some_and(|d| self.fs.project_git_dirs.contains(&d))
    }

    fn is_old_work_tree(&self, depth: usize) -> bool {
        self.dir(depth)
            .is_some_and(|d| self.fs.old_work_trees.contains(&d))
    }
}

/// What the child asks; paths are absolute and resolved.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Write(String, Vec<u8>),
    /// Through a descriptor kept from an earlier write.
    WriteOpen(usize, Vec<u8>),
    Mkdir(String),
    Symlink(String, String),
    Unlink(String),
    Rmdir(String),
    Link(String, String),
    Rename(String, String),
    Exchange(String, String),
    /// From and to which mode.
    Chmod(String, u32, u32),
}

/// The broker over the model. `root` is the covered root at index 0 of the set.
pub(super) struct Broker<'a> {
    pub(super) set: &'a RuleSet,
    pub(super) root: &'a str,
    pub(super) fs: Fs,
}

impl Broker<'_> {
    fn with<T>(&self, path: &str, ask: impl FnOnce(&Target<'_>) -> T) -> T {
        let parts = split(path);
        let (name, dir) = parts.split_last().unwrap();
        let below: Vec<&[u8]> = dir[split(self.root).len()..]
            .iter()
            .map(|c| c.as_bytes())
            .collect();
        let dir = Dir::new(self.set, 0, &below).unwrap();
        let facts = Around {
            fs: &self.fs,
            path: parts.clone(),
        };
        ask(&Target {
            dir: &dir,
            name: name.as_bytes(),
            kind: self.fs.kind(self.fs.at(&parts)),
            facts: &facts,
        })
    }

    fn ask(&self, action: Action, path: &str) -> Verdict {
        self.with(path, |at| decide(self.set, action, at))
    }

    fn ask_rename(&self, from: &str, to: &str, exchange: bool) -> Verdict {
        let flags = RenameFlags {
            exchange,
            whiteout: false,
        };
        self.with(from, |f| {
            self.with(to, |t| decide_rename(self.set, f, t, flags))
        })
    }

    fn lookup(&self, path: &str) -> (Option<Inode>, String, Option<Inode>) {
        let parts = split(path);
        let (name, dir) = parts.split_last().unwrap();
        let dir = self.fs.at(dir);
        (
            dir,
            (*name).to_owned(),
            dir.and_then(|d| self.fs.child(d, name)),
        )
    }

    fn movable(&self, from: &str, to: &str) -> bool {
        let inode = self.fs.at(&split(from)).unwrap();
        let mut todo = vec![(Vec::<String>::new(), inode)];
        while let Some((rel, inode)) = todo.pop() {
            for (name, child) in self.fs.entries(inode) {
                let mut rel = rel.clone();
                rel.push(name);
                let parts: Vec<&[u8]> = rel.iter().map(String::as_bytes).collect();
                let kind = self.fs.kind(Some(child));
                let refused = self.with(from, |f| {
                    self.with(to, |t| entry_may_move(self.set, f, t, &parts, kind))
                });
                if refused.is_some() {
                    return false;
                }
                todo.push((rel, child));
            }
        }
        true
    }

    fn skeleton(&mut self, dir: Inode, path: &str) -> bool {
        let file = |name: &str| match self.fs.child(dir, name) {
            None => Found::Absent,
            inode => self.fs.content(inode).map_or(Found::Unusual, Found::File),
        };
        let hooks = self.fs.child(dir, "hooks");
        let names: Vec<String> = hooks.map_or(vec![], |h| {
            self.fs.entries(h).into_iter().map(|(n, _)| n).collect()
        });
        let names: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
        let info = self.fs.child(dir, "info");
        let filled = |name: &str| {
            self.fs.child(dir, name).is_some_and(|i| {
                self.fs.kind(Some(i)) != Kind::Dir || !self.fs.entries(i).is_empty()
            })
        };
        let parts = split(path);
        let linked = parts.len() >= 2 && parts[parts.len() - 2] == "worktrees" && {
            let above = &parts[..parts.len() - 2];
            let folded: Vec<&[u8]> = above.iter().map(|c| c.as_bytes()).collect();
            let facts = Around {
                fs: &self.fs,
                path: above.to_vec(),
            };
            git_paths::is_git_directory(&folded, &facts)
        };
        let found = Skeleton {
            config: file("config"),
            config_worktree: self.fs.child(dir, "config.worktree").is_some(),
            commondir: file("commondir"),
            hooks: match self.fs.kind(hooks) {
                Kind::Absent => Hooks::Absent,
                Kind::Dir => Hooks::Directory(&names),
                Kind::File | Kind::Symlink | Kind::Other => Hooks::Unusual,
            },
            attributes: info.is_some_and(|i| {
                self.fs.kind(Some(i)) != Kind::Dir || self.fs.child(i, "attributes").is_some()
            }),
            legacy_remotes: filled("branches") || filled("remotes"),
            linked,
        };
        let Ok(reinstall) = skeleton::check(&Place::default(), &found) else {
            return false;
        };
        let config = self
            .fs
            .content(self.fs.child(dir, "config"))
            .map(<[u8]>::to_vec);
        if let (true, Some(config)) = (reinstall.config, config) {
            self.fs.put(dir, "config", Node::File(config));
        }
        if reinstall.commondir {
            self.fs
                .put(dir, "commondir", Node::File(COMMONDIR.to_vec()));
        }
        true
    }

    /// Passes the gate of an entry that is put at `to` (for a rename, from `from`).
    fn gate(&mut self, gate: Gate, from: Option<&str>, to: &str) -> bool {
        let parent = to.rsplit_once('/').unwrap().0.to_owned();
        match gate {
            Gate::Skeleton(Becomes::Parent) | Gate::Commondir => {
                self.skeleton(self.fs.at(&split(&parent)).unwrap(), &parent)
            }
            Gate::Skeleton(Becomes::Moved) => {
                self.skeleton(self.fs.at(&split(from.unwrap())).unwrap(), to)
            }
            Gate::Config => {
                let new = self.fs.content(self.fs.at(&split(from.unwrap()))).unwrap();
                let old = self.fs.content(self.fs.at(&split(to))).unwrap_or_default();
                let git_dir: Vec<&[u8]> = split(&parent).iter().map(|c| c.as_bytes()).collect();
                let root: Vec<Vec<u8>> = split(self.root)
                    .iter()
                    .map(|c| c.as_bytes().to_vec())
                    .collect();
                let place = Place {
                    git_dir: Some(&git_dir),
                    roots: &[&root],
                    plain_worktree_settings: false,
                };
                gate::compare_at(&place, old, new).is_ok()
            }
        }
    }

    /// Carries the operation out if the file system and the decision let it; tells whether it was.
    pub(super) fn run(&mut self, op: &Op) -> bool {
        match op {
            Op::WriteOpen(fd, content) => {
                let Some(&inode) = self.fs.open.get(*fd) else {
                    return false;
                };
                self.fs.nodes[inode] = Node::File(content.clone());
                self.fs.touched.insert(inode);
                true
            }
            Op::Write(path, content) => self.write(path, content),
            Op::Mkdir(path) => self.make(Action::Mkdir, path, Node::Dir(BTreeMap::new())),
            Op::Symlink(path, target) => {
                self.make(Action::Symlink, path, Node::Symlink(target.clone()))
            }
            Op::Unlink(path) => self.remove(Action::Unlink, path),
            Op::Rmdir(path) => self.remove(Action::Rmdir, path),
            Op::Link(from, to) => self.hard_link(from, to),
            Op::Rename(from, to) => self.rename(from, to, false),
            Op::Exchange(from, to) => self.rename(from, to, true),
            Op::Chmod(path, from, to) => {
                let chmod = Action::Chmod {
                    from: *from,
                    to: *to,
                };
                self.ask(chmod, path) == Verdict::Allow
            }
        }
    }

    /// More content through the descriptor that was opened last at `path`.
    pub(super) fn append(&mut self, path: &str, content: Vec<u8>) {
        if let Some(inode) = self.fs.at(&split(path)) {
            self.fs.nodes[inode] = Node::File(content);
        }
    }

    fn write(&mut self, path: &str, content: &[u8]) -> bool {
        let (Some(dir), name, old) = self.lookup(path) else {
            return false;
        };
        if self.fs.kind(Some(dir)) != Kind::Dir
            || !matches!(self.fs.kind(old), Kind::Absent | Kind::File)
        {
            return false;
        }
        let inode = match self.ask(Action::Write, path) {
            Verdict::Allow => {
                old.unwrap_or_else(|| self.fs.put(dir, &name, Node::File(Vec::new())))
            }
            Verdict::NeedsGate(Gate::Commondir) => {
                if !self.gate(Gate::Commondir, None, path) {
                    return false;
                }
                self.fs.put(dir, &name, Node::File(COMMONDIR.to_vec()));
                return true;
            }
            Verdict::NeedsGate(gate) if self.gate(gate, None, path) => {
                self.fs.put(dir, &name, Node::File(Vec::new()))
            }
            Verdict::NeedsGate(_) | Verdict::Deny(_) | Verdict::NeedsSubtreeWalk(_) => {
                return false;
            }
        };
        self.fs.nodes[inode] = Node::File(content.to_vec());
        self.fs.touched.insert(inode);
        self.fs.open.push(inode);
        true
    }

    fn make(&mut self, action: Action, path: &str, node: Node) -> bool {
        let (Some(dir), name, None) = self.lookup(path) else {
            return false;
        };
        if self.fs.kind(Some(dir)) != Kind::Dir {
            return false;
        }
        let pass = match self.ask(action, path) {
            Verdict::Allow => true,
            Verdict::NeedsGate(gate) => self.gate(gate, None, path),
            Verdict::Deny(_) | Verdict::NeedsSubtreeWalk(_) => false,
        };
        if pass {
            let inode = self.fs.put(dir, &name, node);
            self.fs.touched.insert(inode);
        }
        pass
    }

    fn remove(&mut self, action: Action, path: &str) -> bool {
        let (Some(dir), name, Some(inode)) = self.lookup(path) else {
            return false;
        };
        let is_dir = self.fs.kind(Some(inode)) == Kind::Dir;
        if is_dir != (action == Action::Rmdir) || is_dir && !self.fs.entries(inode).is_empty() {
            return false;
        }
        let pass = self.ask(action, path) == Verdict::Allow;
        if pass {
            self.fs.unlink(dir, &name);
        }
        pass
    }

    fn hard_link(&mut self, from: &str, to: &str) -> bool {
        let (_, _, Some(inode)) = self.lookup(from) else {
            return false;
        };
        let (Some(dir), name, None) = self.lookup(to) else {
            return false;
        };
        if self.fs.kind(Some(inode)) == Kind::Dir || self.fs.kind(Some(dir)) != Kind::Dir {
            return false;
        }
        let verdict = self.with(from, |f| {
            self.with(to, |t| decide_link(self.set, Some(f), t))
        });
        let pass = match verdict {
            Verdict::Allow => true,
            Verdict::NeedsGate(gate) => self.gate(gate, Some(from), to),
            Verdict::Deny(_) | Verdict::NeedsSubtreeWalk(_) => false,
        };
        if pass {
            self.fs.link(dir, &name, inode);
        }
        pass
    }

    fn rename(&mut self, from: &str, to: &str, exchange: bool) -> bool {
        let (Some(from_dir), from_name, Some(inode)) = self.lookup(from) else {
            return false;
        };
        let (Some(to_dir), to_name, old) = self.lookup(to) else {
            return false;
        };
        let dir = |i| self.fs.kind(i) == Kind::Dir;
        let inside = |a: &str, b: &str| format!("{b}/").starts_with(&format!("{a}/"));
        if !dir(Some(to_dir)) || inside(from, to) || inside(to, from) {
            return false;
        }
        match old {
            None if exchange => return false,
            Some(old)
                if !exchange
                    && (dir(Some(old)) != dir(Some(inode)) || !self.fs.entries(old).is_empty()) =>
            {
                return false;
            }
            _ => {}
        }
        let gate = match self.ask_rename(from, to, exchange) {
            Verdict::Allow => None,
            Verdict::NeedsGate(gate) => Some(gate),
            Verdict::NeedsSubtreeWalk(gate) => {
                if !self.movable(from, to) || exchange && !self.movable(to, from) {
                    return false;
                }
                gate
            }
            Verdict::Deny(_) => return false,
        };
        if let Some(gate) = gate
            && !self.gate(gate, Some(from), to)
        {
            return false;
        }
        self.fs.unlink(from_dir, &from_name);
        if gate == Some(Gate::Config) {
            // The broker's own copy; the lock file's inode is dead.
            let content = self.fs.content(Some(inode)).unwrap().to_vec();
            self.fs.put(to_dir, &to_name, Node::File(content));
            return true;
        }
        self.fs.link(to_dir, &to_name, inode);
        if let (true, Some(old)) = (exchange, old) {
            self.fs.link(from_dir, &from_name, old);
        }
        true
    }
}
