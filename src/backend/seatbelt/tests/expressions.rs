//! Regular expressions of the smallest dialect, read strictly and matched by trying.

use std::collections::VecDeque;

/// One piece: `^ $ . [] () |` and a backslash before `^` only; what follows says how often: `* + ?`, or once.
#[derive(Debug, Clone)]
pub(super) enum Re {
    Char(char),
    Dot,
    Set(bool, Vec<(char, char)>),
    Start,
    End,
    Group(Alternatives),
}

fn alternatives(at: &mut VecDeque<char>, depth: usize) -> Result<Alternatives, String> {
    let mut out = vec![Vec::new()];
    while let Some(c) = at.pop_front() {
        let atom = match c {
            ')' if depth > 0 => return Ok(out),
            '|' => {
                out.push(Vec::new());
                continue;
            }
            '(' if at.front() == Some(&'?') => return Err("(?".into()),
            '(' => Re::Group(alternatives(at, depth + 1)?),
            '.' => Re::Dot,
            '^' => Re::Start,
            '$' => Re::End,
            '[' => {
                let negated = at.front() == Some(&'^');
                if negated {
                    at.pop_front();
                }
                let mut set = Vec::new();
                loop {
                    let c = at.pop_front().ok_or("open set")?;
                    if c == ']' && !set.is_empty() {
                        break;
                    }
                    if at.front() == Some(&'-') && at.get(1).is_some_and(|c| *c != ']') {
                        at.pop_front();
                        set.push((c, at.pop_front().ok_or("range")?));
                    } else {
                        set.push((c, c));
                    }
                }
                Re::Set(negated, set)
            }
            '\\' if at.front() == Some(&'^') => Re::Char(at.pop_front().ok_or("end")?),
            '\\' | '{' | '}' | '*' | '+' | '?' | ')' | ']' => return Err(format!("bare {c}")),
            c => Re::Char(c),
        };
        let times = at
            .front()
            .copied()
            .filter(|c| "*+?".contains(*c))
            .unwrap_or('1');
        if times != '1' {
            at.pop_front();
        }
        out.last_mut().ok_or("none")?.push((atom, times));
    }
    if depth > 0 {
        Err("open group".into())
    } else {
        Ok(out)
    }
}

pub(super) type Alternatives = Vec<Vec<(Re, char)>>;

pub(super) fn regex(text: &str) -> Result<Alternatives, String> {
    alternatives(&mut text.chars().collect(), 0)
}

/// What is asked of the place where a match ends.
type Then<'a> = &'a mut dyn FnMut(usize) -> bool;

/// A text with and without regard to case.
pub(super) struct Subject {
    chars: Vec<char>,
    fold: bool,
}

impl Subject {
    pub(super) fn new(text: &str, fold: bool) -> Self {
        let small = |c: char| c.to_lowercase().next().unwrap_or(c);
        let chars = text.chars().map(|c| if fold { small(c) } else { c });
        Self {
            chars: chars.collect(),
            fold,
        }
    }

    /// The expression matches somewhere.
    pub(super) fn holds(&self, re: &Alternatives) -> bool {
        (0..=self.chars.len()).any(|at| re.iter().any(|alt| self.sequence(alt, at, &mut |_| true)))
    }

    fn is(&self, a: char, b: char) -> bool {
        a == b || self.fold && a.to_lowercase().eq(b.to_lowercase())
    }

    fn one(&self, re: &Re, at: usize, then: Then<'_>) -> bool {
        let c = self.chars.get(at).copied();
        let hit = match (re, c) {
            (Re::Start, _) => return at == 0 && then(at),
            (Re::End, c) => return c.is_none() && then(at),
            (Re::Group(alts), _) => return alts.iter().any(|a| self.sequence(a, at, then)),
            (Re::Char(a), Some(c)) => self.is(*a, c),
            (Re::Dot, Some(_)) => true,
            (Re::Set(negated, set), Some(c)) => {
                let within = |c: char| set.iter().any(|(a, b)| (*a..=*b).contains(&c));
                let hit = within(c) || self.fold && c.to_uppercase().any(within);
                hit != *negated
            }
            (Re::Char(_) | Re::Dot | Re::Set(..), None) => false,
        };
        hit && then(at + 1)
    }

    fn sequence(&self, list: &[(Re, char)], at: usize, then: Then<'_>) -> bool {
        let Some(((re, times), rest)) = list.split_first() else {
            return then(at);
        };
        match times {
            '?' => {
                self.one(re, at, &mut |n| self.sequence(rest, n, then))
                    || self.sequence(rest, at, then)
            }
            '*' => self.many(re, rest, at, then),
            '+' => self.one(re, at, &mut |n| self.many(re, rest, n, then)),
            _ => self.one(re, at, &mut |n| self.sequence(rest, n, then)),
        }
    }

    fn many(&self, re: &Re, rest: &[(Re, char)], at: usize, then: Then<'_>) -> bool {
        self.one(re, at, &mut |n| n > at && self.many(re, rest, n, then))
            || self.sequence(rest, at, then)
    }
}

pub(super) fn regex_matches(expression: &str, text: &str, fold: bool) -> bool {
    Subject::new(text, fold).holds(&regex(expression).unwrap())
}
