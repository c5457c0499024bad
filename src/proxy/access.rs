//! What the proxies tell the access log, where there is one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Process;
use super::client_hello::{self, Hello};
use super::dial::DialError;
use crate::policy::egress::Denial;
use crate::policy::host::{Authority, Host};
use crate::report::Sink;
use crate::report::access::{Access, AccessLog, Decision, Front};

tokio::task_local! {
    /// Which way the connection came that this task serves.
    pub(super) static FRONT: Front;
}

/// The front of this task. Only the HTTP front goes on in tasks of its own.
fn front() -> Front {
    FRONT.try_with(|front| *front).unwrap_or(Front::Http)
}

/// What a tunnel has carried.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// From the client.
    pub(super) up: AtomicU64,
    /// To the client.
    pub(super) down: AtomicU64,
    /// The name in the client's TLS hello.
    pub(super) sni: std::sync::OnceLock<String>,
}

impl Counts {
    /// Looks at the first bytes of the client.
    pub(super) fn first(&self, bytes: &[u8]) {
        if let Hello::Tls(Some(name)) = client_hello::parse(bytes)
            && let Ok(Host::Name(name)) = Host::parse(&name)
        {
            // Looked at once.
            let _ = self.sni.set(name);
        }
    }
}

/// The log, and who is told that it cannot be written.
#[derive(Clone)]
pub(super) struct Accesses {
    log: Arc<AccessLog>,
    sink: Arc<dyn Sink>,
}

impl std::fmt::Debug for Accesses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Accesses").finish_non_exhaustive()
    }
}

impl Accesses {
    pub(super) fn new(log: Arc<AccessLog>, sink: Arc<dyn Sink>) -> Self {
        Self { log, sink }
    }

    fn write(&self, access: &Access) {
        if let Some(told) = self.log.append(access) {
            self.sink.warn(&told);
        }
    }

    /// A refusal.
    pub(super) fn refused(&self, target: &str, denial: &Denial, process: Option<&Process>) {
        let mut access = Access::new(front(), target, Decision::Deny);
        access.rule = Some(denial.rule.clone());
        access.reason = Some(denial.reason.word());
        access.pid = process.map(|p| p.pid);
        access.process = process.map(|p| p.name.clone());
        self.write(&access);
    }

    /// No connection to an allowed destination. A refusal by its address is told as one.
    pub(super) fn failed(&self, to: &Authority, rule: Option<String>, error: &DialError) {
        if matches!(error, DialError::Denied(_)) {
            return;
        }
        let mut access = Access::new(front(), to.to_string(), Decision::Allow);
        access.rule = rule;
        access.error = Some(error.to_string());
        self.write(&access);
    }

    /// A connection that begins; told when it ends.
    pub(super) fn begin(&self, target: String, rule: Option<String>) -> Entry {
        let mut access = Access::new(front(), target, Decision::Allow);
        access.rule = rule;
        Entry {
            to: self.clone(),
            access,
            begun: Instant::now(),
            counts: Arc::default(),
            untold: false,
        }
    }
}

/// A connection while it lasts; dropped, it is told.
#[derive(Debug)]
pub(super) struct Entry {
    to: Accesses,
    pub(super) access: Access,
    begun: Instant,
    pub(super) counts: Arc<Counts>,
    untold: bool,
}

impl Entry {
    /// It ends in a refusal, which is told instead.
    pub(super) fn forget(mut self) {
        self.untold = true;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.untold {
            return;
        }
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.access.ms = Some(millis(self.begun.elapsed()));
        self.access.up = Some(self.counts.up.load(Ordering::Relaxed));
        self.access.down = Some(self.counts.down.load(Ordering::Relaxed));
        self.access.sni = self.counts.sni.get().cloned();
        self.to.write(&self.access);
    }
}
