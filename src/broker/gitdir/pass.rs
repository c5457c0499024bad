//! The gates, carried out on descriptors with the exclusive lock held.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::stat::{SFlag, fstat};

use super::super::decide::{Dir, RuleSet};
use super::super::gate::keys::Place;
use super::super::gate::skeleton::{self, Reinstall, Skeleton};
use super::super::gate::{Refusal, compare, compare_at};
use super::super::git_paths::{self, Becomes, COMMONDIR, Facts, Gate};
use super::facts::Pinned;
use super::install::{install, lock_name, remove};
use super::look::{self, Listing, Look};
use super::stage::{Staged, stage};
use crate::sys::{fds, objects};

/// One name in a pinned directory.
#[derive(Debug, Clone, Copy)]
pub struct Spot<'a> {
    /// The directory.
    pub dir: BorrowedFd<'a>,
    /// Its path, looked up under the lock.
    pub path: &'a Dir,
    /// The name.
    pub name: &'a [u8],
    /// The facts around it.
    pub facts: &'a Pinned<'a>,
}

/// The operation that needs a gate.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The rules of the run.
    pub set: &'a RuleSet,
    /// The entry that is made or replaced.
    pub to: Spot<'a>,
    /// What is renamed to it.
    pub from: Option<Spot<'a>>,
    /// It must be a new name: `RENAME_NOREPLACE`, `O_EXCL`.
    pub noreplace: bool,
    /// The mode of a new file, the child's umask applied.
    pub mode: u32,
}

/// The gate is passed.
#[derive(Debug)]
pub enum Passed {
    /// Perform the operation now, with the lock still held.
    Act,
    /// It was performed: the answer is success.
    Done,
    /// It was performed: the answer is a copy of this descriptor, however the child wanted to open the file.
    Give(OwnedFd),
    /// It was performed: the child writes into this file, in the end [`Staged::install`] is to be called.
    Stage(OwnedFd, Staged),
}

/// The gate is not passed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// It may not be: `EACCES`, and a report with these words.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It cannot be: this error for the child, as the operation itself would have given it.
    #[error("{}", .0.desc().to_lowercase())]
    Failed(#[from] Errno),
}

impl crate::exit::Failure for GateError {}

impl GateError {
    /// What the child gets.
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self {
            Self::Refused(_) => Errno::EACCES,
            Self::Failed(errno) => *errno,
        }
    }
}

/// Carries a gate out. The exclusive lock is held, so the child changes nothing meanwhile, and the verdict that asked for
/// the gate was given under it.
pub fn pass(gate: Gate, ask: &Ask<'_>) -> Result<Passed, GateError> {
    match gate {
        Gate::Config => config(ask),
        Gate::EmptyConfig => empty_config(ask),
        Gate::Skeleton(Becomes::Parent) => become_one(ask),
        Gate::Skeleton(Becomes::Moved) => become_dot_git(ask),
        Gate::Commondir => commondir(ask),
    }
}

/// Words for a file that is refused as it is.
pub(super) fn unusual(what: &str) -> GateError {
    GateError::Refused(Refusal {
        key: Vec::new(),
        value: None,
        reason: what.to_owned(),
    })
}

/// The most that a new configuration file gives to others: the group may write, as with a umask of 002.
pub(super) const NEW_CONFIG: u32 = 0o664;

/// The mode of a configuration file, as `chmod` of it is judged: nobody may write who could not before, and the owner can.
pub(super) fn new_mode(wanted: u32, before: u32) -> u32 {
    wanted & (before | 0o755) | 0o600
}

/// A rename to `config` of a file beside it, `config.lock` with git: the bytes are read once, judged, and installed as a new file.
fn config(ask: &Ask<'_>) -> Result<Passed, GateError> {
    let Spot {
        dir, path, name, ..
    } = ask.to;
    let lock = lock_name(name);
    let source = ask.from.map_or(lock.as_slice(), |from| from.name);
    let new = match look::file(dir, source)? {
        // A second name could be given to a file that the child may not read.
        Look::Plain(new) if new.alone => new,
        Look::Plain(_) => return Err(unusual("the new configuration file has a second name")),
        Look::Unusual => return Err(unusual("the new configuration is not a plain file")),
        Look::Absent => return Err(Errno::ENOENT.into()),
    };
    let old = look::file(dir, name)?;
    let (old_bytes, old_mode): (&[u8], u32) = match &old {
        Look::Absent => (b"", NEW_CONFIG),
        Look::Plain(_) if ask.noreplace => return Err(Errno::EEXIST.into()),
        Look::Plain(old) => (&old.bytes, old.mode),
        Look::Unusual => return Err(unusual("the existing configuration is not a plain file")),
    };
    let git_dir: Vec<&[u8]> = components(path);
    let place = Place {
        git_dir: Some(&git_dir),
        roots: &ask.set.roots(),
        plain_worktree_settings: worktree_settings_are_plain(dir)?,
    };
    compare_at(&place, old_bytes, &new.bytes)?;
    let mode = new_mode(new.mode, old_mode);
    if source == lock {
        remove(dir, source)?;
        install(dir, name, &new.bytes, mode)?;
    } else {
        install(dir, name, &new.bytes, mode)?;
        remove(dir, source)?;
    }
    Ok(Passed::Done)
}

