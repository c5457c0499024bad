//! Several runs in one tree: the lock and the count of moves that they share.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::harness::{Setup, rounds, scratch, short};
use crate::broker::supervise::lock::Lock;
use crate::broker::supervise::meeting::{Holder, How, Meeting, Patience, Unlocked};

/// A tree `w` with a rule of two components, and beside it the directory of the lock.
fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let (keep, top) = scratch();
    fs::create_dir_all(top.join("w/a")).unwrap();
    let runs = top.join("state/runs");
    (keep, top, runs)
}

fn setup(top: &Path) -> Setup {
    Setup::new(&top.join("w")).pattern("shut/deep/*")
}

/// A call that does not wait for the lock is back before this, mostly; if not, a test passes that should not have.
const MOMENT: Duration = Duration::from_millis(200);
/// A call that does not have to wait is back before this, whatever else the machine does.
const FOR_EVER: Duration = Duration::from_mins(2);

/// Whether `act` comes back while another run holds the lock, for so long.
fn comes_back(alone: bool, patience: Duration, act: fn()) -> bool {
    let (_keep, top, runs) = place();
    let (other, _) = Lock::of_all_runs(&runs, Patience::USUAL).unwrap();
    let (ready, go) = channel();
    let (back, done) = channel();
    let other = std::thread::spawn(move || {
        let shared = (!alone).then(|| other.shared().unwrap());
        let alone = alone.then(|| other.alone().unwrap());
        ready.send(()).unwrap();
        let early = done.recv_timeout(patience).is_ok();
        drop((shared, alone));
        early
    });
    let ((), denials) = setup(&top).lock_dir(&runs).run(move || {
        go.recv().unwrap();
        act();
        // Nobody listens any more where it took too long.
        let _ = back.send(());
    });
    assert_eq!(short(&denials), []);
    other.join().unwrap()
}

#[test]
fn nothing_is_done_while_another_run_moves_a_directory() {
    assert!(!comes_back(true, MOMENT, || fs::write("f", "").unwrap()));
    assert!(!comes_back(true, MOMENT, || fs::create_dir("d").unwrap()));
    assert!(!comes_back(true, MOMENT, || fs::remove_dir("a").unwrap()));
}

#[test]
fn no_directory_moves_while_another_run_acts() {
    assert!(!comes_back(false, MOMENT, || fs::rename("a", "b").unwrap()));
    // The others go on.
    assert!(comes_back(false, FOR_EVER, || fs::write("a/f", "").unwrap()));
}

#[test]
fn what_another_run_moved_is_where_it_is_now() {
    let (_keep, top, runs) = place();
    fs::create_dir_all(top.join("w/a/deep")).unwrap();
    let (other, moves) = Lock::of_all_runs(&runs, Patience::USUAL).unwrap();
    let (seen, go) = channel();
    let (gone, then) = channel();
    let (from, to) = (top.join("w/a"), top.join("w/shut"));
    let other = std::thread::spawn(move || {
        go.recv().unwrap();
        let alone = other.alone().unwrap();
        fs::rename(from, to).unwrap();
        moves.bump();
        drop(alone);
        gone.send(()).unwrap();
    });
    let ((), denials) = setup(&top).lock_dir(&runs).run(move || {
        std::env::set_current_dir("a/deep").unwrap();
        // Its path is known from here on.
        fs::write("one", "").unwrap();
        fs::write("two", "").unwrap();
        seen.send(()).unwrap();
        then.recv().unwrap();
        assert!(fs::write("three", "").is_err());
    });
    other.join().unwrap();
    assert_eq!(denials.len(), 1, "{denials:?}");
    assert_eq!(denials[0].path, top.join("w/shut/deep/three"));
    assert!(!top.join("w/shut/deep/three").exists());
}

/// Two runs: one makes `x/deep/f`, the other moves `x` to `shut` and back, each at least as often as `rounds` says. True if somebody saw
/// `shut/deep/f`.
fn seen(top: &Path, with: &Setup, rounds: usize, limit: Duration) -> bool {
    fs::create_dir_all(top.join("w/x/deep")).unwrap();
    let done = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let over = Arc::new(AtomicBool::new(false));
    let run = |number: usize, act: fn() -> bool| {
        let (setup, done, over) = (with.clone(), Arc::clone(&done), Arc::clone(&over));
        std::thread::spawn(move || {
            setup.run(move || {
                while !over.load(Ordering::Relaxed) {
                    done[number].fetch_add(usize::from(act()), Ordering::Relaxed);
                }
            })
        })
    };
    let maker = run(0, || {
        let made = fs::write("x/deep/f", "evil").is_ok();
        let _ = fs::remove_file("x/deep/f");
        made
    });
    let mover = run(1, || {
        let moved = fs::rename("x", "shut").is_ok();
        let _ = fs::rename("shut", "x");
        moved
    });
    let forbidden = top.join("w/shut/deep/f");
    let started = Instant::now();
    let count = |number: usize| done[number].load(Ordering::Relaxed);
    let mut seen = false;
    while !seen && (count(0) < rounds || count(1) < rounds) && started.elapsed() < limit {
        seen = File::open(&forbidden).is_ok();
    }
    over.store(true, Ordering::Relaxed);
    maker.join().unwrap();
    mover.join().unwrap();
    let (made, gone) = (count(0), count(1));
    assert!(seen || made > 0 && gone > 0, "{made} made, {gone} moved");
    seen
}

