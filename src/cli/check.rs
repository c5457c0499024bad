//! `ccbox check`: allowed or denied, and by which rule. Exit 0, 1, and 125 on error.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;

use super::args::{CheckArgs, CheckKind};
use super::context::{Extra, Prepared, prepare};
use super::machine::Machine;
use super::usage::UsageError;
use super::{Ending, Fault, rooms};
use crate::exit;
use crate::host::HostFacts;
use crate::policy::egress::Decision;
use crate::policy::host::Authority;
use crate::report::{self, text};
use crate::spec::SpecSource;

/// The port asked about where none is typed.
const DEFAULT_PORT: u16 = 443;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    /// The rule, in words.
    pub(super) rule: String,
    /// What would change it.
    pub(super) hint: Option<String>,
}

/// Answers one question.
pub(super) fn check(
    args: &CheckArgs,
    specs: Vec<SpecSource>,
    machine: &Machine,
) -> Result<Ending, Fault> {
    let host = HostFacts::collect()?;
    let ready = prepare(host, &args.policy, specs, &[], Extra::default(), machine)?;
    let answer = match args.kind {
        CheckKind::Host => host_answer(&ready, args.target.as_bytes())?,
        CheckKind::Read | CheckKind::Write | CheckKind::Exec => {
            rooms::check_path(&ready, args.kind, args.target.as_ref())
        }
    };
    report::answer(render(&answer).as_bytes()).map_err(|e| UsageError {
        message: format!("cannot write to standard output: {}", exit::reason(&e)),
        hint: None,
    })?;
    Ok(Ending::Code(u8::from(!answer.allowed)))
}

/// Decides by name, as the proxies do before they resolve anything; the addresses behind a name are checked when dialled.
fn host_answer(ready: &Prepared, target: &[u8]) -> Result<Answer, UsageError> {
    let asked = Authority::parse(target, Some(DEFAULT_PORT)).map_err(|e| UsageError {
        message: format!("`{}`: {e}", String::from_utf8_lossy(target)),
        hint: Some("HOST, HOST:PORT, [IPv6] or [IPv6]:PORT, without a scheme or a path".to_owned()),
    })?;
    Ok(
        match ready.plan.network.egress.decide(&asked.host, asked.port) {
            Decision::Allow(grant) => Answer {
                allowed: true,
                rule: grant.rule,
                hint: None,
            },
            Decision::Deny(denial) => Answer {
                allowed: false,
                rule: denial.rule,
                hint: denial.hint.map(|h| h.to_string()),
            },
        },
    )
}

fn render(a: &Answer) -> String {
    let word = if a.allowed { "allowed" } else { "denied" };
    let mut out = format!("{word}: {}\n", text::escape(&a.rule));
    if let Some(hint) = &a.hint {
        let _ = writeln!(out, "hint: {}", text::escape(hint));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_word_a_rule_and_a_hint() {
        let a = Answer {
            allowed: false,
            rule: "not on the allow list".into(),
            hint: Some("[network] allowed_domains = [\"x\"]".into()),
        };
        assert_eq!(
            render(&a),
            "denied: not on the allow list\nhint: [network] allowed_domains = [\"x\"]\n"
        );
        let b = Answer {
            allowed: true,
            rule: "baseline".into(),
            hint: None,
        };
        assert_eq!(render(&b), "allowed: baseline\n");
    }
}
