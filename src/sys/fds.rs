//! Descriptors: close-on-exec, memory files, packet sockets that carry descriptors.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

use super::libc;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag};
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType,
    SockaddrLike as _, SockaddrStorage, getpeername, getsockname, getsockopt, sockopt,
};
use nix::sys::stat::{FileStat, SFlag};

/// The most descriptors one message may carry; the kernel's own limit is 253 (SCM_MAX_FD).
pub const MAX_PASSED: usize = 250;

/// Opens an object without any right on it.
pub const O_PATH: OFlag = OFlag::from_bits_retain(libc::O_PATH);
const CLOSED_ON_EXEC: SockFlag = SockFlag::from_bits_retain(libc::SOCK_CLOEXEC);
const NO_SIGNAL: MsgFlags = MsgFlags::from_bits_retain(libc::MSG_NOSIGNAL);
const PASSED_CLOSED_ON_EXEC: MsgFlags = MsgFlags::from_bits_retain(libc::MSG_CMSG_CLOEXEC);

/// What a descriptor refers to, as far as the rules for inherited descriptors care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A directory: a way round every mount (`openat` on it).
    Directory,
    /// A pipe or FIFO.
    Pipe,
    /// A socket.
    Socket,
    /// Anything else.
    Other,
}

/// Kind of an open descriptor number.
pub fn kind(fd: RawFd) -> io::Result<Kind> {
    let stat = stat(fd)?;
    Ok(
        match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
            SFlag::S_IFDIR => Kind::Directory,
            SFlag::S_IFIFO => Kind::Pipe,
            SFlag::S_IFSOCK => Kind::Socket,
            _ => Kind::Other,
        },
    )
}

/// Whether a socket leads to nobody but who is at its other end, or who connects to it: one of `AF_UNIX` that is connected or listens, and
/// not for datagrams. Any other can be pointed somewhere else by whoever holds it (connect(2) with `AF_UNSPEC`, sendto(2), shutdown(2) of
/// a listening one), in the network it was made in.
pub fn leads_one_way(socket: RawFd) -> io::Result<bool> {
    let fd = borrow(socket)?;
    let family = getsockname::<SockaddrStorage>(socket)?.family();
    let form = getsockopt(&fd, sockopt::SockType)?;
    if family != Some(AddressFamily::Unix)
        || !matches!(form, SockType::Stream | SockType::SeqPacket)
    {
        return Ok(false);
    }
    Ok(getpeername::<SockaddrStorage>(socket).is_ok() || getsockopt(&fd, sockopt::AcceptConn)?)
}

/// fstat(2) on a descriptor number that may be closed.
fn stat(fd: RawFd) -> io::Result<FileStat> {
    Ok(nix::sys::stat::fstat(borrow(fd)?)?)
}

/// Borrows a descriptor number for the length of one call.
fn borrow(fd: RawFd) -> io::Result<BorrowedFd<'static>> {
    if fd < 0 {
        return Err(Errno::EBADF.into());
    }
    // SAFETY: `borrow_raw` requires a number other than -1 (checked) that stays open while borrowed. The borrow
    // never leaves this module and lives for one system call, which answers EBADF where the number is not open;
    // nothing is dereferenced or closed through it.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Takes ownership of a descriptor that this process inherited under a known number.
