//! Path patterns: `*`, `?`, `[…]`, `**` over bytes (semantics 1), folding case where they deny (semantics 3).
//!
//! Our own small matcher, because names are bytes, `/` never matches, and braces and backslashes mean themselves:
//! the common glob libraries differ in at least one of the three. `?` and a class stand for one byte.

pub mod accents;
mod components;
pub mod expression;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// A compiled pattern; denies fold case (semantics 3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern {
    /// As written.
    pub text: String,
    /// The directory a pattern that starts at `/` names before its first wildcard, as written; without one the pattern
    /// matches the tail of an absolute path.
    fixed: Option<PathBuf>,
    /// Compare without regard to case.
    fold: bool,
    parts: Vec<Part>,
}

/// One component of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// `**`: any number of components, none included.
    AnyDepth,
    /// A name with wildcards.
    Name(Vec<Token>),
}

/// One piece of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Byte(u8),
    AnyByte,
    AnyRun,
    Class {
        negated: bool,
        ranges: Vec<(u8, u8)>,
    },
}

/// A byte of an entry, and whether it can only mean itself (a literal entry, a substituted parameter, `$$`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) byte: u8,
    pub(super) quoted: bool,
}

impl Unit {
    pub(super) fn is(self, byte: u8) -> bool {
        self.byte == byte && !self.quoted
    }

    /// One of the characters that make an entry a pattern.
    pub(super) fn is_wild(self) -> bool {
        !self.quoted && matches!(self.byte, b'*' | b'?' | b'[')
    }
}

impl PathPattern {
    /// Compiles components. `anchor` holds the literal components before them, from `/`; `None` makes a tail pattern.
    pub(super) fn compile(
        text: String,
        anchor: Option<&Path>,
        components: &[Vec<Unit>],
        fold: bool,
    ) -> Result<Self, String> {
        let mut parts = match anchor {
            Some(anchor) => literal(anchor, fold),
            None => Vec::with_capacity(components.len()),
        };
        let mut fixed = anchor.map(Path::to_path_buf);
        if let Some(fixed) = &mut fixed {
            for component in components {
                if component.iter().any(|u| u.is_wild()) {
                    break;
                }
                let name: Vec<u8> = component.iter().map(|u| u.byte).collect();
                fixed.push(OsStr::from_bytes(&name));
            }
        }
        for component in components {
            if let [a, b] = component.as_slice()
                && a.is(b'*')
                && b.is(b'*')
            {
                // `**/**` says no more than `**`.
                if parts.last() != Some(&Part::AnyDepth) {
                    parts.push(Part::AnyDepth);
                }
            } else {
                parts.push(Part::Name(compile_name(component, fold)?));
            }
        }
        Ok(Self {
            text,
            fixed,
            fold,
            parts,
        })
    }

    /// The directory before the first wildcard, for a pattern that starts at `/`.
    #[must_use]
    pub fn fixed(&self) -> Option<&Path> {
        self.fixed.as_deref()
    }

    /// The same pattern below another spelling of the directory before its first wildcard.
    #[must_use]
    pub fn with_fixed(&self, dir: &Path) -> Self {
        let Some(fixed) = &self.fixed else {
            return self.clone();
        };
        let mut parts = literal(dir, self.fold);
        let old = literal(fixed, self.fold).len();
        parts.extend(self.parts.iter().skip(old).cloned());
        Self {
            text: self.text.clone(),
            fixed: Some(dir.to_path_buf()),
            fold: self.fold,
            parts,
        }
    }

    /// True where the pattern names this very object. `path` is absolute and lexically normal.
    #[must_use]
    pub fn matches(&self, path: &Path) -> bool {
        self.matches_components(&self.split(path))
    }

    /// True where the pattern names `path` or a directory above it that is not above `root`: a directory that is named
    /// covers its contents (semantics 35), and only what lies at or below a root is asked about (semantics 1).
    #[must_use]
    pub fn covers(&self, path: &Path, root: &Path) -> bool {
        path.strip_prefix(root).is_ok()
            && path
                .ancestors()
                .take_while(|a| a.starts_with(root))
                .any(|a| self.matches(a))
    }

    /// True for a pattern that starts at `/`; a tail pattern holds at any depth.
    #[must_use]
    pub fn is_anchored(&self) -> bool {
        self.fixed.is_some()
    }

    fn split(&self, path: &Path) -> Vec<Vec<u8>> {
        path.as_os_str()
            .as_bytes()
            .split(|&b| b == b'/')
            .filter(|c| !c.is_empty() && *c != b".")
            .map(|c| if self.fold { fold(c) } else { c.to_vec() })
            .collect()
    }

    fn matches_components(&self, names: &[Vec<u8>]) -> bool {
        if self.is_anchored() {
            return match_parts(&self.parts, names);
        }
        // A tail: some suffix of the path matches the whole pattern. The root directory has no name to match.
        (0..=names.len()).any(|skip| {
            names
                .get(skip..)
                .is_some_and(|rest| !names.is_empty() && match_parts(&self.parts, rest))
        })
    }
}

/// The components of a path, each meaning itself.
fn literal(path: &Path, fold_case: bool) -> Vec<Part> {
    path.components()
        .filter_map(|c| match c {
            Component::Normal(name) => Some(name.as_bytes()),
            Component::Prefix(_)
            | Component::RootDir
            | Component::CurDir
            | Component::ParentDir => None,
        })
        .map(|name| if fold_case { fold(name) } else { name.to_vec() })
        .map(|name| Part::Name(name.into_iter().map(Token::Byte).collect()))
        .collect()
}

