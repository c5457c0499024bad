//! A run whose sandbox another program makes: `sandbox-exec` of macOS. Plain processes, pipes and threads, on every system the same.
//!
//! ```text
//! ccbox ─┬─ guard             outside; sees the signals of the group, ends the rest if ccbox is killed
//!        ├─ log stream        outside; what the kernel says it refused
//!        └─ sandbox-exec ─► stage ─► command      one process: each becomes the next
//! ```
//!
//! The *stage* is this executable inside the sandbox. That it speaks means that the profile holds: until then whatever goes wrong is
//! the sandbox's, and nothing of the command has run. It waits for the word to go, gives the command the caller's standard error and
//! signals back, and becomes it; the pipe that closes then says so.

mod guard;
mod leftovers;
pub mod log;
mod monitor;
mod probe;
mod signals;
mod stage;
mod watch;

use std::any::Any;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

pub use guard::{GUARD, main as guard_main};
pub use monitor::Witness;
pub use probe::probe;
pub use stage::{STAGE, main as stage_main};

use super::caller::Terminal;
use super::{Outcome, SessionError, errors, fds as descriptors};
use crate::exit::{self, Failure};
use crate::sys::{self, fds};
use guard::Guard;
use monitor::Monitor;
use signals::Arriving;

/// The program that applies a profile, and no other: one found through PATH could be anybody's.
pub const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";
/// The program that reads the system's log.
pub const LOG: &str = "/usr/bin/log";
/// Longer profiles go into a file: the kernel limits arguments and environment together to 1 MiB (`kern.argmax`).
const ON_COMMAND_LINE: usize = 200 * 1024;
/// How often a port is tried that is free on both loopback addresses.
const PORTS: usize = 64;
/// What is kept of the words of the program that makes the sandbox.
const WORDS: u64 = 2048;

/// The programs of the system that a run uses. Only tests name others than [`Tools::system`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tools {
    /// Applies a profile.
    pub sandbox_exec: PathBuf,
    /// Reads the log.
    pub log: PathBuf,
}

impl Tools {
    /// Those of macOS.
    #[must_use]
    pub fn system() -> Self {
        Self {
            sandbox_exec: SANDBOX_EXEC.into(),
            log: LOG.into(),
        }
    }
}

/// What is drawn anew for each run.
#[derive(Clone)]
pub struct Secrets {
    /// Marks the violations of this run in the log; others may see it.
    pub tag: String,
    /// What clients of the proxies must know: their port is the host's.
    pub token: String,
}

impl Secrets {
    /// From the system's random numbers.
    fn draw() -> io::Result<Self> {
        let mut bytes = [0; 24];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let hex = |bytes: &[u8]| {
            let mut out = String::new();
            for byte in bytes {
                let _ = write!(out, "{byte:02x}");
            }
            out
        };
        let (tag, token) = bytes.split_at(8);
        Ok(Self {
            tag: format!("ccbox-{}", hex(tag)),
            token: hex(token),
        })
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets(…)")
    }
}

/// What is made once the port of the proxies is known.
pub struct Outfit {
    /// The profile; without one nothing is isolated.
    pub profile: Option<String>,
    /// The command's complete environment.
    pub env: Vec<(OsString, OsString)>,
    /// Serves the listeners; lives as long as the run.
    pub served: Box<dyn Any>,
}

impl std::fmt::Debug for Outfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outfit").finish_non_exhaustive()
    }
}

/// Called with the listeners of the proxies, none where there are no proxies. No thread of its own exists before.
pub type Equip<'a> =
    Box<dyn FnOnce(Vec<TcpListener>, &Secrets) -> Result<Outfit, SessionError> + 'a>;

/// One run.
pub struct Job<'a> {
    /// The programs it uses.
    pub tools: Tools,
    /// This executable, which the command's sandbox must be able to execute.
    pub exe: PathBuf,
    /// The command.
    pub argv: Vec<OsString>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Descriptors above 2 that it keeps.
    pub keep_fds: Vec<RawFd>,
    /// Proxies are wanted.
    pub proxies: bool,
    /// A directory the command cannot write, for a profile that is too long for a command line.
    pub state_dir: PathBuf,
    /// The directory for temporary files of this run, which goes with it.
    pub scratch: Option<PathBuf>,
    /// Profile, environment, proxies.
    pub equip: Equip<'a>,
    /// Told of what the kernel refused.
    pub witness: Option<Arc<dyn Witness>>,
    /// Called once the sandbox stands, just before the command starts.
    pub on_ready: Box<dyn FnOnce() + 'a>,
}

impl std::fmt::Debug for Job<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job")
            .field("argv", &self.argv)
            .finish_non_exhaustive()
    }
}

/// The sandbox could not be made; nothing of the command has run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A profile is applied once (`forbidden-sandbox-reinit`); one of ccbox keeps the program itself from being run.
    #[error("already inside a sandbox, and macOS applies no second one (sandbox-exec says: `{0}`)")]
    Nested(String),
    /// The profile is in a language that this system does not speak.
    #[error("macOS rejects the profile (sandbox-exec says: `{0}`)")]
    Profile(String),
    /// Something else.
    #[error("sandbox-exec made no sandbox: {0}")]
    Other(String),
}

