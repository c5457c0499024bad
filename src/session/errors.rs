//! Words for what can go wrong between ccbox and the command.

use std::io;
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;

use super::SessionError;
use super::diagnose;
use super::wire::{SetupFailure, Step};
use crate::backend::NetSetup;
use crate::broker::supervise::BrokerError;

/// The control group cannot be made or left.
pub(super) fn limits(error: &io::Error) -> SessionError {
    SessionError::new(format!(
        "cannot hold the limits by a control group: {}",
        crate::exit::reason(error)
    ))
}

/// A resource of ccbox itself: descriptors, memory, processes.
#[allow(clippy::needless_pass_by_value)] // for map_err
pub(super) fn resources(error: io::Error) -> SessionError {
    let mut failed = SessionError::new(format!("cannot set up the run: {}", reason(&error)));
    failed.hint = match error.raw_os_error() {
        Some(libc::EFBIG) => Some("raise the file size limit (`ulimit -f`)".to_owned()),
        Some(libc::EMFILE) => Some("raise the limit on open files (`ulimit -n`)".to_owned()),
        _ => None,
    };
    failed
}

/// The supervisor did not start.
#[allow(clippy::needless_pass_by_value)] // for map_err
pub(super) fn supervisor(error: BrokerError) -> SessionError {
    SessionError::new(format!("cannot hold the write rules: {error}"))
}

/// The proxies did not start.
#[allow(clippy::needless_pass_by_value)] // for map_err
pub(super) fn proxies(error: io::Error) -> SessionError {
    SessionError::new(format!("cannot start the proxies: {}", reason(&error)))
}

/// The sandbox is gone and nobody said how the command ended.
pub(super) fn lost(why: &str) -> SessionError {
    SessionError::new(format!("lost the sandbox before the command ended: {why}"))
}

/// Making the pre-stage's namespaces failed; bubblewrap itself may still be allowed to.
pub(super) fn no_namespaces(error: &io::Error, net: NetSetup) -> SessionError {
    let mut failed = diagnose::namespaces().unwrap_or_else(|| {
        SessionError::new(format!("cannot make a user namespace: {}", reason(error)))
    });
    failed.retry = retry(error.raw_os_error().unwrap_or(0), net);
    failed
}

/// The engine ended without a word from the inner stage.
pub(super) fn engine_failed(words: &str, net: Option<NetSetup>) -> SessionError {
    let said = words.lines().next().unwrap_or_default();
    if let Some(mut cause) = diagnose::engine() {
        if !said.is_empty() {
            cause.message = format!("{} (bubblewrap says: `{}`)", cause.message, printable(said));
        }
        // Nested namespaces are the one thing the pre-stage adds to what bubblewrap does alone.
        cause.retry = cause.retry.filter(|_| net == Some(NetSetup::PreStage));
        return cause;
    }
    let detail = if said.is_empty() {
        "it ended without a message".to_owned()
    } else {
        format!("`{}`", printable(said))
    };
    SessionError::new(format!("bubblewrap could not build the sandbox: {detail}"))
}

/// A failure a stage reported.
pub(super) fn describe(failure: &SetupFailure, net: Option<NetSetup>) -> SessionError {
    let errno = Errno::from_raw(failure.errno);
    let why = errno.desc();
    let object = printable(&String::from_utf8_lossy(failure.object.as_bytes()));
    let message = match failure.step {
        Step::Lifeline => format!("cannot tie the sandbox to ccbox: {why}"),
        Step::IdMaps => format!("cannot map the caller's ids in a new user namespace: {why}"),
        Step::Loopback => format!("cannot bring the sandbox's loopback interface up: {why}"),
        Step::Listener => format!("cannot listen on {object} in the sandbox: {why}"),
        Step::PrivateMounts => format!("cannot make a private mount namespace: {why}"),
        Step::Overlay => format!("cannot mount the cache overlay on `{object}`: {why}"),
        Step::Cover | Step::Mount if went(errno) => {
            format!("`{object}` was replaced while the sandbox was being built")
        }
        Step::Cover => format!("cannot hide `{object}` from the sandbox: {why}"),
        Step::Mount => format!("cannot mount `{object}` in the sandbox: {why}"),
        Step::Root => format!("cannot enter the sandbox's file system: {why}"),
        Step::Temporary => format!("cannot make `{object}` for temporary files: {why}"),
        Step::Privileges => format!("cannot drop privileges: {why}"),
        Step::Descriptors => format!("cannot pass descriptors on: {why}"),
        Step::Engine => return engine_missing(&object, errno),
        Step::Pin if errno == Errno::ESTALE => {
            format!("`{object}` was replaced while the sandbox was being built")
        }
        Step::Pin => format!("cannot verify `{object}` in the sandbox: {why}"),
        Step::Attributes => format!("cannot set process attributes in the sandbox: {why}"),
        Step::Domain => format!("cannot build the Landlock domain: {object}"),
        Step::Floor => format!("cannot hold the write rules: {object}"),
        Step::Supervision => return unsupervised(errno),
        Step::Filter => format!("cannot install the system call filter: {object}"),
        Step::WorkingDirectory => {
            format!("cannot enter the working directory `{object}` in the sandbox: {why}")
        }
        Step::Command => format!("`{object}` holds a NUL byte"),
        Step::Limits => format!("cannot set the limits of the command: {why}"),
        Step::Fork => format!("cannot start a process in the sandbox: {why}"),
    };
    let mut error = SessionError::new(message);
    if failure.step == Step::Mount
        && failure.object == "/proc"
        && let Some(cause) = diagnose::engine()
    {
        error = cause;
    }
    if matches!(
        failure.step,
        Step::PrivateMounts | Step::Cover | Step::Mount
    ) {
        // bubblewrap may be allowed to mount where the pre-stage is not.
        error.retry = net.and_then(|net| retry(failure.errno, net));
    }
    if failure.step == Step::Root {
        // Not from the initial root file system (pivot_root(2)); bubblewrap has another one between.
        error.retry = net.filter(|net| *net != NetSetup::Inner);
    }
    if matches!(failure.step, Step::IdMaps | Step::Loopback) {
        // AppArmor lets an unconfined program make the namespace and takes its rights in it (Ubuntu 24.04).
        if let Some(cause) = diagnose::namespaces() {
            error = cause;
        }
        error.retry = net.and_then(|net| retry(failure.errno, net));
    }
    error
}

