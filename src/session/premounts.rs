//! The pre-stage's mounts: the private caches on host paths, and the child's whole file system, in a mount namespace that nobody else
//! has. The engine takes it over from [`STAGE`].
//!
//! It comes to what bubblewrap makes of the same plan, by descriptor (open_tree(2), move_mount(2), mount_setattr(2)) and without
//! reading the mount table for each mount. The engine's mount namespace belongs to another user namespace than this one, so everything
//! made here is locked in there: no flag can be cleared and nothing be taken off (mount_namespaces(7)).
//!
//! What is hidden is covered by nodes of a FUSE file system that ccbox serves (`covers`), where the device can be had, else by placeholders
//! that nobody may open: those refuse as well, but nobody hears of it.
//!
//! Each place is opened inside the new tree without following a link and mounted on by descriptor. A place that has gone, or has become
//! a link since the plan was made, ends the run. Nothing is ever created on a file system of the host.
//!
//! A kernel without those calls (before 5.12) makes the same mounts by mount(2), one after the other (`sys::classic`).

mod pieces;
mod yard;

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, fstat, mkdirat};
use nix::unistd::symlinkat;

use self::pieces::{Pieces, Served};
use self::yard::Yard;
use super::wire::{SetupFailure, Step};
use crate::backend::{Mount, OverlayMount, PreMount, STAGE};
use crate::sys::fds::{self, Kind};
use crate::sys::libc;
use crate::sys::mounts::{Calls, Reach, Tree, Without};
use crate::sys::namespaces;
use crate::sys::objects::{self, permissions};

/// What a directory made on the way to a place permits.
const PASSABLE_BITS: u32 = 0o755;
const PASSABLE: Mode = Mode::from_bits_truncate(0o755);
/// A mount point for a file.
const READABLE: Mode = Mode::from_bits_truncate(0o444);
/// The devices of a minimal /dev.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// The links of a minimal /dev.
const LINKS: [(&str, &str); 6] = [
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("fd", "/proc/self/fd"),
    ("core", "/proc/kcore"),
    ("ptmx", "pts/ptmx"),
];
const NO_SETUID_NO_DEVICES: Without = Without::SETUID.and(Without::DEVICES);

/// Makes them all, in order, and returns the root of the child's file system, where that is among them. `control` takes the covers'
/// device to ccbox.
pub(super) fn make(
    all: &[PreMount],
    control: &OwnedFd,
    ids: (u32, u32),
) -> Result<Option<OwnedFd>, SetupFailure> {
    if all.is_empty() {
        return Ok(None);
    }
    let private = |e: io::Error| Step::PrivateMounts.failed(&e, "");
    namespaces::make_mounts_private().map_err(private)?;
    let calls = Calls::known();
    // First, so that ccbox is at it by the time the nodes are needed.
    let hides = all.iter().any(|m| cover_kind(m).is_some());
    let served = hides
        .then(|| Served::begin(calls, control, ids))
        .transpose();
    let served = served.map_err(|e| Step::Cover.failed(&e, ""))?.flatten();
    for mount in all {
        if let PreMount::Overlay(o) = mount {
            overlay(calls, o).map_err(|e| Step::Overlay.failed(&e, &o.at))?;
        }
    }
    let guest: Vec<&PreMount> = all.iter().filter(|m| m.in_guest()).collect();
    if guest.is_empty() {
        return Ok(None);
    }
    // Modes are meant as they are written.
    let caller = nix::sys::stat::umask(Mode::empty());
    let made = build(calls, &guest, served, control);
    nix::sys::stat::umask(caller);
    made.map(Some)
}

/// Where the kernel cannot overlay (before Linux 5.11, or on a file system that is no upper layer) the cache is an empty private
/// directory (semantics 45).
fn overlay(calls: Calls, o: &OverlayMount) -> io::Result<()> {
    if namespaces::mount_overlay(&o.lowers, &o.upper, &o.work, &o.at).is_ok() {
        return Ok(());
    }
    let plain = fds::open_no_links(&o.at.with_file_name("plain"))?;
    let place = fds::open_no_links(&o.at)?;
    let tree = calls.copy(plain, Reach::Mount)?;
    let again = || fds::open_no_links(&o.at);
    tree.attach(place.as_fd(), again).map(drop)
}

