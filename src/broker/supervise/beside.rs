//! What the read floor refuses (`session::harden::read_floor`), for `--trace`: the kernel says nothing about it.
//!
//! The floor grants each entry of some directories when the command starts; what the host puts into them later has no grant. Here the
//! entries are remembered by inode number at that time. Those of directories are read, not looked at one by one: some are covers, which
//! nobody serves yet.

use crate::sys::libc;
use std::collections::HashSet;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::sys::stat::fstat;

use super::place;
use crate::sys::at::{self, How, Look};

/// File systems take their times from a clock that advances in steps (CONFIG_HZ of 100).
const STEP: Duration = Duration::from_millis(10);

/// Directories above files that the floor closes.
#[derive(Debug)]
pub(super) struct Beside {
    since: Duration,
    directories: Vec<Directory>,
}

#[derive(Debug)]
struct Directory {
    /// Path inside.
    path: Vec<u8>,
    mount: u64,
    entries: HashSet<u64>,
}

impl Beside {
    /// As they are before any code of the child runs. One that cannot be listed or is not there says nothing.
    pub(super) fn new(root: BorrowedFd<'_>, above: &[PathBuf]) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            since: now.unwrap_or_default().saturating_sub(STEP),
            directories: above
                .iter()
                .filter_map(|path| Directory::read(root, path).ok())
                .collect(),
        }
    }

    /// The floor has no grant for the object at a path inside.
    pub(super) fn refuses(&self, root: BorrowedFd<'_>, path: &[u8], look: &Look) -> bool {
        // The floor is about files.
        !look.is(libc::S_IFDIR) && self.is_new(root, path).unwrap_or(false)
    }

    fn is_new(&self, root: BorrowedFd<'_>, path: &[u8]) -> Result<bool, Errno> {
        let deepest = self
            .directories
            .iter()
            .filter_map(|d| Some((place::below(path, &d.path)?, d)))
            .min_by_key(|(rest, _)| rest.len());
        let Some((rest, directory)) = deepest else {
            return Ok(false);
        };
        let Some(name) = place::components(rest).first().copied() else {
            return Ok(false);
        };
        let entry = open(root, &place::join(&directory.path, name), place::PATH_ONLY)?;
        let look = at::look(entry.as_fd(), c"")?;
        // Something is mounted there, and nobody mounts inside: it was there.
        if look.mount != directory.mount || directory.entries.contains(&look.ino) {
            return Ok(false);
        }
        // Some file systems number their entries in two ways. What is new or was moved has changed.
        let seen = fstat(&entry)?;
        let changed = Duration::new(
            u64::try_from(seen.st_ctime).unwrap_or_default(),
            u32::try_from(seen.st_ctime_nsec).unwrap_or_default(),
        );
        Ok(changed >= self.since)
    }
}

impl Directory {
    fn read(root: BorrowedFd<'_>, path: &std::path::Path) -> Result<Self, Errno> {
        let path = path.as_os_str().as_encoded_bytes().to_vec();
        let listed = open(
            root,
            &path,
            place::flags(libc::O_RDONLY | libc::O_DIRECTORY),
        )?;
        let mount = at::look(listed.as_fd(), c"")?.mount;
        let mut list = nix::dir::Dir::from_fd(listed)?;
        let entries = list.iter().map(|entry| Ok(entry?.ino()));
        Ok(Self {
            path,
            mount,
            entries: entries.collect::<Result<_, Errno>>()?,
        })
    }
}

/// An absolute path inside.
fn open(root: BorrowedFd<'_>, path: &[u8], flags: u64) -> Result<std::os::fd::OwnedFd, Errno> {
    let below = path.strip_prefix(b"/").unwrap_or(path);
    let below = if below.is_empty() { b"." } else { below };
    let below = CString::new(below).map_err(|_| Errno::EINVAL)?;
    let how = How {
        flags,
        mode: 0,
        resolve: libc::RESOLVE_NO_SYMLINKS,
    };
    at::open(root, &below, how)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::fd::OwnedFd;

    #[test]
    fn what_came_later_has_no_grant() {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        fs::create_dir_all(at("home/old")).unwrap();
        for name in ["home/key", "home/old/in", "home/other"] {
            fs::write(at(name), "").unwrap();
        }
        let root = OwnedFd::from(File::open(top.path()).unwrap());
        let beside = Beside::new(root.as_fd(), &["/".into(), "/home".into(), "/gone".into()]);
        std::thread::sleep(Duration::from_millis(30));
        fs::create_dir(at("home/made")).unwrap();
        for name in ["home/new", "home/made/in", "home/old/new", "top"] {
            fs::write(at(name), "").unwrap();
        }
        fs::write(at("home/next"), "").unwrap();
        fs::rename(at("home/next"), at("home/key")).unwrap();
        fs::write(at("home/other"), "changed in place").unwrap();
        let refuses = |name: &str| {
            let object = File::open(at(name)).unwrap();
            let look = at::look(object.as_fd(), c"").unwrap();
            beside.refuses(root.as_fd(), format!("/{name}").as_bytes(), &look)
        };
        for name in ["home/new", "home/key", "home/made/in", "top"] {
            assert!(refuses(name), "{name}");
        }
        for name in [
            "home/other",
            "home/old/in",
            "home/old/new",
            "home/made",
            "home",
        ] {
            assert!(!refuses(name), "{name}");
        }
    }
}
