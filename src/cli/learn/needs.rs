//! From what a command touched to the fewest and narrowest grants.
//!
//! A directory stands for the files in it only where nobody minds: never home or what lies above it, never a directory of the system,
//! never one with a secret in it, and not the big ones right below home.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Files of one directory that are named one by one.
const ONE_BY_ONE: usize = 3;
/// Components of a directory that may stand for its files, where it is not below home.
const DEEP_ENOUGH: usize = 2;

/// What places are.
#[derive(Clone, Copy)]
pub(super) struct Places<'a> {
    pub(super) home: &'a Path,
    /// It is a secret, or there is one below it.
    pub(super) holds_secret: &'a dyn Fn(&Path) -> bool,
    /// It belongs to the system.
    pub(super) is_system: &'a dyn Fn(&Path) -> bool,
}

impl Places<'_> {
    /// A directory that may be granted with all that is in it.
    pub(super) fn is_grantable(&self, dir: &Path) -> bool {
        let depth = match dir.strip_prefix(self.home) {
            Ok(below) => below.components().count(),
            Err(_) => dir.components().count().saturating_sub(1),
        };
        depth >= DEEP_ENOUGH
            && !self.home.starts_with(dir)
            && !(self.is_system)(dir)
            && !(self.holds_secret)(dir)
    }
}

/// The files, or directories in their place.
pub(super) fn collapse(files: &BTreeSet<PathBuf>, places: Places<'_>) -> BTreeSet<PathBuf> {
    let mut out = BTreeSet::new();
    let all: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    below(Path::new("/"), &all, places, &mut out);
    out
}

fn below(dir: &Path, files: &[&Path], places: Places<'_>, out: &mut BTreeSet<PathBuf>) {
    if files.len() <= ONE_BY_ONE {
        out.extend(files.iter().map(|f| f.to_path_buf()));
        return;
    }
    let mut children: BTreeMap<PathBuf, Vec<&Path>> = BTreeMap::new();
    for file in files {
        let name = file
            .strip_prefix(dir)
            .ok()
            .and_then(|r| r.components().next());
        match name {
            Some(name) => children.entry(dir.join(name)).or_default().push(file),
            // The directory itself is asked for.
            None => drop(out.insert(file.to_path_buf())),
        }
    }
    if children.len() > 1 && places.is_grantable(dir) {
        out.insert(dir.to_path_buf());
        return;
    }
    for (child, files) in &children {
        match files.as_slice() {
            [one] if *one == child => drop(out.insert(child.clone())),
            _ => below(child, files, places, out),
        }
    }
}

/// Without those that lie below another one.
pub(super) fn topmost(dirs: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    // A directory sorts before what lies below it.
    let mut out: BTreeSet<PathBuf> = BTreeSet::new();
    for dir in dirs {
        if !dir.ancestors().skip(1).any(|above| out.contains(above)) {
            out.insert(dir.clone());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn holds_secret(dir: &Path) -> bool {
        [
            "/home/me/.ssh",
            "/home/me/.config/gh",
            "/home/me/.cargo/credentials",
        ]
        .iter()
        .any(|s| Path::new(s).starts_with(dir) || dir.starts_with(s))
    }

    fn is_system(dir: &Path) -> bool {
        dir.starts_with("/etc") || dir.starts_with("/usr")
    }

    fn places() -> Places<'static> {
        Places {
            home: Path::new("/home/me"),
            holds_secret: &holds_secret,
            is_system: &is_system,
        }
    }

    fn set(paths: &[&str]) -> BTreeSet<PathBuf> {
        paths.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn many_files_become_the_narrowest_directory() {
        let table: &[(&[&str], &[&str])] = &[
            (&[], &[]),
            (
                &["/home/me/.gitconfig", "/srv/a/b"],
                &["/home/me/.gitconfig", "/srv/a/b"],
            ),
            // A tool chain.
            (
                &[
                    "/home/me/.rustup/toolchains/s/bin/cargo",
                    "/home/me/.rustup/toolchains/s/bin/rustc",
                    "/home/me/.rustup/toolchains/s/lib/a.so",
                    "/home/me/.rustup/toolchains/s/lib/b.so",
                ],
                &["/home/me/.rustup/toolchains/s"],
            ),
            // Never home, nor what is right below it, nor a directory with a secret.
            (
                &["/home/me/a", "/home/me/b", "/home/me/c", "/home/me/d"],
                &["/home/me/a", "/home/me/b", "/home/me/c", "/home/me/d"],
            ),
            (
                &[
                    "/home/me/.config/a",
                    "/home/me/.config/b",
                    "/home/me/.config/c",
                    "/home/me/.config/git/x",
                ],
                &[
                    "/home/me/.config/a",
                    "/home/me/.config/b",
                    "/home/me/.config/c",
                    "/home/me/.config/git/x",
                ],
            ),
            (
                &["/etc/ssl/a", "/etc/ssl/b", "/etc/ssl/c", "/etc/ssl/d"],
                &["/etc/ssl/a", "/etc/ssl/b", "/etc/ssl/c", "/etc/ssl/d"],
            ),
            (
                &["/home/you/a", "/home/you/b", "/home/him/c", "/home/him/d"],
                &["/home/him/c", "/home/him/d", "/home/you/a", "/home/you/b"],
            ),
        ];
        for (files, wanted) in table {
            assert_eq!(collapse(&set(files), places()), set(wanted), "{files:?}");
        }
    }

    #[test]
    fn only_the_topmost_directories_count() {
        assert_eq!(
            topmost(&set(&["/a/b", "/a/b/c", "/a/bc", "/d"])),
            set(&["/a/b", "/a/bc", "/d"])
        );
    }

    proptest! {
        #[test]
        fn everything_is_covered_and_nothing_wide_is_granted(
            names in proptest::collection::btree_set("(/home/me|/home|/etc|/srv)(/(\\.ssh|\\.config|a|b|gh)){1,4}", 0..30)
        ) {
            let files: BTreeSet<PathBuf> = names.iter().map(PathBuf::from).collect();
            let out = collapse(&files, places());
            for file in &files {
                prop_assert!(out.iter().any(|g| file.starts_with(g)), "{file:?} {out:?}");
            }
            for grant in &out {
                prop_assert!(files.contains(grant) || places().is_grantable(grant), "{grant:?}");
                prop_assert!(files.contains(grant) || !Path::new("/home/me/.ssh").starts_with(grant));
            }
        }
    }
}
