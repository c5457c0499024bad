//! The kernel's side of a FUSE file system (fuse(4), linux/fuse.h, protocol 7): the device, the mount, and as much of the protocol as a
//! file system needs that shows metadata and refuses everything else. No helper program, no library: both want to mount themselves.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use super::libc;
use super::mounts::{Calls, Tree, Without};

/// Node of the root directory.
pub const ROOT: u64 = 1;
/// Room for one request: FUSE_MIN_READ_BUFFER, below which the kernel refuses to read. Data to be written would need more, but
/// nothing can be opened.
pub const REQUEST: usize = 8192;
/// Longest answer that is made here, but for listings.
const ANSWER: usize = 256;
/// Of the requests that may wait in the background; the kernel's own default is 12.
const BACKGROUND: u16 = 12;
const MAX_WRITE: u32 = 4096;
/// The newest minor version whose layouts are used here: later ones only add calls.
const MINOR: u32 = 38;
/// Before 7.23 the answer to INIT is shorter (Linux 3.15; user namespaces could not mount FUSE before 4.18).
const OLDEST_MINOR: u32 = 23;
/// FUSE_DO_READDIRPLUS: a listing carries the entries' nodes, so that they need not be looked up one by one.
const DO_READDIRPLUS: u32 = 1 << 13;

/// Opens the device, non-blocking. It must be done in the user namespace the file system is mounted in (fuse_fill_super in fs/fuse/inode.c).
pub fn open_device() -> io::Result<OwnedFd> {
    Ok(nix::fcntl::open(
        c"/dev/fuse",
        OFlag::O_RDWR | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?)
}

/// From now on [`receive`] waits.
pub fn make_patient(device: &OwnedFd) -> io::Result<()> {
    use nix::fcntl::{FcntlArg, fcntl};
    fcntl(device, FcntlArg::F_SETFL(OFlag::empty()))?;
    Ok(())
}

/// The file system that `device` will answer for, mounted nowhere yet: read-only, nosuid, nodev, noexec, and only for processes with
/// exactly these ids (no `allow_other`). Waits for no answer. With [`Calls::Classic`] the device must stay open until it is mounted.
pub fn file_system(calls: Calls, device: &OwnedFd, uid: u32, gid: u32) -> io::Result<Tree> {
    let number = |n: u32| CString::new(n.to_string());
    let fd = CString::new(device.as_raw_fd().to_string())?;
    let (uid, gid) = (number(uid)?, number(gid)?);
    let options: [(&CStr, &CStr); 5] = [
        (c"source", c"ccbox"),
        (c"fd", &fd),
        (c"rootmode", c"40000"),
        (c"user_id", &uid),
        (c"group_id", &gid),
    ];
    let without = Without::WRITING
        .and(Without::SETUID)
        .and(Without::DEVICES)
        .and(Without::EXECUTING);
    calls.file_system(c"fuse", &options, without)
}

/// One request of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    unique: u64,
    /// The object it is about.
    pub node: u64,
    /// Thread that asks, in the process namespace of the mount; 0 where it has no number there.
    pub pid: u32,
    /// What is asked.
    pub call: Call<'a>,
}

/// What can be asked, as far as it is told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call<'a> {
    /// The connection begins; the kernel's minor version and whether it can take listings with nodes.
    Init {
        /// Its minor version.
        minor: u32,
        /// FUSE_DO_READDIRPLUS is offered.
        listings: bool,
    },
    /// A name in a directory.
    Lookup(&'a OsStr),
    /// Metadata.
    Attributes,
    /// access(2) or chdir(2), with the rights asked for; none means "is it there".
    Access(u32),
    /// open(2) of a file.
    Open,
    /// open(2) of a directory.
    OpenDirectory,
    /// A listing with nodes from this position.
    List {
        /// 0 at first.
        offset: u64,
        /// Room in bytes.
        room: usize,
    },
    /// statfs(2).
    FileSystem,
    /// Extended attributes, read.
    Extended,
    /// statx(2) for what Attributes does not tell.
    MoreAttributes,
    /// Anything else that wants an answer, by its number in linux/fuse.h.
    Other(u32),
    /// What wants none.
    Note,
}

