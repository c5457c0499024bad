//! Clients that take all there is, or break off: the proxies go on, and give everything back.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use super::lab::{Caller, Desk, Lab};

const SCRIPT: &str = include_str!("load.py");

/// A run whose command goes step by step.
struct Stepped {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The end of its command line, as the kernel shows it.
    word: String,
}

impl Stepped {
    /// With at most `files` descriptors a process.
    fn start(desk: &Desk<'_>, files: u32, what: &str) -> Self {
        desk.write("load.py", SCRIPT);
        desk.write("spec.toml", desk.spec(&["allowed.test"], ""));
        let script = format!("{}/load.py", desk.inner);
        let line = format!(
            "ulimit -n {files}; exec ccbox run --spec {}/spec.toml -- /usr/bin/python3 {script} {what}",
            desk.inner
        );
        let mut child = desk
            .control(&["bash", "-c", &line])
            .to_command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            input,
            output,
            word: format!("{script}\0{what}"),
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn go_on(&mut self) {
        writeln!(self.input).unwrap();
    }

    /// Sockets, pipes and memory (KiB) of ccbox itself; nobody but root may look.
    fn holds(&self) -> Option<(Vec<String>, u64)> {
        let mut found = None;
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let read = |name: &str| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
            let arguments = read("cmdline");
            let is_ours = arguments.contains(&self.word)
                && fs::read_link(entry.path().join("exe")).is_ok_and(|e| e.ends_with("ccbox"))
                && arguments.contains("--spec");
            let threads = fs::read_dir(entry.path().join("task")).map_or(0, Iterator::count);
            if is_ours && threads > 1 {
                let mut files: Vec<String> = fs::read_dir(entry.path().join("fd"))
                    .ok()?
                    .map(|f| fs::read_link(f.unwrap().path()).unwrap_or_default())
                    .map(|to| to.display().to_string())
                    // What ccbox keeps of the command's processes is not of connections.
                    .filter(|to| to.starts_with("socket:") || to.starts_with("pipe:"))
                    .collect();
                files.sort();
                let status = read("status");
                let rss = status
                    .lines()
                    .find_map(|l| l.strip_prefix("VmRSS:"))
                    .unwrap();
                let rss = rss.trim().trim_end_matches(" kB").parse().unwrap();
                found = Some((files, rss));
            }
        }
        found
    }

    /// Asserts that, in a while, ccbox holds what it did before.
    fn is_back_at(&self, base: Option<(Vec<String>, u64)>) {
        let Some((files, memory)) = base else { return };
        let start = Instant::now();
        loop {
            let now = self.holds().expect("it was there before");
            if now.0.len() <= files.len() && now.1 <= memory + 8 * 1024 {
                return;
            }
            assert!(
                start.elapsed() < Duration::from_secs(15),
                "{now:?} of {files:?} {memory}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Stepped {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// With no descriptor left (EMFILE) accepting pauses; when others close, everything works again and nothing is lost.
#[test]
fn descriptors_run_out_and_come_back() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let mut run = Stepped::start(&desk, 90, "exhaust");
    assert_eq!(run.line(), "base");
    let base = run.holds();
    run.go_on();
    let opened: u32 = run.line().parse().unwrap();
    assert!(
        (5..100).contains(&opened),
        "{opened} of 120 tunnels with 90 descriptors"
    );
    run.go_on();
    assert_eq!(run.line(), "True", "it works again");
    run.is_back_at(base);
    run.go_on();
    assert!(run.child.wait().unwrap().success());
}

/// Half a request, half a handshake, an upload or download cut off, with an end or with a reset, at once or after a moment.
#[test]
fn clients_that_break_off_leave_nothing() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let mut run = Stepped::start(&desk, 1024, "rude");
    assert_eq!(run.line(), "base");
    let base = run.holds();
    run.go_on();
    assert_eq!(run.line(), "True", "it works all the same");
    run.is_back_at(base);
    run.go_on();
    assert!(run.child.wait().unwrap().success());
}

/// Two thousand short connections of every kind, from eight clients at once: each gets its answer, and nothing of them stays.
#[test]
fn many_short_connections_leave_nothing() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let mut run = Stepped::start(&desk, 1024, "short");
    assert_eq!(run.line(), "base");
    let base = run.holds();
    run.go_on();
    assert_eq!(run.line(), "0", "connections without the right answer");
    run.is_back_at(base);
    run.go_on();
    assert_eq!(run.line(), "True", "it works all the same");
    run.go_on();
    assert!(run.child.wait().unwrap().success());
}

/// Tunnels that have carried much and rest keep their sockets only, and carry on when they are used again.
#[test]
fn resting_tunnels_give_their_pipes_back() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let mut run = Stepped::start(&desk, 1024, "rest");
    assert_eq!(run.line(), "base");
    let base = run.holds();
    run.go_on();
    assert_eq!(run.line(), "20");
    if let (Some(base), Some(now)) = (&base, run.holds()) {
        assert!(now.0.len() >= base.0.len() + 20, "no pipes: {now:?}");
    }
    run.is_back_at(base);
    run.go_on();
    assert_eq!(run.line(), "20", "whole again");
    run.go_on();
    assert!(run.child.wait().unwrap().success());
}