impl Failure for Refused {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Nested(_) => Some("start this call outside of it".to_owned()),
            Self::Profile(_) => {
                Some("report this with the output of `ccbox profile --format seatbelt`".to_owned())
            }
            Self::Other(_) => None,
        }
    }
}

impl Refused {
    /// By the exit status and the first line of what the program said (sandbox-exec's own: 64 usage, 65 profile, 71 apply).
    fn by(code: Option<i32>, said: &str) -> Self {
        let said = said
            .lines()
            .find(|l| !l.trim().is_empty())
            .unwrap_or("nothing");
        let words = said
            .strip_prefix("sandbox-exec: ")
            .unwrap_or(said)
            .to_owned();
        match code {
            Some(71) => Self::Nested(words),
            Some(64 | 65) => Self::Profile(words),
            Some(code) => Self::Other(format!("it ended with {code} and said `{words}`")),
            None => Self::Other(format!("it was killed and said `{words}`")),
        }
    }
}

impl From<Refused> for SessionError {
    fn from(refused: Refused) -> Self {
        let mut error = Self::new(refused.to_string());
        error.hint = refused.hint();
        error
    }
}

/// Why a run could not be started or had to be ended.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// There is no sandbox.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Anything else.
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl From<Failed> for SessionError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Refused(refused) => refused.into(),
            Failed::Session(error) => error,
        }
    }
}

/// A directory that goes with this value.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = super::remove_tree(&self.0);
    }
}

/// Runs to the end. Every catchable signal stays blocked afterwards: end the process, or [`super::die_as`].
pub fn run(job: Job<'_>) -> Result<Outcome, Failed> {
    let scratch = job.scratch.clone().map(Scratch);
    // Before any thread exists: each has the mask of the one that made it.
    let arriving = Arriving::take_over().map_err(errors::resources)?;
    let terminal = Terminal::find();
    let secrets = Secrets::draw().map_err(errors::resources)?;
    let listeners = if job.proxies {
        both_loopbacks()
    } else {
        Ok(Vec::new())
    }
    .map_err(errors::proxies)?;
    let outfit = (job.equip)(listeners, &secrets)?;
    // Others of this user can neither attach to it nor read its memory, where the token is.
    let _ = sys::prctl::set_dumpable(false);

    let inherited = descriptors::inherited(&job.argv, &outfit.env, &job.keep_fds)?;
    descriptors::check_standard()?;
    fds::close_on_exec_from(3).map_err(errors::resources)?;

    let witness = outfit.profile.as_ref().and(job.witness);
    let monitor = witness.map(|witness| Monitor::start(&job.tools.log, &secrets.tag, witness));
    let guard = Guard::start(&job.exe, job.scratch.as_deref()).map_err(errors::resources)?;
    // Where orphans can be adopted their parent is known; elsewhere they keep the number of the one that started them.
    let _ = sys::prctl::adopt_orphans();
    let start = Start {
        tools: &job.tools,
        exe: &job.exe,
        argv: &job.argv,
        cwd: &job.cwd,
        env: &outfit.env,
        keep: &inherited.keep,
        arriving: &arriving,
    };
    let profile = outfit
        .profile
        .map(|text| Profile::ready(text, &job.state_dir))
        .transpose()
        .map_err(errors::resources)?;
    let mut started = start.sandbox(profile.as_ref())?;
    let helper = monitor.as_ref().and_then(Monitor::pid);
    guard.watches(started.child.id(), helper);
    match started.wait_for_stage()? {
        Stage::Stands => {}
        Stage::Killed(n) => return Ok(Outcome::Signalled(n)),
        Stage::Refused(refused) => return Err(refused.into()),
    }
    drop(profile);
    if let Some(monitor) = &monitor {
        monitor.settle();
    }
    (job.on_ready)();
    started.go();
    let outcome = watch::until_end(started, guard, helper, &arriving, terminal)?;
    if let Some(monitor) = monitor {
        monitor.finish(outcome != Outcome::Exited(0));
    }
    drop(outfit.served);
    drop(scratch);
    Ok(outcome)
}

/// A listener on 127.0.0.1 and one on `::1` with the same port: the profile lets the command reach both, so nobody else may have the
/// other half. One where there is no IPv6.
fn both_loopbacks() -> io::Result<Vec<TcpListener>> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..PORTS {
        let first = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = first.local_addr()?.port();
        match TcpListener::bind((Ipv6Addr::LOCALHOST, port)) {
            Ok(second) => return Ok(vec![first, second]),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => last = e,
            Err(e)
                if matches!(
                    e.raw_os_error(),
                    Some(libc::EADDRNOTAVAIL | libc::EAFNOSUPPORT)
                ) =>
            {
                return Ok(vec![first]);
            }
            Err(e) => return Err(e),
        }
    }
    Err(last)
}

/// A profile as it is handed over. A file goes with this value.
enum Profile {
    Text(String),
    File(PathBuf),
}

