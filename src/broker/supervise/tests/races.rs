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
pub(super) struct Buffer(Vec<AtomicU8>);

impl Buffer {
    fn new(text: &str) -> Self {
        Self(text.bytes().chain([0]).map(AtomicU8::new).collect())
    }

    pub(super) fn set(&self, text: &str) {
        for (to, from) in self.0.iter().zip(text.bytes().chain([0])) {
            to.store(from, Ordering::Relaxed);
        }
    }

    /// The same through the kernel, as another process does it.
    pub(super) fn set_from_elsewhere(&self, text: &str) {
        let text = CString::new(text).unwrap();
        let local = [IoSlice::new(text.to_bytes_with_nul())];
        let remote = [RemoteIoVec {
            base: self.0.as_ptr().addr(),
            len: text.to_bytes_with_nul().len(),
        }];
        process_vm_writev(Pid::this(), &local, &remote).unwrap();
    }

    /// The string as the system call takes it.
    pub(super) fn text(&self) -> &std::ffi::CStr {
        direct::racing_text(&self.0)
    }
}

/// What both threads of a race share.
pub(super) struct Race {
    pub(super) path: Buffer,
    pub(super) how: [AtomicU64; 3],
    /// A descriptor whose directory changes, and its number.
    slot: Mutex<Option<OwnedFd>>,
    pub(super) number: AtomicI32,
    over: AtomicBool,
    /// The caller has read what it must not.
    pub(super) seen: AtomicBool,
    top: PathBuf,
}

impl Race {
    /// Puts a directory behind the descriptor.
    pub(super) fn point_at(&self, dir: &str) {
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
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) prepare: fn(&Path),
    pub(super) call: fn(&Race),
    pub(super) change: Change,
    /// What must never be seen; asked after each round.
    pub(super) won: fn(&Path) -> bool,
}

/// Who changes what the call is about.
#[derive(Clone, Copy)]
pub(super) enum Change {
    /// Another thread of the caller, again and again.
    Thread(fn(&Race)),
    /// Another process that the caller has started: it writes these in turn over the path in memory.
    Process([&'static str; 2]),
}

/// A second process of the command, which writes into the memory of the first.
const WRITER: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
class Vector(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('len', ctypes.c_size_t)]
pid, address = int(sys.argv[1]), int(sys.argv[2])
both = []
for text in sys.argv[3:]:
    text = text.encode() + bytes(1)
    here = ctypes.create_string_buffer(text, len(text))
    both.append((here, Vector(ctypes.addressof(here), len(text)), Vector(address, len(text))))
def write(n):
    done = libc.process_vm_writev(pid, ctypes.byref(both[n][1]), 1, ctypes.byref(both[n][2]), 1, 0)
    return done if done > 0 else -ctypes.get_errno()
print(write(0), flush=True)
while True: write(1); write(0)
";

/// Runs until it is killed.
#[allow(
    clippy::disallowed_methods,
    reason = "a second process of the test's own"
)]
fn writer(race: &Race, texts: [&str; 2]) -> std::process::Child {
    use std::io::BufRead;
    let mut child = std::process::Command::new("/usr/bin/python3")
        .args(["-c", WRITER])
        .arg(nix::unistd::gettid().to_string())
        .arg(race.path.0.as_ptr().addr().to_string())
        .args(texts)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let out = child.stdout.take().unwrap();
    std::io::BufReader::new(out).read_line(&mut said).unwrap();
    assert_eq!(said, format!("{}\n", texts[0].len() + 1));
    child
}

const CREATE: i32 = libc::O_WRONLY | libc::O_CREAT;