/// The filter that traps was refused.
fn unsupervised(errno: Errno) -> SessionError {
    let why = if errno == Errno::EBUSY {
        "this process is already inside a sandbox that traps system calls"
    } else if errno == Errno::EINVAL || errno == Errno::ENOSYS {
        "the kernel has no seccomp user notification (Linux 5.0), or a container hides it"
    } else {
        errno.desc()
    };
    SessionError::new(format!("cannot hold the write rules: {why}"))
}

/// The supervisor ended while it was needed: whatever traps from here on would be refused for ever.
pub(super) fn unanswered() -> SessionError {
    SessionError::new("the supervisor of the write rules ended before the command did")
}

/// Whether bubblewrap is worth a try, and with what network: that of the host, or one it makes itself.
fn retry(errno: i32, net: NetSetup) -> Option<NetSetup> {
    let refused = matches!(
        Errno::from_raw(errno),
        Errno::EPERM | Errno::EACCES | Errno::ENOSPC | Errno::EUSERS | Errno::ENOSYS
    );
    match net {
        NetSetup::PreStage if refused => Some(NetSetup::Inner),
        NetSetup::Host if refused => Some(NetSetup::Host),
        NetSetup::PreStage | NetSetup::Inner | NetSetup::Host => None,
    }
}

/// The object is not there any more, or of another kind.
fn went(errno: Errno) -> bool {
    matches!(errno, Errno::ENOENT | Errno::ELOOP | Errno::ENOTDIR)
}

fn engine_missing(program: &str, errno: Errno) -> SessionError {
    if errno != Errno::ENOENT {
        return SessionError::new(format!("cannot execute `{program}`: {}", errno.desc()));
    }
    let mut error = SessionError::new(format!("bubblewrap is not installed at `{program}`"));
    error.hint = Some("install the package `bubblewrap`".to_owned());
    error
}

/// The reason of an error without Rust's "(os error N)".
fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(n) => Errno::from_raw(n).desc().to_owned(),
        None => error.to_string(),
    }
}

/// One line without control characters: paths and other programs' words are not ours.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(step: Step, errno: Errno, object: &str) -> SetupFailure {
        step.failed(&io::Error::from(errno), object)
    }

    #[test]
    fn messages_name_the_object_and_the_reason() {
        let gone = describe(
            &failure(Step::WorkingDirectory, Errno::ENOENT, "/w\nx"),
            None,
        );
        assert_eq!(
            gone.to_string(),
            "cannot enter the working directory `/w\u{fffd}x` in the sandbox: No such file or directory"
        );
        let swapped = describe(&failure(Step::Pin, Errno::ESTALE, "/w"), None);
        assert!(swapped.to_string().contains("`/w` was replaced"));
        let bwrap = describe(
            &failure(Step::Engine, Errno::ENOENT, "/usr/bin/bwrap"),
            None,
        );
        assert_eq!(
            bwrap.hint.as_deref(),
            Some("install the package `bubblewrap`")
        );
    }

    #[test]
    fn write_rules_that_cannot_be_held_are_refused_with_the_reason() {
        for (step, errno, object, words) in [
            (
                Step::Floor,
                Errno::UnknownErrno,
                "the floor's words",
                "the floor's words",
            ),
            (
                Step::Supervision,
                Errno::EBUSY,
                "",
                "already inside a sandbox",
            ),
            (
                Step::Supervision,
                Errno::EINVAL,
                "",
                "no seccomp user notification",
            ),
            (
                Step::Supervision,
                Errno::ENOSYS,
                "",
                "no seccomp user notification",
            ),
            (Step::Supervision, Errno::ENOMEM, "", "Out of memory"),
        ] {
            let error = describe(&failure(step, errno, object), Some(NetSetup::PreStage));
            let message = error.to_string();
            assert!(
                message.starts_with("cannot hold the write rules: "),
                "{message}"
            );
            assert!(message.contains(words), "{message}");
            // Another network set-up would not help, and nothing weaker may be tried.
            assert_eq!(error.retry, None);
        }
    }

    #[test]
    fn only_refused_namespaces_are_tried_another_way() {
        for (errno, net, expected) in [
            (libc::EPERM, NetSetup::PreStage, Some(NetSetup::Inner)),
            (libc::EACCES, NetSetup::PreStage, Some(NetSetup::Inner)),
            (libc::ENOSPC, NetSetup::PreStage, Some(NetSetup::Inner)),
            (libc::ENOMEM, NetSetup::PreStage, None),
            (libc::EPERM, NetSetup::Inner, None),
            (libc::EPERM, NetSetup::Host, Some(NetSetup::Host)),
            (libc::ENOMEM, NetSetup::Host, None),
        ] {
            assert_eq!(retry(errno, net), expected, "{errno} {net:?}");
        }
    }
}
