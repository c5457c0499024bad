//! Refused calls, from the broker to the reporter: Seatbelt's name of the operation, which rule refused, and the narrowest line that
//! would allow it (R70, semantics 32).

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::connects;
use super::learn::Learned;
use super::reads::{self, Questions, entry};
use crate::broker::decide::Rule;
use crate::broker::git_paths;
use crate::broker::plan::NamedRule;
use crate::broker::reads::Hidden;
use crate::broker::supervise::{Cause, Denial, Holder, Sink, Touch, Unreached};
use crate::host::{FsView, RealFs};
use crate::plan::{self, Plan, place};
use crate::policy::path::{ListKind, PathEntry};
use crate::policy::pattern::PathPattern;
use crate::policy::{Layer, Origin};
use crate::proxy::catch::Book;
use crate::report::access::{Access, AccessLog, Decision, Front};
use crate::report::{Reporter, Sink as _, Verbosity, Violation};

/// What changes an object and no directory.
const IN_PLACE: [&str; 6] = ["write", "truncate", "chmod", "chown", "utime", "xattr"];

/// Names that programs try where they may not write, and do without.
const NOISE: &str = include_str!("../policy/data/noise.txt");

/// Tells the reporter.
pub(super) struct Writes {
    plan: Arc<Plan>,
    /// The caller's home directory, link-free.
    home: PathBuf,
    report: Arc<Reporter>,
    noise: OnceLock<Vec<PathPattern>>,
    questions: Questions,
    /// Of caught connections, where they are.
    names: Option<Book>,
    access: Option<Arc<AccessLog>>,
    learned: Option<Arc<Learned>>,
}

impl Writes {
    pub(super) fn new(plan: &Arc<Plan>, home: &Path, report: &Arc<Reporter>) -> Self {
        Self {
            plan: Arc::clone(plan),
            home: home.to_path_buf(),
            report: Arc::clone(report),
            noise: OnceLock::new(),
            questions: Questions::default(),
            names: None,
            access: None,
            learned: None,
        }
    }

    /// With an access log.
    pub(super) fn logging(mut self, access: Option<Arc<AccessLog>>) -> Self {
        self.access = access;
        self
    }

    /// With somebody who takes what calls touch.
    pub(super) fn learning(mut self, learned: Option<Arc<Learned>>) -> Self {
        self.learned = learned;
        self
    }

    fn log(&self, access: &Access) {
        let told = self.access.as_ref().and_then(|log| log.append(access));
        if let Some(told) = told {
            self.report.warn(&told);
        }
    }

    /// Connections without a proxy are caught, and the addresses of names are in this book.
    pub(super) fn with_names(self, names: Option<Book>) -> Self {
        Self { names, ..self }
    }

    fn violation(&self, denial: Denial) -> Violation {
        let elsewhere = denial
            .host_path
            .clone()
            .or_else(|| plan::check::elsewhere(&self.plan, &denial.path));
        let on_host = elsewhere.as_deref().unwrap_or(&denial.path);
        let (rule, hint) = self.reason(&denial, on_host);
        let mut target = denial.path.to_string_lossy().into_owned();
        if let Some(host) = &elsewhere {
            target = format!("{target} ({})", host.display());
        }
        Violation {
            action: action(denial.action),
            target,
            process: Some(denial.program),
            pid: Some(denial.pid),
            rule,
            hint,
        }
    }

    /// The rule in words, and what would allow it.
    fn reason(&self, denial: &Denial, on_host: &Path) -> (String, Option<String>) {
        match &denial.cause {
            Cause::Rule(index) => {
                let rules = self.plan.broker.as_ref().map(|b| &b.rules);
                match rules.and_then(|rules| rules.get(*index)) {
                    // What moves is not what the rule names, and no single line opens the one and the other.
                    Some(rule) if denial.action == "move" => {
                        (format!("it holds a closed name: {}", words(rule)), None)
                    }
                    Some(rule) => (words(rule), rule_hint(rule, on_host)),
                    None => ("a rule of this run".to_owned(), None),
                }
            }
            Cause::Git(why) => {
                let preset = git_paths::is_preset(why);
                let line = "[filesystem] protect_git = false".to_owned();
                (plan::git_words(why), preset.then_some(line))
            }
            Cause::BareRepository => (plan::BARE_REPOSITORY.to_owned(), None),
            Cause::ShortName => (plan::SHORT_NAME.to_owned(), None),
            Cause::Unsupported => ("not carried out in a sandbox".to_owned(), None),
            Cause::Hidden(index) => {
                let reads = self.plan.broker.as_ref().and_then(|b| b.reads.as_ref());
                match reads.and_then(|reads| reads.rules.get(*index)) {
                    Some(rule) => (
                        format!("{} ({})", rule.words, place(&rule.origin)),
                        read_hint(&rule.names, &rule.origin, on_host),
                    ),
                    None => ("hidden".to_owned(), None),
                }
            }
            Cause::NotShown => (
                "it is not shown inside".to_owned(),
                entry(on_host).map(|path| format!("[filesystem] allow_read = [{path}]")),
            ),
            Cause::Beside => (
                "made or replaced on the host during this run, beside a hidden file; readable in the next one".to_owned(),
                None,
            ),
            Cause::Socket { always } => {
                let line =
                    entry(on_host).map(|path| format!("[network] allow_unix_sockets = [{path}]"));
                let rule = if *always {
                    "a socket of the host that leads everywhere, no entry opens it"
                } else {
                    "a socket of the host"
                };
                (rule.to_owned(), line.filter(|_| !always))
            }
            Cause::Program => {
                let line = entry(on_host).map(|path| format!("exec_grant_roots = [{path}]"));
                (plan::check::exec(&self.plan, &denial.path).rule, line)
            }
            Cause::ReadOnly => {
                let answer = plan::check::write(&self.plan, &RealFs, &denial.path);
                let hint = plan::check::write_change(&self.plan, &denial.path)
                    .and_then(|change| self.change_hint(&change, denial.action));
                (answer.rule, hint)
            }
        }
    }