const KINDS: &[Kind] = &[
    Kind {
        name: "path in memory",
        prepare: |_| {},
        call: |race| {
            let _ = direct::open_at(CWD, race.path.text(), CREATE, 0o644);
        },
        change: Change::Thread(|race| {
            race.path.set("a.tmp");
            race.path.set("x.pem");
        }),
        won: |top| top.join("w/x.pem").exists(),
    },
    Kind {
        name: "path in memory, to where the kernel goes on",
        prepare: |_| {},
        call: |race| {
            let _ = direct::open_at(CWD, race.path.text(), CREATE, 0o644);
        },
        change: Change::Thread(|race| {
            race.path.set("../free/a");
            race.path.set("./././x.pem");
        }),
        won: |top| top.join("w/x.pem").exists(),
    },
    Kind {
        name: "mode of a path in memory",
        prepare: |_| {},
        call: |race| {
            let _ = direct::change_mode(CWD, race.path.text(), 0o600, 0);
        },
        change: Change::Thread(|race| {
            race.path.set("okay");
            race.path.set(".env");
        }),
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
        change: Change::Thread(|race| {
            race.how[0].store(0, Ordering::Relaxed);
            race.how[0].store(u64::from(libc::O_TRUNC.cast_unsigned()), Ordering::Relaxed);
        }),
        won: |top| fs::read(top.join("w/.env")).unwrap() != b"secret",
    },
    Kind {
        name: "link swapped",
        prepare: |top| symlink("okay", top.join("w/l")).unwrap(),
        call: |_| {
            let _ = direct::open_at(CWD, &c("l"), libc::O_WRONLY | libc::O_TRUNC, 0);
        },
        change: Change::Thread(|_| {
            let _ = symlink(".env", "l2");
            let _ = fs::rename("l2", "l");
            let _ = symlink("okay", "l2");
            let _ = fs::rename("l2", "l");
        }),
        won: |top| fs::read(top.join("w/.env")).unwrap() != b"secret",
    },
    Kind {
        name: "file swapped with a link",
        prepare: |_| {},
        call: |_| {
            let _ = direct::truncate(&c("okay"), 0);
        },
        change: Change::Thread(|_| {
            let _ = symlink(".env", "l2");
            let _ = fs::rename("l2", "okay");
            let _ = fs::write("okay2", "okay");
            let _ = fs::rename("okay2", "okay");
        }),
        won: |top| fs::read(top.join("w/.env")).unwrap() != b"secret",
    },
    Kind {
        name: "directory moved below the maker",
        prepare: |top| fs::create_dir_all(top.join("w/x/hooks")).unwrap(),
        call: |_| {
            let _ = direct::open_at(CWD, &c("x/hooks/pre-commit"), CREATE, 0o755);
            let _ = fs::remove_file("x/hooks/pre-commit");
        },
        change: Change::Thread(|_| {
            let _ = fs::rename("x", ".git");
            let _ = fs::rename(".git", "x");
        }),
        won: |top| top.join("w/.git/hooks/pre-commit").exists(),
    },
    Kind {
        name: "path in memory, written through the kernel",
        prepare: |_| {},
        call: |race| {
            let _ = direct::open_at(CWD, race.path.text(), CREATE, 0o644);
        },
        change: Change::Thread(|race| {
            race.path.set_from_elsewhere("a.tmp");
            race.path.set_from_elsewhere("x.pem");
        }),
        won: |top| top.join("w/x.pem").exists(),
    },
    Kind {
        name: "path in memory, written by another process",
        prepare: |_| {},
        call: |race| {
            let _ = direct::open_at(CWD, race.path.text(), CREATE, 0o644);
        },
        change: Change::Process(["a.tmp", "x.pem"]),
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
        change: Change::Thread(|race| {
            race.point_at("x");
            race.point_at(".git");
        }),
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
        change: Change::Thread(|_| exchange("x", "lib")),
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
        change: Change::Thread(|_| {
            let _ = fs::remove_file("n");
            let _ = fs::create_dir("n");
            let _ = fs::create_dir("n/hooks");
            let _ = fs::write("n/hooks/pre-commit", "evil");
        }),
        won: |top| top.join("w/.git/hooks/pre-commit").exists(),
    },
    Kind {
        name: "link made while its source is replaced",
        prepare: |_| {},
        call: |_| {
            let _ = fs::remove_file(".git/hooks");
            let _ = fs::hard_link("s", ".git/hooks");
        },
        change: Change::Thread(|_| {
            let _ = fs::write("s", "");
            let _ = fs::remove_file("s");
            let _ = symlink("/tmp", "s");
            let _ = fs::remove_file("s");
        }),
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
pub(super) enum End {
    Won,
    /// Not won in all its rounds.
    Lost,
    /// Not won in as many rounds as there was time for.
    Late(u32),
}

/// Runs a race in the calling thread and a second one. Both threads are confined as the caller is.
pub(super) fn run(kind: &Kind, top: &Path, rounds: u32, limit: Duration) -> End {
    let race = Arc::new(Race {
        path: Buffer::new("a.tmp\0\0\0\0\0\0\0\0"),
        how: [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)],
        slot: Mutex::new(None),
        number: AtomicI32::new(-1),
        over: AtomicBool::new(false),
        seen: AtomicBool::new(false),
        top: top.to_owned(),
    });
    let changer = match kind.change {
        Change::Thread(change) => {
            let other = Arc::clone(&race);
            // It starts with this thread's working directory, filter and domain.
            Changer::Thread(std::thread::spawn(move || {
                while !other.over.load(Ordering::Relaxed) {
                    change(&other);
                }
            }))
        }
        Change::Process(texts) => Changer::Process(writer(&race, texts)),
    };
    let won = || race.seen.load(Ordering::Relaxed) || (kind.won)(&race.top);
    let start = Instant::now();
    let mut end = End::Lost;
    for round in 0..rounds {
        (kind.call)(&race);
        if won() {
            end = End::Won;
            break;
        }
        if start.elapsed() > limit {
            end = End::Late(round);
            break;
        }
    }
    race.over.store(true, Ordering::Relaxed);
    match changer {
        Changer::Thread(thread) => thread.join().unwrap(),
        Changer::Process(mut child) => {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
    if won() { End::Won } else { end }
}

enum Changer {
    Thread(std::thread::JoinHandle<()>),
    Process(std::process::Child),
}

/// A set of races, and where they are held.
pub(super) struct Races {
    pub(super) kinds: &'static [Kind],
    pub(super) prepare: fn(&Kind) -> (tempfile::TempDir, PathBuf),
    pub(super) setup: fn(&Path) -> Setup,
}

const WRITES: Races = Races {
    kinds: KINDS,
    prepare,
    setup,
};

/// Every race against this many workers.
pub(super) fn lost_with(races: &'static Races, workers: usize) {
    lost_to(races, |setup| setup.crowd(workers));
}

pub(super) fn lost_to(races: &'static Races, workers: impl Fn(Setup) -> Setup) {
    let rounds = u32::try_from(rounds()).unwrap();
    let limit = PATIENCE * rounds.div_ceil(100);
    let mut wrong = Vec::new();
    for kind in races.kinds {
        let (_keep, top) = (races.prepare)(kind);
        let inside = top.clone();
        let setup = workers((races.setup)(&top));
        let (end, _) = setup.run(move || run(kind, &inside, rounds, limit));
        if end != End::Lost {
            wrong.push(format!("{}: {end:?}", kind.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_race_is_won_against_one_worker() {
    lost_with(&WRITES, 1);
}

#[test]
fn no_race_is_won_against_two_workers() {
    lost_with(&WRITES, 2);
}

#[test]
fn no_race_is_won_against_four_workers() {
    lost_with(&WRITES, 4);
}

#[test]
fn no_race_is_won_against_the_near_worker() {
    lost_to(&WRITES, Setup::near);
}

/// The same without the broker: the races are races.
#[test]
fn every_race_can_be_won() {
    can_be_won(&WRITES);
}

pub(super) fn can_be_won(races: &'static Races) {
    let mut never = Vec::new();
    for kind in races.kinds {
        let (_keep, top) = (races.prepare)(kind);
        let inside = top.clone();
        let end = (races.setup)(&top)
            .outside(move || run(kind, &inside, u32::MAX, Duration::from_secs(30)));
        if end != End::Won {
            never.push(kind.name);
        }
    }
    assert!(never.is_empty(), "{never:?}");
}
