//! The words ccbox, the pre-stage and the inner stage say to each other on the control socket: one packet, one word.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::sys::fds;

/// Bound of a packet. The longest word carries one object.
const MAX_PACKET: usize = 16 * 1024;
/// Bound of an object's name: PATH_MAX.
const MAX_OBJECT: usize = 4096;

/// From inside to ccbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Report {
    /// What catches connections without a proxy there, in one or more packets: the name server's two sockets, then listeners.
    Caught {
        /// Connections over IPv6, too.
        v6: bool,
    },
    /// Sockets for further such listeners.
    Spare,
    /// The listeners of the child's network namespace, attached as descriptors.
    Listeners,
    /// The device of the covers' file system, attached as a descriptor; to be served from now on.
    Covers,
    /// Set-up cannot go on.
    Failed(SetupFailure),
    /// The sandbox stands and no user code has run; waits for [`Order::Go`].
    Ready {
        /// ABI of the Landlock domain the command will get, 0 for none.
        landlock_abi: i32,
    },
    /// execve failed with this errno.
    NotStarted(i32),
    /// The command ended with this code.
    Exited(u8),
    /// The command was killed by this signal.
    Signalled(i32),
    /// The command was stopped, for the `nth` time.
    Stopped {
        /// By this signal.
        signal: i32,
        /// Which stop this is.
        nth: u32,
    },
    /// The command goes on.
    Continued,
}

/// From the command's process to ccbox, on the door, with the listener of its filter and the sandbox's root. It then waits for a
/// [`Permit`]; the end of the door is the order to die.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Handover {
    /// Signals do not interrupt a call that is being answered.
    pub(super) killable: bool,
}

/// From ccbox to the command's process: somebody answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Permit {
    /// Execute the command.
    Execute,
}

/// From ccbox to the inner stage. The end of the conversation is the order to die.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Order {
    /// Start the command.
    Go,
    /// ccbox got this signal; the command shall have it if its process group did not.
    Relay(i32),
    /// ccbox was continued after it had stopped because of the command's `nth` stop; so shall be the command, if it is
    /// still that one.
    Resume {
        /// Of [`Report::Stopped`].
        nth: u32,
        /// ccbox is in the terminal's foreground.
        foreground: bool,
    },
}

/// Which step failed, with errno and the object it was about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SetupFailure {
    /// The step.
    pub(super) step: Step,
    /// errno, 0 where there is none.
    pub(super) errno: i32,
    /// Path or text.
    pub(super) object: OsString,
}

/// Steps of setting up a run, outside and inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Step {
    /// Tying the pre-stage's life to ccbox.
    Lifeline,
    /// Writing the id maps of the new user namespace.
    IdMaps,
    /// Bringing `lo` up.
    Loopback,
    /// Binding a proxy port.
    Listener,
    /// A private mount namespace.
    PrivateMounts,
    /// Mounting a cache overlay.
    Overlay,
    /// Hiding something of the host.
    Cover,
    /// A mount of the child's file system.
    Mount,
    /// Entering the child's file system.
    Root,
    /// Making the run's directory for temporary files.
    Temporary,
    /// Dropping privileges.
    Privileges,
    /// Passing a descriptor on.
    Descriptors,
    /// Executing the engine.
    Engine,
    /// A grant is not the object that was checked.
    Pin,
    /// Process attributes: dumpable, limits, key ring, signals.
    Attributes,
    /// Building the Landlock domain.
    Domain,
    /// The floor of the write rules cannot be made, or does not hold.
    Floor,
    /// Installing the system call filter.
    Filter,
    /// Installing the filter that traps, or handing its listener over.
    Supervision,
    /// Entering the working directory.
    WorkingDirectory,
    /// An argument or variable that cannot be passed.
    Command,
    /// Setting the command's limits.
    Limits,
    /// Forking the command.
    Fork,
}

