//! The Landlock domain of the command (semantics 24).
//!
//! Mounts decide what is writable by path; the domain closes what mounts cannot see: an inherited descriptor keeps the mount it was
//! opened on, so `/proc/self/fd/0` of a read-only descriptor could be reopened for writing on the host's own, writable mount. With
//! any domain in force the kernel also refuses ptrace and /proc/PID/mem of processes outside it, and every change of mounts.
//!
//! | handled | granted on |
//! |---|---|
//! | WRITE_FILE, and TRUNCATE from ABI 3 | writable paths of the plan, /dev, /proc, the objects of descriptors opened for writing |
//! | REFER | `/`: renames between directories work; never handling it would forbid them all |
//! | signals and abstract sockets, from ABI 6 | processes of the domain |
//!
//! TRUNCATE is handled because nothing emulates truncation: truncate(2) and `O_RDONLY|O_TRUNC` through /proc/self/fd would empty a
//! file that WRITE_FILE protects. It costs a path walk on opens for reading (linux-engine.md P6).
//!
//! With write rules in the plan the domain is the floor below the broker instead: see `floor`.
//!
//! ABI 1 (before 5.19) can never grant REFER, so there is no domain there: the non-dumpable pid 1 keeps itself out of reach, and
//! the enforced line says that reopening is not closed.

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use super::floor::{self, FloorError, Proof};
use crate::backend::Floor;
use crate::exit::Failure;
use crate::sys::inherited::{Access, access, copy};
use crate::sys::landlock::{Handled, Ruleset, abi};
use crate::sys::libc;

const ABI_REFER: i32 = 2;
const ABI_TRUNCATE: i32 = 3;
pub(super) const ABI_SCOPES: i32 = 6;

/// Every sandbox has its own; what may be written in them, their own mounts and permissions decide.
const ALWAYS_WRITABLE: [&str; 2] = ["/dev", "/proc"];

