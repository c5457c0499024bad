//! `..` after a symbolic link: where the reading of the text and the kernel's part ways.
//!
//! `link/../x` is `x` beside the link by its text, and `x` beside the link's target for the kernel. A deny holds for
//! both; a grant is refused, because guessing would widen.

use std::path::{Component, Path, PathBuf};

use crate::policy::path::{ListKind, PathEntry, PathEntryError};

/// The entries that one spelling stands for. `dotted` is the path with its `..` kept, where it has one.
pub(super) fn readings(
    entry: PathEntry,
    dotted: Option<&Path>,
    kind: ListKind,
) -> Result<Vec<PathEntry>, PathEntryError> {
    let Some(kernel) = dotted.and_then(kernel_reading) else {
        return Ok(vec![entry]);
    };
    if entry.exact() == Some(kernel.as_path()) {
        return Ok(vec![entry]);
    }
    match kind {
        ListKind::Grant | ListKind::AllowCreate => Err(PathEntryError {
            reason: "`..` after a symbolic link can mean two places".into(),
            hint: Some("write the path without `..`".into()),
        }),
        ListKind::DenyWrite | ListKind::Protected | ListKind::DenyRead => {
            Ok(vec![entry, PathEntry::Exact(kernel)])
        }
    }
}

/// The path as the kernel resolves its `..`; links that no `..` follows are kept. `None` where a link before a `..`
/// leads nowhere, so that the kernel would find nothing.
pub(super) fn kernel_reading(path: &Path) -> Option<PathBuf> {
    let mut at = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => at.push(name),
            Component::ParentDir => {
                if std::fs::symlink_metadata(&at).is_ok_and(|m| m.is_symlink()) {
                    at = std::fs::canonicalize(&at).ok()?;
                }
                at.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_before_dots_are_followed_and_others_kept() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("far/deep")).unwrap();
        std::fs::create_dir_all(root.join("ws")).unwrap();
        symlink(root.join("far/deep"), root.join("link")).unwrap();
        symlink("nowhere", root.join("dangling")).unwrap();
        for (path, want) in [
            ("ws/../ws/prot", Some("ws/prot")),
            ("link/../x", Some("far/x")),
            ("link/x", Some("link/x")),
            ("link/a/../x", Some("link/x")),
            ("absent/../x", Some("x")),
            ("dangling/../x", None),
        ] {
            let got = kernel_reading(&root.join(path));
            assert_eq!(got, want.map(|w| root.join(w)), "{path}");
        }
    }

    #[test]
    fn a_deny_holds_for_both_readings_and_a_grant_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("far/deep")).unwrap();
        symlink(root.join("far/deep"), root.join("link")).unwrap();
        let text = PathEntry::Exact(root.join("x"));
        let dotted = root.join("link/../x");
        let deny = readings(text.clone(), Some(&dotted), ListKind::Protected).unwrap();
        assert_eq!(deny, [text.clone(), PathEntry::Exact(root.join("far/x"))]);
        assert!(readings(text.clone(), Some(&dotted), ListKind::Grant).is_err());
        let plain = readings(text.clone(), Some(&root.join("far/../x")), ListKind::Grant);
        assert_eq!(plain, Ok(vec![text]));
    }
}
