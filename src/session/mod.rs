//! The live run: starts the engine, serves the proxies, relays signals, ends with the child.

mod alone;
mod caller;
mod caught;
mod confine;
pub mod covers;
pub mod diagnose;
mod early;
mod errors;
pub mod fds;
mod group;
mod handover;
pub mod harden;
pub mod inner;
mod keeper;
mod launch;
mod live;
mod overlays;
mod peers;
mod premounts;
mod prestage;
mod relay;
pub mod seatbelt;
mod supervision;
mod wire;

use std::any::Any;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use caller::{Signals, Terminal};
pub use caught::CatchSetup;
pub use early::Early;
use group::Group;
use launch::Launch;
pub use live::GRACE;
use live::{Hooks, Limits};
use overlays::Layers;
pub(crate) use overlays::remove as remove_tree;

use crate::backend::{Engine, GroupPlan, Invocation, Limit, NetSetup, Reach};
use crate::broker::guests::Guests;
use crate::broker::plan::BrokerPlan;
use crate::broker::supervise::Sink;
use crate::exit::Failure;
use crate::proxy::Identify;
use crate::proxy::catch::Catch;
use crate::sys;

/// How the run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The command ended with this code.
    Exited(u8),
    /// The command was killed by this signal; ccbox dies the same way.
    Signalled(i32),
    /// A limit ended the command, which died of this signal, or ended by itself when it was asked to; ccbox dies the same way.
    Limited {
        /// Which.
        limit: Ending,
        /// The signal.
        signal: i32,
    },
    /// The command was not found (127) or could not be executed (126); errno of execve.
    NotStarted {
        /// errno.
        errno: i32,
    },
}

/// What ended a command that had not ended yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It was asked to end (SIGTERM) and had not in time.
    Grace,
    /// The control group's memory was used up.
    Memory,
    /// Its processor time was.
    Cpu,
    /// The time of the run was.
    Wall,
}

impl Ending {
    /// As in the event `killed`; of a limit also its key.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Grace => "grace",
            Self::Memory => "memory",
            Self::Cpu => "cpu_seconds",
            Self::Wall => "wall_seconds",
        }
    }
}

/// What was really put in place, for the enforced line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Enforced {
    /// `bwrap-0.8.0` or `none`.
    pub engine: String,
    /// Landlock ABI in force inside, 0 where there is none.
    pub landlock_abi: i32,
    /// How the network was set up.
    pub net: Option<NetSetup>,
    /// How what may not be read is hidden, where something is.
    pub reads: Option<Reads>,
    /// The creation broker, where the plan has write rules.
    pub broker: Option<Brokered>,
}

/// What hides what may not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// Covers that tell of every refused read.
    Covers,
    /// Placeholders, which refuse in silence.
    Placeholders,
}

/// How the creation broker of a run answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Brokered {
    /// A signal never interrupts a call that is being answered (Linux 5.19).
    pub uninterrupted: bool,
}

/// What the creation broker of a run works with.
#[derive(Clone)]
pub struct BrokerSetup {
    /// The rules; the invocation has the floor that goes with them.
    pub plan: Arc<BrokerPlan>,
    /// Takes the refusals.
    pub sink: Arc<dyn Sink>,
    /// Where the network is the host's and the proxies the only way: who may come to them.
    pub guests: Option<Arc<Guests>>,
}

impl std::fmt::Debug for BrokerSetup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BrokerSetup")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

/// The listeners of the child's namespace, and who tells whose a connection to them is.
#[derive(Debug)]
pub struct Doors {
    /// In the order asked for.
    pub listeners: Vec<TcpListener>,
    /// What catches connections without a proxy, if that was asked for and the pre-stage makes the network.
    pub catch: Option<Catch>,
    /// Names the process behind a connection.
    pub identify: Arc<dyn Identify>,
}

/// Called with the listeners before any user code runs; the value lives as long as the run.
pub type OnListeners<'a> = Box<dyn FnOnce(Doors) -> io::Result<Box<dyn Any>> + 'a>;

/// Everything the session needs beside the invocation.
pub struct SessionConfig<'a> {
    /// How the network is set up.
    pub net: NetSetup,
    /// Loopback ports to listen on inside (each on 127.0.0.1 and ::1), in order; listeners arrive as v4, v6, v4, v6, …
    pub listen: Vec<u16>,
    /// What is caught of connections without a proxy, with [`NetSetup::PreStage`].
    pub catch: Option<CatchSetup>,
    /// Descriptors above 2 that the child keeps (`--keep-fd`; the job server, LISTEN_FDS and named pipes are found by `fds::inherited`).
    pub keep_fds: Vec<i32>,
    /// Directories to create 0700 before anything starts.
    pub state_dirs: Vec<std::path::PathBuf>,
    /// The control group of the run.
    pub group: Option<GroupPlan>,
    /// When the run ends.
    pub wall: Option<Duration>,
    /// Answers what traps; with a floor in the invocation, and only then.
    pub broker: Option<BrokerSetup>,
    /// A pre-stage that waits already, for [`NetSetup::PreStage`].
    pub early: Option<Early>,
    /// The listeners are none of the child's: the proxies are started as soon as there may be threads.
    pub serves_at_once: bool,
    /// Starts the proxies.
    pub on_listeners: OnListeners<'a>,
    /// Told of refused reads, where something is hidden.
    pub witness: Option<Arc<dyn covers::Witness>>,
    /// Called once the sandbox stands, just before the command starts.
    pub on_ready: Box<dyn FnOnce(&Enforced) + 'a>,
    /// Called when the run is stopped as a whole (true) and when it goes on.
    pub on_stop: Box<dyn Fn(bool) + 'a>,
}

