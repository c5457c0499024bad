//! Outcome → exit code, event, line (R61, semantics 25, 30).

use std::ffi::OsString;
use std::path::PathBuf;

use nix::errno::Errno;

use super::{Ending, Fault, diagnose};
use crate::exit::{CANNOT_EXECUTE, Failure, NOT_FOUND};
use crate::host::HostFacts;
use crate::report::Reporter;
use crate::report::event::{Event, Origin, State};
use crate::session::Outcome;

/// Ends as the command did.
pub(super) fn of(
    outcome: Outcome,
    argv: &[OsString],
    host: &HostFacts,
    report: &Reporter,
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
        Outcome::NotStarted { errno } => {
            let name = argv.first().cloned().unwrap_or_default();
            Err(NotStarted::new(name, errno, host).into())
        }
    }
}

/// The command could not be started: 127 where it is not there, 126 where it cannot be executed (env(1)).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot run `{}`: {}", name.display(), Errno::from_raw(*errno).desc())]
pub(super) struct NotStarted {
    name: OsString,
    errno: i32,
    /// Where it stands on the host although it was not found inside.
    outside: Option<PathBuf>,
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
        let path = self.outside.as_ref()?.display();
        Some(format!(
            "`{path}` is on this host: either it is not visible inside (`--ro {path}`), or its interpreter is not"
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
    }
}
