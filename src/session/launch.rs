//! From an invocation to a running engine: memory files, descriptors, the fork.

use std::borrow::Cow;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use nix::errno::Errno;
use nix::unistd::{getgid, getuid};

use super::SessionError;
use super::alone;
use super::caught::CatchSetup;
use super::early::Early;
use super::errors;
use super::fds::Inherited;
use super::handover::{self, Facts};
use super::inner::{self, Scope};
use super::live::{Live, Orphans};
use super::prestage::{self, Becomes, PreStage};
use crate::backend::{Engine, EngineArg, InnerPlan, Invocation, NetSetup};
use crate::exit;
use crate::sys::namespaces::CloneFlags;
use crate::sys::process::{Forked, exit_now, fork_into};
use crate::sys::signals::SignalSet;
use crate::sys::{fds, prctl};

/// What the launch needs of the caller and the configuration.
#[derive(Debug)]
pub(super) struct Launch<'a> {
    pub(super) net: NetSetup,
    pub(super) listen: &'a [u16],
    pub(super) catch: Option<&'a CatchSetup>,
    pub(super) inherited: &'a Inherited,
    pub(super) mask: SignalSet,
    pub(super) ignored: SignalSet,
}

/// Starts the run; the inner stage will report on the control socket.
///
/// `early` is the pre-stage where one waits already.
pub(super) fn start(
    mut invocation: Invocation,
    launch: &Launch<'_>,
    early: Option<Early>,
) -> Result<Live, SessionError> {
    invocation.inner.keep_fds.clone_from(&launch.inherited.keep);
    invocation.inner.ignored_signals = launch.ignored.iter().collect();
    invocation.inner.listen = match (&invocation.engine, launch.net) {
        (Engine::Bwrap { .. }, NetSetup::Inner) => launch.listen.to_vec(),
        _ => Vec::new(),
    };
    match invocation.engine.clone() {
        Engine::None => direct(&invocation, launch),
        Engine::Landlock { tmp } => alone::start(&invocation.inner, &tmp, launch),
        Engine::Builtin => engine(invocation, None, launch, early),
        Engine::Bwrap { program, .. } => engine(invocation, Some(&program), launch, early),
    }
}

/// Engine `none`: a keeper that adopts orphans, and the command below it.
fn direct(invocation: &Invocation, launch: &Launch<'_>) -> Result<Live, SessionError> {
    let (ours, theirs) = fds::packet_pair().map_err(errors::resources)?;
    let facts = Facts {
        control: theirs.as_raw_fd(),
        door: None,
        stderr: 2,
        mask: launch.mask,
        listen_pid: launch.inherited.listen,
    };
    let orphans = Orphans::adopt().map_err(errors::resources)?;
    match fork_into(CloneFlags::empty()).map_err(errors::resources)? {
        Forked::Parent(pid) => Ok(Live {
            child: pid,
            control: Some(ours),
            door: None,
            lifeline: None,
            orphans: Some(orphans),
            engine_stderr: None,
        }),
        Forked::Child => {
            drop(ours);
            if prctl::adopt_orphans().is_err() {
                exit_now(exit::OWN_FAILURE);
            }
            exit_now(inner::run(&invocation.inner, &facts, &theirs, Scope::Tree))
        }
    }
}

