//! `ccbox caches clear`: empties the private caches of earlier runs (semantics 45).

use std::fs;
use std::io;
use std::path::Path;

use super::args::{CachesAction, CachesArgs};
use super::usage::UsageError;
use super::{Ending, Fault, answer, rooms};
use crate::exit;
use crate::host::HostFacts;
use crate::report::text::escape_os;
use crate::session::remove_tree as remove;

/// Empties them.
pub(super) fn caches(args: CachesArgs) -> Result<Ending, Fault> {
    match args.action {
        CachesAction::Clear => {
            let host = HostFacts::collect()?;
            let dir = rooms::caches_dir(&host);
            clear(&dir).map_err(|e| UsageError {
                message: format!("cannot empty `{}`: {}", dir.display(), exit::reason(&e)),
                hint: Some("end the runs that use it and try again".to_owned()),
            })?;
            answer(&format!("emptied {}\n", escape_os(dir.as_os_str())))
        }
    }
}

/// Removes everything below `dir`, without following links: the wrapped commands wrote these trees.
fn clear(dir: &Path) -> io::Result<()> {
    let kind = match fs::symlink_metadata(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?.file_type(),
    };
    if !kind.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn everything_goes_but_what_links_point_to() {
        let dir = tempfile::tempdir().unwrap();
        let caches = dir.path().join("caches");
        let outside = dir.path().join("outside");
        fs::create_dir_all(caches.join("go/pkg/mod")).unwrap();
        fs::write(caches.join("go/pkg/mod/file"), "x").unwrap();
        fs::write(&outside, "keep").unwrap();
        symlink(&outside, caches.join("link")).unwrap();
        symlink(dir.path(), caches.join("dirlink")).unwrap();
        fs::set_permissions(caches.join("go/pkg/mod"), fs::Permissions::from_mode(0o500)).unwrap();
        fs::create_dir(caches.join("work")).unwrap();
        fs::set_permissions(caches.join("work"), fs::Permissions::from_mode(0o000)).unwrap();
        clear(&caches).unwrap();
        assert_eq!(fs::read_dir(&caches).unwrap().count(), 0);
        assert_eq!(fs::read_to_string(&outside).unwrap(), "keep");
        clear(&dir.path().join("absent")).unwrap();
        assert!(clear(&outside).is_err());
    }
}
