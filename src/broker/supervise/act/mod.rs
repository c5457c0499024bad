//! The calls, one file a family.
//!
//! Every file follows one order: copy what the caller wrote; check what the kernel checks before it looks at paths; resolve to a pinned
//! directory and a name; find the area. Not covered: the kernel goes on and the floor decides, where the floor governs it. Covered: take
//! the lock, find the path the directory has now, decide, act on the descriptor, and answer with the kernel's own errno.

mod attribute;
mod connect;
mod exec;
mod guest;
mod how;
mod make;
mod metadata;
mod mode;
mod open;
mod quick;
mod read;
mod remove;
mod rename;
mod sockets;
mod state;
mod touched;
mod undo;

use std::os::fd::OwnedFd;

use nix::errno::Errno;

use attribute::Of;
use metadata::Form;
pub(super) use undo::Made;

use super::caller::Caller;
use super::denial::Denied;
use super::pending::Waiting;
use super::resolve::Walk;
use super::{Broker, Stop};
use crate::broker::calls::Call;
use crate::sys::notify;

/// How often somebody may replace what is looked at before a call fails.
const MOST_ROUNDS: u32 = 1000;

/// What happens with a call in the end.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It returns this value.
    Value(i64),
    /// The kernel carries it out, as far as the floor lets it.
    Continue,
    /// The caller gets this descriptor.
    Give {
        /// What it gets.
        file: OwnedFd,
        /// `O_CLOEXEC` was asked for.
        close_on_exec: bool,
        /// To be taken back where it cannot get it.
        made: Option<Made>,
    },
    /// It takes time; somebody else answers.
    Later(Waiting),
}

/// One call being answered.
#[derive(Debug)]
pub(super) struct Turn<'b> {
    pub(super) broker: &'b Broker,
    pub(super) caller: Caller<'b>,
    args: [u64; 6],
}

impl<'b> Turn<'b> {
    pub(super) fn new(broker: &'b Broker, caller: Caller<'b>, request: &notify::Request) -> Self {
        Self {
            broker,
            caller,
            args: request.args,
        }
    }

    /// An argument, as the register holds it.
    fn arg(&self, index: usize) -> u64 {
        self.args.get(index).copied().unwrap_or(0)
    }

    /// An argument that is an `int` or `unsigned int` in the kernel.
    #[allow(clippy::cast_possible_truncation)] // as the kernel does
    fn int(&self, index: usize) -> i32 {
        self.arg(index) as i32
    }

