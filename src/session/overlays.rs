//! The writable layers of the private caches (semantics 45) when several runs use them at once.
//!
//! Two overlay mounts must share neither an upper nor a work directory: the kernel calls the result undefined
//! (Documentation/filesystems/overlayfs.rst, "Sharing and copying layers"), and already a shared work directory, which each mount
//! empties first, makes every change of the earlier mount fail with EPERM or EIO. So the work directory belongs to the run, and the
//! upper directory to the first run that locks it. A run that finds it taken puts a layer of its own on top, reads through the
//! other's and leaves nothing.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::SessionError;
use crate::backend::{OverlayMount, PreMount};

/// A run makes its directory and locks it a moment later; what is older and not locked was left by one that was killed.
const YOUNG: Duration = Duration::from_mins(1);

/// What a run holds; removed and unlocked when dropped.
#[derive(Debug, Default)]
pub(super) struct Layers {
    held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    dir: PathBuf,
    /// Unlocked by closing.
    _locks: [Option<File>; 2],
}

impl Layers {
    /// Gives every overlay layers that no other run uses.
    pub(super) fn take(mounts: &mut [PreMount]) -> Result<Self, SessionError> {
        let mut layers = Self::default();
        for mount in mounts {
            let PreMount::Overlay(overlay) = mount else {
                continue;
            };
            let held = take(overlay).map_err(|e| {
                SessionError::new(format!(
                    "cannot prepare the private cache in `{}`: {e}",
                    overlay.work.display()
                ))
            })?;
            layers.held.push(held);
        }
        Ok(layers)
    }
}

impl Drop for Layers {
    fn drop(&mut self) {
        for held in &self.held {
            // What cannot be removed now, the next run removes.
            let _ = remove(&held.dir);
        }
    }
}

fn take(overlay: &mut OverlayMount) -> io::Result<Held> {
    sweep(&overlay.work);
    let dir = nix::unistd::mkdtemp(&overlay.work.join("run-XXXXXX"))?;
    let own = File::open(&dir)?;
    own.lock()?;
    let upper = File::open(&overlay.upper)?;
    let first = match upper.try_lock() {
        Ok(()) => Some(upper),
        Err(TryLockError::WouldBlock) => {
            let shared = std::mem::replace(&mut overlay.upper, dir.join("upper"));
            overlay.lowers.insert(0, shared);
            fs::create_dir(&overlay.upper)?;
            None
        }
        Err(TryLockError::Error(e)) => return Err(e),
    };
    overlay.work = dir.join("work");
    fs::create_dir(&overlay.work)?;
    Ok(Held {
        dir,
        _locks: [Some(own), first],
    })
}

/// Removes what killed runs left.
fn sweep(work: &Path) {
    let Ok(entries) = fs::read_dir(work) else {
        return;
    };
    for entry in entries.flatten() {
        let old = entry
            .metadata()
            .and_then(|m| m.modified())
            .is_ok_and(|t| t.elapsed().is_ok_and(|age| age > YOUNG));
        if !old {
            continue;
        }
        let path = entry.path();
        let free = unlock(&path)
            .and_then(|()| File::open(&path))
            .is_ok_and(|dir| dir.try_lock().is_ok());
        if free {
            let _ = remove(&path);
        }
    }
}

/// Removes a directory and everything below it, without following links: the wrapped commands wrote these trees.
pub(crate) fn remove(dir: &Path) -> io::Result<()> {
    if fs::symlink_metadata(dir)?.is_symlink() {
        return fs::remove_file(dir);
    }
    unlock_below(dir)?;
    fs::remove_dir_all(dir)
}

fn unlock_below(path: &Path) -> io::Result<()> {
    unlock(path)?;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            unlock_below(&entry.path())?;
        }
    }
    Ok(())
}

/// Tools make parts of their caches read-only (`~/go/pkg/mod`), overlayfs its work directory inaccessible: as their owner one
/// may change that.
fn unlock(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::symlink_metadata(dir)?.permissions().mode();
    if mode & 0o700 != 0o700 {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn overlay(store: &Path) -> PreMount {
        for name in ["upper", "work"] {
            fs::create_dir_all(store.join(name)).unwrap();
        }
        PreMount::Overlay(OverlayMount {
            lowers: vec![PathBuf::from("/cache")],
            upper: store.join("upper"),
            work: store.join("work"),
            at: store.join("merged"),
        })
    }

    fn layers(mounts: &[PreMount]) -> &OverlayMount {
        let PreMount::Overlay(o) = &mounts[0] else {
            panic!("{mounts:?}");
        };
        o
    }

    #[test]
    fn the_second_run_at_a_time_gets_layers_of_its_own() {
        let store = tempfile::tempdir().unwrap();
        let mut first = [overlay(store.path())];
        let mut second = [overlay(store.path())];
        let one = Layers::take(&mut first).unwrap();
        let two = Layers::take(&mut second).unwrap();
        let (a, b) = (layers(&first), layers(&second));
        assert_eq!(a.upper, store.path().join("upper"));
        assert_eq!(a.lowers, [PathBuf::from("/cache")]);
        assert_eq!(b.lowers, [a.upper.clone(), PathBuf::from("/cache")]);
        assert_ne!(a.work, b.work);
        // What tools and overlayfs leave does not keep the layers from being removed.
        for dir in ["read-only", "work/work"] {
            let dir = layers(&second).upper.join(dir);
            fs::create_dir_all(dir.join("x")).unwrap();
            fs::set_permissions(&dir, fs::Permissions::from_mode(0o000)).unwrap();
        }
        drop(two);
        drop(one);
        assert_eq!(fs::read_dir(store.path().join("work")).unwrap().count(), 0);
        let mut third = [overlay(store.path())];
        let _layers = Layers::take(&mut third).unwrap();
        assert_eq!(layers(&third).upper, store.path().join("upper"));
    }

    #[test]
    fn what_a_killed_run_left_goes_and_what_another_holds_stays() {
        let store = tempfile::tempdir().unwrap();
        let work = layers(&[overlay(store.path())]).work.clone();
        let old = std::time::SystemTime::now() - 2 * YOUNG;
        let make = |name: &str| {
            let dir = work.join(name);
            fs::create_dir_all(dir.join("work/work")).unwrap();
            let file = File::open(&dir).unwrap();
            file.set_modified(old).unwrap();
            file
        };
        make("run-left");
        let held = make("run-held");
        held.lock().unwrap();
        fs::create_dir(work.join("run-young")).unwrap();
        sweep(&work);
        let mut names: Vec<_> = fs::read_dir(&work)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["run-held", "run-young"]);
    }
}
