//! Two threads against the time between a look and an act. One calls, the other changes what the call is about; with 1, 2 and 4 workers
//! that all receive. Without the broker each race is won within a few rounds, so the rounds mean something.
//!
//! The gate plays few rounds; `tests/soak/run` says how many more in the environment.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::uio::{RemoteIoVec, process_vm_writev};
use nix::unistd::Pid;

use super::harness::{Setup, rounds, scratch};
use crate::sys::direct;

const CWD: i32 = libc::AT_FDCWD;
/// A hundred rounds take less than this on a busy machine.
const PATIENCE: Duration = Duration::from_secs(7);

fn c(path: &str) -> CString {
    CString::new(path).unwrap()
}

/// Memory that one thread reads as a string while another writes it.
struct Buffer(Vec<AtomicU8>);

impl Buffer {
    fn new(text: &str) -> Self {
        Self(text.bytes().chain([0]).map(AtomicU8::new).collect())
    }

    fn set(&self, text: &str) {
        for (to, from) in self.0.iter().zip(text.bytes().chain([0])) {
            to.store(from, Ordering::Relaxed);
        }
    }

    /// The same through the kernel, as another process does it.
    fn set_from_elsewhere(&self, text: &str) {
        let text = CString::new(text).unwrap();
        let local = [IoSlice::new(text.to_bytes_with_nul())];
        let remote = [RemoteIoVec {
            base: self.0.as_ptr().addr(),
            len: text.to_bytes_with_nul().len(),
        }];
        process_vm_writev(Pid::this(), &local, &remote).unwrap();
    }

    /// The string as the system call takes it.
    fn text(&self) -> &std::ffi::CStr {
        direct::racing_text(&self.0)
    }
}

/// What both threads of a race share.
struct Race {
    path: Buffer,
    how: [AtomicU64; 3],
    /// A descriptor whose directory changes, and its number.
    slot: Mutex<Option<OwnedFd>>,
    number: AtomicI32,
    over: AtomicBool,
    top: PathBuf,
}

impl Race {
    /// Puts a directory behind the descriptor.
    fn point_at(&self, dir: &str) {
        let dir = OwnedFd::from(File::open(dir).unwrap());
        let mut slot = self.slot.lock().unwrap();
        if let Some(slot) = slot.as_mut() {
            nix::unistd::dup2(&dir, slot).unwrap();
        } else {
            self.number.store(dir.as_raw_fd(), Ordering::Relaxed);
            *slot = Some(dir);
        }
    }
}

fn exchange(a: &str, b: &str) {
    let _ = direct::rename((CWD, &c(a)), (CWD, &c(b)), libc::RENAME_EXCHANGE);
}

/// One race: what is prepared, what the caller does each round, what the other thread does all the time.
struct Kind {
    name: &'static str,
    prepare: fn(&Path),
    call: fn(&Race),
    change: fn(&Race),
    /// What must never be seen; asked after each round.
    won: fn(&Path) -> bool,
}

const CREATE: i32 = libc::O_WRONLY | libc::O_CREAT;