    /// The rule that keeps a path of the host from being written, and what would open it; `None` where none does.
    pub(super) fn closed(&self, path: &Path, asked: &str) -> Option<(String, Option<String>)> {
        let answer = plan::check::write(&self.plan, &RealFs, path);
        if answer.allowed {
            return None;
        }
        let rules = self.plan.broker.as_ref().map(|b| &b.rules);
        let named = rules.into_iter().flatten().find(|rule| {
            Some(&rule.origin) == answer.origin.as_ref() && answer.rule.starts_with(&rule.words)
        });
        let hint = match named {
            Some(rule) => rule_hint(rule, path),
            None => plan::check::write_change(&self.plan, path)
                .and_then(|change| self.change_hint(&change, asked)),
        };
        Some((answer.rule, hint))
    }

    /// What would let a write to this path succeed that a rule in these words denies: what a report of it would say.
    pub(super) fn would_allow(&self, path: &Path, rule: &str) -> Option<String> {
        let rules = self.plan.broker.iter().flat_map(|b| b.rules.iter());
        let named =
            |named: &&NamedRule| format!("{} ({})", named.words, place(&named.origin)) == rule;
        if let Some(named) = rules.into_iter().find(named) {
            return rule_hint(named, path);
        }
        let change = plan::check::write_change(&self.plan, path)?;
        let asked = if RealFs.kind(path).is_some() {
            "write"
        } else {
            "create"
        };
        self.change_hint(&change, asked)
    }

    /// What would make a read-only place writable.
    fn change_hint(&self, change: &plan::check::Change, asked: &str) -> Option<String> {
        match change {
            plan::check::Change::Remove { rule, origin } => removal(rule, origin),
            plan::check::Change::Grant { path, shown_by } => {
                // An entry is made, removed or replaced in its directory; only what is changed in place can be granted alone.
                if path.starts_with(self.home.join(plan::AGENT_HOME_NAME)) {
                    return None;
                }
                let there_already = shown_by.is_none() && RealFs.kind(path).is_some();
                // A directory that is not shown: whoever makes it wants to find it (`mkdir -p`).
                if there_already && asked == "mkdir" {
                    return Some(format!("[filesystem] allow_read = [{}]", entry(path)?));
                }
                let alone = IN_PLACE.contains(&asked) || there_already && asked == "create";
                let there = if alone { path } else { path.parent()? };
                if let Some(shown) = shown_by
                    && (shown.moved || shown.path.starts_with(there))
                {
                    return writable_hint(&shown.origin);
                }
                if !alone && self.is_wide(there) {
                    let makes = matches!(asked, "create" | "mkdir") && self.home == there;
                    let line = format!("[filesystem] allow_write = [{}]", entry(path)?);
                    return makes.then(|| format!("make it outside, then {line}"));
                }
                RealFs.kind(there)?;
                Some(format!("[filesystem] allow_write = [{}]", entry(there)?))
            }
        }
    }

    /// Nobody means to open this for one entry: home, what lies above it, and the directories of the system.
    fn is_wide(&self, dir: &Path) -> bool {
        self.home.starts_with(dir) || plan::is_system(dir)
    }

    /// A program that tries its lock or its cache where it may not write, and goes on without (linux-engine.md P10).
    fn is_noise(&self, denial: &Denial) -> bool {
        denial.cause == Cause::ReadOnly
            && self
                .noise
                .get_or_init(noise)
                .iter()
                .any(|p| p.covers(&denial.path, Path::new("/")))
    }
}

impl Sink for Writes {
    fn denied(&self, denial: Denial) {
        if self.report.verbosity() < Verbosity::Verbose && self.is_noise(&denial) {
            return;
        }
        let connects = denial.action == "connect";
        let violation = self.violation(denial);
        if connects {
            let mut access = Access::new(Front::Unix, &violation.target, Decision::Deny);
            access.rule = Some(violation.rule.clone());
            access.reason = Some("not-allowed");
            access.pid = violation.pid;
            access.process.clone_from(&violation.process);
            self.log(&access);
        }
        self.report.violation(violation);
    }

