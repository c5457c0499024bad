//! A configuration file that is written by hand: `cp -r`, tar and their like make `config` with `O_EXCL` and write into it.
//!
//! The file that gets the name is ccbox's own and empty. The child is given another one, without a name, and once nobody writes it any
//! more its bytes are judged as any change and installed. So nothing gets into `config` that could not get there by git's own lock and
//! rename; what comes later is only the judgement. If it never comes (ccbox is killed), the file stays empty.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat, fstat, fstatat};

use super::super::decide::{Dir, RuleSet};
use super::super::gate::compare_at;
use super::super::gate::config::MAX_FILE;
use super::super::gate::keys::Place;
use super::install::{install, make_empty};
use super::pass::{
    GateError, NEW_CONFIG, components, new_mode, unusual, worktree_settings_are_plain,
};
use crate::sys::libc;
use crate::sys::{at, fds};

/// What the child wrote, or will, and where it is meant to go.
#[derive(Debug)]
pub struct Staged {
    dir: OwnedFd,
    name: Vec<u8>,
    /// The empty file, held so that its inode number is nobody else's.
    empty: OwnedFd,
    /// Opened for reading.
    content: File,
}

/// Device and inode.
fn key(stat: &FileStat) -> (u64, u64) {
    crate::sys::objects::key(stat)
}

fn errno(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

/// Makes the empty file under its name, and the one to write into, which is returned opened for both.
pub fn stage(dir: impl AsFd, name: &[u8], mode: u32) -> Result<(OwnedFd, Staged), Errno> {
    let file = fds::memory_file(c"config", b"").map_err(|e| errno(&e))?;
    let content = at::open_here(&at::own_name(file.as_fd()), libc::O_RDONLY)?;
    at::change_mode(content.as_fd(), new_mode(mode, NEW_CONFIG))?;
    let held = dir.as_fd().try_clone_to_owned().map_err(|e| errno(&e))?;
    let empty = make_empty(&dir, name, new_mode(mode, NEW_CONFIG))?;
    let staged = Staged {
        dir: held,
        name: name.to_vec(),
        empty,
        content: content.into(),
    };
    Ok((file, staged))
}

impl Staged {
    /// The directory, pinned.
    #[must_use]
    pub fn dir(&self) -> &OwnedFd {
        &self.dir
    }

    /// Somebody has it open for writing.
    #[must_use]
    pub fn is_written(&self) -> bool {
        fds::is_open_for_writing(self.content.as_fd())
    }

    /// Installs what was written, with the exclusive lock held and `path` looked up under it. Nothing to do where nothing was written, or
    /// where the empty file has gone or been filled meanwhile.
    pub fn install(&self, set: &RuleSet, path: &Dir) -> Result<(), GateError> {
        let meta = self.content.metadata().map_err(|e| errno(&e))?;
        let length = usize::try_from(meta.size()).unwrap_or(usize::MAX);
        if length == 0 || !self.stands()? {
            return Ok(());
        }
        if length > MAX_FILE {
            return Err(unusual("the new configuration file is too long"));
        }
        let mut bytes = vec![0; length];
        self.content
            .read_exact_at(&mut bytes, 0)
            .map_err(|e| errno(&e))?;
        let git_dir = components(path);
        let place = Place {
            git_dir: Some(&git_dir),
            roots: &set.roots(),
            plain_worktree_settings: worktree_settings_are_plain(self.dir.as_fd())?,
        };
        compare_at(&place, b"", &bytes)?;
        let mode = new_mode(meta.mode() & 0o777, NEW_CONFIG);
        Ok(install(&self.dir, &self.name, &bytes, mode)?)
    }

    /// The name still has the file that was made for it, and nothing is in it.
    fn stands(&self) -> Result<bool, Errno> {
        let name = self.name.as_slice();
        match fstatat(&self.dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(key(&stat) == key(&fstat(&self.empty)?) && stat.st_size == 0),
            Err(Errno::ENOENT) => Ok(false),
            Err(e) => Err(e),
        }
    }
}
