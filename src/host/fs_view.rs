//! Read-only questions to a file system: the real one, or a made-up one in tests.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::mount_table::{self, HostMount};

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Dir,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// Socket, FIFO, device.
    Other,
}

/// Identity and ownership of an object, after following links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// What it is.
    pub kind: Kind,
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permission bits.
    pub mode: u32,
}

/// The questions a planner may ask. Nothing here changes anything.
pub trait FsView {
    /// Kind without following a final link; `None` where nothing stands or it cannot be seen.
    fn kind(&self, path: &Path) -> Option<Kind>;
    /// Metadata after following links.
    fn meta(&self, path: &Path) -> Option<Meta>;
    /// The object at a path none of whose components is a link: what a mount of it must show later on. Looked at anew each time.
    ///
    /// # Errors
    /// `ELOOP` where a link stands on the way, else as stat(2).
    fn pin(&self, path: &Path) -> io::Result<Meta>;
    /// The text of a link.
    fn read_link(&self, path: &Path) -> Option<PathBuf>;
    /// Every link resolved; the object must exist.
    ///
    /// # Errors
    /// As realpath(3).
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf>;
    /// Names in a directory, sorted; empty where it cannot be read.
    fn list(&self, dir: &Path) -> Vec<OsString>;
    /// The same with what each is, where the directory itself tells (readdir(3), `d_type`): of an object that is mounted over, that is
    /// what lies below, a directory for a directory and none for anything else.
    fn entries(&self, dir: &Path) -> Vec<(OsString, Option<Kind>)> {
        self.list(dir).into_iter().map(|n| (n, None)).collect()
    }
    /// A small text file (at most 1 MiB).
    fn read(&self, path: &Path) -> Option<Vec<u8>>;
    /// The caller's own permissions let it read the object (access(2)); links are followed.
    fn readable(&self, path: &Path) -> bool;
    /// The caller may create entries in the directory (access(2), which also knows read-only file systems).
    fn can_create_in(&self, dir: &Path) -> bool;
    /// What is mounted where.
    ///
    /// # Errors
    /// As read(2): without /proc nobody can tell.
    fn mounts(&self) -> io::Result<Vec<HostMount>>;
}

/// The machine's own file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealFs;

impl FsView for RealFs {
    fn kind(&self, path: &Path) -> Option<Kind> {
        Some(kind_of(std::fs::symlink_metadata(path).ok()?.file_type()))
    }
    fn meta(&self, path: &Path) -> Option<Meta> {
        Some(meta_of(&std::fs::metadata(path).ok()?))
    }
    fn pin(&self, path: &Path) -> io::Result<Meta> {
        let object = crate::sys::fds::open_no_links(path)?;
        Ok(meta_of(&std::fs::File::from(object).metadata()?))
    }
    fn read_link(&self, path: &Path) -> Option<PathBuf> {
        std::fs::read_link(path).ok()
    }
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::canonicalize(path)
    }
    fn list(&self, dir: &Path) -> Vec<OsString> {
        self.entries(dir).into_iter().map(|(n, _)| n).collect()
    }
    fn entries(&self, dir: &Path) -> Vec<(OsString, Option<Kind>)> {
        // Half a directory is worse than none: a caller would take the rest for absent.
        let all = std::fs::read_dir(dir).and_then(|entries| {
            let one = |e: std::fs::DirEntry| (e.file_name(), e.file_type().ok().map(kind_of));
            entries.map(|e| Ok(one(e?))).collect()
        });
        let mut all: Vec<(OsString, Option<Kind>)> = all.unwrap_or_default();
        all.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        all
    }
    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        use std::io::Read;
        let mut out = Vec::new();
        std::fs::File::open(path)
            .ok()?
            .take(1 << 20)
            .read_to_end(&mut out)
            .ok()?;
        Some(out)
    }
    fn readable(&self, path: &Path) -> bool {
        nix::unistd::access(path, nix::unistd::AccessFlags::R_OK).is_ok()
    }
    fn can_create_in(&self, dir: &Path) -> bool {
        use nix::unistd::AccessFlags;
        nix::unistd::access(dir, AccessFlags::W_OK | AccessFlags::X_OK).is_ok()
    }
    fn mounts(&self) -> io::Result<Vec<HostMount>> {
        // More than a small text file where containers run: every layer is a mount with a line of its own.
        std::fs::read("/proc/self/mountinfo").map(|text| mount_table::parse(&text))
    }
}

fn meta_of(m: &std::fs::Metadata) -> Meta {
    use std::os::unix::fs::MetadataExt;
    Meta {
        kind: kind_of(m.file_type()),
        dev: m.dev(),
        ino: m.ino(),
        uid: m.uid(),
        gid: m.gid(),
        mode: m.mode() & 0o7777,
    }
}

fn kind_of(t: std::fs::FileType) -> Kind {
    if t.is_dir() {
        Kind::Dir
    } else if t.is_file() {
        Kind::File
    } else if t.is_symlink() {
        Kind::Link
    } else {
        Kind::Other
    }
}

/// A made-up file system: path → entry. Parents are implied directories.
#[derive(Debug, Clone, Default)]
pub struct FakeFs {
    entries: BTreeMap<PathBuf, FakeEntry>,
    mounts: Vec<HostMount>,
}

/// One entry of a [`FakeFs`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FakeEntry {
    /// A directory with owner and mode.
    Dir {
        /// Owner.
        uid: u32,
        /// Permission bits.
        mode: u32,
    },
    /// A file with content.
    File(Vec<u8>),
    /// A link.
    Link(PathBuf),
    /// Socket, FIFO, device.
    Other,
}

