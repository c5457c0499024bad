//! The creation broker: the same work with and without filter, floor and supervisor, in pairs that take turns.
//!
//! 20,000 small files on a tmpfs, where the kernel's own work is cheapest and the broker's part largest. No sandbox is built around it: what
//! is measured is what the broker adds.
//!
//! `cargo bench --bench broker [-- ROUNDS]`
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark ends by panicking"
)]
#![allow(missing_docs, reason = "a program")]

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use ccbox::broker::decide::{Denied, Rule};
use ccbox::broker::fold::NameRules;
use ccbox::broker::plan::{BrokerPlan, NamedRule, Tree};
use ccbox::broker::supervise::{Denial, Door, Sink, start};
use ccbox::policy::path::{ListKind, PathEntry};
use ccbox::policy::{Layer, Origin};
use ccbox::session::harden::{FilterOptions, filter_program, install_broker_filter, landlock_abi};
use ccbox::sys::{at, fds, prctl, task};
use landlock::{
    AccessFs, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
};

const FILES: usize = 20_000;
const DIRS: usize = 200;

/// One thing to do in a directory that has been prepared.
struct Work {
    name: &'static str,
    /// What it may cost, as a factor.
    budget: f64,
    prepare: fn(&Path),
    run: fn(&Path),
}

const ALL: &[Work] = &[
    Work {
        name: "tar x",
        budget: 2.2,
        prepare: |_| {},
        run: |dir| // As an ordinary user has it: nobody asks for modes and owners again.
            command("tar", &["xf", &text(&dir.join("../all.tar")), "--no-same-owner", "--no-same-permissions"], dir),
    },
    Work {
        name: "git checkout",
        budget: 2.0,
        prepare: |_| {},
        run: |dir| {
            let source = text(&dir.join("../repo"));
            command("git", &["clone", "-q", "-s", &source, "clone"], dir);
        },
    },
    Work {
        name: "cp -r",
        budget: 1.8,
        prepare: |_| {},
        run: |dir| command("cp", &["-r", &text(&dir.join("../source")), "copy"], dir),
    },
    Work {
        name: "rm -rf",
        budget: 3.0,
        prepare: |dir| command("cp", &["-r", &text(&dir.join("../source")), "gone"], dir),
        run: |dir| command("rm", &["-rf", "gone"], dir),
    },
    Work {
        name: "read all",
        budget: 1.1,
        prepare: |_| {},
        run: |dir| {
            let source = text(&dir.join("../source"));
            command(
                "sh",
                &["-c", &format!("tar cf - {source} | cat > /dev/null")],
                dir,
            );
        },
    },
    Work {
        name: "open, 20k times",
        budget: 99.0,
        prepare: |dir| fs::write(dir.join("f"), "x").unwrap(),
        run: |dir| {
            let path = dir.join("f");
            for _ in 0..FILES {
                drop(
                    fs::OpenOptions::new()
                        .write(true)
                        .create(true)
                        .truncate(false)
                        .open(&path)
                        .unwrap(),
                );
            }
        },
    },
];

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn command(program: &str, args: &[&str], dir: &Path) {
    let status = Command::new(program)
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", "/nonexistent")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{program} {args:?}");
}

struct Nobody;

impl Sink for Nobody {
    fn denied(&self, denial: Denial) {
        panic!("{denial:?}");
    }
}

fn plan(tree: &Path) -> BrokerPlan {
    let rule = |words: &str| {
        let parsed = PathEntry::parse(
            words,
            false,
            ListKind::DenyWrite,
            Path::new("/"),
            Path::new("/"),
        );
        let Ok(PathEntry::Pattern(pattern)) = parsed else {
            panic!("{words}");
        };
        NamedRule {
            rule: Rule::Pattern {
                matcher: Arc::new(Denied::new(&pattern)),
                liftable: true,
            },
            words: words.to_owned(),
            origin: Origin {
                layer: Layer::Spec,
                file: None,
                line: None,
            },
        }
    };
    BrokerPlan {
        trees: vec![Tree {
            guest: tree.to_owned(),
            host: tree.to_owned(),
            top: tree.to_owned(),
            names: NameRules::Unix,
            ignores_case: false,
        }],
        exempt: vec!["/dev/null".into(), "/proc".into(), "/tmp".into()],
        served: Vec::new(),
        rules: [
            ".env",
            ".env.*.local",
            "*.pem",
            "*.key",
            ".vscode/**",
            ".idea/**",
        ]
        .map(rule)
        .into(),
        exceptions: Vec::new(),
        git: true,
    }
}

