//! What one worker keeps from call to call, so as not to look it up again. Every item says what makes it true still.
//!
//! | kept | true as long as |
//! |---|---|
//! | `/proc/TID/mem` | no program was executed since it was opened, and it can be read: an address space that is gone reads as nothing. It holds the caller's own words, so a wrong one could only confuse the caller |
//! | working directory, umask | the stamp of the process is the same ([`super::processes`]) |
//! | the path of a directory, by mount, inode and birth | no directory was moved or removed through the broker since (an epoch that is changed under the exclusive lock and compared under the lock); for those the host moves, a tenth of a second |
//! | the rules that are near a path | always: it follows from the path alone |
//!
//! Everything about threads is dropped after a fifth of a second, long before thread numbers come round.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::judge::Place;
use super::processes::Stamp;
use crate::sys::at::{Identity, Look};

/// Threads whose things are kept: each has up to three descriptors.
const THREADS: usize = 32;
const PLACES: usize = 1024;
/// How long things of a thread are kept.
const THREAD_LIFE: Duration = Duration::from_millis(200);
/// How long a path is kept that the host may change.
const PATH_LIFE: Duration = Duration::from_millis(100);

/// A descriptor that several hold.
pub(super) type Fd = Arc<OwnedFd>;

/// What is kept of a thread.
#[derive(Debug)]
pub(super) struct Thread {
    tid: i32,
    since: Instant,
    programs: u64,
    pub(super) memory: File,
    /// Of its process, if the thread is the first one.
    pub(super) process: Option<OwnedFd>,
    pub(super) tgid: Option<i32>,
    pub(super) cwd: Option<(Stamp, Fd, Look)>,
    pub(super) umask: Option<(Stamp, u32)>,
}

impl Thread {
    pub(super) fn new(tid: i32, memory: File, now: Instant, programs: u64) -> Self {
        Self {
            tid,
            since: now,
            programs,
            memory,
            process: None,
            tgid: None,
            cwd: None,
            umask: None,
        }
    }
}

/// A directory's path as it was found.
#[derive(Debug)]
struct Seen {
    /// How often a directory had been moved by then.
    moves: u64,
    at: Instant,
    place: Arc<Place>,
}

type Paths = HashMap<Vec<u8>, Arc<Place>>;

/// The memory of one worker.
#[derive(Debug, Default)]
pub(super) struct Memory {
    threads: RefCell<HashMap<i32, Thread>>,
    seen: RefCell<HashMap<Identity, Seen>>,
    /// By area.
    places: RefCell<HashMap<usize, Paths>>,
    /// The umask of the worker itself.
    umask: Cell<Option<u32>>,
}

impl Memory {
    /// Does something with what is kept of a thread, if anything still counts.
    pub(super) fn thread<T>(
        &self,
        tid: i32,
        now: Instant,
        programs: u64,
        then: impl FnOnce(&mut Thread) -> T,
    ) -> Option<T> {
        let mut threads = self.threads.borrow_mut();
        let thread = threads.get_mut(&tid)?;
        let fresh = now.saturating_duration_since(thread.since) < THREAD_LIFE;
        if fresh && thread.programs == programs && thread.tid == tid {
            return Some(then(thread));
        }
        threads.remove(&tid);
        None
    }

    pub(super) fn keep_thread(&self, thread: Thread) {
        let mut threads = self.threads.borrow_mut();
        if threads.len() >= THREADS {
            let now = thread.since;
            threads.retain(|_, kept| now.saturating_duration_since(kept.since) < THREAD_LIFE);
        }
        if threads.len() >= THREADS {
            threads.clear();
        }
        threads.insert(thread.tid, thread);
    }

    pub(super) fn drop_thread(&self, tid: i32) {
        self.threads.borrow_mut().remove(&tid);
    }

    /// Where this directory is, if it was seen since the last move.
    pub(super) fn seen(&self, dir: &Look, moves: u64, now: Instant) -> Option<Arc<Place>> {
        let seen = self.seen.borrow();
        let seen = seen.get(&dir.identity()?)?;
        let fresh = now.saturating_duration_since(seen.at) < PATH_LIFE;
        (fresh && seen.moves == moves).then(|| Arc::clone(&seen.place))
    }

    pub(super) fn saw(&self, dir: &Look, moves: u64, now: Instant, place: &Arc<Place>) {
        let Some(identity) = dir.identity() else {
            return;
        };
        let mut all = self.seen.borrow_mut();
        if all.len() >= PLACES {
            all.clear();
        }
        let seen = Seen {
            moves,
            at: now,
            place: Arc::clone(place),
        };
        all.insert(identity, seen);
    }

    /// The place with this path, or a new one.
    pub(super) fn place<E>(
        &self,
        area: usize,
        path: &[u8],
        make: impl FnOnce() -> Result<Place, E>,
    ) -> Result<Arc<Place>, E> {
        let mut places = self.places.borrow_mut();
        let places = places.entry(area).or_default();
        if let Some(place) = places.get(path) {
            return Ok(Arc::clone(place));
        }
        let place = Arc::new(make()?);
        if places.len() >= PLACES {
            places.clear();
        }
        places.insert(path.to_vec(), Arc::clone(&place));
        Ok(place)
    }

    /// Gives the worker this umask.
    pub(super) fn set_umask(&self, mask: u32) {
        if self.umask.replace(Some(mask)) != Some(mask) {
            crate::sys::task::set_umask(mask);
        }
    }
}
