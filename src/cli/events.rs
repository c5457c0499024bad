//! `--events FILE|fd:N`, and the name of the run.

use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::Path;

use super::args::RunArgs;
use super::usage::UsageError;
use crate::exit;
use crate::policy::Policy;
use crate::report::{EventTarget, Reporter, event};
use crate::sys;
use crate::sys::inherited::Access;

/// The stream of one call and the name of the run.
#[derive(Debug)]
pub(super) struct Events {
    target: Option<EventTarget>,
    session_id: String,
}

impl Events {
    /// A descriptor is written to from the start, so that a refused spec is an event too. A file waits for [`Self::settle`]:
    /// where it may be made is known only with the plan (semantics 20).
    pub(super) fn begin(args: &RunArgs, report: &Reporter) -> Result<Self, UsageError> {
        let out = Self {
            target: args.events.as_deref().map(target).transpose()?,
            session_id: args.policy.session.clone().unwrap_or_else(fresh_session_id),
        };
        if let Some(fd @ EventTarget::Fd(_)) = &out.target {
            report.stream_events(open(fd)?, out.session_id.clone());
        }
        Ok(out)
    }

    /// The file, which joins what the command can never write.
    pub(super) fn file(&self) -> Option<&Path> {
        self.target.as_ref().and_then(EventTarget::file)
    }

    /// The name of the run.
    pub(super) fn session_id(&self) -> &str {
        &self.session_id
    }

    /// Takes the name the spec gives, and opens the file.
    pub(super) fn settle(&mut self, policy: &Policy, report: &Reporter) -> Result<(), UsageError> {
        if let Some(id) = &policy.session_id {
            self.session_id.clone_from(id);
        }
        match &self.target {
            Some(file @ EventTarget::File(_)) => {
                report.stream_events(open(file)?, self.session_id.clone());
            }
            Some(EventTarget::Fd(_)) => report.name_session(&self.session_id),
            None => {}
        }
        Ok(())
    }
}

/// Reads the option. A file that is really called `fd:3` is written `./fd:3`.
fn target(text: &OsStr) -> Result<EventTarget, UsageError> {
    let Some(number) = text.to_str().and_then(|t| t.strip_prefix("fd:")) else {
        if text.is_empty() {
            return Err(UsageError {
                message: "`--events` needs a value".to_owned(),
                hint: Some("a file, or fd:N".to_owned()),
            });
        }
        return Ok(EventTarget::File(text.into()));
    };
    match number.parse::<i32>() {
        // Standard streams belong to the command.
        Ok(n) if n > 2 => Ok(EventTarget::Fd(n)),
        _ => Err(UsageError::new(
            format!("invalid value `fd:{number}` for `--events`"),
            "N is the number of an inherited descriptor above 2",
        )),
    }
}

/// Opens the stream.
fn open(target: &EventTarget) -> Result<File, UsageError> {
    let (file, name) = match target {
        EventTarget::File(path) => (event::open_file(path), format!("`{}`", path.display())),
        EventTarget::Fd(n) => (inherited(*n), format!("descriptor {n}")),
    };
    file.map_err(|e| UsageError {
        hint: (e.raw_os_error() == Some(libc::ELOOP))
            .then(|| "events are never written through a link".to_owned()),
        message: format!("cannot open {name} for events: {}", exit::reason(&e)),
    })
}

/// A copy of the caller's descriptor, which must be open for writing.
fn inherited(n: i32) -> io::Result<File> {
    match sys::inherited::access(n)? {
        Some(Access::Write) => sys::inherited::copy(n).map(File::from),
        Some(Access::Read | Access::Path) | None => Err(io::Error::from_raw_os_error(libc::EBADF)),
    }
}

/// A name for a run that has none: 64 random bits from the standard library's hash keys, which the kernel seeds.
fn fresh_session_id() -> String {
    let random = std::hash::RandomState::new().build_hasher().finish();
    format!("run-{random:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_and_files_are_told_apart() {
        assert_eq!(target(OsStr::new("fd:9")), Ok(EventTarget::Fd(9)));
        assert_eq!(target(OsStr::new("a")), Ok(EventTarget::File("a".into())));
        assert_eq!(
            target(OsStr::new("./fd:9")),
            Ok(EventTarget::File("./fd:9".into()))
        );
        for bad in ["fd:", "fd:x", "fd:-1", "fd:0", "fd:2", "fd:99999999999", ""] {
            assert!(target(OsStr::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_open_writable_descriptors_are_taken() {
        use std::io::{Read, Write};
        use std::os::fd::AsRawFd;
        let (mut r, w) = io::pipe().unwrap();
        for n in [r.as_raw_fd(), 1_000_000] {
            assert!(open(&EventTarget::Fd(n)).is_err(), "{n}");
        }
        let mut copy = open(&EventTarget::Fd(w.as_raw_fd())).unwrap();
        copy.write_all(b"x").unwrap();
        drop((copy, w));
        let mut text = String::new();
        r.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
    }

    #[test]
    fn generated_names_are_valid_and_differ() {
        let (a, b) = (fresh_session_id(), fresh_session_id());
        assert_ne!(a, b);
        assert!(a.len() <= 64 && a.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-'));
    }
}