impl std::fmt::Debug for SessionConfig<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionConfig")
            .field("net", &self.net)
            .finish_non_exhaustive()
    }
}

/// Why a run could not be started or had to be ended.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SessionError {
    /// What failed and why.
    pub message: String,
    /// The real fix.
    pub hint: Option<String>,
    /// The same run may work with the network set up this way; nothing has been started and no hook was called.
    pub retry: Option<NetSetup>,
    /// This host refuses what a sandbox with namespaces is made of; another engine may do.
    pub host_refuses: bool,
}

impl SessionError {
    /// Without hint.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            retry: None,
            host_refuses: false,
        }
    }
}

impl Failure for SessionError {
    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

/// Descriptors of ccbox's own that cost no time to have: the sockets for caught connections are some 60, a connection through the proxies
/// takes two and, while much goes through it, two pipes.
const DESCRIPTORS: std::os::fd::RawFd = 1024;

/// Runs to the end. Must be called from the main thread before any other thread exists: forking needs that, and the
/// sandbox's life is tied to the thread that forked it (PR_SET_PDEATHSIG).
///
/// Afterwards every catchable signal stays blocked; end the process, or [`die_as`].
pub fn run(mut invocation: Invocation, config: SessionConfig<'_>) -> Result<Outcome, SessionError> {
    // One that is not needed ends here, before anybody counts the children of this process.
    let early = config
        .early
        .filter(|_| config.net == NetSetup::PreStage && invocation.engine != Engine::None)
        // It would not have been born in the control group.
        .filter(|_| config.group.is_none());
    let inherited = fds::inherited(
        &invocation.inner.argv,
        &invocation.inner.env,
        &config.keep_fds,
    )?;
    fds::check_standard()?;
    let alone = invocation.inner.alone.as_ref();
    if invocation.engine != Engine::None
        && (config.net != NetSetup::Host || alone.is_some_and(|alone| alone.network != Reach::Host))
    {
        fds::check_sockets(&inherited)?;
    }
    sys::fds::close_on_exec_from(3).map_err(errors::resources)?;
    let signals = Signals::take_over().map_err(errors::resources)?;
    let terminal = Terminal::find();
    // Nothing is taken from a terminal that somebody else has.
    invocation.inner.own_group &= terminal.as_ref().is_some_and(Terminal::is_ours);
    state_directories(&config.state_dirs)?;
    // Held until nothing of the run is left.
    let _layers = Layers::take(&mut invocation.premounts)?;

    let enforced = Enforced {
        engine: engine_name(&invocation.engine),
        landlock_abi: 0,
        net: (invocation.engine != Engine::None).then_some(config.net),
        reads: None,
        broker: None,
    };
    let covered = covers::hidden(&invocation.premounts);
    let launch = Launch {
        net: config.net,
        listen: &config.listen,
        catch: config.catch.as_ref(),
        inherited: &inherited,
        mask: signals.mask,
        ignored: signals.ignored,
    };
    if invocation.inner.floor.is_some() != config.broker.is_some() {
        // Without the other each would be a weaker sandbox than the plan's.
        return Err(SessionError::new(
            "cannot hold the write rules: floor and supervisor go together",
        ));
    }
    let cpu = invocation
        .inner
        .limits
        .iter()
        .any(|(l, _)| *l == Limit::Cpu);
    let group = config.group.as_ref().map(Group::enter).transpose();
    let group = group.map_err(|e| errors::limits(&e))?;
    let live = launch::start(invocation, &launch, early)?;
    if let Some(group) = &group {
        group.leave().map_err(|e| errors::limits(&e))?;
    }
    // The forked ones need no more than they have; from here on there are threads.
    sys::fds::make_room(DESCRIPTORS).map_err(errors::resources)?;
    // Not before the fork: the id maps of the new user namespace are files of the process' owner.
    sys::prctl::set_dumpable(false).map_err(errors::resources)?;
    let hooks = Hooks {
        serves_at_once: config.serves_at_once,
        on_listeners: config.on_listeners,
        on_ready: config.on_ready,
        on_stop: config.on_stop,
        limits: Limits {
            wall: config.wall,
            cpu,
            group: group.as_ref(),
        },
        covered,
        witness: config.witness,
        broker: config.broker,
        enforced,
    };
    live.run(&signals, terminal, hooks)
}

/// Ends this process by the signal that ended the command, without a core file of its own, so that the caller's wait(2)
/// says the same; comes back with 128 + n where that signal does not kill.
#[must_use]
pub fn die_as(signal: i32) -> u8 {
    // Without this limit dying by SIGSEGV would leave ccbox's core file; dying is more important.
    let _ = sys::prctl::no_core_file_of_mine();
    let _ = sys::signals::raise_default(signal);
    u8::try_from(signal.saturating_add(128)).unwrap_or(crate::exit::OWN_FAILURE)
}

fn state_directories(paths: &[std::path::PathBuf]) -> Result<(), SessionError> {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    for path in paths {
        builder.create(path).map_err(|e| {
            SessionError::new(format!(
                "cannot make the state directory `{}`: {}",
                path.display(),
                crate::exit::reason(&e)
            ))
        })?;
    }
    Ok(())
}

/// `bwrap-0.8.0`, from `bubblewrap 0.8.0`.
fn engine_name(engine: &Engine) -> String {
    match engine {
        Engine::None => "none".to_owned(),
        Engine::Builtin => "builtin".to_owned(),
        Engine::Landlock { .. } => "landlock".to_owned(),
        Engine::Bwrap { version: None, .. } => "bwrap".to_owned(),
        Engine::Bwrap {
            version: Some(text),
            ..
        } => {
            let number = text.split_whitespace().next_back().unwrap_or_default();
            format!("bwrap-{number}")
        }
    }
}
