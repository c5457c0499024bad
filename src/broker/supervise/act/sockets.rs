//! Unix sockets by path: connect and bind (R47).
//!
//! Nothing of connect(2) is left to the kernel, whatever the socket is: between an answer "continue" and the call another thread can put
//! another socket under the number and another path into the address. So the address is copied once, the socket is taken once, the path
//! is resolved to an object once, and the one is connected to the other. Who is connected to sees ccbox in SO_PEERCRED: the caller's user
//! and group, another process.
//!
//! bind(2) of a path makes a name, so in covered trees it goes by the rules of names (semantics 35). In private directories the kernel
//! carries it out: the floor keeps such a call from every covered tree.
//!
//! Sockets for datagrams stay closed: they are not made inside, and one that was inherited is not connected. Abstract names stay closed,
//! too.

use crate::sys::libc;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use nix::errno::Errno;

use super::super::areas::{Area, path_buf};
use super::super::denial::Denied;
use super::super::judge::{Asked, Needs, find};
use super::super::memory::Fd;
use super::super::pending::{Connecting, Wait, Waiting};
use super::super::resolve::{Last, Spot};
use super::super::sockets::{Door, Sockets};
use super::super::{Broker, Cause, Stop, place};
use super::{Outcome, Turn};
use crate::broker::action::{Action, Kind};
use crate::broker::guests::Guests;
use crate::sys::at::{self, How, Look};
use crate::sys::{sockets, unix};

/// `struct sockaddr_storage`: nothing longer is an address (move_addr_to_kernel() of the kernel).
const STORAGE: usize = 128;
const CWD: i32 = libc::AT_FDCWD;

/// What an address of AF_UNIX says.
#[derive(Debug, PartialEq, Eq)]
enum Named {
    /// A path, without its NUL.
    Path(CString),
    /// A name that is no path, or none at all.
    Abstract,
}

/// As unix_validate_addr() and unix_mkname_bsd() of the kernel.
fn named(address: &[u8]) -> Result<Named, Errno> {
    let (family, path) = address
        .split_at_checked(unix::PATH_AT)
        .ok_or(Errno::EINVAL)?;
    let is_unix = family
        .try_into()
        .is_ok_and(|f| i32::from(u16::from_ne_bytes(f)) == libc::AF_UNIX);
    if !is_unix || address.len() > unix::LONGEST {
        return Err(Errno::EINVAL);
    }
    let end = path.iter().position(|&b| b == 0).unwrap_or(path.len());
    match path.get(..end) {
        None | Some([]) => Ok(Named::Abstract),
        Some(path) => CString::new(path)
            .map(Named::Path)
            .map_err(|_| Errno::EINVAL),
    }
}

/// It must be connected before anything is sent.
fn is_connected_type(kind: sockets::Kind) -> bool {
    matches!(kind.form, libc::SOCK_STREAM | libc::SOCK_SEQPACKET)
}

