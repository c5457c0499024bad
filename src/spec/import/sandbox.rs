//! The tables around `network`: srt's whole file, Claude Code's `sandbox` block, and `filesystem` of both.

use super::Import;
use super::paths::{ALLOW_READ, ALLOW_WRITE, DENY_READ, DENY_WRITE};
use crate::spec::SpecError;
use crate::spec::json::{Member, Node};

/// srt's file, and what Claude Code passes on to it.
const KEYS: &[&str] = &[
    "network",
    "filesystem",
    "credentials",
    "ignoreViolations",
    "enableWeakerNestedSandbox",
    "allowNestedUserNamespaces",
    "enableWeakerNetworkIsolation",
    "allowAppleEvents",
    "allowPty",
    "mandatoryDenySearchDepth",
    "ripgrep",
    "bwrapPath",
    "socatPath",
    "seccomp",
    "javaAgentJarPath",
    "git",
    "windows",
    "$schema",
];
/// Claude Code's own.
const CLAUDE_KEYS: &[&str] = &[
    "enabled",
    "failIfUnavailable",
    "autoAllowBashIfSandboxed",
    "allowUnsandboxedCommands",
    "excludedCommands",
    "enabledPlatforms",
];
const FILESYSTEM_KEYS: &[&str] = &[
    "denyRead",
    "allowRead",
    "allowWrite",
    "denyWrite",
    "disabled",
    "allowGitConfig",
    "allowManagedReadPathsOnly",
];

/// An srt settings file.
pub(super) fn srt(import: &mut Import<'_>, members: &[Member]) -> Result<(), SpecError> {
    for m in members {
        import.sandbox_key("", m, KEYS)?;
    }
    Ok(())
}

impl Import<'_> {
    /// `sandbox` of Claude Code.
    pub(super) fn sandbox_block(&mut self, node: &Node) -> Result<(), SpecError> {
        let all: Vec<&str> = CLAUDE_KEYS.iter().chain(KEYS).copied().collect();
        for m in self.object("sandbox", node)? {
            if CLAUDE_KEYS.contains(&m.key.as_str()) {
                self.claude_key(m)?;
            } else {
                self.sandbox_key("sandbox", m, &all)?;
            }
        }
        Ok(())
    }

    fn claude_key(&mut self, m: &Member) -> Result<(), SpecError> {
        let node = &m.node;
        let what = format!("sandbox.{}", m.key);
        match m.key.as_str() {
            "enabled" => {
                if !self.bool(&what, node)? {
                    self.notice(
                        &node.span,
                        "`sandbox.enabled` = false has no effect: `--sandbox off` runs a command without the sandbox",
                    );
                }
            }
            "failIfUnavailable" => {
                let required = self.bool(&what, node)?;
                if required {
                    self.out.text("", "sandbox", "require", node.span.clone());
                } else if !self
                    .not_from_repository(&node.span, "`sandbox.failIfUnavailable` = false")
                {
                    self.out.text("", "sandbox", "on", node.span.clone());
                }
            }
            "allowUnsandboxedCommands" => {
                if self.bool(&what, node)? {
                    self.notice(
                        &node.span,
                        "`sandbox.allowUnsandboxedCommands` has no effect: no command asks its way out of this sandbox",
                    );
                }
            }
            "excludedCommands" => {
                let commands = self.texts(&what, node)?;
                if !commands.is_empty() {
                    self.notice(
                        &node.span,
                        "`sandbox.excludedCommands` has no effect: every command runs inside",
                    );
                }
            }
            // Which commands are asked about, and on which systems the other tool makes a sandbox.
            _ => self.beside(&what),
        }
        Ok(())
    }

    fn sandbox_key(&mut self, place: &str, m: &Member, known: &[&str]) -> Result<(), SpecError> {
        let node = &m.node;
        let what = match place {
            "" => m.key.clone(),
            _ => format!("{place}.{}", m.key),
        };
        match m.key.as_str() {
            "network" => self.network(&what, node),
            "filesystem" => self.filesystem(&what, node),
            "credentials" => self.credentials(&what, node),
            "enableWeakerNestedSandbox" => self.no_effect(
                &what,
                node,
                "where the whole sandbox cannot be made, the call is refused",
            ),
            "allowNestedUserNamespaces" => self.no_effect(
                &what,
                node,
                "no command makes namespaces inside, because that is a way around protected paths",
            ),
            "enableWeakerNetworkIsolation" => self.macos(&what, node, "weaker_network_isolation"),
            "allowAppleEvents" => self.macos(&what, node, "allow_apple_events"),
            "git" => {
                if !self.object(&what, node)?.is_empty() {
                    self.notice(
                        &node.span,
                        format!("`{what}` has no effect: git's own `safe.directory` counts"),
                    );
                }
                Ok(())
            }
            // The terminal is always the caller's, names hold at any depth, no helper is needed, every denial is told.
            "ignoreViolations"
            | "allowPty"
            | "mandatoryDenySearchDepth"
            | "ripgrep"
            | "bwrapPath"
            | "socatPath"
            | "seccomp"
            | "javaAgentJarPath"
            | "windows"
            | "$schema" => {
                self.beside(&what);
                Ok(())
            }
            _ => Err(self.unknown(place, m, known)),
        }
    }

    fn no_effect(&mut self, what: &str, node: &Node, why: &str) -> Result<(), SpecError> {
        if self.bool(what, node)? {
            self.notice(&node.span, format!("`{what}` has no effect: {why}"));
        }
        Ok(())
    }

    fn macos(&mut self, what: &str, node: &Node, key: &'static str) -> Result<(), SpecError> {
        let value = self.bool(what, node)?;
        if !value || !self.not_from_repository(&node.span, &format!("`{what}`")) {
            self.out.bool("macos", key, value, node.span.clone());
        }
        Ok(())
    }

    fn filesystem(&mut self, place: &str, node: &Node) -> Result<(), SpecError> {
        for m in self.object(place, node)? {
            let what = format!("{place}.{}", m.key);
            let list = match m.key.as_str() {
                "denyRead" => DENY_READ,
                "allowRead" => ALLOW_READ,
                "allowWrite" => ALLOW_WRITE,
                "denyWrite" => DENY_WRITE,
                _ => {
                    self.filesystem_switch(place, &what, m)?;
                    continue;
                }
            };
            for item in self.list(&what, &m.node)? {
                self.path_entry(&what, item, list)?;
            }
        }
        Ok(())
    }

    fn filesystem_switch(&mut self, place: &str, what: &str, m: &Member) -> Result<(), SpecError> {
        let node = &m.node;
        match m.key.as_str() {
            "disabled" => {
                let off = self.bool(what, node)?;
                if !off || !self.not_from_repository(&node.span, &format!("`{what}`")) {
                    self.out
                        .bool("filesystem", "disabled", off, node.span.clone());
                }
                Ok(())
            }
            "allowGitConfig" => self.no_effect(
                what,
                node,
                "git configuration that runs programs stays closed, the rest can be written",
            ),
            "allowManagedReadPathsOnly" => self.no_effect(
                what,
                node,
                "`managed.allow_managed_read_paths_only` stands in the managed file of ccbox",
            ),
            _ => Err(self.unknown(place, m, FILESYSTEM_KEYS)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_known() {
        let check = super::super::tests::every_key_is_known;
        check("", KEYS);
        check("filesystem", FILESYSTEM_KEYS);
        check("sandbox", KEYS);
        check("sandbox", CLAUDE_KEYS);
    }
}
