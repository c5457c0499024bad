//! Outcome → exit code, event, line (R61, semantics 25, 30).

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::{Ending, Fault, diagnose};
use crate::exit::{CANNOT_EXECUTE, Failure, NOT_FOUND};
use crate::host::{HostFacts, RealFs};
use crate::plan::{self, Plan};
use crate::report::Reporter;
use crate::report::event::{Event, Origin, State};
use crate::session::Outcome;

/// Ends as the command did.
pub(super) fn of(
    outcome: Outcome,
    argv: &[OsString],
    host: &HostFacts,
    report: &Reporter,
    plan: Option<&Plan>,
) -> Result<Ending, Fault> {
    match outcome {
        Outcome::Exited(code) => {
            report.event(&Event::Exit {
                state: State::Destroyed,
                exit_code: code,
                origin: Origin::Command,
            });
            Ok(Ending::Code(code))
        }
        Outcome::Signalled(n) => {
            report.event(&Event::Killed {
                state: State::Destroyed,
                signal: n,
                reason: "signal",
            });
            Ok(Ending::Signal(n))
        }
        Outcome::Limited { limit, signal } => {
            report.event(&Event::Killed {
                state: State::Destroyed,
                signal,
                reason: limit.word(),
            });
            Ok(Ending::Signal(signal))
        }
        Outcome::NotStarted { errno } => {
            let name = argv.first().cloned().unwrap_or_default();
            let mut error = NotStarted::new(name, errno, host);
            error.closed = plan.and_then(|plan| closed(plan, &error));
            Err(error.into())
        }
    }
}

/// Where the command's program stands, if `exec.deny_writable` keeps it from being executed.
fn closed(plan: &Plan, error: &NotStarted) -> Option<PathBuf> {
    let rule = plan.exec.as_ref().filter(|_| error.errno == libc::EACCES)?;
    let named = Path::new(&error.name);
    let path = plan::real_path(&RealFs, &plan.cwd.join(named));
    (named.components().count() > 1 && rule.denies(&path)).then_some(path)
}

/// The command could not be started: 127 where it is not there, 126 where it cannot be executed (env(1)).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot run `{}`: {}", name.display(), Errno::from_raw(*errno).desc())]
pub(super) struct NotStarted {
    name: OsString,
    errno: i32,
    /// Where it stands on the host although it was not found inside.
    outside: Option<PathBuf>,
    /// Where it stands, if a rule about writable places keeps it from being executed.
    closed: Option<PathBuf>,
}

impl NotStarted {
    pub(super) fn new(name: OsString, errno: i32, host: &HostFacts) -> Self {
        let outside = (errno == libc::ENOENT)
            .then(|| diagnose::on_host(&name, host))
            .flatten();
        Self {
            name,
            errno,
            outside,
            closed: None,
        }
    }
}

impl Failure for NotStarted {
    fn exit_code(&self) -> u8 {
        if self.errno == libc::ENOENT {
            NOT_FOUND
        } else {
            CANNOT_EXECUTE
        }
    }

    fn hint(&self) -> Option<String> {
        if let Some(path) = &self.closed {
            let path = path.display();
            return Some(format!(
                "the command can write `{path}`, and `exec.deny_writable` keeps it from being executed; exec_grant_roots = [\"{path}\"] opens it"
            ));
        }
        let Some(path) = self.outside.as_ref() else {
            let words = self.errno == libc::ENOENT && self.name.as_bytes().contains(&b' ');
            return words.then(|| {
                "this is one word and no shell reads it: leave out the quotes around it, or write `sh -c` before it".to_owned()
            });
        };
        // Of a program found on PATH the directory, where the programs it calls are: cargo needs rustc.
        let shown = if self.name.as_bytes().contains(&b'/') {
            path
        } else {
            path.parent()?
        };
        Some(format!(
            "`{}` is on this host: either it is not visible inside (`--ro {}`, and what else it needs), or its interpreter is not",
            path.display(),
            shown.display()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(errno: i32) -> NotStarted {
        NotStarted {
            name: "no-such".into(),
            errno,
            outside: None,
            closed: None,
        }
    }

    #[test]
    fn own_codes_are_those_of_env() {
        for (errno, code) in [
            (libc::ENOENT, 127),
            (libc::EACCES, 126),
            (libc::ENOEXEC, 126),
            (libc::ENOTDIR, 126),
            (libc::E2BIG, 126),
        ] {
            assert_eq!(failed(errno).exit_code(), code);
        }
        assert_eq!(
            failed(libc::ENOENT).to_string(),
            "cannot run `no-such`: No such file or directory"
        );
        assert_eq!(failed(libc::ENOENT).hint(), None);
        let line = NotStarted {
            name: "make test".into(),
            ..failed(libc::ENOENT)
        };
        assert!(line.hint().unwrap().contains("`sh -c`"));
    }
}
