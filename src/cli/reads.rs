//! Refused reads, from the covers to the reporter: which rule refused, and the narrowest line that would allow it (semantics 32).

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::plan::{BookRule, Effect, Plan, hiding, place};
use crate::policy::{Layer, Origin};
use crate::report::event::Event;
use crate::report::{Reporter, Sink, Verbosity, Violation};
use crate::session::covers::{ReadDenial, Tried, Witness};

/// Mere questions that are remembered, so that each is told once.
const REMEMBERED: usize = 1024;

/// Tells the reporter.
pub(super) struct Reads {
    /// The rules that hide.
    rules: Vec<BookRule>,
    report: Arc<Reporter>,
    questions: Questions,
}

impl Reads {
    pub(super) fn new(plan: &Plan, report: &Arc<Reporter>) -> Self {
        let hides = |r: &&BookRule| r.effect == Effect::Hide;
        Self {
            rules: plan.rules.rules.iter().filter(hides).cloned().collect(),
            report: Arc::clone(report),
            questions: Questions::default(),
        }
    }

    fn violation(&self, denial: ReadDenial) -> Violation {
        let on_host = denial.host_path.as_deref().unwrap_or(&denial.path);
        let rule = hiding(&self.rules, on_host);
        let mut target = denial.path.to_string_lossy().into_owned();
        if let Some(host) = &denial.host_path {
            target = format!("{target} ({})", host.display());
        }
        Violation {
            action: match denial.tried {
                Tried::Access => "file-read-metadata",
                Tried::Read | Tried::List | Tried::Lookup | Tried::Other => "file-read-data",
            },
            target,
            process: denial.program,
            pid: denial.pid,
            rule: rule.map_or_else(
                || "hidden".to_owned(),
                |r| format!("{} ({})", r.rule, place(&r.origin)),
            ),
            hint: rule.and_then(|r| hint(&r.origin, on_host)),
        }
    }
}

/// What programs ask before they do anything, and often instead: events have it, each once, standard error only with `-v`.
#[derive(Debug, Default)]
pub(super) struct Questions(Mutex<HashSet<(String, Option<String>)>>);

impl Questions {
    pub(super) fn tell(&self, report: &Reporter, violation: Violation) {
        if report.verbosity() >= Verbosity::Verbose {
            report.violation(violation);
        } else if self.is_new(&violation) {
            report.event(&Event::Violation {
                action: violation.action.to_owned(),
                target: violation.target,
                pid: violation.pid,
                process: violation.process,
                rule: violation.rule,
                hint: violation.hint,
                count: 1,
            });
        }
    }

    fn is_new(&self, v: &Violation) -> bool {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        asked.len() < REMEMBERED && asked.insert((v.target.clone(), v.process.clone()))
    }
}

impl Witness for Reads {
    fn read_denied(&self, denial: ReadDenial) {
        let question = denial.tried == Tried::Access;
        let violation = self.violation(denial);
        if question {
            self.questions.tell(&self.report, violation);
        } else {
            self.report.violation(violation);
        }
    }
}

pub(super) fn hint(origin: &Origin, path: &Path) -> Option<String> {
    let place = place(origin);
    match &origin.layer {
        // A deeper entry wins, and so does one that names the very path (semantics 5).
        Layer::BuiltIn(_) | Layer::Profile(_) => {
            Some(format!("[filesystem] allow_read = [{}]", entry(path)?))
        }
        Layer::Managed => Some(format!("set by {place}")),
        Layer::Flag(flag) => Some(format!("remove {flag}")),
        Layer::User | Layer::Project { .. } | Layer::Spec => Some(format!("remove {place}")),
    }
}

/// A path as an exact entry of a spec; `None` where TOML cannot say it.
pub(super) fn entry(path: &Path) -> Option<String> {
    let text = path.to_str()?;
    let quoted = toml::Value::String(text.replace('$', "$$")).to_string();
    Some(if text.contains(['*', '?', '[']) {
        format!("{{ path = {quoted}, literal = true }}")
    } else {
        quoted
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::plan;
    use super::*;
    use std::path::PathBuf;

    fn origin(layer: Layer, line: Option<u32>) -> Origin {
        Origin {
            layer,
            file: line.map(|_| PathBuf::from("/s/spec.toml")),
            line,
        }
    }

    fn denial(tried: Tried, path: &str) -> ReadDenial {
        ReadDenial {
            tried,
            path: path.into(),
            host_path: None,
            pid: Some(7),
            program: Some("cat".into()),
        }
    }

    #[test]
    fn a_line_names_the_deepest_rule_and_what_lifts_it() {
        let mut plan = plan();
        let rule = |path: &str, rule: &str, origin| BookRule {
            effect: Effect::Hide,
            path: path.into(),
            rule: rule.into(),
            origin,
        };
        plan.rules.rules = vec![
            rule(
                "/h/.ssh",
                "secret \"~/.ssh\"",
                origin(Layer::BuiltIn("secrets"), None),
            ),
            rule("/h", "deny_read \"/h\"", origin(Layer::Spec, Some(3))),
        ];
        let reads = Reads::new(&plan, &Arc::new(Reporter::stderr(Verbosity::Quiet)));
        let v = reads.violation(denial(Tried::Lookup, "/h/.ssh/id"));
        assert_eq!(
            (v.action, v.target.as_str(), v.rule.as_str()),
            (
                "file-read-data",
                "/h/.ssh/id",
                "secret \"~/.ssh\" (built-in secrets)"
            )
        );
        assert_eq!(
            v.hint.as_deref(),
            Some("[filesystem] allow_read = [\"/h/.ssh/id\"]")
        );
        let moved = ReadDenial {
            host_path: Some("/h/x".into()),
            ..denial(Tried::Access, "/g/x")
        };
        let v = reads.violation(moved);
        assert_eq!(
            (v.action, v.target.as_str(), v.hint.as_deref()),
            (
                "file-read-metadata",
                "/g/x (/h/x)",
                Some("remove /s/spec.toml:3")
            )
        );
    }

    #[test]
    fn hints_by_layer() {
        let path = Path::new("/h/a$b[1]");
        let table = [
            (
                Layer::Profile("dev".into()),
                Some("[filesystem] allow_read = [{ path = \"/h/a$$b[1]\", literal = true }]"),
            ),
            (Layer::Flag("--deny-read"), Some("remove --deny-read")),
            (Layer::Managed, Some("set by /s/spec.toml:9")),
            (Layer::User, Some("remove /s/spec.toml:9")),
        ];
        for (layer, wanted) in table {
            assert_eq!(hint(&origin(layer, Some(9)), path).as_deref(), wanted);
        }
    }
}
