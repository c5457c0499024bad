//! The floor below the broker: inside covered trees the command has no right to open for writing, make, remove or move anything
//! (D4, linux-engine.md §1). What it may do there, the supervisor does for it.
//!
//! | granted on | what |
//! |---|---|
//! | exempt paths | everything that is handled, REFER included: their whole trees have the same rights, so what moves in them gains none |
//! | /dev, /proc | the same; entry by entry where a covered tree lies below |
//! | covered trees | sockets may be bound, where Unix sockets are allowed at all: they carry no content |
//! | anything above a covered tree | nothing: Landlock adds up the rules of all ancestors, across mounts (P0) |
//!
//! Rules belong to inodes, not to paths. So "above" is decided on paths *and* on the objects that `..` leads to from the covered
//! tree, and an exempt path inside a covered tree must be a mount of its own: otherwise its directory could be moved, with its
//! rights, to a place that has rules.
//!
//! TRUNCATE is not handled: it costs a path walk on every open for reading (P6). The calls that truncate without a descriptor opened
//! for writing trap, and the supervisor never lets the kernel carry them out.

use std::collections::hash_map::RandomState;
use std::ffi::CString;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::UnlinkatFlags;

use crate::backend::Floor;
use crate::sys::at::{self, Look};
use crate::sys::fds::{O_PATH, open_no_links};
use crate::sys::landlock::Ruleset;
use crate::sys::libc;

/// Every sandbox has its own, and nothing in them has name rules.
pub(super) const OWN: [&str; 2] = ["/dev", "/proc"];

/// Why there is no floor, or none that holds.
#[derive(Debug, thiserror::Error)]
pub enum FloorError {
    /// Landlock is missing or too old.
    #[error("the kernel's Landlock ABI is {abi}, write rules need 2 (Linux 5.19)")]
    Abi {
        /// What there is.
        abi: i32,
    },
    /// A path could not be looked at or granted.
    #[error("cannot prepare `{}` for write rules: {source}", path.display())]
    Path {
        /// Guest path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A grant at or above a covered tree.
    #[error("`{}` cannot be writable without rules: `{}` with its write rules lies in it", exempt.display(), covered.display())]
    Above {
        /// Guest path of the grant.
        exempt: PathBuf,
        /// Guest path of the tree.
        covered: PathBuf,
    },
    /// A grant in a covered tree, on the same mount.
    #[error("`{}` cannot be writable without rules inside `{}`: it is no mount of its own", exempt.display(), covered.display())]
    Movable {
        /// Guest path of the grant.
        exempt: PathBuf,
        /// Guest path of the tree.
        covered: PathBuf,
    },
    /// The kernel let through what the floor takes away.
    #[error("the kernel does not hold the write rules in `{}`", path.display())]
    NotHeld {
        /// Guest path of the tree.
        path: PathBuf,
    },
    /// The attempt failed for another reason than the floor.
    #[error("cannot tell whether the write rules in `{}` hold: {source}", path.display())]
    Unproven {
        /// Guest path of the tree.
        path: PathBuf,
        /// What the attempt gave.
        source: io::Error,
    },
}

/// A covered tree, pinned before the domain is entered.
#[derive(Debug)]
struct Tree {
    path: PathBuf,
    object: OwnedFd,
    is_dir: bool,
}

/// What has to be tried once the domain is entered.
#[derive(Debug)]
pub(super) struct Proof {
    trees: Vec<Tree>,
    /// Nobody has this name.
    name: CString,
}

/// Grants what the floor leaves, `own` directories of the sandbox among it; the ruleset handles WRITE_FILE, REFER and all entries. To be called inside the finished mounts.
pub(super) fn grant(
    ruleset: &mut Ruleset,
    floor: &Floor,
    sockets: bool,
    own: &[&str],
) -> Result<Proof, FloorError> {
    let mut trees = Vec::with_capacity(floor.covered.len());
    let mut chains = Vec::with_capacity(floor.covered.len());
    for path in &floor.covered {
        let object = open_no_links(path).map_err(|source| failed(path, source))?;
        let chain = chain(path, &object).map_err(|e| failed(path, e.into()))?;
        let is_dir = chain.first().is_some_and(|look| look.is(libc::S_IFDIR));
        if sockets && is_dir {
            let copy = object.try_clone().map_err(|e| failed(path, e))?;
            ruleset.allow_sockets(copy).map_err(|e| failed(path, e))?;
        }
        trees.push(Tree {
            path: path.clone(),
            object,
            is_dir,
        });
        chains.push(chain);
    }
    let chains = Chains {
        floor,
        chains: &chains,
    };
    for path in &floor.exempt {
        chains.grant(ruleset, path)?;
    }
    for path in own {
        chains.grant_around(ruleset, Path::new(path))?;
    }
    Ok(Proof {
        trees,
        name: unused_name(),
    })
}

impl Proof {
    /// Tries to make a file in each covered tree; to be called in the domain, before the filter. Nothing is left behind.
    pub(super) fn check(&self) -> Result<(), FloorError> {
        self.trees.iter().try_for_each(|tree| self.check_one(tree))
    }

