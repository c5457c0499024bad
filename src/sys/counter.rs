//! A number that processes share through a file.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

const SIZE: usize = size_of::<u64>();

/// The number in the first eight bytes of a file, mapped; it is the file's page in every process (mmap(2), `MAP_SHARED`).
#[derive(Debug)]
pub struct SharedCounter(NonNull<AtomicU64>);

// SAFETY: the pointer is to memory that stays mapped until the drop and is accessed as an atomic only, from whatever thread.
unsafe impl Send for SharedCounter {}
// SAFETY: as above; all methods go through the atomic.
unsafe impl Sync for SharedCounter {}

impl SharedCounter {
    /// The file holds a number already.
    pub fn has_room(file: &File) -> io::Result<bool> {
        Ok(file.metadata()?.len() >= SIZE as u64)
    }

    /// Maps the number of `file`, which is open for reading and writing; a shorter file becomes long enough. To be called by one process at a
    /// time.
    ///
    /// Who makes the file shorter afterwards kills this process by SIGBUS at the next access.
    pub fn map(file: &File) -> io::Result<Self> {
        if !Self::has_room(file)? {
            // Written, not only made longer: a hole would need space when it is first touched, and a full disk would be a SIGBUS.
            file.write_all_at(&[0; SIZE], 0)?;
        }
        // SAFETY: a new mapping of an open file, at an address of the kernel's choice.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                SIZE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // A mapping starts at a page, so the number is aligned.
        NonNull::new(at.cast())
            .map(Self)
            .ok_or_else(|| io::Error::other("mapped at zero"))
    }

    fn number(&self) -> &AtomicU64 {
        // SAFETY: mapped by `map` with room for the number, page-aligned, and unmapped by the drop only; the type is an atomic, so it may
        // be changed at any time, by other processes as well.
        unsafe { self.0.as_ref() }
    }

    /// The present number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.number().load(Ordering::Acquire)
    }

    /// The next number.
    pub fn bump(&self) {
        self.number().fetch_add(1, Ordering::Release);
    }
}

impl Drop for SharedCounter {
    fn drop(&mut self) {
        // SAFETY: the mapping that `map` made; the reference `number` gives out does not outlive `self`.
        let _ = unsafe { libc::munmap(self.0.as_ptr().cast(), SIZE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_are_one_number() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let first = SharedCounter::map(file.as_file()).unwrap();
        let again = File::options().read(true).write(true).open(file.path());
        let second = SharedCounter::map(&again.unwrap()).unwrap();
        assert_eq!((first.get(), second.get()), (0, 0));
        first.bump();
        assert_eq!(second.get(), 1);
        drop(first);
        second.bump();
        assert_eq!(SharedCounter::map(file.as_file()).unwrap().get(), 2);
        let reader = File::open(file.path()).unwrap();
        assert!(SharedCounter::map(&reader).is_err());
    }
}