/// Why the domain could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum DomainError {
    /// The kernel has Landlock but refused a ruleset.
    #[error("cannot create a Landlock ruleset: {0}")]
    Create(#[source] io::Error),
    /// A path could not be opened or granted.
    #[error("cannot grant writing below `{}` in the Landlock domain: {source}", path.display())]
    Grant {
        /// The guest path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no floor, or none that would hold.
    #[error(transparent)]
    Floor(#[from] FloorError),
    /// The object behind a descriptor could not be granted.
    #[error("cannot grant writing through descriptor {fd} in the Landlock domain: {source}")]
    Descriptor {
        /// Its number.
        fd: RawFd,
        /// Why.
        source: io::Error,
    },
}

impl Failure for DomainError {}

/// A domain ready to be entered; holds one close-on-exec descriptor.
#[derive(Debug)]
pub struct Domain {
    ruleset: Option<Ruleset>,
    abi: i32,
    /// With a floor: how to see that it holds.
    proof: Option<Proof>,
}

impl Domain {
    /// Opens and grants everything; to be called inside the finished mounts, before the command's process is forked.
    ///
    /// `writable` are guest paths below which the plan lets the command write, private mounts included; one that does not exist
    /// grants nothing. `kept` are the descriptors above 2 the command keeps.
    pub fn prepare(writable: &[PathBuf], kept: &[RawFd]) -> Result<Self, DomainError> {
        Self::prepare_for(abi(), writable, kept)
    }

    pub(super) fn prepare_for(
        kernel: i32,
        writable: &[PathBuf],
        kept: &[RawFd],
    ) -> Result<Self, DomainError> {
        if kernel < ABI_REFER {
            return Ok(Self {
                ruleset: None,
                abi: 0,
                proof: None,
            });
        }
        let mut ruleset = Ruleset::new(Handled {
            truncate: kernel >= ABI_TRUNCATE,
            entries: false,
            scopes: kernel >= ABI_SCOPES,
        })
        .map_err(DomainError::Create)?;

        let root = Path::new("/");
        open(root)
            .and_then(|fd| ruleset.allow_refer(fd))
            .map_err(|source| grant(root, source))?;
        for path in ALWAYS_WRITABLE
            .iter()
            .map(Path::new)
            .chain(writable.iter().map(PathBuf::as_path))
        {
            let object = match open(path) {
                Ok(object) => object,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(grant(path, source)),
            };
            ruleset
                .allow_write(object)
                .map_err(|source| grant(path, source))?;
        }
        allow_descriptors(&mut ruleset, kept)?;
        Ok(Self {
            ruleset: Some(ruleset),
            abi: kernel,
            proof: None,
        })
    }

    /// As [`Self::prepare`], for a run with the broker: the command has no right to write in the covered trees.
    ///
    /// `sockets`: Unix sockets may be bound there.
    pub fn prepare_floor(
        floor: &Floor,
        sockets: bool,
        kept: &[RawFd],
    ) -> Result<Self, DomainError> {
        Self::prepare_floor_for(abi(), floor, sockets, kept)
    }

    /// As [`Self::prepare_floor`], on the host's own file system: its /dev and /proc are not the sandbox's.
    pub fn prepare_alone(floor: &Floor, kept: &[RawFd]) -> Result<Self, DomainError> {
        Self::prepare_floor_around(abi(), floor, false, kept, &[])
    }

    pub(super) fn prepare_floor_for(
        kernel: i32,
        floor: &Floor,
        sockets: bool,
        kept: &[RawFd],
    ) -> Result<Self, DomainError> {
        Self::prepare_floor_around(kernel, floor, sockets, kept, &floor::OWN)
    }

    fn prepare_floor_around(
        kernel: i32,
        floor: &Floor,
        sockets: bool,
        kept: &[RawFd],
        own: &[&str],
    ) -> Result<Self, DomainError> {
        if kernel < ABI_REFER {
            return Err(FloorError::Abi { abi: kernel }.into());
        }
        let mut ruleset = Ruleset::new(Handled {
            truncate: false,
            entries: true,
            scopes: kernel >= ABI_SCOPES,
        })
        .map_err(DomainError::Create)?;
        let proof = floor::grant(&mut ruleset, floor, sockets, own)?;
        allow_descriptors(&mut ruleset, kept)?;
        Ok(Self {
            ruleset: Some(ruleset),
            abi: kernel,
            proof: Some(proof),
        })
    }

    /// The Landlock ABI the domain is made for, 0 where the kernel has none that can hold it.
    pub fn abi(&self) -> i32 {
        self.abi
    }

    /// The domain keeps a read-only descriptor from being truncated; with a floor that is the supervisor's part.
    pub fn closes_truncation(&self) -> bool {
        self.abi >= ABI_TRUNCATE && self.proof.is_none()
    }

    /// Signals and abstract sockets end at the domain.
    pub fn scopes(&self) -> bool {
        self.abi >= ABI_SCOPES
    }

    /// Enters the domain with the calling thread and everything it starts, with no_new_privs. Callable between fork and exec.
    pub fn apply(&self) -> io::Result<()> {
        match &self.ruleset {
            Some(ruleset) => ruleset.restrict_self(),
            None => Ok(()),
        }
    }

    /// Sees whether the floor holds; to be called once the domain is entered. Without a floor there is nothing to see.
    pub fn prove(&self) -> Result<(), FloorError> {
        self.proof.as_ref().map_or(Ok(()), Proof::check)
    }
}

fn grant(path: &Path, source: io::Error) -> DomainError {
    DomainError::Grant {
        path: path.to_owned(),
        source,
    }
}

/// Pins a granted path. Guest paths are free of links; one that has come up since was planted (semantics 20).
fn open(path: &Path) -> io::Result<OwnedFd> {
    crate::sys::fds::open_no_links(path)
}

fn allow_descriptors(ruleset: &mut Ruleset, kept: &[RawFd]) -> Result<(), DomainError> {
    for &fd in [0, 1, 2].iter().chain(kept) {
        allow_descriptor(ruleset, fd).map_err(|source| DomainError::Descriptor { fd, source })?;
    }
    Ok(())
}

/// Reopening an object that is open for writing gives nothing new, and `> /dev/stdout` needs it.
fn allow_descriptor(ruleset: &mut Ruleset, fd: RawFd) -> io::Result<()> {
    if access(fd)? != Some(Access::Write) {
        return Ok(());
    }
    match ruleset.allow_write(copy(fd)?) {
        // Pipes, sockets, memfds: on no mounted file system, so no domain governs them (landlock_add_rule(2), EBADFD).
        Err(error) if error.raw_os_error() == Some(libc::EBADFD) => Ok(()),
        other => other,
    }
}
