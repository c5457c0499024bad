//! What may not be read by name (semantics 6): patterns of `deny_read`, and where those are held, the hidden paths as well.
//!
//! Pure. A name is judged by the path its object has when it is opened, in the words of the host; every directory above it counts, so a
//! pattern that names a directory covers what is in it (semantics 35). A pattern counts as the deepest entry (semantics 5): nothing lifts
//! it. Private places of the sandbox carry no name rules (semantics 10).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::decide::Matcher;
use super::fold::{NameRules, fold};
use super::plan::components;
use crate::policy::Origin;

/// What a plan says about opens for reading.
#[derive(Debug, Clone)]
pub struct ReadPlan {
    /// What is refused; the first that denies is named.
    pub rules: Vec<ReadRule>,
    /// A pattern is among the rules, so they decide. Otherwise mounts and floor hold them, and opens are only watched.
    pub decides: bool,
    /// `--trace`: what is not shown inside is told.
    pub watched: bool,
    /// What stands inside: a path there, and the host's path of it. `None` is the sandbox's own.
    pub places: Vec<(PathBuf, Option<PathBuf>)>,
    /// Directories inside whose entries the read floor grants one by one: what comes later has no grant, and the kernel refuses it.
    pub floor: Vec<PathBuf>,
    /// Paths of the host that patterns do not speak of, and what lies below: certificates that every view shows (D16).
    pub shown: Vec<PathBuf>,
    /// Some file system reads names as Windows does.
    pub windows: bool,
}

/// One rule, with what reports say about it.
#[derive(Debug, Clone)]
pub struct ReadRule {
    /// What it names.
    pub names: Hidden,
    /// In the user's words, e.g. `deny_read "*.pem"`.
    pub words: String,
    /// Where it was written.
    pub origin: Origin,
}

/// What a rule names.
#[derive(Debug, Clone)]
pub enum Hidden {
    /// A path of the host.
    Path(HiddenPath),
    /// A pattern of `deny_read`.
    Pattern(Arc<dyn Matcher>),
}

/// An absolute path of the host and what lies below, but for the `open` paths and what lies below those.
#[derive(Debug, Clone)]
pub struct HiddenPath {
    /// As both kinds of file systems read it, folded once: every open is compared with it.
    unix: Vec<Vec<u8>>,
    windows: Vec<Vec<u8>>,
    open: Vec<Open>,
}

/// A path of the host below a hidden one that an entry opens.
#[derive(Debug, Clone)]
pub struct Open {
    /// The path.
    pub host: PathBuf,
    /// Where it is shown, if at another path inside; then it is open there only.
    pub inside: Option<PathBuf>,
}

impl Open {
    fn leads_to(&self, inside: &Path, host: &Path) -> bool {
        host.starts_with(&self.host) && self.inside.as_ref().is_none_or(|at| inside.starts_with(at))
    }
}

impl HiddenPath {
    /// `open` are paths below it.
    #[must_use]
    pub fn new(path: &Path, open: Vec<Open>) -> Self {
        let raw = components(path);
        let read = |rules| raw.iter().map(|c| fold(c, rules).into_owned()).collect();
        Self {
            unix: read(NameRules::Unix),
            windows: read(NameRules::Windows),
            open,
        }
    }

    fn read_by(&self, rules: NameRules) -> &[Vec<u8>] {
        match rules {
            NameRules::Unix => &self.unix,
            NameRules::Windows => &self.windows,
        }
    }
}

impl ReadPlan {
    /// The host's path of an absolute path inside; `None` for the sandbox's own.
    #[must_use]
    pub fn host(&self, inside: &Path) -> Option<PathBuf> {
        let (at, host) = self
            .places
            .iter()
            .filter(|(at, _)| inside.starts_with(at))
            .max_by_key(|(at, _)| at.as_os_str().len())?;
        let rest = inside.strip_prefix(at).ok()?;
        let host = host.as_ref()?;
        Some(if rest.as_os_str().is_empty() {
            host.clone()
        } else {
            host.join(rest)
        })
    }

    /// The first rule that keeps the object at an absolute path inside from being read.
    #[must_use]
    pub fn denies(&self, inside: &[u8]) -> Option<usize> {
        let inside = Path::new(OsStr::from_bytes(inside));
        let host = self.host(inside)?;
        let shown = self.shown.iter().any(|s| host.starts_with(s));
        self.spelled(&host, |path, rules| {
            self.rules.iter().position(|rule| {
                !(shown && rule.names.is_pattern())
                    && rule.names.covers(path, (inside, &host), rules)
            })
        })
    }

