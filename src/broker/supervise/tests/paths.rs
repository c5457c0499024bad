//! Where a path leads, told twice: by the supervisor and by a resolver that was written from path_resolution(7) and knows a tree in
//! memory only. Each path is opened for writing; what comes of it, and the path of each refusal, must be what the other one says.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::harness::{Setup, scratch};
use crate::sys::direct;

#[derive(Debug, Clone)]
enum Node {
    Dir,
    File,
    Link(String),
}

/// What comes of opening a path for writing, making the file where it is not there.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Opened(PathBuf),
    Denied(PathBuf),
    Fails(Errno),
    /// Not in the tree.
    Elsewhere,
}

/// The tree as the test knows it, by absolute paths.
#[derive(Debug, Clone)]
struct Model {
    top: PathBuf,
    nodes: BTreeMap<PathBuf, Node>,
}

const LINKS: &[(&str, &str)] = &[
    ("la", "a"),
    ("lb", "a/b"),
    ("ls", "shut"),
    ("up", ".."),
    ("a/up", "../shut"),
    ("lf", "f"),
    ("lp", "a/old.pem"),
    ("new", "a/made.pem"),
    ("knew", "ls/knew"),
    ("free", "la/b/made"),
    ("loop", "loop"),
    ("pair", "a/riap"),
    ("a/riap", "../pair"),
    ("chain", "la/../lb/./../b/c"),
    ("a/b/back", "../../la/shut"),
];

/// Absolute links in every directory, to directories of the tree.
const WAYS: [(&str, &str); 4] = [("T", "."), ("A", "a"), ("B", "a/./b"), ("S", "a/../shut")];

impl Model {
    /// Makes the tree in both places.
    fn plant(top: &Path) -> Self {
        let mut nodes = BTreeMap::new();
        for dir in top.ancestors().chain([Path::new("/proc")]) {
            nodes.insert(dir.to_owned(), Node::Dir);
        }
        for dir in ["a", "a/b", "a/b/c", "shut", "shut/d", "a/shut"] {
            fs::create_dir(top.join(dir)).unwrap();
            nodes.insert(top.join(dir), Node::Dir);
        }
        for file in ["f", "a/g", "a/old.pem", "shut/kept", "shut/open"] {
            fs::write(top.join(file), "").unwrap();
            nodes.insert(top.join(file), Node::File);
        }
        let links = LINKS.iter().map(|&(at, to)| (at.to_owned(), to.to_owned()));
        // Ways that are open from everywhere.
        let ways = ["", "a/", "a/b/", "a/b/c/", "shut/", "shut/d/", "a/shut/"];
        let ways = ways.iter().flat_map(|dir| {
            WAYS.map(|(name, to)| (format!("{dir}{name}"), format!("{}/{to}", top.display())))
        });
        for (at, to) in links.chain(ways) {
            symlink(&to, top.join(&at)).unwrap();
            nodes.insert(top.join(at), Node::Link(to));
        }
        Self {
            top: top.to_owned(),
            nodes,
        }
    }

    /// `*.pem`, and what begins with a `k` directly in a `shut`.
    fn is_denied(path: &Path) -> bool {
        let name = path.file_name().unwrap().to_str().unwrap();
        let above = path.parent().and_then(Path::file_name);
        name.strip_suffix(".pem").is_some()
            || name.starts_with('k') && above.is_some_and(|a| a == "shut")
    }

    /// What comes of opening `path` from `dir`.
    fn open(&self, dir: &Path, path: &str) -> End {
        self.walk(dir.to_owned(), path, &mut 0)
            .unwrap_or_else(|end| end)
    }

    fn walk(&self, mut at: PathBuf, path: &str, followed: &mut u32) -> Result<End, End> {
        if path.is_empty() {
            return Err(End::Fails(Errno::ENOENT));
        }
        if path.starts_with('/') {
            at = PathBuf::from("/");
        }
        let slash = path.ends_with('/');
        let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() && !matches!(part, "." | "..") {
                if slash {
                    return Err(End::Fails(Errno::EISDIR));
                }
                return self.last(at, part, followed);
            }
            at = self.step(at, part, followed)?;
        }
        Err(End::Fails(Errno::EISDIR))
    }

    /// The directory that a component leads to.
    fn step(&self, mut at: PathBuf, part: &str, followed: &mut u32) -> Result<PathBuf, End> {
        match part {
            "." => {}
            ".." => {
                at.pop();
            }
            name => {
                let next = at.join(name);
                match self.nodes.get(&next) {
                    None if !at.starts_with(&self.top) => return Err(End::Elsewhere),
                    None => return Err(End::Fails(Errno::ENOENT)),
                    Some(Node::File) => return Err(End::Fails(Errno::ENOTDIR)),
                    Some(Node::Dir) => at = next,
                    Some(Node::Link(to)) => {
                        *followed += 1;
                        if *followed > 40 {
                            return Err(End::Fails(Errno::ELOOP));
                        }
                        if to.starts_with('/') {
                            at = PathBuf::from("/");
                        }
                        for part in to.split('/').filter(|part| !part.is_empty()) {
                            at = self.step(at, part, followed)?;
                        }
                    }
                }
            }
        }
        Ok(at)
    }

    fn last(&self, at: PathBuf, name: &str, followed: &mut u32) -> Result<End, End> {
        let path = at.join(name);
        match self.nodes.get(&path) {
            Some(Node::Dir) => Err(End::Fails(Errno::EISDIR)),
            Some(Node::Link(to)) => {
                *followed += 1;
                if *followed > 40 {
                    return Err(End::Fails(Errno::ELOOP));
                }
                self.walk(at, to, followed)
            }
            None | Some(Node::File) if !path.starts_with(&self.top) => Err(End::Elsewhere),
            None | Some(Node::File) if Self::is_denied(&path) => Ok(End::Denied(path)),
            None | Some(Node::File) => Ok(End::Opened(path)),
        }
    }
}

