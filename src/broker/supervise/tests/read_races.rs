//! As `races`, against the time between a look at a name and an open for reading. What must not be read stands at hidden names only, and
//! moves between such; whoever reads it has won.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::harness::{Setup, scratch};
use super::races::{Change, Kind, Race, Races, can_be_won, lost_with};
use crate::sys::direct;

const CWD: i32 = libc::AT_FDCWD;
const SECRET: &[u8] = b"SECRET";

/// Looks at what an open has given.
fn look(race: &Race, opened: nix::Result<OwnedFd>) {
    let mut bytes = Vec::new();
    if let Ok(file) = opened
        && File::from(file).take(64).read_to_end(&mut bytes).is_ok()
        && bytes.starts_with(SECRET)
    {
        race.seen.store(true, Ordering::Relaxed);
    }
}

fn open(race: &Race, path: &std::ffi::CStr, flags: i32) {
    look(race, direct::open_at(CWD, path, flags, 0));
}

fn set_path(race: &Race) {
    race.path.set("a.txt");
    race.path.set("a.key");
}

const KINDS: &[Kind] = &[
    Kind {
        name: "path in memory",
        prepare: |_| {},
        call: |race| open(race, race.path.text(), libc::O_RDONLY),
        change: Change::Thread(set_path),
        won: |_| false,
    },
    Kind {
        name: "path in memory, to read and write",
        prepare: |_| {},
        call: |race| open(race, race.path.text(), libc::O_RDWR),
        change: Change::Thread(set_path),
        won: |_| false,
    },
    Kind {
        name: "path in memory, out of the tree",
        prepare: |_| {},
        call: |race| open(race, race.path.text(), libc::O_RDONLY),
        change: Change::Thread(|race| {
            race.path.set("../free/a");
            race.path.set("./././a.key");
        }),
        won: |_| false,
    },
    Kind {
        name: "path in memory, written through the kernel",
        prepare: |_| {},
        call: |race| open(race, race.path.text(), libc::O_RDONLY),
        change: Change::Thread(|race| {
            race.path.set_from_elsewhere("a.txt");
            race.path.set_from_elsewhere("a.key");
        }),
        won: |_| false,
    },
    Kind {
        name: "path in memory, written by another process",
        prepare: |_| {},
        call: |race| open(race, race.path.text(), libc::O_RDONLY),
        change: Change::Process(["a.txt", "a.key"]),
        won: |_| false,
    },
    Kind {
        name: "flags of openat2 in memory",
        prepare: |_| {},
        call: |race| look(race, direct::open_racing(CWD, c"a.key", &race.how)),
        change: Change::Thread(|race| {
            for flags in [libc::O_PATH, libc::O_RDONLY, libc::O_WRONLY] {
                let flags = u64::from(flags.cast_unsigned());
                race.how[0].store(flags, Ordering::Relaxed);
            }
        }),
        won: |_| false,
    },
    Kind {
        name: "link swapped",
        prepare: |top| symlink("a.txt", top.join("w/l")).unwrap(),
        call: |race| open(race, c"l", libc::O_RDONLY),
        change: Change::Thread(|_| {
            for to in ["a.key", "a.txt"] {
                let _ = symlink(to, "l2");
                let _ = fs::rename("l2", "l");
            }
        }),
        won: |_| false,
    },
    Kind {
        name: "directory swapped with a link",
        prepare: |_| {},
        call: |race| open(race, c"d/k", libc::O_RDONLY),
        change: Change::Thread(|_| {
            let _ = symlink("vault", "l2");
            let _ = fs::rename("l2", "d");
            let _ = fs::remove_file("d");
            let _ = fs::rename("plain", "d");
            let _ = fs::rename("d", "plain");
        }),
        won: |_| false,
    },
    Kind {
        name: "directory behind a descriptor swapped",
        prepare: |_| {},
        call: |race| {
            let number = race.number.load(Ordering::Relaxed);
            look(race, direct::open_at(number, c"k", libc::O_RDONLY, 0));
        },
        change: Change::Thread(|race| {
            race.point_at("plain");
            race.point_at("vault");
        }),
        won: |_| false,
    },
    Kind {
        name: "working directory changed",
        prepare: |_| {},
        call: |race| open(race, c"k", libc::O_RDONLY),
        change: Change::Thread(|_| {
            let _ = nix::unistd::chdir("plain");
            let _ = nix::unistd::chdir("../vault");
            let _ = nix::unistd::chdir("..");
        }),
        won: |_| false,
    },
    Kind {
        name: "name of a held object, moved between hidden names",
        prepare: |_| {},
        call: |race| {
            if let Ok(held) = direct::open_at(CWD, c"a.key", libc::O_PATH, 0) {
                // The caller has a table of descriptors of its own.
                let path = format!("/proc/thread-self/fd/{}", held.as_raw_fd());
                let path = CString::new(path).unwrap();
                open(race, &path, libc::O_RDONLY);
                open(race, &path, libc::O_RDWR);
            }
        },
        change: Change::Thread(|_| {
            let _ = fs::rename("a.key", "b.key");
            let _ = fs::rename("b.key", "a.key");
        }),
        won: |_| false,
    },
];

fn prepare(kind: &Kind) -> (tempfile::TempDir, PathBuf) {
    let (keep, top) = scratch();
    for dir in ["w/vault", "w/plain", "free"] {
        fs::create_dir_all(top.join(dir)).unwrap();
    }
    for secret in ["w/a.key", "w/vault/k"] {
        fs::write(top.join(secret), SECRET).unwrap();
    }
    for free in ["w/a.txt", "w/plain/k", "free/a"] {
        fs::write(top.join(free), "FREE").unwrap();
    }
    (kind.prepare)(&top);
    (keep, top)
}

fn setup(top: &Path) -> Setup {
    Setup::new(&top.join("w"))
        .exempt(&top.join("free"))
        .hidden("*.key")
        .hidden("vault/*")
}

const READS: Races = Races {
    kinds: KINDS,
    prepare,
    setup,
};

#[test]
fn no_read_is_won_against_one_worker() {
    lost_with(&READS, 1);
}

#[test]
fn no_read_is_won_against_two_workers() {
    lost_with(&READS, 2);
}

#[test]
fn no_read_is_won_against_four_workers() {
    lost_with(&READS, 4);
}

#[test]
fn every_read_can_be_won() {
    can_be_won(&READS);
}