const KINDS: &[Kind] = &[
    Kind {
        name: "path in memory",
        prepare: |_| {},
        call: |race| {
            let _ = direct::open_at(CWD, race.path.text(), CREATE, 0o644);
        },
        change: |race| {
            race.path.set("a.tmp");
            race.path.set("x.pem");
        },
        won: |top| top.join("w/x.pem").exists(),
    },
    Kind {
        name: "path in memory, to where the kernel goes on",
        prepare: |_| {},
        call: |race| {
            let _ = direct::open_at(CWD, race.path.text(), CREATE, 0o644);
        },
        change: |race| {
            race.path.set("../free/a");
            race.path.set("./././x.pem");
        },
        won: |top| top.join("w/x.pem").exists(),
    },
    Kind {
        name: "mode of a path in memory",
        prepare: |_| {},
        call: |race| {
            let _ = direct::change_mode(CWD, race.path.text(), 0o600, 0);
        },
        change: |race| {
            race.path.set("okay");
            race.path.set(".env");
        },
        won: |top| {
            use std::os::unix::fs::PermissionsExt;
            fs::metadata(top.join("w/.env"))
                .unwrap()
                .permissions()
                .mode()
                & 0o777
                != 0o644
        },
    },
    Kind {
        name: "flags of openat2 in memory",
        prepare: |_| {},
        call: |race| {
            let _ = direct::open_racing(CWD, &c(".env"), &race.how);
        },
        change: |race| {
            race.how[0].store(0, Ordering::Relaxed);
            race.how[0].store(u64::from(libc::O_TRUNC.cast_unsigned()), Ordering::Relaxed);
        },
        won: |top| fs::read(top.join("w/.env")).unwrap() != b"secret",
    },
    Kind {
        name: "link swapped",
        prepare: |top| symlink("okay", top.join("w/l")).unwrap(),
        call: |_| {
            let _ = direct::open_at(CWD, &c("l"), libc::O_WRONLY | libc::O_TRUNC, 0);
        },
        change: |_| {
            let _ = symlink(".env", "l2");
            let _ = fs::rename("l2", "l");
            let _ = symlink("okay", "l2");
            let _ = fs::rename("l2", "l");
        },
        won: |top| fs::read(top.join("w/.env")).unwrap() != b"secret",
    },
    Kind {
        name: "file swapped with a link",
        prepare: |_| {},
        call: |_| {
            let _ = direct::truncate(&c("okay"), 0);
        },
        change: |_| {
            let _ = symlink(".env", "l2");
            let _ = fs::rename("l2", "okay");
            let _ = fs::write("okay2", "okay");
            let _ = fs::rename("okay2", "okay");
        },
        won: |top| fs::read(top.join("w/.env")).unwrap() != b"secret",
    },
    Kind {
        name: "directory moved below the maker",
        prepare: |top| fs::create_dir_all(top.join("w/x/hooks")).unwrap(),
        call: |_| {
            let _ = direct::open_at(CWD, &c("x/hooks/pre-commit"), CREATE, 0o755);
            let _ = fs::remove_file("x/hooks/pre-commit");
        },
        change: |_| {
            let _ = fs::rename("x", ".git");
            let _ = fs::rename(".git", "x");
        },
        won: |top| top.join("w/.git/hooks/pre-commit").exists(),
    },
    Kind {
        name: "path in memory, written through the kernel",
        prepare: |_| {},
        call: |race| {
            let _ = direct::open_at(CWD, race.path.text(), CREATE, 0o644);
        },
        change: |race| {
            race.path.set_from_elsewhere("a.tmp");
            race.path.set_from_elsewhere("x.pem");
        },
        won: |top| top.join("w/x.pem").exists(),
    },
    Kind {
        name: "directory behind a descriptor swapped",
        prepare: |top| {
            fs::create_dir_all(top.join("w/x/hooks")).unwrap();
            fs::create_dir_all(top.join("w/.git/hooks")).unwrap();
        },
        call: |race| {
            let number = race.number.load(Ordering::Relaxed);
            let _ = direct::open_at(number, &c("hooks/pre-commit"), CREATE, 0o755);
        },
        change: |race| {
            race.point_at("x");
            race.point_at(".git");
        },
        won: |top| top.join("w/.git/hooks/pre-commit").exists(),
    },
    Kind {
        name: "directories exchanged above the maker",
        prepare: |top| {
            fs::create_dir(top.join("w/x")).unwrap();
            fs::create_dir(top.join("w/lib")).unwrap();
        },
        call: |_| {
            let _ = fs::create_dir("x/gen");
            let _ = fs::remove_dir("x/gen");
        },
        change: |_| exchange("x", "lib"),
        won: |top| top.join("w/lib/gen").exists(),
    },
    Kind {
        name: "file becomes a directory before it is moved",
        prepare: |_| {},
        call: |_| {
            let _ = fs::rename(".git", "m");
            let _ = fs::remove_file("m");
            let _ = fs::remove_dir_all("m");
            let _ = fs::write("n", "");
            let _ = fs::rename("n", ".git");
        },
        change: |_| {
            let _ = fs::remove_file("n");
            let _ = fs::create_dir("n");
            let _ = fs::create_dir("n/hooks");
            let _ = fs::write("n/hooks/pre-commit", "evil");
        },
        won: |top| top.join("w/.git/hooks/pre-commit").exists(),
    },
    Kind {
        name: "link made while its source is replaced",
        prepare: |_| {},
        call: |_| {
            let _ = fs::remove_file(".git/hooks");
            let _ = fs::hard_link("s", ".git/hooks");
        },
        change: |_| {
            let _ = fs::write("s", "");
            let _ = fs::remove_file("s");
            let _ = symlink("/tmp", "s");
            let _ = fs::remove_file("s");
        },
        won: |top| fs::symlink_metadata(top.join("w/.git/hooks")).is_ok_and(|m| m.is_symlink()),
    },
];

