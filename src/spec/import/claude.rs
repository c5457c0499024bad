//! Claude Code's `settings.json`: the `sandbox` block and the permission rules that feed it.

use super::paths::{ALLOW_WRITE, Start};
use super::{Import, shown};
use crate::spec::SpecError;
use crate::spec::json::{Member, Node};
use crate::spec::suggest::nearest;

/// Keys of the top level that count here; a slip in one of them must not pass for a key of another kind.
const KEYS: &[&str] = &["sandbox", "permissions"];
const PERMISSION_KEYS: &[&str] = &[
    "allow",
    "ask",
    "deny",
    "additionalDirectories",
    "blockReadsOutsideWorkingDirectories",
    "defaultMode",
    "disableBypassPermissionsMode",
    "disableAutoMode",
];

/// A `settings.json`.
pub(super) fn settings(import: &mut Import<'_>, members: &[Member]) -> Result<(), SpecError> {
    for m in members {
        match m.key.as_str() {
            "sandbox" => import.sandbox_block(&m.node)?,
            "permissions" => import.permissions(&m.node)?,
            other => match nearest(other, KEYS.iter().copied()) {
                Some(_) => return Err(import.unknown("", m, KEYS)),
                None => import.beside(other),
            },
        }
    }
    Ok(())
}

impl Import<'_> {
    fn permissions(&mut self, node: &Node) -> Result<(), SpecError> {
        for m in self.object("permissions", node)? {
            let what = format!("permissions.{}", m.key);
            match m.key.as_str() {
                "allow" => self.allow_rules(&what, &m.node)?,
                "deny" => self.deny_rules(&what, &m.node)?,
                "ask" => self.ask_rules(&what, &m.node)?,
                "additionalDirectories" => {
                    for (text, span) in self.texts(&what, &m.node)? {
                        let start = match text.strip_prefix('~') {
                            _ if text.starts_with('/') => Start::Absolute(text),
                            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                                Start::Home(rest)
                            }
                            _ => Start::Cwd(text),
                        };
                        // A directory, whatever its name looks like.
                        self.path(start, span, true, ALLOW_WRITE)?;
                    }
                }
                "blockReadsOutsideWorkingDirectories" => {
                    self.bound |= self.bool(&what, &m.node)?;
                }
                // How a session of the other tool begins and what it asks.
                "defaultMode" | "disableBypassPermissionsMode" | "disableAutoMode" => {
                    self.beside(&what);
                }
                other => match nearest(other, PERMISSION_KEYS.iter().copied()) {
                    Some(_) => return Err(self.unknown("permissions", m, PERMISSION_KEYS)),
                    None => self.beside(&what),
                },
            }
        }
        Ok(())
    }

    /// Asking is the other tool's; here nobody is asked.
    fn ask_rules(&mut self, what: &str, node: &Node) -> Result<(), SpecError> {
        let rules = self.texts(what, node)?;
        if let Some((rule, _)) = rules.first() {
            let more = match rules.len() {
                1 => String::new(),
                n => format!(" and {} more", n - 1),
            };
            self.notice(
                &node.span,
                format!(
                    "`{what}` has no effect: nobody is asked in this sandbox (`{}`{more})",
                    shown(rule)
                ),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_key_is_known() {
        super::super::tests::every_key_is_known("permissions", super::PERMISSION_KEYS);
    }
}
