//! A terminal with a command in it: types, looks, changes its size.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

/// A command on a terminal of its own, of which it is the session leader.
#[derive(Debug)]
pub(crate) struct Pty {
    keyboard: File,
    path: String,
    child: Child,
    screen: Arc<Mutex<Vec<u8>>>,
    /// How much of the screen has been expected already.
    read: usize,
}

impl Pty {
    /// Starts `program ARGS…` as `command` describes it.
    pub(crate) fn spawn(command: &Command) -> Self {
        let pty = nix::pty::openpty(None, None).unwrap();
        // Only the test holds this end, or the terminal would not hang up with it.
        fcntl(&pty.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        let path = nix::unistd::ttyname(&pty.slave).unwrap();
        let end = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
        let mut session = Command::new("setsid");
        session
            .args(["--ctty", "--wait"])
            .arg(command.get_program())
            .args(command.get_args())
            .stdin(end(&pty.slave))
            .stdout(end(&pty.slave))
            .stderr(end(&pty.slave));
        if let Some(dir) = command.get_current_dir() {
            session.current_dir(dir);
        }
        session.env_clear().env("TERM", "dumb");
        session.envs(command.get_envs().filter_map(|(k, v)| Some((k, v?))));
        let child = session.spawn().unwrap();
        drop(pty.slave);
        let keyboard = File::from(pty.master);
        let screen = Arc::new(Mutex::new(Vec::new()));
        let (mut output, seen) = (keyboard.try_clone().unwrap(), Arc::clone(&screen));
        // Ends with EIO when nobody has the terminal open any more.
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(n @ 1..) = output.read(&mut part) {
                seen.lock().unwrap().extend_from_slice(&part[..n]);
            }
        });
        Self {
            keyboard,
            path: path.to_str().unwrap().to_owned(),
            child,
            screen,
            read: 0,
        }
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// All that was shown so far.
    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).replace('\r', "")
    }

    /// Waits until the text is shown behind what was expected before; the time limit only bounds a failure.
    #[track_caller]
    pub(crate) fn expect(&mut self, text: &str) {
        let limit = Instant::now() + Duration::from_secs(20);
        loop {
            let at = {
                let screen = self.screen.lock().unwrap();
                let found = screen[self.read..]
                    .windows(text.len())
                    .position(|w| w == text.as_bytes());
                found.map(|at| self.read + at + text.len())
            };
            if let Some(at) = at {
                self.read = at;
                return;
            }
            assert!(
                Instant::now() < limit,
                "never shown: `{text}` in\n{}",
                self.shown()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Changes the size, of which the kernel tells the foreground processes.
    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        let done = Command::new("stty")
            .args(["-F", &self.path, "rows"])
            .arg(rows.to_string())
            .arg("cols")
            .arg(columns.to_string())
            .status()
            .unwrap();
        assert!(done.success());
    }

    /// The exit code of the command.
    pub(crate) fn wait(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        (code, self.shown())
    }
}
