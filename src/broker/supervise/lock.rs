//! The lock around each check and act: of this run's workers, and of all runs of the user.
//!
//! A rule is about a path, and a directory that moves changes the paths below it. Two runs that work in one tree could move a directory
//! between the other's check and its act: one makes `x/hooks/pre-commit`, the other renames `x` to `.git`. Looking again afterwards is
//! not enough, the file was there for a moment. So plain operations hold the user's lock shared and directory renames hold it alone,
//! whichever run they are of. It is one lock for all trees, because trees can lie in each other. Moves by other programs of the host
//! are trusted, and so are the runs of other users.

use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use super::epoch::Epoch;
use super::meeting::{How, Meeting, Patience, Unlocked};

/// Who has held the lock alone for so long (a large directory was looked through) lets the other runs have a turn.
const LONG: Duration = Duration::from_millis(20);
/// Longer than anybody's pause between two attempts ([`Meeting`]).
const TURN: Duration = Duration::from_millis(4);

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
    meeting: Meeting,
    /// Workers that hold it shared: a flock belongs to the open file, so the first takes it and the last lets go.
    holders: Mutex<u32>,
}

impl Lock {
    /// The lock of all runs that name this directory, and their common count of moves. The directory is made where it is missing.
    pub(super) fn of_all_runs(dir: &Path, patience: Patience) -> io::Result<(Self, Epoch)> {
        let (meeting, moves) = Meeting::open(dir, patience)?;
        let runs = Some(Runs {
            meeting,
            holders: Mutex::default(),
        });
        let own = RwLock::default();
        Ok((Self { own, runs }, Epoch::Shared(moves)))
    }

    pub(super) fn shared(&self) -> Result<Shared<'_>, Unlocked> {
        let own = self.own.read().unwrap_or_else(PoisonError::into_inner);
        let runs = self.runs.as_ref();
        if let Some(runs) = runs {
            let mut holders = runs.holders();
            if *holders == 0 {
                runs.meeting.take(How::Shared)?;
            }
            *holders += 1;
        }
        Ok(Shared { runs, _own: own })
    }

    pub(super) fn alone(&self) -> Result<Alone<'_>, Unlocked> {
        let own = self.own.write().unwrap_or_else(PoisonError::into_inner);
        let runs = self.runs.as_ref();
        if let Some(runs) = runs {
            runs.meeting.take(How::Alone)?;
        }
        Ok(Alone {
            runs,
            since: Instant::now(),
            _own: own,
        })
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

/// Held shared.
#[derive(Debug)]
pub(super) struct Shared<'l> {
    runs: Option<&'l Runs>,
    _own: RwLockReadGuard<'l, ()>,
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        if let Some(runs) = self.runs {
            let mut holders = runs.holders();
            *holders -= 1;
            if *holders == 0 {
                runs.meeting.release();
            }
        }
    }
}

/// Held by nobody else.
#[derive(Debug)]
pub(super) struct Alone<'l> {
    runs: Option<&'l Runs>,
    since: Instant,
    _own: RwLockWriteGuard<'l, ()>,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        if let Some(runs) = self.runs {
            runs.meeting.release();
            if self.since.elapsed() >= LONG {
                // Others ask every now and then, and this run would have taken it again long before. Its own workers wait as well.
                std::thread::sleep(TURN);
            }
        }
    }
}

/// No worker of this run is in the lock.
#[derive(Debug)]
pub struct Quiet<'l> {
    _own: RwLockWriteGuard<'l, ()>,
}

impl Runs {
    fn holders(&self) -> MutexGuard<'_, u32> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
