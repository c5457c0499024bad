//! Two threads against the time between a look and an act. One calls, the other changes what the call is about; with 1, 2 and 4 workers
//! that all receive. Without the broker each race is won within a few rounds, so the rounds mean something.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::harness::{Setup, scratch};
use crate::sys::direct;

const CWD: i32 = libc::AT_FDCWD;
const ROUNDS: usize = 300;

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

    /// The string as the system call takes it.
    fn text(&self) -> &std::ffi::CStr {
        direct::racing_text(&self.0)
    }
}

/// What both threads of a race share.
struct Race {
    path: Buffer,
    how: [AtomicU64; 3],
    over: AtomicBool,
    top: PathBuf,
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

/// Runs a race in the calling thread and a second one; true if it was won. Both threads are confined as the caller is.
fn run(kind: &Kind, top: &Path, rounds: usize, limit: Duration) -> bool {
    let race = Arc::new(Race {
        path: Buffer::new("a.tmp\0\0\0\0\0\0\0\0"),
        how: [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)],
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
    let mut won = false;
    for _ in 0..rounds {
        (kind.call)(&race);
        won |= (kind.won)(&race.top);
        if won || start.elapsed() > limit {
            break;
        }
    }
    race.over.store(true, Ordering::Relaxed);
    changer.join().unwrap();
    won || (kind.won)(top)
}

#[test]
fn no_race_is_won() {
    let mut wrong = Vec::new();
    for (index, kind) in KINDS.iter().enumerate() {
        for workers in [1, 2, 4] {
            let (_keep, top) = prepare(kind);
            let inside = top.clone();
            let (won, _) = setup(&top)
                .crowd(workers)
                .run(move || run(&KINDS[index], &inside, ROUNDS, Duration::from_secs(20)));
            if won {
                wrong.push(format!("{} with {workers} workers", kind.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The same without the broker: the races are races.
#[test]
fn every_race_can_be_won() {
    let mut never = Vec::new();
    for (index, kind) in KINDS.iter().enumerate() {
        let (_keep, top) = prepare(kind);
        let inside = top.clone();
        let won = setup(&top)
            .outside(move || run(&KINDS[index], &inside, usize::MAX, Duration::from_secs(30)));
        if !won {
            never.push(kind.name);
        }
    }
    assert!(never.is_empty(), "{never:?}");
}
