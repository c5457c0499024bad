//! Patterns asked by the components of a path that the caller has split, and folded in its own way.

use super::{Part, PathPattern, Token, match_name, match_parts};

impl PathPattern {
    /// The same pattern with its literal text folded by `fold`, for a caller that folds names further than
    /// [`super::fold`] does. Wildcards and classes stay.
    #[must_use]
    pub fn refolded(&self, fold: impl Fn(&[u8]) -> Vec<u8>) -> Self {
        let part = |part: &Part| match part {
            Part::AnyDepth => Part::AnyDepth,
            Part::Name(tokens) => Part::Name(refold(tokens, &fold)),
        };
        Self {
            text: self.text.clone(),
            fixed: self.fixed.clone(),
            fold: self.fold,
            parts: self.parts.iter().map(part).collect(),
        }
    }

    /// As [`Self::matches`]: the components are compared as they are. A trailing `**` matches none as well, so `dir/**`
    /// names `dir`.
    #[must_use]
    pub fn names_components(&self, path: &[&[u8]]) -> bool {
        !path.is_empty() && self.part_of(&self.parts, path)
    }

    /// True where a proper, not empty prefix of the pattern names `path`, so that what the pattern names may lie below it.
    ///
    /// A `**` at the start of a tail pattern and one at the end are no components here. One inside takes any number of
    /// components, but a prefix that ends in it counts only where what stands before it names something deeper than
    /// `root_depth` components: `./**/*.key` says the same everywhere below the root.
    #[must_use]
    pub fn starts_at_components(&self, path: &[&[u8]], root_depth: usize) -> bool {
        let mut parts = self.parts.as_slice();
        while let [Part::AnyDepth, rest @ ..] = parts
            && !self.is_anchored()
        {
            parts = rest;
        }
        while let [rest @ .., Part::AnyDepth] = parts {
            parts = rest;
        }
        (1..parts.len()).any(|n| match parts.get(..n) {
            Some([before @ .., Part::AnyDepth]) => (root_depth + 1..=path.len())
                .any(|depth| path.get(..depth).is_some_and(|p| self.part_of(before, p))),
            Some(prefix) => !path.is_empty() && self.part_of(prefix, path),
            None => false,
        })
    }

    /// A byte that an entry of the directory at `dir` begins with (true) or ends with, if the pattern names the entry; `None` where there is
    /// no such byte.
    #[must_use]
    pub fn edge_components(&self, dir: &[&[u8]]) -> Option<(u8, bool)> {
        let mut parts = self.parts.as_slice();
        while let [rest @ .., Part::AnyDepth] = parts {
            parts = rest;
        }
        // Below what `dir/**` names everything is named.
        if parts.len() < self.parts.len() && self.names_components(dir) {
            return None;
        }
        match parts.last()? {
            Part::AnyDepth => None,
            Part::Name(tokens) => match (tokens.first()?, tokens.last()?) {
                (Token::Byte(byte), _) => Some((*byte, true)),
                (_, Token::Byte(byte)) => Some((*byte, false)),
                _ => None,
            },
        }
    }

    /// These parts of the pattern name the path: all of it, or a tail.
    fn part_of(&self, parts: &[Part], path: &[&[u8]]) -> bool {
        // Mostly it is the last name that does not fit, whatever stands before it.
        if let (Some(Part::Name(tokens)), Some(name)) = (parts.last(), path.last())
            && !match_name(tokens, name)
        {
            return false;
        }
        let skips = if self.is_anchored() {
            0..=0
        } else if parts.iter().any(|p| matches!(p, Part::AnyDepth)) {
            0..=path.len()
        } else {
            // As many components as parts, or none will do.
            let Some(skip) = path.len().checked_sub(parts.len()) else {
                return false;
            };
            skip..=skip
        };
        skips.into_iter().any(|skip| {
            path.get(skip..)
                .is_some_and(|rest| match_parts(parts, rest))
        })
    }
}

fn refold(tokens: &[Token], fold: &impl Fn(&[u8]) -> Vec<u8>) -> Vec<Token> {
    let mut out = Vec::with_capacity(tokens.len());
    let mut literal = Vec::new();
    for token in tokens {
        if let Token::Byte(byte) = token {
            literal.push(*byte);
            continue;
        }
        out.extend(fold(&literal).into_iter().map(Token::Byte));
        literal.clear();
        out.push(token.clone());
    }
    out.extend(fold(&literal).into_iter().map(Token::Byte));
    out
}