impl Turn<'_> {
    /// connect(2).
    pub(super) fn connect_by_path(
        &self,
        all: &Sockets,
        number: i32,
        at: u64,
        size: i32,
    ) -> Result<Outcome, Stop> {
        let (socket, address) = self.socket_and_address(number, at, size)?;
        let kind = sockets::kind(&socket)?;
        if kind.family != libc::AF_UNIX {
            if let Some(guests) = &self.broker.guests {
                return self.connect_as_guest(all, guests, (socket, kind), address);
            }
            if all.own_network() {
                // Whatever goes wrong while looking, the call meets it as well.
                let _ = self.tell_connect(number, at, size, false);
            }
            return self.carry_out(all, socket, kind, To::Address(address));
        }
        let path = match named(&address)? {
            Named::Path(path) if is_connected_type(kind) => path,
            Named::Path(_) | Named::Abstract => return Err(Errno::EACCES.into()),
        };
        let object = self.walk().object(CWD, &path, true)?;
        let look = at::look(object.as_fd(), c"")?;
        if !look.is(libc::S_IFSOCK) {
            return Err(Errno::ECONNREFUSED.into());
        }
        let door = self.broker.door(all, &object, &look)?;
        let sink = &self.broker.sink;
        if !matches!(door, Door::Own | Door::Closed) && sink.wants_connections() {
            let path = path_buf(&place::path(object.as_fd())?);
            let pid = self.caller.tgid().unwrap_or(self.caller.tid);
            sink.connected(&path, pid, self.caller.program());
        }
        let target = match door {
            Door::Own | Door::Open => object.try_clone().map_err(|_| Errno::EMFILE)?,
            Door::Instead(present) => present,
            Door::Closed => return Err(closed(all, object.as_fd(), &look)),
        };
        self.carry_out(all, socket, kind, To::Object(target))
    }

    /// The caller's socket and what it wrote, each taken once, checked as the kernel does.
    fn socket_and_address(
        &self,
        number: i32,
        address: u64,
        size: i32,
    ) -> Result<(OwnedFd, Vec<u8>), Stop> {
        let socket = self.caller.socket(number)?;
        let size = usize::try_from(size).map_err(|_| Errno::EINVAL)?;
        if size > STORAGE {
            return Err(Errno::EINVAL.into());
        }
        let address = self.caller.bytes(address, size)?;
        Ok((socket, address))
    }

    /// Connects, and never waits here.
    pub(super) fn carry_out(
        &self,
        all: &Sockets,
        socket: OwnedFd,
        kind: sockets::Kind,
        to: To,
    ) -> Result<Outcome, Stop> {
        self.caller.verify()?;
        let fd = socket.as_fd();
        let waits = is_connected_type(kind) && !to.dissolves();
        if !waits || at::flags(fd)? & libc::O_NONBLOCK != 0 {
            to.connect(fd)?;
            return Ok(Outcome::Value(0));
        }
        if unix::is_connected(fd) {
            return Err(Errno::EISCONN.into());
        }
        if unix::is_listening(fd) {
            let of_unix = kind.family == libc::AF_UNIX;
            return Err(if of_unix {
                Errno::EINVAL
            } else {
                Errno::EISCONN
            }
            .into());
        }
        let until = unix::send_timeout(fd)?.and_then(|t| Instant::now().checked_add(t));
        let wait = match (all.without_waiting(fd, |fd| to.connect(fd)), to) {
            (Ok(()), _) => return Ok(Outcome::Value(0)),
            (Err(Errno::EINPROGRESS | Errno::EALREADY), _) => Wait::Progress,
            (Err(Errno::EAGAIN), To::Object(object)) => Wait::Room(object),
            (Err(errno), _) => return Err(errno.into()),
        };
        Ok(Outcome::Later(Waiting::Connect(Connecting {
            socket,
            wait,
            until,
        })))
    }

    /// bind(2).
    pub(super) fn bind_by_path(
        &self,
        all: &Sockets,
        number: i32,
        address: u64,
        size: i32,
    ) -> Result<Outcome, Stop> {
        let (socket, address) = self.socket_and_address(number, address, size)?;
        let kind = sockets::kind(&socket)?;
        if kind.family != libc::AF_UNIX {
            // Who owns the user namespace of a network has every right there (capabilities(7)), ports below 1024 among them. So the
            // kernel binds; what another thread exchanges meanwhile ends at the floor, or is a name of the sandbox' own network.
            if all.own_network() {
                return Ok(Outcome::Continue);
            }
            if self.broker.guests.is_some() {
                return Err(Errno::EACCES.into());
            }
            self.caller.verify()?;
            unix::bind(socket.as_fd(), &address)?;
            return Ok(Outcome::Value(0));
        }
        let path = match named(&address)? {
            Named::Path(path) if is_connected_type(kind) => path,
            Named::Path(_) | Named::Abstract => return Err(Errno::EACCES.into()),
        };
        let spot = self.walk().start(CWD, &path)?;
        let Last::Name(name) = &spot.last else {
            return Err(Errno::EADDRINUSE.into());
        };
        let (area, look) = self.broker.area_at(&self.caller, &spot)?;
        let Some(area) = area else {
            if find(&spot.dir, name)?.is_none() {
                self.note(self.read_only("bind", &spot.dir, name, Needs::Directory));
            }
            return Ok(Outcome::Continue);
        };
        if !area.is_covered() && all.is_private(look.mount) {
            return Ok(Outcome::Continue);
        }
        let binding = Binding {
            all,
            socket: &socket,
            path: &path,
            spot: &spot,
            name,
        };
        self.broker.locked(true, |alone| {
            if area.is_covered() {
                self.may_bind(&binding, area, &look, alone)?;
            }
            self.bind_there(&binding)
        })
    }

    /// A socket is an entry like any other.
    fn may_bind(&self, b: &Binding<'_>, area: &Area, look: &Look, alone: bool) -> Result<(), Stop> {
        let broker = self.broker;
        let site = broker.site(&self.caller, &b.spot.dir, look, area)?;
        if find(&b.spot.dir, b.name)?.is_some() {
            return Err(Errno::EADDRINUSE.into());
        }
        let asked = Asked {
            action: "bind",
            site: &site,
            name: b.name,
            needs: Needs::Directory,
        };
        let verdict = broker.decide(Action::Bind, &site, b.name, Kind::Absent)?;
        let checks = Broker::cleared(verdict, alone, &asked)?;
        broker.pass_to_act(checks, &asked)
    }

    /// Binds in the pinned directory, under the exclusive lock: no directory moves, and nothing is made or removed by the sandbox.
    fn bind_there(&self, b: &Binding<'_>) -> Result<Outcome, Stop> {
        if b.spot.slash {
            let errno = match find(&b.spot.dir, b.name)? {
                Some(_) => Errno::EADDRINUSE,
                None => Errno::ENOENT,
            };
            return Err(errno.into());
        }
        b.all.make_room()?;
        self.caller.memory.set_umask(self.caller.umask()?);
        self.caller.verify()?;
        self.bind_by_words(b)?;
        let how = How {
            flags: place::PATH_ONLY,
            ..How::default()
        };
        let object = at::open(b.spot.dir.as_fd(), b.name, how)?;
        let made = at::look(object.as_fd(), c"")?;
        if made.is(libc::S_IFSOCK) {
            b.all.bound(object, &made);
        }
        self.broker
            .repositories
            .came(&b.spot.dir, b.name.to_bytes());
        Ok(Outcome::Value(0))
    }

    /// Nobody inside can move it or what lies above without the broker, so that from here words lead where they have led a moment ago.
    fn is_steady(&self, dir: &Fd) -> Result<bool, Errno> {
        let (area, _) = self.broker.area(&self.caller, dir)?;
        Ok(area.is_none_or(Area::is_covered))
    }

    /// The kernel keeps the words of the address for getsockname(2), and programs give them to each other. So the caller's own words are
    /// used where they lead to the pinned directory from here as well, through no link; else the bare name, from inside the directory.
    fn bind_by_words(&self, b: &Binding<'_>) -> Result<(), Stop> {
        let words = b.path.to_bytes();
        let relative = !words.starts_with(b"/");
        let from = if relative {
            self.caller.cwd()?.0
        } else {
            Fd::clone(&b.spot.dir)
        };
        let steady = !relative || self.is_steady(&from)?;
        let (stand, words) = if steady && leads_to(&from, words, b)? {
            (relative.then_some(&from), words)
        } else {
            (Some(&b.spot.dir), b.name.to_bytes())
        };
        let address = unix::address(words).ok_or(Errno::ENAMETOOLONG)?;
        if let Some(dir) = stand {
            unix::stand_in(dir.as_fd())?;
        }
        let bound = unix::bind(b.socket.as_fd(), &address);
        if stand.is_some() {
            unix::stand_at_root()?;
        }
        Ok(bound?)
    }
}

