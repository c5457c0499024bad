//! Calls that pass: the kernel carries them out, the workers' memory must not keep what they change.

use super::{Outcome, Turn};

impl Turn<'_> {
    /// chdir, fchdir.
    pub(super) fn goes_elsewhere(&self) -> Outcome {
        self.caller.changes();
        Outcome::Continue
    }

    /// umask.
    pub(super) fn changes_umask(&self) -> Outcome {
        self.broker.processes.changes_umask();
        self.caller.changes();
        Outcome::Continue
    }

    /// clone, unshare: processes that share working directory and umask, or threads that do not.
    pub(super) fn splits_or_shares(&self) -> Outcome {
        self.broker.processes.stop();
        Outcome::Continue
    }

    /// execve, execveat.
    pub(super) fn executes(&self) -> Outcome {
        self.broker.processes.executes();
        Outcome::Continue
    }
}
