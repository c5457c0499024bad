//! Where the runs of one user meet: a directory that only they can write, with a lock and a number in it.
//!
//! The lock is flock(2) on a file that its owner may only write (mode 0200) in a place that no command can write: no command can open it,
//! so none can hold up the others. The kernel lets go when ccbox dies.
//!
//! A ccbox that somebody stops while it holds the lock does not let go. Nobody waits for it for ever: the call is refused after a while, and
//! nothing is decided without the lock (docs/adr/0007).

use crate::sys::libc;
use std::fs::{self, DirBuilder, File, FileTimes, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use nix::unistd::geteuid;

use crate::sys::at;
use crate::sys::counter::SharedCounter;

const LOCK: &str = "lock";
const MOVES: &str = "moves";
/// What other users may do with a file or directory.
const OTHERS: u32 = 0o077;

/// So often a lock that is taken is asked for again before anybody sleeps: most hold it for microseconds.
const AT_ONCE: u32 = 16;
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(2);

/// How long somebody waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// For a process that is stopped.
    stopped: Duration,
    /// For one that works. A large directory on a cold disk takes its time.
    working: Duration,
    /// Once it has been in vain, until the lock is free again.
    tired: Duration,
}

impl Patience {
    /// In a run.
    pub(super) const USUAL: Self = Self {
        stopped: Duration::from_secs(5),
        working: Duration::from_mins(5),
        tired: Duration::from_millis(200),
    };
}

crate::sys::linux_tests! {
    impl Patience {
        pub(super) const fn short(stopped: Duration, working: Duration) -> Self {
            Self {
                stopped,
                working,
                tired: Duration::from_millis(20),
            }
        }
    }
}

/// How the lock is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Shared,
    Alone,
}

/// The lock could not be taken, so nothing is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unlocked {
    /// The kernel says no.
    Refused,
    /// Somebody holds it for too long.
    Held {
        /// Who, where that can be told.
        by: Option<Holder>,
        /// It has not been so before.
        news: bool,
    },
}

/// Another run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Its process here.
    pub pid: i32,
    /// It has been stopped, by a signal or a debugger.
    pub stopped: bool,
}

/// The directory.
#[derive(Debug)]
pub(super) struct Meeting {
    lock: File,
    /// Held locked: programs that remove old files pass by what is (tmpfiles.d(5)).
    _dir: File,
    patience: Patience,
    tired: AtomicBool,
}

impl Meeting {
    /// Opens or makes it.
    pub(super) fn open(dir: &Path, patience: Patience) -> io::Result<(Self, SharedCounter)> {
        let mut making = DirBuilder::new();
        making.mode(0o700);
        match making.create(dir).map_err(|error| error.kind()) {
            Ok(()) | Err(io::ErrorKind::AlreadyExists) => {}
            // Perhaps nothing is there yet of ccbox's state.
            Err(_) => making.recursive(true).create(dir)?,
        }
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let held = File::options().read(true).custom_flags(flags).open(dir)?;
        if !is_own(&held)? {
            return Err(io::Error::other("it is not the caller's alone"));
        }
        // Somebody who removes it would have to be let; whether it is locked makes no difference to anybody else.
        let _ = held.try_lock_shared();
        let own = at::own_name(held.as_fd());
        let dir = Path::new(own.to_str().map_err(io::Error::other)?);
        let lock = own_file(dir, LOCK, OpenOptions::new().write(true), 0o200)?;
        let moves = own_file(dir, MOVES, OpenOptions::new().read(true).write(true), 0o600)?;
        // Who removes old files goes by the latest of their times; who looks for what a run has changed, by that of the change.
        for file in [&held, &lock, &moves] {
            file.set_times(FileTimes::new().set_accessed(SystemTime::now()))?;
        }
        let meeting = Self {
            lock,
            _dir: held,
            patience,
            tired: AtomicBool::new(false),
        };
        let moves = if SharedCounter::has_room(&moves)? {
            SharedCounter::map(&moves)?
        } else {
            let held = |_| io::Error::other("another run holds it and does not go on");
            meeting.take(How::Alone).map_err(held)?;
            let moves = SharedCounter::map(&moves)?;
            meeting.release();
            moves
        };
        Ok((meeting, moves))
    }

