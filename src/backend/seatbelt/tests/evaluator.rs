//! A strict parser of the profiles we write, and three readings of which rule wins.

use std::collections::VecDeque;

pub(super) const TAG: &str = "ccbox-7f3a91c2d4e8b605";

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Sexp {
    Word(String),
    Text(String),
    List(Vec<Sexp>),
}

#[derive(Debug, Clone)]
pub(super) enum Filter {
    Literal(String),
    Subpath(String),
    Regex(Vec<Vec<(Re, char)>>),
    Ip(String),
    Name(String),
    Bare(String),
    All(Vec<Filter>),
    Any(Vec<Filter>),
}

#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) allow: bool,
    pub(super) ops: Vec<String>,
    pub(super) filters: Vec<Filter>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Reading {
    /// One list, the last match wins.
    Flat,
    /// The exact operation first: the last filtered match, then its bare rule; then the parent.
    Hier,
    /// As `Hier`, but bare rules compete in the order of the text.
    HierOrd,
}
pub(super) const READINGS: [Reading; 3] = [Reading::Flat, Reading::Hier, Reading::HierOrd];

const OPS: [&str; 24] = [
    "default",
    "appleevent-send",
    "lsopen",
    "job-creation",
    "mach-lookup",
    "user-preference-write",
    "file-ioctl",
    "signal",
    "file-read*",
    "file-write*",
    "file-write-unlink",
    "file-write-create",
    "file-link",
    "file-clone",
    "process-exec*",
    "network*",
    "network-outbound",
    "network-bind",
    "network-inbound",
    "file-read-data",
    "file-read-metadata",
    "file-write-data",
    "process-exec-interpreter",
    "file-write-mode",
];
const BARE_DENIES: [&str; 7] = [
    "appleevent-send",
    "lsopen",
    "job-creation",
    "user-preference-write",
    "signal",
    "file-write*",
    "network*",
];
const ALLOWED: [&str; 9] = [
    "file-link",
    "file-clone",
    "signal",
    "file-read*",
    "file-write*",
    "process-exec*",
    "network-outbound",
    "network-bind",
    "network-inbound",
];

fn tokens(text: &str) -> Result<VecDeque<Sexp>, String> {
    let mut stack: Vec<Vec<Sexp>> = vec![Vec::new()];
    let mut at = text.chars().peekable();
    while let Some(c) = at.next() {
        match c {
            ';' => while at.next().is_some_and(|c| c != '\n') {},
            '(' => stack.push(Vec::new()),
            ')' => {
                let done = stack.pop().ok_or("unbalanced")?;
                stack.last_mut().ok_or("unbalanced")?.push(Sexp::List(done));
            }
            '"' => {
                let mut s = String::new();
                loop {
                    match at.next().ok_or("open string")? {
                        '"' => break,
                        '\\' => match at.next() {
                            Some(c @ ('"' | '\\')) => s.push(c),
                            _ => return Err("unknown escape".into()),
                        },
                        c if c.is_control() => return Err("control character".into()),
                        c => s.push(c),
                    }
                }
                if s.len() > 900 {
                    return Err("long string".into());
                }
                stack.last_mut().ok_or("unbalanced")?.push(Sexp::Text(s));
            }
            c if c.is_whitespace() => {}
            c => {
                let mut s = String::from(c);
                while let Some(c) = at.peek().filter(|c| !" \n()\";".contains(**c)) {
                    s.push(*c);
                    at.next();
                }
                stack.last_mut().ok_or("unbalanced")?.push(Sexp::Word(s));
            }
        }
    }
    match (stack.pop(), stack.is_empty()) {
        (Some(top), true) => Ok(top.into()),
        _ => Err("unbalanced".into()),
    }
}

