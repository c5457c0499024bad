//! `ccbox shell` on a real terminal, as a person has it: in a pane of tmux.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Box, CCBOX, program, require_sandbox};

/// How long a screen may take to show something.
const PATIENCE: Duration = Duration::from_secs(30);

/// A terminal of its own, with one window.
struct Tmux<'b> {
    b: &'b Box,
}

impl<'b> Tmux<'b> {
    /// Starts a shell line in it.
    fn start(b: &'b Box, line: &str) -> Self {
        let tmux = Self { b };
        let model = b.ccbox(&["shell"]);
        let mut command = tmux.command();
        command
            .args([
                "-f",
                "/dev/null",
                "new-session",
                "-d",
                "-x",
                "100",
                "-y",
                "30",
                line,
            ])
            .args([";", "set", "-g", "status", "off"])
            .current_dir(b.ws())
            .env_clear()
            .envs(model.get_envs().filter_map(|(k, v)| Some((k, v?))))
            .env("LANG", "C.UTF-8")
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh");
        assert!(command.status().unwrap().success());
        tmux
    }

    fn command(&self) -> Command {
        let mut command = Command::new(program("tmux"));
        command.arg("-S").arg(self.b.path().join("tmux"));
        command.stdin(Stdio::null());
        command
    }

    fn call(&self, args: &[&str]) -> String {
        let out = self.command().args(args).output().unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    fn type_in(&self, text: &str) {
        self.call(&["send-keys", "-l", text]);
    }

    fn press(&self, key: &str) {
        self.call(&["send-keys", key]);
    }

    fn line(&self, text: &str) {
        self.type_in(text);
        self.press("Enter");
    }

    /// A job in the foreground, once it runs: a key that is pressed before goes to the shell.
    #[track_caller]
    fn start_job(&self) {
        // One process: a shell that is stopped while it starts another one may never get to stop.
        let job = r#"$SIG{CONT} = sub { print "go", "es\n" }; $| = 1; print "run", "ning\n"; sleep 1 while 1"#;
        self.line(&format!("clear; perl -e '{job}'"));
        self.shows("running");
    }

    fn screen(&self) -> String {
        self.call(&["capture-pane", "-p"])
    }

    /// Waits until the screen is as wanted.
    #[track_caller]
    fn until(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let since = Instant::now();
        loop {
            let screen = self.screen();
            if wanted(&screen) {
                return screen;
            }
            assert!(since.elapsed() < PATIENCE, "no {what} on\n{screen}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    #[track_caller]
    fn shows(&self, text: &str) -> String {
        self.until(text, |screen| screen.contains(text))
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        self.call(&["kill-server"]);
    }
}

/// A box whose shell is inside, with its prompt set.
fn shell(b: &Box) -> Tmux<'_> {
    let tmux = Tmux::start(b, &format!("{CCBOX} shell; echo ended=$?; read x"));
    tmux.until("prompt", |screen| !screen.trim().is_empty());
    tmux.line("PS1='in''side>'");
    tmux.shows("inside>");
    tmux
}

#[test]
fn the_users_shell_has_job_control() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new();
    let tmux = shell(&b);
    tmux.line("echo bo''x=$CCBOX$CCBOX_BACKEND");
    tmux.shows("box=1native");
    tmux.start_job();
    tmux.press("C-z");
    tmux.shows("Stopped");
    tmux.line("clear; jobs");
    tmux.until("a stopped job", |s| {
        s.contains("Stopped") && s.contains("sleep")
    });
    tmux.line("clear; fg");
    // By then the terminal is the job's: the shell sees to that before it lets it go on.
    tmux.shows("goes");
    tmux.press("C-c");
    tmux.until("the prompt", |s| s.trim_end().ends_with("inside>"));
    tmux.line("echo r''c=$?");
    tmux.shows("rc=130");
    tmux.line("clear; (sleep 0.1; echo do''ne) & wait; echo a''ll");
    tmux.until("the background job", |s| {
        s.contains("done") && s.contains("all")
    });
    tmux.line("exit 5");
    tmux.shows("ended=5");
}

#[test]
fn a_full_screen_program_works_and_follows_the_window() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new();
    let tmux = shell(&b);
    tmux.line("vim -u NONE -N text");
    tmux.shows("~\n~\n~");
    tmux.type_in("ihello from inside");
    tmux.press("Escape");
    tmux.shows("hello from inside");
    // Out of it and back in.
    tmux.press("C-z");
    tmux.shows("Stopped");
    tmux.line("clear; fg");
    tmux.until("the text again", |s| s.starts_with("hello from inside"));
    tmux.call(&["resize-window", "-x", "70", "-y", "20"]);
    tmux.until("20 lines", |s| {
        s.lines().count() <= 20 && s.contains("~\n~")
    });
    tmux.line(":wq");
    tmux.shows("inside>");
    let text = std::fs::read_to_string(b.ws().join("text")).unwrap();
    assert_eq!(text, "hello from inside\n");
    tmux.line("clear; stty size");
    tmux.shows("20 70");
    tmux.line("exit");
    tmux.shows("ended=0");
}

/// The caller's shell sees the inner one stop and takes it up again, and every shell ends as it would outside.
#[test]
fn every_shell_stops_and_ends_as_outside() {
    if !require_sandbox() {
        return;
    }
    for (name, run) in [
        ("bash", "shell"),
        ("dash", "shell"),
        ("zsh", "shell"),
        ("bash", "run -- bash"),
        ("dash", "run -- dash -i"),
    ] {
        let b = Box::new();
        let run = format!("{CCBOX} {run}");
        let tmux = Tmux::start(&b, "PS1='out''side>' exec bash --norc -i");
        tmux.shows("outside>");
        tmux.line(&run);
        tmux.until("prompt", |s| {
            s.lines().filter(|l| !l.trim().is_empty()).count() > 1
        });
        // Without the questions zsh has for a new user.
        let option = if name == "zsh" { "-f" } else { "" };
        tmux.line(&format!("exec {} {option}", program(name).display()));
        tmux.line("clear; PS1='in''side>'");
        tmux.shows("inside>");
        tmux.start_job();
        tmux.press("C-z");
        tmux.until("a stopped job", |s| {
            s.to_lowercase().contains("stopped") || s.contains("suspended")
        });
        tmux.line("clear; kill -STOP $$");
        tmux.until("the caller's prompt", |s| s.contains("outside>"));
        tmux.line("clear; fg");
        tmux.press("Enter");
        tmux.shows("inside>");
        tmux.line("clear; fg");
        tmux.shows("goes");
        tmux.press("C-c");
        tmux.until("the prompt", |s| s.trim_end().ends_with("inside>"));
        tmux.line("clear; exit 4");
        tmux.until("the caller's prompt", |s| {
            s.trim_end().ends_with("outside>")
        });
        tmux.line("echo en''ded=$?");
        let screen = tmux.shows("ended=4");
        assert!(!screen.contains("process group"), "{name}: {screen}");
    }
}

/// R27: the profile of a terminal tab. Home is writable, keys are closed, and what would be no sandbox is none.
#[test]
fn its_profile_is_terminal() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new();
    std::fs::create_dir(b.path().join("home/.ssh")).unwrap();
    std::fs::write(b.path().join("home/.ssh/id"), "k''ey").unwrap();
    let tmux = shell(&b);
    tmux.line("clear; cat ~/.ssh/id; echo x > ~/file; echo x >> ~/.profile; echo r''c=$?");
    let screen = tmux.until("both answers", |s| s.contains("rc="));
    assert!(!screen.contains("k''ey"), "{screen}");
    assert!(b.path().join("home/file").exists());
    assert!(!b.path().join("home/.profile").exists(), "{screen}");
    drop(tmux);
    // A variable does not make it a shell of the host.
    let b = b.env("CCBOX_SANDBOX", "off");
    let plan = b.call(&["shell", "--dry-run"]);
    assert_eq!(plan.code, 0, "{}", plan.stderr);
    assert!(
        plan.stdout.contains("bwrap") || plan.stdout.contains("builtin"),
        "{}",
        plan.stdout
    );
    let b = b.workspace_spec();
    assert!(Path::new(&b.path().join("spec.toml")).exists());
    let given = b.call(&["shell", "-f", "../spec.toml", "--dry-run"]);
    assert_eq!(given.code, 0, "{}", given.stderr);
    assert_ne!(given.stdout, plan.stdout);
}
