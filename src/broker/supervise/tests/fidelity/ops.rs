//! Operations as data, carried out with the system calls themselves.

use std::ffi::CString;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use nix::errno::Errno;
use proptest::prelude::*;

use crate::sys::at::{self, How};
use crate::sys::{direct, task};

/// Where a relative path starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    Cwd,
    /// A descriptor of `dir`, opened for reading.
    Dir,
    /// The same with `O_PATH`.
    DirPath,
    /// A descriptor of the file `file`.
    File,
    /// Not open.
    Closed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Op {
    Open(From, String, i32, u32),
    Open2(From, String, How),
    Mkdir(From, String, u32),
    Mknod(From, String, u32),
    Symlink(String, From, String),
    Unlink(From, String, bool),
    Rename(From, String, String, u32),
    Link(From, String, String, i32),
    Chmod(From, String, u32, i32),
    Truncate(String, i64),
    Umask(u32),
    Chdir(String),
}

/// Where it starts, so deep that no `..` leaves the tree.
const START: &str = "1/2/3/4/5/6";

/// The tree every run starts from.
pub(super) fn prepare(top: &Path) {
    let dir = top.join(START);
    fs::create_dir_all(&dir).unwrap();
    let at = |name: &str| dir.join(name);
    for name in [
        "dir",
        "dir/sub",
        "dir/full",
        "dir/full/x",
        "empty",
        "locked",
        "wide",
    ] {
        fs::create_dir(at(name)).unwrap();
    }
    for name in [
        "file",
        "dir/file",
        "dir/sub/deep",
        "locked/file",
        "read-only",
    ] {
        fs::write(at(name), name).unwrap();
    }
    for (name, text) in [
        ("to-file", "file"),
        ("to-dir", "dir"),
        ("to-nothing", "nothing-there"),
        ("loop", "loop"),
        ("to-up", "dir/../file"),
        ("dir/to-up", "../file"),
        ("to-link", "to-file"),
        ("to-dot", "."),
        ("to-slash", "dir/"),
        ("through-file", "file/x"),
        ("to-new-in-dir", "dir/new-by-link"),
        ("dir/to-sub", "sub"),
    ] {
        symlink(text, at(name)).unwrap();
    }
    symlink(at("file"), at("to-absolute")).unwrap();
    symlink(at("dir"), at("to-absolute-dir")).unwrap();
    fs::hard_link(at("file"), at("hard")).unwrap();
    nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mode =
        |name: &str, mode| fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
    mode("read-only", 0o444);
    mode("wide", 0o3777);
    mode("locked", 0o555);
}

/// Everything in a tree, in words.
pub(super) fn tree(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    walk(dir, "", &mut found);
    found
}

fn walk(dir: &Path, rel: &str, found: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(dir) else {
        found.push(format!("{rel} cannot be read"));
        return;
    };
    let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name()).collect();
    names.sort();
    for name in names {
        let path = dir.join(&name);
        let rel = format!("{rel}/{}", name.display());
        let meta = fs::symlink_metadata(&path).unwrap();
        let what = if meta.is_symlink() {
            let text = fs::read_link(&path).unwrap();
            if text.is_absolute() {
                "->/".to_owned()
            } else {
                format!("->{}", text.display())
            }
        } else if meta.is_file() {
            format!(
                "{:?}",
                fs::read(&path).map(|b| b.len()).map_err(|e| e.kind())
            )
        } else {
            String::new()
        };
        found.push(format!("{rel} {:o} {} {what}", meta.mode(), meta.nlink()));
        if meta.is_dir() {
            walk(&path, &rel, found);
        }
    }
}

struct Bases {
    dir: OwnedFd,
    dir_path: OwnedFd,
    file: OwnedFd,
}

impl Bases {
    fn get(&self, from: From) -> i32 {
        match from {
            From::Cwd => libc::AT_FDCWD,
            From::Dir => self.dir.as_raw_fd(),
            From::DirPath => self.dir_path.as_raw_fd(),
            From::File => self.file.as_raw_fd(),
            From::Closed => 999,
        }
    }
}

/// Carries them out in the working directory; the answers in words.
pub(super) fn run(ops: &[Op]) -> Vec<String> {
    std::env::set_current_dir(START).unwrap();
    let start = std::env::current_dir().unwrap();
    let bases = Bases {
        dir: at::open_here(c"dir", libc::O_RDONLY | libc::O_DIRECTORY).unwrap(),
        dir_path: at::open_here(c"dir", libc::O_PATH).unwrap(),
        file: at::open_here(c"file", libc::O_RDONLY).unwrap(),
    };
    task::set_umask(0o022);
    ops.iter().map(|op| one(op, &bases, &start)).collect()
}

fn path(text: &str, start: &Path) -> CString {
    CString::new(text.replace('@', start.to_str().unwrap())).unwrap()
}