impl<'a> Request<'a> {
    /// Reads one request; `None` where the bytes are none.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (head, body) = bytes.split_at_checked(40)?;
        let word = |at: usize| number::<4>(head, at).map(u32::from_ne_bytes);
        let long = |at: usize| number::<8>(head, at).map(u64::from_ne_bytes);
        if usize::try_from(word(0)?) != Ok(bytes.len()) {
            return None;
        }
        let in_body = |at: usize| number::<4>(body, at).map(u32::from_ne_bytes);
        let call = match word(4)? {
            1 => Call::Lookup(OsStr::from_bytes(name(body)?)),
            3 => Call::Attributes,
            14 => Call::Open,
            17 => Call::FileSystem,
            22 | 23 => Call::Extended,
            26 => Call::Init {
                // Of another major version nothing is known but that it is answered with ours.
                minor: if in_body(0)? == 7 { in_body(4)? } else { 0 },
                listings: in_body(12)? & DO_READDIRPLUS != 0,
            },
            27 => Call::OpenDirectory,
            34 => Call::Access(in_body(0)?),
            44 => Call::List {
                offset: number::<8>(body, 8).map(u64::from_ne_bytes)?,
                room: usize::try_from(in_body(16)?).ok()?,
            },
            52 => Call::MoreAttributes,
            // FORGET, INTERRUPT, DESTROY, BATCH_FORGET. RELEASE and RELEASEDIR come unwaited for, but are answered.
            2 | 36 | 38 | 42 => Call::Note,
            other => Call::Other(other),
        };
        Some(Self {
            unique: long(8)?,
            node: long(16)?,
            pid: word(32)?,
            call,
        })
    }

    /// Refuses.
    #[must_use]
    pub fn refuse(&self, errno: Errno) -> Answer {
        self.answer(-(errno as i32), |_| {})
    }

    /// Yes, and nothing to tell: access, opening, releasing.
    #[must_use]
    pub fn agree(&self) -> Answer {
        // fuse_open_out: no handle, no flags. The other calls take no body.
        let opened = matches!(self.call, Call::Open | Call::OpenDirectory);
        self.answer(0, |out| out.zeros(if opened { 16 } else { 0 }))
    }

    /// Answers INIT; `None` where the kernel's version is too old or another one.
    #[must_use]
    pub fn begin(&self) -> Option<Answer> {
        let Call::Init { minor, listings } = self.call else {
            return None;
        };
        if minor < OLDEST_MINOR {
            return None;
        }
        Some(self.answer(0, |out| {
            out.words(&[7, minor.min(MINOR), 0]);
            out.word(if listings { DO_READDIRPLUS } else { 0 });
            out.bytes(&BACKGROUND.to_ne_bytes());
            out.bytes(&BACKGROUND.to_ne_bytes());
            // Times are as fine as nanoseconds.
            out.words(&[MAX_WRITE, 1]);
            out.zeros(36);
        }))
    }

    /// Answers with metadata the kernel may keep for `seconds`.
    #[must_use]
    pub fn attributes(&self, about: &Attributes, seconds: u64) -> Answer {
        self.answer(0, |out| {
            out.long(seconds);
            out.zeros(8);
            out.attributes(about);
        })
    }

    /// Answers a look-up.
    #[must_use]
    pub fn entry(&self, node: u64, about: &Attributes, seconds: u64) -> Answer {
        self.answer(0, |out| out.entry(node, about, seconds))
    }

    /// Answers with a file system that holds nothing and has no room: what df(1) leaves out.
    #[must_use]
    pub fn empty_file_system(&self) -> Answer {
        self.answer(0, |out| {
            out.zeros(40);
            out.words(&[512, 255, 512]);
            out.zeros(28);
        })
    }

    /// Answers a listing, each entry with its position, node and metadata, as far as there is room.
    #[must_use]
    pub fn listing<'e>(
        &self,
        entries: impl Iterator<Item = (u64, &'e str, u64, Attributes)>,
        seconds: u64,
    ) -> Answer {
        let Call::List { room, .. } = self.call else {
            return self.refuse(Errno::EINVAL);
        };
        self.answer(0, |out| {
            for (next, name, node, about) in entries {
                let length = 128 + 24 + name.len().next_multiple_of(8);
                if out.0.len() - 16 + length > room {
                    break;
                }
                out.entry(node, &about, seconds);
                out.long(about.ino);
                out.long(next);
                // NAME_MAX and file types are small.
                out.word(u32::try_from(name.len()).unwrap_or(0));
                out.word((about.mode & libc::S_IFMT) >> 12);
                out.bytes(name.as_bytes());
                out.zeros(name.len().next_multiple_of(8) - name.len());
            }
        })
    }

    fn answer(&self, error: i32, body: impl FnOnce(&mut Answer)) -> Answer {
        let mut out = Answer(Vec::with_capacity(ANSWER));
        out.word(0);
        out.bytes(&error.to_ne_bytes());
        out.long(self.unique);
        body(&mut out);
        let length = u32::try_from(out.0.len()).unwrap_or(0);
        if let Some(head) = out.0.get_mut(..4) {
            head.copy_from_slice(&length.to_ne_bytes());
        }
        out
    }
}

/// An answer, ready to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer(Vec<u8>);