impl Profile {
    fn ready(text: String, state: &Path) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        if text.len() <= ON_COMMAND_LINE {
            return Ok(Self::Text(text));
        }
        let dir = state.join("profiles");
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&dir)?;
        let path = dir.join(format!("{}.sb", std::process::id()));
        // What stands there is of a process that was killed and had this number.
        let _ = std::fs::remove_file(&path);
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        file.write_all(text.as_bytes())?;
        Ok(Self::File(path))
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        if let Self::File(path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// What the process that becomes the command is made of.
struct Start<'a> {
    tools: &'a Tools,
    exe: &'a Path,
    argv: &'a [OsString],
    cwd: &'a Path,
    env: &'a [(OsString, OsString)],
    keep: &'a [RawFd],
    arriving: &'a Arriving,
}

impl Start<'_> {
    /// The command line, with the numbers of the stage's descriptors.
    fn command(&self, profile: Option<&Profile>, numbers: [RawFd; 3]) -> Command {
        let [status, go, stderr] = numbers;
        let mut command = match profile {
            None => Command::new(self.exe),
            Some(profile) => {
                let mut command = Command::new(&self.tools.sandbox_exec);
                match profile {
                    Profile::Text(text) => command.arg("-p").arg(text),
                    Profile::File(path) => command.arg("-f").arg(path),
                };
                command.arg("--").arg(self.exe);
                command
            }
        };
        command
            .arg(STAGE)
            .args([status, go, stderr].map(|n| n.to_string()));
        command
            .args(self.arriving.words())
            .arg("--")
            .args(self.argv);
        command
    }

    fn sandbox(&self, profile: Option<&Profile>) -> Result<Started, Failed> {
        let pipe = || io::pipe().map_err(errors::resources);
        let (status, far_status) = pipe()?;
        let (far_go, go) = pipe()?;
        let (words, far_words) = pipe()?;
        let caller_stderr = fds::duplicate(io::stderr()).map_err(errors::resources)?;
        let theirs = [
            far_status.as_raw_fd(),
            far_go.as_raw_fd(),
            caller_stderr.as_raw_fd(),
        ];
        let mut command = self.command(profile, theirs);
        command
            .env_clear()
            .envs(self.env.iter().map(|(k, v)| (k, v)))
            .current_dir(self.cwd)
            .stderr(Stdio::from(far_words));
        let kept = theirs.into_iter().chain(self.keep.iter().copied());
        for number in kept {
            fds::set_inheritable_number(number, true).map_err(errors::resources)?;
        }
        let child = command
            .spawn()
            .map_err(|e| self.not_started(&e, profile.is_some()))?;
        Ok(Started {
            child,
            status,
            go,
            words,
            over: false,
        })
    }

    fn not_started(&self, error: &io::Error, sandboxed: bool) -> Failed {
        let program = if sandboxed {
            &self.tools.sandbox_exec
        } else {
            self.exe
        };
        // The directory is entered first, and its absence would be told as that of the program.
        if let Err(e) = std::fs::read_dir(self.cwd) {
            return Failed::Session(SessionError::new(format!(
                "cannot enter the working directory `{}`: {}",
                self.cwd.display(),
                exit::reason(&e)
            )));
        }
        if sandboxed && error.raw_os_error() == Some(libc::EPERM) {
            return Refused::Nested("Operation not permitted".to_owned()).into();
        }
        Failed::Session(SessionError::new(format!(
            "cannot start `{}`: {}",
            program.display(),
            exit::reason(error)
        )))
    }
}

/// How it went up to the stage.
#[derive(Debug)]
enum Stage {
    Stands,
    /// By a signal, without a word.
    Killed(i32),
    Refused(Refused),
}

/// The process that becomes the command.
#[derive(Debug)]
struct Started {
    child: Child,
    /// The stage's words.
    status: PipeReader,
    /// The word to it.
    go: PipeWriter,
    /// What is said on standard error before the stage has its place.
    words: PipeReader,
    /// It has been waited for.
    over: bool,
}

impl Started {
    /// Waits until the stage speaks. Something else ends here: it is the sandbox that was not made.
    fn wait_for_stage(&mut self) -> Result<Stage, SessionError> {
        let mut first = [0];
        if self.status.read_exact(&mut first).is_ok() && first == [stage::READY] {
            return Ok(Stage::Stands);
        }
        self.over = true;
        let status = self.child.wait().map_err(errors::resources)?;
        let mut said = Vec::new();
        let _ = (&self.words).take(WORDS).read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said).into_owned();
        Ok(match status.signal() {
            // Ctrl-C before anything ran.
            Some(n) if said.is_empty() => Stage::Killed(n),
            Some(_) | None => Stage::Refused(Refused::by(status.code(), &said)),
        })
    }

    /// A stage that is gone is noticed where its end is.
    fn go(&mut self) {
        let _ = self.go.write_all(&[stage::GO]);
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // Only a run that did not come to its end has something left here; waiting for the rest is the guard's.
        if !self.over && matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The text of an argument that has no NUL and is text.
fn number<T: std::str::FromStr>(argument: Option<&OsString>) -> Option<T> {
    std::str::from_utf8(argument?.as_bytes()).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