    /// The first rule that is about the object under its old name and not under its new one: who moves or links it there may read it.
    #[must_use]
    pub fn loses(&self, old: &[u8], new: &[u8]) -> Option<usize> {
        self.denies(old).filter(|_| self.denies(new).is_none())
    }

    /// Something below a directory may lose its rule when the directory moves within the mount at `top`: a rule is about a path that leads
    /// through it. What names a thing wherever it is, as `*.pem` does, says the same afterwards.
    #[must_use]
    pub fn leads_through(&self, inside: &[u8], top: &[u8]) -> bool {
        let path = |bytes| self.host(Path::new(OsStr::from_bytes(bytes)));
        let (Some(host), Some(top)) = (path(inside), path(top)) else {
            return false;
        };
        let depth = components(&top).len();
        let found = self.spelled(&host, |path, rules| {
            let names = self.rules.iter().map(|rule| &rule.names);
            let mut through = names.map(|names| names.leads_through(path, depth, rules));
            through.any(|through| through).then_some(())
        });
        found.is_some()
    }

    /// The first answer for one of the readings that file systems give a path.
    fn spelled<T>(&self, host: &Path, ask: impl Fn(&[&[u8]], NameRules) -> Option<T>) -> Option<T> {
        let raw = components(host);
        let windows = self.windows.then_some(NameRules::Windows);
        std::iter::once(NameRules::Unix)
            .chain(windows)
            .find_map(|rules| {
                let folded: Vec<Vec<u8>> =
                    raw.iter().map(|c| fold(c, rules).into_owned()).collect();
                let path: Vec<&[u8]> = folded.iter().map(Vec::as_slice).collect();
                ask(&path, rules)
            })
    }
}

impl Hidden {
    /// It is a pattern.
    #[must_use]
    pub fn is_pattern(&self) -> bool {
        match self {
            Self::Pattern(_) => true,
            Self::Path(_) => false,
        }
    }

    fn covers(&self, folded: &[&[u8]], (inside, host): (&Path, &Path), rules: NameRules) -> bool {
        match self {
            Self::Path(hidden) => {
                let path = hidden.read_by(rules);
                path.len() <= folded.len()
                    && path.iter().zip(folded).all(|(a, b)| a == b)
                    && !hidden.open.iter().any(|o| o.leads_to(inside, host))
            }
            Self::Pattern(matcher) => (1..=folded.len())
                .any(|depth| folded.get(..depth).is_some_and(|head| matcher.names(head))),
        }
    }

