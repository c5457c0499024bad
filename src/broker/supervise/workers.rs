//! The threads: one leader receives, the others wait until it is held up.
//!
//! RECV wakes every thread that waits in it, so only one waits. A leader that handles a call for longer than a moment (a slow disk, a
//! network file system) is replaced by a follower, and steps back when it is done.
//!
//! One more gives way to everybody and stays near its caller; it leads where that is faster ([`near`](super::near)).
//!
//! Every thread has its own umask and no capability: as root the broker would otherwise do for the child what only a capability allows
//! (CAP_DAC_OVERRIDE); the user's own rights are those of the child.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::resource::Resource;

use super::act::{Made, Outcome, Turn};
use super::caller::Caller;
use super::crew::{Crew, Hand};
use super::handouts::{Handouts, must_settle};
use super::lock::Quiet;
use super::memory::Memory;
use super::near::{Distance, Kind, Step, Turns, step};
use super::pending::{self, Queued};
use super::{Broker, BrokerError};
use crate::broker::calls::Call;
use crate::sys::fds::poll;
use crate::sys::notify::{self, Answer, Buffers, Request};
use crate::sys::{cpu, signals, task};

/// Names of threads.
const WORKER: &str = "broker";
const NEAR: &str = "broker-near";
const WATCHDOG: &str = "broker-watch";
const WAITER: &str = "broker-wait";
const STAGER: &str = "broker-stage";
/// Two, so that one can be held up; more are made when all are.
const FIRST: usize = 2;
const MOST: usize = 16;
/// How long a leader may be busy with one call.
const PATIENCE: Duration = Duration::from_millis(2);
/// The watchdog sleeps for good when nothing was called for this long.
const QUIET: Duration = Duration::from_millis(50);

/// The running supervisor. Dropping it joins nothing that could block: the threads end when the sandbox has.
#[derive(Debug)]
pub struct Supervisor {
    shared: Arc<Shared>,
}

impl Supervisor {
    /// The supervisor has failed and the run must end: set before the run is killed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.shared.failed.load(Ordering::Acquire)
    }

    /// Keeps the workers out of the lock as long as the result lives; `None` where one is in there for longer than a moment.
    #[must_use]
    pub fn quiet(&self) -> Option<Quiet<'_>> {
        self.shared.broker.lock.quiet(QUIET)
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.shared.broker.staging.finish();
    }
}

#[derive(Debug)]
struct Shared {
    broker: Broker,
    leader: bool,
    always_near: bool,
    lead: Mutex<Lead>,
    /// A follower may become leader.
    vacant: Condvar,
    /// The watchdog has something to watch.
    active: Condvar,
    /// What each worker has received and answered so far: odd while it handles a call.
    progress: [AtomicU64; MOST],
    handouts: Handouts<MOST>,
    /// The watchdog sleeps for good.
    asleep: AtomicBool,
    failed: AtomicBool,
    queue: Mutex<Sender<Queued>>,
}

#[derive(Debug)]
struct Lead {
    /// Which worker receives.
    leader: Option<usize>,
    /// Workers that wait to lead.
    followers: usize,
    workers: usize,
    /// The one that stays near its caller: no follower.
    near: Turns,
    /// The sandbox is gone.
    over: bool,
}

impl Lead {
    fn is_near(&self) -> bool {
        self.leader.is_some() && self.leader == self.near.worker
    }
}

impl Shared {
    fn lead(&self) -> MutexGuard<'_, Lead> {
        self.lead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The leader and how far it is.
    fn seen(&self, lead: &Lead) -> Option<(usize, u64)> {
        let leader = lead.leader?;
        Some((leader, self.progress.get(leader)?.load(Ordering::SeqCst)))
    }

    fn wake_watchdog(&self) {
        // It holds the lock from saying that it sleeps until it does.
        let lead = self.lead();
        if self.asleep.swap(false, Ordering::SeqCst) {
            self.active.notify_one();
        }
        drop(lead);
    }

    /// The supervisor cannot go on; nothing may run without it.
    fn fail(&self) {
        self.failed.store(true, Ordering::Release);
        // The process may be gone, which is just as well.
        let _gone = signals::send(self.broker.child.as_raw(), libc::SIGKILL);
    }
}