/// A configuration file without anything in it at first.
fn empty_config(ask: &Ask<'_>) -> Result<Passed, GateError> {
    let (file, staged) = stage(ask.to.dir, ask.to.name, ask.mode)?;
    Ok(Passed::Stage(file, staged))
}

/// An entry that makes the directory around it a git directory.
fn become_one(ask: &Ask<'_>) -> Result<Passed, GateError> {
    let Spot {
        dir, path, facts, ..
    } = ask.to;
    let folded: Vec<&[u8]> = path.folded().iter().map(Vec::as_slice).collect();
    let linked = git_paths::is_linked_directory(&folded, facts);
    refresh(ask.set, dir, &components(path), linked)?;
    if let Some(errno) = facts.failed() {
        return Err(errno.into());
    }
    facts.repositories().became(dir);
    Ok(Passed::Act)
}

/// A directory that is renamed to `.git`.
fn become_dot_git(ask: &Ask<'_>) -> Result<Passed, GateError> {
    let Some(from) = ask.from else {
        return Err(Errno::EINVAL.into());
    };
    let dir = objects::hold_dir(from.dir, from.name)?;
    let was = git_paths::complete(|name| from.facts.holds(from.path.depth() + 1, name));
    let mut git_dir = components(ask.to.path);
    git_dir.push(ask.to.name);
    refresh(ask.set, dir.as_fd(), &git_dir, false)?;
    if let Some(errno) = from.facts.failed() {
        return Err(errno.into());
    }
    // A repository of the project stays one, whatever it is called.
    if !was {
        from.facts.repositories().became(dir);
    }
    Ok(Passed::Act)
}

/// `worktrees/ID/commondir`: the only content it can have is written here, and the child writes its own nowhere.
fn commondir(ask: &Ask<'_>) -> Result<Passed, GateError> {
    let Spot {
        dir,
        path,
        name,
        facts,
    } = ask.to;
    refresh(ask.set, dir, &components(path), true)?;
    let unnamed = fds::memory_file(c"commondir", b"")
        .map_err(|e| e.raw_os_error().map_or(Errno::EIO, Errno::from_raw))?;
    install(dir, name, COMMONDIR, ask.mode)?;
    facts.repositories().became(dir);
    Ok(Passed::Give(unnamed))
}

/// Checks a directory that becomes a git directory, and makes the files that git reads settings from new ones.
fn refresh(
    set: &RuleSet,
    dir: BorrowedFd<'_>,
    git_dir: &[&[u8]],
    linked: bool,
) -> Result<(), GateError> {
    let config = look::file(dir, b"config")?;
    let commondir = look::file(dir, b"commondir")?;
    let hooks = look::list(dir, "hooks")?;
    let mut names = Vec::new();
    let legacy = |name| {
        look::list(dir, name).map(|found| match found {
            Listing::Absent => false,
            Listing::Names(names) => !names.is_empty(),
            Listing::Unusual => true,
        })
    };
    let found = Skeleton {
        config: config.found(),
        config_worktree: look::exists(dir, "config.worktree")?,
        commondir: commondir.found(),
        hooks: look::hooks(&hooks, &mut names),
        attributes: look::attributes(dir)?,
        legacy_remotes: legacy("branches")? || legacy("remotes")?,
        linked,
    };
    let place = Place {
        git_dir: Some(git_dir),
        roots: &set.roots(),
        plain_worktree_settings: worktree_settings_are_plain(dir)?,
    };
    let Reinstall {
        config: new_config,
        commondir: new_commondir,
    } = skeleton::check(&place, &found)?;
    if let (true, Look::Plain(file)) = (new_config, &config) {
        install(dir, b"config", &file.bytes, file.mode | 0o600)?;
    }
    if let (true, Look::Plain(file)) = (new_commondir, &commondir) {
        install(dir, b"commondir", COMMONDIR, file.mode | 0o600)?;
    }
    Ok(())
}

/// Nothing that is not listed stands in `config.worktree` of a git directory and of the linked ones in it: a file that
/// counts only when `extensions.worktreeConfig` is on, so it may have been planted before and never been looked at.
pub(super) fn worktree_settings_are_plain(dir: BorrowedFd<'_>) -> Result<bool, Errno> {
    let plain = |dir: BorrowedFd<'_>| {
        look::file(dir, b"config.worktree").map(|found| match found {
            Look::Absent => true,
            Look::Plain(file) => compare(b"", &file.bytes).is_ok(),
            Look::Unusual => false,
        })
    };
    if !plain(dir)? {
        return Ok(false);
    }
    let names = match look::list(dir, "worktrees")? {
        Listing::Absent => return Ok(true),
        Listing::Unusual => return Ok(false),
        Listing::Names(names) => names,
    };
    let worktrees = objects::hold_dir(dir, "worktrees")?;
    for name in names {
        let linked = objects::hold(&worktrees, name.as_slice())?;
        let is = SFlag::from_bits_truncate(fstat(&linked)?.st_mode) & SFlag::S_IFMT;
        // git follows a link; it passes a file by.
        if is == SFlag::S_IFLNK || is == SFlag::S_IFDIR && !plain(linked.as_fd())? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) fn components(path: &Dir) -> Vec<&[u8]> {
    path.components().iter().map(Vec::as_slice).collect()
}
