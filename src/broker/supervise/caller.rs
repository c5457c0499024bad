//! The thread whose call is answered: what it wrote, where it stands.
//!
//! Its memory is hostile and changes at any time: every string and structure is copied once and never looked at again. What is
//! opened through `/proc/TID` is the caller's only as long as the notification is alive, so that is asked afterwards.

use std::cell::OnceCell;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::Instant;

use nix::errno::Errno;

use super::memory::{Fd, Memory, Thread};
use super::processes::{Processes, Stamp};
use crate::sys::at::{self, Look};
use crate::sys::libc;
use crate::sys::{notify, task};

/// PATH_MAX of linux/limits.h: the longest path with its NUL.
const PATH_MAX: usize = 4096;
/// The smallest page there is: what lies in one page can be read whole or not at all.
const PAGE: u64 = PAGE_BYTES as u64;
const PAGE_BYTES: usize = 4096;
/// Most paths are shorter; reading less costs less.
const FIRST_BYTES: usize = 256;

/// A thread that waits for an answer.
#[derive(Debug)]
pub(super) struct Caller<'b> {
    listener: BorrowedFd<'b>,
    /// The notification.
    pub(super) id: u64,
    /// Its thread id here.
    pub(super) tid: i32,
    /// When its call was received.
    pub(super) now: Instant,
    pub(super) memory: &'b Memory,
    processes: &'b Processes,
    status: OnceCell<Status>,
}

/// Of `/proc/TID/status` (proc_pid_status(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    /// The process.
    pub(super) tgid: i32,
    /// The process, by its number in the innermost namespace.
    pub(super) inner_tgid: i32,
    /// The thread, by its number in the innermost namespace.
    pub(super) inner_tid: i32,
    /// The thread runs in more namespaces than this one.
    pub(super) nested: bool,
    /// Its umask.
    pub(super) umask: u32,
}

impl<'b> Caller<'b> {
    pub(super) fn new(
        listener: BorrowedFd<'b>,
        request: &notify::Request,
        memory: &'b Memory,
        processes: &'b Processes,
    ) -> Self {
        Self {
            listener,
            id: request.id,
            tid: request.tid,
            now: Instant::now(),
            memory,
            processes,
            status: OnceCell::new(),
        }
    }

    /// Does something with what is kept of the thread.
    fn kept<T>(&self, then: impl FnOnce(&mut Thread) -> T) -> Option<T> {
        let programs = self.processes.programs();
        self.memory.thread(self.tid, self.now, programs, then)
    }

    /// Everything opened by thread id up to here was this thread's.
    pub(super) fn verify(&self) -> Result<(), Errno> {
        if notify::is_waiting(self.listener, self.id) {
            Ok(())
        } else {
            Err(Errno::ESRCH)
        }
    }

    /// The C string at an address: a path, or the text of a link. As getname() of the kernel, but for the empty string.
    pub(super) fn text(&self, address: u64) -> Result<CString, Errno> {
        let mut text: Vec<u8> = Vec::new();
        let mut at = address;
        loop {
            let left = u64::try_from(PATH_MAX - text.len()).unwrap_or(0);
            if left == 0 {
                return Err(Errno::ENAMETOOLONG);
            }
            let page = PAGE - at % PAGE;
            let length = usize::try_from(page.min(left)).unwrap_or(0);
            // Nearly all paths are short: a whole page is only set up for what follows.
            let (mut short, mut long);
            let buffer: &mut [u8] = if text.is_empty() {
                short = [0; FIRST_BYTES];
                &mut short
            } else {
                long = [0; PAGE_BYTES];
                &mut long
            };
            let length = length.min(buffer.len());
            let chunk = buffer.get_mut(..length).unwrap_or_default();
            self.read(at, chunk)?;
            if let Some(end) = chunk.iter().position(|&b| b == 0) {
                text.extend_from_slice(chunk.get(..end).unwrap_or_default());
                // No NUL is left in it.
                return CString::new(text).map_err(|_| Errno::EINVAL);
            }
            text.extend_from_slice(chunk);
            at = at.wrapping_add(u64::try_from(length).unwrap_or(0));
        }
    }

    /// `length` bytes at an address.
    pub(super) fn bytes(&self, address: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; length];
        self.read(address, &mut bytes)?;
        Ok(bytes)
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Errno> {
        match self.kept(|thread| read(&thread.memory, bytes, address)) {
            Some(Read::All) => return Ok(()),
            Some(Read::Fault) => return Err(Errno::EFAULT),
            Some(Read::Gone) => self.memory.drop_thread(self.tid),
            None => {}
        }
        // Before it is opened: a program that is executed meanwhile counts.
        let programs = self.processes.programs();
        let memory = File::from(self.open(self.tid, "mem", libc::O_RDONLY)?);
        let got = read(&memory, bytes, address);
        self.memory
            .keep_thread(Thread::new(self.tid, memory, self.now, programs));
        match got {
            Read::All => Ok(()),
            // Whatever is wrong with the address, the kernel calls it EFAULT.
            Read::Fault | Read::Gone => Err(Errno::EFAULT),
        }
    }