fn one(op: &Op, bases: &Bases, start: &Path) -> String {
    let p = |text: &String| path(text, start);
    let said = |result: Result<(), Errno>| match result {
        Ok(()) => "ok".to_owned(),
        Err(errno) => format!("{errno:?}"),
    };
    match op {
        Op::Open(from, name, flags, mode) => {
            opened(direct::open_at(bases.get(*from), &p(name), *flags, *mode))
        }
        Op::Open2(from, name, how) => opened(direct::open_how(bases.get(*from), &p(name), *how)),
        Op::Mkdir(from, name, mode) => said(direct::make_dir(bases.get(*from), &p(name), *mode)),
        Op::Mknod(from, name, mode) => {
            said(direct::make_node(bases.get(*from), &p(name), *mode, 0))
        }
        Op::Symlink(text, from, name) => {
            said(direct::make_link(&p(text), bases.get(*from), &p(name)))
        }
        Op::Unlink(from, name, dir) => said(direct::remove(bases.get(*from), &p(name), *dir)),
        Op::Rename(from, old, new, flags) => said(direct::rename(
            (bases.get(*from), &p(old)),
            (bases.get(*from), &p(new)),
            *flags,
        )),
        Op::Link(from, old, new, flags) => said(direct::link(
            (bases.get(*from), &p(old)),
            (bases.get(*from), &p(new)),
            *flags,
        )),
        Op::Chmod(from, name, mode, flags) => said(direct::change_mode(
            bases.get(*from),
            &p(name),
            *mode,
            *flags,
        )),
        Op::Truncate(name, length) => said(direct::truncate(&p(name), *length)),
        Op::Umask(mask) => {
            task::set_umask(*mask);
            "ok".to_owned()
        }
        Op::Chdir(name) => {
            let bytes = p(name);
            let result = nix::unistd::chdir(bytes.as_c_str());
            said(result)
        }
    }
}

/// What was opened: the kind, its flags, and that it can be used as its flags say.
fn opened(result: Result<OwnedFd, Errno>) -> String {
    let file = match result {
        Ok(file) => file,
        Err(errno) => return format!("{errno:?}"),
    };
    let status = nix::fcntl::fcntl(&file, nix::fcntl::FcntlArg::F_GETFL).unwrap();
    let descriptor = nix::fcntl::fcntl(&file, nix::fcntl::FcntlArg::F_GETFD).unwrap();
    let meta = nix::sys::stat::fstat(&file).unwrap();
    let wrote = nix::unistd::write(&file, b"+");
    format!(
        "{:o} flags {status:o} {descriptor} wrote {wrote:?} size {}",
        meta.st_mode,
        size(file.as_fd())
    )
}

fn size(file: BorrowedFd<'_>) -> i64 {
    let meta = nix::sys::stat::fstat(file).unwrap();
    if meta.st_mode & libc::S_IFMT == libc::S_IFDIR {
        0
    } else {
        meta.st_size
    }
}

/// Paths of every kind; `@` is the start directory.
const PATHS: &[&str] = &[
    "new",
    "file",
    "dir",
    "dir/new",
    "dir/file",
    "dir/sub/deep",
    "empty",
    "nothing/x",
    "file/x",
    "file/",
    "dir/",
    "new/",
    "empty/",
    "dir/full",
    "dir/full/x",
    ".",
    "..",
    "/",
    "dir/.",
    "dir/..",
    "./file",
    "dir/../file",
    "dir//sub///deep",
    "//",
    "",
    "to-file",
    "to-dir",
    "to-nothing",
    "loop",
    "to-up",
    "dir/to-up",
    "to-link",
    "to-dot",
    "to-slash",
    "through-file",
    "to-new-in-dir",
    "to-file/",
    "to-dir/",
    "to-nothing/",
    "to-dir/file",
    "to-dir/new",
    "to-dir/to-up",
    "to-absolute",
    "to-absolute-dir",
    "to-absolute-dir/file",
    "to-absolute-dir/new2",
    "loop/x",
    "to-dot/to-dot/file",
    "dir/to-sub/deep",
    "to-slash/file",
    "fifo",
    "read-only",
    "locked/file",
    "locked/new",
    "wide/new",
    "hard",
    "@/file",
    "@/new3",
    "@/dir/../file",
    "@/to-dir/sub/deep",
    "@",
    "@/",
    "@/..",
    "dir/sub/../../file",
    "file/..",
    "file/.",
    "nothing/..",
    "/dev/null",
    "/proc/thread-self/cwd/file",
    "/proc/thread-self/cwd/new4",
    "/proc/self/fd/99999",
    "/proc/self/nothing",
    "/proc/self",
    "/dev/fd/99999",
    "LONG",
    "LONG/x",
    "DEEP",
    "DEEP/new",
    "TOOLONG",
];