/// Wildcard matching with one level of backtracking: right for `**` because every other part takes exactly one name.
fn match_parts(parts: &[Part], names: &[impl AsRef<[u8]>]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match (parts.get(p), names.get(n)) {
            (None, None) => return true,
            (Some(Part::AnyDepth), _) => {
                retry = Some((p, n));
                p += 1;
                continue;
            }
            (Some(Part::Name(tokens)), Some(name)) if match_name(tokens, name.as_ref()) => {
                p += 1;
                n += 1;
                continue;
            }
            _ => {}
        }
        match retry {
            Some((star, at)) if at < names.len() => {
                retry = Some((star, at + 1));
                p = star + 1;
                n = at + 1;
            }
            _ => return false,
        }
    }
}

fn match_name(tokens: &[Token], name: &[u8]) -> bool {
    let (mut t, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match (tokens.get(t), name.get(n)) {
            (None, None) => return true,
            (Some(Token::AnyRun), _) => {
                retry = Some((t, n));
                t += 1;
                continue;
            }
            (Some(token), Some(&byte)) if match_byte(token, byte) => {
                t += 1;
                n += 1;
                continue;
            }
            _ => {}
        }
        match retry {
            Some((star, at)) if at < name.len() => {
                retry = Some((star, at + 1));
                t = star + 1;
                n = at + 1;
            }
            _ => return false,
        }
    }
}

fn match_byte(token: &Token, byte: u8) -> bool {
    match token {
        Token::Byte(b) => *b == byte,
        Token::AnyByte => true,
        Token::AnyRun => false,
        Token::Class { negated, ranges } => {
            ranges.iter().any(|(lo, hi)| (*lo..=*hi).contains(&byte)) != *negated
        }
    }
}

fn compile_name(units: &[Unit], fold_case: bool) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::with_capacity(units.len());
    let mut literal = Vec::new();
    let flush = |literal: &mut Vec<u8>, tokens: &mut Vec<Token>| {
        let run = if fold_case {
            fold(literal)
        } else {
            literal.clone()
        };
        literal.clear();
        tokens.extend(run.into_iter().map(Token::Byte));
    };
    let mut rest = units;
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if !first.is_wild() {
            literal.push(first.byte);
            continue;
        }
        flush(&mut literal, &mut tokens);
        match first.byte {
            // `a**b` inside one name says no more than `a*b`.
            b'*' if tokens.last() == Some(&Token::AnyRun) => {}
            b'*' => tokens.push(Token::AnyRun),
            b'?' => tokens.push(Token::AnyByte),
            _ => {
                let (class, after) = compile_class(rest, fold_case)?;
                tokens.push(class);
                rest = after;
            }
        }
    }
    flush(&mut literal, &mut tokens);
    Ok(tokens)
}

/// Reads what follows `[`, up to and including the closing `]`. A `]` that comes first means itself.
fn compile_class(units: &[Unit], fold_case: bool) -> Result<(Token, &[Unit]), String> {
    const UNCLOSED: &str = "`[` without `]`";
    let (negated, body) = match units.split_first() {
        Some((u, tail)) if u.is(b'!') || u.is(b'^') => (true, tail),
        _ => (false, units),
    };
    let close = body
        .iter()
        .skip(1)
        .position(|u| u.is(b']'))
        .map(|i| i + 1)
        .ok_or(UNCLOSED)?;
    let (Some(set), Some(after)) = (body.get(..close), body.get(close + 1..)) else {
        return Err(UNCLOSED.into());
    };
    let mut ranges = Vec::new();
    let mut at = set;
    while let Some((lo, tail)) = at.split_first() {
        if lo.is(b'[')
            && tail
                .first()
                .is_some_and(|u| matches!(u.byte, b':' | b'.' | b'='))
        {
            return Err("classes like `[:alpha:]` are not part of patterns".into());
        }
        match tail {
            [dash, hi, more @ ..] if dash.is(b'-') => {
                if lo.byte > hi.byte {
                    return Err("a range in `[…]` runs backwards".into());
                }
                ranges.push((lo.byte, hi.byte));
                at = more;
            }
            _ => {
                ranges.push((lo.byte, lo.byte));
                at = tail;
            }
        }
    }
    if fold_case {
        add_other_case(&mut ranges);
    }
    Ok((Token::Class { negated, ranges }, after))
}

/// Names are compared in lower case, so a class that holds an ASCII capital must hold the small letter too.
fn add_other_case(ranges: &mut Vec<(u8, u8)>) {
    let small: Vec<(u8, u8)> = (b'A'..=b'Z')
        .filter(|c| ranges.iter().any(|(lo, hi)| (*lo..=*hi).contains(c)))
        .map(|c| (c.to_ascii_lowercase(), c.to_ascii_lowercase()))
        .collect();
    ranges.extend(small);
}

/// Folds ASCII and simple Unicode case (the one-to-one mappings); bytes that are not UTF-8 stay as they are.
#[must_use]
pub fn fold(name: &[u8]) -> Vec<u8> {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    let mut out = Vec::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            let mut buf = [0; 4];
            out.extend_from_slice(fold_char(c).encode_utf8(&mut buf).as_bytes());
        }
        out.extend_from_slice(chunk.invalid());
    }
    out
}

/// Simple case folding by way of the capital: that joins `ſ` with `s` and `ς` with `σ` as CaseFolding.txt (C + S) does.
/// The dotless `ı` has no simple folding there and stays itself.
fn fold_char(c: char) -> char {
    fn single(mut mapped: impl Iterator<Item = char>, c: char) -> char {
        match (mapped.next(), mapped.next()) {
            (Some(one), None) => one,
            _ => c,
        }
    }
    if c == 'ı' {
        return c;
    }
    let upper = single(c.to_uppercase(), c);
    single(upper.to_lowercase(), upper)
}

#[cfg(test)]
mod tests;
