//! Signals reach the command once, and the command decides (PR-1, PR-3, PR-5).

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};

use super::{code, eventually, nap, nothing_left, pid, script, started};
use crate::support::{Box, CCBOX, require_sandbox};

/// PR-1: the command's code or the signal that killed it, as a shell shows them.
#[test]
fn the_exit_status_is_the_commands() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let table = [
        ("exit 0", 0),
        ("exit 1", 1),
        ("exit 42", 42),
        ("exit 255", 255),
        ("kill -HUP $$", 129),
        ("kill -INT $$", 130),
        ("kill -ABRT $$", 134),
        ("kill -KILL $$", 137),
        ("kill -SEGV $$", 139),
        ("kill -PIPE $$", 141),
        ("kill -TERM $$", 143),
        ("kill -40 $$", 168),
    ];
    for (text, want) in table {
        let mut run = script(&b, text);
        let status = run.stderr(Stdio::null()).status().unwrap();
        assert_eq!(code(status), want, "{text}");
        assert_eq!(status.code().is_none(), want > 128 && want < 255, "{text}");
    }
    assert!(!b.ws().join("core").exists());
}

/// PR-3: SIGTERM reaches the command, which may clean up and choose its code.
#[test]
fn a_terminated_command_may_clean_up() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let nap = nap(5001);
    let mut run = started(
        &b,
        &format!("trap 'echo cleaned > done; exit 5' TERM; > ready; {nap} & wait"),
    );
    kill(pid(&run), Signal::SIGTERM).unwrap();
    assert_eq!(code(run.wait().unwrap()), 5);
    assert_eq!(
        std::fs::read_to_string(b.ws().join("done")).unwrap(),
        "cleaned\n"
    );
    nothing_left(&nap);
}

/// PR-3: one that is deaf to it is killed after the grace of ten seconds.
#[test]
fn a_deaf_command_is_killed_after_the_grace() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let nap = nap(5002);
    let mut run = started(&b, &format!("trap '' TERM; > ready; {nap}; {nap}"));
    let begin = Instant::now();
    kill(pid(&run), Signal::SIGTERM).unwrap();
    assert_eq!(code(run.wait().unwrap()), 137);
    assert!(begin.elapsed() > Duration::from_secs(9));
    nothing_left(&nap);
}

/// PR-5: after Ctrl-C (the group) or `kill -INT` of ccbox alone the command's own handling counts.
#[test]
fn an_interrupted_command_decides() {
    if !require_sandbox() {
        return;
    }
    let nap = nap(5003);
    let table = [
        (format!("trap 'exit 7' INT; > ready; {nap} & wait"), 7),
        ("trap '' INT; > ready; sleep 0.3; exit 4".to_owned(), 4),
        (format!("> ready; exec {nap}"), 130),
    ];
    for to_group in [true, false] {
        for (text, want) in &table {
            let b = Box::new().workspace_spec();
            let mut run = started(&b, text);
            let send = if to_group { killpg } else { kill };
            send(pid(&run), Signal::SIGINT).unwrap();
            assert_eq!(code(run.wait().unwrap()), *want, "{to_group} {text}");
            nothing_left(&nap);
        }
    }
}

/// R62: a signal comes once, whether it is sent to ccbox or to its whole group.
#[test]
fn a_signal_comes_once() {
    if !require_sandbox() {
        return;
    }
    for send in [kill::<Signal>, killpg::<Signal>] {
        let b = Box::new().workspace_spec();
        let text = "trap 'echo x >> got' USR1; > ready; until [ -e stop ]; do sleep 0.02; done; wc -l < got";
        let ready = b.ws().join("ready");
        let mut c = script(&b, text);
        std::os::unix::process::CommandExt::process_group(&mut c, 0);
        let run = c.stdout(Stdio::piped()).spawn().unwrap();
        eventually("ready", || ready.exists());
        send(pid(&run), Signal::SIGUSR1).unwrap();
        eventually("a line", || b.ws().join("got").exists());
        // A second copy would show as a second line, so give that line time to appear.
        std::thread::sleep(Duration::from_millis(100));
        std::fs::write(b.ws().join("stop"), "").unwrap();
        let out = run.wait_with_output().unwrap();
        assert_eq!(out.stdout, b"1\n");
    }
}

/// A command that stops itself stops ccbox; when something inside lets it go on, or kills it, ccbox must not sleep on.
#[test]
fn a_stop_that_ends_inside_is_noticed() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    for (signal, want) in [("CONT", 5), ("KILL", 137)] {
        for delay in ["0.5", "0.8"] {
            let text = format!(
                // `sleep` is executed before the stop: while ccbox is stopped the broker answers nobody.
                "(sleep {delay}; kill -{signal} $$) & sleep 0.2; kill -STOP $$; exit 5"
            );
            let mut run = script(&b, &text).stderr(Stdio::null()).spawn().unwrap();
            eventually("the end", || run.try_wait().unwrap().is_some());
            assert_eq!(code(run.wait().unwrap()), want, "{signal} {delay}");
        }
    }
}

/// R62: signals the caller ignores stay ignored, and an ignored SIGCHLD changes nothing.
#[test]
fn the_callers_dispositions_pass() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let by_shell = |text: &str| {
        let model = b.ccbox(&["run"]);
        let mut shell = Command::new("bash");
        shell
            .args(["-c", text])
            .current_dir(b.ws())
            .env_clear()
            .envs(model.get_envs().filter_map(|(k, v)| Some((k, v?))))
            .env("R", format!("{CCBOX} run --spec ../spec.toml --"));
        shell.output().unwrap()
    };
    let out = by_shell("trap '' HUP; exec $R sh -c 'kill -HUP $$; echo alive'");
    assert_eq!(out.stdout, b"alive\n");
    let out = by_shell("trap '' CHLD; exec $R sh -c 'exit 6'");
    assert_eq!(code(out.status), 6);
    for before in ["true", "trap '' USR1 XFSZ TSTP"] {
        let look = "grep -E '^Sig(Ign|Blk)' /proc/self/status";
        let bare = by_shell(&format!("{before}; exec {look}"));
        let out = by_shell(&format!("{before}; exec $R {look}"));
        assert_eq!(
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&bare.stdout),
            "{before}"
        );
    }
}