#[test]
fn two_runs_cannot_move_a_directory_below_each_others_feet() {
    for workers in [1, 2, 4] {
        let (_keep, top, runs) = place();
        let with = setup(&top).lock_dir(&runs).crowd(workers);
        let limit = Duration::from_secs(if rounds() > 1000 { 600 } else { 20 });
        assert!(!seen(&top, &with, rounds(), limit), "{workers} workers");
    }
}

/// The same without the common lock: the race is one.
#[test]
fn without_the_common_lock_two_runs_can() {
    let (_keep, top, _) = place();
    let with = setup(&top).crowd(2);
    assert!(seen(&top, &with, usize::MAX, Duration::from_mins(1)));
}

#[test]
fn the_lock_is_the_callers_and_can_only_be_written() {
    let (_keep, top, runs) = place();
    drop(Lock::of_all_runs(&runs, Patience::USUAL).unwrap());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&runs), 0o700);
    assert_eq!(mode(&runs.join("lock")), 0o200);
    assert_eq!(mode(&runs.join("moves")), 0o600);
    // Whoever is led elsewhere would wait for nobody.
    fs::remove_file(runs.join("lock")).unwrap();
    fs::write(top.join("mine"), "").unwrap();
    symlink(top.join("mine"), runs.join("lock")).unwrap();
    assert!(Lock::of_all_runs(&runs, Patience::USUAL).is_err());
}

/// Somebody else may have been there first.
#[test]
fn a_directory_that_is_not_the_callers_alone_is_none() {
    let (_keep, top, runs) = place();
    let open = |dir: &Path| Lock::of_all_runs(dir, Patience::USUAL);
    drop(open(&runs).unwrap());
    for (name, mode) in [("runs", 0o770), ("runs", 0o705), ("runs/moves", 0o602)] {
        let path = top.join("state").join(name);
        let before = fs::metadata(&path).unwrap().permissions();
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        assert!(open(&runs).is_err(), "{name} {mode:o}");
        fs::set_permissions(&path, before).unwrap();
    }
    symlink(&runs, top.join("link")).unwrap();
    assert!(open(&top.join("link")).is_err());
    fs::write(top.join("file"), "").unwrap();
    assert!(open(&top.join("file")).is_err());
    drop(open(&runs).unwrap());
}

/// A process that holds the lock, and stops then where it is told to.
struct Other(Child);

impl Other {
    fn new(runs: &Path, stops: bool) -> Self {
        let script = "
import fcntl, os, signal, sys
f = open(sys.argv[1], 'wb')
fcntl.flock(f, fcntl.LOCK_EX)
os.write(1, b'x')
if sys.argv[2] == 'true': os.kill(os.getpid(), signal.SIGSTOP)
signal.pause()
";
        let mut child = Command::new("/usr/bin/python3")
            .args(["-c", script])
            .arg(runs.join("lock"))
            .arg(stops.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut said)
            .unwrap();
        Self(child)
    }

    fn pid(&self) -> i32 {
        self.0.id().try_into().unwrap()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

const SOON: Duration = Duration::from_millis(200);

/// A run that moves large directories all the time leaves the others their turn.
#[test]
fn a_busy_run_lets_others_in() {
    let (_keep, _, runs) = place();
    let lock = || Lock::of_all_runs(&runs, Patience::USUAL).unwrap().0;
    let (busy, other) = (lock(), lock());
    let (over, inside) = (AtomicBool::new(false), AtomicBool::new(false));
    let held = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                let alone = busy.alone().unwrap();
                inside.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(30));
                held.fetch_add(1, Ordering::SeqCst);
                inside.store(false, Ordering::SeqCst);
                drop(alone);
            }
        });
        for _ in 0..10 {
            while !inside.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            drop(other.shared().unwrap());
        }
        over.store(true, Ordering::SeqCst);
    });
    // One for each, and some more where the machine is busy.
    let held = held.load(Ordering::SeqCst);
    assert!((10..100).contains(&held), "{held}");
}

#[test]
fn nobody_waits_for_ever_for_a_stopped_run() {
    let (_keep, _, runs) = place();
    let patience = Patience::short(SOON, FOR_EVER);
    let (meeting, _) = Meeting::open(&runs, patience).unwrap();
    let other = Other::new(&runs, true);
    let by = Some(Holder {
        pid: other.pid(),
        stopped: true,
    });
    let held = |news| Err(Unlocked::Held { by, news });
    let since = Instant::now();
    assert_eq!(meeting.take(How::Shared), held(true));
    assert!(since.elapsed() >= SOON);
    // Known by now, so that a build fails and does not crawl.
    let since = Instant::now();
    let again = meeting.take(How::Alone);
    assert!(
        matches!(again, Err(Unlocked::Held { news: false, .. })),
        "{again:?}"
    );
    assert!(since.elapsed() < SOON);
    drop(other);
    assert_eq!(meeting.take(How::Alone), Ok(()));
    meeting.release();
    let other = Other::new(&runs, true);
    let told_again = meeting.take(How::Shared);
    assert_eq!(
        told_again,
        Err(Unlocked::Held {
            by: Some(Holder {
                pid: other.pid(),
                stopped: true
            }),
            news: true
        })
    );
}

#[test]
fn one_that_works_is_given_more_time() {
    let (_keep, _, runs) = place();
    let (meeting, _) = Meeting::open(&runs, Patience::short(SOON / 10, SOON * 2)).unwrap();
    let other = Other::new(&runs, false);
    let by = Some(Holder {
        pid: other.pid(),
        stopped: false,
    });
    let since = Instant::now();
    assert_eq!(
        meeting.take(How::Alone),
        Err(Unlocked::Held { by, news: true })
    );
    assert!(since.elapsed() >= SOON * 2);
}
