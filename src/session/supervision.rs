//! ccbox's end of the broker's hand-over: takes listener and root, opens the supervisor, then lets the command be executed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::unistd::Pid;

use super::wire::{self, Handover, Permit};
use super::{BrokerSetup, Brokered, SessionError, errors};
use crate::broker::supervise::{self, Door, Prepared, Quiet, Supervisor};

/// How far it has come.
#[derive(Debug, Default)]
pub(super) enum Supervision {
    /// The plan has no write rules.
    #[default]
    None,
    /// Nobody has knocked yet.
    Awaited {
        door: OwnedFd,
        prepared: Box<Prepared>,
    },
    /// Somebody answers; the command's process waits for its permit.
    Ready {
        door: OwnedFd,
        supervisor: Supervisor,
        broker: Brokered,
    },
    /// The command runs.
    Running { supervisor: Supervisor },
    /// The command's process has ended before it handed anything over.
    Lost,
}

impl Supervision {
    /// For a run with this door and setup; it has both or neither. To be called while the sandbox is being built: it starts threads.
    pub(super) fn new(
        door: Option<OwnedFd>,
        setup: Option<BrokerSetup>,
    ) -> Result<Self, SessionError> {
        let (Some(door), Some(setup)) = (door, setup) else {
            return Ok(Self::None);
        };
        let prepared = supervise::prepare(setup.plan, setup.sink)
            .map_err(errors::supervisor)?
            .with_guests(setup.guests);
        Ok(Self::Awaited {
            door,
            prepared: Box::new(prepared),
        })
    }

    /// Where the hand-over will arrive.
    pub(super) fn door(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Awaited { door, .. } => Some(door.as_fd()),
            Self::None | Self::Ready { .. } | Self::Running { .. } | Self::Lost => None,
        }
    }

    /// The supervisor has failed, which ends the run: it has killed what it can no longer answer.
    pub(super) fn has_failed(&self) -> bool {
        match self {
            Self::Ready { supervisor, .. } | Self::Running { supervisor } => {
                supervisor.has_failed()
            }
            Self::None | Self::Awaited { .. } | Self::Lost => false,
        }
    }

    /// Keeps the supervisor out of the lock that it shares with other runs, for a process that is about to be stopped.
    pub(super) fn quiet(&self) -> Option<Quiet<'_>> {
        match self {
            Self::Ready { supervisor, .. } | Self::Running { supervisor } => supervisor.quiet(),
            Self::None | Self::Awaited { .. } | Self::Lost => None,
        }
    }

    /// Whether nothing is left to wait for.
    pub(super) fn complete(&self) -> bool {
        matches!(self, Self::None | Self::Ready { .. })
    }

    /// How the broker answers, once it is there.
    pub(super) fn broker(&self) -> Option<Brokered> {
        match self {
            Self::Ready { broker, .. } => Some(*broker),
            Self::None | Self::Awaited { .. } | Self::Running { .. } | Self::Lost => None,
        }
    }

    /// Takes what has arrived at the door and opens the supervisor. `child` is the ancestor of everybody who can ask.
    pub(super) fn take(&mut self, child: Pid) -> Result<(), SessionError> {
        if !matches!(self, Self::Awaited { .. }) {
            return Ok(());
        }
        let Self::Awaited { door, prepared } = std::mem::replace(self, Self::Lost) else {
            return Ok(());
        };
        let nonsense = |e: &io::Error| {
            errors::lost(&format!(
                "its hand-over makes no sense ({})",
                crate::exit::reason(e)
            ))
        };
        let Some((word, passed)) = wire::hear::<Handover>(&door).map_err(|e| nonsense(&e))? else {
            // Why, the control socket says.
            return Ok(());
        };
        let [listener, root] = <[OwnedFd; 2]>::try_from(passed)
            .map_err(|_| nonsense(&io::Error::other("descriptors")))?;
        let handed = Door {
            listener,
            root,
            child,
        };
        let supervisor = prepared.open(handed).map_err(errors::supervisor)?;
        *self = Self::Ready {
            door,
            supervisor,
            broker: Brokered {
                uninterrupted: word.killable,
            },
        };
        Ok(())
    }

    /// Lets the command's process execute the command.
    pub(super) fn permit(&mut self) {
        if !matches!(self, Self::Ready { .. }) {
            return;
        }
        if let Self::Ready {
            door, supervisor, ..
        } = std::mem::replace(self, Self::Lost)
        {
            // A process that is gone is noticed on the control socket.
            let _ = wire::say(&door, &Permit::Execute, &[]);
            *self = Self::Running { supervisor };
        }
    }
}
