//! Every spelling of a path that leads to the same object on macOS.

use std::path::{Path, PathBuf};

use crate::plan::paths::{Walk, rest, within};
use crate::policy::pattern::accents::{composed, decomposed};

/// Links that every macOS has at the top of its file system, and where they lead.
const SYSTEM_LINKS: [(&str, &str); 3] = [
    ("/tmp", "/private/tmp"),
    ("/var", "/private/var"),
    ("/etc", "/private/etc"),
];

/// Directories that the data volume lends to the top of the file system.
const LENT: [&str; 7] = [
    "/Users",
    "/private",
    "/Library",
    "/Applications",
    "/opt",
    "/usr/local",
    "/Volumes",
];

/// As written, and where the links lead. The kernel compares the resolved path, and the link itself under its own name.
pub(super) fn spellings(walk: &Walk) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = Vec::new();
    for path in both(&walk.real).into_iter().chain(both(&walk.spelled)) {
        for path in forms(&path) {
            if !out.contains(&path) {
                out.push(path);
            }
        }
    }
    out
}

/// As written, and with accents composed and decomposed: APFS takes all for one name and hands back the one a file was made with.
pub(super) fn forms(path: &Path) -> Vec<PathBuf> {
    let mut out = vec![path.to_path_buf()];
    if let Some(text) = path.to_str().filter(|t| !t.is_ascii()) {
        for form in [composed(text), decomposed(text)] {
            let form = PathBuf::from(form);
            if !out.contains(&form) {
                out.push(form);
            }
        }
    }
    out
}

/// The path below `/private` and without it, also where this is not macOS.
pub(super) fn both(path: &Path) -> Vec<PathBuf> {
    let mut out = vec![path.to_path_buf()];
    for (short, long) in SYSTEM_LINKS.map(|(s, l)| (Path::new(s), Path::new(l))) {
        for (from, to) in [(short, long), (long, short)] {
            if within(path, from) {
                out.push(join(to, rest(path, from)));
            }
        }
    }
    out
}

/// The spelling by way of the data volume; only for refusals.
pub(super) fn firmlink(path: &Path) -> Option<PathBuf> {
    LENT.iter()
        .any(|dir| within(path, Path::new(dir)))
        .then(|| {
            join(
                Path::new("/System/Volumes/Data"),
                rest(path, Path::new("/")),
            )
        })
}

fn join(dir: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() {
        dir.to_path_buf()
    } else {
        dir.join(rest)
    }
}
