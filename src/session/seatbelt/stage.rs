//! This executable inside the sandbox, on its way to becoming the command.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use nix::errno::Errno;

use super::number;
use super::signals::list;
use crate::exit;
use crate::session::inner;
use crate::sys::fds;
use crate::sys::signals;

/// The hidden first argument.
pub const STAGE: &str = "__stage";
/// The first word on the status pipe: the sandbox stands.
pub(super) const READY: u8 = b'R';
/// The word on the other one.
pub(super) const GO: u8 = b'G';

/// `STATUS GO STDERR MASK IGNORED -- COMMAND…`. Comes back only where the command could not be started: the status pipe says why.
#[must_use]
pub fn main(args: &[OsString]) -> u8 {
    // Nobody is there to be told: the other side sees the pipe close.
    become_command(args).unwrap_or(exit::OWN_FAILURE)
}

fn become_command(args: &[OsString]) -> Option<u8> {
    let [status, go, stderr, mask, ignored, dashes, command @ ..] = args else {
        return None;
    };
    if dashes != "--" {
        return None;
    }
    let adopt = |argument: &OsString| -> Option<OwnedFd> {
        let fd = fds::adopt(number(Some(argument))?).ok()?;
        fds::set_inheritable_number(number(Some(argument))?, false).ok()?;
        Some(fd)
    };
    let (status, go, stderr) = (adopt(status)?, adopt(go)?, adopt(stderr)?);
    let (mask, ignored) = (list(mask.to_str()?)?, list(ignored.to_str()?)?);
    let mut status = File::from(status);
    status.write_all(&[READY]).ok()?;
    let mut word = [0];
    // The end without a word: ccbox is gone, and with it whoever would care for the command.
    File::from(go)
        .read_exact(&mut word)
        .ok()
        .filter(|()| word == [GO])?;
    fds::replace_stderr(&stderr).ok()?;
    drop(stderr);
    // Dispositions first: a signal that waits must find the caller's setting when it is unblocked.
    for n in [libc::SIGPIPE, libc::SIGXFSZ] {
        signals::set_default(n).ok()?;
    }
    for n in ignored.iter() {
        signals::set_ignored(n).ok()?;
    }
    signals::set_mask(mask).ok()?;
    let env: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let errno: Errno = inner::execute(command, &env);
    status.write_all(&(errno as i32).to_ne_bytes()).ok()?;
    Some(exit::CANNOT_EXECUTE)
}