    /// Opens an entry of `/proc/N`, N being the thread or its process.
    pub(super) fn open(&self, of: i32, entry: &str, flags: i32) -> Result<OwnedFd, Errno> {
        let path = CString::new(format!("/proc/{of}/{entry}")).map_err(|_| Errno::EINVAL)?;
        let opened = at::open_here(&path, flags).map_err(|errno| {
            // The program may not be looked at (prctl(2), PR_SET_DUMPABLE; a program one can execute but not read).
            if errno == Errno::EACCES {
                Errno::EPERM
            } else {
                errno
            }
        })?;
        self.verify()?;
        Ok(opened)
    }

    /// The process of the thread; `None` where it cannot be told.
    pub(super) fn tgid(&self) -> Option<i32> {
        if let Some(tgid) = self.kept(|thread| thread.tgid).flatten() {
            return Some(tgid);
        }
        let (tgid, process) = match task::open_process(self.tid) {
            Ok(process) => (self.tid, Some(process)),
            // Not the first thread of its process.
            Err(_) => (self.status().ok()?.tgid, None),
        };
        self.verify().ok()?;
        self.kept(|thread| {
            thread.tgid = Some(tgid);
            thread.process = process;
        });
        Some(tgid)
    }

    /// The present stamp of its process; `None` where nothing may be remembered of it.
    fn stamp(&self) -> Option<Stamp> {
        self.processes.stamp(self.tgid()?, self.tid)
    }

    /// The working directory, and what it looked like when it was looked up.
    pub(super) fn cwd(&self) -> Result<(Fd, Look), Errno> {
        let stamp = self.stamp();
        if let Some(stamp) = stamp {
            let kept = self.kept(|thread| match &thread.cwd {
                Some((at, fd, look)) if *at == stamp => Some((Fd::clone(fd), *look)),
                _ => None,
            });
            if let Some(kept) = kept.flatten() {
                return Ok(kept);
            }
        }
        let fd = Fd::new(self.open(self.tid, "cwd", libc::O_PATH)?);
        let look = at::look(fd.as_fd(), c"")?;
        // Somebody may have been told to go elsewhere while it was looked up.
        if let Some(stamp) = stamp
            && self.stamp() == Some(stamp)
        {
            self.kept(|thread| thread.cwd = Some((stamp, Fd::clone(&fd), look)));
        }
        Ok((fd, look))
    }

    /// The umask.
    pub(super) fn umask(&self) -> Result<u32, Errno> {
        if let Some(umask) = self.processes.everybodys_umask() {
            return Ok(umask);
        }
        let stamp = self.stamp();
        if let Some(stamp) = stamp {
            let kept = self.kept(|thread| thread.umask.filter(|(at, _)| *at == stamp));
            if let Some((_, umask)) = kept.flatten() {
                return Ok(umask);
            }
        }
        let umask = self.status()?.umask;
        self.processes.saw_umask(umask);
        if let Some(stamp) = stamp
            && self.stamp() == Some(stamp)
        {
            self.kept(|thread| thread.umask = Some((stamp, umask)));
        }
        Ok(umask)
    }

    /// The thread is told to go on with a call that changes working directory or umask.
    pub(super) fn changes(&self) {
        self.processes.changes(self.tgid(), self.tid);
    }

    /// The directory that one of its descriptors means. It may be the very same open file: it must not be held for long.
    fn directory(&self, number: i32) -> Result<Fd, Errno> {
        match self.copy(number) {
            Some(fd) => Ok(Fd::new(fd)),
            None => self.descriptor(number).map(Fd::new),
        }
    }

    /// The object of one of its descriptors, and whether it was opened with `O_PATH`, so that only some calls take it. It may be the very
    /// same open file: it must not be held for long.
    pub(super) fn file(&self, number: i32) -> Result<(OwnedFd, bool), Errno> {
        if let Some(file) = self.copy(number) {
            let path_only = at::flags(file.as_fd())? & libc::O_PATH != 0;
            return Ok((file, path_only));
        }
        let object = self.descriptor(number)?;
        Ok((object, self.is_path_only(number)?))
    }

