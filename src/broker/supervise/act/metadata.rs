//! Owner and times by path: chown, utime and their like. Nothing is decided about them.
//!
//! Where a protected path exists, a read-only mount refuses them, as it does everything in a place that is shown read-only; elsewhere
//! they are the user's affair. So the kernel carries them out whatever is found here, and only a refusal by such a mount is told.
//!
//! Where no mounts stand behind the floor nothing is left to the kernel: the object is pinned and changed here, by the rules for writing.

use crate::sys::libc;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::unistd::{getegid, geteuid};

use super::super::Stop;
use super::super::judge::Needs;
use super::mode::Change;
use super::{Outcome, Turn};
use crate::broker::action::Action;
use crate::sys::at;

/// "Unchanged" for an owner or a group (chown(2)).
const UNCHANGED: u32 = u32::MAX;

/// What times are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `struct utimbuf`: two numbers of seconds.
    Seconds,
    /// Two `struct timeval`.
    Microseconds,
    /// Two `struct timespec`, with `UTIME_NOW` and `UTIME_OMIT`.
    Nanoseconds,
}

/// What is asked for, if the kernel takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Times {
    /// Nothing is changed, or the words are wrong: no mount is asked.
    Nothing,
    /// Both are now, which whoever may write may do, too (utimensat(2)).
    Now,
    /// The owner alone says when else.
    Given,
}

