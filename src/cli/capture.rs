//! `--capture`: what the command writes to its standard streams goes out as events instead.
//!
//! The command inherits the streams of this process, so these are pipes while it runs. What ccbox itself says goes on through the caller's
//! standard error.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::report::Reporter;
use crate::report::event::{Event, Output};
use crate::sys::fds;

/// Bytes of one event. A reader gets what the command wrote at once, up to this.
const PIECE: usize = 8192;
/// The longest character in UTF-8.
const LONGEST: usize = 4;

/// Makes the event of a stream.
type Make = fn(Output) -> Event;

/// The caller's streams, and the pipes in their place.
#[derive(Debug)]
pub(super) struct Capture {
    stdout: OwnedFd,
    stderr: OwnedFd,
    /// Reading ends, until the readers have them.
    pipes: Mutex<Option<[File; 2]>>,
    readers: Mutex<Vec<JoinHandle<()>>>,
}

impl Capture {
    /// Puts the pipes in place. No thread yet: the session forks.
    pub(super) fn begin(report: &Reporter) -> io::Result<Self> {
        let stdout = fds::duplicate(io::stdout())?;
        let stderr = fds::duplicate(io::stderr())?;
        report.speak_through(File::from(fds::duplicate(&stderr)?));
        let (out, out_end) = io::pipe()?;
        let (err, err_end) = io::pipe()?;
        fds::replace_stdout(&out_end.into())?;
        fds::replace_stderr(&err_end.into())?;
        let files = [
            File::from(OwnedFd::from(out)),
            File::from(OwnedFd::from(err)),
        ];
        Ok(Self {
            stdout,
            stderr,
            pipes: Mutex::new(Some(files)),
            readers: Mutex::default(),
        })
    }

    /// Starts to read: the sandbox stands, and nobody has written yet.
    pub(super) fn start(&self, report: &Arc<Reporter>) {
        let pipes = self
            .pipes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some([out, err]) = pipes else {
            return;
        };
        let makes: [(File, Make); 2] = [(out, Event::Stdout), (err, Event::Stderr)];
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        for (file, make) in makes {
            let report = Arc::clone(report);
            readers.push(std::thread::spawn(move || pass_on(file, make, &report)));
        }
    }

    /// Puts the caller's streams back, and waits until all that was written is out.
    pub(super) fn end(self) -> io::Result<()> {
        // This closes the last writing ends: nothing of the run is left.
        fds::replace_stdout(&self.stdout)?;
        fds::replace_stderr(&self.stderr)?;
        let readers = self
            .readers
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        for reader in readers {
            // A reader that panicked has nothing more to say.
            let _ = reader.join();
        }
        Ok(())
    }
}

fn pass_on(mut from: File, make: Make, report: &Reporter) {
    let mut buffer = vec![0; PIECE + LONGEST];
    let mut kept = 0;
    loop {
        let room = buffer.get_mut(kept..).unwrap_or_default();
        let length = match from.read(room) {
            Ok(0) => break,
            Ok(n) => kept + n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        let all = buffer.get(..length).unwrap_or_default();
        // A character that is not complete yet waits for its rest.
        let whole = length - incomplete(all);
        let (now, later) = all.split_at(whole);
        if !now.is_empty() {
            report.output(&make(Output::of(now)));
        }
        let later = later.to_vec();
        kept = later.len();
        if let Some(start) = buffer.get_mut(..kept) {
            start.copy_from_slice(&later);
        }
    }
    let rest = buffer.get(..kept).unwrap_or_default();
    if !rest.is_empty() {
        report.output(&make(Output::of(rest)));
    }
}

/// How many bytes at the end are the beginning of a character.
fn incomplete(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(LONGEST - 1);
    let tail = bytes.get(tail..).unwrap_or_default();
    for (at, byte) in tail.iter().enumerate() {
        let wanted = match byte {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => continue,
        };
        let have = tail.len() - at;
        if have < wanted {
            return have;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_not_cut() {
        for (bytes, wanted) in [
            (&b""[..], 0),
            (b"a", 0),
            ("aü".as_bytes(), 0),
            (b"a\xc3", 1),
            (b"a\xe2\x82", 2),
            (b"\xf0\x9f\x98", 3),
            ("😀".as_bytes(), 0),
            (b"\xff\xff", 0),
            (b"\xc3a", 0),
        ] {
            assert_eq!(incomplete(bytes), wanted, "{bytes:?}");
        }
    }
}