/// An engine with namespaces: bubblewrap at `program`, or the pre-stage itself.
fn engine(
    invocation: Invocation,
    program: Option<&Path>,
    launch: &Launch<'_>,
    early: Option<Early>,
) -> Result<Live, SessionError> {
    let (door, far_door) = match &invocation.inner.floor {
        Some(_) => fds::packet_pair().map(|(near, far)| (Some(near), Some(far))),
        None => Ok((None, None)),
    }
    .map_err(errors::resources)?;
    let pair = match early {
        Some(_) => None,
        None => Some(fds::packet_pair().map_err(errors::resources)?),
    };
    let control = early
        .as_ref()
        .and_then(Early::control_number)
        .or(pair.as_ref().map(|(_, theirs)| theirs.as_raw_fd()))
        .ok_or_else(|| errors::lost("no control socket"))?;
    let facts = |stderr| Facts {
        control,
        door: far_door.as_ref().map(AsRawFd::as_raw_fd),
        stderr,
        mask: launch.mask,
        listen_pid: launch.inherited.listen,
    };
    let prepared = match program {
        None => Prepared::init(invocation.inner, facts(2)),
        Some(program) => Prepared::engine(program, &invocation.args, invocation.inner, facts),
    }
    .map_err(errors::resources)?;
    let made: Vec<RawFd> = prepared
        .files
        .iter()
        .chain(&far_door)
        .map(AsRawFd::as_raw_fd)
        .collect();
    let mut inherit = made.clone();
    inherit.push(control);
    inherit.extend(&launch.inherited.keep);

    let engine_stderr = prepared.stderr;
    let mut stage = PreStage {
        becomes: prepared.becomes,
        net: launch.net,
        namespaced: launch.net != NetSetup::Inner,
        listen: launch.listen.into(),
        catch: launch.catch.map(Cow::Borrowed),
        premounts: (&invocation.premounts).into(),
        inherit,
        ids: (getuid().as_raw(), getgid().as_raw()),
    };
    if let Some(early) = early {
        let mut passed = made;
        passed.extend(engine_stderr.as_ref().map(AsRawFd::as_raw_fd));
        let (child, ours) = early.order(&stage, &passed).map_err(errors::resources)?;
        return Ok(Live {
            child,
            control: Some(ours),
            door,
            lifeline: None,
            orphans: None,
            engine_stderr,
        });
    }
    let (ours, theirs) = pair.ok_or_else(|| errors::lost("no control socket"))?;
    let (lifeline, watched) = fds::packet_pair().map_err(errors::resources)?;
    if stage.namespaced {
        let flags = PreStage::namespaces(launch.net);
        match fork_into(flags) {
            Ok(Forked::Parent(pid)) => {
                return Ok(Live {
                    child: pid,
                    control: Some(ours),
                    door,
                    lifeline: None,
                    orphans: None,
                    engine_stderr,
                });
            }
            Ok(Forked::Child) => {
                drop((ours, door, lifeline));
                // Without process ids in common: the parent's end of the control socket tells.
                stage.run(&theirs, || prestage::open(&theirs))
            }
            // Without a network of its own the pre-stage has only its process namespace to lose.
            Err(_) if launch.net == NetSetup::Host && invocation.premounts.is_empty() => {
                stage.namespaced = false;
            }
            Err(e) => return Err(errors::no_namespaces(&e, launch.net)),
        }
    }
    let orphans = Orphans::adopt().map_err(errors::resources)?;
    match fork_into(CloneFlags::empty()).map_err(errors::resources)? {
        Forked::Parent(pid) => Ok(Live {
            child: pid,
            control: Some(ours),
            door,
            lifeline: Some(lifeline),
            orphans: Some(orphans),
            engine_stderr,
        }),
        Forked::Child => {
            drop((ours, door, lifeline));
            prestage::guard(&stage, &theirs, &watched)
        }
    }
}

/// What the pre-stage becomes, and the descriptors that takes.
struct Prepared {
    becomes: Becomes,
    files: Vec<OwnedFd>,
    /// Takes what the engine says.
    stderr: Option<OwnedFd>,
}

impl Prepared {
    /// The pre-stage itself is pid 1.
    fn init(plan: InnerPlan, facts: Facts) -> io::Result<Self> {
        let plan = fds::memory_file(c"plan", &handover::pack(plan, facts)?)?;
        Ok(Self {
            becomes: Becomes::Init {
                plan: plan.as_raw_fd(),
            },
            files: vec![plan],
            stderr: None,
        })
    }

    /// bubblewrap, which executes the inner stage. `facts` are told where the caller's standard error is.
    fn engine(
        program: &Path,
        args: &[EngineArg],
        plan: InnerPlan,
        facts: impl FnOnce(RawFd) -> Facts,
    ) -> io::Result<Self> {
        let exe = fds::self_executable()?;
        let caller_stderr = fds::duplicate(io::stderr())?;
        let stderr = fds::memory_file(c"engine-stderr", b"")?;
        let rendered = EngineArgs::render(args, exe.as_raw_fd())?;
        let options = fds::memory_file(c"arguments", &rendered.options)?;
        let plan = handover::pack(plan, facts(caller_stderr.as_raw_fd()))?;
        let plan = fds::memory_file(c"plan", &plan)?;
        let becomes = Becomes::Engine {
            program: CString::new(program.as_os_str().as_bytes())?,
            argv: command_line(program, &options, &rendered.command, &plan)?,
            stderr: stderr.as_raw_fd(),
        };
        let mut files = vec![exe, caller_stderr, options, plan];
        files.extend(rendered.data);
        Ok(Self {
            becomes,
            files,
            stderr: Some(stderr),
        })
    }
}

