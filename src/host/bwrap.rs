//! Finds bubblewrap at fixed places, never through a `PATH` that a child could have written (D11).

use std::path::{Path, PathBuf};

use super::FsView;
use super::fs_view::Kind;

/// Where distributions put it: Debian, Fedora, Arch, Alpine, openSUSE; local builds; NixOS, twice; Guix; Linuxbrew is not
/// here because users own it.
pub const PLACES: [&str; 6] = [
    "/usr/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/run/wrappers/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
    "/run/current-system/profile/bin/bwrap",
    "/usr/libexec/bubblewrap/bwrap",
];

/// What an unmapped owner looks like inside a user namespace (`/proc/sys/kernel/overflowuid`).
const OVERFLOW_UID: u32 = 65534;

/// A bubblewrap that may be trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bwrap {
    /// Where it is.
    pub path: PathBuf,
    /// Installed setuid root, as before unprivileged user namespaces.
    pub setuid: bool,
}

/// Why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// At none of the places.
    NotInstalled,
    /// There is one, but somebody other than root could have written it.
    NotTrusted {
        /// The first that was looked at.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// Looks for bubblewrap.
///
/// # Errors
/// Not installed, or not root's own.
pub fn find(fs: &dyn FsView) -> Result<Bwrap, Missing> {
    let mut refused = None;
    for place in PLACES {
        let path = PathBuf::from(place);
        let Some(meta) = fs.meta(&path) else {
            continue;
        };
        let why = if meta.kind != Kind::File {
            "it is not a file"
        } else if !is_roots(fs, meta.uid) {
            "it is not owned by root"
        } else if meta.mode & 0o022 != 0 {
            "others than root can write it"
        } else if meta.mode & 0o111 == 0 {
            "it is not executable"
        } else {
            return Ok(Bwrap {
                path,
                setuid: meta.mode & 0o4000 != 0,
            });
        };
        refused = refused.or(Some(Missing::NotTrusted { path, why }));
    }
    Err(refused.unwrap_or(Missing::NotInstalled))
}

/// Root, or what root looks like in a user namespace that does not map it: the overflow owner, who then owns `/` too.
fn is_roots(fs: &dyn FsView, uid: u32) -> bool {
    uid == 0 || (uid == OVERFLOW_UID && fs.meta(Path::new("/")).is_some_and(|m| m.uid == uid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fs_view::Meta;
    use std::collections::BTreeMap;
    use std::ffi::OsString;
    use std::io;

    /// Owner and mode per path, files but for `/`.
    struct Table(BTreeMap<PathBuf, (u32, u32)>);

    impl FsView for Table {
        fn kind(&self, path: &Path) -> Option<Kind> {
            self.meta(path).map(|m| m.kind)
        }
        fn meta(&self, path: &Path) -> Option<Meta> {
            let (uid, mode) = *self.0.get(path)?;
            let kind = if path == Path::new("/") {
                Kind::Dir
            } else {
                Kind::File
            };
            Some(Meta {
                kind,
                dev: 1,
                ino: 1,
                uid,
                gid: uid,
                mode,
            })
        }
        fn pin(&self, p: &Path) -> io::Result<Meta> {
            self.meta(p).ok_or_else(|| io::ErrorKind::NotFound.into())
        }
        fn read_link(&self, _: &Path) -> Option<PathBuf> {
            None
        }
        fn canonicalize(&self, p: &Path) -> io::Result<PathBuf> {
            Ok(p.into())
        }
        fn can_create_in(&self, _: &Path) -> bool {
            false
        }
        fn readable(&self, _: &Path) -> bool {
            true
        }
        fn list(&self, _: &Path) -> Vec<OsString> {
            Vec::new()
        }
        fn read(&self, _: &Path) -> Option<Vec<u8>> {
            None
        }
        fn mounts(&self) -> io::Result<Vec<crate::host::mount_table::HostMount>> {
            Ok(Vec::new())
        }
    }

    fn found(entries: &[(&str, u32, u32)]) -> Result<(String, bool), Missing> {
        let fs = Table(
            entries
                .iter()
                .map(|(p, u, m)| (PathBuf::from(p), (*u, *m)))
                .collect(),
        );
        find(&fs).map(|b| (b.path.display().to_string(), b.setuid))
    }

    fn refused(why: &'static str) -> Result<(String, bool), Missing> {
        Err(Missing::NotTrusted {
            path: "/usr/bin/bwrap".into(),
            why,
        })
    }

    #[test]
    fn only_roots_own_at_fixed_places() {
        let usr = "/usr/bin/bwrap";
        assert_eq!(found(&[(usr, 0, 0o755)]), Ok((usr.into(), false)));
        assert_eq!(found(&[(usr, 0, 0o4755)]), Ok((usr.into(), true)));
        assert_eq!(found(&[]), Err(Missing::NotInstalled));
        assert_eq!(
            found(&[("/home/me/bin/bwrap", 0, 0o755)]),
            Err(Missing::NotInstalled)
        );
        assert_eq!(
            found(&[(usr, 1000, 0o755)]),
            refused("it is not owned by root")
        );
        assert_eq!(
            found(&[(usr, 0, 0o775)]),
            refused("others than root can write it")
        );
        assert_eq!(found(&[(usr, 0, 0o644)]), refused("it is not executable"));
        let local = "/usr/local/bin/bwrap";
        assert_eq!(
            found(&[(usr, 1000, 0o755), (local, 0, 0o755)]),
            Ok((local.into(), false))
        );
    }

    #[test]
    fn in_a_user_namespace_root_is_the_overflow_owner() {
        let usr = "/usr/bin/bwrap";
        assert_eq!(
            found(&[("/", 65534, 0o755), (usr, 65534, 0o755)]),
            Ok((usr.into(), false))
        );
        assert_eq!(
            found(&[("/", 0, 0o755), (usr, 65534, 0o755)]),
            refused("it is not owned by root")
        );
    }
}
