//! Opens the access log of a run (`network.access_log`).

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

use super::context::Prepared;
use super::engine::Chosen;
use super::usage::UsageError;
use crate::exit;
use crate::report::access::AccessLog;
use crate::sys::fds::open_no_links;

/// The log, where the call has a sandbox whose connections go anywhere through ccbox.
pub(super) fn log(
    ready: &Prepared,
    chosen: &Chosen,
    session_id: &str,
) -> Result<Option<Arc<AccessLog>>, UsageError> {
    let Some(path) = &ready.plan.network.access_log else {
        return Ok(None);
    };
    if matches!(chosen, Chosen::None(_)) {
        return Ok(None);
    }
    let file = open(path).map_err(|e| UsageError {
        message: format!(
            "cannot open the access log `{}`: {}",
            path.display(),
            exit::reason(&e)
        ),
        hint: (e.raw_os_error() == Some(libc::ENOENT))
            .then(|| "make its directory first".to_owned()),
    })?;
    Ok(Some(Arc::new(AccessLog::new(file, session_id.to_owned()))))
}

/// Made with mode 0600, appended, through no link, and only a file of the caller's own.
fn open(path: &Path) -> io::Result<File> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let dir = open_no_links(dir)?;
    let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT | OFlag::O_CLOEXEC;
    // A FIFO without a reader is refused (ENXIO) instead of waited for.
    let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    let file = File::from(openat(dir.as_fd(), name, flags, mode)?);
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if meta.uid() != nix::unistd::geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    if meta.mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_file_is_the_callers_own_private_and_never_a_link() {
        let keep = tempfile::tempdir().unwrap();
        let dir = keep.path().canonicalize().unwrap();
        let path = dir.join("log");
        std::fs::write(&path, "old\n").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let mut file = open(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        file.write_all(b"new\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old\nnew\n");
        symlink(&path, dir.join("link")).unwrap();
        symlink(&dir, dir.join("here")).unwrap();
        for through in ["link", "here/log", "here/new"] {
            let e = open(&dir.join(through)).unwrap_err();
            assert_eq!(e.raw_os_error(), Some(libc::ELOOP), "{through}");
        }
        nix::unistd::mkfifo(&dir.join("fifo"), Mode::S_IRUSR).unwrap();
        assert!(open(&dir.join("fifo")).is_err());
        assert!(open(Path::new("/dev/null")).is_err());
        assert!(open(Path::new("/")).is_err());
        assert!(!dir.join("new").exists());
    }
}
