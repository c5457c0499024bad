//! Functional probe: what this host can enforce, what is missing, how to get it (R11).
//!
//! [`observe`](observe::observe) really does things, in child processes: makes namespaces, runs bubblewrap. [`judge`] turns
//! what was observed into words; it is pure, so every obstacle has a test although this machine shows only one.

pub mod observe;
mod remedy;
mod text;

use serde::Serialize;

use super::broker::BrokerHost;
use super::bwrap::Missing;
use super::platform::Platform;
use observe::{Observed, Trial};

pub use remedy::{Obstacle, install_hint};
pub use text::render;

/// Everything `ccbox probe` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// Shape of this document.
    pub schema: u32,
    /// Version of ccbox.
    pub version: &'static str,
    /// What this system is.
    pub platform: Platform,
    /// Release of the kernel.
    pub kernel: String,
    /// `PRETTY_NAME` of os-release(5).
    pub distribution: Option<String>,
    /// The container around this process, where one is recognised.
    pub container: Option<String>,
    /// Inside a ccbox sandbox (semantics 46).
    pub nested: bool,
    /// native, none, microvm.
    pub backends: Vec<BackendStatus>,
    /// Engines of the native backend on Linux, in the order in which `auto` takes them.
    pub engines: Vec<EngineStatus>,
    /// The single mechanisms.
    pub checks: Vec<Check>,
    /// What this version cannot hold anywhere, in words (R14).
    pub gaps: Vec<String>,
}

/// One backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BackendStatus {
    /// `native`, `none`, `microvm`.
    pub name: &'static str,
    /// Can run a command now.
    pub available: bool,
    /// What it isolates.
    pub note: Option<String>,
    /// Something has to be installed first.
    pub requires_install: bool,
    /// Why it is unavailable.
    pub reason: Option<String>,
    /// The next step.
    pub hint: Option<String>,
}

/// One engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EngineStatus {
    /// As in `engine = "…"`.
    pub name: &'static str,
    /// Can hold what it can express here and now.
    pub available: bool,
    /// What it is.
    pub note: &'static str,
    /// Why it is unavailable.
    pub reason: Option<String>,
    /// The next step.
    pub hint: Option<String>,
}

/// One mechanism.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Stable name.
    pub name: &'static str,
    /// Works.
    pub ok: bool,
    /// The sandbox needs it.
    pub required: bool,
    /// What was seen.
    pub detail: String,
    /// How to get it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Probe {
    /// The native backend's state.
    #[must_use]
    pub fn native(&self) -> Option<&BackendStatus> {
        self.backends.iter().find(|b| b.name == "native")
    }
}

/// The note of R11 for macOS.
pub const SEATBELT_NOTE: &str = "sandbox-exec (Seatbelt): namespace isolation, no kernel boundary";
/// The same for Linux and WSL2.
pub const BWRAP_NOTE: &str = "bubblewrap: namespace isolation, no kernel boundary";

/// Where only ccbox itself makes the sandbox.
pub const BUILTIN_NOTE: &str = "ccbox itself: namespace isolation, no kernel boundary";
/// Landlock ABI that engine `landlock` needs (Linux 6.12): from there on signals and abstract sockets end at the domain.
pub const LANDLOCK_ABI: i32 = 6;

/// What no engine of this version holds (R14).
pub const GAPS: [&str; 1] = [
    "host-replace: a file that is hidden without an entry in deny_read, and that a host program replaces during the run, can be read where \
     the command can write to its directory",
];
/// What is not held where the creation broker cannot work.
pub const GAPS_OF_MOUNTS: [&str; 2] = [
    "absent-names: protected and mandatory paths that do not exist at the start are not held against creation inside writable \
     directories; a spec that asks for it is refused",
    "name-patterns: those of built-in profiles do not hold; a spec with one of its own is refused",
];