/// `bwrap --args N -- /proc/self/fd/EXE __inner PLAN`: what others on the host can read of it names no path.
fn command_line(
    program: &Path,
    options: &OwnedFd,
    command: &[OsString],
    handover: &OwnedFd,
) -> Result<Vec<CString>, std::ffi::NulError> {
    let number = |fd: &OwnedFd| fd.as_raw_fd().to_string().into_bytes();
    let name = program.file_name().unwrap_or(OsStr::new("bwrap"));
    let mut argv = vec![
        name.as_bytes().to_vec(),
        b"--args".to_vec(),
        number(options),
        b"--".to_vec(),
    ];
    argv.extend(command.iter().map(|c| c.clone().into_vec()));
    argv.push(number(handover));
    argv.into_iter().map(CString::new).collect()
}

/// Engine arguments in the form they are handed over.
#[derive(Debug)]
struct EngineArgs {
    /// Options, each ended by NUL.
    options: Vec<u8>,
    /// What the engine executes, without the plan's number.
    command: Vec<OsString>,
    /// Memory files that the options name by number.
    data: Vec<OwnedFd>,
}

impl EngineArgs {
    /// Options up to a literal `--`; what follows it is the command, by default this executable's inner stage.
    fn render(args: &[EngineArg], exe: RawFd) -> io::Result<Self> {
        let exe = OsString::from(format!("/proc/self/fd/{exe}"));
        let mut rendered = Self {
            options: Vec::new(),
            command: Vec::new(),
            data: Vec::new(),
        };
        let mut in_command = false;
        for arg in args {
            let text = match arg {
                EngineArg::Text(text) if !in_command && text == "--" => {
                    in_command = true;
                    continue;
                }
                EngineArg::Text(text) => text.clone(),
                EngineArg::SelfExe => exe.clone(),
                EngineArg::Data(content) => {
                    let file = fds::memory_file(c"data", content)?;
                    let number = file.as_raw_fd().to_string();
                    rendered.data.push(file);
                    number.into()
                }
            };
            if in_command {
                rendered.command.push(text);
            } else {
                if text.as_bytes().contains(&0) {
                    return Err(Errno::EINVAL.into());
                }
                rendered.options.extend_from_slice(text.as_bytes());
                rendered.options.push(0);
            }
        }
        if !in_command {
            rendered.command = vec![exe, inner::ARGUMENT.into()];
        }
        Ok(rendered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(s: &str) -> EngineArg {
        EngineArg::Text(s.into())
    }

    #[test]
    fn options_are_separated_by_nul_and_the_command_is_ours() {
        let args = [
            text("--ro-bind"),
            text("/a b"),
            text("/"),
            text("--ro-bind-data"),
            EngineArg::Data(b"x".to_vec()),
            text("/f"),
        ];
        let rendered = EngineArgs::render(&args, 9).unwrap();
        let data = rendered.data[0].as_raw_fd();
        let expected = format!("--ro-bind\0/a b\0/\0--ro-bind-data\0{data}\0/f\0");
        assert_eq!(rendered.options, expected.into_bytes());
        assert_eq!(rendered.command, ["/proc/self/fd/9", "__inner"]);
    }

    #[test]
    fn a_command_in_the_arguments_is_taken_from_there() {
        let args = [
            text("--proc"),
            text("/proc"),
            text("--"),
            EngineArg::SelfExe,
            text("__inner"),
            text("--"),
        ];
        let rendered = EngineArgs::render(&args, 4).unwrap();
        assert_eq!(rendered.options, b"--proc\0/proc\0");
        assert_eq!(rendered.command, ["/proc/self/fd/4", "__inner", "--"]);
    }

    #[test]
    fn a_nul_cannot_smuggle_an_option() {
        assert!(EngineArgs::render(&[text("/a\0--bind")], 4).is_err());
    }
}
