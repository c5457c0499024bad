//! Which files apply, and how each is opened (semantics 2, 17): once, and the bytes of that descriptor are what is parsed.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

use super::source::{MAX_BYTES, Source, shown};
use super::{SpecError, SpecSource, dots, trust};
use crate::policy::Layer;

/// Names of a project file.
pub const PROJECT_NAMES: [&str; 2] = ["ccbox.toml", ".ccbox.toml"];

/// A file to parse, and where its relative paths start.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) source: Source,
    pub(super) base: PathBuf,
}

/// A spec given with `-f`, `-p` or `CCBOX_SPEC`. It is trusted as typed, so links are followed.
pub(super) fn given(
    spec: &SpecSource,
    cwd: &Path,
    stdin: Option<&[u8]>,
) -> Result<Opened, SpecError> {
    let path = match spec {
        SpecSource::Inline(text) => {
            let text = text.clone().into_bytes();
            return Ok(Opened {
                source: Source::new("<-p>".to_owned(), None, Layer::Spec, text)?,
                base: cwd.to_path_buf(),
            });
        }
        SpecSource::File(path) if path == Path::new("-") => {
            let bytes = stdin.ok_or_else(|| {
                SpecError::plain(
                    "the spec is standard input (`-f -`), which could not be read".into(),
                )
            })?;
            let file = behind(Path::new("/dev/stdin"));
            return Ok(Opened {
                source: Source::new("<stdin>".to_owned(), file, Layer::Spec, bytes.to_vec())?,
                base: cwd.to_path_buf(),
            });
        }
        SpecSource::File(path) => path,
    };
    let name = path.to_string_lossy().into_owned();
    let absolute = absolute(cwd, path);
    let (bytes, meta) = File::open(&absolute)
        .and_then(read_all)
        .map_err(|e| unreadable(&name, &e))?;
    refuse_directory(&name, &meta)?;
    // A pipe (`-f <(…)`) and a descriptor have no directory of their own, even where a file stands behind it.
    if is_descriptor(&absolute) || !meta.is_file() {
        let file = behind(&absolute);
        return Ok(Opened {
            source: Source::new(name, file, Layer::Spec, bytes)?,
            base: cwd.to_path_buf(),
        });
    }
    let base = absolute.parent().unwrap_or(Path::new("/")).to_path_buf();
    Ok(Opened {
        source: Source::new(name, Some(absolute), Layer::Spec, bytes)?,
        base,
    })
}

fn refuse_directory(name: &str, meta: &Metadata) -> Result<(), SpecError> {
    if meta.is_dir() {
        return Err(SpecError::plain(format!(
            "{}: is a directory, not a spec",
            shown(name)
        )));
    }
    Ok(())
}

/// `/dev/stdin`, `/dev/fd/N`, `/proc/self/fd/N`.
fn is_descriptor(path: &Path) -> bool {
    path == Path::new("/dev/stdin")
        || path.starts_with("/dev/fd")
        || (path.starts_with("/proc") && path.parent().is_some_and(|p| p.ends_with("fd")))
}

/// The regular file behind a descriptor: `-f - < spec.toml` must protect spec.toml as well.
fn behind(descriptor: &Path) -> Option<PathBuf> {
    let real = std::fs::canonicalize(descriptor).ok()?;
    real.is_file().then_some(real)
}

/// The path as given, made absolute, symlinks kept; a `..` is resolved as the kernel did when it opened the file.
fn absolute(cwd: &Path, path: &Path) -> PathBuf {
    let joined = cwd.join(path);
    dots::kernel_reading(&joined).unwrap_or(joined)
}

/// The managed file: absent, or owned by root (`owner`; another uid in tests) and writable by nobody else, or an error.
pub(super) fn managed(path: &Path, owner: u32) -> Result<Option<Opened>, SpecError> {
    let name = path.to_string_lossy().into_owned();
    let (bytes, meta) = match File::open(path).and_then(read_all) {
        Ok(read) => read,
        Err(e) if is_absent(&e) => return Ok(None),
        Err(e) => return Err(unreadable(&name, &e)),
    };
    refuse_directory(&name, &meta)?;
    let dir = path.parent().unwrap_or(Path::new("/"));
    let dir_meta = std::fs::metadata(dir).map_err(|e| unreadable(&dir.to_string_lossy(), &e))?;
    for (what, meta) in [(path, &meta), (dir, &dir_meta)] {
        if meta.uid() != owner || meta.mode() & 0o022 != 0 {
            return Err(SpecError::plain(format!(
                "{}: the managed settings must be owned by root and writable by nobody else",
                shown(&what.to_string_lossy())
            ))
            .with_hint(&format!(
                "chown root `{0}`; chmod go-w `{0}`",
                shown(&what.to_string_lossy())
            )));
        }
    }
    let base = dir.to_path_buf();
    Ok(Some(Opened {
        source: Source::new(name, Some(path.to_path_buf()), Layer::Managed, bytes)?,
        base,
    }))
}

/// The user file. Links are followed (dotfile managers), a file that anybody may write is refused.
pub(super) fn user(config_dir: &Path) -> Result<Option<Opened>, SpecError> {
    let path = config_dir.join("config.toml");
    let name = path.to_string_lossy().into_owned();
    let (bytes, meta) = match File::open(&path).and_then(read_all) {
        Ok(read) => read,
        Err(e) if is_absent(&e) => return Ok(None),
        Err(e) => return Err(unreadable(&name, &e)),
    };
    refuse_directory(&name, &meta)?;
    if meta.mode() & 0o002 != 0 {
        return Err(
            SpecError::plain(format!("{}: anybody may write this file", shown(&name)))
                .with_hint(&format!("chmod o-w `{}`", shown(&name))),
        );
    }
    Ok(Some(Opened {
        source: Source::new(name, Some(path), Layer::User, bytes)?,
        base: config_dir.to_path_buf(),
    }))
}

