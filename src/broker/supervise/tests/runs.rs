//! Several runs in one tree: the lock and the count of moves that they share.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::harness::{Setup, rounds, scratch, short};
use crate::broker::supervise::lock::Lock;

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
    let (other, _) = Lock::of_all_runs(&runs).unwrap();
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
    let (other, moves) = Lock::of_all_runs(&runs).unwrap();
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
    drop(Lock::of_all_runs(&runs).unwrap());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&runs), 0o700);
    assert_eq!(mode(&runs.join("lock")), 0o200);
    assert_eq!(mode(&runs.join("moves")), 0o600);
    // Whoever is led elsewhere would wait for nobody.
    fs::remove_file(runs.join("lock")).unwrap();
    fs::write(top.join("mine"), "").unwrap();
    symlink(top.join("mine"), runs.join("lock")).unwrap();
    assert!(Lock::of_all_runs(&runs).is_err());
}
