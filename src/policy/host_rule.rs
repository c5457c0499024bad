//! Allow and deny rules for hosts (R42).

/// A compiled rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    /// As written, for messages.
    pub text: String,
    /// `allow_private = true` on this rule.
    pub allow_private: bool,
}

/// Why a rule is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct HostRuleError {
    /// What is wrong.
    pub reason: String,
    /// A suggested spelling.
    pub hint: Option<String>,
}

impl HostRule {
    /// Reads an allow entry.
    ///
    /// # Errors
    /// Anything outside the grammar of R42, with a suggested spelling.
    pub fn parse_allow(_text: &str, _allow_private: bool) -> Result<Self, HostRuleError> {
        unimplemented!("policy::host_rule")
    }

    /// Reads a deny entry; an ambiguous spelling (`::1:443`) yields every reading, the second value says so in words.
    ///
    /// # Errors
    /// As `parse_allow`, but for the ambiguous spellings.
    pub fn parse_deny(_text: &str) -> Result<(Vec<Self>, Option<String>), HostRuleError> {
        unimplemented!("policy::host_rule")
    }
}