impl FakeFs {
    /// An empty tree.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an entry, and its parents as directories of who owns the one above, mode 755.
    #[must_use]
    pub fn with(mut self, path: impl AsRef<Path>, entry: FakeEntry) -> Self {
        let path = path.as_ref().to_path_buf();
        let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
        above.reverse();
        let mut owner = 0;
        for a in above {
            let dir = FakeEntry::Dir {
                uid: owner,
                mode: 0o755,
            };
            if let FakeEntry::Dir { uid, .. } = self.entries.entry(a.to_path_buf()).or_insert(dir) {
                owner = *uid;
            }
        }
        self.entries.insert(path, entry);
        self
    }

    /// Adds a directory of uid 1000.
    #[must_use]
    pub fn dir(self, path: impl AsRef<Path>) -> Self {
        self.with(
            path,
            FakeEntry::Dir {
                uid: 1000,
                mode: 0o755,
            },
        )
    }

    /// Adds a file.
    #[must_use]
    pub fn file(self, path: impl AsRef<Path>, content: &str) -> Self {
        self.with(path, FakeEntry::File(content.as_bytes().to_vec()))
    }

    /// Says that a file system of this type is mounted at a directory, and adds that.
    #[must_use]
    pub fn mount(self, path: impl AsRef<Path>, kind: &str, read_only: bool) -> Self {
        let at = path.as_ref().to_path_buf();
        let mut fs = self.dir(&at);
        fs.mounts.push(HostMount {
            at,
            kind: kind.to_owned(),
            read_only,
        });
        fs
    }

    /// Adds a link.
    #[must_use]
    pub fn link(self, path: impl AsRef<Path>, target: &str) -> Self {
        self.with(path, FakeEntry::Link(PathBuf::from(target)))
    }

    fn resolve(&self, path: &Path, depth: u32) -> io::Result<PathBuf> {
        use std::path::Component;
        if depth > 40 {
            return Err(io::Error::from_raw_os_error(40));
        }
        let mut at = PathBuf::from("/");
        let mut parts = path.components().peekable();
        while let Some(c) = parts.next() {
            match c {
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
                Component::ParentDir => {
                    at.pop();
                }
                Component::Normal(n) => {
                    let next = at.join(n);
                    match self.entries.get(&next) {
                        None => return Err(io::ErrorKind::NotFound.into()),
                        Some(FakeEntry::Link(t)) => {
                            let mut full = at.join(t);
                            for rest in parts.by_ref() {
                                full.push(rest);
                            }
                            return self.resolve(&full, depth + 1);
                        }
                        Some(_) => at = next,
                    }
                }
            }
        }
        Ok(at)
    }

    fn entry(&self, path: &Path) -> Option<&FakeEntry> {
        if path == Path::new("/") {
            return self.entries.get(path);
        }
        let parent = self.resolve(path.parent()?, 0).ok()?;
        self.entries.get(&parent.join(path.file_name()?))
    }
}

impl FsView for FakeFs {
    fn kind(&self, path: &Path) -> Option<Kind> {
        Some(match self.entry(path)? {
            FakeEntry::Dir { .. } => Kind::Dir,
            FakeEntry::File(_) => Kind::File,
            FakeEntry::Link(_) => Kind::Link,
            FakeEntry::Other => Kind::Other,
        })
    }
    fn meta(&self, path: &Path) -> Option<Meta> {
        let real = self.resolve(path, 0).ok()?;
        let ino = self.entries.keys().position(|k| *k == real)? as u64 + 1;
        let (kind, uid, mode) = match self.entries.get(&real)? {
            FakeEntry::Dir { uid, mode } => (Kind::Dir, *uid, *mode),
            FakeEntry::File(_) => (Kind::File, 1000, 0o644),
            FakeEntry::Link(_) => return None,
            FakeEntry::Other => (Kind::Other, 1000, 0o644),
        };
        Some(Meta {
            kind,
            dev: 1,
            ino,
            uid,
            // Everybody's group has the number of its only member.
            gid: uid,
            mode,
        })
    }
    fn pin(&self, path: &Path) -> io::Result<Meta> {
        if self.resolve(path, 0)? != path {
            return Err(io::Error::from_raw_os_error(40));
        }
        self.meta(path)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
    fn read_link(&self, path: &Path) -> Option<PathBuf> {
        match self.entry(path)? {
            FakeEntry::Link(t) => Some(t.clone()),
            FakeEntry::Dir { .. } | FakeEntry::File(_) | FakeEntry::Other => None,
        }
    }
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.resolve(path, 0)
    }
    fn list(&self, dir: &Path) -> Vec<OsString> {
        let Ok(dir) = self.resolve(dir, 0) else {
            return Vec::new();
        };
        self.entries
            .keys()
            .filter(|k| k.parent() == Some(dir.as_path()))
            .filter_map(|k| k.file_name().map(OsString::from))
            .collect()
    }
    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        match self.entries.get(&self.resolve(path, 0).ok()?)? {
            FakeEntry::File(c) => Some(c.clone()),
            FakeEntry::Dir { .. } | FakeEntry::Link(_) | FakeEntry::Other => None,
        }
    }
    fn readable(&self, path: &Path) -> bool {
        // Directories tell by mode; the made-up caller is uid 1000 and may read every file.
        self.meta(path)
            .is_some_and(|m| m.kind != Kind::Dir || m.uid == 1000 || m.mode & 0o004 != 0)
    }
    fn can_create_in(&self, dir: &Path) -> bool {
        // A directory without any write bit stands for everything that refuses the caller.
        self.meta(dir)
            .is_some_and(|m| m.kind == Kind::Dir && m.mode & 0o222 != 0)
    }
    fn mounts(&self) -> io::Result<Vec<HostMount>> {
        Ok(self.mounts.clone())
    }
}
