//! Reads what may be anything: each look opens once, without following a link and without waiting, and judges what it
//! has in hand.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat};

use super::super::gate::config::MAX_FILE;
use super::super::gate::skeleton::{Found, Hooks};

/// Most entries of `hooks` that are read. git's templates bring fourteen.
const MOST_HOOKS: usize = 1024;

/// What stands under a name whose content matters.
#[derive(Debug)]
pub enum Look {
    /// No such entry.
    Absent,
    /// A regular file that can be read and is not too long.
    Plain(Plain),
    /// Anything else.
    Unusual,
}

/// A regular file.
#[derive(Debug)]
pub struct Plain {
    /// What one read of it gave. It may change meanwhile: judged and used are these bytes and no others.
    pub bytes: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
    /// It has no other name.
    pub alone: bool,
}

impl Look {
    /// In the terms of the check.
    #[must_use]
    pub fn found(&self) -> Found<'_> {
        match self {
            Self::Absent => Found::Absent,
            Self::Plain(plain) => Found::File(&plain.bytes),
            Self::Unusual => Found::Unusual,
        }
    }
}

/// Opens for reading. `O_NONBLOCK`: a FIFO has no writer, and a file with a write lease (fcntl(2), F_SETLEASE) would keep
/// the opener waiting for up to 45 seconds.
fn open(dir: impl AsFd, name: &[u8], more: OFlag) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_RDONLY
        | OFlag::O_NONBLOCK
        | OFlag::O_NOFOLLOW
        | OFlag::O_NOCTTY
        | OFlag::O_CLOEXEC;
    openat(dir, name, flags | more, Mode::empty())
}

/// An open that failed says that the entry is nothing plain: a link, a socket, a file without the right to read it or with
/// a lease, no directory where one should be. Otherwise it says nothing about the entry.
fn is_unusual(error: Errno) -> bool {
    matches!(
        error,
        Errno::ELOOP
            | Errno::ENXIO
            | Errno::ENODEV
            | Errno::EACCES
            | Errno::EPERM
            | Errno::EAGAIN
            | Errno::ENOTDIR
    )
}

/// Reads a file of settings.
pub fn file(dir: impl AsFd, name: &[u8]) -> Result<Look, Errno> {
    let fd = match open(dir, name, OFlag::empty()) {
        Ok(fd) => fd,
        Err(Errno::ENOENT) => return Ok(Look::Absent),
        Err(e) if is_unusual(e) => return Ok(Look::Unusual),
        Err(e) => return Err(e),
    };
    let stat = fstat(&fd)?;
    if SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG {
        return Ok(Look::Unusual);
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_FILE).unwrap_or(u64::MAX);
    match File::from(fd)
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
    {
        Ok(length) if length <= MAX_FILE => Ok(Look::Plain(Plain {
            bytes,
            mode: crate::sys::objects::mode(&stat) & 0o7777,
            alone: stat.st_nlink == 1,
        })),
        Ok(_) => Ok(Look::Unusual),
        Err(e) => Err(e.raw_os_error().map_or(Errno::EIO, Errno::from_raw)),
    }
}

/// Something has this name.
pub fn exists(dir: impl AsFd, name: &str) -> Result<bool, Errno> {
    match fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(Errno::ENOENT) => Ok(false),
        Err(e) => Err(e),
    }
}

/// The entries of a directory in a directory.
#[derive(Debug, PartialEq, Eq)]
pub enum Listing {
    /// No such entry.
    Absent,
    /// All names but `.` and `..`.
    Names(Vec<Vec<u8>>),
    /// Not a directory, one that cannot be read, or one with very many entries.
    Unusual,
}

/// Lists `name` in `dir`.
pub fn list(dir: impl AsFd, name: &str) -> Result<Listing, Errno> {
    let fd = match open(dir, name.as_bytes(), OFlag::O_DIRECTORY) {
        Ok(fd) => fd,
        Err(Errno::ENOENT) => return Ok(Listing::Absent),
        Err(e) if is_unusual(e) => return Ok(Listing::Unusual),
        Err(e) => return Err(e),
    };
    let mut names = Vec::new();
    for entry in nix::dir::Dir::from_fd(fd)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            if names.len() == MOST_HOOKS {
                return Ok(Listing::Unusual);
            }
            names.push(name);
        }
    }
    Ok(Listing::Names(names))
}

/// `hooks`, in the terms of the check; the names are borrowed from `listing` into `names`.
#[must_use]
pub fn hooks<'a>(listing: &'a Listing, names: &'a mut Vec<&'a [u8]>) -> Hooks<'a> {
    match listing {
        Listing::Absent => Hooks::Absent,
        Listing::Unusual => Hooks::Unusual,
        Listing::Names(found) => {
            names.extend(found.iter().map(Vec::as_slice));
            Hooks::Directory(names)
        }
    }
}

/// `info/attributes` exists, or `info` is not a directory that can be searched.
pub fn attributes(dir: impl AsFd) -> Result<bool, Errno> {
    match crate::sys::objects::hold_dir(dir, "info") {
        Ok(info) => match exists(info, "attributes") {
            Err(e) if is_unusual(e) => Ok(true),
            found => found,
        },
        Err(Errno::ENOENT) => Ok(false),
        Err(e) if is_unusual(e) => Ok(true),
        Err(e) => Err(e),
    }
}
