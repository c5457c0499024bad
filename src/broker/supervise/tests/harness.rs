//! A thread that is confined as a command is, and the supervisor for it.
//!
//! Filters and domains belong to a thread and what it starts, so the test goes on outside.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use landlock::{
    AccessFs, BitFlags, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
};
use nix::sched::CloneFlags;
use nix::unistd::Pid;

use crate::broker::decide::{Denied, Matcher, Rule};
use crate::broker::fold::NameRules;
use crate::broker::plan::{BrokerPlan, NamedRule, SocketGrant, SocketPlan, Tree, components};
use crate::broker::reads::{Hidden, ReadPlan, ReadRule};
use crate::broker::supervise::{Cause, Denial, Door, Sink, Staff, prepare_with};
use crate::policy::path::{ListKind, PathEntry};
use crate::policy::{Layer, Origin};
use crate::session::harden::{FilterOptions, filter_program, install_broker_filter, landlock_abi};
use crate::sys::{at, fds, prctl, task};

/// What a test asks for.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub(super) plan: BrokerPlan,
    staff: Staff,
}

#[derive(Debug, Default)]
struct Notes(Mutex<Vec<Denial>>);

impl Sink for Notes {
    fn denied(&self, denial: Denial) {
        self.0.lock().unwrap().push(denial);
    }
}

impl Setup {
    /// One covered tree.
    pub(super) fn new(tree: &Path) -> Self {
        let tree = tree.canonicalize().unwrap();
        Self {
            plan: BrokerPlan {
                trees: vec![Tree {
                    guest: tree.clone(),
                    host: tree.clone(),
                    top: tree,
                    names: NameRules::Unix,
                    ignores_case: false,
                    private: false,
                }],
                exempt: vec!["/dev".into(), "/proc".into()],
                served: Vec::new(),
                rules: Vec::new(),
                exceptions: Vec::new(),
                git: false,
                lock_dir: None,
                reads: None,
                alone: false,
                sockets: None,
            },
            staff: Staff::default(),
        }
    }

    pub(super) fn exempt(mut self, path: &Path) -> Self {
        self.plan.exempt.push(path.canonicalize().unwrap());
        self
    }

    fn rule(mut self, rule: Rule, words: &str) -> Self {
        self.plan.rules.push(NamedRule {
            rule,
            words: words.to_owned(),
            origin: Origin {
                layer: Layer::Spec,
                file: None,
                line: None,
            },
        });
        self
    }

    pub(super) fn protected(self, path: &Path) -> Self {
        self.rule(Rule::Exact(components(path)), &path.display().to_string())
    }

    /// A pattern of `deny_write`.
    pub(super) fn pattern(self, text: &str) -> Self {
        let matcher = Arc::new(Denied::new(&parsed(text, ListKind::DenyWrite)));
        self.rule(
            Rule::Pattern {
                matcher,
                liftable: true,
            },
            text,
        )
    }

    /// Opens for reading are decided by this pattern of `deny_read`.
    pub(super) fn hidden(mut self, text: &str) -> Self {
        let matcher = Arc::new(Denied::new(&parsed(text, ListKind::DenyRead)));
        self = self.rule(
            Rule::Pattern {
                matcher: Arc::clone(&matcher) as Arc<dyn Matcher>,
                liftable: false,
            },
            text,
        );
        let reads = self.plan.reads.get_or_insert_with(|| ReadPlan {
            rules: Vec::new(),
            decides: true,
            watched: false,
            places: vec![("/".into(), Some("/".into()))],
            floor: Vec::new(),
            shown: Vec::new(),
            windows: false,
        });
        reads.rules.push(ReadRule {
            names: Hidden::Pattern(matcher),
            words: text.to_owned(),
            origin: Origin {
                layer: Layer::Spec,
                file: None,
                line: None,
            },
        });
        self
    }

    /// Unix sockets are decided by path; these are granted.
    pub(super) fn sockets(mut self, granted: &[&Path]) -> Self {
        let granted = granted.iter().map(|path| SocketGrant {
            path: path.to_path_buf(),
            directory: path.is_dir(),
        });
        self.plan.sockets = Some(SocketPlan {
            granted: granted.collect(),
            all: false,
            closed: Vec::new(),
            own_network: true,
            private: Vec::new(),
        });
        self
    }

    /// The lock of all runs lies here.
    pub(super) fn lock_dir(mut self, dir: &Path) -> Self {
        self.plan.lock_dir = Some(dir.to_owned());
        self
    }

    /// All of this many workers at once.
    pub(super) fn crowd(mut self, workers: usize) -> Self {
        self.staff = Staff {
            workers,
            leader: false,
            near: false,
        };
        self
    }

