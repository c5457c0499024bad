//! `box [OPTIONS] -- CMD…`: a run with a hand-made invocation.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use ccbox::backend::{
    Engine, EngineArg, Floor, InnerPlan, Invocation, Mount, NetSetup, OverlayMount, PreMount, STAGE,
};
use ccbox::broker::decide::Rule;
use ccbox::broker::fold::NameRules;
use ccbox::broker::plan::{BrokerPlan, NamedRule, Tree, components};
use ccbox::broker::supervise::{Denial, Sink};
use ccbox::exit::Failure;
use ccbox::policy::{Layer, Origin};
use ccbox::session::{self, BrokerSetup, Outcome, SessionConfig, SessionError};

/// Says each refusal on standard error.
struct Say {
    panics: bool,
}

impl Sink for Say {
    fn denied(&self, denial: Denial) {
        assert!(!self.panics, "the sink fails");
        eprintln!("denied: {} {}", denial.action, denial.path.display());
    }
}

/// One rule: nobody makes or writes `closed` in the working directory.
fn setup(ws: &Path, exempt: Vec<PathBuf>, say: Say) -> BrokerSetup {
    let closed = ws.join("closed");
    BrokerSetup {
        guests: None,
        plan: Arc::new(BrokerPlan {
            trees: vec![Tree {
                guest: ws.to_owned(),
                host: ws.to_owned(),
                top: ws.to_owned(),
                names: NameRules::Unix,
                ignores_case: false,
                private: false,
            }],
            exempt,
            served: vec!["/tmp".into()],
            rules: vec![NamedRule {
                rule: Rule::Exact(components(&closed)),
                words: format!("deny_write \"{}\"", closed.display()),
                origin: Origin {
                    layer: Layer::Flag("--broker"),
                    file: None,
                    line: None,
                },
            }],
            exceptions: Vec::new(),
            git: false,
            lock_dir: None,
            reads: None,
            alone: false,
            sockets: None,
        }),
        sink: Arc::new(say),
    }
}

fn same(path: OsString) -> (PathBuf, PathBuf) {
    (path.clone().into(), path.into())
}

/// The child's file system for the pre-stage: what the engine would make, and then `more`.
fn tree(cwd: &Path, more: Vec<Mount>) -> Vec<PreMount> {
    let mut mounts = vec![
        Mount::RoBind {
            src: "/".into(),
            dst: "/".into(),
        },
        Mount::Dev { dst: "/dev".into() },
        Mount::Tmpfs {
            dst: "/tmp".into(),
            mode: 0o755,
            size: None,
        },
    ];
    if cwd.is_dir() {
        let (src, dst) = same(cwd.into());
        mounts.push(Mount::Bind { src, dst });
    }
    mounts.extend(more);
    let devices = false;
    mounts
        .into_iter()
        .map(|mount| PreMount::Guest { mount, devices })
        .collect()
}