/// What is not held on macOS.
pub const GAPS_OF_MACOS: [&str; 3] = [
    "names: a DNS query for any name can leave, unless the spec says `macos.dns = \"off\"`",
    "other-names: a hard link that was made before the run is another path, and rules are about paths",
    "orphans: a process whose parents have all ended before the command does is not ended with it; it stays in the sandbox",
];

/// Turns observations into an answer.
#[must_use]
pub fn judge(o: &Observed) -> Probe {
    let native = match o.platform {
        Platform::Linux | Platform::Wsl2 => linux_native(o),
        Platform::Macos => macos_native(o),
        Platform::Wsl1 => unavailable(
            "WSL1 has no namespaces",
            Some("convert the distribution: wsl --set-version <name> 2".to_owned()),
        ),
        Platform::Other => unavailable("this system has no supported sandbox", None),
    };
    let checks = match o.platform {
        Platform::Linux | Platform::Wsl2 => linux_checks(o),
        Platform::Macos => macos_checks(o),
        Platform::Wsl1 | Platform::Other => Vec::new(),
    };
    Probe {
        schema: 1,
        version: env!("CARGO_PKG_VERSION"),
        platform: o.platform,
        kernel: o.kernel.clone(),
        distribution: o.os.pretty_name.clone(),
        container: o.container.clone(),
        nested: o.nested,
        backends: vec![
            native,
            BackendStatus {
                name: "none",
                available: true,
                note: Some("no isolation; the environment is still scrubbed".to_owned()),
                requires_install: false,
                reason: None,
                hint: None,
            },
            BackendStatus {
                name: "microvm",
                available: false,
                note: None,
                requires_install: false,
                reason: Some(microvm_missing(o.kvm)),
                hint: None,
            },
        ],
        engines: match o.platform {
            Platform::Linux | Platform::Wsl2 => engines(o),
            Platform::Macos | Platform::Wsl1 | Platform::Other => Vec::new(),
        },
        checks,
        gaps: gaps(o),
    }
}

fn gaps(o: &Observed) -> Vec<String> {
    if o.platform == Platform::Macos {
        return GAPS_OF_MACOS.iter().map(|g| (*g).to_owned()).collect();
    }
    let of_mounts: &[&str] = if o.broker.works() {
        &[]
    } else {
        &GAPS_OF_MOUNTS
    };
    let all = of_mounts.iter().chain(&GAPS);
    all.map(|g| (*g).to_owned()).collect()
}

/// The engines of Linux.
fn engines(o: &Observed) -> Vec<EngineStatus> {
    let of = |name, note, obstacle: Option<Obstacle>| EngineStatus {
        name,
        available: obstacle.is_none(),
        note,
        reason: obstacle.as_ref().map(|o| o.reason.clone()),
        hint: obstacle.and_then(|o| o.fix),
    };
    let builtin = match &o.builtin {
        Trial::Works => None,
        Trial::Fails(said) => Some(Obstacle {
            reason: format!("ccbox cannot make its namespaces itself: {said}"),
            fix: remedy::userns_fix(o),
        }),
    };
    let bwrap = bwrap(o);
    let bwrap = (!bwrap.available).then(|| Obstacle {
        reason: bwrap.reason.unwrap_or_default(),
        fix: bwrap.hint,
    });
    vec![
        of("builtin", "ccbox makes the namespaces itself", builtin),
        of("bwrap", "bubblewrap makes the namespaces", bwrap),
        of(
            "landlock",
            "no namespaces: an allow list and the broker; the host's processes are visible, so it is taken only when asked for, or \
             with sandbox = \"on\"",
            no_landlock(o),
        ),
    ]
}

