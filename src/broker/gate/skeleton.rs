//! The check of a directory that is about to become a git directory.
//!
//! Until then nothing in it was gated: it may hold whatever the child wrote. The broker looks once, under the exclusive
//! lock, and installs fresh copies of what it looked at, so that descriptors and hard links made before are worth nothing.

use super::keys::Place;
use super::{Refusal, compare_at};
use crate::broker::fold;

/// A file whose content matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found<'a> {
    /// No such entry.
    Absent,
    /// A regular file, opened without following links, of at most [`super::config::MAX_FILE`] bytes.
    File(&'a [u8]),
    /// Anything else.
    Unusual,
}

/// What stands in `hooks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hooks<'a> {
    /// No such entry.
    Absent,
    /// A directory with these entries.
    Directory(&'a [&'a [u8]]),
    /// Anything else, a link to a directory included.
    Unusual,
}

/// What the broker found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skeleton<'a> {
    /// `config`.
    pub config: Found<'a>,
    /// `config.worktree` exists.
    pub config_worktree: bool,
    /// `commondir`.
    pub commondir: Found<'a>,
    /// `hooks`.
    pub hooks: Hooks<'a>,
    /// `info/attributes` exists, or `info` is not a directory.
    pub attributes: bool,
    /// `branches` or `remotes` exists and is not an empty directory.
    pub legacy_remotes: bool,
    /// The directory is `worktrees/ID` of a git directory.
    pub linked: bool,
}

/// What must be installed again as a fresh copy before the entry that completes the directory is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reinstall {
    /// `config`, with the bytes that were checked.
    pub config: bool,
    /// `commondir`, with [`crate::broker::git_paths::COMMONDIR`].
    pub commondir: bool,
}

/// Says whether the directory may become a git directory.
///
/// # Errors
/// What stands in it that git would read or run.
pub fn check(place: &Place<'_>, found: &Skeleton<'_>) -> Result<Reinstall, Refusal> {
    let config = match found.config {
        Found::Absent => false,
        Found::File(file) => {
            compare_at(place, b"", file)?;
            true
        }
        Found::Unusual => return refuse("its `config` is not a plain file"),
    };
    if found.config_worktree {
        return refuse("it has a `config.worktree`");
    }
    let commondir = match found.commondir {
        Found::Absent => false,
        Found::File(b"../.." | b"../..\n") if found.linked => true,
        Found::File(_) | Found::Unusual => {
            return refuse("its `commondir` leads to another directory");
        }
    };
    let sample = |name: &&&[u8]| {
        let name = fold::fold(name, fold::NameRules::Windows);
        name.len() > 7 && name.ends_with(b".sample")
    };
    match found.hooks {
        Hooks::Absent => {}
        Hooks::Directory(names) if names.iter().filter(|n| !sample(n)).count() == 0 => {}
        Hooks::Directory(_) => return refuse("it has hooks"),
        Hooks::Unusual => return refuse("its `hooks` is not a directory"),
    }
    if found.attributes {
        return refuse("it has `info/attributes`");
    }
    if found.legacy_remotes {
        return refuse("it has remotes outside of its configuration");
    }
    Ok(Reinstall { config, commondir })
}

fn refuse(reason: &str) -> Result<Reinstall, Refusal> {
    Err(Refusal {
        key: Vec::new(),
        value: None,
        reason: format!("the directory would become a git repository, and {reason}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Skeleton<'static> = Skeleton {
        config: Found::Absent,
        config_worktree: false,
        commondir: Found::Absent,
        hooks: Hooks::Absent,
        attributes: false,
        legacy_remotes: false,
        linked: false,
    };

    fn judged(found: Skeleton<'_>) -> Result<Reinstall, String> {
        check(&Place::default(), &found).map_err(|r| r.to_string())
    }

    #[test]
    fn what_git_init_leaves_becomes_a_repository() {
        assert_eq!(
            judged(PLAIN),
            Ok(Reinstall {
                config: false,
                commondir: false
            })
        );
        assert_eq!(
            judged(Skeleton {
                config: Found::File(b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n"),
                hooks: Hooks::Directory(&[b"pre-commit.sample", b"update.sample"]),
                ..PLAIN
            }),
            Ok(Reinstall {
                config: true,
                commondir: false
            })
        );
        for text in [&b"../.."[..], b"../..\n"] {
            assert_eq!(
                judged(Skeleton {
                    commondir: Found::File(text),
                    linked: true,
                    ..PLAIN
                }),
                Ok(Reinstall {
                    config: false,
                    commondir: true
                })
            );
        }
    }

    #[test]
    fn what_git_would_run_or_read_keeps_it_from_becoming_one() {
        for found in [
            Skeleton {
                config: Found::File(b"[core]\nfsmonitor = x\n"),
                ..PLAIN
            },
            Skeleton {
                config: Found::File(b"x"),
                ..PLAIN
            },
            Skeleton {
                config: Found::Unusual,
                ..PLAIN
            },
            Skeleton {
                config_worktree: true,
                ..PLAIN
            },
            Skeleton {
                commondir: Found::File(b"../..\n"),
                ..PLAIN
            },
            Skeleton {
                commondir: Found::File(b"../../x"),
                linked: true,
                ..PLAIN
            },
            Skeleton {
                commondir: Found::File(b"../..\n\n"),
                linked: true,
                ..PLAIN
            },
            Skeleton {
                commondir: Found::Unusual,
                linked: true,
                ..PLAIN
            },
            Skeleton {
                hooks: Hooks::Unusual,
                ..PLAIN
            },
            Skeleton {
                hooks: Hooks::Directory(&[b"pre-commit"]),
                ..PLAIN
            },
            Skeleton {
                hooks: Hooks::Directory(&[b"a.sample", b".sample"]),
                ..PLAIN
            },
            Skeleton {
                hooks: Hooks::Directory(&[b"pre-commit:x.sample"]),
                ..PLAIN
            },
            Skeleton {
                hooks: Hooks::Directory(&[b"dir"]),
                ..PLAIN
            },
            Skeleton {
                attributes: true,
                ..PLAIN
            },
            Skeleton {
                legacy_remotes: true,
                ..PLAIN
            },
        ] {
            assert!(judged(found).is_err(), "{found:?}");
        }
        assert_eq!(
            judged(Skeleton {
                hooks: Hooks::Directory(&[b"x"]),
                ..PLAIN
            }),
            Err(
                "git change refused: the directory would become a git repository, and it has hooks"
                    .to_owned()
            )
        );
    }
}
