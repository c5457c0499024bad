//! What an allow-listed key may hold.

use crate::broker::fold;

/// Kinds of values.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value {
    /// A boolean or a number, as git reads one; also a key without a value.
    Bool,
    /// A boolean, a number or one of these words.
    BoolOr(&'static [&'static str]),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A boolean, `auto`, `always`, `never`, or a colour.
    SwitchOrColor,
    /// Whatever the check accepts.
    Is(fn(&[u8]) -> bool),
}

impl Value {
    pub(super) fn accepts(self, value: Option<&[u8]>) -> bool {
        let Some(value) = value else {
            return matches!(self, Self::Bool | Self::BoolOr(_) | Self::SwitchOrColor);
        };
        let word = |words: &[&str]| words.iter().any(|w| w.as_bytes() == value);
        match self {
            Self::Bool => boolean(value),
            Self::BoolOr(words) => boolean(value) || word(words),
            Self::OneOf(words) => word(words),
            Self::SwitchOrColor => color(value),
            Self::Is(check) => check(value),
        }
    }
}

fn boolean(value: &[u8]) -> bool {
    const WORDS: [&str; 7] = ["", "true", "yes", "on", "false", "no", "off"];
    integer(value)
        || WORDS
            .iter()
            .any(|w| w.as_bytes().eq_ignore_ascii_case(value))
}

/// Digits with an optional sign and one of the unit letters.
pub(super) fn integer(value: &[u8]) -> bool {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    let digits = match digits {
        [rest @ .., b'k' | b'K' | b'm' | b'M' | b'g' | b'G'] => rest,
        _ => digits,
    };
    !digits.is_empty() && digits.len() < 20 && digits.iter().all(u8::is_ascii_digit)
}

fn color(value: &[u8]) -> bool {
    !value.starts_with(b"-")
        && value.len() <= 100
        && value
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b' ' | b'#' | b'-'))
}

/// `90.days`, `2 weeks ago`, `never`, `2026-01-01`.
pub(super) fn date(value: &[u8]) -> bool {
    !value.is_empty()
        && !value.starts_with(b"-")
        && value.len() <= 100
        && value
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b' ' | b'.' | b':' | b'-' | b'/'))
}

/// One line of text: no control characters.
pub(super) fn line(value: &[u8]) -> bool {
    value.iter().all(|&b| b >= 0x20 && b != 0x7f)
}

/// Text of several lines.
pub(super) fn prose(value: &[u8]) -> bool {
    value
        .iter()
        .all(|&b| matches!(b, b'\n' | b'\t') || b >= 0x20 && b != 0x7f)
}

/// One word that is no option: `owner/name#1`, `base`.
pub(super) fn word(value: &[u8]) -> bool {
    !value.is_empty()
        && value.len() <= 256
        && !value.starts_with(b"-")
        && value
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"._/:#@-".contains(b))
}

/// A field of git-for-each-ref(1): `refname`, `-committerdate`, `authordate:iso`.
pub(super) fn sort_key(value: &[u8]) -> bool {
    let field = value.strip_prefix(b"-").unwrap_or(value);
    field.first().is_some_and(u8::is_ascii_lowercase)
        && field.len() <= 64
        && field
            .iter()
            .all(|b| b.is_ascii_lowercase() || matches!(b, b':' | b'-' | b'_'))
}

/// A branch or a full ref name: no option, no blank, no control character, none of the characters that
/// git-check-ref-format(1) forbids.
pub(super) fn refname(value: &[u8]) -> bool {
    !value.is_empty()
        && !value.starts_with(b"-")
        && !value.windows(2).any(|w| w == b"..")
        && value
            .iter()
            .all(|&b| b > 0x20 && b != 0x7f && !b"~^:?*[\\".contains(&b))
}

/// `+refs/heads/*:refs/remotes/origin/*`, `^refs/heads/x`, `HEAD`.
pub(super) fn refspec(value: &[u8]) -> bool {
    !value.is_empty()
        && !value.starts_with(b"-")
        && !value.windows(2).any(|w| w == b"..")
        && value
            .iter()
            .all(|&b| b > 0x20 && b != 0x7f && !b"~?[\\".contains(&b))
}

/// `blob:none`, `tree:0`, `sparse:oid=main:path`, `combine:blob:none+tree:0`.
pub(super) fn filter_spec(value: &[u8]) -> bool {
    value.first().is_some_and(u8::is_ascii_lowercase)
        && value
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b":=+%._/-".contains(b))
}