/// Ends the run if its thread ends by a panic.
struct Fuse<'s>(&'s Shared);

impl Drop for Fuse<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail();
        }
    }
}

/// How the threads share the work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Staff {
    /// How many there are at first.
    pub(super) workers: usize,
    /// One receives at a time. Without, all of them do: slower, and what a test of races wants.
    pub(super) leader: bool,
    /// Callers always count as far away, which is what a test of the near one wants.
    pub(super) near: bool,
}

impl Default for Staff {
    fn default() -> Self {
        Self {
            workers: FIRST,
            leader: true,
            near: false,
        }
    }
}

/// The threads of a run, to be given their parts by [`start`].
pub(super) fn hire(staff: Staff) -> Result<Crew, BrokerError> {
    let workers = std::iter::repeat_n(WORKER, staff.workers.min(MOST));
    Crew::new(workers.chain([WATCHDOG, WAITER]))
}

pub(super) fn start(
    broker: Broker,
    staff: Staff,
    mut crew: Crew,
) -> Result<Supervisor, BrokerError> {
    // 6.6; what it does not know changes nothing but speed.
    let _slower = notify::wake_up_on_one_cpu(broker.listener.as_fd());
    // The child was forked with the caller's soft limits and may raise its own up to the hard ones.
    for resource in [Resource::RLIMIT_FSIZE, Resource::RLIMIT_NOFILE] {
        task::raise_own_limit(resource).map_err(BrokerError::Worker)?;
    }
    let (queue, queued) = channel();
    let shared = Arc::new(Shared {
        broker,
        leader: staff.leader,
        always_near: staff.near,
        lead: Mutex::new(Lead {
            leader: None,
            followers: 0,
            workers: 0,
            near: Turns::default(),
            over: false,
        }),
        vacant: Condvar::new(),
        active: Condvar::new(),
        progress: Default::default(),
        handouts: Handouts::default(),
        asleep: AtomicBool::new(false),
        failed: AtomicBool::new(false),
        queue: Mutex::new(queue),
    });
    for _ in 0..staff.workers.min(MOST) {
        worker(&mut crew, &shared)?;
    }
    thread(crew.hand(WATCHDOG)?, &shared, |shared| {
        watch(&shared);
        Ok(())
    })?;
    thread(crew.hand(WAITER)?, &shared, move |shared| {
        pending::serve(&shared.broker, &queued)
    })?;
    Ok(Supervisor { shared })
}

/// Gives a thread its part; its failure is the supervisor's.
fn thread(
    hand: Hand,
    shared: &Arc<Shared>,
    run: impl FnOnce(Arc<Shared>) -> Result<(), Errno> + Send + 'static,
) -> Result<(), BrokerError> {
    let shared = Arc::clone(shared);
    hand.run(move || {
        let fuse = Fuse(&shared);
        if run(Arc::clone(&shared)).is_err() {
            shared.fail();
        }
        drop(fuse);
    })
}

fn worker(crew: &mut Crew, shared: &Arc<Shared>) -> Result<(), BrokerError> {
    let index = count(shared);
    thread(crew.hand(WORKER)?, shared, move |shared| {
        work(&shared, index, Kind::Usual)
    })
}

/// A worker more, by its index.
fn count(shared: &Shared) -> usize {
    let mut lead = shared.lead();
    let index = lead.workers;
    lead.workers += 1;
    index
}

/// Lets the near worker lead, or starts it, so that it can lead when it is asked for again.
fn let_near(shared: &Arc<Shared>, index: usize) {
    let mut lead = shared.lead();
    if lead.leader != Some(index) || !lead.near.may(Instant::now()) {
        return;
    }
    if lead.near.worker.is_some() {
        lead.leader = lead.near.worker;
        shared.vacant.notify_all();
        return;
    }
    // Whatever becomes of it, it is started once.
    lead.near.never = true;
    if lead.workers >= MOST {
        return;
    }
    drop(lead);
    let index = count(shared);
    let started = Crew::default().hand(NEAR).and_then(|hand| {
        thread(hand, shared, move |shared| {
            // Without it all goes on as it was.
            if cpu::several() && cpu::last_of_all().is_ok() {
                let mut lead = shared.lead();
                lead.near.worker = Some(index);
                lead.near.never = false;
                drop(lead);
                work(&shared, index, Kind::Near)
            } else {
                Ok(())
            }
        })
    });
    // It makes things faster; nothing else is lost with it.
    drop(started);
}