/// Something of the host, taken before [`STAGE`] hides it.
#[derive(Debug)]
enum Taken {
    /// Nothing, or it can be taken when it is needed.
    Later,
    /// A tree.
    Tree(Tree),
    /// Device nodes with their names.
    Devices(Vec<(&'static str, Tree)>),
}

fn build(
    calls: Calls,
    all: &[&PreMount],
    served: Option<Served>,
    control: &OwnedFd,
) -> Result<OwnedFd, SetupFailure> {
    let workshop = |e: io::Error| Step::Cover.failed(&e, "");
    let mut taken = Vec::with_capacity(all.len());
    for mount in all {
        taken.push(take(calls, mount)?);
    }
    let stage = fds::open_no_links(Path::new(STAGE)).map_err(workshop)?;
    let mut yard = Yard::open(calls, stage).map_err(workshop)?;
    let pieces = Pieces::make(calls, &mut yard, all, served, control).map_err(workshop)?;
    let mut todo = all.iter().zip(taken).peekable();
    let root = match todo.next_if(|(mount, _)| is_root(mount)) {
        Some((_, Taken::Tree(tree))) => tree,
        _ => tmpfs(calls, PASSABLE_BITS, None).map_err(|e| Step::Mount.failed(&e, "/"))?,
    };
    // With the mounts of the pieces out of everybody's reach.
    let root = yard.put(root).map_err(workshop)?;
    let mut guest = Guest {
        calls,
        own: Vec::new(),
        root,
        pieces,
    };
    if !all.first().is_some_and(|m| is_root(m)) {
        guest.note_root().map_err(workshop)?;
    }
    for (mount, taken) in todo {
        guest.put(mount, taken)?;
    }
    yard.hand_over(guest.root).map_err(workshop)
}

fn is_root(mount: &PreMount) -> bool {
    let PreMount::Guest { mount, .. } = mount else {
        return false;
    };
    matches!(mount, Mount::RoBind { dst, .. } | Mount::Bind { dst, .. } if dst == Path::new("/"))
}

/// Takes what [`STAGE`] will hide, or what would contain it.
fn take(calls: Calls, mount: &PreMount) -> Result<Taken, SetupFailure> {
    let PreMount::Guest { mount, devices } = mount else {
        return Ok(Taken::Later);
    };
    let stage = Path::new(STAGE);
    match mount {
        Mount::RoBind { src, dst } | Mount::Bind { src, dst } | Mount::State { src, dst } => {
            if dst == Path::new("/") || src.starts_with(stage) || stage.starts_with(src) {
                return tree(calls, mount, src, *devices).map(Taken::Tree);
            }
            Ok(Taken::Later)
        }
        Mount::Dev { dst } => device_nodes(calls)
            .map(Taken::Devices)
            .map_err(|e| Step::Mount.failed(&e, dst)),
        Mount::Overlay { .. }
        | Mount::Tmpfs { .. }
        | Mount::Dir { .. }
        | Mount::Symlink { .. }
        | Mount::File { .. }
        | Mount::Data { .. }
        | Mount::Cover { .. }
        | Mount::RemountRo { .. }
        | Mount::Proc { .. } => Ok(Taken::Later),
    }
}

/// A copy of a host path with everything mounted below, restricted. What is shown at its own path, which has no link in it, is taken
/// without following one.
fn tree(calls: Calls, mount: &Mount, src: &Path, devices: bool) -> Result<Tree, SetupFailure> {
    let mut without = Without::SETUID;
    if !devices {
        without = without.and(Without::DEVICES);
    }
    if matches!(mount, Mount::RoBind { .. }) {
        without = without.and(Without::WRITING);
    }
    let copy = || {
        let mut tree = if src == mount.dst() {
            calls.copy(fds::open_no_links(src)?, Reach::Tree)?
        } else {
            calls.copy_of(src, Reach::Tree)?
        };
        tree.restrict(without)?;
        Ok(tree)
    };
    copy().map_err(|e: io::Error| Step::Mount.failed(&e, src))
}

/// The nodes of a minimal /dev, and the caller's terminal as its console, so that ttyname(3) finds it in there.
fn device_nodes(calls: Calls) -> io::Result<Vec<(&'static str, Tree)>> {
    let node = |path: &Path| {
        let mut node = calls.copy_of(path, Reach::Tree)?;
        node.restrict(Without::SETUID)?;
        Ok::<_, io::Error>(node)
    };
    let mut nodes = Vec::with_capacity(DEVICES.len() + 1);
    for name in DEVICES {
        nodes.push((name, node(&Path::new(STAGE).join(name))?));
    }
    if let Ok(terminal) = nix::unistd::ttyname(io::stdout()) {
        nodes.push(("console", node(&terminal)?));
    }
    Ok(nodes)
}

fn tmpfs(calls: Calls, mode: u32, size: Option<u64>) -> io::Result<Tree> {
    let mode = CString::new(format!("{mode:o}"))?;
    let size = size.map(|s| CString::new(s.to_string())).transpose()?;
    let mut options: Vec<(&CStr, &CStr)> = vec![(c"mode", &mode)];
    if let Some(size) = &size {
        options.push((c"size", size));
    }
    calls.file_system(c"tmpfs", &options, NO_SETUID_NO_DEVICES)
}

/// Directory or file, of a cover.
fn cover_kind(mount: &PreMount) -> Option<bool> {
    match mount {
        PreMount::Guest {
            mount: Mount::Cover { is_dir, .. },
            ..
        } => Some(*is_dir),
        PreMount::Overlay(_) | PreMount::Guest { .. } => None,
    }
}

/// The child's file system while it is being built.
#[derive(Debug)]
struct Guest {
    calls: Calls,
    root: OwnedFd,
    /// Devices of the private file systems made for it; only there anything may be created.
    own: Vec<u64>,
    pieces: Pieces,
}

/// Kind and permissions of a place that has to be created.
#[derive(Debug, Clone, Copy)]
enum New {
    Directory(Mode),
    File(Mode),
}

impl Guest {
    fn put(&mut self, mount: &PreMount, taken: Taken) -> Result<(), SetupFailure> {
        match mount {
            PreMount::Overlay(_) => Ok(()),
            PreMount::Guest { mount, devices } => {
                if let (
                    Taken::Later,
                    Mount::RoBind { src, .. } | Mount::Bind { src, .. } | Mount::State { src, .. },
                ) = (&taken, mount)
                {
                    let taken = Taken::Tree(tree(self.calls, mount, src, *devices)?);
                    return self.guest(mount, taken);
                }
                self.guest(mount, taken)
            }
        }
    }

    fn guest(&mut self, mount: &Mount, taken: Taken) -> Result<(), SetupFailure> {
        let (dst, done) = match mount {
            Mount::RoBind { dst, .. } | Mount::Bind { dst, .. } | Mount::State { dst, .. } => {
                (dst, self.bind(dst, taken))
            }
            Mount::Tmpfs { dst, mode, size } => (dst, self.tmpfs(dst, *mode, *size)),
            Mount::Dir { dst, mode } => (
                dst,
                self.place(dst, New::Directory(permissions(*mode)))
                    .map(drop),
            ),
            Mount::Symlink { target, dst } => (dst, self.symlink(target, dst)),
            Mount::File { dst, content, mode } => (dst, self.file(dst, content, *mode)),
            Mount::Data { dst, .. } => (dst, self.generated(dst)),
            Mount::Cover { dst, is_dir, .. } => {
                let done = self.cover(dst, *is_dir);
                return done.map_err(|e| Step::Cover.failed(&e, dst));
            }
            Mount::RemountRo { dst } => (dst, self.read_only(dst)),
            Mount::Dev { dst } => (dst, self.dev(dst, taken)),
            Mount::Proc { dst } => (dst, self.proc(dst)),
            // Mounted on a path of the host first.
            Mount::Overlay { dst, .. } => (dst, Err(Errno::ENOSYS.into())),
        };
        done.map_err(|e| Step::Mount.failed(&e, dst))
    }

    fn bind(&self, dst: &Path, taken: Taken) -> io::Result<()> {
        let Taken::Tree(tree) = taken else {
            return Err(Errno::EINVAL.into());
        };
        let object = tree.object().ok_or(Errno::EINVAL)?;
        let new = if fds::kind(object.as_raw_fd())? == Kind::Directory {
            New::Directory(PASSABLE)
        } else {
            New::File(READABLE)
        };
        self.attach(tree, dst, new).map(drop)
    }

    fn tmpfs(&mut self, dst: &Path, mode: u32, size: Option<u64>) -> io::Result<()> {
        let tree = tmpfs(self.calls, mode, size)?;
        let new = self.attach(tree, dst, New::Directory(PASSABLE))?;
        self.own.push(objects::device(&fstat(&new)?));
        Ok(())
    }

    /// It shows the process namespace of this process.
    fn proc(&self, dst: &Path) -> io::Result<()> {
        let without = NO_SETUID_NO_DEVICES.and(Without::EXECUTING);
        let tree = self.calls.file_system(c"proc", &[], without)?;
        self.attach(tree, dst, New::Directory(PASSABLE)).map(drop)
    }

    /// Mounts it on what stands at a guest path, or on a new object there; its root.
    fn attach(&self, tree: Tree, dst: &Path, new: New) -> io::Result<OwnedFd> {
        let place = self.place(dst, new)?;
        tree.attach(place.as_fd(), || self.open(dst))
    }

    fn symlink(&self, target: &Path, dst: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(dst)?;
        Ok(symlinkat(target, parent, name)?)
    }

    fn file(&self, dst: &Path, content: &[u8], mode: u32) -> io::Result<()> {
        let (parent, name) = self.parent(dst)?;
        let file = create(&parent, name, permissions(mode))?;
        io::Write::write_all(&mut std::fs::File::from(file), content)
    }

    fn generated(&self, dst: &Path) -> io::Result<()> {
        let found = self.pieces.generated.iter().find(|(at, _)| at == dst);
        let (_, file) = found.ok_or(Errno::ENOENT)?;
        let copy = self.calls.copy(file.try_clone()?, Reach::Mount)?;
        self.attach(copy, dst, New::File(READABLE)).map(drop)
    }

    fn cover(&mut self, at: &Path, is_dir: bool) -> io::Result<()> {
        let cover = self.pieces.cover(self.calls, is_dir)?;
        let new = if is_dir {
            New::Directory(PASSABLE)
        } else {
            New::File(READABLE)
        };
        let place = self.place(at, new)?;
        // What move_mount(2) answers with EINVAL, which says less.
        if is_dir != (fds::kind(place.as_raw_fd())? == Kind::Directory) {
            return Err(Errno::ENOTDIR.into());
        }
        let again = || self.open(at);
        cover.attach(place.as_fd(), again).map(drop)
    }

    /// That mount alone, as `mount -o remount,bind,ro` does.
    fn read_only(&self, dst: &Path) -> io::Result<()> {
        let place = self.open(dst)?;
        self.calls.restrict(place.as_fd(), Without::WRITING)
    }

    fn dev(&mut self, dst: &Path, taken: Taken) -> io::Result<()> {
        let Taken::Devices(nodes) = taken else {
            return Err(Errno::EINVAL.into());
        };
        self.tmpfs(dst, PASSABLE_BITS, None)?;
        let dev = self.open(dst)?;
        for (name, node) in nodes {
            drop(create(&dev, std::ffi::OsStr::new(name), READABLE)?);
            self.attach(node, &dst.join(name), New::File(READABLE))?;
        }
        for (name, target) in LINKS {
            symlinkat(target, &dev, name)?;
        }
        for name in ["shm", "pts"] {
            mkdirat(&dev, name, PASSABLE)?;
        }
        let terminals = self.calls.file_system(
            c"devpts",
            &[(c"ptmxmode", c"0666"), (c"mode", c"620")],
            Without::SETUID.and(Without::EXECUTING),
        )?;
        let again = New::Directory(PASSABLE);
        self.attach(terminals, &dst.join("pts"), again).map(drop)
    }

    /// What stands at a guest path, or a new object there.
    fn place(&self, dst: &Path, new: New) -> io::Result<OwnedFd> {
        match self.open(dst) {
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => {}
            found => return found,
        }
        let (parent, name) = self.parent(dst)?;
        match new {
            New::Directory(mode) => mkdirat(&parent, name, mode)?,
            New::File(mode) => drop(create(&parent, name, mode)?),
        }
        self.open(dst)
    }

    /// The directory that something new is created in, and its name there.
    fn parent<'a>(&self, dst: &'a Path) -> io::Result<(OwnedFd, &'a std::ffi::OsStr)> {
        let (Some(parent), Some(name)) = (dst.parent(), dst.file_name()) else {
            return Err(Errno::EINVAL.into());
        };
        let parent = self.place(parent, New::Directory(PASSABLE))?;
        if !self.own.contains(&objects::device(&fstat(&parent)?)) {
            return Err(Errno::ENOENT.into());
        }
        Ok((parent, name))
    }

    fn open(&self, path: &Path) -> io::Result<OwnedFd> {
        fds::open_no_links_below(&self.root, path)
    }

    fn note_root(&mut self) -> io::Result<()> {
        self.own.push(objects::device(&fstat(&self.root)?));
        Ok(())
    }
}

/// A new file.
fn create(parent: &OwnedFd, name: &std::ffi::OsStr, mode: Mode) -> io::Result<OwnedFd> {
    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    Ok(nix::fcntl::openat(parent, name, flags, mode)?)
}
