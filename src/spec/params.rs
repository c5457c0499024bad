//! `${param:KEY}` from `-D KEY=VALUE`: put in after TOML parsing, inside strings only, never parsed again (semantics 1).

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;

use super::SpecError;
use super::source::shown;
use super::suggest::nearest;

/// The parameters of one call, and which of them some spec has used.
#[derive(Debug, Default)]
pub(super) struct Params {
    values: Vec<(String, String)>,
    used: RefCell<BTreeSet<usize>>,
    /// A parameter without a value stays as written.
    lenient: bool,
}

/// A string of a spec with its parameters put in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Text {
    pub(super) value: String,
    /// Bytes that came from parameters.
    pub(super) quoted: Vec<Range<usize>>,
}

/// What is wrong with a parameter in a string.
pub(super) struct ParamProblem {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

const OPEN: &str = "${param:";

impl Params {
    pub(super) fn new(given: &[(String, String)]) -> Result<Self, SpecError> {
        for (i, (key, _)) in given.iter().enumerate() {
            if !is_key(key) {
                return Err(SpecError::plain(format!(
                    "`-D {}`: the name of a parameter is made of letters, digits, `_`, `-` and `.`",
                    shown(key)
                )));
            }
            if given.iter().take(i).any(|(k, _)| k == key) {
                return Err(SpecError::plain(format!("`-D {key}` is given twice")));
            }
        }
        Ok(Self {
            values: given.to_vec(),
            used: RefCell::default(),
            lenient: false,
        })
    }

    /// For listing what a file says before anybody runs it: parameters stay as written.
    pub(super) fn lenient() -> Self {
        Self {
            lenient: true,
            ..Self::default()
        }
    }

    /// Puts the parameters into one string. `in_path` keeps `$$`, which the path grammar reads as one dollar; elsewhere
    /// a dollar is an ordinary character and only `$${param:` needs the doubling.
    pub(super) fn substitute(&self, raw: &str, in_path: bool) -> Result<Text, ParamProblem> {
        let mut text = Text::default();
        let mut rest = raw;
        while let Some(at) = rest.find('$') {
            let (plain, dollar) = rest.split_at(at);
            text.value.push_str(plain);
            if let Some(after) = dollar.strip_prefix("$$") {
                let escaped = after.starts_with("{param:");
                text.value
                    .push_str(if escaped && !in_path { "$" } else { "$$" });
                rest = after;
            } else if let Some(after) = dollar.strip_prefix(OPEN) {
                let Some((key, tail)) = after.split_once('}') else {
                    return Err(ParamProblem {
                        message: "`${param:` without `}`".into(),
                        hint: None,
                    });
                };
                let start = text.value.len();
                if self.lenient {
                    for piece in [OPEN, key, "}"] {
                        text.value.push_str(piece);
                    }
                } else {
                    text.value.push_str(self.value(key)?);
                }
                text.quoted.push(start..text.value.len());
                rest = tail;
            } else {
                text.value.push('$');
                rest = dollar.get(1..).unwrap_or_default();
            }
        }
        text.value.push_str(rest);
        Ok(text)
    }

    fn value(&self, key: &str) -> Result<&str, ParamProblem> {
        let found = self.values.iter().enumerate().find(|(_, (k, _))| k == key);
        let Some((i, (_, value))) = found else {
            let meant = nearest(key, self.values.iter().map(|(k, _)| k.as_str()));
            return Err(ParamProblem {
                message: format!("unknown parameter `{}`", shown(key)),
                hint: Some(match meant {
                    Some(meant) => format!("did you mean `${{param:{meant}}}`"),
                    None => format!("give it with `-D {}=VALUE`", shown(key)),
                }),
            });
        };
        self.used.borrow_mut().insert(i);
        Ok(value)
    }

    /// A `-D` that no spec mentions is a typing mistake.
    pub(super) fn all_used(&self) -> Result<(), SpecError> {
        let used = self.used.borrow();
        match self
            .values
            .iter()
            .enumerate()
            .find(|(i, _)| !used.contains(i))
        {
            None => Ok(()),
            Some((_, (key, _))) => Err(SpecError::plain(format!(
                "`-D {key}` is not used: no spec holds `${{param:{key}}}`"
            ))),
        }
    }
}

fn is_key(key: &str) -> bool {
    !key.is_empty()
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn params(given: &[(&str, &str)]) -> Params {
        let given: Vec<(String, String)> = given
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        Params::new(&given).unwrap()
    }

    fn put(p: &Params, raw: &str, in_path: bool) -> String {
        match p.substitute(raw, in_path) {
            Ok(t) => t.value,
            Err(e) => format!("!{}", e.message),
        }
    }

    #[test]
    fn values_are_put_in_once() {
        let p = params(&[("A", "x"), ("B", "${param:A}$HOME"), ("E", "")]);
        for (raw, in_path, want) in [
            ("plain", true, "plain"),
            ("/a/${param:A}/b", true, "/a/x/b"),
            ("${param:A}${param:A}", true, "xx"),
            ("${param:B}", true, "${param:A}$HOME"),
            ("[${param:E}]", false, "[]"),
            ("$$ $HOME $", false, "$$ $HOME $"),
            ("$${param:A}", false, "${param:A}"),
            ("$${param:A}", true, "$${param:A}"),
            ("$$${param:A}", true, "$$x"),
            ("${param:A", true, "!`${param:` without `}`"),
            ("${param:C}", true, "!unknown parameter `C`"),
            ("${param:}", true, "!unknown parameter ``"),
        ] {
            assert_eq!(put(&p, raw, in_path), want, "{raw}");
        }
        let text = p.substitute("/a/${param:A}/b", true).ok().unwrap();
        assert_eq!(text.quoted, vec![3..4]);
    }

    #[test]
    fn every_parameter_must_be_used() {
        let p = params(&[("A", "x"), ("B", "y")]);
        assert_eq!(put(&p, "${param:A}", true), "x");
        assert_eq!(
            p.all_used().unwrap_err().message,
            "`-D B` is not used: no spec holds `${param:B}`"
        );
        assert_eq!(put(&p, "${param:B}", true), "y");
        assert!(p.all_used().is_ok());
    }

    #[test]
    fn bad_names_are_refused() {
        for key in ["", "a b", "x}"] {
            assert!(Params::new(&[(key.into(), "v".into())]).is_err(), "{key}");
        }
        assert!(Params::new(&[("A".into(), "1".into()), ("A".into(), "2".into())]).is_err());
    }

    proptest! {
        #[test]
        fn a_value_arrives_as_it_is(value in "\\PC{0,20}", before in "[a-z/]{0,5}") {
            let p = params(&[("K", &value)]);
            let got = p.substitute(&format!("{before}${{param:K}}"), true).ok().unwrap();
            prop_assert_eq!(got.value, format!("{before}{value}"));
            prop_assert_eq!(got.quoted, vec![before.len()..before.len() + value.len()]);
        }

        #[test]
        fn text_without_parameters_stays_as_it_is(raw in "[$}param:A-C]{0,30}", in_path: bool) {
            prop_assert_eq!(put(&params(&[("A", "x")]), &raw, in_path), raw);
        }

        #[test]
        fn any_text_is_substituted_or_refused(raw in "[${}param:A-C]{0,30}", in_path: bool) {
            match params(&[("A", "x")]).substitute(&raw, in_path) {
                Ok(text) => prop_assert!(text.quoted.iter().all(|q| &text.value[q.clone()] == "x")),
                Err(e) => prop_assert!(raw.contains(OPEN), "{}", e.message),
            }
        }
    }
}
