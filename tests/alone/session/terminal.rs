//! The terminal is the caller's, before, during and after (TY-2 to TY-6, D8).

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::Case;
use crate::support::{Dir, EVERY, eventually, exe, marked, survivors};

pub(crate) const CASES: &[Case] = &[
    ("job control inside", job_control),
    ("the caller owns the terminal afterwards", handed_back),
    ("Ctrl-Z, fg and Ctrl-C outside", suspended),
    (
        "suspend of the shell inside is seen outside",
        suspend_inside,
    ),
    ("Ctrl-C ends the caller's loop", interrupted_loop),
    ("streams are terminals where the caller's are", same_streams),
    ("window size changes arrive", window_size),
    ("a background run is not stopped for writing", background),
    ("no terminal at all", no_terminal),
    ("hang-up ends the run", hang_up),
];

/// An interactive shell with a prompt of its own, which a plain `bash -c` above would have unset.
const SHELL: &str = "env PS1='inside> ' bash --norc -i";

/// A command on a terminal of its own.
pub(crate) struct Tty {
    master: std::fs::File,
    pub(crate) path: String,
    child: Child,
    /// What came and was not expected yet.
    unread: Vec<u8>,
    seen: Vec<u8>,
}

impl Tty {
    /// A shell line, the terminal being its controlling one.
    pub(crate) fn new(dir: &Path, line: &str) -> Self {
        let pty = nix::pty::openpty(None, None).unwrap();
        // Only we may hold the terminal's other side, or it could not hang up.
        nix::fcntl::fcntl(&pty.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        let path = nix::unistd::ttyname(&pty.slave).unwrap();
        let path = path.to_str().unwrap().to_owned();
        let copy = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
        let child = Command::new("setsid")
            .args(["--ctty", "--wait", "bash", "--norc", "-c", line])
            .env("TERM", "dumb")
            .current_dir(dir)
            .stdin(copy(&pty.slave))
            .stdout(copy(&pty.slave))
            .stderr(copy(&pty.slave))
            .spawn()
            .unwrap();
        drop(pty.slave);
        Self {
            master: pty.master.into(),
            path,
            child,
            unread: Vec::new(),
            seen: Vec::new(),
        }
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads until `text` has come.
    fn expect(&mut self, text: &str) {
        assert!(
            self.sees(text, Duration::from_secs(20)),
            "no {text:?} in {:?}",
            String::from_utf8_lossy(&self.seen)
        );
    }

    /// Reads until `text` has come, or for so long.
    fn sees(&mut self, text: &str, wait: Duration) -> bool {
        let limit = Instant::now() + wait;
        loop {
            let found = self
                .unread
                .windows(text.len())
                .position(|w| w == text.as_bytes());
            if let Some(at) = found {
                self.unread.drain(..at + text.len());
                return true;
            }
            if !self.read(Duration::from_millis(100)) && Instant::now() >= limit {
                return false;
            }
        }
    }

    /// Ctrl-Z, until the shell outside says so. On macOS one that comes while ccbox itself goes on is taken for the stop before it, and
    /// the command goes on as well.
    fn stop(&mut self, way: &[&str]) {
        let presses = if way.contains(&"--seatbelt") { 20 } else { 1 };
        let wait = Duration::from_secs(20 / presses);
        let stopped = (0..presses).any(|_| {
            self.press("\x1a");
            self.sees("Stopped", wait)
        });
        assert!(stopped, "{:?}", String::from_utf8_lossy(&self.seen));
    }

    /// Reads once; whether anything came.
    fn read(&mut self, wait: Duration) -> bool {
        let mut set = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(wait).unwrap();
        if poll(&mut set, timeout).unwrap() == 0 {
            return false;
        }
        let mut bytes = [0; 4096];
        match nix::unistd::read(&self.master, &mut bytes) {
            Ok(n) if n > 0 => {
                self.unread.extend(&bytes[..n]);
                self.seen.extend(&bytes[..n]);
                true
            }
            // EIO: the other side is closed.
            Ok(_) | Err(_) => {
                std::thread::sleep(Duration::from_millis(5));
                false
            }
        }
    }

    /// Waits for the end; the code and everything that was shown.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let limit = Instant::now() + Duration::from_secs(20);
        let status = loop {
            self.read(Duration::from_millis(10));
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(
                Instant::now() < limit,
                "does not end: {:?}",
                String::from_utf8_lossy(&self.seen)
            );
        };
        while self.read(Duration::from_millis(10)) {}
        (
            status.code(),
            String::from_utf8_lossy(&self.seen).replace('\r', ""),
        )
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn line(way: &[&str], command: &str) -> String {
    format!(
        "{} box {} -- {}",
        exe().display(),
        way.join(" "),
        marked(command)
    )
}

fn runs(marker: &str) {
    eventually(marker, || {
        survivors(u32::MAX, marker)
            .iter()
            .any(|l| l.contains("(sleep "))
    });
}

/// Waits until the command runs and its process group has the terminal. Shells say `fg` before both, and give the terminal away before
/// they continue the group: a stop in between is wiped out. The processes above the command sleep all the time.
fn has_terminal(marker: &str) {
    eventually(marker, || {
        let all = survivors(u32::MAX, marker);
        let name = format!("({} ", marker.split(' ').next().unwrap());
        all.iter().filter(|l| l.contains(&name)).any(|l| {
            let pid = l.split(' ').next().unwrap();
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
            // state, ppid, pgrp, session, tty, tpgid
            matches!(fields.as_slice(), ["S", _, group, _, _, foreground, ..] if group == foreground)
        })
    });
}

fn job_control() {
    let dir = Dir::new();
    for way in EVERY {
        let mut tty = Tty::new(&dir.0, &line(way, SHELL));
        tty.expect("inside> ");
        tty.press(&marked("sleep 4301"));
        tty.press("\r");
        runs("sleep 4301");
        tty.press("\x1a");
        tty.expect("Stopped");
        tty.press("jobs\r");
        tty.expect("sleep 4301");
        tty.press("fg\r");
        has_terminal("sleep 4301");
        tty.press("\x03");
        tty.expect("inside> ");
        tty.press("echo rc=$?\r");
        tty.expect("rc=130");
        tty.press("exit 3\r");
        let (code, shown) = tty.end();
        assert_eq!(code, Some(3), "{way:?}");
        assert!(!shown.contains("no job control"), "{shown}");
    }
}

fn handed_back() {
    let dir = Dir::new();
    for way in EVERY {
        for end in ["exit\r", "kill -9 $$\r", "\x04"] {
            let text = format!("{}; read -p 'after> ' x; echo got:$x", line(way, SHELL));
            let mut tty = Tty::new(&dir.0, &text);
            tty.expect("inside> ");
            tty.press(end);
            tty.expect("after> ");
            tty.press("hello\r");
            tty.expect("got:hello");
            assert_eq!(tty.end().0, Some(0), "{way:?}");
        }
    }
}

/// An interactive shell outside.
fn outside(dir: &Path) -> Tty {
    let mut tty = Tty::new(dir, "PS1='out$ ' exec bash --norc -i");
    tty.expect("out$ ");
    tty
}

fn suspended() {
    let dir = Dir::new();
    for way in EVERY {
        let mut tty = outside(&dir.0);
        tty.press(&format!("{}\r", line(way, "sleep 4302")));
        runs("sleep 4302");
        for _ in 0..2 {
            tty.stop(way);
            tty.expect("out$ ");
            tty.press("fg\r");
            has_terminal("sleep 4302");
        }
        tty.press("\x03");
        tty.expect("out$ ");
        tty.press("echo rc=$?\r");
        tty.expect("rc=130");
        tty.expect("out$ ");
        tty.press("exit 0\r");
        assert_eq!(tty.end().0, Some(0), "{way:?}");
    }
}

fn suspend_inside() {
    let dir = Dir::new();
    for way in EVERY {
        let mut tty = outside(&dir.0);
        tty.press(&format!("{}\r", line(way, SHELL)));
        tty.expect("\r\ninside> ");
        tty.press("suspend\r");
        tty.expect("Stopped");
        tty.expect("out$ ");
        tty.press("echo between\r");
        tty.expect("between\r\n");
        tty.expect("out$ ");
        tty.press("fg\r");
        tty.expect("inside> ");
        tty.press("echo back\r");
        tty.expect("back\r\n");
        tty.expect("inside> ");
        tty.press("exit\r");
        tty.expect("out$ ");
        tty.press("exit 0\r");
        assert_eq!(tty.end().0, Some(0), "{way:?}");
    }
}

fn interrupted_loop() {
    let dir = Dir::new();
    for way in EVERY {
        let text = format!(
            "for i in 1 2 3; do {}; done; echo survived",
            line(way, "sleep 4303")
        );
        let tty = &mut Tty::new(&dir.0, &text);
        runs("sleep 4303");
        tty.press("\x03");
        eventually("the loop's end", || tty.child.try_wait().unwrap().is_some());
        tty.read(Duration::from_millis(50));
        assert!(
            !String::from_utf8_lossy(&tty.seen).contains("survived"),
            "{way:?}"
        );
        assert!(survivors(u32::MAX, "sleep 4303").is_empty(), "{way:?}");
    }
}

fn same_streams() {
    let dir = Dir::new();
    for way in EVERY {
        let check = r#"sh -c 'for f in 0 1 2; do if test -t $f; then r="$r$f tty "; else r="$r$f no "; fi; done; echo "$r$(stty size </dev/tty)" >&2'"#;
        let mut tty = Tty::new(
            &dir.0,
            &format!("stty rows 21 cols 77; {}", line(way, check)),
        );
        tty.expect("0 tty 1 tty 2 tty 21 77");
        assert_eq!(tty.end().0, Some(0));
        let mut tty = Tty::new(&dir.0, &format!("{} < /dev/null | cat", line(way, check)));
        tty.expect("0 no 1 no 2 tty");
        assert_eq!(tty.end().0, Some(0), "{way:?}");
    }
}

fn window_size() {
    let dir = Dir::new();
    for way in EVERY {
        let text = r#"bash -c 'trap w=1 WINCH; echo set; until [ -e stop ]; do [ "$w" ] && w= && stty size; sleep 0.02; done'"#;
        let mut tty = Tty::new(&dir.0, &line(way, text));
        tty.expect("set");
        let path = tty.path.clone();
        let resize = |what: [&str; 2]| {
            let status = Command::new("stty").args(["-F", &path]).args(what).status();
            assert!(status.unwrap().success());
        };
        resize(["rows", "33"]);
        tty.expect("33 0");
        resize(["cols", "111"]);
        tty.expect("33 111");
        std::fs::write(dir.0.join("stop"), "").unwrap();
        assert_eq!(tty.end().0, Some(0), "{way:?}");
        std::fs::remove_file(dir.0.join("stop")).unwrap();
    }
}

fn background() {
    let dir = Dir::new();
    for way in EVERY {
        let mut tty = outside(&dir.0);
        tty.press("stty tostop\r");
        tty.expect("out$ ");
        tty.press(&format!("{} &\r", line(way, "sh -c 'sleep 0.2; exit 5'")));
        tty.expect("out$ ");
        tty.press("wait %1; echo rc=$?\r");
        tty.expect("rc=5\r\n");
        // And one that reads is stopped, as it would be.
        tty.press(&format!("{} &\r", line(way, "cat -u -- - /dev/null")));
        tty.expect("out$ ");
        tty.press("until jobs | grep -q Stopped; do :; done; jobs\r");
        tty.expect("Stopped");
        tty.press("fg\r");
        has_terminal("cat -u");
        tty.press("echoed\r\x04");
        tty.expect("echoed\r\nechoed\r\n");
        tty.expect("out$ ");
        tty.press("exit 0\r");
        assert_eq!(tty.end().0, Some(0), "{way:?}");
    }
}

fn no_terminal() {
    let dir = Dir::new();
    for way in EVERY {
        let out = Command::new("setsid")
            .args([
                "--wait",
                "bash",
                "-c",
                &line(way, "sh -c 'echo ok; : < /dev/tty'"),
            ])
            .current_dir(&dir.0)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(
            out.stdout,
            b"ok\n",
            "{way:?} {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
}

fn hang_up() {
    let dir = Dir::new();
    for way in EVERY {
        let mut tty = Tty::new(
            &dir.0,
            &line(
                way,
                "bash -c 'trap \"touch hup; exit\" HUP; echo set; sleep 4304 & wait'",
            ),
        );
        tty.expect("set");
        let hup = dir.0.join("hup");
        // Closing the master hangs the terminal up.
        tty.master = std::fs::File::open("/dev/null").unwrap();
        eventually("SIGHUP arrives", || hup.exists());
        eventually("the end", || survivors(u32::MAX, "sleep 4304").is_empty());
        std::fs::remove_file(hup).unwrap();
    }
}
