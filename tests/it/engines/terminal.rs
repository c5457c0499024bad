//! Job control on the caller's terminal, on each engine.

use super::Engine;
use crate::support::{Box, require_sandbox};
use crate::tty::{SHELL, press_job, with_options};

/// An interactive shell inside stops, resumes and interrupts its job; Ctrl-Z and fg of the caller's shell do it to the run.
fn jobs(engine: Engine) {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().spec("network_enabled = false\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n");
    let options = format!("--engine {}", engine.name());
    let mut tty = with_options(&b, &options, SHELL);
    tty.expect("inside> ");
    press_job(&mut tty, "");
    tty.expect("inside> ");
    tty.press("echo rc=$?\r");
    tty.expect("rc=7");
    tty.press("exit 3\r");
    let (code, shown) = tty.wait();
    assert_eq!(code, Some(3), "{shown}");
    assert!(!shown.contains("no job control"), "{shown}");

    let mut tty = with_options(&b, &options, "PS1='outside> ' exec bash --norc -i");
    tty.expect("outside> ");
    press_job(&mut tty, "$R ");
    tty.expect("outside> ");
    tty.press("echo rc=$?; read -p 'after> ' x; echo got:$x\r");
    tty.expect("rc=7");
    tty.expect("after> ");
    tty.press("hello\r");
    tty.expect("got:hello");
    tty.press("exit 0\r");
    assert_eq!(tty.wait().0, Some(0));
}

#[test]
fn bwrap() {
    jobs(Engine::Bwrap);
}

#[test]
fn builtin() {
    jobs(Engine::Builtin);
}

#[test]
fn landlock() {
    jobs(Engine::Landlock);
}