impl Answer {
    /// Writes it. That the one who asked has gone meanwhile is no error.
    pub fn send(&self, device: impl AsFd) -> io::Result<()> {
        match nix::unistd::write(device, &self.0) {
            Ok(_) | Err(Errno::ENOENT) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// The errno it carries, 0 for none.
    #[must_use]
    pub fn errno(&self) -> i32 {
        number::<4>(&self.0, 4).map_or(0, |b| -i32::from_ne_bytes(b))
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn zeros(&mut self, count: usize) {
        self.0.resize(self.0.len() + count, 0);
    }

    fn word(&mut self, word: u32) {
        self.bytes(&word.to_ne_bytes());
    }

    fn words(&mut self, words: &[u32]) {
        for word in words {
            self.word(*word);
        }
    }

    fn long(&mut self, long: u64) {
        self.bytes(&long.to_ne_bytes());
    }

    /// struct fuse_entry_out. The name may be kept longer than the metadata: it never changes.
    fn entry(&mut self, node: u64, about: &Attributes, seconds: u64) {
        self.long(node);
        self.long(0);
        self.long(u64::from(u32::MAX));
        self.long(seconds);
        self.zeros(8);
        self.attributes(about);
    }

    /// struct fuse_attr. Ids that have no name in the sandbox's user namespace show as nobody's there, as they do for any file.
    fn attributes(&mut self, a: &Attributes) {
        let [atime, mtime, ctime] = a.times;
        for long in [a.ino, a.size, a.blocks, atime.0, mtime.0, ctime.0] {
            self.long(long);
        }
        self.words(&[atime.1, mtime.1, ctime.1, a.mode, a.links, a.uid, a.gid]);
        self.words(&[0, a.block_size, 0]);
    }
}

/// Metadata of a file or directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Number; the kernel shows it, but keeps its own by node.
    pub ino: u64,
    /// Type and permission bits.
    pub mode: u32,
    size: u64,
    blocks: u64,
    block_size: u32,
    links: u32,
    uid: u32,
    gid: u32,
    /// Access, modification, change: seconds and nanoseconds.
    times: [(u64, u32); 3],
}

impl Attributes {
    /// Of an object about which nothing is known but its type.
    #[must_use]
    pub fn bare(node: u64, is_dir: bool) -> Self {
        Self {
            ino: node,
            mode: if is_dir { libc::S_IFDIR } else { libc::S_IFREG },
            links: 1,
            ..Self::default()
        }
    }

    /// The metadata of a host object under the type of the node that stands for it: the kernel opens sockets, devices and FIFOs
    /// itself, without asking. Such a type is shown as a plain file.
    #[must_use]
    pub fn of(meta: &std::fs::Metadata, is_dir: bool) -> Self {
        let kind = if is_dir { libc::S_IFDIR } else { libc::S_IFREG };
        // Seconds before 1970 wrap as the kernel's own do; nanoseconds are below 10⁹.
        let time = |s: i64, ns: i64| (s.cast_unsigned(), u32::try_from(ns).unwrap_or(0));
        Self {
            ino: meta.ino(),
            mode: kind | (meta.mode() & 0o7777),
            size: meta.size(),
            blocks: meta.blocks(),
            block_size: u32::try_from(meta.blksize()).unwrap_or(4096),
            links: u32::try_from(meta.nlink()).unwrap_or(u32::MAX),
            uid: meta.uid(),
            gid: meta.gid(),
            times: [
                time(meta.atime(), meta.atime_nsec()),
                time(meta.mtime(), meta.mtime_nsec()),
                time(meta.ctime(), meta.ctime_nsec()),
            ],
        }
    }
}

/// What there was to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// A request of so many bytes.
    Request(usize),
    /// Nothing now, of a device that does not wait.
    Nothing,
    /// The file system is gone for good.
    End,
}

/// Reads one request.
pub fn receive(device: impl AsFd, buffer: &mut [u8]) -> io::Result<Received> {
    loop {
        match nix::unistd::read(device.as_fd(), buffer) {
            Ok(n) => return Ok(Received::Request(n)),
            Err(Errno::EAGAIN) => return Ok(Received::Nothing),
            // ENOENT: who asked was killed before the request was read.
            Err(Errno::EINTR | Errno::ENOENT) => {}
            Err(Errno::ENODEV) => return Ok(Received::End),
            Err(e) => return Err(e.into()),
        }
    }
}

/// Reads as much of the root of a mount as one request brings: the answer carries the nodes, so that names that are opened afterwards
/// need not be asked for one by one.
pub fn learn_names(mount: &OwnedFd) -> io::Result<()> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let directory = nix::fcntl::openat(mount, ".", flags, Mode::empty())?;
    let mut buffer = [0u8; 4096];
    // SAFETY: getdents64 writes at most the given number of bytes into the buffer, which outlives the call.
    let read = unsafe {
        syscall!(
            SYS_getdents64,
            directory.as_raw_fd(),
            buffer.as_mut_ptr(),
            buffer.len(),
        )
    };
    Errno::result(read)?;
    Ok(())
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// The bytes before the first NUL, which must be there.
fn name(body: &[u8]) -> Option<&[u8]> {
    body.split(|b| *b == 0)
        .next()
        .filter(|n| n.len() < body.len())
}

#[cfg(test)]
mod tests;