pub fn adopt(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 3 {
        return Err(Errno::EBADF.into());
    }
    nix::fcntl::fcntl(borrow(fd)?, FcntlArg::F_GETFD)?;
    // SAFETY: `from_raw_fd` requires an open descriptor (F_GETFD succeeded) without another owner: it was inherited
    // through execve, so no Rust value of this process can own it, and each number is adopted once by its one user.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes ownership of a descriptor that a raw system call has just returned.
pub(super) fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    let fd = RawFd::try_from(fd).map_err(|_| Errno::EBADF)?;
    if fd < 0 {
        return Err(Errno::EBADF.into());
    }
    // SAFETY: `from_raw_fd` requires an open descriptor without another owner: the callers pass on what a system call that makes a
    // descriptor has returned without an error, and nothing else has seen that number.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Marks every descriptor from `first` on close-on-exec.
pub fn close_on_exec_from(first: RawFd) -> io::Result<()> {
    match close_range(first, RawFd::MAX, libc::CLOSE_RANGE_CLOEXEC) {
        Ok(()) => Ok(()),
        // CLOSE_RANGE_CLOEXEC is Linux 5.11, close_range itself 5.9.
        Err(Errno::EINVAL | Errno::ENOSYS) => {
            for fd in open_numbers()? {
                if fd >= first {
                    set_inheritable_number(fd, false)?;
                }
            }
            Ok(())
        }
        Err(e) => Err(e.into()),
    }
}

/// Opens an object by an absolute path without following any link, the last one included, and without rights on it.
#[cfg(target_os = "linux")]
pub fn open_no_links(path: &Path) -> io::Result<OwnedFd> {
    use nix::fcntl::{AT_FDCWD, OpenHow, ResolveFlag, openat2};
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    match openat2(AT_FDCWD, path, how) {
        // Older than Linux 5.6, or a container's filter that does not know the call.
        Err(Errno::ENOSYS | Errno::EPERM) => step_by_step(path, OFlag::O_PATH),
        other => Ok(refuse_link(other?)?),
    }
}

/// Like [`open_no_links`], of a path below the directory `root`, where the path's leading slash stands for `root`.
#[cfg(target_os = "linux")]
pub fn open_no_links_below(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    use nix::fcntl::{OpenHow, ResolveFlag, openat2};
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let resolve = ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_IN_ROOT;
    let how = OpenHow::new().flags(flags).resolve(resolve);
    Ok(refuse_link(openat2(root, path, how)?)?)
}

/// Absent: nothing is mounted here.
#[cfg(not(target_os = "linux"))]
pub fn open_no_links_below(_root: &OwnedFd, _path: &Path) -> io::Result<OwnedFd> {
    Err(Errno::ENOSYS.into())
}

/// Opens an object by an absolute path without following any link, the last one included.
#[cfg(not(target_os = "linux"))]
pub fn open_no_links(path: &Path) -> io::Result<OwnedFd> {
    step_by_step(path, OFlag::O_RDONLY | OFlag::O_NONBLOCK)
}

/// One component at a time, each relative to the descriptor of the one before: nobody can swap a parent in between.
fn step_by_step(path: &Path, access: OFlag) -> io::Result<OwnedFd> {
    use nix::fcntl::{AT_FDCWD, openat};
    use nix::sys::stat::Mode;
    use std::path::Component;
    let flags = access | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut at = openat(AT_FDCWD, "/", flags | OFlag::O_DIRECTORY, Mode::empty())?;
    for part in path.components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => {
                at = refuse_link(openat(&at, name, flags, Mode::empty())?)?;
            }
            Component::ParentDir | Component::Prefix(_) => return Err(Errno::EINVAL.into()),
        }
    }
    Ok(at)
}

/// `O_PATH | O_NOFOLLOW` opens a link itself (open(2)).
fn refuse_link(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    let kind = SFlag::from_bits_truncate(nix::sys::stat::fstat(&fd)?.st_mode) & SFlag::S_IFMT;
    if kind == SFlag::S_IFLNK {
        return Err(Errno::ELOOP);
    }
    Ok(fd)
}

/// Closes every descriptor above 2 that is not in `keep`.
pub fn close_all_except(keep: &[RawFd]) -> io::Result<()> {
    let mut keep: Vec<RawFd> = keep.iter().copied().filter(|fd| *fd > 2).collect();
    keep.sort_unstable();
    keep.dedup();
    let mut from = 3;
    for fd in keep.iter().copied().chain(std::iter::once(RawFd::MAX)) {
        if from < fd {
            let last = if fd == RawFd::MAX { fd } else { fd - 1 };
            match close_range(from, last, 0) {
                Ok(()) => {}
                Err(Errno::ENOSYS) => {
                    for open in open_numbers()? {
                        if open >= from && open <= last {
                            close_number(open);
                        }
                    }
                }
                Err(e) => return Err(e.into()),
            }
        }
        from = fd.saturating_add(1);
    }
    Ok(())
}

/// close_range(2).
fn close_range(first: RawFd, last: RawFd, flags: libc::c_uint) -> Result<(), Errno> {
    // SAFETY: close_range takes three integers and touches no memory of ours. With flags 0 it closes descriptors,
    // which is sound only while no Rust value owns one of them: `close_all_except` is called by a freshly executed or
    // forked process that keeps exactly the descriptors it owns.
    let r = unsafe { syscall!(SYS_close_range, first, last, flags) };
    Errno::result(r).map(drop)
}

/// close(2) on a number nobody owns.
fn close_number(fd: RawFd) {
    // SAFETY: as in `close_range`: the number has no owner in this process.
    unsafe { libc::close(fd) };
}

/// Where a process sees its descriptors.
const OWN: &str = if super::LINUX {
    "/proc/self/fd"
} else {
    "/dev/fd"
};

/// Numbers of all open descriptors.
pub fn open_numbers() -> io::Result<Vec<RawFd>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(OWN)? {
        if let Some(fd) = entry?.file_name().to_str().and_then(|n| n.parse().ok()) {
            all.push(fd);
        }
    }
    Ok(all)
}