impl Step {
    /// A failure of this step about `object`, of which no more is told than fits into a packet.
    pub(super) fn failed(self, error: &io::Error, object: impl Into<OsString>) -> SetupFailure {
        let mut object = object.into().into_vec();
        object.truncate(MAX_OBJECT);
        SetupFailure {
            step: self,
            errno: error.raw_os_error().unwrap_or(0),
            object: OsString::from_vec(object),
        }
    }
}

/// Sends one word.
pub(super) fn say<T: Serialize>(socket: &OwnedFd, word: &T, fds: &[RawFd]) -> io::Result<()> {
    let bytes = postcard::to_stdvec(word).map_err(io::Error::other)?;
    fds::send(socket, &bytes, fds)
}

/// Sends one word with descriptors the receiver gets copies of.
pub(super) fn say_with<T: Serialize, F: AsRawFd>(
    socket: &OwnedFd,
    word: &T,
    fds: &[F],
) -> io::Result<()> {
    let numbers: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    say(socket, word, &numbers)
}

/// Receives one word; `None` is the end. Bytes that are no word are an error.
pub(super) fn hear<T: DeserializeOwned>(socket: &OwnedFd) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut buffer = [0u8; MAX_PACKET];
    let Some((length, fds)) = fds::receive(socket, &mut buffer)? else {
        return Ok(None);
    };
    let bytes = buffer.get(..length).unwrap_or_default();
    let word = postcard::from_bytes(bytes).map_err(io::Error::other)?;
    Ok(Some((word, fds)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn words_arrive_whole_in_order_with_their_descriptors() {
        let (ours, theirs) = fds::packet_pair().unwrap();
        let file = fds::memory_file(c"t", b"inside").unwrap();
        say_with(&theirs, &Report::Listeners, &[file]).unwrap();
        let failure = Step::Pin.failed(&io::Error::from_raw_os_error(2), "/a\nb");
        say(&theirs, &Report::Failed(failure.clone()), &[]).unwrap();
        drop(theirs);

        let (word, mut fds) = hear::<Report>(&ours).unwrap().unwrap();
        assert_eq!(word, Report::Listeners);
        let mut text = String::new();
        std::fs::File::from(fds.pop().unwrap())
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "inside");
        assert_eq!(
            hear::<Report>(&ours).unwrap().unwrap().0,
            Report::Failed(failure)
        );
        assert!(hear::<Report>(&ours).unwrap().is_none());
    }

    #[test]
    fn nonsense_is_an_error_and_a_lost_peer_does_not_kill() {
        let (ours, theirs) = fds::packet_pair().unwrap();
        fds::send(&theirs, &[250, 1, 2], &[]).unwrap();
        assert!(hear::<Report>(&ours).is_err());
        drop(theirs);
        assert!(say(&ours, &Order::Go, &[]).is_err());
    }

    #[test]
    fn the_name_of_a_failed_object_always_fits() {
        let (ours, theirs) = fds::packet_pair().unwrap();
        let failure = Step::Command.failed(&io::Error::other("x"), "v".repeat(200_000));
        say(&theirs, &Report::Failed(failure), &[]).unwrap();
        assert!(hear::<Report>(&ours).unwrap().is_some());
    }

    #[test]
    fn the_last_word_survives_an_order_that_came_too_late() {
        let (ours, theirs) = fds::packet_pair().unwrap();
        say(&theirs, &Report::Exited(7), &[]).unwrap();
        say(&ours, &Order::Relay(2), &[]).unwrap();
        drop(theirs);
        assert_eq!(hear::<Report>(&ours).unwrap().unwrap().0, Report::Exited(7));
        assert!(hear::<Report>(&ours).unwrap().is_none());
    }

    #[test]
    fn an_oversized_packet_is_refused() {
        let (ours, theirs) = fds::packet_pair().unwrap();
        fds::send(&theirs, &vec![0; MAX_PACKET + 1], &[]).unwrap();
        assert!(hear::<Report>(&ours).is_err());
    }
}
