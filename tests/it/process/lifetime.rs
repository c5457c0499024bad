//! Nothing survives, and nothing ends too early (PR-4, PR-6, PR-7).

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};

use super::{code, nap, nothing_left, pid, script, started};
use crate::support::{Box, require_sandbox};

/// PR-4: SIGKILL of ccbox ends the whole tree, daemons and pipelines included.
#[test]
fn sigkill_leaves_nothing() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let nap = nap(5101);
    let mut run = started(&b, &format!("(setsid {nap} &); > ready; {nap} | cat"));
    kill(pid(&run), Signal::SIGKILL).unwrap();
    run.wait().unwrap();
    nothing_left(&nap);
}

/// PR-4: `timeout -s KILL` around it, and inside it.
#[test]
fn a_timeout_that_kills() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let nap = nap(5102);
    let inner = script(&b, &format!("{nap} & {nap}"));
    let mut around = Command::new("timeout");
    around
        .args(["-s", "KILL", "0.5"])
        .arg(inner.get_program())
        .args(inner.get_args())
        .current_dir(b.ws())
        .stdin(Stdio::null());
    around.status().unwrap();
    nothing_left(&nap);
    let status = script(&b, &format!("timeout -s KILL 0.2 {nap}; exit 3"))
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(code(status), 3);
}

/// A signal at any moment of the start ends the run as it would have ended the command, and leaves nothing.
#[test]
fn a_signal_during_the_start_ends_the_run() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let nap = nap(5103);
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        for to_group in [true, false] {
            for delay in (0..30).step_by(3) {
                let mut c = script(&b, &format!("exec {nap}"));
                std::os::unix::process::CommandExt::process_group(&mut c, 0);
                let mut run = c.stderr(Stdio::null()).spawn().unwrap();
                std::thread::sleep(Duration::from_millis(delay));
                let send = if to_group { killpg } else { kill };
                send(pid(&run), signal).unwrap();
                assert_eq!(
                    code(run.wait().unwrap()),
                    128 + signal as i32,
                    "{signal} {to_group} {delay}"
                );
            }
        }
    }
    nothing_left(&nap);
}

/// PR-6: a background process holds neither ccbox nor the caller's pipe, and ends with the command.
#[test]
fn background_processes_end_with_the_command() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let nap = nap(5104);
    let begin = Instant::now();
    let out = script(
        &b,
        &format!("{nap} & setsid {nap} & disown -a; echo hi; exit 3"),
    )
    .output()
    .unwrap();
    assert_eq!((code(out.status), out.stdout.as_slice()), (3, &b"hi\n"[..]));
    assert!(begin.elapsed() < Duration::from_secs(15));
    nothing_left(&nap);
}

/// PR-7: the end of the thread that started ccbox is not the end of the run.
#[test]
fn the_starting_thread_may_end() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let mut c = script(&b, "sleep 0.5; echo survived");
    c.stdout(Stdio::piped());
    let run = std::thread::spawn(move || c.spawn().unwrap())
        .join()
        .unwrap();
    let out = run.wait_with_output().unwrap();
    assert_eq!(
        (code(out.status), out.stdout.as_slice()),
        (0, &b"survived\n"[..])
    );
}

/// R2: many at once in one workspace keep to themselves.
#[test]
fn many_runs_at_once() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let runs: Vec<_> = (0..100)
        .map(|n| {
            let text = format!("echo {n} > f{n}; cat f{n}; exit {n}");
            let mut c = script(&b, &text);
            c.stdout(Stdio::piped()).stderr(Stdio::piped());
            c.spawn().unwrap()
        })
        .collect();
    for (n, run) in runs.into_iter().enumerate() {
        let out = run.wait_with_output().unwrap();
        let seen = (code(out.status), String::from_utf8_lossy(&out.stdout));
        assert_eq!(seen.0, i32::try_from(n).unwrap());
        assert_eq!(seen.1, format!("{n}\n"));
        assert_eq!(String::from_utf8_lossy(&out.stderr), "");
    }
}