/// Why engine `landlock` cannot work.
fn no_landlock(o: &Observed) -> Option<Obstacle> {
    if o.landlock_abi < LANDLOCK_ABI {
        let has = match o.landlock_abi {
            0 => "none, or it is off".to_owned(),
            n => format!("ABI {n}"),
        };
        return Some(Obstacle {
            reason: format!("it needs Landlock ABI {LANDLOCK_ABI}, the kernel has {has}"),
            fix: Some(
                "Linux 6.12 or later with `landlock` in the kernel parameter lsm=".to_owned(),
            ),
        });
    }
    if let BrokerHost::Lacks(why) = &o.broker {
        return Some(Obstacle {
            reason: why.clone(),
            fix: None,
        });
    }
    // ptrace(2), Yama: from 2 on nobody reads another process' memory without a capability over it.
    let yama = o.yama.filter(|y| *y >= 2)?;
    Some(Obstacle {
        reason: format!("kernel.yama.ptrace_scope is {yama}"),
        fix: Some("sysctl kernel.yama.ptrace_scope=1".to_owned()),
    })
}

/// What a micro VM would need (R13).
#[must_use]
pub fn microvm_missing(kvm: bool) -> String {
    let device = if kvm { "" } else { "; /dev/kvm is missing too" };
    format!("not supported yet: this version has no virtual machine monitor{device}")
}

fn unavailable(reason: &str, hint: Option<String>) -> BackendStatus {
    BackendStatus {
        name: "native",
        available: false,
        note: None,
        requires_install: false,
        reason: Some(reason.to_owned()),
        hint,
    }
}

fn macos_native(o: &Observed) -> BackendStatus {
    if o.uid == 0 {
        return unavailable(
            "macOS has no sandbox for root",
            Some("run it as an ordinary user".to_owned()),
        );
    }
    match &o.seatbelt {
        Some(Ok(())) => BackendStatus {
            name: "native",
            available: true,
            note: Some(SEATBELT_NOTE.to_owned()),
            requires_install: false,
            reason: None,
            hint: None,
        },
        Some(Err(obstacle)) => unavailable(&obstacle.reason, obstacle.fix.clone()),
        None => unavailable("no profile was tried", None),
    }
}

fn macos_checks(o: &Observed) -> Vec<Check> {
    let tried = match &o.seatbelt {
        Some(Ok(())) => (
            true,
            "a profile that refuses something is applied".to_owned(),
            None,
        ),
        Some(Err(obstacle)) => (false, obstacle.reason.clone(), obstacle.fix.clone()),
        None => (false, "no profile was tried".to_owned(), None),
    };
    vec![check("sandbox-exec", true, tried)]
}

fn linux_native(o: &Observed) -> BackendStatus {
    let bwrap = bwrap(o);
    if bwrap.available || o.builtin != Trial::Works {
        return bwrap;
    }
    BackendStatus {
        name: "native",
        available: true,
        note: Some(BUILTIN_NOTE.to_owned()),
        requires_install: false,
        reason: None,
        hint: None,
    }
}

fn bwrap(o: &Observed) -> BackendStatus {
    match &o.bwrap {
        Err(Missing::NotInstalled) => BackendStatus {
            requires_install: true,
            ..unavailable(
                "bubblewrap is not installed",
                Some(install_hint(&o.os, o.uid)),
            )
        },
        Err(Missing::NotTrusted { path, why }) => BackendStatus {
            requires_install: true,
            ..unavailable(
                &format!("`{}` cannot be trusted: {why}", path.display()),
                Some(install_hint(&o.os, o.uid)),
            )
        },
        Ok(b) if o.bwrap_version.is_none() => BackendStatus {
            requires_install: true,
            ..unavailable(
                &format!("`{}` does not work as bubblewrap", b.path.display()),
                Some(install_hint(&o.os, o.uid)),
            )
        },
        Ok(b) => match &o.bwrap_trial {
            Trial::Works => BackendStatus {
                name: "native",
                available: true,
                note: Some(BWRAP_NOTE.to_owned()),
                requires_install: false,
                reason: None,
                hint: None,
            },
            Trial::Fails(said) => {
                let obstacle = remedy::obstacle(o, b, said);
                unavailable(&obstacle.reason, obstacle.fix)
            }
        },
    }
}