fn expand(text: &str) -> String {
    match text {
        "LONG" => "n".repeat(255),
        "LONG/x" => format!("{}/x", "n".repeat(256)),
        "DEEP" => "./".repeat(2040) + "file",
        "DEEP/new" => "./".repeat(2000) + "new5",
        "TOOLONG" => "./".repeat(2048) + "file",
        other => other.to_owned(),
    }
}

const OPENS: &[i32] = &[
    libc::O_WRONLY,
    libc::O_RDWR,
    libc::O_WRONLY | libc::O_CREAT,
    libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC,
    libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL,
    libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT,
    libc::O_WRONLY | libc::O_NOFOLLOW,
    libc::O_WRONLY | libc::O_CREAT | libc::O_NOFOLLOW,
    libc::O_RDONLY | libc::O_TRUNC,
    libc::O_RDONLY | libc::O_CREAT,
    libc::O_RDONLY | libc::O_CREAT | libc::O_TRUNC,
    libc::O_WRONLY | libc::O_DIRECTORY,
    libc::O_RDWR | libc::O_CREAT | libc::O_DIRECTORY,
    libc::O_RDWR | libc::O_TMPFILE,
    libc::O_WRONLY | libc::O_TMPFILE | libc::O_EXCL | libc::O_CLOEXEC,
    libc::O_RDONLY | libc::O_TMPFILE,
    libc::O_WRONLY | libc::O_SYNC | libc::O_NOATIME | libc::O_NONBLOCK,
    libc::O_ACCMODE,
    libc::O_WRONLY | 0x4000_0000,
];

const RESOLVES: &[u64] = &[
    0,
    libc::RESOLVE_BENEATH,
    libc::RESOLVE_IN_ROOT,
    libc::RESOLVE_NO_SYMLINKS,
    libc::RESOLVE_NO_MAGICLINKS,
    libc::RESOLVE_NO_XDEV,
    libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS,
];

/// A FIFO would be waited for.
fn waits(path: &str, flags: i32) -> bool {
    path == "fifo" && flags & libc::O_NONBLOCK == 0 && flags & libc::O_ACCMODE != libc::O_RDWR
}

/// Every operation on every path, from the working directory and from descriptors.
pub(super) fn table() -> Vec<Op> {
    let mut all = Vec::new();
    for name in PATHS {
        let p = expand(name);
        for &flags in OPENS {
            if !waits(name, flags) {
                all.push(Op::Open(From::Cwd, p.clone(), flags, 0o7666));
            }
        }
        for &resolve in RESOLVES {
            for flags in [
                libc::O_WRONLY | libc::O_CREAT | libc::O_NONBLOCK,
                libc::O_RDWR | libc::O_NOFOLLOW,
            ] {
                let how = How {
                    flags: u64::from(flags.cast_unsigned()),
                    mode: if flags & libc::O_CREAT != 0 { 0o644 } else { 0 },
                    resolve,
                };
                // Outside of the covered trees openat2 is not there (see `Wish::modern`).
                if !name.starts_with("/dev") && !name.starts_with("/proc") {
                    all.push(Op::Open2(From::Cwd, p.clone(), how));
                    all.push(Op::Open2(From::DirPath, p.clone(), how));
                }
            }
        }
        for from in [
            From::Cwd,
            From::Dir,
            From::DirPath,
            From::File,
            From::Closed,
        ] {
            let write = libc::O_WRONLY | libc::O_CREAT | libc::O_NONBLOCK;
            all.push(Op::Open(from, p.clone(), write, 0o640));
            all.push(Op::Mkdir(from, p.clone(), 0o777));
            all.push(Op::Unlink(from, p.clone(), true));
            all.push(Op::Symlink("file".to_owned(), from, p.clone()));
            all.push(Op::Unlink(from, p.clone(), false));
            all.push(Op::Mknod(from, p.clone(), libc::S_IFIFO | 0o666));
            all.push(Op::Chmod(from, p.clone(), 0o750, 0));
        }
        all.push(Op::Mknod(From::Cwd, p.clone(), libc::S_IFREG | 0o666));
        all.push(Op::Mknod(From::Cwd, p.clone(), libc::S_IFDIR | 0o666));
        all.push(Op::Mknod(From::Cwd, p.clone(), 0o170_666));
        all.push(Op::Chmod(
            From::Cwd,
            p.clone(),
            0o7740,
            libc::AT_SYMLINK_NOFOLLOW,
        ));
        all.push(Op::Chmod(From::Cwd, p.clone(), 0o740, libc::AT_EMPTY_PATH));
        all.push(Op::Truncate(p.clone(), 3));
        all.push(Op::Truncate(p.clone(), -1));
        for other in [
            "file",
            "new-name",
            "dir/full",
            "empty",
            "nothing/x",
            "to-file",
            "LONG/x",
            "..",
            "dir/",
        ] {
            let q = expand(other);
            for flags in [0, libc::RENAME_NOREPLACE, libc::RENAME_EXCHANGE, 1 << 9] {
                all.push(Op::Rename(From::Cwd, p.clone(), q.clone(), flags));
                all.push(Op::Rename(From::Cwd, q.clone(), p.clone(), flags));
            }
            for flags in [0, libc::AT_SYMLINK_FOLLOW, libc::AT_EMPTY_PATH, 1 << 5] {
                all.push(Op::Link(From::Cwd, p.clone(), q.clone(), flags));
                all.push(Op::Link(From::Dir, q.clone(), p.clone(), flags));
            }
        }
        all.push(Op::Symlink(p.clone(), From::Cwd, "made-link".to_owned()));
    }
    // Nothing of the host may be touched, inside or outside.
    all.retain(|op| !touches_host(op));
    all
}

