//! Which backend runs, and what is said about it (R10, R12, R13, semantics 14).

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::os::fd::AsFd;
use std::path::PathBuf;

use nix::errno::Errno;

use super::Fault;
use super::machine::Machine;
use super::usage::UsageError;
use crate::backend;
use crate::host::FsView;
use crate::host::Platform;
use crate::host::bwrap::{self, Missing};
use crate::host::probe::observe::OsRelease;
use crate::host::probe::{install_hint, microvm_missing};
use crate::plan::{Plan, PlanError};
use crate::policy::{BackendChoice, EngineChoice, NetworkMode, Policy, SandboxMode};
use crate::session::harden::landlock_abi;
use crate::sys::task;

/// The chosen backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Chosen {
    /// ccbox makes the sandbox itself; bubblewrap at this path where the host does not let it and nobody insisted.
    Builtin(Option<PathBuf>),
    /// bubblewrap at a fixed path.
    Bwrap(PathBuf),
    /// Landlock without namespaces; with the run's `$TMPDIR`.
    Landlock(PathBuf),
    /// A profile of macOS.
    Seatbelt,
    /// Nothing isolates; the line says why, and `-q` does not drop it.
    None(String),
}

impl Chosen {
    /// As in `CCBOX_BACKEND` and the handle document.
    pub(super) fn backend(&self) -> &'static str {
        match self {
            Self::Builtin(_) | Self::Bwrap(_) | Self::Landlock(_) | Self::Seatbelt => "native",
            Self::None(_) => "none",
        }
    }
}

/// What the machine offers, as far as a start needs to know: nothing is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) platform: Platform,
    pub(super) uid: u32,
    pub(super) bwrap: Result<PathBuf, Missing>,
    /// The distribution's command; looked up only where it is needed.
    pub(super) install: String,
    pub(super) kvm: bool,
}

impl Offer {
    /// Looks at this machine.
    pub(super) fn of(fs: &dyn FsView, machine: &Machine) -> Self {
        let uid = machine.uid;
        let bwrap = bwrap::find(fs).map(|b| b.path);
        let install = match bwrap {
            Ok(_) => String::new(),
            Err(_) => install_hint(&OsRelease::read(fs), uid),
        };
        Self {
            platform: machine.platform,
            uid,
            bwrap,
            install,
            kvm: fs.kind(std::path::Path::new("/dev/kvm")).is_some(),
        }
    }

    /// Why no native backend can start on this system.
    fn system(&self) -> Option<UsageError> {
        let why = match self.platform {
            Platform::Wsl1 => Some("WSL1 has no namespaces"),
            // A profile says nothing about what root may do to other processes and to the kernel, and there are no user namespaces.
            Platform::Macos if self.uid == 0 => Some(AS_ROOT),
            Platform::Linux | Platform::Wsl2 | Platform::Macos => None,
            Platform::Other => Some("this system has no supported sandbox"),
        };
        why.map(|why| UsageError {
            message: why.to_owned(),
            hint: (why == AS_ROOT).then(|| "run it as an ordinary user".to_owned()),
        })
    }

    /// Why bubblewrap cannot start, in words, with the next step.
    fn obstacle(&self) -> Option<UsageError> {
        if let Some(why) = self.system() {
            return Some(why);
        }
        let message = match &self.bwrap {
            Ok(_) => return None,
            Err(Missing::NotInstalled) => "bubblewrap is not installed".to_owned(),
            Err(Missing::NotTrusted { path, why }) => {
                format!("`{}` cannot be trusted: {why}", path.display())
            }
        };
        Some(UsageError {
            message,
            hint: Some(self.install.clone()),
        })
    }
}

/// Nothing on macOS takes its privileges from root (D10).
const AS_ROOT: &str = "macOS has no sandbox for root";

/// The status line of `sandbox = off` (R12).
pub(super) const OFF: &str = "sandbox DISABLED by --sandbox off";

/// Chooses. `sandbox = on` never turns a backend asked for by name into none but for `native`.
pub(super) fn choose(policy: &Policy, offer: &Offer) -> Result<Chosen, Fault> {
    if policy.sandbox == SandboxMode::Off {
        return Ok(Chosen::None(OFF.to_owned()));
    }
    match policy.backend {
        BackendChoice::None => return Ok(Chosen::None(none_line(policy))),
        BackendChoice::MicroVm => {
            return Err(UsageError::new(
                format!("backend `microvm`: {}", microvm_missing(offer.kvm)),
                "`--backend native`",
            )
            .into());
        }
        BackendChoice::Auto | BackendChoice::Native => {}
    }
    if offer.platform == Platform::Macos {
        return on_mac(policy, offer);
    }
    match policy.engine {
        EngineChoice::Landlock if offer.system().is_none() => return Ok(landlock(policy)?),
        EngineChoice::Builtin if offer.system().is_none() => return Ok(Chosen::Builtin(None)),
        EngineChoice::Auto if offer.system().is_none() => {
            return Ok(Chosen::Builtin(offer.bwrap.clone().ok()));
        }
        EngineChoice::Auto
        | EngineChoice::Builtin
        | EngineChoice::Bwrap
        | EngineChoice::Landlock => {}
    }
    match (&offer.bwrap, offer.obstacle()) {
        (Ok(path), None) => Ok(Chosen::Bwrap(path.clone())),
        (_, obstacle) => {
            let why = obstacle.unwrap_or_else(|| UsageError {
                message: "no engine".to_owned(),
                hint: None,
            });
            if policy.sandbox == SandboxMode::On {
                Ok(Chosen::None(missing_line(
                    &why.message,
                    why.hint.as_deref(),
                )))
            } else {
                Err(no_sandbox(why).into())
            }
        }
    }
}