impl Turn<'_> {
    /// chown(2) and its like: path, owner and group are arguments from `at` on.
    pub(super) fn owner(&self, dirfd: i32, at: usize, flags: i32) -> Outcome {
        let ids = [self.int(at + 1), self.int(at + 2)].map(i32::cast_unsigned);
        // To anybody else needs a capability, and the only group there is inside is the caller's.
        let own = [geteuid().as_raw(), getegid().as_raw()];
        let may = ids
            .iter()
            .zip(own)
            .all(|(&id, own)| id == UNCHANGED || id == own);
        if may {
            // Whatever goes wrong while looking, the kernel meets it as well.
            let _ = self.tell_metadata("chown", (dirfd, at), flags, |_| Some(Needs::Ownership));
        }
        Outcome::Continue
    }

    /// utime(2) and its like; `path` is where it starts and which argument it is.
    pub(super) fn times(
        &self,
        path: (i32, usize),
        times: usize,
        form: Form,
        flags: i32,
    ) -> Outcome {
        let asked = self.wanted(self.arg(times), form);
        if asked != Ok(Times::Nothing) {
            let _ = self.tell_metadata("utime", path, flags, |own| match asked {
                _ if own => Some(Needs::Ownership),
                Ok(Times::Now) => Some(Needs::Object),
                _ => None,
            });
        }
        Outcome::Continue
    }

    /// chown(2) and its like, where no mounts stand behind the floor. To anybody else needs a capability, which the command has not.
    pub(super) fn set_owner(&self, object: &OwnedFd, at: usize) -> Result<Outcome, Stop> {
        let ids = [self.int(at), self.int(at + 1)].map(i32::cast_unsigned);
        let look = at::look(object.as_fd(), c"")?;
        let stays = ids.iter().zip([look.uid, look.gid]);
        if !stays
            .into_iter()
            .all(|(&id, now)| id == UNCHANGED || id == now)
        {
            return Err(Errno::EPERM.into());
        }
        let change = Change {
            what: "chown",
            action: Action::Write,
            needs: Needs::Ownership,
            object,
            look: &look,
        };
        self.change(&change, &|| Ok(()))
    }

    /// utime(2) and its like, there.
    pub(super) fn set_times(
        &self,
        path: (i32, usize),
        times: usize,
        form: Form,
        flags: i32,
    ) -> Result<Outcome, Stop> {
        let stamps = self.stamps(self.arg(times), form)?;
        if stamps.iter().all(|stamp| *stamp == TimeSpec::UTIME_OMIT) {
            return Ok(Outcome::Value(0));
        }
        let object = self.meant(path, flags)?;
        let look = at::look(object.as_fd(), c"")?;
        let change = Change {
            what: "utime",
            action: Action::Write,
            needs: Needs::Ownership,
            object: &object,
            look: &look,
        };
        self.change(&change, &|| at::set_times(object.as_fd(), &stamps))
    }

    /// The object of a call that takes a directory and a path; without a path (NULL) it is the descriptor's.
    pub(super) fn meant(&self, (dirfd, path): (i32, usize), flags: i32) -> Result<OwnedFd, Stop> {
        if flags & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) != 0 {
            return Err(Errno::EINVAL.into());
        }
        if self.arg(path) == 0 && dirfd != libc::AT_FDCWD {
            return self.open_object(dirfd);
        }
        let path = self.caller.text(self.arg(path))?;
        if path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
            let base = self.caller.base(&self.broker.root, dirfd, c"")?;
            return Ok(base
                .as_fd()
                .try_clone_to_owned()
                .map_err(|_| Errno::EMFILE)?);
        }
        let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
        let object = self.walk().object(dirfd, &path, follow)?;
        Ok(object
            .as_fd()
            .try_clone_to_owned()
            .map_err(|_| Errno::EMFILE)?)
    }

    /// The object of a descriptor that was opened for more than a place.
    pub(super) fn open_object(&self, number: i32) -> Result<OwnedFd, Stop> {
        let (object, path_only) = self.caller.file(number)?;
        if path_only {
            return Err(Errno::EBADF.into());
        }
        Ok(object)
    }

    fn stamps(&self, address: u64, form: Form) -> Result<[TimeSpec; 2], Errno> {
        if address == 0 {
            return Ok([TimeSpec::UTIME_NOW; 2]);
        }
        let words = match form {
            Form::Seconds => 2,
            Form::Microseconds | Form::Nanoseconds => 4,
        };
        stamps(&self.caller.bytes(address, words * 8)?, form)
    }

    fn wanted(&self, address: u64, form: Form) -> Result<Times, Errno> {
        if address == 0 {
            return Ok(Times::Now);
        }
        let words = match form {
            Form::Seconds => 2,
            Form::Microseconds | Form::Nanoseconds => 4,
        };
        let bytes = self.caller.bytes(address, words * 8)?;
        let parts: Vec<i64> = bytes
            .chunks_exact(16)
            .filter_map(|pair| Some(i64::from_ne_bytes(pair.get(8..)?.try_into().ok()?)))
            .collect();
        Ok(read(&parts, form))
    }

    /// `rights` says what the kernel asks for, of the owner and of others.
    fn tell_metadata(
        &self,
        what: &'static str,
        (dirfd, path): (i32, usize),
        flags: i32,
        rights: impl Fn(bool) -> Option<Needs>,
    ) -> Result<(), Stop> {
        if flags & !(libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) != 0 {
            return Ok(());
        }
        let path = self.caller.text(self.arg(path))?;
        let object = if path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
            self.caller.base(&self.broker.root, dirfd, c"")?
        } else {
            let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
            self.walk().object(dirfd, &path, follow)?
        };
        let (_, read_only) = at::file_system(object.as_fd())?;
        if !read_only {
            return Ok(());
        }
        let look = at::look(object.as_fd(), c"")?;
        if let Some(needs) = rights(look.uid == geteuid().as_raw()) {
            self.tell_change(what, needs, &object);
        }
        Ok(())
    }

    /// Reports a change of an object on a read-only mount, by the rule that the mount is there for.
    pub(super) fn tell_change(&self, what: &'static str, needs: Needs, object: &OwnedFd) {
        let Ok(look) = at::look(object.as_fd(), c"") else {
            return;
        };
        let ruled = (what, Action::Write, needs);
        match self.broker.object_ruled(&self.caller, ruled, object, &look) {
            Err(Stop::Denied(denied)) => self.note(Some(*denied)),
            _ => self.tell_read_only(what, needs, object),
        }
    }
}