    /// One of its sockets, or whatever it has under that number: the same open file. Of the thread's own table of descriptors, where the
    /// kernel can tell (6.9); before, of its process's.
    pub(super) fn socket(&self, number: i32) -> Result<OwnedFd, Errno> {
        if number < 0 {
            return Err(Errno::EBADF);
        }
        if let Some(socket) = self.copy(number) {
            return Ok(socket);
        }
        let holder = match task::open_thread(self.tid) {
            Err(Errno::EINVAL) => task::open_process(self.status()?.tgid)?,
            other => other?,
        };
        let socket = task::copy_descriptor(holder.as_fd(), number)?;
        self.verify()?;
        Ok(socket)
    }

    /// A copy of one of its descriptors, where its process is at hand.
    fn copy(&self, number: i32) -> Option<OwnedFd> {
        self.tgid()?;
        let copied = self.kept(|thread| {
            let process = thread.process.as_ref()?;
            task::copy_descriptor(process.as_fd(), number).ok()
        });
        copied.flatten()
    }

    /// It may have one descriptor more. The kernel asks for that before it looks at any path (do_sys_openat2()).
    pub(super) fn may_have_another(&self) -> Result<bool, Errno> {
        let Some(limit) = task::descriptor_limit(self.tid)? else {
            return Ok(true);
        };
        let Some(last) = limit.checked_sub(1) else {
            return Ok(false);
        };
        // The last number is free nearly always, and then nothing more has to be asked.
        let last = i32::try_from(last).unwrap_or(i32::MAX);
        self.tgid();
        let asked = self.kept(|thread| {
            let process = thread.process.as_ref()?;
            Some(task::has_descriptor(process.as_fd(), last))
        });
        let taken = match asked.flatten() {
            Some(taken) => taken,
            None => !matches!(self.descriptor(last), Err(Errno::EBADF)),
        };
        if !taken {
            return Ok(true);
        }
        let all = std::fs::read_dir(format!("/proc/{}/fd", self.tid)).map_err(|_| Errno::EPERM)?;
        let numbers = all
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
        let used = numbers.filter(|&number| number < limit).count();
        self.verify()?;
        Ok(u64::try_from(used).is_ok_and(|used| used < limit))
    }

    /// The object of one of its descriptors.
    pub(super) fn descriptor(&self, number: i32) -> Result<OwnedFd, Errno> {
        if number < 0 {
            return Err(Errno::EBADF);
        }
        self.open(self.tid, &format!("fd/{number}"), libc::O_PATH)
            .map_err(|errno| {
                if errno == Errno::ENOENT {
                    Errno::EBADF
                } else {
                    errno
                }
            })
    }

    /// One of its descriptors was opened with `O_PATH`, so that only some calls take it.
    fn is_path_only(&self, number: i32) -> Result<bool, Errno> {
        Ok(self.flags(number)? & i64::from(libc::O_PATH) != 0)
    }

    /// The flags one of its descriptors was opened with.
    fn flags(&self, number: i32) -> Result<i64, Errno> {
        let path = format!("/proc/{}/fdinfo/{number}", self.tid);
        let info = std::fs::read_to_string(path).map_err(|_| Errno::EBADF)?;
        self.verify()?;
        info.lines()
            .find_map(|line| line.strip_prefix("flags:"))
            .and_then(|octal| i64::from_str_radix(octal.trim(), 8).ok())
            .ok_or(Errno::EBADF)
    }