/// From where a path is walked, and the path. `TOP` stands for the tree's own.
fn asked() -> impl Strategy<Value = (usize, String)> {
    let way = prop_oneof![
        12 => prop::sample::select(vec!["T", "A", "B", "S", ".", "..", ""]),
        2 => prop::sample::select(vec!["a", "b", "c", "d", "shut", "la", "lb", "ls", "up", "chain", "back"]),
        1 => prop::sample::select(vec!["loop", "pair", "none", "f", "SELF"]),
    ];
    let last = prop_oneof![
        4 => prop::sample::select(vec!["x.pem", "old.pem", "kept", "k1", "made", "plain", "open", "f"]),
        2 => prop::sample::select(vec!["lf", "lp", "new", "knew", "free"]),
        1 => prop::sample::select(vec!["loop", "riap", "shut", ".", "..", "S"]),
    ];
    let whole = (
        prop::sample::select(vec![
            "",
            "",
            "",
            "TOP/",
            "TOP//",
            "/proc/../TOP/",
            "T/../SELF/",
        ]),
        prop::collection::vec(way, 0..6),
        last,
        prop::sample::select(vec!["", "", "", "", "", "", "/", "//", "/."]),
    );
    let whole = whole.prop_map(|(front, ways, last, back)| {
        let ways: String = ways.iter().flat_map(|way| [*way, "/"]).collect();
        let start = front.is_empty() && ways.starts_with('/');
        format!(
            "{front}{}{last}{back}",
            ways.get(usize::from(start)..).unwrap()
        )
    });
    (0..FROM.len(), whole)
}

/// Directories a path may start in.
const FROM: [&str; 4] = ["", "a", "a/b/c", "shut/d"];

fn compare(paths: &[(usize, String)]) -> Result<(), String> {
    let (_keep, top) = scratch();
    let mut model = Model::plant(&top);
    let own = top.file_name().unwrap().to_str().unwrap();
    let fill = |path: &String| {
        let whole = top.to_str().unwrap();
        let path = path.replace("SELF", own).replace("/TOP", whole);
        path.replace("TOP", whole)
    };
    let paths: Vec<(usize, String)> = paths.iter().map(|(n, p)| (*n, fill(p))).collect();
    let ways = paths.clone();
    let from = top.clone();
    let setup = Setup::new(&top).pattern("*.pem").pattern("shut/k*");
    let (got, denials) = setup.run(move || {
        let dirs = FROM.map(|dir| File::open(from.join(dir)).unwrap());
        let open = |(from, path): &(usize, String)| {
            let path = CString::new(path.as_str()).unwrap();
            let number = if *from == 0 {
                libc::AT_FDCWD
            } else {
                dirs[*from].as_raw_fd()
            };
            let flags = libc::O_WRONLY | libc::O_CREAT;
            direct::open_at(number, &path, flags, 0o644).map(|file| {
                let link = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
                fs::read_link(link).unwrap()
            })
        };
        ways.iter().map(open).collect::<Vec<_>>()
    });
    let mut denials = denials.iter().map(|denial| denial.path.clone());
    for ((from, path), got) in paths.iter().zip(got) {
        let expected = model.open(&top.join(FROM[*from]), path);
        if expected == End::Elsewhere {
            continue;
        }
        let end = match got {
            Ok(path) => End::Opened(path),
            Err(Errno::EACCES) => match denials.next() {
                Some(path) => End::Denied(path),
                None => End::Fails(Errno::EACCES),
            },
            Err(errno) => End::Fails(errno),
        };
        if end != expected {
            return Err(format!(
                "`{path}` from `{}`: {end:?}, not {expected:?}",
                FROM[*from]
            ));
        }
        if let End::Opened(path) = end {
            model.nodes.insert(path, Node::File);
        }
    }
    Ok(())
}

/// The comparison is about something: paths that are opened, refused, and that fail in every way.
#[test]
fn the_paths_are_of_all_kinds() {
    let (_keep, top) = scratch();
    let model = Model::plant(&top);
    let mut runner = TestRunner::deterministic();
    let mut kinds: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..3000 {
        let (from, path) = asked().new_tree(&mut runner).unwrap().current();
        let path = path.replace("SELF", top.file_name().unwrap().to_str().unwrap());
        let kind = match model.open(&top.join(FROM[from]), &path) {
            End::Opened(_) => "opened".to_owned(),
            End::Denied(_) => "denied".to_owned(),
            End::Fails(errno) => format!("{errno:?}"),
            End::Elsewhere => "elsewhere".to_owned(),
        };
        *kinds.entry(kind).or_default() += 1;
    }
    for kind in ["opened", "denied", "ENOENT", "ENOTDIR", "EISDIR", "ELOOP"] {
        assert!(
            kinds.get(kind).is_some_and(|&n| n >= 20),
            "{kind}: {kinds:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn both_resolvers_agree(paths in prop::collection::vec(asked(), 1..80)) {
        let said = compare(&paths);
        prop_assert!(said.is_ok(), "{}", said.unwrap_err());
    }
}
