//! A strict parser of the profiles we write, and three readings of which rule wins.

use std::collections::VecDeque;

use super::expressions::{Alternatives, Subject, regex};

/// Stands between a path and the extension its object has.
pub(super) const MARK: char = '\u{1}';

pub(super) const TAG: &str = "ccbox-7f3a91c2d4e8b605";

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Sexp {
    Word(String),
    Text(String),
    List(Vec<Sexp>),
}

#[derive(Debug, Clone)]
pub(super) enum Filter {
    /// Paths in small letters: both match without regard to case.
    Literal(String),
    Subpath(String),
    Regex(Alternatives),
    Ip(String),
    Name(String),
    Bare(String),
    /// A process by its relation to who asks.
    Target(String),
    /// What the kernel has marked.
    Extension(String),
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

const OPS: [&str; 32] = [
    "default",
    "hid-control",
    "file-mount",
    "file-search",
    "file-mknod",
    "process-info*",
    "process-info-pidinfo",
    "mach-priv-task-port",
    "file-write-xattr",
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
const BARE_DENIES: [&str; 12] = [
    "hid-control",
    "file-mount",
    "file-search",
    "file-link",
    "file-mknod",
    "appleevent-send",
    "lsopen",
    "job-creation",
    "user-preference-write",
    "signal",
    "file-write*",
    "network*",
];
const ALLOWED: [&str; 12] = [
    "file-mknod",
    "process-info*",
    "mach-priv-task-port",
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
                let (mut s, mut escapes) = (String::new(), 0);
                loop {
                    match at.next().ok_or("open string")? {
                        '"' => break,
                        '\\' => match at.next() {
                            Some(c @ ('"' | '\\')) => {
                                escapes += 1;
                                s.push(c);
                            }
                            _ => return Err("unknown escape".into()),
                        },
                        c if c.is_control() => return Err("control character".into()),
                        c => s.push(c),
                    }
                }
                if s.len() + escapes + 2 > 1025 {
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
            Ok(Filter::Literal(t.to_lowercase()))
        }
        [Word(w), Text(t)] if w == "subpath" && t.starts_with('/') => {
            Ok(Filter::Subpath(t.to_lowercase()))
        }
        [Word(w), Text(t)] if w == "regex" => Ok(Filter::Regex(regex(t)?)),
        [Word(w), Text(t)] if w == "global-name" => Ok(Filter::Name(t.clone())),
        [Word(w), Text(t)] if w == "xpc-service-name" => Ok(Filter::Name(format!("xpc:{t}"))),
        [Word(w), Text(t)] if w == "extension" => Ok(Filter::Extension(t.clone())),
        [Word(w), Word(t)] if w == "target" && matches!(t.as_str(), "same-sandbox" | "others") => {
            Ok(Filter::Target(t.clone()))
        }
        [Word(w), Word(ip), Text(t)] if ip == "ip" && (w == "remote" || w == "local") => {
            let (host, port) = t.split_once(':').ok_or("no port")?;
            let ok = (w == "remote" && host == "localhost") || (w == "local" && t == "*:*");
            if !ok || (port != "*" && port.parse::<u16>().is_err()) {
                return Err(format!("address {t}"));
            }
            Ok(Filter::Ip(t.clone()))
        }
        [Word(a), Word(b)] if a == "ioctl-command" && b == "TIOCSTI" => Ok(Filter::Bare(b.clone())),
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
    if out.first().is_none_or(|r| r.ops != ["default"]) {
        return Err("no default".into());
    }
    Ok(out)
}

struct Probe {
    target: String,
    small: String,
    mark: String,
    subject: Subject,
}

impl Probe {
    fn new(target: &str, fold: bool) -> Self {
        let (target, mark) = target.split_once(MARK).unwrap_or((target, ""));
        Self {
            target: target.to_owned(),
            small: target.to_lowercase(),
            mark: mark.to_owned(),
            subject: Subject::new(target, fold),
        }
    }

    fn meets(&self, f: &Filter) -> bool {
        let target = self.target.as_str();
        match f {
            Filter::Extension(e) => *e == self.mark,
            // Another process of the sandbox is one of the others as well.
            Filter::Target(t) if t == "others" => target != "self",
            Filter::Target(_) => target != "others",
            Filter::Literal(p) => *p == self.small,
            Filter::Subpath(p) if p == "/" => target.starts_with('/'),
            Filter::Subpath(p) => {
                let rest = self.small.strip_prefix(p.as_str());
                rest.is_some_and(|r| r.is_empty() || r.starts_with('/'))
            }
            Filter::Regex(e) => self.subject.holds(e),
            Filter::Ip(t) => {
                t == target
                    || t.ends_with(":*") && target.starts_with("localhost:") && t != "*:*"
                    || t == "*:*" && target.starts_with("local:")
            }
            Filter::Name(n) | Filter::Bare(n) => n == target,
            Filter::All(l) => l.iter().all(|f| self.meets(f)),
            Filter::Any(l) => l.iter().any(|f| self.meets(f)),
        }
    }
}

fn parents(op: &str) -> Vec<&str> {
    let parent = match op {
        _ if op.starts_with("file-write") => "file-write*",
        _ if op.starts_with("file-read") => "file-read*",
        _ if op.starts_with("process-info") => "process-info*",
        _ if op.starts_with("process-exec") => "process-exec*",
        _ if op.starts_with("network") => "network*",
        _ => "default",
    };
    let mut out = vec![op, parent, "default"];
    out.dedup();
    out
}

/// Does the profile allow `op` on `target`: the three readings in their order.
pub(super) fn decide(rules: &[Rule], fold: bool, op: &str, target: &str) -> [bool; 3] {
    let chain = parents(op);
    let probe = Probe::new(target, fold);
    let named = |r: &Rule, ops: &[&str]| r.ops.iter().any(|o| ops.contains(&o.as_str()));
    let hits: Vec<&Rule> = rules
        .iter()
        .filter(|r| named(r, &chain))
        .filter(|r| r.filters.is_empty() || r.filters.iter().any(|f| probe.meets(f)))
        .collect();
    let of = |ops: &[&str], filtered: Option<bool>| {
        let mut all = hits.iter().filter(|r| named(r, ops));
        all.rfind(|r| filtered.is_none_or(|f| f != r.filters.is_empty()))
            .map(|r| r.allow)
    };
    READINGS.map(|reading| {
        match reading {
            Reading::Flat => of(&chain, None),
            Reading::Hier => chain
                .iter()
                .find_map(|o| of(&[o], Some(true)).or_else(|| of(&[o], Some(false)))),
            Reading::HierOrd => chain.iter().find_map(|o| of(&[o], None)),
        }
        .expect("the first rule is for everything")
    })
}