/// Both times.
fn stamps(bytes: &[u8], form: Form) -> Result<[TimeSpec; 2], Errno> {
    let words: Vec<i64> = bytes
        .chunks_exact(8)
        .filter_map(|word| Some(i64::from_ne_bytes(word.try_into().ok()?)))
        .collect();
    let stamp = |seconds: i64, part: i64| match form {
        Form::Seconds => Ok(TimeSpec::new(seconds, 0)),
        Form::Microseconds if (0..1_000_000).contains(&part) => {
            Ok(TimeSpec::new(seconds, part * 1000))
        }
        Form::Nanoseconds if part == libc::UTIME_NOW => Ok(TimeSpec::UTIME_NOW),
        Form::Nanoseconds if part == libc::UTIME_OMIT => Ok(TimeSpec::UTIME_OMIT),
        Form::Nanoseconds if (0..1_000_000_000).contains(&part) => Ok(TimeSpec::new(seconds, part)),
        Form::Microseconds | Form::Nanoseconds => Err(Errno::EINVAL),
    };
    match (form, words.as_slice()) {
        (Form::Seconds, &[accessed, modified]) => Ok([stamp(accessed, 0)?, stamp(modified, 0)?]),
        (Form::Microseconds | Form::Nanoseconds, &[a, a_part, m, m_part]) => {
            Ok([stamp(a, a_part)?, stamp(m, m_part)?])
        }
        _ => Err(Errno::EFAULT),
    }
}

/// The parts of a second, or other words, of both times.
fn read(parts: &[i64], form: Form) -> Times {
    let (now, omit) = (libc::UTIME_NOW, libc::UTIME_OMIT);
    let special = |part: i64| part == now || part == omit;
    match form {
        Form::Seconds => Times::Given,
        Form::Microseconds if parts.iter().all(|part| (0..1_000_000).contains(part)) => {
            Times::Given
        }
        Form::Nanoseconds if parts.iter().all(|&part| part == now) => Times::Now,
        Form::Nanoseconds if parts.iter().all(|&part| part == omit) => Times::Nothing,
        Form::Nanoseconds
            if parts
                .iter()
                .all(|&part| special(part) || (0..1_000_000_000).contains(&part)) =>
        {
            Times::Given
        }
        Form::Microseconds | Form::Nanoseconds => Times::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_taken_as_the_kernel_does() {
        let bytes = |words: &[i64]| {
            words
                .iter()
                .flat_map(|w| w.to_ne_bytes())
                .collect::<Vec<u8>>()
        };
        let (now, omit) = (libc::UTIME_NOW, libc::UTIME_OMIT);
        let at = TimeSpec::new;
        for (words, form, wanted) in [
            (&[7, 9][..], Form::Seconds, Ok([at(7, 0), at(9, 0)])),
            (
                &[1, 2, 3, 4],
                Form::Microseconds,
                Ok([at(1, 2000), at(3, 4000)]),
            ),
            (
                &[1, 1_000_000, 3, 4],
                Form::Microseconds,
                Err(Errno::EINVAL),
            ),
            (
                &[5, now, 6, omit],
                Form::Nanoseconds,
                Ok([TimeSpec::UTIME_NOW, TimeSpec::UTIME_OMIT]),
            ),
            (&[5, -1, 6, 0], Form::Nanoseconds, Err(Errno::EINVAL)),
            (&[5, 1, 6, 2], Form::Nanoseconds, Ok([at(5, 1), at(6, 2)])),
        ] {
            assert_eq!(stamps(&bytes(words), form), wanted, "{words:?} {form:?}");
        }
    }

    #[test]
    fn times_are_read_as_the_kernel_does() {
        let (now, omit) = (libc::UTIME_NOW, libc::UTIME_OMIT);
        for (parts, form, wanted) in [
            ([7, 9], Form::Seconds, Times::Given),
            ([0, 999_999], Form::Microseconds, Times::Given),
            ([0, 1_000_000], Form::Microseconds, Times::Nothing),
            ([-1, 0], Form::Microseconds, Times::Nothing),
            ([now, now], Form::Microseconds, Times::Nothing),
            ([0, 999_999_999], Form::Nanoseconds, Times::Given),
            ([now, now], Form::Nanoseconds, Times::Now),
            ([now, 1], Form::Nanoseconds, Times::Given),
            ([omit, now], Form::Nanoseconds, Times::Given),
            ([omit, omit], Form::Nanoseconds, Times::Nothing),
            ([0, -1], Form::Nanoseconds, Times::Nothing),
        ] {
            assert_eq!(read(&parts, form), wanted, "{parts:?} {form:?}");
        }
    }
}