/// `create`, `always`, `warn`, `never`, `warn-if-not-BRANCH`.
pub(super) fn follow_head(value: &[u8]) -> bool {
    match value.strip_prefix(b"warn-if-not-") {
        Some(branch) => refname(branch),
        None => matches!(value, b"create" | b"always" | b"warn" | b"never"),
    }
}

/// Transports git carries out itself. Any other `name://` starts a program called `git-remote-name`.
const SCHEMES: [&[u8]; 7] = [
    b"https", b"http", b"ssh", b"git", b"file", b"git+ssh", b"ssh+git",
];

/// The name of a remote, a URL, `host:path`, or a path: never an option, never a transport helper (`ext::…`), and no
/// host that the ssh program could take for an option (CVE-2017-1000117).
pub(super) fn location(value: &[u8]) -> bool {
    let optionlike = |s: &[u8]| s.starts_with(b"-");
    if value.is_empty() || !line(value) || optionlike(value) || value.windows(2).any(|w| w == b"::")
    {
        return false;
    }
    let host_ok = |authority: &[u8]| {
        !optionlike(authority) && !authority.split(|&b| b == b'@').any(optionlike)
    };
    if let Some(at) = value.windows(3).position(|w| w == b"://") {
        let (scheme, rest) = value.split_at(at);
        let rest = rest.get(3..).unwrap_or_default();
        let authority = rest.split(|&b| b == b'/').next().unwrap_or_default();
        return SCHEMES.contains(&scheme) && host_ok(authority);
    }
    match value.iter().position(|&b| b == b':' || b == b'/') {
        Some(at) if value.get(at) == Some(&b':') => {
            let (host, path) = value.split_at(at);
            host_ok(host) && !optionlike(path.get(1..).unwrap_or_default())
        }
        _ => true,
    }
}

/// A submodule's name: it becomes a path below `.git/modules` (CVE-2018-11235) and an argument.
pub(super) fn submodule_name(value: &[u8]) -> bool {
    line(value)
        && !value.starts_with(b"-")
        && !value.starts_with(b"/")
        && !value
            .split(|&b| b == b'/' || b == b'\\')
            .any(|c| matches!(c, b"" | b"." | b"..") || git_name(c))
}

/// `.git` in any case, with ignorable characters, or by its 8.3 name.
fn git_name(component: &[u8]) -> bool {
    fold::is(component, ".git") || component.eq_ignore_ascii_case(b"git~1")
}

/// `core.worktree` of the git directory at `git_dir`: relative, and from a submodule's place inside some `.git` to a place
/// below one of the roots, or one itself, and outside of every `.git`.
///
/// Below the directory around that `.git`, so that it stays so wherever the repository is moved. Only what belongs to a linked work
/// tree may lead elsewhere. A repository's own configuration has no such key: links on the way and moves could lead it anywhere, and
/// the next checkout there writes what the child has committed.
pub(super) fn worktree(git_dir: &[&[u8]], roots: &[&[Vec<u8>]], value: &[u8]) -> bool {
    if !line(value) {
        return false;
    }
    let parts: Vec<&[u8]> = value.split(|&b| b == b'/').collect();
    let up = parts.iter().take_while(|c| **c == b"..").count();
    let down = parts.get(up..).unwrap_or_default();
    let base = git_dir
        .len()
        .checked_sub(up)
        .and_then(|left| git_dir.get(..left));
    let Some(base) = base else {
        return false;
    };
    let Some(dot_git) = git_dir.iter().rposition(|c| git_name(c)) else {
        return false;
    };
    let stays = match git_dir.get(dot_git + 1..).unwrap_or_default() {
        [b"modules", _, ..] => base.len() == dot_git,
        [b"worktrees", _, b"modules", _, ..] => true,
        _ => false,
    };
    let plain = |c: &&[u8]| !matches!(*c, b"" | b"." | b"..") && !c.contains(&b'\\');
    let work_tree: Vec<&[u8]> = base.iter().chain(down).copied().collect();
    let below = |root: &&[Vec<u8>]| {
        work_tree.len() >= root.len() && work_tree.iter().zip(root.iter()).all(|(a, b)| a == b)
    };
    stays
        && !down.is_empty()
        && down.iter().all(plain)
        && !work_tree.iter().any(|c| git_name(c))
        && roots.iter().any(below)
}