/// The near worker leads no longer.
fn let_usual(shared: &Shared, index: usize) {
    let mut lead = shared.lead();
    if lead.leader == Some(index) {
        lead.leader = None;
        lead.near.failed(Instant::now());
        shared.vacant.notify_all();
    }
}

/// One worker's life.
fn work(shared: &Arc<Shared>, index: usize, kind: Kind) -> Result<(), Errno> {
    let mut buffers = Buffers::new()?;
    let memory = Memory::default();
    let distance = Distance::of(kind);
    let listener = shared.broker.listener.as_fd();
    let progress = shared.progress.get(index).ok_or(Errno::EAGAIN)?;
    while lead(shared, index, kind) {
        match notify::receive(listener, &mut buffers) {
            Ok(request) => {
                // Either the watchdog sees this before it falls asleep, or this sees that it sleeps.
                progress.fetch_add(1, Ordering::SeqCst);
                if shared.asleep.load(Ordering::SeqCst) {
                    shared.wake_watchdog();
                }
                match step(kind, &distance, request.tid) {
                    Step::Handle if shared.always_near && kind == Kind::Usual => {
                        let_near(shared, index);
                    }
                    Step::Handle => {}
                    Step::Near => let_near(shared, index),
                    Step::Usual => let_usual(shared, index),
                }
                let done = || {
                    progress.fetch_add(1, Ordering::SeqCst);
                };
                let file = handle(shared, index, &memory, &mut buffers, &request);
                if let Some(Gift {
                    file,
                    close_on_exec,
                    made,
                }) = file
                {
                    // The near one sleeps in there until nobody else runs, and has done its part before.
                    if kind == Kind::Near {
                        done();
                    }
                    let since = Instant::now();
                    let to = (listener, request.id);
                    let given = shared.handouts.give(index, to, file, close_on_exec);
                    distance.handed_over(since.elapsed());
                    if let Err((errno, file)) = given {
                        if let Some(made) = made {
                            shared.broker.take_back(&made, &file);
                        }
                        drop(file);
                        answer(listener, &mut buffers, &request, Answer::Error(errno));
                    }
                    if kind == Kind::Near {
                        continue;
                    }
                }
                done();
            }
            Err(Errno::EINTR) => {}
            Err(Errno::ENOENT) if !is_over(shared)? => {}
            Err(Errno::ENOENT) => {
                let mut lead = shared.lead();
                lead.over = true;
                lead.leader = None;
                shared.vacant.notify_all();
                shared.active.notify_all();
                return Ok(());
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Nobody is left who could call (POLLHUP, seccomp_unotify(2)).
fn is_over(shared: &Shared) -> Result<bool, Errno> {
    let [seen] = poll([shared.broker.listener.as_fd()], Some(Duration::ZERO))
        .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))?;
    Ok(seen.hung_up)
}

/// Returns as the leader, or with false when it is over.
fn lead(shared: &Shared, index: usize, kind: Kind) -> bool {
    let mut lead = shared.lead();
    if lead.leader == Some(index) || !shared.leader {
        return !lead.over;
    }
    if kind == Kind::Near {
        while lead.leader != Some(index) && !lead.over {
            lead = shared
                .vacant
                .wait(lead)
                .unwrap_or_else(PoisonError::into_inner);
        }
        return !lead.over;
    }
    lead.followers += 1;
    while lead.leader.is_some() && !lead.over {
        lead = shared
            .vacant
            .wait(lead)
            .unwrap_or_else(PoisonError::into_inner);
    }
    lead.followers -= 1;
    lead.leader = Some(index);
    !lead.over
}

/// Replaces a leader that is held up.
fn watch(shared: &Arc<Shared>) {
    let mut last = None;
    let mut since = Instant::now();
    loop {
        let mut lead = shared.lead();
        let busy = |seen: Option<(usize, u64)>| seen.is_some_and(|(_, progress)| progress % 2 == 1);
        if since.elapsed() > QUIET && !busy(last) {
            if lead.is_near() {
                lead.leader = None;
                lead.near.served();
                shared.vacant.notify_all();
                last = None;
            }
            shared.asleep.store(true, Ordering::SeqCst);
            while shared.asleep.load(Ordering::SeqCst) && shared.seen(&lead) == last && !lead.over {
                lead = shared
                    .active
                    .wait(lead)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            shared.asleep.store(false, Ordering::SeqCst);
        } else {
            let waited = shared.active.wait_timeout(lead, PATIENCE);
            lead = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if lead.over {
            return;
        }
        let now = shared.seen(&lead);
        if now != last {
            last = now;
            since = Instant::now();
        } else if since.elapsed() >= PATIENCE && (busy(now) || lead.is_near() && is_waiting(shared))
        {
            replace(shared, lead);
            since = Instant::now();
        }
    }
}

/// Somebody's call has not been received.
fn is_waiting(shared: &Shared) -> bool {
    poll([shared.broker.listener.as_fd()], Some(Duration::ZERO)).is_ok_and(|[seen]| seen.readable)
}

fn replace(shared: &Arc<Shared>, mut lead: MutexGuard<'_, Lead>) {
    if lead.is_near() {
        lead.near.failed(Instant::now());
    }
    let nobody = lead.followers == 0;
    if nobody && lead.workers >= MOST {
        return;
    }
    lead.leader = None;
    drop(lead);
    // A worker that cannot be made is no failure: somebody will come back.
    if nobody && worker(&mut Crew::default(), shared).is_err() {
        let mut lead = shared.lead();
        lead.workers = lead.workers.saturating_sub(1);
    }
    shared.vacant.notify_all();
}

/// Starts the thread that looks after what is written by hand.
fn attend(shared: &Arc<Shared>) {
    let started = Crew::default().hand(STAGER).and_then(|hand| {
        thread(hand, shared, |shared| {
            shared.broker.attend_staged();
            Ok(())
        })
    });
    // It is looked after at every call all the same.
    if started.is_err() {
        shared.broker.staging.no_thread();
    }
}

/// A file that is the answer to a call.
struct Gift {
    file: OwnedFd,
    close_on_exec: bool,
    made: Option<Made>,
}

/// Answers a call, or returns the file that is the answer.
fn handle(
    shared: &Arc<Shared>,
    index: usize,
    memory: &Memory,
    buffers: &mut Buffers,
    request: &Request,
) -> Option<Gift> {
    let broker = &shared.broker;
    let listener = broker.listener.as_fd();
    let call = Call::from_number(request.number);
    if broker.staging.any() {
        shared.handouts.settle(index);
        broker.settle_staged(false);
    }
    let outcome = call.map(|call| {
        let caller = Caller::new(listener, request, memory, &broker.processes);
        Turn::new(broker, caller, request).take(call)
    });
    if broker.staging.wants_thread() {
        attend(shared);
    }
    // Whatever was opened on the caller's behalf is closed by now, but for the file it gets.
    let answer = match outcome {
        // Only calls of the table are sent here.
        None => Answer::Error(Errno::ENOSYS),
        Some(Ok(Outcome::Value(value))) => Answer::Value(value),
        Some(Ok(Outcome::Continue)) => {
            if call.is_some_and(must_settle) {
                shared.handouts.settle(index);
            }
            Answer::Continue
        }
        Some(Ok(Outcome::Give {
            file,
            close_on_exec,
            made,
        })) => {
            return Some(Gift {
                file,
                close_on_exec,
                made,
            });
        }
        Some(Ok(Outcome::Later(waiting))) => {
            let queued = Queued {
                id: request.id,
                tid: request.tid,
                waiting,
            };
            let queue = shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
            if queue.send(queued).is_ok() {
                return None;
            }
            Answer::Error(Errno::EINTR)
        }
        Some(Err(errno)) => Answer::Error(errno),
    };
    self::answer(listener, buffers, request, answer);
    None
}

fn answer(listener: BorrowedFd<'_>, buffers: &mut Buffers, request: &Request, answer: Answer) {
    // ENOENT: the caller was killed meanwhile.
    let _gone = notify::answer(listener, buffers, request.id, answer);
}
