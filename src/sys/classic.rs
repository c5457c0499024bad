//! Mounts by mount(2) alone, for kernels before 5.12 and for filters of containers that answer as those do.
//!
//! Source and place are descriptors here as well: `/proc/self/fd/N` leads mount(2) to the very object, wherever its path leads by then.
//! What the newer calls do to a whole tree at once is done to one mount after the other, as the table of mounts names them.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};

use super::fds;
use super::mounts::{Reach, Without};

const NONE: Option<&Path> = None;
/// A restriction of the tree is done again until nothing new turns up; a host that keeps moving mounts about ends it.
const PASSES: usize = 16;

fn by_number(object: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", object.as_raw_fd()))
}

impl Without {
    /// The numbers of mount(2) and of mount_setattr(2) are the same for these four (linux/mount.h).
    fn flags(self) -> MsFlags {
        let named = [
            (Self::WRITING, MsFlags::MS_RDONLY),
            (Self::SETUID, MsFlags::MS_NOSUID),
            (Self::DEVICES, MsFlags::MS_NODEV),
            (Self::EXECUTING, MsFlags::MS_NOEXEC),
        ];
        named
            .into_iter()
            .filter(|(one, _)| self.and(*one) == self)
            .fold(MsFlags::empty(), |all, (_, flag)| all | flag)
    }
}

/// Binds what stands at `object` to `place`, with the flags it has.
pub fn bind(object: BorrowedFd<'_>, place: BorrowedFd<'_>, reach: Reach) -> io::Result<()> {
    let mut flags = MsFlags::MS_BIND;
    if reach == Reach::Tree {
        flags |= MsFlags::MS_REC;
    }
    let (object, place) = (by_number(object), by_number(place));
    Ok(mount(Some(&object), &place, NONE, flags, NONE)?)
}

/// A new file system with these `key=value` options on `place`. Writing is left to the mount, which [`restrict`] takes it from: here it
/// would be the file system's own.
pub fn file_system(
    kind: &CStr,
    options: &[(CString, CString)],
    without: Without,
    place: BorrowedFd<'_>,
) -> io::Result<()> {
    let (mut data, mut source) = (Vec::new(), c"none");
    for (key, value) in options {
        if key.as_c_str() == c"source" {
            source = value;
            continue;
        }
        if !data.is_empty() {
            data.push(b',');
        }
        data.extend_from_slice(key.as_bytes());
        data.push(b'=');
        data.extend_from_slice(value.as_bytes());
    }
    let (data, place) = (CString::new(data)?, by_number(place));
    let data = Some(data.as_c_str());
    Ok(mount(
        Some(source),
        &place,
        Some(kind),
        without.flags() - MsFlags::MS_RDONLY,
        data,
    )?)
}

/// Binds of a tree leave this mount, with what is below it, out.
pub fn make_unbindable(place: BorrowedFd<'_>) -> io::Result<()> {
    let place = by_number(place);
    Ok(mount(NONE, &place, NONE, MsFlags::MS_UNBINDABLE, NONE)?)
}

/// Takes the mount that `tree` is the root of to `place`.
pub fn carry(tree: BorrowedFd<'_>, place: BorrowedFd<'_>) -> io::Result<()> {
    let (tree, place) = (by_number(tree), by_number(place));
    Ok(mount(Some(&tree), &place, NONE, MsFlags::MS_MOVE, NONE)?)
}

/// Adds these restrictions to the mount that `tree` is the root of; what is switched off already stays so. With [`Reach::Tree`] also to
/// each mount below that can be reached: one that another mount stands over, or behind a directory that this process may not enter,
/// is out of the command's reach as well, and it can change no mount.
pub fn restrict(tree: BorrowedFd<'_>, reach: Reach, without: Without) -> io::Result<()> {
    let top = number(tree)?;
    for _ in 0..PASSES {
        let mut changed = false;
        for one in below(&table()?, top, reach) {
            let lacks = !one.has.contains(without.flags());
            if lacks && one.id == top {
                remount(tree, one.has | without.flags())?;
                changed = true;
            } else if lacks && let Some(found) = reached(&one)? {
                remount(found.as_fd(), one.has | without.flags())?;
                changed = true;
            }
        }
        if !changed {
            return Ok(());
        }
    }
    Err(Errno::EBUSY.into())
}

fn remount(at: BorrowedFd<'_>, flags: MsFlags) -> io::Result<()> {
    // No flag about access times: those of the mount stay (mount(2), "MS_REMOUNT").
    let how = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | flags;
    Ok(mount(NONE, &by_number(at), NONE, how, NONE)?)
}

/// The root of that mount, where its path leads there.
fn reached(one: &Mounted) -> io::Result<Option<OwnedFd>> {
    match fds::open_no_links(&one.at) {
        Ok(found) if number(found.as_fd())? == one.id => Ok(Some(found)),
        Ok(_) => Ok(None),
        Err(e) => match e.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EACCES | Errno::ENOENT | Errno::ENOTDIR) => Ok(None),
            _ => Err(e),
        },
    }
}

