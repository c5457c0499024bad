//! `--events FILE|fd:N`, and the name of the run.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use clap::Args;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

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
    streaming: bool,
}

impl Events {
    /// A descriptor is written to from the start, so that a refused spec is an event too. A file waits for [`Self::settle`]:
    /// where it may be made is known only with the plan (semantics 20).
    pub(super) fn begin(args: &RunArgs, report: &Reporter) -> Result<Self, UsageError> {
        Self::named(args.events.as_deref(), args.policy.session.clone(), report)
    }

    /// The stream of a call that could not be understood, as far as its options tell.
    pub(super) fn of_refused(argv: &[OsString], report: &Reporter) {
        let typed = Typed::read(argv);
        if let Ok(events) = Self::named(typed.events.as_deref(), typed.session, report) {
            events.tell_failure(report);
        }
    }

    fn named(
        to: Option<&OsStr>,
        session: Option<String>,
        report: &Reporter,
    ) -> Result<Self, UsageError> {
        let mut out = Self {
            target: to.map(target).transpose()?,
            session_id: session.unwrap_or_else(fresh_session_id),
            streaming: false,
        };
        if let Some(fd @ EventTarget::Fd(_)) = &out.target {
            report.stream_events(open(fd)?, out.session_id.clone());
            out.streaming = true;
        }
        Ok(out)
    }

    /// Somebody reads them.
    pub(super) fn wanted(&self) -> bool {
        self.target.is_some()
    }

    /// A failure before [`Self::settle`] reaches the file too, where no link stands anywhere on the way to it: without a plan
    /// nobody knows which of them the command of an earlier run could have planted.
    pub(super) fn tell_failure(&self, report: &Reporter) {
        if self.streaming {
            return;
        }
        if let Some(file) = self.file()
            && let Ok(file) = beyond_links(file)
        {
            report.stream_events(file, self.session_id.clone());
        }
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
        self.open(report)
    }

    /// Opens the file under the name the run has by now.
    pub(super) fn open(&mut self, report: &Reporter) -> Result<(), UsageError> {
        match &self.target {
            Some(file @ EventTarget::File(_)) => {
                report.stream_events(open(file)?, self.session_id.clone());
            }
            Some(EventTarget::Fd(_)) => report.name_session(&self.session_id),
            None => {}
        }
        self.streaming = true;
        Ok(())
    }
}

/// The options of `run` that say where events go, read where clap reads none because another one is wrong.
#[derive(Debug, Default, PartialEq, Eq)]
struct Typed {
    events: Option<OsString>,
    session: Option<String>,
}

impl Typed {
    fn read(argv: &[OsString]) -> Self {
        let mut out = Self::default();
        let Some((_, rest)) = argv
            .split_first()
            .filter(|(_, r)| r.first().is_some_and(|a| a == "run"))
        else {
            return out;
        };
        let options = RunArgs::augment_args(clap::Command::new("run"));
        let valued = |is: &dyn Fn(&clap::Arg) -> bool| {
            options
                .get_arguments()
                .any(|a| is(a) && a.get_action().takes_values())
        };
        let mut rest = rest.iter().skip(1);
        while let Some(arg) = rest.next() {
            let bytes = arg.as_bytes();
            let Some(option) = bytes
                .strip_prefix(b"-")
                .filter(|o| !o.is_empty() && *o != b"-")
            else {
                // What follows belongs to the command.
                break;
            };
            let Some(long) = option.strip_prefix(b"-") else {
                let letters = String::from_utf8_lossy(option);
                let with_value = letters.find(|c| valued(&|a| a.get_short() == Some(c)));
                if with_value
                    .is_some_and(|at| letters.get(at..).is_some_and(|l| l.chars().count() == 1))
                {
                    rest.next();
                }
                continue;
            };
            let equals = long.iter().position(|b| *b == b'=');
            let (name, value) = match equals.and_then(|i| long.split_at_checked(i)) {
                Some((name, value)) => (name, value.get(1..).map(OsStr::from_bytes)),
                None => (long, None),
            };
            let name = String::from_utf8_lossy(name);
            if !valued(&|a| a.get_long() == Some(&name)) {
                continue;
            }
            let value = value.or_else(|| rest.next().map(OsString::as_os_str));
            match &*name {
                "events" => out.events = value.map(OsStr::to_owned),
                "session" => {
                    out.session = value
                        .and_then(OsStr::to_str)
                        .and_then(|v| super::args::session_id(v).ok());
                }
                _ => {}
            }
        }
        out
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

/// As [`event::open_file`], where no link stands anywhere on the way.
fn beyond_links(path: &Path) -> io::Result<File> {
    let path = std::path::absolute(path)?;
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // Pinned, so that what is swapped meanwhile changes nothing.
    let dir = sys::fds::open_no_links(dir)?;
    let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT | OFlag::O_CLOEXEC;
    let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = openat(&dir, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?;
    Ok(File::from(file))
}

/// A copy of the caller's descriptor, which must be open for writing.
fn inherited(n: i32) -> io::Result<File> {
    match sys::inherited::access(n)? {
        Some(Access::Write) => sys::inherited::copy(n).map(File::from),
        Some(Access::Read | Access::Path) | None => Err(io::Error::from_raw_os_error(libc::EBADF)),
    }
}

/// A name for a run that has none: 64 random bits from the standard library's hash keys, which the kernel seeds.
pub(super) fn fresh_session_id() -> String {
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
    fn options_of_a_refused_call_are_read_up_to_the_command() {
        let read = |words: &str| {
            let argv: Vec<OsString> = words.split(' ').map(Into::into).collect();
            let typed = Typed::read(&argv);
            (
                typed.events.and_then(|e| e.into_string().ok()),
                typed.session,
            )
        };
        let both = (Some("fd:3".to_owned()), Some("s".to_owned()));
        for words in [
            "ccbox run --bogus --events fd:3 --session s -- true",
            "ccbox run --events=fd:3 --session=s --mode wrong true",
            "ccbox run --rw x -f y -vf y -qD a=b --events fd:3 --no-network --session s",
            "ccbox run -fy --events /f --events fd:3 --session s true --events fd:9",
        ] {
            assert_eq!(read(words), both, "{words}");
        }
        for words in [
            "ccbox",
            "ccbox rnu --events fd:3",
            "ccbox run --bogus true --events fd:3",
            "ccbox run --bogus -- --events fd:3",
            "ccbox run --rw --events fd:3",
            "ccbox run -f --events fd:3",
            "ccbox run --events",
        ] {
            assert_eq!(read(words), (None, None), "{words}");
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
    fn no_link_is_crossed_without_a_plan() {
        let dir = tempfile::tempdir().unwrap();
        let real = std::fs::canonicalize(dir.path()).unwrap();
        std::os::unix::fs::symlink(".", real.join("here")).unwrap();
        std::os::unix::fs::symlink("events", real.join("link")).unwrap();
        assert!(event::open_file(&real.join("here/events")).is_ok());
        assert!(beyond_links(&real.join("events")).is_ok());
        for through in ["here/events", "here/new", "link"] {
            let e = beyond_links(&real.join(through)).unwrap_err();
            assert_eq!(e.raw_os_error(), Some(libc::ELOOP), "{through}");
        }
        assert!(!real.join("new").exists());
    }

    #[test]
    fn generated_names_are_valid_and_differ() {
        let (a, b) = (fresh_session_id(), fresh_session_id());
        assert_ne!(a, b);
        assert!(a.len() <= 64 && a.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-'));
    }
}
