//! The file that `--write` names: opened through no link, replaced as a whole, and only by a text that still is a spec.
//!
//! What it is trusted for stays as it was (semantics 18): a project file that was not trusted before is not edited, because trusting
//! the result would trust all the rest of it.

use std::ffi::OsString;
use std::fs::{File, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, unlinkat};

use super::anywhere;
use super::edit::EditError;
use crate::cli::Fault;
use crate::cli::context;
use crate::cli::usage::UsageError;
use crate::exit;
use crate::host::{HostFacts, RealFs};
use crate::plan::Plan;
use crate::report::text::escape_os;
use crate::spec::trust::{self, TrustRequest};
use crate::spec::{self, PROJECT_NAMES, SpecSource};
use crate::sys::fds::open_no_links;

/// A spec is text somebody wrote.
const LONGEST: u64 = 16 << 20;

/// The file, pinned by its directory.
#[derive(Debug)]
pub(super) struct Target {
    dir: OwnedFd,
    name: OsString,
    /// Absolute, without links.
    path: PathBuf,
    old: Option<(Vec<u8>, Metadata)>,
}

impl Target {
    /// Opens it. The caller stands in the current directory; no link is followed from there on, nor in an absolute path.
    pub(super) fn open(typed: &Path, host: &HostFacts) -> Result<Self, UsageError> {
        let whole = host.cwd_real.join(typed);
        let failed = |e: &io::Error| UsageError {
            message: format!(
                "cannot write `{}`: {}",
                escape_os(typed.as_os_str()),
                exit::reason(e)
            ),
            hint: (e.raw_os_error() == Some(libc::ELOOP)).then(|| {
                "a spec is never written through a link: name the place it leads to".to_owned()
            }),
        };
        let (Some(dir), Some(name)) = (whole.parent(), whole.file_name()) else {
            return Err(failed(&io::ErrorKind::InvalidInput.into()));
        };
        let fd = open_no_links(dir).map_err(|e| failed(&e))?;
        let old = read(&fd, name).map_err(|e| failed(&e))?;
        let real = std::fs::canonicalize(dir).map_err(|e| failed(&e))?;
        Ok(Self {
            name: name.to_owned(),
            path: real.join(name),
            dir: fd,
            old,
        })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What it holds.
    pub(super) fn text(&self) -> Result<&str, UsageError> {
        match &self.old {
            None => Ok(""),
            Some((bytes, _)) => std::str::from_utf8(bytes).map_err(|_| UsageError {
                message: format!("`{}` is not UTF-8 text", escape_os(self.path.as_os_str())),
                hint: None,
            }),
        }
    }

    /// Whether the result is to be recorded as trusted: only where that lets in nothing but the new lines.
    pub(super) fn trust(&self, host: &HostFacts) -> Result<bool, Fault> {
        let project = PROJECT_NAMES.iter().any(|n| self.name == *n);
        if !project || self.old.is_none() {
            return Ok(project);
        }
        let candidate = trust::inspect(TrustRequest {
            file: &self.path,
            cwd: &host.cwd,
            home: &host.home,
            uid: host.uid,
        })?;
        if candidate.is_trusted(&host.state_dir, host.uid) {
            return Ok(true);
        }
        Err(UsageError::new(
            format!(
                "`{}` is a project file that is not trusted, so it is not edited",
                escape_os(self.path.as_os_str())
            ),
            format!(
                "`ccbox trust {}` shows what it grants",
                crate::report::text::shell_quote(self.path.as_os_str())
            ),
        )
        .into())
    }

    /// What is told where the text cannot be edited.
    pub(super) fn not_edited(&self, error: &EditError) -> UsageError {
        let path = escape_os(self.path.as_os_str());
        match error {
            EditError::NotToml(why) => UsageError {
                message: format!("`{path}` is not TOML: {why}"),
                hint: None,
            },
            EditError::NotAList(key) => UsageError {
                message: format!("`{path}`: `{key}` is not what a line can be added to"),
                hint: None,
            },
        }
    }

    /// Puts the text in its place, if it is a spec that a run would take. Whoever reads it meanwhile sees the old one or the new one.
    pub(super) fn replace(&self, text: &str, host: &HostFacts) -> Result<(), Fault> {
        let beside = format!(".ccbox-{}.toml", std::process::id());
        let failed = |e: &io::Error| UsageError {
            message: format!(
                "cannot write `{}`: {}",
                escape_os(self.path.as_os_str()),
                exit::reason(e)
            ),
            hint: None,
        };
        self.put(&beside, text).map_err(|e| failed(&e))?;
        let end = self.check(&beside, host).and_then(|()| {
            let moved = renameat(&self.dir, beside.as_str(), &self.dir, self.name.as_os_str());
            moved.map_err(|e| failed(&e.into()).into())
        });
        if end.is_err() {
            // It may never have been made.
            let _ = unlinkat(&self.dir, beside.as_str(), UnlinkatFlags::NoRemoveDir);
        }
        end
    }

    fn put(&self, name: &str, text: &str) -> io::Result<()> {
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        let mut file = File::from(openat(&self.dir, name, flags, mode)?);
        file.write_all(text.as_bytes())?;
        let mode = match &self.old {
            Some((_, old)) => {
                let new = file.metadata()?;
                if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
                    let (uid, gid) = (Uid::from_raw(old.uid()), Gid::from_raw(old.gid()));
                    fchown(&file, Some(uid), Some(gid))?;
                }
                old.mode() & 0o777
            }
            None => 0o644,
        };
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()
    }

    /// Reads the new text as a run would.
    fn check(&self, name: &str, host: &HostFacts) -> Result<(), Fault> {
        let file = self.path.with_file_name(name);
        let specs = vec![SpecSource::File(file)];
        let request = context::request(&anywhere(), specs, host)?;
        let loaded = spec::load(&request).map_err(|mut e| {
            // The reader knows the file by its own name.
            e.message = e.message.replace(name, &self.name.to_string_lossy());
            e
        })?;
        Plan::resolve(&loaded.policy, host, &["true".into()], &RealFs)?;
        Ok(())
    }
}

fn read(dir: &OwnedFd, name: &std::ffi::OsStr) -> io::Result<Option<(Vec<u8>, Metadata)>> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = match openat(dir, name, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(nix::Error::ENOENT) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if meta.len() > LONGEST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(Some((bytes, meta)))
}
