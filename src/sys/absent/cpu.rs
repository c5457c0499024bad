//! On which processor a thread is: nobody can say here.

use nix::errno::Errno;

/// Unknown, and of no use.
#[must_use]
pub fn several() -> bool {
    false
}

/// Unknown.
#[must_use]
pub fn here() -> Option<usize> {
    None
}

/// Unknown.
#[must_use]
pub fn of(_tid: i32) -> Option<usize> {
    None
}

/// Not to be done.
pub fn stay_on(_processor: usize) -> Result<(), Errno> {
    Err(Errno::ENOSYS)
}

/// Not to be done.
pub fn send_elsewhere(_pid: nix::unistd::Pid) -> Result<(), Errno> {
    Err(Errno::ENOSYS)
}

/// Not to be done.
pub fn last_of_all() -> Result<(), Errno> {
    Err(Errno::ENOSYS)
}