/// Engine `landlock`, where the kernel has what it needs.
pub(super) fn landlock(policy: &Policy) -> Result<Chosen, UsageError> {
    kernel(landlock_abi(), yama())?;
    let connects = policy.net.mode == NetworkMode::Filtered || !policy.net.unix_sockets.is_empty();
    if connects && !takes_sockets() {
        return Err(UsageError::new(
            "engine `landlock` cannot connect for the command: a filter around this process refuses pidfd_getfd(2)",
            "`network.mode = \"off\"` without Unix sockets, or a container with `--security-opt seccomp=unconfined`",
        ));
    }
    let number = RandomState::new().build_hasher().finish();
    Ok(Chosen::Landlock(backend::landlock::temporary(number)))
}

/// Whether a descriptor of another process can be copied, tried with one of this process.
fn takes_sockets() -> bool {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let copied = task::open_process(own).and_then(|own| task::copy_descriptor(own.as_fd(), 0));
    !matches!(copied, Err(Errno::EPERM | Errno::ENOSYS | Errno::EACCES))
}

/// Landlock's ABI and what Yama lets a parent see of its child (ptrace_scope of Yama's documentation).
fn kernel(abi: i32, yama: u32) -> Result<(), UsageError> {
    if abi < backend::landlock::ABI {
        let has = match abi {
            0 => "none, or it is off".to_owned(),
            n => format!("ABI {n}"),
        };
        let floor = backend::landlock::ABI;
        return Err(UsageError {
            message: format!(
                "engine `landlock` needs Landlock ABI {floor} (Linux 6.12), the kernel has {has}"
            ),
            hint: None,
        });
    }
    if yama >= 2 {
        return Err(UsageError::new(
            format!(
                "engine `landlock` cannot read what a command asks for: kernel.yama.ptrace_scope is {yama}"
            ),
            "sysctl kernel.yama.ptrace_scope=1",
        ));
    }
    Ok(())
}

/// 0 where the kernel has no Yama.
fn yama() -> u32 {
    let text = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    text.ok().and_then(|t| t.trim().parse().ok()).unwrap_or(0)
}

/// There is one engine, and no other is started in its place.
fn on_mac(policy: &Policy, offer: &Offer) -> Result<Chosen, Fault> {
    let Some(why) = offer.system() else {
        return match policy.engine {
            EngineChoice::Auto => Ok(Chosen::Seatbelt),
            EngineChoice::Builtin | EngineChoice::Bwrap | EngineChoice::Landlock => {
                Err(UsageError::new(
                    "the engines of Linux are not on macOS",
                    "leave `--engine` out",
                )
                .into())
            }
        };
    };
    if policy.sandbox == SandboxMode::On {
        return Ok(Chosen::None(missing_line(
            &why.message,
            why.hint.as_deref(),
        )));
    }
    Err(no_sandbox(why).into())
}

/// A rule that somebody wrote down and that cannot be held here keeps every isolated run from starting (R14). Where nothing is
/// isolated, the status line says so already.
pub(super) fn holds(plan: &Plan, policy: &Policy, chosen: &Chosen) -> Result<(), PlanError> {
    match (chosen, &plan.refusal) {
        // What a profile cannot hold is told when it is made.
        (Chosen::Builtin(_) | Chosen::Bwrap(_), None) | (Chosen::Seatbelt | Chosen::None(_), _) => {
            Ok(())
        }
        (Chosen::Builtin(_) | Chosen::Bwrap(_) | Chosen::Landlock(_), Some(refusal)) => {
            Err(refusal.clone())
        }
        (Chosen::Landlock(_), None) => backend::landlock::fits(plan, policy),
    }
}

/// The refusal of `sandbox = require` (R12).
pub(super) fn no_sandbox(why: UsageError) -> UsageError {
    UsageError {
        message: format!("no sandbox on this host: {}", why.message),
        hint: why.hint,
    }
}

/// The status line of `sandbox = on` where only [`landlock`] can wrap. With `require` nobody gets it unasked: the host's processes are
/// visible with it, which no run shows in silence (R63).
pub(super) fn last_line(why: &str) -> String {
    format!(
        "{why}; engine landlock instead: the host's processes and the names of hidden files are visible"
    )
}

/// The hint of a refusal, where [`landlock`] would do for whoever asks for it.
pub(super) fn or_last(hint: &str) -> String {
    format!(
        "{hint}; or `--engine landlock`, which can hold this policy and leaves the host's processes visible"
    )
}

/// The status line of `sandbox = on` where nothing can wrap (R12).
pub(super) fn missing_line(why: &str, hint: Option<&str>) -> String {
    let next = hint.map(|h| format!("; hint: {h}")).unwrap_or_default();
    format!("no OS-native sandbox on this host: {why}; running without{next}")
}

fn none_line(policy: &Policy) -> String {
    let hosts = if policy.net.allowed.is_empty() && policy.net.denied.is_empty() {
        ""
    } else {
        ", and the host rules do not hold"
    };
    format!("backend none: nothing is isolated{hosts}; only the environment is cleaned")
}

#[cfg(test)]
mod tests;