    /// Some descriptor of its process leads to this object and was opened for writing.
    pub(super) fn holds_for_writing(&self, look: &at::Look) -> Result<bool, Errno> {
        let all = std::fs::read_dir(format!("/proc/{}/fd", self.tid)).map_err(|_| Errno::EPERM)?;
        for entry in all.flatten() {
            let Some(number) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
                continue;
            };
            let same = self
                .descriptor(number)
                .and_then(|object| at::look(object.as_fd(), c""))
                .is_ok_and(|found| found.same(look));
            let writes = |flags: i64| {
                let access = flags & i64::from(libc::O_ACCMODE);
                access != i64::from(libc::O_RDONLY) && flags & i64::from(libc::O_PATH) == 0
            };
            if same && self.flags(number).is_ok_and(writes) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What `/dev/tty` is to the caller: `None` where it is what it is to this process. ENXIO where it has none.
    pub(super) fn terminal(&self) -> Result<Option<OwnedFd>, Errno> {
        let of = |tid: &str| -> Result<(i64, i64), Errno> {
            let stat = std::fs::read(format!("/proc/{tid}/stat")).map_err(|_| Errno::ESRCH)?;
            session(&stat).ok_or(Errno::ENXIO)
        };
        let (own, _) = of("self")?;
        let (its, terminal) = of(&self.tid.to_string())?;
        self.verify()?;
        if terminal == 0 {
            return Err(Errno::ENXIO);
        }
        if own == its {
            return Ok(None);
        }
        // A session of its own: the terminal is among its descriptors, or nobody here knows it.
        let all = std::fs::read_dir(format!("/proc/{}/fd", self.tid)).map_err(|_| Errno::EPERM)?;
        all.flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(|number| self.descriptor(number).ok())
            .find(|object| {
                at::look(object.as_fd(), c"").is_ok_and(|look| {
                    let (major, minor) = look.represents;
                    // MKDEV of the kernel's new_encode_dev().
                    let device = minor & 0xff | major << 8 | (minor & !0xff) << 12;
                    look.is(libc::S_IFCHR) && i64::from(device) == terminal
                })
            })
            .map(Some)
            .ok_or(Errno::ENXIO)
    }

    /// Numbers and umask.
    pub(super) fn status(&self) -> Result<&Status, Errno> {
        if let Some(status) = self.status.get() {
            return Ok(status);
        }
        let text = std::fs::read(format!("/proc/{}/status", self.tid)).map_err(|_| Errno::ESRCH)?;
        self.verify()?;
        let status = Status::parse(&text).ok_or(Errno::EPERM)?;
        Ok(self.status.get_or_init(|| status))
    }

    /// The name of the process that made the call.
    pub(super) fn program(&self) -> String {
        let pid = self.status().map_or(self.tid, |status| status.tgid);
        let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
        String::from_utf8_lossy(name.strip_suffix(b"\n").unwrap_or(&name)).into_owned()
    }

    /// `/proc/TID/mountinfo`.
    pub(super) fn mounts(&self) -> Result<Vec<u8>, Errno> {
        let text =
            std::fs::read(format!("/proc/{}/mountinfo", self.tid)).map_err(|_| Errno::ESRCH)?;
        self.verify()?;
        Ok(text)
    }

    /// Where a path starts.
    pub(super) fn base(&self, root: &Fd, dirfd: i32, path: &CStr) -> Result<Fd, Errno> {
        if path.to_bytes().starts_with(b"/") {
            return Ok(Fd::clone(root));
        }
        if dirfd == libc::AT_FDCWD {
            Ok(self.cwd()?.0)
        } else {
            self.directory(dirfd)
        }
    }
}

/// Session and terminal of `/proc/PID/stat` (proc_pid_stat(5)).
fn session(stat: &[u8]) -> Option<(i64, i64)> {
    // The name in parentheses may hold anything.
    let end = stat.iter().rposition(|&b| b == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let mut fields = rest.split_whitespace().skip(3);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// How a read of memory ended.
enum Read {
    All,
    /// Some of it cannot be read.
    Fault,
    /// There is no address space any more.
    Gone,
}

fn read(memory: &File, bytes: &mut [u8], address: u64) -> Read {
    let mut done = 0;
    while let Some(left) = bytes.get_mut(done..).filter(|left| !left.is_empty()) {
        let at = address.wrapping_add(u64::try_from(done).unwrap_or(u64::MAX));
        match memory.read_at(left, at) {
            Ok(0) if done == 0 => return Read::Gone,
            Ok(0) => return Read::Fault,
            Ok(n) => done += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return Read::Fault,
        }
    }
    Read::All
}

impl Status {
    fn parse(text: &[u8]) -> Option<Self> {
        let field = |name: &str| {
            text.split(|&b| b == b'\n')
                .find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b":"))
                .and_then(|value| std::str::from_utf8(value).ok())
        };
        let numbers = |name: &str| -> Option<Vec<i32>> {
            field(name)?
                .split_whitespace()
                .map(|n| n.parse().ok())
                .collect()
        };
        // From the reader's namespace to the innermost.
        let (processes, threads) = (numbers("NStgid")?, numbers("NSpid")?);
        Some(Self {
            tgid: numbers("Tgid")?.first().copied()?,
            inner_tgid: processes.last().copied()?,
            inner_tid: threads.last().copied()?,
            nested: processes.len() > 1,
            umask: u32::from_str_radix(field("Umask")?.trim(), 8).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_read_as_the_kernel_writes_it() {
        let text = b"Name:\tNStgid:\t9\nUmask:\t0027\nState:\tS (sleeping)\nTgid:\t501\nNgid:\t0\nPid:\t502\nNStgid:\t501\t7\t3\nNSpid:\t502\t8\t4\n";
        assert_eq!(
            Status::parse(text),
            Some(Status {
                tgid: 501,
                inner_tgid: 3,
                inner_tid: 4,
                nested: true,
                umask: 0o27,
            })
        );
        assert_eq!(Status::parse(b"Umask:\t0022\nTgid:\t1\n"), None);
        let own = std::fs::read("/proc/self/status").unwrap();
        let own = Status::parse(&own).unwrap();
        assert_eq!(own.tgid.unsigned_abs(), std::process::id());
    }
}