/// A refusal. Where nobody listens, or where the user may not connect, the kernel says so and there is nothing to tell.
fn closed(all: &Sockets, object: BorrowedFd<'_>, look: &Look) -> Stop {
    match unix::is_bound(object) {
        Ok(true) => {}
        Ok(false) => return Errno::ECONNREFUSED.into(),
        Err(errno) => return errno.into(),
    }
    match place::path(object) {
        Ok(guest) => Stop::Denied(Box::new(Denied {
            action: "connect",
            guest,
            cause: Cause::Socket {
                always: all.is_closed(look),
            },
            anyway: false,
        })),
        Err(errno) => errno.into(),
    }
}

/// One bind that is carried out here.
struct Binding<'a> {
    all: &'a Sockets,
    socket: &'a OwnedFd,
    path: &'a CStr,
    spot: &'a Spot,
    name: &'a CStr,
}

/// The directory part of the words is the pinned directory.
fn leads_to(from: &OwnedFd, words: &[u8], b: &Binding<'_>) -> Result<bool, Errno> {
    let name = b.name.to_bytes();
    let Some(dir) = words.strip_suffix(name) else {
        return Ok(false);
    };
    if place::components(dir).contains(&&b".."[..]) {
        return Ok(false);
    }
    let dir = if dir.is_empty() { b"." } else { dir };
    let dir = CString::new(dir).map_err(|_| Errno::EINVAL)?;
    let how = How {
        flags: place::PATH_DIR,
        mode: 0,
        resolve: libc::RESOLVE_NO_SYMLINKS,
    };
    let Ok(found) = at::open(from.as_fd(), &dir, how) else {
        return Ok(false);
    };
    let (found, wanted) = (
        at::look(found.as_fd(), c"")?,
        at::look(b.spot.dir.as_fd(), c"")?,
    );
    Ok((found.device, found.ino) == (wanted.device, wanted.ino))
}

