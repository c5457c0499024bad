//! Remembers what the file system answered: a plan asks about the same directories many times, and each question is a system call of
//! about a microsecond in a start-up that has three milliseconds for everything.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::paths::{above, is_normal};
use super::quick::Quick;
use crate::host::FsView;
use crate::host::fs_view::{Kind, Meta};
use crate::host::mount_table::HostMount;

/// A file system whose answers do not change while it is asked.
pub(super) struct Memo<'a> {
    fs: &'a dyn FsView,
    kinds: RefCell<Known<Option<Kind>>>,
    metas: RefCell<Known<Option<Meta>>>,
    names: RefCell<Known<HashSet<OsString, Quick>>>,
}

/// Of a directory with more entries nothing is noted: only few of them would be asked about.
const MOST_NOTED: usize = 4096;

// By bytes: comparing or hashing a `Path` parses it each time.
type Known<T> = HashMap<OsString, T, Quick>;

impl<'a> Memo<'a> {
    pub(super) fn new(fs: &'a dyn FsView) -> Self {
        Self {
            fs,
            kinds: RefCell::default(),
            metas: RefCell::default(),
            names: RefCell::default(),
        }
    }

    /// Reads a directory once, so that questions about names it lacks cost nothing. An empty answer may mean that it could not be read,
    /// and then tells nothing: taking a secret for absent would leave it open.
    pub(super) fn prime(&self, dir: &Path) {
        if !matches!(self.kind(dir), Some(Kind::Dir | Kind::Link)) {
            return;
        }
        let names: HashSet<OsString, Quick> = self.list(dir).into_iter().collect();
        if !names.is_empty() {
            self.names
                .borrow_mut()
                .insert(dir.as_os_str().to_os_string(), names);
        }
    }

    /// Known not to be there: a primed directory lacks the name, or what is above is no directory. That is asked once for everything
    /// in a directory, most of which does not exist.
    fn known_absent(&self, path: &Path) -> bool {
        let bytes = path.as_os_str().as_bytes();
        let Some(parent) = above(bytes) else {
            return false;
        };
        // Variables hold other spellings too, with names that no directory lists.
        if !is_normal(bytes) {
            return false;
        }
        let parent = OsStr::from_bytes(parent);
        if let Some(names) = self.names.borrow().get(parent) {
            let name = bytes.rsplit(|b| *b == b'/').next().unwrap_or_default();
            return !names.contains(OsStr::from_bytes(name));
        }
        parent != "/"
            && matches!(
                self.kind(Path::new(parent)),
                None | Some(Kind::File | Kind::Other)
            )
    }
}

impl FsView for Memo<'_> {
    fn kind(&self, path: &Path) -> Option<Kind> {
        if let Some(known) = self.kinds.borrow().get(path.as_os_str()) {
            return *known;
        }
        let kind = if self.known_absent(path) {
            None
        } else {
            self.fs.kind(path)
        };
        self.kinds
            .borrow_mut()
            .insert(path.as_os_str().to_os_string(), kind);
        kind
    }

    fn meta(&self, path: &Path) -> Option<Meta> {
        if let Some(known) = self.metas.borrow().get(path.as_os_str()) {
            return *known;
        }
        // What came between two looks (another run makes its log) is not there for this plan.
        let was_absent = is_normal(path.as_os_str().as_bytes())
            && self.kinds.borrow().get(path.as_os_str()) == Some(&None);
        let meta = if was_absent || self.known_absent(path) {
            None
        } else {
            self.fs.meta(path)
        };
        self.metas
            .borrow_mut()
            .insert(path.as_os_str().to_os_string(), meta);
        meta
    }

    fn pin(&self, path: &Path) -> io::Result<Meta> {
        self.fs.pin(path)
    }

    fn read_link(&self, path: &Path) -> Option<PathBuf> {
        self.fs.read_link(path)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.fs.canonicalize(path)
    }

    fn list(&self, dir: &Path) -> Vec<OsString> {
        let entries = self.fs.entries(dir);
        if entries.len() <= MOST_NOTED && is_normal(dir.as_os_str().as_bytes()) {
            let mut kinds = self.kinds.borrow_mut();
            for (name, kind) in &entries {
                if let Some(kind) = kind {
                    kinds
                        .entry(dir.join(name).into_os_string())
                        .or_insert(Some(*kind));
                }
            }
        }
        entries.into_iter().map(|(name, _)| name).collect()
    }

    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        self.fs.read(path)
    }

    fn readable(&self, path: &Path) -> bool {
        self.fs.readable(path)
    }

    fn can_create_in(&self, dir: &Path) -> bool {
        self.fs.can_create_in(dir)
    }

    fn mounts(&self) -> io::Result<Vec<HostMount>> {
        self.fs.mounts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fs_view::FakeFs;

    #[test]
    fn what_was_absent_stays_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("late");
        let memo = Memo::new(&crate::host::RealFs);
        assert_eq!(memo.kind(&path), None);
        std::fs::write(&path, "").unwrap();
        assert_eq!(memo.meta(&path), None);
    }

    #[test]
    fn answers_are_those_of_the_file_system() {
        let fs = FakeFs::new()
            .file("/h/a/b", "")
            .link("/h/l", "a")
            .file("/h/f", "");
        let memo = Memo::new(&fs);
        for dir in ["/h", "/no", "/h/a", "/h/f", "/h/l"] {
            memo.prime(Path::new(dir));
        }
        for p in [
            "/h",
            "/h/a",
            "/h/a/b",
            "/h/l",
            "/h/l/b",
            "/h/f",
            "/h/f/x",
            "/h/no",
            "/h/no/x",
            "/h/no/x/y",
            "/h/a/b/c",
            "/no/x/y",
            "/q",
            "/h/",
            "/h/a/.",
            "/h//a",
            "/h/a/..",
            "/h/a/../f",
            "/h/a/./b",
            "/",
        ] {
            for _ in 0..2 {
                assert_eq!(memo.kind(Path::new(p)), fs.kind(Path::new(p)), "{p}");
                assert_eq!(memo.meta(Path::new(p)), fs.meta(Path::new(p)), "{p}");
            }
        }
    }
}
