//! The terminal stays the caller's, and everything on it works as unwrapped, with the real binary (TY-2 to TY-6). TY-1 is
//! `escape/terminal.rs`; `tests/alone/session/terminal.rs` asks the same in every network set-up.

use std::process::{Command, Stdio};

use crate::support::pty::Pty;
use crate::support::{Box, CCBOX, require_sandbox};

/// A shell line on a terminal, in the workspace; `$R` runs a command in the sandbox.
fn on_a_terminal(b: &Box, text: &str) -> Pty {
    with_options(b, "", text)
}

/// The same, with options of `ccbox run`.
pub(crate) fn with_options(b: &Box, options: &str, text: &str) -> Pty {
    let model = b.ccbox(&["run"]);
    let mut shell = Command::new("bash");
    shell
        .args(["--norc", "-c", text])
        .current_dir(b.ws())
        .envs(model.get_envs().filter_map(|(k, v)| Some((k, v?))))
        .env("R", format!("{CCBOX} run {options} --spec ../spec.toml --"));
    Pty::spawn(&shell)
}

/// An interactive shell inside; a plain `bash -c` around it would have unset an inherited prompt.
pub(crate) const SHELL: &str = "$R env PS1='inside> ' bash --norc -i";

/// Starts a job that says when it runs and when it goes on, stops it, brings it back and interrupts it.
pub(crate) fn press_job(tty: &mut Pty, before: &str) {
    // What is typed is echoed, so it must not hold what is waited for.
    let job = "trap \"exit 7\" INT; trap \"echo res''umed\" CONT; echo run''ning; while :; do sleep 0.05; done";
    tty.press(&format!(
        "{before}bash -c '{}'\r",
        job.replace('\'', "\"\"")
    ));
    tty.expect("running");
    tty.press("\x1a");
    tty.expect("Stopped");
    tty.press("jobs\r");
    tty.expect("Stopped");
    tty.press("fg\r");
    tty.expect("resumed");
    tty.press("\x03");
}

/// TY-2: job control, Ctrl-Z, fg and Ctrl-C in an interactive shell inside.
#[test]
fn job_control_works_inside() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let mut tty = on_a_terminal(&b, SHELL);
    tty.expect("inside> ");
    press_job(&mut tty, "");
    tty.expect("inside> ");
    tty.press("echo rc=$?\r");
    tty.expect("rc=7");
    tty.press("exit 3\r");
    let (code, shown) = tty.wait();
    assert_eq!(code, Some(3), "{shown}");
    assert!(!shown.contains("no job control"), "{shown}");
}

/// TY-3: after an interactive run the caller reads from its terminal again.
#[test]
fn the_terminal_is_handed_back() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let text = format!("{SHELL}; read -p 'after> ' x; echo got:$x");
    let mut tty = on_a_terminal(&b, &text);
    tty.expect("inside> ");
    tty.press("exit\r");
    tty.expect("after> ");
    tty.press("hello\r");
    tty.expect("got:hello");
    let (code, shown) = tty.wait();
    assert_eq!(code, Some(0), "{shown}");
}

/// R62: Ctrl-Z and fg in the caller's shell, and Ctrl-C to a command that decides itself.
#[test]
fn the_callers_job_control_works() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let mut tty = on_a_terminal(&b, "PS1='outside> ' exec bash --norc -i");
    tty.expect("outside> ");
    press_job(&mut tty, "$R ");
    tty.expect("outside> ");
    tty.press("echo rc=$?\r");
    tty.expect("rc=7");
    tty.press("exit 0\r");
    assert_eq!(tty.wait().0, Some(0));
}

/// TY-4: a stream is a terminal where the caller's is, and a pipe stays one.
#[test]
fn streams_are_terminals_where_the_callers_are() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let text = "$R bash -c 'test -t 0 && test -t 1 && test -t 2 && echo all'
        $R bash -c 'test -t 0 || echo in-pipe; test -t 1 || echo out-pipe >&2' </dev/null | cat
        $R printf 'a\\nb\\n' | od -An -c | tr -d ' '; echo end";
    let mut tty = on_a_terminal(&b, text);
    tty.expect("end");
    let (_, shown) = tty.wait();
    let mut lines: Vec<&str> = shown.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["a\\nb\\n", "all", "end", "in-pipe", "out-pipe"]);
}

/// TY-5: the size and its changes reach the command.
#[test]
fn a_new_window_size_arrives() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let text =
        "$R bash -c 'trap \"stty size; exit\" WINCH; echo ready; while :; do sleep 0.05; done'";
    let mut tty = on_a_terminal(&b, text);
    tty.expect("ready");
    tty.resize(33, 111);
    tty.expect("33 111");
    assert_eq!(tty.wait().0, Some(0));
}

/// TY-6: no terminal at all, and a run in the background of a terminal that stops writers.
#[test]
fn a_background_run_is_not_stopped() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let mut c = Command::new("setsid");
    let model = b.ccbox(&["run"]);
    c.args([
        "--wait",
        CCBOX,
        "run",
        "--spec",
        "../spec.toml",
        "--",
        "echo",
        "ok",
    ])
    .current_dir(b.ws())
    .env_clear()
    .envs(model.get_envs().filter_map(|(k, v)| Some((k, v?))))
    .stdin(Stdio::null());
    assert_eq!(c.output().unwrap().stdout, b"ok\n");

    let mut tty = on_a_terminal(&b, "PS1='outside> ' exec bash --norc -i");
    tty.expect("outside> ");
    tty.press("stty tostop; $R sh -c 'sleep 0.3; exit 4' & wait $!; echo rc=$?\r");
    tty.expect("rc=4");
    tty.press("exit 0\r");
    let (_, shown) = tty.wait();
    assert!(!shown.contains("Stopped"), "{shown}");
}