/// Whom to connect to.
#[derive(Debug)]
pub(super) enum To {
    /// What was written, for a socket that is none of AF_UNIX.
    Address(Vec<u8>),
    /// A socket of the file system.
    Object(OwnedFd),
    /// A listener of the run's, which is told who comes.
    Guest {
        guests: Arc<Guests>,
        address: Vec<u8>,
    },
}

impl To {
    fn connect(&self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        match self {
            Self::Address(address) => unix::connect(socket, address),
            Self::Object(object) => unix::connect_to(socket, object.as_fd()),
            Self::Guest { guests, address } => {
                let connect = || unix::connect(socket, address);
                guests.introduce(connect, || sockets::own_end(socket))
            }
        }
    }

    /// It ends a connection (connect(2), AF_UNSPEC), which waits for nobody.
    pub(super) fn dissolves(&self) -> bool {
        let unspecified = libc::AF_UNSPEC.to_ne_bytes();
        match self {
            Self::Address(address) => {
                address.get(..unix::PATH_AT) == unspecified.get(..unix::PATH_AT)
            }
            Self::Object(_) | Self::Guest { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_the_kernel_does() {
        let unix = [1u8, 0];
        let with = |rest: &[u8]| [&unix[..], rest].concat();
        let path = |text: &str| Ok(Named::Path(CString::new(text).unwrap()));
        let long = "x".repeat(108);
        for (address, wanted) in [
            (with(b"/a\0"), path("/a")),
            (with(b"/a"), path("/a")),
            (with(b"a\0b"), path("a")),
            (with(long.as_bytes()), path(&long)),
            (with(b"\0name"), Ok(Named::Abstract)),
            (with(b"\0"), Ok(Named::Abstract)),
            (with(b""), Ok(Named::Abstract)),
            (with(&[b'x'; 109]), Err(Errno::EINVAL)),
            (vec![1], Err(Errno::EINVAL)),
            (Vec::new(), Err(Errno::EINVAL)),
            (vec![0, 0, b'/', b'a'], Err(Errno::EINVAL)),
            (vec![2, 0, b'/', b'a'], Err(Errno::EINVAL)),
        ] {
            assert_eq!(named(&address), wanted, "{address:?}");
        }
    }
}
