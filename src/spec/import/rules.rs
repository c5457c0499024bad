//! Permission rules that feed the sandbox: `Edit(…)`, `Read(…)` and `WebFetch(domain:…)`.
//!
//! Paths are read as that tool reads them: `//x` is absolute, `/x` starts where the settings do, `~/x` at home, anything
//! else where the command starts; a name without a slash is meant at any depth (gitignore).

use std::ops::Range;

use super::paths::{ALLOW_WRITE, DENY_READ, DENY_WRITE, List, Start};
use super::{Import, shown};
use crate::spec::SpecError;
use crate::spec::json::Node;

/// How many rules a notice names.
const NAMED: usize = 3;

/// What a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule<'t> {
    Read(&'t str),
    Edit(&'t str),
    Domain(&'t str),
    /// Decided by the other tool alone: a whole tool, a command line, a server of tools.
    Other,
}

/// A rule, as it stands, and its place.
type Written<'t> = (Rule<'t>, &'t str, &'t Range<usize>);

/// Tools that change files; a rule for `Edit` is one for all of them.
const EDITORS: [&str; 4] = ["Edit", "Write", "MultiEdit", "NotebookEdit"];

fn parse(text: &str) -> Option<Rule<'_>> {
    let Some((tool, content)) = text.split_once('(') else {
        return Some(Rule::Other);
    };
    let content = content.strip_suffix(')')?.trim();
    Some(match tool {
        // The whole tool in other words.
        _ if content.is_empty() || content == "*" => Rule::Other,
        "Read" => Rule::Read(content),
        tool if EDITORS.contains(&tool) => Rule::Edit(content),
        "WebFetch" => match content.strip_prefix("domain:") {
            Some(host) => Rule::Domain(host.trim()),
            None => Rule::Other,
        },
        _ => Rule::Other,
    })
}

impl Import<'_> {
    fn rules<'n>(&self, what: &str, node: &'n Node) -> Result<Vec<Written<'n>>, SpecError> {
        self.texts(what, node)?
            .into_iter()
            .map(|(text, span)| match parse(text) {
                Some(rule) => Ok((rule, text, span)),
                None => Err(self
                    .error(span, format!("`{}` is no rule", shown(text)))
                    .with_hint("write `Tool(what)`, such as `Edit(./src/**)`")),
            })
            .collect()
    }

    /// `Edit` and `WebFetch` rules open what they name.
    pub(super) fn allow_rules(&mut self, what: &str, node: &Node) -> Result<(), SpecError> {
        let mut reads = 0_usize;
        for (rule, text, span) in self.rules(what, node)? {
            match rule {
                // Only `Edit` is matched against paths; a `Write` rule for one opens none there either.
                Rule::Edit(path) if text.starts_with("Edit") => {
                    self.rule_path(path, span, ALLOW_WRITE)?;
                }
                Rule::Domain("") | Rule::Other | Rule::Edit(_) => {}
                Rule::Domain(host) => self.allow_host(host, span),
                Rule::Read(_) => reads += 1,
            }
        }
        if reads > 0 {
            self.beside("Read(…) in permissions.allow");
        }
        Ok(())
    }

    /// `Read`, `Edit` and `WebFetch` rules close what they name; the others are named.
    pub(super) fn deny_rules(&mut self, what: &str, node: &Node) -> Result<(), SpecError> {
        let mut others: Vec<String> = Vec::new();
        for (rule, text, span) in self.rules(what, node)? {
            match rule {
                Rule::Read(path) => self.rule_path(path, span, DENY_READ)?,
                Rule::Edit(path) => self.rule_path(path, span, DENY_WRITE)?,
                Rule::Domain(host) if !host.is_empty() => self.deny_host(host, span),
                Rule::Domain(_) | Rule::Other => others.push(shown(text)),
            }
        }
        if !others.is_empty() {
            let more = match others.len().checked_sub(NAMED) {
                Some(n) if n > 0 => format!(" and {n} more"),
                _ => String::new(),
            };
            others.truncate(NAMED);
            self.notice(
                &node.span,
                format!(
                    "of `{what}` this does not hold here, only in the agent: `{}`{more}",
                    others.join("`, `")
                ),
            );
        }
        Ok(())
    }

    fn rule_path(&mut self, text: &str, span: &Range<usize>, list: List) -> Result<(), SpecError> {
        if text.starts_with('!') {
            self.notice(
                span,
                format!(
                    "`{}` has no effect: what is closed stays closed",
                    shown(text)
                ),
            );
            return Ok(());
        }
        self.path(start(text), span, false, list)
    }
}

fn start(text: &str) -> Start<'_> {
    if let Some(rest) = text.strip_prefix("//") {
        // One slash stays.
        return Start::Absolute(text.get(text.len() - rest.len() - 1..).unwrap_or(text));
    }
    if let Some(rest) = text.strip_prefix('/') {
        return Start::Root(rest);
    }
    if let Some(rest) = text.strip_prefix('~')
        && (rest.is_empty() || rest.starts_with('/'))
    {
        return Start::Home(rest);
    }
    if let Some(rest) = text.strip_prefix("./") {
        return Start::Cwd(rest);
    }
    let name = text.trim_end_matches('/');
    if name.contains('/') || matches!(name, "**" | "." | "..") {
        Start::Cwd(text)
    } else {
        Start::AnyDepth(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_and_where_their_paths_start() {
        for (text, want) in [
            ("Read(./.env)", Some(Rule::Read("./.env"))),
            ("Edit(/src/**)", Some(Rule::Edit("/src/**"))),
            ("MultiEdit(x)", Some(Rule::Edit("x"))),
            (
                "WebFetch(domain:a.example)",
                Some(Rule::Domain("a.example")),
            ),
            ("WebFetch", Some(Rule::Other)),
            ("Read(*)", Some(Rule::Other)),
            ("Read()", Some(Rule::Other)),
            ("Bash(rm -rf (x))", Some(Rule::Other)),
            ("mcp__a__b", Some(Rule::Other)),
            ("Read(x", None),
            ("Edit(x) y", None),
        ] {
            assert_eq!(parse(text), want, "{text}");
        }
        for (text, want) in [
            ("//etc/x", Start::Absolute("/etc/x")),
            ("/src/**", Start::Root("src/**")),
            ("~/x", Start::Home("/x")),
            ("~", Start::Home("")),
            ("~user/x", Start::Cwd("~user/x")),
            ("./.env", Start::Cwd(".env")),
            ("a/b", Start::Cwd("a/b")),
            ("**", Start::Cwd("**")),
            ("**/.env", Start::Cwd("**/.env")),
            (".env", Start::AnyDepth(".env")),
            ("secrets/", Start::AnyDepth("secrets")),
            ("*.pem", Start::AnyDepth("*.pem")),
        ] {
            assert_eq!(start(text), want, "{text}");
        }
    }
}
