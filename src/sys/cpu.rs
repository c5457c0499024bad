//! On which processor a thread is, and when it may run.

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;

/// The calling thread.
const SELF: Pid = Pid::from_raw(0);

/// More than one processor may be used by the calling thread (sched_getaffinity(2)).
#[must_use]
pub fn several() -> bool {
    sched_getaffinity(SELF).is_ok_and(|own| {
        let all = (0..CpuSet::count()).filter(|&n| own.is_set(n).is_ok_and(|set| set));
        all.take(2).count() == 2
    })
}

/// The processor the calling thread is on (getcpu(2)).
#[must_use]
pub fn here() -> Option<usize> {
    sched_getcpu().ok()
}

/// The processor another thread is on, or was on when it fell asleep (proc_pid_stat(5), field 39).
#[must_use]
pub fn of(tid: i32) -> Option<usize> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/stat")).ok()?;
    // The name may hold anything, and ends with the last parenthesis; the field after it is the third.
    let (_, fields) = text.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(39 - 3)?.parse().ok()
}

/// The calling thread goes to this processor and stays there (sched_setaffinity(2)).
pub fn stay_on(processor: usize) -> Result<(), Errno> {
    let mut only = CpuSet::new();
    only.set(processor)?;
    sched_setaffinity(SELF, &only)
}

/// Puts another process of this user that has not run yet on another processor than the caller's, where it may go on as before
/// (sched_setaffinity(2) moves what only waits at once). Nothing changes if there is none.
pub fn send_elsewhere(pid: Pid) -> Result<(), Errno> {
    let own = sched_getaffinity(SELF)?;
    let mut others = own;
    others.unset(sched_getcpu()?)?;
    sched_setaffinity(pid, &others)?;
    sched_setaffinity(pid, &own)
}

/// The calling thread runs only where nobody else wants to, from now on (sched(7), SCHED_IDLE). Without privileges there is no way back.
/// EPERM: it was scheduled in a way of its own, which is left alone.
pub fn last_of_all() -> Result<(), Errno> {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: sched_getscheduler takes an integer; sched_setscheduler reads one struct, on this frame.
    unsafe {
        match Errno::result(libc::sched_getscheduler(0))? {
            libc::SCHED_OTHER => Errno::result(libc::sched_setscheduler(
                0,
                libc::SCHED_IDLE,
                &raw const none,
            ))
            .map(drop),
            _ => Err(Errno::EPERM),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_where_it_was_told_to_be() {
        std::thread::spawn(|| {
            let own = sched_getaffinity(SELF).unwrap();
            for n in (0..CpuSet::count()).filter(|&n| own.is_set(n).unwrap()) {
                stay_on(n).unwrap();
                assert_eq!(here(), Some(n));
                assert_eq!(of(nix::unistd::gettid().as_raw()), Some(n));
                assert!(!several());
            }
        })
        .join()
        .unwrap();
        assert_eq!(of(i32::MAX), None);
    }

    #[test]
    fn only_its_own_thread_steps_back() {
        let way = || std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        // proc_pid_stat(5): the policy is field 41.
        let policy = |text: String| {
            let (_, fields) = text.rsplit_once(')').unwrap();
            let field = fields.split_ascii_whitespace().nth(41 - 3).unwrap();
            field.parse::<i32>().unwrap()
        };
        let before = policy(way());
        let thread = std::thread::spawn(move || {
            last_of_all().unwrap();
            // Who has a way of its own keeps it.
            assert_eq!(last_of_all(), Err(Errno::EPERM));
            policy(way())
        });
        assert_eq!(thread.join().unwrap(), libc::SCHED_IDLE);
        assert_eq!(policy(way()), before);
    }
}