    fn leads_through(&self, folded: &[&[u8]], top: usize, rules: NameRules) -> bool {
        match self {
            Self::Path(hidden) => {
                let path = hidden.read_by(rules);
                path.len() > folded.len() && path.iter().zip(folded).all(|(a, b)| a == b)
            }
            Self::Pattern(matcher) => matcher.starts_at(folded, top),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::decide::Denied;
    use crate::policy::Layer;
    use crate::policy::path::{ListKind, PathEntry};

    fn plan(entries: &[&str]) -> ReadPlan {
        let (base, home) = (Path::new("/b"), Path::new("/home/u"));
        let rule = |text: &&str| {
            let names = match PathEntry::parse(text, false, ListKind::DenyRead, base, home) {
                Ok(PathEntry::Pattern(p)) => Hidden::Pattern(Arc::new(Denied::new(&p))),
                Ok(PathEntry::Exact(path)) => {
                    let open = |name, inside| Open {
                        host: path.join(name),
                        inside,
                    };
                    let elsewhere = open("elsewhere", Some("/w/at".into()));
                    Hidden::Path(HiddenPath::new(&path, vec![open("open", None), elsewhere]))
                }
                Err(e) => panic!("{text}: {e}"),
            };
            ReadRule {
                names,
                words: (*text).to_owned(),
                origin: Origin {
                    layer: Layer::Spec,
                    file: None,
                    line: None,
                },
            }
        };
        ReadPlan {
            rules: entries.iter().map(rule).collect(),
            decides: true,
            watched: false,
            places: vec![
                ("/".into(), Some("/".into())),
                ("/tmp".into(), None),
                ("/w".into(), Some("/home/u/src".into())),
            ],
            floor: Vec::new(),
            shown: vec!["/etc/certs".into()],
            windows: false,
        }
    }

    #[test]
    fn names_are_judged_in_the_words_of_the_host_at_every_depth() {
        for (entry, denied, free) in [
            (
                "*.pem",
                &["/etc/x.pem", "/w/a/X.PEM", "/x.pem/in/it"][..],
                &[
                    "/etc/certs/x.pem",
                    "/etc/x.pem.txt",
                    "/tmp/x.pem",
                    "/tmp/a/x.pem",
                    "/etc/xpem",
                ][..],
            ),
            (
                "~/src/*.key",
                &["/w/a.key", "/home/u/src/a.key"],
                &["/home/u/a.key", "/w/d/a.key", "/other/a.key"],
            ),
            (
                "secrets/*",
                &["/srv/secrets/a", "/w/d/secrets/a/b"],
                &["/w/secrets", "/w/secret/a"],
            ),
            (
                "./**/.env",
                &["/b/.env", "/b/c/d/.ENV", "/b/.env/x"],
                &["/.env", "/w/.env", "/b/.env2"],
            ),
            (
                "/w/hid",
                &[][..],
                &["/w/hid"], // a path of the sandbox, not of the host
            ),
            (
                "~/src/hid",
                &["/w/hid", "/w/hid/a", "/w/Hid"],
                &["/w/hid/open", "/w/hid/open/a", "/w/hide"],
            ),
        ] {
            let plan = plan(&[entry]);
            for path in denied {
                assert_eq!(plan.denies(path.as_bytes()), Some(0), "{entry} {path}");
            }
            for path in free {
                assert_eq!(plan.denies(path.as_bytes()), None, "{entry} {path}");
            }
        }
    }

    #[test]
    fn what_is_shown_at_another_path_is_open_there_only() {
        let mut plan = plan(&["/h"]);
        plan.places = [("/w/at", "/h/elsewhere"), ("/w/own", "/h"), ("/h", "/h")]
            .map(|(at, host)| (at.into(), Some(host.into())))
            .to_vec();
        for (inside, open) in [
            ("/w/at", true),
            ("/w/at/x", true),
            ("/w/own/elsewhere/x", false),
            ("/h/elsewhere/x", false),
            ("/h/open/x", true),
            ("/w/own/open", true),
            ("/h/x", false),
        ] {
            assert_eq!(plan.denies(inside.as_bytes()).is_none(), open, "{inside}");
        }
    }

    #[test]
    fn a_move_must_not_lose_a_rule() {
        for (entry, old, new, loses) in [
            ("*.pem", "/w/a.pem", "/w/a.txt", true),
            ("*.pem", "/w/a.pem", "/w/b.PEM", false),
            ("*.pem", "/w/a.txt", "/w/a.pem", false),
            ("*.pem", "/w/a.pem", "/tmp/a.pem", true),
            ("s/*", "/w/s/a", "/w/t/a", true),
            ("s/*", "/w/s/a", "/w/t/s/b", false),
            ("~/src/hid", "/w/hid/a", "/w/a", true),
        ] {
            let found = plan(&[entry]).loses(old.as_bytes(), new.as_bytes());
            assert_eq!(found.is_some(), loses, "{entry} {old} {new}");
        }
        for (entry, dir, through) in [
            ("*.pem", "/w/a", false),
            ("s/*", "/w/s", true),
            ("s/*", "/w/s/t", false),
            ("s/*", "/w/S", true),
            ("a/s/*", "/w/a", true),
            ("a/s/*", "/w/a/s", true),
            ("a/s/*", "/w/s", false),
            ("~/src/a/*.key", "/w/a", true),
            ("~/src/a/*.key", "/w/b", false),
            // All that the mount shows is below, wherever it moves.
            ("~/src/**/*.key", "/w/a", false),
            ("~/src/a/**/*.key", "/w/a/b", true),
            ("~/src/hid/in", "/w/hid", true),
            ("~/src/hid", "/w/hid", false),
            ("a/s/*", "/tmp/a", false),
        ] {
            let found = plan(&[entry]).leads_through(dir.as_bytes(), b"/w");
            assert_eq!(found, through, "{entry} {dir}");
        }
    }

    #[test]
    fn the_first_rule_is_named_and_windows_names_are_read_as_windows_does() {
        let mut both = plan(&["/etc/x", "*.pem"]);
        assert_eq!(both.denies(b"/etc/x/y.pem"), Some(0));
        assert_eq!(both.denies(b"/etc/y.pem"), Some(1));
        assert_eq!(both.denies(b"/etc/y.pem. "), None);
        both.windows = true;
        assert_eq!(both.denies(b"/etc/y.pem. "), Some(1));
    }
}
