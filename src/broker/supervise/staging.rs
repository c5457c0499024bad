//! Git configuration that is written by hand, until it is judged (see [`crate::broker::gitdir::stage`]).
//!
//! It is looked after at every call that traps: whoever starts git afterwards executes it, which traps. A thread does so while nobody
//! calls, for those who look from the host, and the end of the run is the last occasion.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::areas::Kind as AreaKind;
use super::caller::Caller;
use super::denial::Denied;
use super::judge::Asked;
use super::{Broker, Cause, Denial, place};
use crate::broker::decide::Dir;
use crate::broker::gitdir::{GateError, Staged};
use crate::sys::at;

/// More than this are not kept: whoever keeps that many files open gets empty ones.
const MOST: usize = 64;
/// The pause between two looks, at first and at last.
const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(100);

/// What is not judged yet.
#[derive(Debug, Default)]
pub(super) struct Staging {
    any: AtomicBool,
    state: Mutex<State>,
    /// Held from taking something up until it is judged: whoever comes meanwhile waits for that.
    judging: Mutex<()>,
    /// The thread may have something to do, or has ended.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    items: Vec<Item>,
    /// A thread looks after them.
    attended: bool,
    /// The sandbox has ended.
    over: bool,
}

#[derive(Debug)]
struct Item {
    staged: Staged,
    /// The report, if it may not stand.
    refusal: Denial,
}

impl Staging {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is something to look after. Costs one read.
    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// There is something, and no thread yet: the caller must start one.
    pub(super) fn wants_thread(&self) -> bool {
        self.any() && {
            let mut state = self.state();
            !state.over && !std::mem::replace(&mut state.attended, true)
        }
    }

    /// There will be no thread after all.
    pub(super) fn no_thread(&self) {
        self.state().attended = false;
    }

    /// The sandbox has ended: waits until a thread, if there is one, has looked at everything.
    pub(super) fn finish(&self) {
        let mut state = self.state();
        state.over = true;
        self.changed.notify_all();
        while state.attended {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Broker {
    /// Takes on what a caller is going to write.
    pub(super) fn stage(&self, caller: &Caller<'_>, asked: &Asked<'_>, staged: Staged) {
        let refusal = self.denial(
            caller,
            Denied {
                action: "write",
                guest: place::join(asked.site.guest(), asked.name.to_bytes()),
                cause: Cause::Unsupported,
                anyway: false,
            },
        );
        let mut state = self.staging.state();
        if state.items.len() < MOST {
            state.items.push(Item { staged, refusal });
            self.staging.any.store(true, Ordering::Release);
        }
    }

    /// Judges what nobody writes any more, or at the end everything. No lock may be held.
    pub(super) fn settle_staged(&self, all: bool) {
        let judging = self.staging.judging.lock();
        let judging = judging.unwrap_or_else(PoisonError::into_inner);
        let items = std::mem::take(&mut self.staging.state().items);
        let (ready, waits): (Vec<Item>, Vec<Item>) = items
            .into_iter()
            .partition(|item| all || !item.staged.is_written());
        self.staging.state().items.extend(waits);
        for Item { staged, refusal } in ready {
            let installed = self.locked(true, |_| Ok(self.install_staged(&staged)));
            if let Ok(Err(GateError::Refused(why))) = installed {
                self.sink.denied(Denial {
                    cause: Cause::Git(why.to_string()),
                    ..refusal
                });
            }
        }
        let state = self.staging.state();
        let any = !state.items.is_empty();
        self.staging.any.store(any, Ordering::Release);
        drop(state);
        drop(judging);
    }

    /// To be called inside the lock.
    fn install_staged(&self, staged: &Staged) -> Result<(), GateError> {
        let path = place::path(staged.dir().as_fd())?;
        let look = at::look(staged.dir().as_fd(), c"")?;
        let area = self.areas.with_path(look.mount, &path);
        // It has gone out of the covered trees with its directory: nothing is written there.
        let Some((AreaKind::Tree(index), area)) = area.map(|area| (area.kind, area)) else {
            return Ok(());
        };
        let below = place::below(&path, &area.guest).unwrap_or_default();
        match Dir::new(&self.set, index, &place::components(below)) {
            Some(dir) => staged.install(&self.set, &dir),
            None => Ok(()),
        }
    }

    /// The thread's life: until nothing is left.
    pub(super) fn attend_staged(&self) {
        let mut pause = SHORTEST;
        loop {
            let over = self.staging.state().over;
            self.settle_staged(over);
            let mut state = self.staging.state();
            if state.items.is_empty() {
                state.attended = false;
                self.staging.changed.notify_all();
                return;
            }
            if !state.over {
                let waited = self.staging.changed.wait_timeout(state, pause);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
                pause = (pause * 2).min(LONGEST);
            }
        }
    }
}