/// What discovery came to.
#[derive(Debug, Default)]
pub(super) struct Discovered {
    pub(super) file: Option<Opened>,
    /// One line for each file passed over.
    pub(super) notices: Vec<String>,
}

/// Where trust is recorded, and whose calls these are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caller<'a> {
    pub(super) uid: u32,
    pub(super) home: &'a Path,
    pub(super) state_dir: &'a Path,
}

/// Looks for a project file in the cwd and its parents, up to and including the first with `.git`, below `$HOME`, and
/// never in or above a directory that is somebody else's or writable by everybody.
pub(super) fn project(cwd: &Path, caller: Caller<'_>) -> Result<Discovered, SpecError> {
    let mut out = Discovered::default();
    let real = std::fs::canonicalize(cwd).unwrap_or_else(|_| cwd.to_path_buf());
    let home = std::fs::canonicalize(caller.home).unwrap_or_else(|_| caller.home.to_path_buf());
    for dir in real.ancestors() {
        if dir == home {
            break;
        }
        let Ok(handle) = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
            .open(dir)
        else {
            break;
        };
        let meta = handle
            .metadata()
            .map_err(|e| unreadable(&dir.to_string_lossy(), &e))?;
        let fd = OwnedFd::from(handle);
        if let Some(why) = distrusted(&meta, caller.uid) {
            for name in PROJECT_NAMES {
                if open_project(&fd, name).is_ok_and(|f| f.is_some()) {
                    out.notices.push(format!(
                        "`{}` is passed over: its directory {why}",
                        shown(&dir.join(name).to_string_lossy())
                    ));
                }
            }
            break;
        }
        if let Some(opened) = project_in(dir, &fd, caller, &mut out.notices)? {
            out.file = Some(opened);
            break;
        }
        if std::fs::symlink_metadata(dir.join(".git")).is_ok() {
            break;
        }
    }
    Ok(out)
}

fn project_in(
    dir: &Path,
    fd: &OwnedFd,
    caller: Caller<'_>,
    notices: &mut Vec<String>,
) -> Result<Option<Opened>, SpecError> {
    let mut found: Option<(PathBuf, File)> = None;
    for name in PROJECT_NAMES {
        let path = dir.join(name);
        let file = open_project(fd, name).map_err(|e| {
            let error = unreadable(&path.to_string_lossy(), &e);
            if e.raw_os_error() == Some(libc::ELOOP) {
                error.with_hint(&format!(
                    "discovery does not follow links, name the file with `-f {}`",
                    shown(&path.to_string_lossy())
                ))
            } else {
                error
            }
        })?;
        let Some(file) = file else {
            continue;
        };
        if let Some((other, _)) = &found {
            return Err(SpecError::plain(format!(
                "`{}` and `{}` both exist",
                shown(&other.to_string_lossy()),
                shown(&path.to_string_lossy())
            ))
            .with_hint("keep one of them"));
        }
        found = Some((path, file));
    }
    let Some((path, file)) = found else {
        return Ok(None);
    };
    let name = path.to_string_lossy().into_owned();
    let (bytes, meta) = read_all(file).map_err(|e| unreadable(&name, &e))?;
    if !meta.is_file() {
        return Err(SpecError::plain(format!(
            "{}: is not a regular file",
            shown(&name)
        )));
    }
    if let Some(why) = distrusted(&meta, caller.uid) {
        notices.push(format!("`{}` is passed over: it {why}", shown(&name)));
        return Ok(None);
    }
    let trusted = trust::is_recorded(caller.state_dir, caller.uid, &path, meta.uid(), &bytes);
    Ok(Some(Opened {
        source: Source::new(name, Some(path), Layer::Project { trusted }, bytes)?,
        base: dir.to_path_buf(),
    }))
}

/// Opens one name in a directory, never through a link and never waiting for a FIFO's writer.
fn open_project(dir: &OwnedFd, name: &str) -> io::Result<Option<File>> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    match openat(dir, name, flags, Mode::empty()) {
        Ok(fd) => Ok(Some(File::from(fd))),
        Err(nix::Error::ENOENT) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Why an object is not the caller's own.
pub(super) fn distrusted(meta: &Metadata, uid: u32) -> Option<&'static str> {
    if meta.uid() != uid && meta.uid() != 0 {
        Some("belongs to somebody else")
    } else if meta.mode() & 0o002 != 0 {
        Some("is writable by everybody")
    } else {
        None
    }
}

/// Reads at most one byte more than is allowed, so that the limit is noticed.
pub(super) fn read_all(file: File) -> io::Result<(Vec<u8>, Metadata)> {
    let meta = file.metadata()?;
    let mut bytes = Vec::new();
    if !meta.is_dir() {
        file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    }
    Ok((bytes, meta))
}

pub(super) fn unreadable(name: &str, e: &io::Error) -> SpecError {
    SpecError::plain(format!("{}: {}", shown(name), reason(e)))
}

pub(super) use crate::exit::reason;

fn is_absent(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}