    fn check_one(&self, tree: &Tree) -> Result<(), FloorError> {
        let common = OFlag::O_WRONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let new = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        let name = self.name.as_c_str();
        let opened = if tree.is_dir {
            nix::fcntl::openat(&tree.object, name, common | new, mode)
        } else {
            let name = at::own_name(tree.object.as_fd());
            nix::fcntl::open(name.as_c_str(), common, Mode::empty())
        };
        match opened {
            // The domain refuses with EACCES, a read-only mount with EROFS; both say that nothing can be made.
            Err(Errno::EACCES | Errno::EROFS) => Ok(()),
            Err(e) => Err(FloorError::Unproven {
                path: tree.path.clone(),
                source: e.into(),
            }),
            Ok(_) => {
                if tree.is_dir {
                    // The run ends either way; a name that cannot be removed is an empty file.
                    let _ = nix::unistd::unlinkat(&tree.object, name, UnlinkatFlags::NoRemoveDir);
                }
                Err(FloorError::NotHeld {
                    path: tree.path.clone(),
                })
            }
        }
    }
}

/// The covered trees and everything above them.
struct Chains<'a> {
    floor: &'a Floor,
    /// One for each covered tree: itself, what is above it, up to the root.
    chains: &'a [Vec<Look>],
}

impl Chains<'_> {
    /// Grants an exempt path, which must be neither above a covered tree nor movable within one. Absent: nothing.
    fn grant(&self, ruleset: &mut Ruleset, path: &Path) -> Result<(), FloorError> {
        let object = match open_no_links(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other.map_err(|e| failed(path, e))?,
        };
        let look = at::look(object.as_fd(), c"").map_err(|e| failed(path, e.into()))?;
        for (covered, chain) in self.floor.covered.iter().zip(self.chains) {
            let same = |l: &Look| (l.device, l.ino) == (look.device, look.ino);
            if covered.starts_with(path) || chain.iter().any(same) {
                return Err(FloorError::Above {
                    exempt: path.to_owned(),
                    covered: covered.clone(),
                });
            }
            let mount = chain.first().map(|tree| tree.mount);
            if path.starts_with(covered) && mount == Some(look.mount) {
                return Err(FloorError::Movable {
                    exempt: path.to_owned(),
                    covered: covered.clone(),
                });
            }
        }
        let granted = if look.is(libc::S_IFDIR) {
            ruleset.allow_all(object)
        } else {
            ruleset.allow_write(object)
        };
        granted.map_err(|e| failed(path, e))
    }

    /// Grants one of the sandbox's own directories, or what is in it where it holds a covered tree.
    fn grant_around(&self, ruleset: &mut Ruleset, path: &Path) -> Result<(), FloorError> {
        if !self.floor.covered.iter().any(|c| c.starts_with(path)) {
            return self.grant(ruleset, path);
        }
        if self.floor.covered.iter().any(|c| c == path) {
            return Ok(());
        }
        let entries = match fs::read_dir(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other.map_err(|e| failed(path, e))?,
        };
        for entry in entries {
            let entry = entry.map_err(|e| failed(path, e))?;
            let kind = entry.file_type().map_err(|e| failed(path, e))?;
            if !kind.is_symlink() {
                self.grant_around(ruleset, &entry.path())?;
            }
        }
        Ok(())
    }
}

/// The object and what is above it, as the kernel walks: out of a mount to where it is mounted.
fn chain(path: &Path, object: &OwnedFd) -> Result<Vec<Look>, Errno> {
    let above = O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut chain = vec![at::look(object.as_fd(), c"")?];
    let mut at = match chain.first() {
        // A file has no `..`.
        Some(look) if !look.is(libc::S_IFDIR) => {
            let parent = path.parent().unwrap_or(path);
            let parent = nix::fcntl::open(parent, above | OFlag::O_NOFOLLOW, Mode::empty())?;
            chain.push(at::look(parent.as_fd(), c"")?);
            parent
        }
        _ => nix::fcntl::openat(object, c".", above, Mode::empty())?,
    };
    loop {
        at = nix::fcntl::openat(&at, c"..", above, Mode::empty())?;
        let look = at::look(at.as_fd(), c"")?;
        // The root is its own parent.
        if chain.last().is_some_and(|last| last.same(&look)) {
            return Ok(chain);
        }
        chain.push(look);
    }
}

fn unused_name() -> CString {
    // Keyed by the kernel's random numbers.
    let number = RandomState::new().build_hasher().finish();
    // A number has no NUL in it.
    CString::new(format!(".ccbox-{number:016x}")).unwrap_or_default()
}

fn failed(path: &Path, source: io::Error) -> FloorError {
    FloorError::Path {
        path: path.to_owned(),
        source,
    }
}
