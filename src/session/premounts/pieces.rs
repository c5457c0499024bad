//! What covers and generated files are copies of.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use super::cover_kind;
use super::yard::Yard;
use crate::backend::{Mount, PreMount};
use crate::session::covers;
use crate::session::wire::{self, Report};
use crate::sys::fds;
use crate::sys::fuse;
use crate::sys::mounts::{Calls, Reach, Tree, Workshop};
use crate::sys::objects::permissions;

/// The file system that ccbox serves, until it is mounted.
#[derive(Debug)]
pub(super) struct Served {
    tree: Tree,
    /// Not handed over yet: mount(2) makes the connection, and before that nobody can read from it.
    device: Option<OwnedFd>,
}

impl Served {
    /// Makes it, and hands its device over. Whatever stands in the way (no device, no right to open it, no such file system) leaves the
    /// placeholders: `None`.
    pub(super) fn begin(
        calls: Calls,
        control: &OwnedFd,
        (uid, gid): (u32, u32),
    ) -> io::Result<Option<Self>> {
        let make = || {
            let device = fuse::open_device()?;
            let tree = fuse::file_system(calls, &device, uid, gid)?;
            Ok::<_, io::Error>((device, tree))
        };
        let Ok((device, tree)) = make() else {
            return Ok(None);
        };
        let device = match calls {
            Calls::New => hand_over(device, control).map(|()| None)?,
            Calls::Classic => Some(device),
        };
        Ok(Some(Self { tree, device }))
    }

    /// Puts it where copies of its nodes can be made.
    fn mount(self, yard: &mut Yard, control: &OwnedFd) -> io::Result<Option<Nodes>> {
        let root = match (yard.put(self.tree), self.device) {
            (Ok(root), None) => root,
            (Ok(root), Some(device)) => hand_over(device, control).map(|()| root)?,
            (Err(e), None) => return Err(e),
            (Err(_), Some(_)) => return Ok(None),
        };
        fuse::learn_names(&root)?;
        Ok(Some(Nodes { root, used: 0 }))
    }
}

fn hand_over(device: OwnedFd, control: &OwnedFd) -> io::Result<()> {
    wire::say_with(control, &Report::Covers, &[device])
}

/// Its nodes, mounted.
#[derive(Debug)]
struct Nodes {
    root: OwnedFd,
    /// Covers made so far.
    used: usize,
}

impl Nodes {
    fn next(&mut self) -> io::Result<OwnedFd> {
        let path = fds::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let name = covers::name(self.used);
        self.used += 1;
        Ok(nix::fcntl::openat(
            &self.root,
            name.as_str(),
            path,
            Mode::empty(),
        )?)
    }
}

/// What covers and generated files are copies of.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// Hides anything, and tells.
    served: Option<Nodes>,
    /// Hides a file.
    file: Option<OwnedFd>,
    /// Hides a directory.
    directory: Option<OwnedFd>,
    /// Generated files, by guest path.
    pub(super) generated: Vec<(PathBuf, OwnedFd)>,
}

impl Pieces {
    /// Made on mounts of `yard`.
    pub(super) fn make(
        calls: Calls,
        yard: &mut Yard,
        all: &[&PreMount],
        served: Option<Served>,
        control: &OwnedFd,
    ) -> io::Result<Self> {
        let mut pieces = Self::default();
        if let Some(served) = served {
            pieces.served = served.mount(yard, control)?;
        }
        let data: Vec<_> = all
            .iter()
            .filter_map(|m| match m {
                PreMount::Guest {
                    mount: Mount::Data { dst, content, mode },
                    ..
                } => Some((dst, content, *mode)),
                PreMount::Overlay(_) | PreMount::Guest { .. } => None,
            })
            .collect();
        let blank = |directory: bool| {
            pieces.served.is_none() && all.iter().any(|m| cover_kind(m) == Some(directory))
        };
        let (files, directories) = (blank(false), blank(true));
        if data.is_empty() && !files && !directories {
            return Ok(pieces);
        }
        let workshop = Workshop::at(yard.put(Workshop::place(calls)?)?);
        let nobody = Mode::empty();
        if files {
            pieces.file = Some(workshop.file(c"file", b"", nobody)?);
        }
        if directories {
            pieces.directory = Some(workshop.directory(c"directory", nobody)?);
        }
        for (n, (dst, content, mode)) in data.into_iter().enumerate() {
            let name = CString::new(n.to_string())?;
            let file = workshop.file(&name, content, permissions(mode))?;
            pieces.generated.push((dst.clone(), file));
        }
        workshop.seal(calls)?;
        Ok(pieces)
    }

    /// What hides the next object, mounted nowhere yet. Served nodes come in the order of the plan.
    pub(super) fn cover(&mut self, calls: Calls, is_dir: bool) -> io::Result<Tree> {
        if let Some(served) = &mut self.served {
            return calls.copy(served.next()?, Reach::Mount);
        }
        let blank = if is_dir { &self.directory } else { &self.file };
        let blank = blank.as_ref().ok_or(Errno::ENOENT)?;
        calls.copy(blank.try_clone()?, Reach::Mount)
    }
}