fn filter(list: &[Sexp]) -> Result<Filter, String> {
    use Sexp::{List, Text, Word};
    let sub = |rest: &[Sexp]| -> Result<Vec<Filter>, String> {
        let one = |s: &Sexp| match s {
            List(l) => filter(l),
            Word(_) | Text(_) => Err(format!("not a filter: {s:?}")),
        };
        let out: Vec<_> = rest.iter().map(one).collect::<Result<_, _>>()?;
        if out.is_empty() {
            Err("empty".into())
        } else {
            Ok(out)
        }
    };
    match list {
        [Word(w), Text(t)] if w == "literal" && t.starts_with('/') => {
            Ok(Filter::Literal(t.clone()))
        }
        [Word(w), Text(t)] if w == "subpath" && t.starts_with('/') => {
            Ok(Filter::Subpath(t.clone()))
        }
        [Word(w), Text(t)] if w == "regex" => Ok(Filter::Regex(regex(t)?)),
        [Word(w), Text(t)] if w == "global-name" => Ok(Filter::Name(t.clone())),
        [Word(w), Word(ip), Text(t)] if ip == "ip" && (w == "remote" || w == "local") => {
            let (host, port) = t.split_once(':').ok_or("no port")?;
            let ok = (w == "remote" && host == "localhost") || (w == "local" && t == "*:*");
            if !ok || (port != "*" && port.parse::<u16>().is_err()) {
                return Err(format!("address {t}"));
            }
            Ok(Filter::Ip(t.clone()))
        }
        [Word(a), Word(b)]
            if (a, b) == (&"ioctl-command".into(), &"TIOCSTI".into())
                || (a, b) == (&"target".into(), &"same-sandbox".into()) =>
        {
            Ok(Filter::Bare(b.clone()))
        }
        [Word(w), rest @ ..] if w == "require-all" => Ok(Filter::All(sub(rest)?)),
        [Word(w), rest @ ..] if w == "require-any" => Ok(Filter::Any(sub(rest)?)),
        other => Err(format!("unknown filter {other:?}")),
    }
}

pub(super) fn parse(text: &str) -> Result<Vec<Rule>, String> {
    let mut forms = tokens(text)?;
    let version = Sexp::List(vec![Sexp::Word("version".into()), Sexp::Word("1".into())]);
    if forms.pop_front() != Some(version) {
        return Err("no version".into());
    }
    let mut out = Vec::new();
    for form in forms {
        let Sexp::List(form) = form else {
            return Err("not a rule".into());
        };
        let mut rest = form.as_slice();
        let Some((Sexp::Word(effect), tail)) = rest.split_first() else {
            return Err("rule".into());
        };
        rest = tail;
        let allow = match effect.as_str() {
            "allow" => true,
            "deny" => false,
            other => return Err(format!("effect {other}")),
        };
        let mut rule = Rule {
            allow,
            ops: Vec::new(),
            filters: Vec::new(),
        };
        let mut tagged = false;
        for item in rest {
            match item {
                Sexp::Word(op) if rule.filters.is_empty() && OPS.contains(&op.as_str()) => {
                    rule.ops.push(op.clone());
                }
                Sexp::List(l) => match l.as_slice() {
                    [Sexp::Word(w), Sexp::Word(m), Sexp::Text(t)]
                        if w == "with" && m == "message" =>
                    {
                        if tagged || t != TAG {
                            return Err("tag".into());
                        }
                        tagged = true;
                    }
                    l => rule.filters.push(filter(l)?),
                },
                Sexp::Word(_) | Sexp::Text(_) => return Err(format!("unknown {item:?}")),
            }
        }
        let bare = rule.filters.is_empty();
        if rule.ops.is_empty() || allow == tagged {
            return Err(format!(
                "no operation, or a tag where none belongs: {form:?}"
            ));
        }
        for op in &rule.ops {
            let first = out.is_empty() && allow && op == "default" && bare;
            let ok = first
                || (allow && !bare && ALLOWED.contains(&op.as_str()))
                || (!allow && op != "default" && (!bare || BARE_DENIES.contains(&op.as_str())));
            if !ok {
                return Err(format!("rule for {op}"));
            }
        }
        out.push(rule);
    }
    Ok(out)
}

/// Expressions, matched by trying: `^ $ . [] * + ? () |` and a backslash before `^` only.
#[derive(Debug, Clone)]
pub(super) enum Re {
    Char(char),
    Dot,
    Set(bool, Vec<(char, char)>),
    Start,
    End,
    Group(Vec<Vec<(Re, char)>>),
}