    pub(super) fn take(&self, how: How) -> Result<(), Unlocked> {
        if !self.attempt(how)? {
            self.wait(how)?;
        }
        if self.tired.load(Ordering::Relaxed) {
            self.tired.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    pub(super) fn release(&self) {
        // Unlocking an open file cannot fail (flock(2)); if it did, the end of the process would do it.
        let _ = self.lock.unlock();
    }

    fn attempt(&self, how: How) -> Result<bool, Unlocked> {
        let tried = match how {
            How::Shared => self.lock.try_lock_shared(),
            How::Alone => self.lock.try_lock(),
        };
        match tried {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {
                Ok(false)
            }
            Err(TryLockError::Error(_)) => Err(Unlocked::Refused),
        }
    }

    /// By asking again and again: flock(2) has no limit of time, and who waits in it cannot be called back.
    fn wait(&self, how: How) -> Result<(), Unlocked> {
        let since = Instant::now();
        let mut pause = SHORTEST;
        for _ in 0..AT_ONCE {
            thread::yield_now();
            if self.attempt(how)? {
                return Ok(());
            }
        }
        let look_every = self.patience.stopped / 4;
        let mut looked = since;
        // Since when somebody who holds it has been found stopped at each look.
        let mut stopped_since = None;
        let mut by = None;
        loop {
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST);
            if self.attempt(how)? {
                return Ok(());
            }
            let now = Instant::now();
            if now - looked >= look_every {
                looked = now;
                by = holder(&self.lock);
                stopped_since = by
                    .filter(|holder| holder.stopped)
                    .map(|_| stopped_since.unwrap_or(now));
            }
            let stopped = stopped_since.is_some_and(|at| now - at >= self.patience.stopped);
            let tired = self.tired.load(Ordering::Relaxed);
            if stopped
                || now - since >= self.patience.working
                || tired && now - since >= self.patience.tired
            {
                let news = !self.tired.swap(true, Ordering::Relaxed);
                return Err(Unlocked::Held { by, news });
            }
        }
    }
}

/// Of the user's, and nobody else may do anything with it.
fn is_own(file: &File) -> io::Result<bool> {
    let meta = file.metadata()?;
    Ok(meta.uid() == geteuid().as_raw() && meta.mode() & OTHERS == 0)
}

/// A file of the user's, in a directory that only they can write.
fn own_file(dir: &Path, name: &str, how: &mut OpenOptions, mode: u32) -> io::Result<File> {
    let file = how
        .create(true)
        .truncate(false)
        .mode(mode)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(dir.join(name))?;
    if file.metadata()?.is_file() && is_own(&file)? {
        Ok(file)
    } else {
        Err(io::Error::other("not a file of the caller's"))
    }
}

/// Who holds the lock of this file, first of all somebody who is stopped. Not all file systems and namespaces let it be told.
fn holder(file: &File) -> Option<Holder> {
    let meta = file.metadata().ok()?;
    let table = fs::read_to_string("/proc/locks").ok()?;
    let own = i32::try_from(std::process::id()).ok()?;
    let others = holders(&table, meta.dev(), meta.ino())
        .filter(|&pid| pid != own)
        .map(|pid| Holder {
            pid,
            stopped: is_stopped(pid),
        });
    others.max_by_key(|holder| holder.stopped)
}

/// Who holds locks of flock(2) on an inode, after proc_locks(5); lines with an arrow are those who wait.
fn holders(table: &str, device: u64, inode: u64) -> impl Iterator<Item = i32> {
    let wanted = format!(
        "{:02x}:{:02x}:{inode}",
        libc::major(device),
        libc::minor(device)
    );
    table.lines().filter_map(move |line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let is_flock = words.next()? == "FLOCK";
        let pid = words.nth(2)?;
        let at = words.next()?;
        (is_flock && at == wanted)
            .then(|| pid.parse().ok())
            .flatten()
    })
}

/// `T` or `t` of proc_pid_stat(5).
fn is_stopped(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        // The name in parentheses may hold anything.
        let end = stat.iter().rposition(|&b| b == b')');
        let state = end.and_then(|end| stat.get(end + 2));
        matches!(state, Some(b'T' | b't'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_a_lock_is_found_in_the_table() {
        let table = "1: POSIX  ADVISORY  WRITE 40 00:1a:77 0 EOF\n\
                     2: FLOCK  ADVISORY  READ 41 00:1a:77 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 42 00:1a:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 43 00:1a:78 0 EOF\n\
                     4: FLOCK  ADVISORY  READ 44 103:02:77 0 EOF\n5:\n";
        let all = |device, inode| holders(table, device, inode).collect::<Vec<_>>();
        assert_eq!(all(libc::makedev(0, 0x1a), 77), [41]);
        assert_eq!(all(libc::makedev(0x103, 2), 77), [44]);
        assert_eq!(all(libc::makedev(0, 0x1a), 7), [] as [i32; 0]);
    }

    #[test]
    fn this_process_is_found_and_goes_on() {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        file.lock().unwrap();
        let meta = file.metadata().unwrap();
        let table = fs::read_to_string("/proc/locks").unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let found: Vec<i32> = holders(&table, meta.dev(), meta.ino()).collect();
        assert_eq!(found, [own]);
        assert!(!is_stopped(own));
        // Oneself is nobody to wait for.
        assert_eq!(holder(&file), None);
    }
}
