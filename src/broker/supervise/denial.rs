//! Reports of refused calls.

use super::areas::path_buf;
use super::caller::Caller;
use super::{Broker, Cause, Denial, place};

/// A refusal, before the lock is free and the caller's name is known.
#[derive(Debug)]
pub(super) struct Denied {
    pub(super) action: &'static str,
    /// Path inside.
    pub(super) guest: Vec<u8>,
    pub(super) cause: Cause,
    /// The call would have failed without a sandbox, too.
    pub(super) anyway: bool,
}

impl Broker {
    /// Hands a refusal to the sink. No lock may be held.
    pub(super) fn report(&self, caller: &Caller<'_>, denied: Denied) {
        if denied.anyway {
            return;
        }
        self.sink.denied(self.denial(caller, denied));
    }

    /// With what is known of the caller while it waits.
    pub(super) fn denial(&self, caller: &Caller<'_>, denied: Denied) -> Denial {
        let status = caller.status().ok();
        Denial {
            action: denied.action,
            host_path: self.host_path(&denied.guest).map(|path| path_buf(&path)),
            path: path_buf(&denied.guest),
            pid: status.map_or(caller.tid, |status| status.tgid),
            inner_pid: status
                .filter(|status| status.nested)
                .map(|status| status.inner_tgid),
            program: caller.program(),
            cause: denied.cause,
        }
    }

    /// The host's path of a path inside, where it is another one.
    pub(super) fn host_path(&self, guest: &[u8]) -> Option<Vec<u8>> {
        let (rest, tree) = self
            .trees
            .iter()
            .filter_map(|tree| Some((place::below(guest, &tree.guest)?, tree)))
            .min_by_key(|(rest, _)| rest.len())?;
        if tree.guest == tree.host {
            return None;
        }
        Some(if rest.is_empty() {
            tree.host.clone()
        } else {
            place::join(&tree.host, rest)
        })
    }
}
