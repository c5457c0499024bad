//! git inside (R34, linux-engine-2.md §7): everyday work gives what it gives outside, and nothing that the host's git would
//! run or believe gets in.
//!
//! Each flow and each attack is a script. It is run outside first, in a place of its own: that is the control. Then it is
//! run inside in another place, and the host's git looks at both.

mod attacks;
mod flows;
mod places;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{self, Ran, require_sandbox};

/// Start of every script.
const LIB: &str = include_str!("lib.sh");

const SHA256: &str = "--object-format=sha256";
const REFTABLE: &str = "--ref-format=reftable";

/// One installed git and one kind of repository.
#[derive(Debug, Clone)]
struct Kind {
    /// The directory of the program.
    bin: &'static str,
    /// Options of `git init`.
    format: &'static str,
}

/// Every installed git of another version, with each format it knows.
fn kinds() -> Vec<Kind> {
    let mut versions = Vec::new();
    let mut kinds = Vec::new();
    for bin in ["/usr/bin", "/usr/local/bin"] {
        let git = Path::new(bin).join("git");
        let Ok(out) = Command::new(&git).arg("--version").output() else {
            continue;
        };
        if versions.contains(&out.stdout) {
            continue;
        }
        versions.push(out.stdout);
        let dir = tempfile::tempdir().unwrap();
        for format in ["", SHA256, REFTABLE] {
            let knows = Command::new(&git)
                .args(["init", "-q"])
                .args(format.split_whitespace())
                .arg(dir.path().join("x"))
                .env_clear()
                .stderr(Stdio::null())
                .status()
                .unwrap();
            let _ = std::fs::remove_dir_all(dir.path().join("x"));
            if knows.success() {
                kinds.push(Kind { bin, format });
            }
        }
    }
    assert!(!kinds.is_empty(), "no git is installed");
    kinds
}

/// A place on the host with a workspace, and a sandbox in which the workspace alone is writable.
#[derive(Debug)]
struct Place {
    desk: support::Box,
    kind: Kind,
}

impl Place {
    fn new(kind: &Kind) -> Self {
        Self {
            desk: support::Box::new().workspace_spec(),
            kind: kind.clone(),
        }
    }

    fn ws(&self) -> PathBuf {
        self.desk.ws()
    }

    /// `sh -c`: the common start, then the script. `T` is the place, `FMT` the options of `git init`.
    fn shell(&self, script: &str) -> [String; 3] {
        let t = self.desk.path().display();
        let Kind { bin, format } = &self.kind;
        let head = format!("PATH={bin}:/usr/bin:/bin T={t} FMT='{format}'\nexport PATH T FMT\n");
        [
            "/bin/sh".into(),
            "-c".into(),
            format!("{head}{LIB}\n{script}\n"),
        ]
    }

    /// The script in the workspace, as it is.
    fn outside(&self, script: &str) -> Ran {
        let argv = self.shell(script);
        Ran::of(
            Command::new(&argv[0])
                .args(&argv[1..])
                .current_dir(self.ws())
                .env_clear()
                .env("HOME", self.desk.path().join("home"))
                .stdin(Stdio::null()),
        )
    }

    /// The same in the sandbox.
    fn inside(&self, script: &str) -> Ran {
        self.desk.run(&self.shell(script))
    }
}

/// One test a format, so that they run beside each other.
fn every(format: &str, all: fn(&Kind)) {
    if !require_sandbox() {
        return;
    }
    for kind in kinds().iter().filter(|k| k.format == format) {
        all(kind);
    }
}

/// Fails unless it ended well; answers its standard output.
#[track_caller]
fn well(ran: Ran, what: &str) -> String {
    assert_eq!(ran.code, 0, "{what}\n{}\n{}", ran.stdout, ran.stderr);
    ran.stdout
}
