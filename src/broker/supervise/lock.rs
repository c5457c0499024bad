//! The lock around each check and act: of this run's workers, and of all runs of the user.
//!
//! A rule is about a path, and a directory that moves changes the paths below it. Two runs that work in one tree could move a directory
//! between the other's check and its act: one makes `x/hooks/pre-commit`, the other renames `x` to `.git`. Looking again afterwards is
//! not enough, the file was there for a moment. So plain operations hold the user's lock shared and directory renames hold it alone,
//! whichever run they are of. It is one lock for all trees, because trees can lie in each other. Moves by other programs of the host
//! are trusted, and so are the runs of other users.
//!
//! The lock is flock(2) on a file that its owner may only write (mode 0200) on a mount that is read-only inside: no command can open
//! it, so none can hold up the others. The kernel lets go when ccbox dies.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::geteuid;

use super::epoch::Epoch;
use crate::sys::counter::SharedCounter;

const LOCK: &str = "lock";
const MOVES: &str = "moves";

/// Shared by operations on entries, taken alone by those that move directories or depend on more than one entry.
///
/// It guards no memory, so a worker that panicked has left nothing half done in here (and has ended the run).
#[derive(Debug, Default)]
pub(super) struct Lock {
    own: RwLock<()>,
    runs: Option<Runs>,
}

/// What all runs of the user share.
#[derive(Debug)]
struct Runs {
    file: File,
    /// Workers that hold it shared: a flock belongs to the open file, so the first takes it and the last lets go.
    holders: Mutex<u32>,
}

impl Lock {
    /// The lock of all runs that name this directory, and their common count of moves. The directory is made where it is missing.
    pub(super) fn of_all_runs(dir: &Path) -> io::Result<(Self, Epoch)> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let meta = fs::symlink_metadata(dir)?;
        if !meta.is_dir() || meta.uid() != geteuid().as_raw() {
            return Err(io::Error::other("not a directory of the caller's"));
        }
        let lock = own_file(dir, LOCK, OpenOptions::new().write(true), 0o200)?;
        let moves = own_file(dir, MOVES, OpenOptions::new().read(true).write(true), 0o600)?;
        let moves = if SharedCounter::has_room(&moves)? {
            SharedCounter::map(&moves)?
        } else {
            lock.lock()?;
            let moves = SharedCounter::map(&moves)?;
            lock.unlock()?;
            moves
        };
        let moves = Epoch::Shared(moves);
        let runs = Some(Runs {
            file: lock,
            holders: Mutex::default(),
        });
        let own = RwLock::default();
        Ok((Self { own, runs }, moves))
    }

    pub(super) fn shared(&self) -> Result<Shared<'_>, Errno> {
        let own = self.own.read().unwrap_or_else(PoisonError::into_inner);
        let runs = self.runs.as_ref();
        if let Some(runs) = runs {
            let mut holders = runs.holders.lock().unwrap_or_else(PoisonError::into_inner);
            if *holders == 0 {
                patiently(|| runs.file.lock_shared())?;
            }
            *holders += 1;
        }
        Ok(Shared { runs, _own: own })
    }

    pub(super) fn alone(&self) -> Result<Alone<'_>, Errno> {
        let own = self.own.write().unwrap_or_else(PoisonError::into_inner);
        self.run_alone(own)
    }

    fn run_alone<'l>(&'l self, own: RwLockWriteGuard<'l, ()>) -> Result<Alone<'l>, Errno> {
        let runs = self.runs.as_ref();
        if let Some(runs) = runs {
            patiently(|| runs.file.lock())?;
        }
        Ok(Alone { runs, _own: own })
    }

    /// Keeps this run's workers out of the lock, so that a process about to be stopped does not stop holding it; `None` where one is in
    /// there for longer than `patience`.
    pub(super) fn quiet(&self, patience: Duration) -> Option<Quiet<'_>> {
        let since = Instant::now();
        loop {
            if let Ok(own) = self.own.try_write() {
                return Some(Quiet { _own: own });
            }
            if since.elapsed() >= patience {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A file of the user's, in a directory that only they can write.
fn own_file(dir: &Path, name: &str, how: &mut OpenOptions, mode: u32) -> io::Result<File> {
    let file = how
        .create(true)
        .truncate(false)
        .mode(mode)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(dir.join(name))?;
    let meta = file.metadata()?;
    if meta.is_file() && meta.uid() == geteuid().as_raw() {
        Ok(file)
    } else {
        Err(io::Error::other("not a file of the caller's"))
    }
}

/// flock(2), whatever signals arrive.
fn patiently(take: impl Fn() -> io::Result<()>) -> Result<(), Errno> {
    loop {
        match take() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Nothing is decided without the lock.
            Err(_) => return Err(Errno::EACCES),
            Ok(()) => return Ok(()),
        }
    }
}

/// Held shared.
#[derive(Debug)]
pub(super) struct Shared<'l> {
    runs: Option<&'l Runs>,
    _own: RwLockReadGuard<'l, ()>,
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        if let Some(runs) = self.runs {
            let mut holders = runs.holders.lock().unwrap_or_else(PoisonError::into_inner);
            *holders -= 1;
            if *holders == 0 {
                runs.release();
            }
        }
    }
}

/// Held by nobody else.
#[derive(Debug)]
pub(super) struct Alone<'l> {
    runs: Option<&'l Runs>,
    _own: RwLockWriteGuard<'l, ()>,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        if let Some(runs) = self.runs {
            runs.release();
        }
    }
}

/// No worker of this run is in the lock.
#[derive(Debug)]
pub struct Quiet<'l> {
    _own: RwLockWriteGuard<'l, ()>,
}

impl Runs {
    fn release(&self) {
        // Unlocking an open file cannot fail (flock(2)); if it did, the end of the process would do it.
        let _ = self.file.unlock();
    }
}