/// Number of the mount that a descriptor is on (proc_pid_fdinfo(5)).
fn number(object: BorrowedFd<'_>) -> io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", object.as_raw_fd()))?;
    let found = text.lines().find_map(|l| l.strip_prefix("mnt_id:"));
    let number = found.and_then(|n| n.trim().parse().ok());
    number.ok_or_else(|| Errno::EINVAL.into())
}

/// A line of the table of mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mounted {
    id: u64,
    parent: u64,
    at: PathBuf,
    has: MsFlags,
}

fn table() -> io::Result<Vec<Mounted>> {
    let text = std::fs::read("/proc/self/mountinfo")?;
    parse(&text).ok_or_else(|| Errno::EINVAL.into())
}

/// All of them; `None` where a line cannot be read, because what it stands for could not be restricted.
fn parse(text: &[u8]) -> Option<Vec<Mounted>> {
    let lines = text.split(|b| *b == b'\n').filter(|l| !l.is_empty());
    lines.map(line).collect()
}

/// `36 35 98:0 /root /at rw,noatime shared:1 - ext4 /dev/sda1 rw` (proc_pid_mountinfo(5)).
fn line(text: &[u8]) -> Option<Mounted> {
    let mut fields = text.split(|b| *b == b' ');
    let mut next = || fields.next();
    let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse().ok();
    let (id, parent) = (number(next()?)?, number(next()?)?);
    let (_device, _root) = (next()?, next()?);
    let (at, options) = (next()?, next()?);
    let mut has = MsFlags::empty();
    for option in options.split(|b| *b == b',') {
        has |= match option {
            b"ro" => MsFlags::MS_RDONLY,
            b"nosuid" => MsFlags::MS_NOSUID,
            b"nodev" => MsFlags::MS_NODEV,
            b"noexec" => MsFlags::MS_NOEXEC,
            _ => MsFlags::empty(),
        };
    }
    let at = OsString::from_vec(unescaped(at)).into();
    Some(Mounted {
        id,
        parent,
        at,
        has,
    })
}

/// Blank, tab, newline and backslash stand there as three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|_| *first == b'\\');
        let code = digits
            .and_then(|d| std::str::from_utf8(d).ok())
            .and_then(|d| u8::from_str_radix(d, 8).ok());
        out.push(code.unwrap_or(*first));
        rest = match code {
            Some(_) => tail.get(3..).unwrap_or_default(),
            None => tail,
        };
    }
    out
}

/// The mount `top` and, with its tree, all below it.
fn below(table: &[Mounted], top: u64, reach: Reach) -> Vec<Mounted> {
    let mut ids = BTreeSet::from([top]);
    // In whatever order the kernel lists them.
    let mut grows = reach == Reach::Tree;
    while grows {
        let more = table.iter().filter(|m| ids.contains(&m.parent));
        let more: Vec<u64> = more.map(|m| m.id).collect();
        let before = ids.len();
        ids.extend(more);
        grows = ids.len() > before;
    }
    let found = table.iter().filter(|m| ids.contains(&m.id));
    found.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"30 20 0:1 / /a rw,nosuid,relatime shared:7 - tmpfs none rw\n\
        20 1 254:0 / / rw,noatime - ext4 /dev/vda rw\n\
        40 30 0:2 /x /a/b\\040c\\134 ro,nodev,noexec - proc proc rw\n\
        50 20 0:3 / /z ro,noexec - xfs d ro\n";

    #[test]
    fn the_table_has_numbers_places_and_flags() {
        let table = parse(TABLE).unwrap();
        assert_eq!(table.len(), 4);
        assert_eq!(table[0].has, MsFlags::MS_NOSUID);
        let last = &table[2];
        assert_eq!((last.id, last.parent), (40, 30));
        assert_eq!(last.at, Path::new("/a/b c\\"));
        let three = MsFlags::MS_RDONLY | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        assert_eq!(last.has, three);
    }

    #[test]
    fn a_line_that_cannot_be_read_is_not_passed_over() {
        for text in ["1 2 3\n", "x 1 0:1 / / rw - a b c\n", "1 1 0:1 / /\n"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(b""), Some(Vec::new()));
    }

    #[test]
    fn a_tree_is_what_hangs_below_in_whatever_order() {
        let table = parse(TABLE).unwrap();
        let ids = |top, reach| {
            let found = below(&table, top, reach);
            found.iter().map(|m| m.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(30, Reach::Tree), [30, 40]);
        assert_eq!(ids(20, Reach::Tree), [30, 20, 40, 50]);
        assert_eq!(ids(30, Reach::Mount), [30]);
        assert_eq!(ids(99, Reach::Tree), Vec::<u64>::new());
    }

    #[test]
    fn flags_have_the_same_meaning() {
        assert_eq!(Without::WRITING.flags(), MsFlags::MS_RDONLY);
        let two = Without::SETUID.and(Without::EXECUTING);
        assert_eq!(two.flags(), MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC);
        assert_eq!(Without::DEVICES.flags(), MsFlags::MS_NODEV);
    }

    #[test]
    fn descriptors_tell_their_mount() {
        let root = fds::open_no_links(Path::new("/proc")).unwrap();
        let id = number(root.as_fd()).unwrap();
        let table = table().unwrap();
        let found = table.iter().find(|m| m.id == id).unwrap();
        assert_eq!(found.at, Path::new("/proc"));
    }
}