fn alternatives(at: &mut VecDeque<char>, depth: usize) -> Result<Vec<Vec<(Re, char)>>, String> {
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

fn regex(text: &str) -> Result<Vec<Vec<(Re, char)>>, String> {
    alternatives(&mut text.chars().collect(), 0)
}

fn ends(re: &Re, s: &[char], at: usize, fold: bool) -> Vec<usize> {
    let eq = |a: char, b: char| a == b || fold && a.to_lowercase().eq(b.to_lowercase());
    match (re, s.get(at)) {
        (Re::Start, _) => {
            if at == 0 {
                vec![at]
            } else {
                vec![]
            }
        }
        (Re::End, c) => {
            if c.is_none() {
                vec![at]
            } else {
                vec![]
            }
        }
        (Re::Group(alts), _) => alts.iter().flat_map(|a| sequence(a, s, at, fold)).collect(),
        (Re::Char(a), Some(c)) if eq(*a, *c) => vec![at + 1],
        (Re::Dot, Some(_)) => vec![at + 1],
        (Re::Set(negated, set), Some(c)) => {
            let within = |c: char| set.iter().any(|(a, b)| (*a..=*b).contains(&c));
            let hit = within(*c)
                || fold && (c.to_lowercase().any(within) || c.to_uppercase().any(within));
            if hit == *negated {
                vec![]
            } else {
                vec![at + 1]
            }
        }
        _ => vec![],
    }
}

fn sequence(list: &[(Re, char)], s: &[char], at: usize, fold: bool) -> Vec<usize> {
    let Some(((re, times), rest)) = list.split_first() else {
        return vec![at];
    };
    let mut reach = match times {
        '1' | '+' => ends(re, s, at, fold),
        _ => {
            let mut r = vec![at];
            r.extend(ends(re, s, at, fold));
            r
        }
    };
    if matches!(times, '*' | '+') {
        let mut i = 0;
        while i < reach.len() {
            for next in ends(re, s, reach[i], fold) {
                if !reach.contains(&next) {
                    reach.push(next);
                }
            }
            i += 1;
        }
    }
    let mut out: Vec<usize> = reach
        .into_iter()
        .flat_map(|r| sequence(rest, s, r, fold))
        .collect();
    out.sort_unstable();
    out.dedup();
    out
}

pub(super) fn regex_matches(expression: &str, text: &str, fold: bool) -> bool {
    found(&regex(expression).unwrap(), text, fold)
}

fn found(re: &[Vec<(Re, char)>], text: &str, fold: bool) -> bool {
    let s: Vec<char> = text.chars().collect();
    (0..=s.len()).any(|at| re.iter().any(|alt| !sequence(alt, &s, at, fold).is_empty()))
}

fn matches(f: &Filter, target: &str, fold: bool) -> bool {
    let lower = |s: &str| s.to_lowercase();
    match f {
        Filter::Literal(p) => lower(p) == lower(target),
        Filter::Subpath(p) => {
            let (p, t) = (lower(p), lower(target));
            p == "/" || t == p || t.strip_prefix(&p).is_some_and(|r| r.starts_with('/'))
        }
        Filter::Regex(e) => found(e, target, fold),
        Filter::Ip(t) => {
            t == target
                || t.ends_with(":*") && target.starts_with("localhost:") && t != "*:*"
                || t == "*:*" && target.starts_with("local:")
        }
        Filter::Name(n) | Filter::Bare(n) => n == target,
        Filter::All(l) => l.iter().all(|f| matches(f, target, fold)),
        Filter::Any(l) => l.iter().any(|f| matches(f, target, fold)),
    }
}

fn parents(op: &str) -> Vec<&str> {
    let parent = match op {
        _ if op.starts_with("file-write") => "file-write*",
        _ if op.starts_with("file-read") => "file-read*",
        _ if op.starts_with("process-exec") => "process-exec*",
        _ if op.starts_with("network") => "network*",
        _ => "default",
    };
    let mut out = vec![op, parent, "default"];
    out.dedup();
    out
}

/// Does the profile allow `op` on `target` under this reading?
pub(super) fn decide(rules: &[Rule], reading: Reading, fold: bool, op: &str, target: &str) -> bool {
    let chain = parents(op);
    let hit =
        |r: &&Rule| r.filters.is_empty() || r.filters.iter().any(|f| matches(f, target, fold));
    let of = |ops: &[&str], filtered: Option<bool>| {
        rules
            .iter()
            .filter(|r| r.ops.iter().any(|o| ops.contains(&o.as_str())))
            .filter(|r| filtered.is_none_or(|f| f != r.filters.is_empty()))
            .rfind(hit)
            .map(|r| r.allow)
    };
    match reading {
        Reading::Flat => of(&chain, None),
        Reading::Hier => chain
            .iter()
            .find_map(|o| of(&[o], Some(true)).or_else(|| of(&[o], Some(false)))),
        Reading::HierOrd => chain.iter().find_map(|o| of(&[o], None)),
    }
    .unwrap()
}
