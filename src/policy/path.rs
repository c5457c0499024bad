//! Path entries of a spec: exact paths and patterns (semantics 1–3).
//!
//! Pure: `..` is resolved on the text alone, so `ws/../ws/prot` is `ws/prot`. Where a component before `..` is a symbolic
//! link the kernel would go elsewhere; only somebody who may look can know. [`unresolved`] gives the path with its `..`
//! kept, and the loader refuses such a grant and adds the kernel's reading to such a deny.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::pattern::{PathPattern, Unit};

/// NAME_MAX of the file systems in use.
const MAX_COMPONENT: usize = 255;
/// PATH_MAX of Linux counts the terminating NUL.
const MAX_PATH: usize = 4095;

/// One entry of a path list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathEntry {
    /// Covers the object and everything below. Absolute, lexically normal, symlinks kept as written.
    Exact(PathBuf),
    /// Matches by pattern.
    Pattern(PathPattern),
}

/// Which list an entry stands in; decides how it is read (semantics 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// `allow_write`, `bind_mounts`, `allow_read`, `exec_grant_roots`, `runner_state_dirs`: no pattern but a trailing `/**`.
    Grant,
    /// `deny_write`: a one-component entry without a slash is a pattern.
    DenyWrite,
    /// `protected_paths`.
    Protected,
    /// `deny_read`: an entry whose only pattern is a trailing `/**` is exact.
    DenyRead,
    /// `allow_create`.
    AllowCreate,
}

impl ListKind {
    /// Denies fold case, grants and exceptions do not (semantics 3).
    fn folds_case(self) -> bool {
        match self {
            Self::DenyWrite | Self::Protected | Self::DenyRead => true,
            Self::Grant | Self::AllowCreate => false,
        }
    }
}

/// Why an entry is refused; the display is lower case and carries the reason and the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct PathEntryError {
    /// What is wrong.
    pub reason: String,
    /// The next step.
    pub hint: Option<String>,
}

impl PathEntryError {
    fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            hint: None,
        }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The text of an entry before it is read.
#[derive(Debug, Clone, Copy)]
pub struct EntryText<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Where bytes come from a parameter: they mean themselves, whatever they are (semantics 1, "never parsed again").
    pub quoted: &'a [Range<usize>],
    /// `literal = true`: no pattern characters at all.
    pub literal: bool,
}

impl<'a> EntryText<'a> {
    /// Plain text, as on the command line.
    #[must_use]
    pub fn plain(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            quoted: &[],
            literal: false,
        }
    }
}

impl PathEntry {
    /// Reads one entry; `base` is where relative entries start, `home` what `~` means. Pure: nothing is looked up.
    ///
    /// # Errors
    /// Empty text, `$NAME`, `..` in a pattern, a pattern in a grant list, a component over 255 bytes, a path over 4096 bytes, NUL.
    pub fn parse(
        text: &str,
        literal: bool,
        kind: ListKind,
        base: &Path,
        home: &Path,
    ) -> Result<Self, PathEntryError> {
        let text = EntryText {
            literal,
            ..EntryText::plain(text.as_bytes())
        };
        Self::parse_text(text, kind, base, home)
    }

    /// As [`PathEntry::parse`], over bytes and with parameters already put in.
    ///
    /// # Errors
    /// As [`PathEntry::parse`].
    pub fn parse_text(
        text: EntryText<'_>,
        kind: ListKind,
        base: &Path,
        home: &Path,
    ) -> Result<Self, PathEntryError> {
        let raw = Raw::read(text)?;
        if !raw.is_pattern(kind) {
            return raw.exact(base, home).map(Self::Exact);
        }
        raw.pattern(text.bytes, kind, base, home)
    }

    /// The path of an exact entry.
    #[must_use]
    pub fn exact(&self) -> Option<&Path> {
        match self {
            Self::Exact(path) => Some(path),
            Self::Pattern(_) => None,
        }
    }
}