/// Sets or clears close-on-exec on an inherited number.
pub fn set_inheritable_number(fd: RawFd, inheritable: bool) -> io::Result<()> {
    let flags = if inheritable {
        FdFlag::empty()
    } else {
        FdFlag::FD_CLOEXEC
    };
    match nix::fcntl::fcntl(borrow(fd)?, FcntlArg::F_SETFD(flags)) {
        Ok(_) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Clears close-on-exec.
pub fn set_inheritable(fd: &OwnedFd) -> io::Result<()> {
    set_inheritable_number(fd.as_raw_fd(), true)
}

#[cfg(target_os = "linux")]
fn new_memory_file(name: &std::ffi::CStr) -> Result<OwnedFd, Errno> {
    use nix::sys::memfd::{MFdFlags, memfd_create};
    // Never executable where the kernel can say so (6.3); vm.memfd_noexec = 2 refuses one without the flag.
    let noexec = MFdFlags::from_bits_retain(libc::MFD_NOEXEC_SEAL);
    match memfd_create(name, MFdFlags::MFD_CLOEXEC | noexec) {
        Err(Errno::EINVAL) => memfd_create(name, MFdFlags::MFD_CLOEXEC),
        other => other,
    }
}

#[cfg(not(target_os = "linux"))]
fn new_memory_file(_name: &std::ffi::CStr) -> Result<OwnedFd, Errno> {
    Err(Errno::ENOSYS)
}

/// A file in memory that holds `content`, positioned at its start, close-on-exec.
pub fn memory_file(name: &std::ffi::CStr, content: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(new_memory_file(name)?);
    if !content.is_empty() {
        file.write_all(content)?;
        file.rewind()?;
    }
    Ok(file.into())
}

/// Whether anybody, mappings included, has a regular file of this user's open for writing: then it cannot be leased (fcntl(2),
/// F_SETLEASE). `fd` must be open for reading only. What cannot be told counts as closed.
#[must_use]
pub fn is_open_for_writing(fd: BorrowedFd<'_>) -> bool {
    let lease = |kind: libc::c_int| {
        // SAFETY: F_SETLEASE takes an integer; it changes nothing but the lease of this open file.
        Errno::result(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETLEASE, kind) })
    };
    let taken = lease(libc::F_RDLCK);
    if taken.is_ok() {
        // One that cannot be given back goes with the descriptor.
        let _ = lease(libc::F_UNLCK);
    }
    taken == Err(Errno::EAGAIN)
}

/// This executable, whatever its path has become: a descriptor for `/proc/self/fd/N`.
pub fn self_executable() -> io::Result<OwnedFd> {
    Ok(nix::fcntl::open(
        c"/proc/self/exe",
        O_PATH | OFlag::O_CLOEXEC,
        nix::sys::stat::Mode::empty(),
    )?)
}

/// A copy of `fd` above the standard descriptors, close-on-exec.
pub fn duplicate(fd: impl AsFd) -> io::Result<OwnedFd> {
    fd.as_fd().try_clone_to_owned()
}

/// Makes the table of descriptors large enough for `wanted`, or for as many as there may be. To be called while no other thread exists: a
/// table that threads share grows only after a grace period of RCU (`expand_fdtable`, fs/file.c), some 10 ms, at 64, 128, 256 … descriptors.
pub fn make_room(wanted: RawFd) -> io::Result<()> {
    let (soft, _) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE)?;
    let last = wanted.min(RawFd::try_from(soft).unwrap_or(RawFd::MAX)) - 1;
    let standard_input = io::stdin();
    match nix::fcntl::fcntl(&standard_input, FcntlArg::F_DUPFD_CLOEXEC(last)) {
        Ok(number) => Ok(nix::unistd::close(number)?),
        // Taken already: then there is room.
        Err(Errno::EMFILE | Errno::EINVAL) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Gives each of `fds` the number beside it, close-on-exec. Numbers of the same descriptors in a related process: none of them may be in
/// use here by anything else.
pub fn renumber(fds: Vec<OwnedFd>, numbers: &[RawFd]) -> io::Result<()> {
    if fds.len() != numbers.len() || numbers.iter().any(|n| *n < 3) {
        return Err(Errno::EBADF.into());
    }
    let above = numbers.iter().max().map_or(3, |n| n.saturating_add(1));
    // First out of each other's way.
    let raised = fds
        .iter()
        .map(|fd| nix::fcntl::fcntl(fd, FcntlArg::F_DUPFD_CLOEXEC(above)))
        .collect::<Result<Vec<RawFd>, Errno>>()?;
    drop(fds);
    for (fd, number) in raised.into_iter().zip(numbers) {
        // SAFETY: dup3 takes integers. It would close what has the number `number`, which the caller says is nobody's; the new
        // descriptor is used by number only (it is for execve), so no Rust value comes to own it.
        let made = unsafe { libc::dup3(fd, *number, libc::O_CLOEXEC) };
        close_number(fd);
        Errno::result(made)?;
    }
    Ok(())
}

/// A connected pair of packet sockets, both close-on-exec.
pub fn packet_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(nix::sys::socket::socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        CLOSED_ON_EXEC,
    )?)
}

