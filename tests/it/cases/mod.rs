//! Known ways in which wrappers of this kind fail, one test a case; `README.md` beside this file says which test holds which.
//!
//! A case is a few shell steps on the host around calls of ccbox: `$R` runs a command in `ws`, `$RH` where the step stands. They run
//! as an ordinary user and as uid 0, because root is the normal user of a container.

mod broker_absent;
mod cleanup;
mod config;
mod container;
mod credentials;
mod env;
mod fs_read;
mod fs_write;
mod full;
mod glob;
mod imports;
mod neighbours;
mod sockets;
mod symlink;
mod ways;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::escape::{Caller, callers, ordinary};
use crate::support::require_sandbox;

/// Steps that take longer than this hang.
const TIME_LIMIT: &str = "60";

/// `$L WHAT COMMAND...`: the command where the kernel lacks something.
const LACKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/cases/lacks.py");

/// `$T` with `ws` and `spec.toml` in it; `home` and the binary lie beside it.
#[derive(Debug)]
pub(crate) struct Case {
    dir: tempfile::TempDir,
    pub(crate) caller: Caller,
}

/// One for every caller; none where no sandbox can be made and that is no failure.
pub(crate) fn cases() -> Vec<Case> {
    if !require_sandbox() {
        return Vec::new();
    }
    callers().into_iter().map(Case::new).collect()
}

impl Case {
    fn new(caller: Caller) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let case = Self { dir, caller };
        for name in ["bin", "home", "t", "t/ws"] {
            let path = case.dir.path().join(name);
            fs::create_dir(&path).unwrap();
            case.give(&path);
        }
        fs::copy(crate::support::CCBOX, case.dir.path().join("bin/ccbox")).unwrap();
        case
    }

    fn t(&self) -> PathBuf {
        self.dir.path().join("t")
    }

    pub(crate) fn ids(&self) -> (u32, u32) {
        match self.caller {
            Caller::User => ordinary(),
            Caller::Root => (0, 0),
        }
    }

    fn give(&self, path: &Path) {
        if nix::unistd::geteuid().is_root() {
            let (uid, gid) = self.ids();
            chown(path, Some(uid), Some(gid)).unwrap();
        }
    }

    /// Writes `$T/spec.toml` as it is; `@T@` becomes `$T`.
    fn raw_spec(&self, text: &str) -> &Self {
        let path = self.t().join("spec.toml");
        fs::write(&path, text.replace("@T@", self.t().to_str().unwrap())).unwrap();
        self.give(&path);
        self
    }

    /// The usual spec: network off, host view, `$T` read-only, `ws` writable. `top` are top-level lines, `files` lines of
    /// `[filesystem]`, `more` is what follows the binds.
    pub(crate) fn spec(&self, top: &str, files: &str, more: &str) -> &Self {
        self.raw_spec(&format!(
            "network_enabled = false\n{top}\n\
             [[bind_mounts]]\nhost_path = \"@T@\"\nread_only = true\n\
             [[bind_mounts]]\nhost_path = \"@T@/ws\"\n{more}\n\
             [filesystem]\nview = \"host\"\n{files}\n"
        ))
    }

    /// Runs steps in `$T` as the caller.
    pub(crate) fn steps(&self, script: &str) -> Done {
        let (uid, gid) = self.ids();
        let mut command = self.bash(script);
        if nix::unistd::geteuid().is_root() {
            command.uid(uid).gid(gid);
        }
        Done::of(command)
    }

    /// The same steps without ccbox, `$R` and `$RH` being nothing but the directory: what they do then. Leaves `$T` as it was new.
    fn control(&self, script: &str) -> Done {
        let (uid, gid) = self.ids();
        let mut command = self.bash(script);
        let r = format!("env -C {}/ws", self.t().display());
        command.env("R", r).env("RH", "env");
        if nix::unistd::geteuid().is_root() {
            command.uid(uid).gid(gid);
        }
        let done = Done::of(command);
        for entry in fs::read_dir(self.t()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                fs::remove_dir_all(path).unwrap();
            } else if !path.ends_with("spec.toml") {
                fs::remove_file(path).unwrap();
            }
        }
        fs::create_dir(self.t().join("ws")).unwrap();
        self.give(&self.t().join("ws"));
        done
    }

    /// Runs steps as the user of the tests, who may prepare what the caller cannot; `$AS` starts a command as the caller.
    pub(crate) fn root_steps(&self, script: &str) -> Done {
        Done::of(self.bash(script))
    }

    fn bash(&self, script: &str) -> Command {
        let (uid, gid) = self.ids();
        let (t, base) = (self.t(), self.dir.path());
        let (t, base) = (t.to_str().unwrap(), base.to_str().unwrap());
        let mut command = Command::new("timeout");
        command
            .args(["--foreground", "-k", "1", TIME_LIMIT, "bash", "-c", script])
            .env_clear()
            .env(
                "PATH",
                format!("{base}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"),
            )
            .env("HOME", format!("{base}/home"))
            .env("T", t)
            .env(
                "R",
                format!("env -C {t}/ws ccbox run --spec {t}/spec.toml --"),
            )
            .env("RH", format!("ccbox run --spec {t}/spec.toml --"))
            .env("L", format!("python3 {LACKS}"))
            .env(
                "AS",
                format!("setpriv --reuid={uid} --regid={gid} --clear-groups"),
            )
            .env("LC_ALL", "C.UTF-8")
            .current_dir(t)
            .stdin(Stdio::null());
        command
    }
}

/// What finished steps left.
#[derive(Debug)]
pub(crate) struct Done {
    out: String,
    pub(crate) err: String,
}

impl Done {
    fn of(mut command: Command) -> Self {
        let output = command.output().unwrap();
        Self {
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Standard output.
    pub(crate) fn out(&self) -> &str {
        &self.out
    }

    /// Fails unless standard output is exactly so.
    #[track_caller]
    pub(crate) fn prints(&self, out: &str) -> &Self {
        assert_eq!(self.out, out, "{}", self.err);
        self
    }

    /// Fails unless a line on stderr starts with `ccbox:` and holds all these words.
    #[track_caller]
    pub(crate) fn says(&self, words: &[&str]) -> &Self {
        let line = |l: &&str| l.starts_with("ccbox:") && words.iter().all(|w| l.contains(w));
        assert!(
            self.err.lines().any(|l| line(&l)),
            "{words:?} in {}",
            self.err
        );
        self
    }

    /// Fails unless nothing on stderr is ccbox's.
    #[track_caller]
    pub(crate) fn says_nothing(&self) -> &Self {
        assert!(!self.err.contains("ccbox:"), "{}", self.err);
        self
    }

    /// Fails unless stderr is one line of ccbox that holds all these words.
    #[track_caller]
    pub(crate) fn refuses(&self, words: &[&str]) -> &Self {
        assert_eq!(self.err.lines().count(), 1, "{}", self.err);
        assert!(self.err.starts_with("ccbox: error: "), "{}", self.err);
        self.says(words)
    }
}