fn setup(top: &Path) -> Setup {
    Setup::new(&top.join("w"))
        .exempt(&top.join("free"))
        .pattern(".env")
        .pattern("*.pem")
        .pattern(".git/hooks/**")
        .pattern("lib/gen/**")
}

fn prepare(kind: &Kind) -> (tempfile::TempDir, PathBuf) {
    let (keep, top) = scratch();
    fs::create_dir_all(top.join("w")).unwrap();
    fs::create_dir_all(top.join("free")).unwrap();
    fs::write(top.join("w/.env"), "secret").unwrap();
    fs::write(top.join("w/okay"), "okay").unwrap();
    if kind.name.starts_with("link made") {
        fs::create_dir(top.join("w/.git")).unwrap();
    }
    (kind.prepare)(&top);
    (keep, top)
}

/// How a race ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Won,
    /// Not won in all its rounds.
    Lost,
    /// Not won in as many rounds as there was time for.
    Late(u32),
}

/// Runs a race in the calling thread and a second one. Both threads are confined as the caller is.
fn run(kind: &Kind, top: &Path, rounds: u32, limit: Duration) -> End {
    let race = Arc::new(Race {
        path: Buffer::new("a.tmp\0\0\0\0\0\0\0\0"),
        how: [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)],
        slot: Mutex::new(None),
        number: AtomicI32::new(-1),
        over: AtomicBool::new(false),
        top: top.to_owned(),
    });
    let other = Arc::clone(&race);
    let change = kind.change;
    // It starts with this thread's working directory, filter and domain.
    let changer = std::thread::spawn(move || {
        while !other.over.load(Ordering::Relaxed) {
            change(&other);
        }
    });
    let start = Instant::now();
    let mut end = End::Lost;
    for round in 0..rounds {
        (kind.call)(&race);
        if (kind.won)(&race.top) {
            end = End::Won;
            break;
        }
        if start.elapsed() > limit {
            end = End::Late(round);
            break;
        }
    }
    race.over.store(true, Ordering::Relaxed);
    changer.join().unwrap();
    if (kind.won)(top) { End::Won } else { end }
}

/// Every race against this many workers.
fn lost_with(workers: usize) {
    let rounds = u32::try_from(rounds()).unwrap();
    let limit = PATIENCE * rounds.div_ceil(100);
    let mut wrong = Vec::new();
    for (index, kind) in KINDS.iter().enumerate() {
        let (_keep, top) = prepare(kind);
        let inside = top.clone();
        let (end, _) = setup(&top)
            .crowd(workers)
            .run(move || run(&KINDS[index], &inside, rounds, limit));
        if end != End::Lost {
            wrong.push(format!("{}: {end:?}", kind.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_race_is_won_against_one_worker() {
    lost_with(1);
}

#[test]
fn no_race_is_won_against_two_workers() {
    lost_with(2);
}

#[test]
fn no_race_is_won_against_four_workers() {
    lost_with(4);
}

/// The same without the broker: the races are races.
#[test]
fn every_race_can_be_won() {
    let mut never = Vec::new();
    for (index, kind) in KINDS.iter().enumerate() {
        let (_keep, top) = prepare(kind);
        let inside = top.clone();
        let end = setup(&top)
            .outside(move || run(&KINDS[index], &inside, u32::MAX, Duration::from_secs(30)));
        if end != End::Won {
            never.push(kind.name);
        }
    }
    assert!(never.is_empty(), "{never:?}");
}