    fn connected(&self, path: &Path, pid: i32, program: String) {
        let mut access = Access::new(Front::Unix, path.to_string_lossy(), Decision::Allow);
        access.pid = Some(pid);
        access.process = Some(program);
        self.log(&access);
    }

    fn wants_connections(&self) -> bool {
        self.access.is_some()
    }

    fn wants_touched(&self) -> bool {
        self.learned.is_some()
    }

    fn touched(&self, path: &Path, touch: Touch) {
        if let Some(learned) = &self.learned {
            learned.touched(path, touch);
        }
    }

    fn unreached(&self, unreached: Unreached) {
        let names = self.names.as_ref();
        let violation = connects::violation(&self.plan.network, names, &unreached);
        if unreached.asks {
            self.questions.tell(&self.report, violation);
        } else {
            self.report.violation(violation);
        }
    }

    fn held_up(&self, by: Option<Holder>) {
        let who = match by {
            Some(Holder { pid, stopped: true }) => format!(
                "process {pid} is stopped while it holds the lock that all runs of the user share (`kill -CONT {pid}` lets it go on)"
            ),
            Some(Holder { pid, .. }) => {
                format!("process {pid} does not let go of the lock that all runs of the user share")
            }
            None => {
                "another run does not let go of the lock that all runs of the user share".to_owned()
            }
        };
        self.report.warn(&format!(
            "{who}; until it does, changes of files fail with EIO"
        ));
    }

    fn closes_programs(&self) -> bool {
        self.plan.exec.is_some()
    }

    fn closes_program(&self, path: &Path) -> bool {
        let rule = self.plan.exec.as_ref();
        rule.is_some_and(|rule| rule.denies(path))
    }
}

fn noise() -> Vec<PathPattern> {
    let root = Path::new("/");
    NOISE
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
        .filter_map(|l| PathEntry::parse(l, false, ListKind::DenyWrite, root, root).ok())
        .filter_map(|entry| match entry {
            PathEntry::Pattern(pattern) => Some(pattern),
            PathEntry::Exact(_) => None,
        })
        .collect()
}

/// Seatbelt has no name for renaming: it is a removal where the object was, and a creation where it goes.
fn action(asked: &str) -> &'static str {
    match asked {
        "unlink" | "rmdir" | "rename" | "move" => "file-write-unlink",
        "create" | "mkdir" | "symlink" | "mknod" | "bind" | "rename-to" => "file-write-create",
        "link" => "file-link",
        "chmod" => "file-write-mode",
        "chown" => "file-write-owner",
        "utime" => "file-write-times",
        "xattr" => "file-write-xattr",
        "write" | "truncate" => "file-write-data",
        "read" => "file-read-data",
        "exec" => "process-exec",
        "connect" => "network-outbound",
        _ => "file-write",
    }
}

/// A pattern is not lifted by anything (semantics 5).
fn read_hint(names: &Hidden, origin: &Origin, on_host: &Path) -> Option<String> {
    match names {
        Hidden::Path(_) => reads::hint(origin, on_host),
        Hidden::Pattern(_) => removal("", origin),
    }
}

/// What no entry of any spec opens.
const ALWAYS: &str = ", no entry lifts it";

/// A rule with its place, and whether there is any way around it.
fn words(rule: &NamedRule) -> String {
    let liftable = matches!(rule.rule, Rule::Pattern { liftable: true, .. });
    let always = matches!(rule.origin.layer, Layer::BuiltIn(_)) && !liftable;
    let note = if always { ALWAYS } else { "" };
    format!("{} ({}{note})", rule.words, place(&rule.origin))
}

/// For mandatory names and protected paths there is only the reason.
fn rule_hint(rule: &NamedRule, on_host: &Path) -> Option<String> {
    if let Rule::Pattern { liftable: true, .. } = rule.rule {
        return Some(format!("[filesystem] allow_create = [{}]", entry(on_host)?));
    }
    removal(&rule.words, &rule.origin)
}

/// What of a rule can be taken away.
fn removal(words: &str, origin: &Origin) -> Option<String> {
    // What keeps the file that holds the rules has no line in it.
    let own = origin.file.is_some() && origin.line.is_none();
    if words.starts_with("protected_paths ") || own {
        return None;
    }
    let place = place(origin);
    match &origin.layer {
        Layer::BuiltIn(_) | Layer::Profile(_) => None,
        Layer::Managed => Some(format!("set by {place}")),
        Layer::Flag(flag) => Some(format!("remove {flag}")),
        Layer::User | Layer::Project { .. } | Layer::Spec => Some(format!("remove {place}")),
    }
}

/// What makes a read-only grant a writable one.
fn writable_hint(origin: &Origin) -> Option<String> {
    let place = place(origin);
    match &origin.layer {
        Layer::BuiltIn(_) | Layer::Profile(_) => None,
        Layer::Managed => Some(format!("set by {place}")),
        Layer::Flag(flag) => Some(format!("--rw instead of {flag}")),
        Layer::User | Layer::Project { .. } | Layer::Spec => {
            Some(format!("remove read_only from {place}"))
        }
    }
}

#[cfg(test)]
mod tests;