/// The absolute path of an exact entry with its `..` components kept, for comparing the reading of the text with the
/// kernel's. `None` where the entry has no `..` or is a pattern.
///
/// # Errors
/// As [`PathEntry::parse`].
pub fn unresolved(
    text: EntryText<'_>,
    kind: ListKind,
    base: &Path,
    home: &Path,
) -> Result<Option<PathBuf>, PathEntryError> {
    let raw = Raw::read(text)?;
    if raw.is_pattern(kind) || !raw.components.iter().any(|c| is_dot_dot(c)) {
        return Ok(None);
    }
    let mut path = raw.start(base, home).to_path_buf();
    for component in raw.exact_components() {
        path.push(OsStr::from_bytes(&bytes_of(component)));
    }
    Ok(Some(path))
}

/// Where an entry starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// `/…`
    Root,
    /// `~` or `~/…`
    Home,
    /// `.`, `./…`, `..`, `../…`
    Base,
    /// Anything else: relative when exact, the tail of a path when a pattern.
    Bare,
}

/// An entry cut into components; empty ones and `.` are gone.
#[derive(Debug)]
struct Raw {
    start: Start,
    /// `literal = true`: never a pattern, also not a bare name in `deny_write`.
    literal: bool,
    components: Vec<Vec<Unit>>,
}

impl Raw {
    fn read(text: EntryText<'_>) -> Result<Self, PathEntryError> {
        if text.bytes.is_empty() {
            return Err(PathEntryError::new("an empty path"));
        }
        if text.bytes.contains(&0) {
            return Err(PathEntryError::new("a path cannot hold a NUL byte"));
        }
        let units = dollars(text)?;
        let pieces: Vec<&[Unit]> = units.split(|u| u.byte == b'/').collect();
        let start = match pieces.as_slice() {
            // An absolute path: nothing before the first slash.
            [[], _, ..] => Start::Root,
            [[u], ..] if u.is(b'~') => Start::Home,
            [[u, ..], ..] if u.is(b'~') => {
                let name = String::from_utf8_lossy(text.bytes).into_owned();
                return Err(PathEntryError::new("`~user` is not expanded").hint(format!(
                    "write the path out, or `./{name}` for a name that starts with a tilde"
                )));
            }
            [first, ..] if is_dot(first) || is_dot_dot(first) => Start::Base,
            _ => Start::Bare,
        };
        let components: Vec<Vec<Unit>> = pieces
            .into_iter()
            .skip(usize::from(start == Start::Home))
            .filter(|c| !c.is_empty() && !is_dot(c))
            .map(<[Unit]>::to_vec)
            .collect();
        for component in &components {
            if component.len() > MAX_COMPONENT {
                return Err(PathEntryError::new(format!(
                    "a name of {} bytes in a path, the limit is {MAX_COMPONENT}",
                    component.len()
                )));
            }
        }
        Ok(Self {
            start,
            literal: text.literal,
            components,
        })
    }

    fn wild_components(&self) -> usize {
        self.components
            .iter()
            .filter(|c| c.iter().any(|u| u.is_wild()))
            .count()
    }

    /// Ends in `/**` and has no other pattern: the directory itself (`**` alone has no directory to name).
    fn is_whole_dir(&self) -> bool {
        self.components.last().is_some_and(|c| is_any_depth(c))
            && self.wild_components() == 1
            && (self.components.len() > 1 || self.start != Start::Bare)
    }

    fn is_pattern(&self, kind: ListKind) -> bool {
        if self.wild_components() == 0 {
            return kind == ListKind::DenyWrite
                && self.start == Start::Bare
                && self.components.len() == 1
                && !self.literal;
        }
        if self.is_whole_dir() {
            return match kind {
                ListKind::Grant | ListKind::DenyRead => false,
                ListKind::DenyWrite | ListKind::Protected | ListKind::AllowCreate => {
                    self.start == Start::Bare
                }
            };
        }
        true
    }

    fn start<'a>(&self, base: &'a Path, home: &'a Path) -> &'a Path {
        match self.start {
            Start::Root => Path::new("/"),
            Start::Home => home,
            Start::Base | Start::Bare => base,
        }
    }

    fn exact_components(&self) -> &[Vec<Unit>] {
        match self.components.split_last() {
            Some((last, rest)) if is_any_depth(last) => rest,
            _ => &self.components,
        }
    }