/// Sends one packet with descriptors. A peer that is gone is an error, never SIGPIPE.
pub fn send(socket: &OwnedFd, bytes: &[u8], fds: &[RawFd]) -> io::Result<()> {
    let control: &[ControlMessage] = if fds.is_empty() {
        &[]
    } else {
        &[ControlMessage::ScmRights(fds)]
    };
    loop {
        match nix::sys::socket::sendmsg::<()>(
            socket.as_raw_fd(),
            &[IoSlice::new(bytes)],
            control,
            NO_SIGNAL,
            None,
        ) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Receives one packet; `None` is the end of the conversation. Received descriptors are close-on-exec.
pub fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<Option<(usize, Vec<OwnedFd>)>> {
    let mut control = nix::cmsg_space!([RawFd; MAX_PASSED]);
    let mut slices = [IoSliceMut::new(buffer)];
    let message = loop {
        match nix::sys::socket::recvmsg::<()>(
            socket.as_raw_fd(),
            &mut slices,
            Some(&mut control),
            PASSED_CLOSED_ON_EXEC,
        ) {
            // ECONNRESET says once that the peer closed with data of ours unread; what it had sent before is still
            // there to be read, and then the end (unix_release_sock in net/unix/af_unix.c).
            Err(Errno::EINTR | Errno::ECONNRESET) => {}
            other => break other?,
        }
    };
    let mut fds = Vec::new();
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(numbers) = part {
            for number in numbers {
                // SAFETY: `from_raw_fd` requires an open, unowned descriptor: the kernel has just installed this one in
                // our table for this message, and this is the only place that sees its number.
                fds.push(unsafe { OwnedFd::from_raw_fd(number) });
            }
        }
    }
    if message
        .flags
        .intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC)
    {
        return Err(Errno::EMSGSIZE.into());
    }
    if message.bytes == 0 && fds.is_empty() {
        return Ok(None);
    }
    Ok(Some((message.bytes, fds)))
}

/// What poll(2) saw on one descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// Something to read, the end included.
    pub readable: bool,
    /// The other side is gone.
    pub hung_up: bool,
}

/// Waits for input (or the end) on any of the descriptors; `None` waits without limit. A signal is no event.
pub fn poll<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    timeout: Option<std::time::Duration>,
) -> io::Result<[Ready; N]> {
    let mut set = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    let timeout = match timeout {
        None => PollTimeout::NONE,
        // Rounded up, so that a caller never spins through the last part of a millisecond.
        Some(t) => {
            let ms = t
                .as_millis()
                .saturating_add(u128::from(t.subsec_nanos() % 1_000_000 != 0));
            PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX)
        }
    };
    match nix::poll::poll(&mut set, timeout) {
        Ok(_) => {}
        Err(Errno::EINTR) => {
            return Ok([Ready {
                readable: false,
                hung_up: false,
            }; N]);
        }
        Err(e) => return Err(e.into()),
    }
    Ok(set.map(|fd| {
        let seen = fd.revents().unwrap_or(PollFlags::empty());
        let hung_up = seen.intersects(PollFlags::POLLHUP | PollFlags::POLLERR);
        Ready {
            readable: seen.contains(PollFlags::POLLIN) || hung_up,
            hung_up,
        }
    }))
}

/// Whether input on `socket` sends SIGCONT to this process, which continues it if it is stopped.
pub fn continue_on_input(socket: &OwnedFd, on: bool) -> io::Result<()> {
    // asm-generic/fcntl.h; not in the libc crate.
    const F_SETSIG: libc::c_int = 10;
    let fd = socket.as_raw_fd();
    if on {
        // SAFETY: both commands take an integer and touch no memory of ours.
        let done = unsafe {
            libc::fcntl(fd, libc::F_SETOWN, libc::getpid())
                | libc::fcntl(fd, F_SETSIG, libc::SIGCONT)
        };
        Errno::result(done)?;
    }
    let flags = if on { OFlag::O_ASYNC } else { OFlag::empty() };
    nix::fcntl::fcntl(socket, FcntlArg::F_SETFL(flags))?;
    Ok(())
}

/// Makes the descriptor with this number the standard error of this process.
pub fn replace_stderr_by(number: RawFd) -> io::Result<()> {
    Ok(nix::unistd::dup2_stderr(borrow(number)?)?)
}

/// Makes `fd` the standard output of this process.
pub fn replace_stdout(fd: &OwnedFd) -> io::Result<()> {
    Ok(nix::unistd::dup2_stdout(fd)?)
}

/// Makes `fd` the standard error of this process.
pub fn replace_stderr(fd: &OwnedFd) -> io::Result<()> {
    Ok(nix::unistd::dup2_stderr(fd)?)
}