fn linux_checks(o: &Observed) -> Vec<Check> {
    let mut out = Vec::new();
    let bwrap = match &o.bwrap {
        Ok(b) => {
            let version = o.bwrap_version.as_deref().unwrap_or("unknown version");
            let setuid = if b.setuid { ", setuid root" } else { "" };
            (
                true,
                format!("{} ({version}{setuid})", b.path.display()),
                None,
            )
        }
        Err(Missing::NotInstalled) => (
            false,
            "not installed".to_owned(),
            Some(install_hint(&o.os, o.uid)),
        ),
        Err(Missing::NotTrusted { path, why }) => (
            false,
            format!("{}: {why}", path.display()),
            Some(install_hint(&o.os, o.uid)),
        ),
    };
    let needed = o.builtin != Trial::Works;
    out.push(check("bubblewrap", needed, bwrap));
    if let Ok(b) = &o.bwrap {
        out.push(check(
            "sandbox",
            needed,
            match &o.bwrap_trial {
                Trial::Works => (true, "bubblewrap made every namespace".to_owned(), None),
                Trial::Fails(said) => {
                    let obstacle = remedy::obstacle(o, b, said);
                    (false, obstacle.reason, obstacle.fix)
                }
            },
        ));
    }
    // Where only bubblewrap may make user namespaces, the network is set up by bubblewrap itself (D6).
    out.push(check(
        "user-namespaces",
        false,
        match &o.userns {
            Trial::Works => (true, "ccbox can make them itself".to_owned(), None),
            Trial::Fails(said) => (
                false,
                format!("ccbox cannot make them itself: {said}"),
                remedy::userns_fix(o),
            ),
        },
    ));
    out.push(check(
        "landlock",
        false,
        if o.landlock_abi > 0 {
            (true, format!("ABI {}", o.landlock_abi), None)
        } else {
            (
                false,
                "the kernel has none, or it is off".to_owned(),
                Some("Linux 5.13 or later with `landlock` in the kernel parameter lsm=".to_owned()),
            )
        },
    ));
    out.push(check(
        "seccomp",
        true,
        match &o.seccomp_actions {
            Some(a) if a.split_whitespace().any(|w| w == "errno") => {
                let outer = if o.seccomp_filtered {
                    "; this process is already under a filter"
                } else {
                    ""
                };
                let notify = if a.split_whitespace().any(|w| w == "user_notif") {
                    ", user_notif"
                } else {
                    ""
                };
                (true, format!("errno{notify}{outer}"), None)
            }
            Some(_) | None => (
                false,
                "the kernel has no seccomp filters".to_owned(),
                Some("a kernel with CONFIG_SECCOMP_FILTER".to_owned()),
            ),
        },
    ));
    out.push(check(
        "broker",
        false,
        match &o.broker {
            BrokerHost::Works => (
                true,
                "names are judged when something is made, opened for writing, moved or removed"
                    .to_owned(),
                None,
            ),
            BrokerHost::Lacks(why) => (
                false,
                format!("names that do not exist yet and name patterns cannot be held: {why}"),
                None,
            ),
        },
    ));
    out.push(check(
        "fuse",
        false,
        match &o.fuse {
            Ok(()) => (true, "/dev/fuse can be opened".to_owned(), None),
            Err(e) => (
                false,
                format!("/dev/fuse: {}", e.desc()),
                Some(
                    if *e == nix::errno::Errno::EACCES {
                        "let this user open it (mode 0666, as most distributions have it)"
                    } else {
                        "load the kernel module: modprobe fuse"
                    }
                    .to_owned(),
                ),
            ),
        },
    ));
    if let Some(deep) = &o.deep {
        out.push(check(
            "run",
            true,
            match &deep.run {
                Trial::Works => (
                    true,
                    format!("a whole `ccbox run` took {} ms", deep.millis),
                    None,
                ),
                Trial::Fails(said) => (false, said.clone(), None),
            },
        ));
    }
    out
}

fn check(
    name: &'static str,
    required: bool,
    (ok, detail, fix): (bool, String, Option<String>),
) -> Check {
    Check {
        name,
        ok,
        required,
        detail,
        fix: fix.filter(|_| !ok),
    }
}

#[cfg(test)]
mod tests;