    fn exact(&self, base: &Path, home: &Path) -> Result<PathBuf, PathEntryError> {
        let mut path = PathBuf::from("/");
        for c in self.start(base, home).components() {
            step(&mut path, c.as_os_str());
        }
        for component in self.exact_components() {
            step(&mut path, OsStr::from_bytes(&bytes_of(component)));
        }
        let len = path.as_os_str().len();
        if len > MAX_PATH {
            return Err(PathEntryError::new(format!(
                "a path of {len} bytes, the limit is {MAX_PATH}"
            )));
        }
        Ok(path)
    }

    fn pattern(
        &self,
        text: &[u8],
        kind: ListKind,
        base: &Path,
        home: &Path,
    ) -> Result<PathEntry, PathEntryError> {
        if kind == ListKind::Grant {
            return Err(
                PathEntryError::new("a pattern cannot grant anything").hint(
                    "name the directory (a trailing `/**` is fine), or write { path = \"…\", literal = true } for a name that holds `*`, `?` or `[`",
                ),
            );
        }
        if self.components.iter().any(|c| is_dot_dot(c)) {
            return Err(PathEntryError::new("`..` in a pattern")
                .hint("start the pattern at `/`, `~/` or `./`"));
        }
        let anchor = match self.start {
            Start::Bare => None,
            Start::Root | Start::Home | Start::Base => Some(self.start(base, home)),
        };
        let len = text.len() + anchor.map_or(0, |a| a.as_os_str().len());
        if len > MAX_PATH {
            return Err(PathEntryError::new(format!(
                "a pattern of {len} bytes, the limit is {MAX_PATH}"
            )));
        }
        PathPattern::compile(
            String::from_utf8_lossy(text).into_owned(),
            anchor,
            &self.components,
            kind.folds_case(),
        )
        .map(PathEntry::Pattern)
        .map_err(|reason| {
            PathEntryError::new(reason).hint(
                "write { path = \"…\", literal = true } for a name that holds such characters",
            )
        })
    }
}

/// Turns bytes into units: `$$` is one dollar, any other `$` is refused, quoted bytes pass.
fn dollars(text: EntryText<'_>) -> Result<Vec<Unit>, PathEntryError> {
    let mut units = Vec::with_capacity(text.bytes.len());
    let mut bytes = text.bytes.iter().copied().enumerate().peekable();
    let from_parameter = |i: usize| text.quoted.iter().any(|r| r.contains(&i));
    while let Some((i, byte)) = bytes.next() {
        let parameter = from_parameter(i);
        if byte == b'$' && !parameter {
            match bytes.peek() {
                Some(&(j, b'$')) if !from_parameter(j) => {
                    bytes.next();
                    units.push(Unit { byte, quoted: true });
                    continue;
                }
                _ => return Err(variable(text.bytes.get(i + 1..).unwrap_or_default())),
            }
        }
        // `literal = true` takes the meaning from pattern characters only: `~/` and `$$` keep theirs.
        let quoted = parameter || (text.literal && !(i == 0 && byte == b'~'));
        units.push(Unit { byte, quoted });
    }
    Ok(units)
}

fn variable(after: &[u8]) -> PathEntryError {
    let name: String = after
        .iter()
        .skip_while(|b| **b == b'{')
        .take_while(|b| b.is_ascii_alphanumeric() || **b == b'_')
        .map(|b| char::from(*b))
        .collect();
    let instead = match name.as_str() {
        "HOME" => "write `~/` for the home directory",
        "PWD" => "write `./` for the directory of the spec",
        _ => "write the path out, or use `${param:KEY}` with `-D KEY=VALUE`",
    };
    PathEntryError::new(format!("`${name}` is not expanded in a path"))
        .hint(format!("{instead}; `$$` is a literal dollar"))
}

fn step(path: &mut PathBuf, name: &OsStr) {
    match name.as_bytes() {
        b"/" | b"." => {}
        b".." => {
            path.pop();
        }
        _ => path.push(name),
    }
}

fn bytes_of(component: &[Unit]) -> Vec<u8> {
    component.iter().map(|u| u.byte).collect()
}

fn is_dot(component: &[Unit]) -> bool {
    matches!(component, [u] if u.byte == b'.')
}

fn is_dot_dot(component: &[Unit]) -> bool {
    matches!(component, [a, b] if a.byte == b'.' && b.byte == b'.')
}

fn is_any_depth(component: &[Unit]) -> bool {
    matches!(component, [a, b] if a.is(b'*') && b.is(b'*'))
}

#[cfg(test)]
mod tests;
