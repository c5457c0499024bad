//! JSON with the place of every value (RFC 8259), so that a setting of another tool is named by file, line and column.
//!
//! Strict: no comments, no trailing commas, no key twice in one object, at most [`MAX_DEPTH`] levels.

use std::collections::HashSet;
use std::ops::Range;

/// Deeper than any settings file; recursion ends long before the stack does.
const MAX_DEPTH: usize = 64;

/// A value and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) value: Json,
    pub(super) span: Range<usize>,
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    /// As written.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Object(Vec<Member>),
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) key: String,
    pub(super) key_span: Range<usize>,
    pub(super) node: Node,
}

impl Json {
    /// What it is, for "must be a list, not …".
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }
}

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) span: Range<usize>,
    pub(super) message: String,
    pub(super) hint: Option<&'static str>,
}

/// Reads a whole document.
pub(super) fn parse(text: &str) -> Result<Node, Problem> {
    let mut parser = Parser { text, at: 0 };
    let node = parser.value(0)?;
    parser.space();
    match parser.peek() {
        None => Ok(node),
        Some(_) => Err(parser.unexpected("the end of the file")),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn problem(&self, span: Range<usize>, message: impl Into<String>) -> Problem {
        let comment = self.rest().starts_with("//") || self.rest().starts_with("/*");
        Problem {
            span,
            message: format!("not JSON: {}", message.into()),
            hint: comment.then_some("JSON takes no comments"),
        }
    }

    fn unexpected(&self, wanted: &str) -> Problem {
        let Some(c) = self.rest().chars().next() else {
            return self.problem(
                self.at..self.at,
                format!("the file ends where {wanted} belongs"),
            );
        };
        self.problem(
            self.at..self.at + c.len_utf8(),
            format!("`{}` where {wanted} belongs", c.escape_default()),
        )
    }

    fn value(&mut self, depth: usize) -> Result<Node, Problem> {
        self.space();
        let start = self.at;
        if depth > MAX_DEPTH {
            return Err(self.problem(start..start + 1, format!("more than {MAX_DEPTH} levels")));
        }
        let value = match self.peek() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => Json::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(_) | None => self.word()?,
        };
        Ok(Node {
            value,
            span: start..self.at,
        })
    }

    fn word(&mut self) -> Result<Json, Problem> {
        for (word, value) in [
            ("true", Json::Bool(true)),
            ("false", Json::Bool(false)),
            ("null", Json::Null),
        ] {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.unexpected("a value"))
    }

    fn object(&mut self, depth: usize) -> Result<Json, Problem> {
        self.at += 1;
        let mut members: Vec<Member> = Vec::new();
        let mut seen = HashSet::new();
        self.space();
        if self.eat(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.space();
            let start = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("a key in quotes"));
            }
            let key = self.string()?;
            let key_span = start..self.at;
            if !seen.insert(key.clone()) {
                return Err(Problem {
                    span: key_span,
                    message: format!("the key `{}` stands twice", key.escape_default()),
                    hint: None,
                });
            }
            self.space();
            if !self.eat(b':') {
                return Err(self.unexpected("`:`"));
            }
            let node = self.value(depth + 1)?;
            members.push(Member {
                key,
                key_span,
                node,
            });
            self.space();
            if self.eat(b'}') {
                return Ok(Json::Object(members));
            }
            if !self.eat(b',') {
                return Err(self.unexpected("`,` or `}`"));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Json, Problem> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.eat(b']') {
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            if self.eat(b']') {
                return Ok(Json::List(items));
            }
            if !self.eat(b',') {
                return Err(self.unexpected("`,` or `]`"));
            }
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn number(&mut self) -> Result<Json, Problem> {
        let start = self.at;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            if !self.eat(b'-') {
                self.eat(b'+');
            }
            self.digits()?;
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        Ok(Json::Number(text.to_owned()))
    }

    fn digits(&mut self) -> Result<(), Problem> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.unexpected("a digit"));
        }
        Ok(())
    }

    fn string(&mut self) -> Result<String, Problem> {
        let open = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            let Some(c) = self.rest().chars().next() else {
                return Err(self.problem(open..open + 1, "a string without its closing quote"));
            };
            let here = self.at;
            self.at += c.len_utf8();
            match c {
                '"' => return Ok(out),
                '\\' => out.push(self.escape(here)?),
                c if c < ' ' => {
                    return Err(self.problem(here..here + 1, "a control character in a string"));
                }
                c => out.push(c),
            }
        }
    }

    fn escape(&mut self, start: usize) -> Result<char, Problem> {
        let letter = self.peek();
        self.at += usize::from(letter.is_some_and(|b| b.is_ascii()));
        Ok(match letter {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(start),
            Some(_) | None => return Err(self.problem(start..start + 1, "an unknown escape")),
        })
    }

    /// Half a surrogate pair is no character.
    fn unicode(&mut self, start: usize) -> Result<char, Problem> {
        let first = self.hex(start)?;
        let code = if (0xd800..0xdc00).contains(&first) && self.rest().starts_with("\\u") {
            self.at += 2;
            let second = self.hex(start)?;
            match second.checked_sub(0xdc00).filter(|low| *low < 0x400) {
                Some(low) => 0x10000 + ((first - 0xd800) << 10) + low,
                None => first,
            }
        } else {
            first
        };
        char::from_u32(code)
            .ok_or_else(|| self.problem(start..self.at, "half of a surrogate pair is no character"))
    }

    fn hex(&mut self, start: usize) -> Result<u32, Problem> {
        let digits = self.rest().get(..4).unwrap_or_default();
        let plain = digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_hexdigit());
        match u32::from_str_radix(digits, 16) {
            Ok(code) if plain => {
                self.at += 4;
                Ok(code)
            }
            _ => Err(self.problem(start..start + 1, "`\\u` needs four hexadecimal digits")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Without places, as the library that everybody uses sees it.
    fn plain(node: &Node) -> serde_json::Value {
        match &node.value {
            Json::Null => serde_json::Value::Null,
            Json::Bool(b) => (*b).into(),
            Json::Number(n) => serde_json::from_str(n).unwrap(),
            Json::Text(t) => t.as_str().into(),
            Json::List(items) => items.iter().map(plain).collect(),
            Json::Object(members) => members
                .iter()
                .map(|m| (m.key.clone(), plain(&m.node)))
                .collect(),
        }
    }

    #[test]
    fn places() {
        let text = "{ \"a\": [1, \"x\\u00e9\\ud83d\\ude00\"] }";
        let node = parse(text).unwrap();
        let Json::Object(members) = &node.value else {
            panic!("{node:?}");
        };
        assert_eq!(&text[members[0].key_span.clone()], "\"a\"");
        let Json::List(items) = &members[0].node.value else {
            panic!("{node:?}");
        };
        assert_eq!(&text[items[0].span.clone()], "1");
        assert_eq!(items[1].value, Json::Text("xé😀".into()));
    }

    #[test]
    fn refusals() {
        for (text, at, says) in [
            ("", 0, "not JSON: the file ends where a value belongs"),
            (
                "{\"a\":1,}",
                7,
                "not JSON: `}` where a key in quotes belongs",
            ),
            ("[1,]", 3, "not JSON: `]` where a value belongs"),
            ("{a:1}", 1, "not JSON: `a` where a key in quotes belongs"),
            ("{\"a\" 1}", 5, "not JSON: `1` where `:` belongs"),
            (
                "{\"a\":1 \"b\":2}",
                7,
                "not JSON: `\\\"` where `,` or `}` belongs",
            ),
            ("{\"a\":1,\"a\":2}", 7, "the key `a` stands twice"),
            ("{} x", 3, "not JSON: `x` where the end of the file belongs"),
            ("\"abc", 0, "not JSON: a string without its closing quote"),
            ("\"a\nb\"", 2, "not JSON: a control character in a string"),
            ("\"\\x\"", 1, "not JSON: an unknown escape"),
            (
                "\"\\u12\"",
                1,
                "not JSON: `\\u` needs four hexadecimal digits",
            ),
            (
                "\"\\ud800\"",
                1,
                "not JSON: half of a surrogate pair is no character",
            ),
            ("01", 1, "not JSON: `1` where the end of the file belongs"),
            ("-", 1, "not JSON: the file ends where a digit belongs"),
        ] {
            let e = parse(text).unwrap_err();
            assert_eq!((e.span.start, e.message.as_str()), (at, says), "{text}");
        }
        assert_eq!(
            parse("{ // x\n}").unwrap_err().hint,
            Some("JSON takes no comments")
        );
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(
            parse(&deep).unwrap_err().message,
            "not JSON: more than 64 levels"
        );
    }

    /// Any value, with every kind of string.
    fn value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                proptest::collection::hash_map(any::<String>(), inner, 0..4)
                    .prop_map(|m| m.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value in value(), pretty: bool) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let text = text.unwrap();
            prop_assert_eq!(plain(&parse(&text).unwrap()), value);
        }

        #[test]
        fn what_the_library_refuses_is_refused(text in "[\\[\\]{},:\"\\\\a0.eE+ \\-ntruflsu]{0,16}") {
            let library: Result<serde_json::Value, _> = serde_json::from_str(&text);
            let ours = parse(&text);
            prop_assert!(ours.is_err() || library.is_ok(), "{}", text);
            if let (Ok(ours), Ok(library)) = (&ours, &library) {
                prop_assert_eq!(plain(ours), library.clone());
            }
        }

        #[test]
        fn any_text_ends(text in any::<String>()) {
            if let Err(e) = parse(&text) {
                prop_assert!(e.span.start <= text.len() && text.is_char_boundary(e.span.start));
            }
        }
    }
}
