//! The installed gits, for tests: a directory without configuration of its own, and git calls in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// One installed git and a scratch directory that is removed with it.
#[derive(Debug)]
pub(super) struct Git {
    program: PathBuf,
    dir: tempfile::TempDir,
}

impl Git {
    /// Every git of another version on this machine; readers of one syntax differ between versions.
    pub(super) fn all() -> Vec<Self> {
        let mut versions = Vec::new();
        let mut found = Vec::new();
        for dir in ["/usr/local/bin", "/usr/bin", "/opt/homebrew/bin"] {
            let program = Path::new(dir).join("git");
            let Ok(out) = Command::new(&program).arg("--version").output() else {
                continue;
            };
            if !versions.contains(&out.stdout) {
                versions.push(out.stdout);
                found.push(Self {
                    program,
                    dir: tempfile::tempdir().unwrap(),
                });
            }
        }
        assert!(!found.is_empty(), "no git is installed");
        found
    }

    /// The scratch directory.
    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// `git args…` in `dir` below the scratch directory, untouched by the caller's own settings.
    pub(super) fn command(&self, dir: &str, args: &[&str]) -> Command {
        let mut git = Command::new(&self.program);
        git.current_dir(self.dir().join(dir))
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.dir().join("no-home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CEILING_DIRECTORIES", "/")
            .env("GIT_AUTHOR_NAME", "n")
            .env("GIT_AUTHOR_EMAIL", "e@x")
            .env("GIT_COMMITTER_NAME", "n")
            .env("GIT_COMMITTER_EMAIL", "e@x")
            .args(["-c", "protocol.file.allow=always"])
            .args(args);
        git
    }

    pub(super) fn output(&self, dir: &str, args: &[&str]) -> Output {
        self.command(dir, args).output().unwrap()
    }

    /// Runs and insists on success, but for an option this git does not have yet.
    pub(super) fn run(&self, dir: &str, args: &[&str]) {
        let out = self.output(dir, args);
        let err = String::from_utf8_lossy(&out.stderr);
        assert!(
            out.status.success() || err.contains("unknown option"),
            "{} {args:?}: {err}",
            self.program.display()
        );
    }

    /// `git config --list -z` of these bytes; `None` where git refuses the file.
    pub(super) fn list(&self, file: &[u8]) -> Option<Vec<u8>> {
        std::fs::write(self.dir().join("config"), file).unwrap();
        let out = self.output(
            ".",
            &[
                "config",
                "--file",
                "config",
                "--no-includes",
                "--list",
                "-z",
            ],
        );
        out.status.success().then_some(out.stdout)
    }

    /// Every `config` and `config.worktree` of a git directory below the scratch directory.
    pub(super) fn configs(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut dirs = vec![self.dir().to_path_buf()];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(&dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.is_symlink() {
                    dirs.push(path);
                } else if (path.ends_with("config") || path.ends_with("config.worktree"))
                    && dir.join("HEAD").exists()
                {
                    found.push(path);
                }
            }
        }
        found.sort();
        found
    }
}
