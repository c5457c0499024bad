//! What every integration test starts from.
//!
//! A [`Box`] is a fresh directory with a workspace in it and, next to it, a spec; it runs the real binary and compares exact
//! output. Tests that need a sandbox call [`require_sandbox`] first: where none can be made they say why and pass, unless
//! `CCBOX_TEST_MUST_SANDBOX=1` is set, as in the gate.
#![allow(dead_code, reason = "each area uses a part")]

pub(crate) mod pty;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// The binary under test.
pub(crate) const CCBOX: &str = env!("CARGO_BIN_EXE_ccbox");

/// A program of the system that the tests need; the documentation of `tests/run` names its package.
pub(crate) fn program(name: &str) -> PathBuf {
    ["/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin"]
        .iter()
        .map(|d| Path::new(d).join(name))
        .find(|p| p.exists())
        .unwrap_or_else(|| panic!("the tests need `{name}`"))
}

/// True where a sandbox can be made here. Prints the reason otherwise, and fails the test where one must be made.
#[must_use]
pub(crate) fn require_sandbox() -> bool {
    static OBSTACLE: OnceLock<Option<String>> = OnceLock::new();
    let obstacle = OBSTACLE.get_or_init(|| {
        let out = Command::new(CCBOX)
            .args(["probe", "--json"])
            .output()
            .unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        let native = &answer["backends"][0];
        (native["available"] != true).then(|| format!("{} ({})", native["reason"], native["hint"]))
    });
    match obstacle {
        None => true,
        Some(why) if std::env::var_os("CCBOX_TEST_MUST_SANDBOX").is_some_and(|v| v == "1") => {
            panic!("no sandbox can be made here: {why}")
        }
        Some(why) => {
            eprintln!("not run, no sandbox can be made here: {why}");
            false
        }
    }
}

/// A fresh directory: `ws` (the workspace, the current directory of calls), `home`, `spec.toml`.
#[derive(Debug)]
pub(crate) struct Box {
    dir: tempfile::TempDir,
    env: Vec<(OsString, OsString)>,
}

impl Box {
    /// With an empty workspace and home, and no spec.
    #[must_use]
    pub(crate) fn new() -> Self {
        // Outside /tmp: the sandbox has its own there.
        let base = ["/var/tmp", "/tmp"]
            .iter()
            .find(|d| Path::new(d).is_dir())
            .unwrap();
        let dir = tempfile::Builder::new()
            .prefix("ccbox-it-")
            .tempdir_in(base)
            .unwrap();
        for name in ["ws", "home", "config", "state"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self {
            dir,
            env: Vec::new(),
        }
    }

    /// The fresh directory.
    #[must_use]
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The workspace.
    #[must_use]
    pub(crate) fn ws(&self) -> PathBuf {
        self.dir.path().join("ws")
    }

    /// Writes the spec; `@T@` becomes the fresh directory.
    #[must_use]
    pub(crate) fn spec(self, text: &str) -> Self {
        let text = text.replace("@T@", self.path().to_str().unwrap());
        std::fs::write(self.path().join("spec.toml"), text).unwrap();
        self
    }

    /// A spec with the workspace writable and nothing else.
    #[must_use]
    pub(crate) fn workspace_spec(self) -> Self {
        self.spec("[[bind_mounts]]\nhost_path = \"@T@/ws\"\n")
    }

    /// Sets a variable for the calls.
    #[must_use]
    pub(crate) fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Any call of ccbox, in the workspace, with a small clean environment.
    #[must_use]
    pub(crate) fn ccbox<A: AsRef<OsStr>>(&self, args: &[A]) -> Command {
        let mut c = Command::new(CCBOX);
        c.args(args)
            .current_dir(self.ws())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.path().join("home"))
            .env("XDG_CONFIG_HOME", self.path().join("config"))
            .env("XDG_STATE_HOME", self.path().join("state"))
            .envs(self.env.iter().map(|(k, v)| (k, v)))
            .stdin(Stdio::null());
        c
    }

    /// `ccbox run --spec spec.toml -- ARGV`.
    #[must_use]
    pub(crate) fn run<A: AsRef<OsStr>>(&self, command: &[A]) -> Ran {
        let mut args: Vec<OsString> = vec![
            "run".into(),
            "--spec".into(),
            self.path().join("spec.toml").into(),
            "--".into(),
        ];
        args.extend(command.iter().map(|a| a.as_ref().to_owned()));
        Ran::of(&mut self.ccbox(&args))
    }

    /// Any call, to its end.
    #[must_use]
    pub(crate) fn call<A: AsRef<OsStr>>(&self, args: &[A]) -> Ran {
        Ran::of(&mut self.ccbox(args))
    }
}

/// What a finished call left.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Exit code, or 128 + the signal.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

impl Ran {
    /// Runs a command to its end.
    #[must_use]
    pub(crate) fn of(command: &mut Command) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let Output {
            status,
            stdout,
            stderr,
        } = command.output().unwrap();
        Self {
            code: status
                .code()
                .unwrap_or_else(|| 128 + status.signal().unwrap()),
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        }
    }

    /// Fails unless all three are exactly so.
    #[track_caller]
    pub(crate) fn expect(&self, code: i32, stdout: &str, stderr: &str) {
        assert_eq!(
            (self.code, self.stdout.as_str(), self.stderr.as_str()),
            (code, stdout, stderr)
        );
    }

    /// Fails unless it is an own failure: the code, an empty stdout, exactly one line on stderr with these words in it.
    #[track_caller]
    pub(crate) fn expect_own_failure(&self, code: i32, words: &[&str]) {
        assert_eq!(
            (self.code, self.stdout.as_str()),
            (code, ""),
            "{}",
            self.stderr
        );
        let lines: Vec<&str> = self.stderr.lines().collect();
        assert_eq!(lines.len(), 1, "{}", self.stderr);
        assert!(lines[0].starts_with("ccbox: error: "), "{}", self.stderr);
        for w in words {
            assert!(lines[0].contains(w), "`{w}` in {}", lines[0]);
        }
    }
}
