//! What the kernel of macOS refused, from its log to the reporter: the same lines as on Linux (R70), with the key that would open it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use super::connects;
use super::reads::{self, entry};
use super::writes::Writes;
use crate::backend::seatbelt::{Door, door, is_scripting};
use crate::broker::supervise::Unreached;
use crate::host::HostFacts;
use crate::plan::seatbelt::SeatbeltRules;
use crate::plan::{self, Plan, hiding, place};
use crate::report::{Reporter, Sink, Verbosity, Violation};
use crate::session::seatbelt::Witness;
use crate::session::seatbelt::log::Denial;

/// One report of the kernel may stand for many; more than these are as many.
const MOST: u64 = 1000;
/// Where temporary files of every user are.
const SHARED_TEMPORARIES: [&str; 4] = ["/private/tmp", "/private/var/tmp", "/tmp", "/var/tmp"];

/// Tells the reporter.
pub(super) struct Refusals {
    plan: Arc<Plan>,
    rules: SeatbeltRules,
    writes: Writes,
    report: Arc<Reporter>,
}

/// The rule in words, and what would open it.
type Reason = (String, Option<String>);

impl Refusals {
    /// `plan` explains the rules of the profile.
    pub(super) fn new(
        plan: Arc<Plan>,
        rules: &SeatbeltRules,
        host: &HostFacts,
        report: &Arc<Reporter>,
    ) -> Self {
        Self {
            writes: Writes::new(&plan, &host.home_real, report),
            plan,
            rules: rules.clone(),
            report: Arc::clone(report),
        }
    }

    fn reason(&self, action: &str, target: &str) -> Reason {
        let path = Path::new(target);
        match action {
            "file-clone" | "file-search" => self.read(path),
            read if read.starts_with("file-read") => self.read(path),
            "file-ioctl" => said("input cannot be pushed into a terminal"),
            "file-mount" | "file-write-mount" | "file-write-umount" => {
                said("nothing is mounted inside")
            }
            "file-link" | "file-mknod" => self.write(path, "create"),
            write if write.starts_with("file-write") => self.write(path, asked(write)),
            exec if exec.starts_with("process-exec") => self.program(path),
            "network-outbound" => self.connection(target),
            "network-bind" | "network-inbound" => (
                "no port of the host is listened on".to_owned(),
                Some("[network] allow_local_binding = true".to_owned()),
            ),
            "mach-lookup" => service(target),
            "appleevent-send" | "lsopen" => apple_events(),
            "job-creation" => said("nothing is started outside of the sandbox"),
            "signal" => said("signals reach processes of this run only"),
            "user-preference-write" => said("preferences of the user are not changed"),
            "forbidden-sandbox-reinit" => {
                said("macOS applies no second sandbox inside of one; switch the program's own off")
            }
            "forbidden-exec-sugid" => {
                said("programs that run as another user are not run in a sandbox")
            }
            _ => said("the sandbox of macOS"),
        }
    }

    fn read(&self, path: &Path) -> Reason {
        match hiding(&self.plan.rules.rules, path) {
            Some(rule) => (
                format!("{} ({})", rule.rule, place(&rule.origin)),
                reads::hint(&rule.origin, path),
            ),
            None if plan::check::read(&self.plan, path).allowed => said("hidden"),
            None => (
                "it is not shown inside".to_owned(),
                entry(path).map(|path| format!("[filesystem] allow_read = [{path}]")),
            ),
        }
    }

    fn write(&self, path: &Path, asked: &str) -> Reason {
        if self.rules.unmade.contains(path) || self.rules.pins.contains(path) {
            return said("a closed name lies below");
        }
        let closed = self.writes.closed(path, asked);
        let ungranted = closed
            .as_ref()
            .is_none_or(|(rule, _)| rule == plan::check::UNGRANTED);
        if ungranted && SHARED_TEMPORARIES.iter().any(|dir| path.starts_with(dir)) {
            return said("it is everybody's; temporary files go to $TMPDIR");
        }
        closed.unwrap_or_else(|| said("the profile of this run"))
    }

    fn program(&self, path: &Path) -> Reason {
        if self
            .plan
            .exec
            .as_ref()
            .is_some_and(|rule| rule.denies(path))
        {
            let line = entry(path).map(|path| format!("exec_grant_roots = [{path}]"));
            return (plan::check::exec(&self.plan, path).rule, line);
        }
        if !plan::check::read(&self.plan, path).allowed {
            return self.read(path);
        }
        if path.to_str().is_some_and(is_scripting) {
            return apple_events();
        }
        said("a program that leads out of the sandbox")
    }

    /// `HOST:PORT`, `remote:*:PORT`, or the path of a socket.
    fn connection(&self, target: &str) -> Reason {
        if target.starts_with('/') {
            let path = Path::new(target);
            if self.rules.closed_sockets.contains(path) {
                return said("a socket of the host that leads everywhere, no entry opens it");
            }
            return (
                "a socket of the host".to_owned(),
                entry(path).map(|path| format!("[network] allow_unix_sockets = [{path}]")),
            );
        }
        let around = "it went around the proxy in HTTP_PROXY, the only way out";
        let Ok(to) = target.parse::<SocketAddr>() else {
            return said(around);
        };
        let violation = connects::violation(
            &self.plan.network.egress,
            &Unreached {
                to,
                datagrams: false,
                asks: false,
                pid: 0,
                program: String::new(),
            },
        );
        (violation.rule, violation.hint)
    }
}

fn said(rule: &str) -> Reason {
    (rule.to_owned(), None)
}

fn apple_events() -> Reason {
    (
        "programs outside of the sandbox are not driven from inside".to_owned(),
        Some("[macos] allow_apple_events = true".to_owned()),
    )
}

fn service(name: &str) -> Reason {
    match door(name) {
        Some(Door::Keychain) => (
            "the keychain".to_owned(),
            Some("[macos] keychain = \"allow\"".to_owned()),
        ),
        Some(Door::AppleEvents) => apple_events(),
        Some(Door::Network) => said("it fetches past the proxy in HTTP_PROXY, the only way out"),
        Some(Door::Closed) | None => said("a service that leads out of the sandbox"),
    }
}

/// In the words of the broker.
fn asked(action: &str) -> &'static str {
    match action {
        "file-write-create" => "create",
        "file-write-unlink" => "unlink",
        "file-write-mode" => "chmod",
        "file-write-owner" => "chown",
        "file-write-times" => "utime",
        "file-write-xattr" => "xattr",
        _ => "write",
    }
}

impl Witness for Refusals {
    fn denied(&self, denial: Denial) {
        let (rule, hint) = self.reason(denial.action, &denial.target);
        let violation = Violation {
            action: denial.action,
            target: denial.target,
            process: Some(denial.process).filter(|name| !name.is_empty()),
            pid: Some(denial.pid),
            rule,
            hint,
        };
        for _ in 1..denial.count.min(MOST) {
            self.report.violation(violation.clone());
        }
        self.report.violation(violation);
    }

    fn hears_noise(&self) -> bool {
        self.report.verbosity() >= Verbosity::Verbose
    }

    fn blind(&self, why: &str) {
        self.report
            .warn(&format!("what the sandbox refuses is not told: {why}"));
    }
}

#[cfg(test)]
mod tests;
