//! Which process asked: the kernel gives the number it has in the process namespace of the mount.

use std::fs::File;

use crate::session::peers;
use crate::sys::{namespaces, process};

/// Threads that are looked at where the kernel does not translate; a run that has more has made itself anonymous.
const THREADS: usize = 4096;

/// A process on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) name: String,
    /// It only asks about the path it names; `false` where that cannot be seen.
    pub(super) only_asks: bool,
}

/// Tells processes of one process namespace.
#[derive(Debug)]
pub(super) struct Who {
    /// Pid 1 of that namespace, as the host numbers it.
    top: i32,
    /// The namespace; not opened before somebody asks, because most runs are refused nothing.
    namespace: Option<File>,
}

impl Who {
    pub(super) fn new(top: i32) -> Self {
        Self {
            top,
            namespace: None,
        }
    }

    /// The process of a thread that waits for an answer, by its number inside.
    pub(super) fn is(&mut self, inside: u32) -> Option<Process> {
        let inside = i32::try_from(inside).ok()?;
        let (pid, thread) = self
            .translated(inside)
            .or_else(|| searched(self.top, inside))?;
        let name = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
        let call = process::waits_in(thread).ok().flatten();
        Some(Process {
            pid,
            name: String::from_utf8_lossy(name.trim_ascii_end()).into_owned(),
            only_asks: call.is_some_and(process::only_asks),
        })
    }

    /// Process and thread as the kernel says (Linux 6.11).
    fn translated(&mut self, inside: i32) -> Option<(i32, i32)> {
        if self.namespace.is_none() {
            self.namespace = File::open(format!("/proc/{}/ns/pid", self.top)).ok();
        }
        namespaces::process_and_thread(self.namespace.as_ref()?, inside).ok()
    }
}

/// As the status files say: `NSpid:` has the thread's number in each namespace, the host's first, that of the mount next (proc(5)).
fn searched(top: i32, inside: i32) -> Option<(i32, i32)> {
    let mut left = THREADS;
    for pid in peers::below(top) {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
            continue;
        };
        for thread in threads.flatten() {
            left = left.checked_sub(1)?;
            let Ok(status) = std::fs::read_to_string(thread.path().join("status")) else {
                continue;
            };
            if number_inside(&status) == Some(inside) {
                let number = thread.file_name().to_str()?.parse().ok()?;
                return Some((pid, number));
            }
        }
    }
    None
}

fn number_inside(status: &str) -> Option<i32> {
    let line = status.lines().find_map(|l| l.strip_prefix("NSpid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

crate::sys::linux_tests! { mod tests; }
