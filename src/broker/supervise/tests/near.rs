//! The worker that gives way to everybody and stays near its caller.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::harness::{Setup, scratch, short};
use crate::broker::supervise::Cause;
use crate::sys::cpu;

/// Calls after which the near worker has been started and asked for again.
const MANY: usize = 2_000;

fn setup(dir: &Path) -> Setup {
    Setup::new(dir).pattern(".env").near()
}

/// How a thread of this process with this name is scheduled, and how many processors it may run on (proc_pid_stat(5), field 41;
/// proc_pid_status(5)).
fn scheduled(name: &str) -> Option<(i32, u32)> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let task = tasks
        .flatten()
        .map(|task| task.path())
        .find(|task| fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name))?;
    let stat = fs::read_to_string(task.join("stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let policy = fields.split_ascii_whitespace().nth(41 - 3).unwrap();
    let status = fs::read_to_string(task.join("status")).unwrap();
    let line = status.lines().find(|l| l.starts_with("Cpus_allowed:"));
    let masks = line.unwrap().trim_start_matches("Cpus_allowed:");
    let allowed = masks.trim().split(',').map(|mask| {
        let mask = u32::from_str_radix(mask, 16).unwrap();
        mask.count_ones()
    });
    Some((policy.parse().unwrap(), allowed.sum()))
}

#[test]
fn the_near_worker_gives_way_and_stays_on_one_processor() {
    let (_keep, dir) = scratch();
    let (seen, denials) = setup(&dir).run(|| {
        let (mut near, mut refused) = (None, 0);
        for n in 0..MANY {
            fs::write(format!("f{n}"), "x").unwrap();
            refused += usize::from(fs::write(".env", "x").is_err());
            // It is bound to a processor with the first call that it handles.
            near = near.or_else(|| scheduled("broker-near").filter(|&(_, on)| on == 1));
        }
        let files = (0..MANY).filter(|n| Path::new(&format!("f{n}")).exists());
        (near, refused, files.count(), scheduled("broker"))
    });
    let (near, refused, files, usual) = seen;
    assert_eq!((refused, files), (MANY, MANY));
    if cpu::several() {
        assert_eq!(near, Some((libc::SCHED_IDLE, 1)));
    }
    assert_eq!(usual.map(|(policy, _)| policy), Some(libc::SCHED_OTHER));
    let first = short(&denials).swap_remove(0);
    assert_eq!(first, ("create", dir.join(".env"), Cause::Rule(0)));
}

/// One that sleeps with a call in hand while others need the processor would hold up its caller, and all others.
#[test]
fn a_near_worker_that_gets_no_turn_holds_nobody_up() {
    let (_keep, dir) = scratch();
    let stop = Arc::new(AtomicBool::new(false));
    let processors = std::thread::available_parallelism().unwrap().get();
    let busy: Vec<_> = (0..2 * processors)
        .map(|_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    let (files, _) = setup(&dir).run(|| {
        // Several callers, so that one waits while another one's call is in hand.
        let callers: Vec<_> = (0..4)
            .map(|caller| {
                std::thread::spawn(move || {
                    (0..MANY / 8)
                        .filter(|n| fs::write(format!("f{caller}.{n}"), "x").is_ok())
                        .count()
                })
            })
            .collect();
        let made = callers.into_iter().map(|caller| caller.join().unwrap());
        made.sum::<usize>()
    });
    stop.store(true, Ordering::Relaxed);
    for thread in busy {
        thread.join().unwrap();
    }
    assert_eq!(files, MANY / 8 * 4);
}

#[test]
fn with_one_processor_there_is_no_near_worker() {
    let (_keep, dir) = scratch();
    // Threads that are started from here may run where this one may.
    cpu::stay_on(cpu::here().unwrap()).unwrap();
    let (near, _) = setup(&dir).run(|| {
        let mut near = false;
        for n in 0..MANY {
            fs::write(format!("f{n}"), "x").unwrap();
            near |= scheduled("broker-near").is_some_and(|(policy, _)| policy == libc::SCHED_IDLE);
        }
        near
    });
    assert!(!near);
}

/// It is asleep with the file in hand when its caller goes on.
#[test]
fn what_the_near_worker_has_handed_over_is_the_callers_alone() {
    let (_keep, dir) = scratch();
    let (wrong, _) = setup(&dir).run(|| {
        let program = fs::read("/bin/true").unwrap();
        let mut wrong = Vec::new();
        for n in 0..300 {
            let name = format!("p{n}");
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o755);
            let mut file = options.open(&name).unwrap();
            file.write_all(&program).unwrap();
            drop(file);
            match Command::new(format!("./{name}")).status() {
                Ok(status) if status.success() => {}
                other => wrong.push(format!("{other:?}")),
            }
        }
        for _ in 0..3_000 {
            let file = File::create("lock").unwrap();
            if file.try_lock().is_err() {
                wrong.push("a lock of nobody".to_owned());
            }
        }
        wrong
    });
    assert_eq!(wrong, [""; 0]);
}