pub(crate) fn main(args: Vec<OsString>) -> ExitCode {
    let mut net = NetSetup::PreStage;
    let mut engine = Engine::Bwrap {
        program: "/usr/bin/bwrap".into(),
        version: Some("bubblewrap 0.8.0".into()),
    };
    let mut cwd = std::env::current_dir().unwrap();
    let mut keep_fds = Vec::new();
    let mut pins = Vec::new();
    let mut serve = false;
    let mut broker = None;
    let mut exempt = Vec::new();
    let mut announce = false;
    let mut extra = Vec::new();
    let mut early = None;
    let mut premounts = Vec::new();
    let mut guest = Vec::new();
    let mut seatbelt = None;
    let mut with_log = false;
    let mut args = args.into_iter();
    let command: Vec<OsString> = loop {
        let arg = args.next().expect("--");
        let mut value = || args.next().expect("value");
        match arg.to_str().unwrap() {
            "--" => break args.collect(),
            "--early" => early = session::Early::start(),
            "--inner" => net = NetSetup::Inner,
            "--host" => net = NetSetup::Host,
            "--builtin" => engine = Engine::Builtin,
            "--none" => engine = Engine::None,
            "--bwrap" => {
                engine = Engine::Bwrap {
                    program: value().into(),
                    version: None,
                }
            }
            "--cwd" => cwd = value().into(),
            "--keep-fd" => keep_fds.push(value().to_str().unwrap().parse().unwrap()),
            "--pin" => pins.push((PathBuf::from(value()), 1, 1)),
            "--cover" => {
                let (of, dst) = same(value());
                guest.push(Mount::Cover {
                    of,
                    dst,
                    is_dir: false,
                });
            }
            "--cover-dir" => {
                let (of, dst) = same(value());
                guest.push(Mount::Cover {
                    of,
                    dst,
                    is_dir: true,
                });
            }
            "--read-only" => {
                let (src, dst) = same(value());
                guest.push(Mount::RoBind { src, dst });
            }
            "--pinned" => {
                let (src, dst) = same(value());
                guest.push(Mount::Bind { src, dst });
            }
            "--overlay" => {
                let store = PathBuf::from(value());
                premounts.push(PreMount::Overlay(OverlayMount {
                    lowers: vec![store.join("lower")],
                    upper: store.join("upper"),
                    work: store.join("work"),
                    at: store.join("merged"),
                }));
            }
            "--seatbelt" => seatbelt = Some(String::new()),
            profile if profile.starts_with("--seatbelt-profile=") => {
                seatbelt = Some(profile.to_owned());
            }
            // Three times as long, which no one argument could be.
            "--longer" => seatbelt = seatbelt.map(|text| text.repeat(3)),
            "--log" => with_log = true,
            "--serve" => serve = true,
            "--broker" => broker = Some(Say { panics: false }),
            "--failing-broker" => broker = Some(Say { panics: true }),
            "--exempt" => exempt.push(PathBuf::from(value())),
            "--announce" => announce = true,
            "--arg" => extra.push(EngineArg::Text(value())),
            other => panic!("{other}"),
        }
    };
    if let Some(profile) = seatbelt {
        return crate::seatbelt::main(&profile, with_log, serve, cwd, keep_fds, command);
    }
    let ws = cwd.clone();
    let root = cwd.clone();
    let text = |s: &str| EngineArg::Text(s.into());
    let staged = !guest.is_empty();
    let mounts: &[&str] = if staged {
        &["--dev-bind", STAGE, "/", "--proc", "/proc"]
    } else {
        &[
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--proc",
            "/proc",
            "--tmpfs",
            "/tmp",
        ]
    };
    let mut engine_args: Vec<EngineArg> = [
        "--unshare-user",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--die-with-parent",
        "--as-pid-1",
        "--cap-drop",
        "ALL",
        "--disable-userns",
    ]
    .iter()
    .chain(mounts)
    .map(|s| text(s))
    .collect();
    if net == NetSetup::Inner {
        engine_args.push(text("--unshare-net"));
    }
    if engine == Engine::Builtin {
        let dst = PathBuf::from("/proc");
        guest.insert(0, Mount::Proc { dst });
        guest.push(Mount::Data {
            dst: "/tmp/generated".into(),
            content: b"generated\n".to_vec(),
            mode: 0o600,
        });
    }
    if staged || engine == Engine::Builtin {
        premounts.extend(tree(&cwd, guest));
    } else if ws.is_dir() {
        for a in [
            text("--bind"),
            EngineArg::Text(ws.clone().into()),
            EngineArg::Text(ws.clone().into()),
        ] {
            engine_args.push(a);
        }
    }
    engine_args.extend([
        text("--ro-bind-data"),
        EngineArg::Data(b"generated\n".to_vec()),
        text("/tmp/generated"),
    ]);
    engine_args.extend(extra);
    engine_args.extend([text("--chdir"), text("/")]);
    let confine = engine != Engine::None;
    let writable = [cwd.clone(), "/tmp".into(), "/dev".into(), "/proc".into()].to_vec();
    let invocation = Invocation {
        engine,
        args: engine_args,
        inner: InnerPlan {
            argv: command,
            env: std::env::vars_os().collect(),
            cwd,
            pins,
            writable,
            moved: Vec::new(),
            keep_fds: Vec::new(),
            confine,
            listen: Vec::new(),
            ignored_signals: Vec::new(),
            unix_sockets: false,
            open_network: false,
            programs: None,
            floor: broker.is_some().then(|| Floor {
                // The private /tmp holds the working directory, so the broker answers there as well.
                covered: vec![ws.clone(), "/tmp".into()],
                exempt: exempt.clone(),
            }),
            read_floor: ccbox::plan::ReadFloor::default(),
            trap_reads: false,
            trap_sockets: false,
            alone: None,
            own_group: false,
            limits: Vec::new(),
        },
        premounts,
    };
    let config = SessionConfig {
        serves_at_once: false,
        net,
        listen: vec![3128],
        catch: None,
        early,
        keep_fds,
        state_dirs: Vec::new(),
        broker: broker.map(|say| setup(&root, exempt, say)),
        on_listeners: Box::new(move |listeners| {
            if serve {
                for listener in listeners.listeners {
                    std::thread::spawn(move || {
                        use std::io::Write;
                        while let Ok((mut peer, _)) = listener.accept() {
                            let _ = peer.write_all(b"served\n");
                        }
                    });
                }
            }
            Ok(Box::new(()))
        }),
        witness: None,
        on_stop: Box::new(|_| {}),
        group: None,
        wall: None,
        on_ready: Box::new(move |enforced| {
            if announce {
                eprintln!("ready: {enforced:?}");
            }
        }),
    };
    end(session::run(invocation, config))
}

/// Ends as ccbox does.
pub(crate) fn end(result: Result<Outcome, SessionError>) -> ExitCode {
    match result {
        Ok(Outcome::Exited(code)) => ExitCode::from(code),
        Ok(Outcome::Signalled(n) | Outcome::Limited { signal: n, .. }) => {
            ExitCode::from(session::die_as(n))
        }
        Ok(Outcome::NotStarted { errno }) => {
            eprintln!("ccbox: error: cannot execute: errno {errno}");
            ExitCode::from(if errno == libc::ENOENT { 127 } else { 126 })
        }
        Err(e) => {
            eprintln!(
                "ccbox: error: {e}; hint: {:?}; retry: {:?}",
                e.hint(),
                e.retry
            );
            ExitCode::from(e.exit_code())
        }
    }
}
