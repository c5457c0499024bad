//! Calls under a storm of signals.
//!
//! A signal that arrives before the supervisor has received a call makes it fail with EINTR, also where the kernel alone would never say
//! so (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV holds from then on only, seccomp(2)). Then nothing has happened. With `SA_RESTART` the
//! kernel makes the call again, and nobody sees anything.

use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd;

use nix::errno::Errno;

use super::harness::{Setup, scratch};
use crate::sys::direct::{self, Storm};

const CWD: i32 = libc::AT_FDCWD;
/// 5 kHz.
const PERIOD: i64 = 200_000;
const ROUNDS: u32 = 5_000;

/// The descriptors of this thread's own table.
fn descriptors() -> usize {
    fs::read_dir("/proc/thread-self/fd").unwrap().count()
}

/// A call and what was found afterwards.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    interrupted: u32,
    wrong: Vec<String>,
}

impl Seen {
    /// Calls until it is not interrupted. An interrupted one must have left `before` as it was.
    fn call<T>(
        &mut self,
        what: &str,
        before: impl Fn() -> bool,
        call: impl Fn() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        loop {
            match call() {
                Err(Errno::EINTR) => {
                    self.interrupted += 1;
                    if !before() {
                        self.wrong.push(format!("{what} was made and says EINTR"));
                    }
                }
                other => return other,
            }
        }
    }

    fn expect<T>(&mut self, what: &str, got: Result<T, Errno>, wanted: Result<(), Errno>) {
        let got = got.map(drop);
        if got != wanted && self.wrong.len() < 20 {
            self.wrong.push(format!("{what}: {got:?}"));
        }
    }
}

fn storm(restart: bool) -> (Seen, usize, usize) {
    let (file, other, closed) = (c"file", c"other", c".env");
    let (create, there) = (
        libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL,
        |name: &CString| fs::symlink_metadata(name.to_str().unwrap()).is_ok(),
    );
    let (f, o, e) = (file.to_owned(), other.to_owned(), closed.to_owned());
    let before = descriptors();
    let timer = Storm::start(PERIOD, restart).unwrap();
    let mut seen = Seen::default();
    for _ in 0..ROUNDS {
        let opened = seen.call(
            "open",
            || !there(&f),
            || direct::open_at(CWD, file, create, 0o600),
        );
        // The lowest free number: none was lost on the way.
        let number = opened.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        if usize::try_from(number).is_ok_and(|number| number > before + 1) {
            seen.wrong.push(format!("descriptor {number}"));
            break;
        }
        seen.expect("open", opened, Ok(()));
        let opened = seen.call(
            "open of a closed name",
            || !there(&e),
            || direct::open_at(CWD, closed, create, 0o600),
        );
        seen.expect("open of a closed name", opened, Err(Errno::EACCES));
        let moved = seen.call(
            "rename",
            || there(&f) && !there(&o),
            || direct::rename((CWD, file), (CWD, other), 0),
        );
        seen.expect("rename", moved, Ok(()));
        let removed = seen.call("unlink", || there(&o), || direct::remove(CWD, other, false));
        seen.expect("unlink", removed, Ok(()));
        if !seen.wrong.is_empty() {
            break;
        }
    }
    drop(timer);
    // There was a storm, whether or not a call saw it.
    assert!(Storm::count() > 0);
    (seen, before, descriptors())
}

#[test]
fn an_interrupted_call_has_not_happened() {
    let (_keep, dir) = scratch();
    let ((seen, before, after), denials) = Setup::new(&dir).pattern(".env").run(|| storm(false));
    assert_eq!(seen.wrong, [""; 0]);
    assert_eq!(before, after);
    assert!(denials.len() >= usize::try_from(ROUNDS).unwrap());
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn who_restarts_calls_sees_nothing() {
    let (_keep, dir) = scratch();
    let ((seen, before, after), _) = Setup::new(&dir).pattern(".env").run(|| storm(true));
    assert_eq!(seen, Seen::default());
    assert_eq!(before, after);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}