fn floor(plan: &BrokerPlan) {
    let write = AccessFs::from_write(landlock::ABI::V2);
    let mut rules = Ruleset::default()
        .set_compatibility(landlock::CompatLevel::HardRequirement)
        .handle_access(write)
        .unwrap()
        .create()
        .unwrap();
    for path in &plan.exempt {
        let fd = PathFd::new(path).unwrap();
        let file = AccessFs::from_file(landlock::ABI::V2);
        let access = if path.is_dir() { write } else { write & file };
        rules = rules
            .add_rule(PathBeneath::new(fd.as_fd(), access))
            .unwrap();
    }
    rules.restrict_self().unwrap();
}

/// How long the work takes in a thread that is confined, or not.
fn time(work: &'static Work, dir: &Path, broker: bool) -> Duration {
    let _ = fs::remove_dir_all(dir);
    fs::create_dir(dir).unwrap();
    (work.prepare)(dir);
    let plan = plan(dir);
    let (to_main, listener) = channel::<OwnedFd>();
    let (to_child, go) = channel::<()>();
    let (place, floor_plan) = (dir.to_owned(), plan.clone());
    let child = std::thread::spawn(move || {
        task::own_umask().unwrap();
        prctl::drop_capabilities(prctl::Left::Nothing).unwrap();
        if broker {
            let program = filter_program(FilterOptions {
                unix_sockets: false,
                open_network: false,
                landlock_abi: landlock_abi(),
                broker: true,
            })
            .unwrap();
            floor(&floor_plan);
            to_main
                .send(install_broker_filter(&program).unwrap().fd)
                .unwrap();
            go.recv().unwrap();
        }
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_FILES).unwrap();
        fds::close_all_except(&[]).unwrap();
        let start = Instant::now();
        (work.run)(&place);
        start.elapsed()
    });
    let supervisor = broker.then(|| {
        let door = Door {
            listener: listener.recv().unwrap(),
            root: at::open_here(c"/", libc::O_PATH).unwrap(),
            child: nix::unistd::Pid::this(),
        };
        let supervisor = start(&plan, door, Arc::new(Nobody)).unwrap();
        to_child.send(()).unwrap();
        supervisor
    });
    let took = child.join().unwrap();
    assert!(!supervisor.is_some_and(|s| s.has_failed()));
    took
}

fn source(top: &Path) {
    for d in 0..DIRS {
        let dir = top.join(format!("source/d{}/e{d}", d % 10));
        fs::create_dir_all(&dir).unwrap();
        for f in 0..FILES / DIRS {
            fs::write(
                dir.join(format!("file-{f}.txt")),
                format!("{d} {f}\n").repeat(20),
            )
            .unwrap();
        }
    }
    command("tar", &["cf", "all.tar", "source"], top);
    command("cp", &["-r", "source", "repo"], top);
    let repo = top.join("repo");
    command("git", &["init", "-q"], &repo);
    command("git", &["add", "."], &repo);
    let who = ["-c", "user.name=x", "-c", "user.email=x@x"];
    command(
        "git",
        &[&who[..], &["commit", "-q", "-m", "x"]].concat(),
        &repo,
    );
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|a| !a.starts_with("--"));
    let first = args.next();
    let rounds: usize = first.as_ref().and_then(|a| a.parse().ok()).unwrap_or(5);
    let only = args.next();
    let shm = PathBuf::from("/dev/shm");
    let place = if shm.is_dir() {
        tempfile::tempdir_in(shm).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    };
    source(place.path());
    let dir = place.path().join("w");
    println!(
        "{:16} {:>9} {:>9} {:>7} {:>7}",
        "seconds, min", "plain", "broker", "factor", "budget"
    );
    for work in ALL {
        if only
            .as_ref()
            .is_some_and(|only| !work.name.contains(only.as_str()))
        {
            continue;
        }
        let mut least = [f64::MAX; 2];
        for round in 0..2 * rounds {
            let broker = round % 2 == 1;
            let took = time(work, &dir, broker).as_secs_f64();
            let slot = &mut least[usize::from(broker)];
            *slot = slot.min(took);
        }
        let [plain, with] = least;
        println!(
            "{:16} {plain:9.3} {with:9.3} {:7.2} {:7.1}",
            work.name,
            with / plain,
            work.budget
        );
    }
}
