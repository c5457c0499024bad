//! Patterns as regular expressions of the smallest dialect: `^ $ . [] * + ? () |`, nothing else.
//!
//! A Seatbelt profile knows no other patterns, and its expressions have neither flags nor escapes that every release reads alike: a
//! character that means something is put into a bracket, and case is folded letter by letter.

use super::accents::{composed, decomposed};
use super::{Part, PathPattern, Token};

/// Why a pattern has no expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoExpression {
    /// Expressions are text.
    #[error("it is not UTF-8")]
    NotText,
    /// A set that no bracket can hold.
    #[error("`[…]` may hold letters, digits and the usual marks only")]
    Class,
}

impl PathPattern {
    /// An expression for what the pattern names and everything below: unanchored for a tail, so that it follows a name wherever the
    /// directory around it is moved.
    ///
    /// # Errors
    /// Bytes that are not text.
    pub fn expression(&self) -> Result<String, NoExpression> {
        let mut out = String::from(if self.is_anchored() { "^" } else { "" });
        for (index, part) in self.parts.iter().enumerate() {
            match part {
                // At the start of a tail it says nothing, at the end no more than "and below".
                Part::AnyDepth if index == 0 && !self.is_anchored() => {}
                Part::AnyDepth if index + 1 == self.parts.len() => {}
                Part::AnyDepth => out.push_str("(/.*)?"),
                Part::Name(tokens) => {
                    out.push('/');
                    name(tokens, self.fold, &mut out)?;
                }
            }
        }
        out.push_str("(/.*)?$");
        Ok(out)
    }
}

/// An expression for a name or several, wherever they stand, and everything below; folded.
#[must_use]
pub fn of_tail(names: &str) -> String {
    let mut out = String::new();
    for name in names.split('/').filter(|n| !n.is_empty()) {
        out.push('/');
        name.chars().for_each(|c| character(c, true, &mut out));
    }
    out.push_str("(/.*)?$");
    out
}

fn name(tokens: &[Token], fold: bool, out: &mut String) -> Result<(), NoExpression> {
    let mut text = Vec::new();
    for token in tokens {
        if let Token::Byte(b) = token {
            text.push(*b);
            continue;
        }
        literal(&mut text, fold, out)?;
        match token {
            Token::AnyRun => out.push_str("[^/]*"),
            Token::Class { negated, ranges } => class(*negated, ranges, fold, out)?,
            Token::AnyByte | Token::Byte(_) => out.push_str("[^/]"),
        }
    }
    literal(&mut text, fold, out)
}

fn literal(text: &mut Vec<u8>, fold: bool, out: &mut String) -> Result<(), NoExpression> {
    let run = std::str::from_utf8(text).map_err(|_| NoExpression::NotText)?;
    composed(run).chars().for_each(|c| character(c, fold, out));
    text.clear();
    Ok(())
}

fn character(c: char, fold: bool, out: &mut String) {
    let mut cases = vec![c];
    if fold {
        cases.extend(c.to_lowercase());
        cases.extend(c.to_uppercase());
        // `ß` in capitals is two letters: only one-to-one mappings fold (semantics 3).
        if c.to_lowercase().count() != 1 || c.to_uppercase().count() != 1 {
            cases.truncate(1);
        }
        cases.sort_unstable();
        cases.dedup();
        cases.reverse();
    }
    match cases.as_slice() {
        // A caret alone cannot stand in a bracket.
        ['^'] => out.push_str("\\^"),
        [c] if c.is_ascii_punctuation()
            && !matches!(c, '-' | '_' | '/' | ',' | '~' | '@' | '%') =>
        {
            out.push('[');
            out.push(*c);
            out.push(']');
        }
        [c] if c.is_ascii() => out.push(*c),
        // A bracket of a dialect that reads bytes would take the halves of a letter for letters.
        // Nor does it hold a letter whose accent is apart.
        many if many.iter().any(|c| !c.is_ascii()) => {
            let mut texts: Vec<String> = many.iter().map(char::to_string).collect();
            for apart in many.iter().map(|c| decomposed(&c.to_string())) {
                if !texts.contains(&apart) {
                    texts.push(apart);
                }
            }
            out.push('(');
            out.push_str(&texts.join("|"));
            out.push(')');
        }
        many => {
            out.push('[');
            out.extend(many);
            out.push(']');
        }
    }
}

fn class(
    negated: bool,
    ranges: &[(u8, u8)],
    fold: bool,
    out: &mut String,
) -> Result<(), NoExpression> {
    let mut bytes: Vec<u8> = ranges.iter().flat_map(|(lo, hi)| *lo..=*hi).collect();
    if fold {
        let other: Vec<u8> = bytes.iter().map(u8::to_ascii_uppercase).collect();
        bytes.extend(bytes.clone().iter().map(u8::to_ascii_lowercase));
        bytes.extend(other);
    }
    // Neither a class nor its opposite matches a slash.
    bytes.retain(|b| *b != b'/');
    bytes.sort_unstable();
    bytes.dedup();
    if bytes.iter().any(|b| !b.is_ascii() || b.is_ascii_control()) {
        return Err(NoExpression::Class);
    }
    let has = |b: u8| bytes.contains(&b);
    let unsayable = bytes.is_empty() || bytes == b"^";
    if (unsayable && !negated) || has(b'\\') {
        return Err(NoExpression::Class);
    }
    // In a bracket only the place of `]`, `^` and `-` matters (regex(7)).
    out.push_str(if negated { "[^" } else { "[" });
    if has(b']') {
        out.push(']');
    }
    let plain = bytes.iter().filter(|b| !matches!(b, b']' | b'^' | b'-'));
    out.extend(plain.map(|b| char::from(*b)));
    if negated {
        out.push('/');
    }
    if has(b'^') {
        out.push('^');
    }
    if has(b'-') {
        out.push('-');
    }
    out.push(']');
    Ok(())
}