    fn walk(&self) -> Walk<'_> {
        self.broker.walk(&self.caller)
    }

    /// Carries the call out. The error is what the caller gets.
    pub(super) fn take(&self, call: Call) -> Result<Outcome, Errno> {
        let floor_decides = self.floor_decides(call);
        let touched = self.to_change(call);
        let mut rounds = 0;
        loop {
            match self.once(call) {
                Ok(outcome) => {
                    self.has_changed(&outcome, &touched);
                    return Ok(outcome);
                }
                // Something was replaced between two looks; the caller might have been later.
                Err(Stop::Again) if rounds < MOST_ROUNDS => {
                    rounds += 1;
                    self.caller.verify()?;
                }
                Err(Stop::Again) => return Err(Errno::EAGAIN),
                Err(Stop::Errno(errno)) => return Err(errno),
                Err(Stop::Denied(denied)) => {
                    self.broker.report(&self.caller, *denied);
                    return Err(Errno::EACCES);
                }
                // It leads through another process. The kernel knows whether it may, unless it is nothing the floor governs.
                Err(Stop::Foreign) if floor_decides => return Ok(Outcome::Continue),
                // openat, which the caller will try then, has its flags in a register.
                Err(Stop::Foreign) if call == Call::Openat2 => return Err(Errno::ENOSYS),
                // An operation that must be alone has been asked for under the exclusive lock already.
                Err(Stop::Foreign | Stop::Exclusive) => return Err(Errno::EACCES),
            }
        }
    }

    /// "Continue" can do no more than the floor allows: not true of modes, of truncation without write access, and of flags in memory.
    fn floor_decides(&self, call: Call) -> bool {
        match call {
            Call::Open => open::floor_decides(self.int(1)) && !self.judges(self.int(1)),
            Call::Openat => open::floor_decides(self.int(2)) && !self.judges(self.int(2)),
            Call::Openat2
            | Call::Truncate
            | Call::Chmod
            | Call::Fchmod
            | Call::Fchmodat
            | Call::Fchmodat2
            | Call::Setxattr
            | Call::Lsetxattr
            | Call::Fsetxattr
            | Call::Setxattrat
            | Call::Removexattr
            | Call::Lremovexattr
            | Call::Fremovexattr
            | Call::Removexattrat
            | Call::Listen => false,
            Call::Chown
            | Call::Lchown
            | Call::Fchown
            | Call::Fchownat
            | Call::Utime
            | Call::Utimes
            | Call::Futimesat
            | Call::Utimensat => !self.broker.alone,
            Call::Creat
            | Call::Mkdir
            | Call::Mkdirat
            | Call::Mknod
            | Call::Mknodat
            | Call::Symlink
            | Call::Symlinkat
            | Call::Link
            | Call::Linkat
            | Call::Rename
            | Call::Renameat
            | Call::Renameat2
            | Call::Unlink
            | Call::Unlinkat
            | Call::Rmdir
            | Call::Umask
            | Call::Chdir
            | Call::Fchdir
            | Call::Clone
            | Call::Unshare
            | Call::Execve
            | Call::Execveat
            | Call::Flock
            | Call::Fcntl
            | Call::Sendto => true,
            Call::Connect | Call::Bind => self.broker.sockets.is_none(),
        }
    }

    fn once(&self, call: Call) -> Result<Outcome, Stop> {
        const CWD: i32 = libc::AT_FDCWD;
        let alone = self.broker.alone;
        match call {
            Call::Open => self.open(CWD, self.arg(0), self.int(1), self.int(2)),
            Call::Openat => self.open(self.int(0), self.arg(1), self.int(2), self.int(3)),
            Call::Creat => {
                let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
                self.open(CWD, self.arg(0), flags, self.int(1))
            }
            Call::Openat2 => self.open_how(self.int(0), self.arg(1), self.arg(2), self.arg(3)),
            Call::Truncate => self.truncate(self.arg(0), self.arg(1).cast_signed()),
            Call::Mkdir => self.mkdir(CWD, self.arg(0), self.int(1)),
            Call::Mkdirat => self.mkdir(self.int(0), self.arg(1), self.int(2)),
            Call::Mknod => self.mknod(CWD, self.arg(0), self.int(1), self.int(2)),
            Call::Mknodat => self.mknod(self.int(0), self.arg(1), self.int(2), self.int(3)),
            Call::Symlink => self.symlink(self.arg(0), CWD, self.arg(1)),
            Call::Symlinkat => self.symlink(self.arg(0), self.int(1), self.arg(2)),
            Call::Link => self.link((CWD, self.arg(0)), (CWD, self.arg(1)), 0),
            Call::Linkat => self.link(
                (self.int(0), self.arg(1)),
                (self.int(2), self.arg(3)),
                self.int(4),
            ),
            Call::Rename => self.rename((CWD, self.arg(0)), (CWD, self.arg(1)), 0),
            Call::Renameat => {
                self.rename((self.int(0), self.arg(1)), (self.int(2), self.arg(3)), 0)
            }
            Call::Renameat2 => self.rename(
                (self.int(0), self.arg(1)),
                (self.int(2), self.arg(3)),
                self.int(4).cast_unsigned(),
            ),
            Call::Unlink => self.unlink(CWD, self.arg(0), 0),
            Call::Unlinkat => self.unlink(self.int(0), self.arg(1), self.int(2)),
            Call::Rmdir => self.unlink(CWD, self.arg(0), libc::AT_REMOVEDIR),
            Call::Chmod => self.chmod(CWD, self.arg(0), self.int(1), 0),
            Call::Fchmodat => self.chmod(self.int(0), self.arg(1), self.int(2), 0),
            Call::Fchmodat2 => self.chmod(self.int(0), self.arg(1), self.int(2), self.int(3)),
            Call::Fchmod => self.fchmod(self.int(0), self.int(1)),
            Call::Setxattr => self.set_attribute(Of::Path { follow: true }),
            Call::Lsetxattr => self.set_attribute(Of::Path { follow: false }),
            Call::Fsetxattr => self.set_attribute(Of::Descriptor),
            Call::Removexattr => self.remove_attribute(Of::Path { follow: true }),
            Call::Lremovexattr => self.remove_attribute(Of::Path { follow: false }),
            Call::Fremovexattr => self.remove_attribute(Of::Descriptor),
            // Linux 6.13. Who uses them falls back on the older calls.
            Call::Setxattrat | Call::Removexattrat => Err(Errno::ENOSYS.into()),
            Call::Fchown => self.set_owner(&self.open_object(self.int(0))?, 1),
            Call::Chown if alone => self.set_owner(&self.meant((CWD, 0), 0)?, 1),
            Call::Lchown if alone => {
                self.set_owner(&self.meant((CWD, 0), libc::AT_SYMLINK_NOFOLLOW)?, 1)
            }
            Call::Fchownat if alone => {
                self.set_owner(&self.meant((self.int(0), 1), self.int(4))?, 2)
            }
            Call::Utime if alone => self.set_times((CWD, 0), 1, Form::Seconds, 0),
            Call::Utimes if alone => self.set_times((CWD, 0), 1, Form::Microseconds, 0),
            Call::Futimesat if alone => self.set_times((self.int(0), 1), 2, Form::Microseconds, 0),
            Call::Utimensat if alone => {
                self.set_times((self.int(0), 1), 2, Form::Nanoseconds, self.int(3))
            }
            Call::Chown => Ok(self.owner(CWD, 0, 0)),
            Call::Lchown => Ok(self.owner(CWD, 0, libc::AT_SYMLINK_NOFOLLOW)),
            Call::Fchownat => Ok(self.owner(self.int(0), 1, self.int(4))),
            Call::Utime => Ok(self.times((CWD, 0), 1, Form::Seconds, 0)),
            Call::Utimes => Ok(self.times((CWD, 0), 1, Form::Microseconds, 0)),
            Call::Futimesat => Ok(self.times((self.int(0), 1), 2, Form::Microseconds, 0)),
            Call::Utimensat => Ok(self.times((self.int(0), 1), 2, Form::Nanoseconds, self.int(3))),
            Call::Umask => Ok(self.changes_umask()),
            Call::Chdir | Call::Fchdir => Ok(self.goes_elsewhere()),
            Call::Clone | Call::Unshare => Ok(self.splits_or_shares()),
            Call::Execve => self.execute(CWD, self.arg(0), 0),
            Call::Execveat => self.execute(self.int(0), self.arg(1), self.int(4)),
            Call::Flock | Call::Fcntl => Ok(Outcome::Continue),
            Call::Connect => match &self.broker.sockets {
                Some(all) => self.connect_by_path(all, self.int(0), self.arg(1), self.int(2)),
                None => Ok(self.connect(self.int(0), self.arg(1), self.int(2))),
            },
            Call::Bind => match &self.broker.sockets {
                Some(all) => self.bind_by_path(all, self.int(0), self.arg(1), self.int(2)),
                None => Ok(Outcome::Continue),
            },
            Call::Listen => self.listen(self.int(0), self.int(1)),
            Call::Sendto => Ok(self.send_to(self.int(0), self.arg(4), self.int(5))),
        }
    }

    /// Reports what the kernel is going to refuse because the sandbox made the mount read-only.
    fn note(&self, denied: Option<Denied>) {
        if let Some(denied) = denied {
            self.broker.report(&self.caller, denied);
        }
    }
}
