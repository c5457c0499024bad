//! Trust in project files (semantics 18): a record of path, owner and hash in the user's state directory.
//!
//! A record is looked up by the path and holds for exactly the bytes it was made for. Anything odd about the store
//! (somebody else's directory, a link, a broken record) means: not trusted.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};
use sha2::{Digest, Sha256};

use super::SpecError;
use super::files::{self, distrusted, read_all, unreadable};
use super::layer::{self, Grant, Place};
use super::params::Params;
use super::source::{Source, shown};
use crate::policy::Layer;

/// A project file somebody is about to trust: exactly the bytes that were shown are recorded.
#[derive(Debug)]
pub struct Candidate {
    /// Canonical path.
    pub path: PathBuf,
    /// Its owner.
    pub owner: u32,
    /// Everything that will be accepted, in the order written.
    pub grants: Vec<Grant>,
    hash: String,
}

impl Candidate {
    /// Whether these very bytes are on record already.
    #[must_use]
    pub fn is_trusted(&self, state_dir: &Path, uid: u32) -> bool {
        let expected = content(&self.path, self.owner, &self.hash);
        read_record(state_dir, uid, &self.path).is_ok_and(|found| found == expected)
    }
}

/// What `inspect` needs to know about the caller.
#[derive(Debug, Clone, Copy)]
pub struct TrustRequest<'a> {
    /// The file as typed.
    pub file: &'a Path,
    /// The caller's cwd.
    pub cwd: &'a Path,
    /// `$HOME`.
    pub home: &'a Path,
    /// The caller's uid.
    pub uid: u32,
}

/// Reads a project file and lists the grants that trusting it would accept.
///
/// # Errors
/// A file that discovery would not take (name, link, owner, mode) or that does not parse.
pub fn inspect(request: TrustRequest<'_>) -> Result<Candidate, SpecError> {
    let typed = request.cwd.join(request.file);
    let name = typed.to_string_lossy().into_owned();
    let file_name = typed
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or_default();
    if !files::PROJECT_NAMES.contains(&file_name) {
        return Err(SpecError::plain(format!(
            "{}: only a `ccbox.toml` or `.ccbox.toml` is discovered, so only those need trust",
            shown(&name)
        ))
        .with_hint("give the file with `-f`: a file that is typed is trusted as typed"));
    }
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(&typed)
        .map_err(|e| unreadable(&name, &e))?;
    let (bytes, meta) = read_all(file).map_err(|e| unreadable(&name, &e))?;
    if !meta.is_file() {
        return Err(SpecError::plain(format!(
            "{}: is not a regular file",
            shown(&name)
        )));
    }
    if let Some(why) = distrusted(&meta, request.uid) {
        return Err(SpecError::plain(format!(
            "{}: the file {why}",
            shown(&name)
        )));
    }
    let path = std::fs::canonicalize(&typed).map_err(|e| unreadable(&name, &e))?;
    let hash = hex(&Sha256::digest(&bytes));
    let layer = Layer::Project { trusted: true };
    let source = Source::new(name, Some(path.clone()), layer, bytes)?;
    let place = Place {
        base: path.parent().unwrap_or(Path::new("/")),
        home: request.home,
        cwd: request.cwd,
    };
    let grants = layer::grants(&source, place, &Params::lenient())?;
    Ok(Candidate {
        path,
        owner: meta.uid(),
        grants,
        hash,
    })
}

/// Records a file that was inspected. The record replaces an older one for the same path.
///
/// # Errors
/// A state directory that cannot be made or is not the caller's own.
pub fn record(state_dir: &Path, uid: u32, candidate: &Candidate) -> Result<(), SpecError> {
    let dir = state_dir.join("trust");
    let failed = |e: &io::Error| unreadable(&dir.to_string_lossy(), e);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&dir)
        .map_err(|e| failed(&e))?;
    let fd = open_store(&dir, uid).map_err(|e| failed(&e))?;
    write_record(&fd, candidate).map_err(|e| failed(&e))
}

/// Takes a file's trust back; says whether there was a record.
///
/// # Errors
/// A state directory that is not the caller's own.
pub fn forget(state_dir: &Path, uid: u32, path: &Path) -> Result<bool, SpecError> {
    let dir = state_dir.join("trust");
    let failed = |e: &io::Error| unreadable(&dir.to_string_lossy(), e);
    let fd = match open_store(&dir, uid) {
        Ok(fd) => fd,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(failed(&e)),
    };
    match unlinkat(&fd, record_name(path).as_str(), UnlinkatFlags::NoRemoveDir) {
        Ok(()) => Ok(true),
        Err(nix::Error::ENOENT) => Ok(false),
        Err(e) => Err(failed(&e.into())),
    }
}

/// Whether these very bytes at this path, with this owner, are on record.
pub(super) fn is_recorded(
    state_dir: &Path,
    uid: u32,
    path: &Path,
    owner: u32,
    bytes: &[u8],
) -> bool {
    let expected = content(path, owner, &hex(&Sha256::digest(bytes)));
    read_record(state_dir, uid, path).is_ok_and(|found| found == expected)
}

fn read_record(state_dir: &Path, uid: u32, path: &Path) -> io::Result<Vec<u8>> {
    let dir = open_store(&state_dir.join("trust"), uid)?;
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = openat(&dir, record_name(path).as_str(), flags, Mode::empty())?;
    let (bytes, meta) = read_all(File::from(file))?;
    if !meta.is_file() || meta.uid() != uid || meta.mode() & 0o022 != 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(bytes)
}

/// Opens the store and checks that only the caller can have written into it.
fn open_store(dir: &Path, uid: u32) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let fd = openat(AT_FDCWD, dir, flags, Mode::empty())?;
    let handle = File::from(fd);
    let meta = handle.metadata()?;
    if meta.uid() != uid || meta.mode() & 0o022 != 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(handle.into())
}

/// Writes a new file beside and renames it: a reader sees the old record or the new one, and a link is never followed.
fn write_record(dir: &OwnedFd, candidate: &Candidate) -> io::Result<()> {
    let name = record_name(&candidate.path);
    let temporary = format!("{name}.{}", std::process::id());
    match unlinkat(dir, temporary.as_str(), UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(nix::Error::ENOENT) => {}
        Err(e) => return Err(e.into()),
    }
    let flags =
        OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let file = openat(
        dir,
        temporary.as_str(),
        flags,
        Mode::S_IRUSR | Mode::S_IWUSR,
    )?;
    let mut file = File::from(file);
    file.write_all(&content(&candidate.path, candidate.owner, &candidate.hash))?;
    file.sync_all()?;
    renameat(dir, temporary.as_str(), dir, name.as_str())?;
    Ok(())
}

/// The file name of a record: the hash of the path, which may hold any bytes.
fn record_name(path: &Path) -> String {
    hex(&Sha256::digest(path.as_os_str().as_bytes()))
}

/// The path stands last, because it may hold newlines.
fn content(path: &Path, owner: u32, hash: &str) -> Vec<u8> {
    let mut out = format!("ccbox trust 1\nowner {owner}\nsha256 {hash}\npath ").into_bytes();
    out.extend_from_slice(path.as_os_str().as_bytes());
    out.push(b'\n');
    out
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut out, b| {
        // Writing into a string cannot fail.
        let _ = write!(out, "{b:02x}");
        out
    })
}

#[cfg(test)]
mod tests;