fn touches_host(op: &Op) -> bool {
    let out = |p: &String| {
        let p = p.as_str();
        p == "/" || p == "//" || p.starts_with("/dev") || p.starts_with("/proc/self")
    };
    match op {
        // Emptying without write access is carried out for plain files only.
        Op::Open(_, p, flags, _) => {
            out(p)
                && (flags & libc::O_TMPFILE == libc::O_TMPFILE
                    || flags & (libc::O_ACCMODE | libc::O_TRUNC) == libc::O_TRUNC)
        }
        Op::Unlink(_, p, _) | Op::Chmod(_, p, _, _) | Op::Link(_, p, _, _) => out(p),
        Op::Rename(_, p, q, _) => out(p) || out(q),
        Op::Open2(..)
        | Op::Mkdir(..)
        | Op::Mknod(..)
        | Op::Symlink(..)
        | Op::Truncate(..)
        | Op::Umask(_)
        | Op::Chdir(_) => false,
    }
}

/// Paths that are likely to exist at some time.
fn name() -> impl Strategy<Value = String> {
    let component = prop::sample::select(vec![
        "a", "b", "c", "dir", "file", "to-dir", "to-file", "..", ".", "sub", "empty",
    ]);
    (
        prop::bool::weighted(0.1),
        prop::collection::vec(component, 1..4),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(absolute, parts, slash)| {
            format!(
                "{}{}{}",
                if absolute { "@/" } else { "" },
                parts.join("/"),
                if slash { "/" } else { "" }
            )
        })
}

fn from() -> impl Strategy<Value = From> {
    prop::sample::select(vec![From::Cwd, From::Cwd, From::Dir, From::DirPath])
}

/// One random operation.
pub(super) fn any() -> impl Strategy<Value = Op> {
    let flags = prop::sample::select(OPENS.to_vec());
    prop_oneof![
        (from(), name(), flags).prop_map(|(f, n, flags)| Op::Open(
            f,
            n,
            flags | libc::O_NONBLOCK,
            0o666
        )),
        (from(), name()).prop_map(|(f, n)| Op::Open(
            f,
            n,
            libc::O_CREAT | libc::O_WRONLY | libc::O_NONBLOCK,
            0o777
        )),
        (from(), name(), 0o700..=0o777u32).prop_map(|(f, n, m)| Op::Mkdir(f, n, m)),
        (from(), name()).prop_map(|(f, n)| Op::Mknod(f, n, libc::S_IFREG | 0o666)),
        (name(), from(), name()).prop_map(|(t, f, n)| Op::Symlink(t.replace("..", "dir"), f, n)),
        (from(), name(), any_bool()).prop_map(|(f, n, d)| Op::Unlink(f, n, d)),
        (
            from(),
            name(),
            name(),
            prop::sample::select(vec![0, 0, 0, 1, 2])
        )
            .prop_map(|(f, a, b, fl)| Op::Rename(f, a, b, fl)),
        (
            from(),
            name(),
            name(),
            prop::sample::select(vec![0, libc::AT_SYMLINK_FOLLOW])
        )
            .prop_map(|(f, a, b, fl)| Op::Link(f, a, b, fl)),
        (from(), name(), 0o600..=0o777u32).prop_map(|(f, n, m)| Op::Chmod(f, n, m | 0o700, 0)),
        (name(), 0..9i64).prop_map(|(n, l)| Op::Truncate(n, l)),
        prop::sample::select(vec![0, 0o22, 0o77]).prop_map(Op::Umask),
        prop::sample::select(vec!["@", "@/dir", "@/dir/sub", "a"])
            .prop_map(|p| Op::Chdir(p.to_owned())),
    ]
}

fn any_bool() -> impl Strategy<Value = bool> {
    prop::bool::ANY
}
