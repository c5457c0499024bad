//! Threads to be given work: without rights from their first moment, and started while the sandbox is still being built.
//!
//! Between the hand-over and the command everybody waits for the supervisor; starting a thread there takes longer than all the rest.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use nix::errno::Errno;

use super::BrokerError;
use crate::sys::signals::{self, SignalSet};
use crate::sys::{prctl, task};

type Job = Box<dyn FnOnce() + Send>;

/// A thread that waits for its one job.
#[derive(Debug)]
pub(super) struct Hand {
    name: &'static str,
    job: Sender<Job>,
    deprived: Receiver<io::Result<()>>,
    thread: JoinHandle<()>,
}

impl Hand {
    fn new(name: &'static str) -> Result<Self, BrokerError> {
        let (job, jobs) = channel::<Job>();
        let (ready, deprived) = channel();
        let thread = Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                // Signals are the main thread's; here they would make calls fail that are somebody else's.
                let bare = signals::set_mask(SignalSet::catchable())
                    .and_then(|_| task::own_umask().map_err(io::Error::from))
                    .and_then(|()| prctl::drop_capabilities(prctl::Left::Nothing));
                let go = bare.is_ok();
                if ready.send(bare).is_ok()
                    && go
                    && let Ok(job) = jobs.recv()
                {
                    job();
                }
            })
            .map_err(BrokerError::Worker)?;
        Ok(Self {
            name,
            job,
            deprived,
            thread,
        })
    }

    /// Gives it its job, once it is without rights.
    pub(super) fn run(self, job: impl FnOnce() + Send + 'static) -> Result<(), BrokerError> {
        let gone = |()| BrokerError::Worker(Errno::EAGAIN.into());
        let deprived = self.deprived.recv().map_err(|_| gone(()))?;
        deprived.map_err(BrokerError::Worker)?;
        self.job.send(Box::new(job)).map_err(|_| gone(()))
    }
}

/// Threads that wait. Dropped, those without a job end, and are waited for: who could not start a run may try another way, and forks.
#[derive(Debug, Default)]
pub(super) struct Crew(Vec<Hand>);

impl Crew {
    /// Starts threads of these names.
    pub(super) fn new(names: impl Iterator<Item = &'static str>) -> Result<Self, BrokerError> {
        names.map(Hand::new).collect::<Result<_, _>>().map(Self)
    }

    /// One that waits, or a new one.
    pub(super) fn hand(&mut self, name: &'static str) -> Result<Hand, BrokerError> {
        match self.0.iter().position(|hand| hand.name == name) {
            Some(n) => Ok(self.0.swap_remove(n)),
            None => Hand::new(name),
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for Hand { job, thread, .. } in self.0.drain(..) {
            drop(job);
            // It can only have ended in a panic of its own; there is nothing to be told.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hands_wait_for_their_job_and_more_are_made() {
        let mut crew = Crew::new(["one", "two"].into_iter()).unwrap();
        let (tell, told) = channel();
        for name in ["two", "two", "one"] {
            let tell = tell.clone();
            let hand = crew.hand(name).unwrap();
            hand.run(move || {
                let me = std::thread::current().name().map(str::to_owned);
                tell.send(me.unwrap_or_default()).unwrap();
            })
            .unwrap();
        }
        let mut names: Vec<String> = (0..3).map(|_| told.recv().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["one", "two", "two"]);
    }

    #[test]
    fn nobody_has_rights() {
        let (tell, told) = channel();
        let hand = Crew::default().hand("bare").unwrap();
        hand.run(move || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = status.lines().find(|l| l.starts_with("CapEff:")).unwrap();
            tell.send(line.trim_start_matches("CapEff:").trim().to_owned())
                .unwrap();
        })
        .unwrap();
        assert_eq!(told.recv().unwrap(), "0000000000000000");
    }

    #[test]
    fn who_is_not_needed_ends() {
        let crew = Crew::new(["idle-hand"].into_iter()).unwrap();
        let there = || {
            std::fs::read_dir("/proc/self/task").unwrap().any(|task| {
                std::fs::read_to_string(task.unwrap().path().join("comm"))
                    .is_ok_and(|name| name.trim() == "idle-hand")
            })
        };
        // The name is given by the thread itself.
        while !there() {
            std::thread::yield_now();
        }
        drop(crew);
        while there() {
            std::thread::yield_now();
        }
    }
}