    /// The near worker, whenever it gets its turn.
    pub(super) fn near(mut self) -> Self {
        self.staff.near = true;
        self
    }

    /// Runs `inside` confined; its working directory is the first tree. What was refused comes back as well.
    pub(super) fn run<T: Send + 'static>(
        &self,
        inside: impl FnOnce() -> T + Send + 'static,
    ) -> (T, Vec<Denial>) {
        let notes = Arc::new(Notes::default());
        let (to_main, from_child) = channel::<OwnedFd>();
        let (to_child, go) = channel::<()>();
        let setup = self.clone();
        let child = std::thread::spawn(move || {
            alone(&setup);
            let options = FilterOptions {
                unix_sockets: false,
                open_network: false,
                landlock_abi: landlock_abi(),
                broker: true,
                reads: setup.plan.reads.is_some(),
                sockets: setup.plan.sockets.is_some(),
                alone: false,
                no_network: false,
                by_proxies: false,
            };
            let program = filter_program(options).unwrap();
            floor(&setup.plan);
            let listener = install_broker_filter(&program).unwrap();
            assert!(listener.killable);
            to_main.send(listener.fd).unwrap();
            go.recv().unwrap();
            // From here on the descriptors are the thread's own, as a command's are.
            nix::sched::unshare(CloneFlags::CLONE_FILES).unwrap();
            fds::close_all_except(&[]).unwrap();
            inside()
        });
        let listener = from_child.recv().unwrap();
        let door = Door {
            listener,
            root: at::open_here(c"/", libc::O_PATH).unwrap(),
            // If the supervisor fails, so does the test.
            child: Pid::this(),
        };
        let plan = Arc::new(self.plan.clone());
        let sink = Arc::clone(&notes) as Arc<dyn Sink>;
        let prepared = prepare_with(plan, sink, self.staff).unwrap();
        let supervisor = prepared.open(door).unwrap();
        to_child.send(()).unwrap();
        let result = match child.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        assert!(!supervisor.has_failed());
        drop(supervisor);
        let denials = notes.0.lock().unwrap().clone();
        (result, denials)
    }

    /// The same thread without filter and floor.
    pub(super) fn outside<T: Send + 'static>(
        &self,
        inside: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let setup = self.clone();
        let child = std::thread::spawn(move || {
            alone(&setup);
            nix::sched::unshare(CloneFlags::CLONE_FILES).unwrap();
            fds::close_all_except(&[]).unwrap();
            inside()
        });
        match child.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// As a command is: no capabilities, own working directory and umask.
fn alone(setup: &Setup) {
    task::own_umask().unwrap();
    task::set_umask(0o022);
    prctl::drop_capabilities(prctl::Left::Nothing).unwrap();
    // A program executed as uid 0 would get them back.
    prctl::no_new_privileges().unwrap();
    std::env::set_current_dir(&setup.plan.trees[0].guest).unwrap();
}

fn floor(plan: &BrokerPlan) {
    let all: BitFlags<AccessFs> = AccessFs::WriteFile
        | AccessFs::RemoveDir
        | AccessFs::RemoveFile
        | AccessFs::MakeChar
        | AccessFs::MakeDir
        | AccessFs::MakeReg
        | AccessFs::MakeSock
        | AccessFs::MakeFifo
        | AccessFs::MakeBlock
        | AccessFs::MakeSym
        | AccessFs::Refer;
    let mut rules = Ruleset::default()
        .set_compatibility(landlock::CompatLevel::HardRequirement)
        .handle_access(all)
        .unwrap()
        .create()
        .unwrap();
    for path in &plan.exempt {
        let fd = PathFd::new(path).unwrap();
        rules = rules.add_rule(PathBeneath::new(fd.as_fd(), all)).unwrap();
    }
    rules.restrict_self().unwrap();
}

fn parsed(text: &str, kind: ListKind) -> crate::policy::pattern::PathPattern {
    match PathEntry::parse(text, false, kind, Path::new("/"), Path::new("/home/u")) {
        Ok(PathEntry::Pattern(pattern)) => pattern,
        other => panic!("{text}: {other:?}"),
    }
}

/// How many times a race is tried: 300 times, or as often as the long tier says.
pub(super) fn rounds() -> usize {
    std::env::var("CCBOX_TEST_ROUNDS").map_or(300, |rounds| rounds.parse().unwrap())
}

/// A directory for one test, by the path the kernel calls it.
pub(super) fn scratch() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    (dir, path)
}

/// The denials in short: action and path.
pub(super) fn short(denials: &[Denial]) -> Vec<(&'static str, PathBuf, Cause)> {
    denials
        .iter()
        .map(|d| (d.action, d.path.clone(), d.cause.clone()))
        .collect()
}
