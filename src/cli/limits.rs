//! Which mechanism holds each limit of `[limits]`, and what cannot be held (R14).
//!
//! A control group holds memory and processes of the run as a whole. Where none is delegated to the caller (cgroup v2), limits of the
//! process take its place, and the words say of what they are: of each process, or of the processes of the run's own user namespace.

use std::time::Duration;

use super::engine::Chosen;
use super::usage::UsageError;
use crate::backend::{GroupPlan, Limit};
use crate::host::control_groups::ControlGroups;
use crate::plan::place;
use crate::policy::{LimitsPolicy, Ruled};

/// Since when RLIMIT_NPROC counts the processes of a user namespace, not those of the user (ucounts; Linux 5.14).
const COUNTS_BY_NAMESPACE: (u32, u32) = (5, 14);

/// What of the machine and the call decides.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) groups: ControlGroups,
    /// Major and minor.
    pub(super) kernel: (u32, u32),
    pub(super) uid: u32,
    pub(super) linux: bool,
}

impl Facts {
    /// Looks at this machine, where there is something to hold.
    pub(super) fn look(uid: u32, limits: &LimitsPolicy) -> Self {
        let wanted = limits.memory.is_some() || limits.pids.is_some();
        Self {
            groups: wanted.then(ControlGroups::look).unwrap_or_default(),
            kernel: kernel(),
            uid,
            linux: std::env::consts::OS == "linux",
        }
    }
}

/// Of what uname(2) says.
fn kernel() -> (u32, u32) {
    let name = nix::sys::utsname::uname();
    let release = name.map(|n| n.release().to_string_lossy().into_owned());
    let mut numbers = release
        .unwrap_or_default()
        .split(|c: char| !c.is_ascii_digit())
        .map(|n| n.parse().unwrap_or(0))
        .collect::<Vec<u32>>()
        .into_iter();
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// How the limits of a run are held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// Limits of the command's process, which what it starts inherits.
    pub(super) own: Vec<(Limit, u64)>,
    /// The control group to make.
    pub(super) group: Option<GroupPlan>,
    /// When the run ends.
    pub(super) wall: Option<Duration>,
    /// `memory:1073741824(control-group)`, one a limit.
    pub(super) words: Vec<String>,
}

impl Held {
    /// The word of the enforced line, where there is a limit.
    pub(super) fn enforced(&self) -> Option<String> {
        (!self.words.is_empty()).then(|| format!("limits={}", self.words.join(",")))
    }
}

/// Decides. A limit that nothing here holds is a refusal.
pub(super) fn hold(
    limits: &LimitsPolicy,
    chosen: &Chosen,
    facts: &Facts,
) -> Result<Held, UsageError> {
    if *chosen == Chosen::Seatbelt
        && let Some((key, limit)) = limits.iter().next()
    {
        return Err(UsageError::new(
            format!(
                "`limits.{key}` ({}) cannot be held on macOS",
                place(&limit.origin)
            ),
            "leave it out there",
        ));
    }
    let mut held = Held::default();
    let needed: Vec<&str> = [("memory", &limits.memory), ("pids", &limits.pids)]
        .iter()
        .filter_map(|(name, limit)| limit.is_some().then_some(*name))
        .collect();
    let place = match chosen {
        Chosen::Builtin(_) | Chosen::Bwrap(_) if !needed.is_empty() => facts.groups.with(&needed),
        Chosen::Builtin(_)
        | Chosen::Bwrap(_)
        | Chosen::Landlock(_)
        | Chosen::Seatbelt
        | Chosen::None(_) => None,
    };
    let mut files: Vec<(&'static str, String)> = Vec::new();
    if let Some(limit) = &limits.memory {
        let how = if place.is_some() {
            files.push(("memory.max", limit.value.to_string()));
            files.push(("memory.swap.max", "0".to_owned()));
            // Half a command is worth nothing: whoever runs out of memory ends the run.
            files.push(("memory.oom.group", "1".to_owned()));
            "control-group"
        } else {
            held.own.push((Limit::Data, limit.value));
            "data-of-each-process"
        };
        held.words.push(word("memory", limit, how));
    }
    if let Some(limit) = &limits.pids {
        let how = if place.is_some() {
            // The first process of the run counts as well, and bubblewrap, which stays outside of it.
            let own = if matches!(chosen, Chosen::Bwrap(_)) {
                2
            } else {
                1
            };
            files.push(("pids.max", limit.value.saturating_add(own).to_string()));
            "control-group"
        } else {
            counted_by_namespace(limit, chosen, facts)?;
            held.own
                .push((Limit::Processes, limit.value.saturating_add(1)));
            "user-namespace"
        };
        held.words.push(word("pids", limit, how));
    }
    if let Some(limit) = &limits.cpu_seconds {
        held.own.push((Limit::Cpu, limit.value));
        held.words.push(word("cpu_seconds", limit, "each-process"));
    }
    if let Some(limit) = &limits.files {
        held.own.push((Limit::Files, limit.value));
        held.words.push(word("files", limit, "each-process"));
    }
    if let Some(limit) = &limits.wall_seconds {
        held.wall = Some(Duration::from_secs(limit.value));
        held.words.push(word("wall_seconds", limit, "run"));
    }
    held.group = place.map(|place| GroupPlan {
        parent: place.parent,
        own: place.own,
        files,
    });
    Ok(held)
}

fn word(name: &str, limit: &Ruled<u64>, how: &str) -> String {
    format!("{name}:{}({how})", limit.value)
}

/// RLIMIT_NPROC counts what `pids` means: the kernel does it by user namespace, and does it to this user.
fn counted_by_namespace(
    limit: &Ruled<u64>,
    chosen: &Chosen,
    facts: &Facts,
) -> Result<(), UsageError> {
    let why = if matches!(chosen, Chosen::None(_) | Chosen::Landlock(_)) {
        "without a user namespace all processes of the user count"
    } else if !facts.linux || facts.kernel < COUNTS_BY_NAMESPACE {
        "before Linux 5.14 all processes of the user count"
    } else if facts.uid == 0 {
        "the kernel exempts root"
    } else {
        return Ok(());
    };
    Err(UsageError::new(
        format!(
            "`limits.pids` ({}) cannot be held: no control group is delegated to this call, and {why}",
            place(&limit.origin)
        ),
        "start it where one is (`systemd-run --user --scope -p Delegate=yes ccbox …`), or leave the limit out",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Layer, Origin};

    fn of(value: u64) -> Ruled<u64> {
        Ruled {
            value,
            origin: Origin {
                layer: Layer::Spec,
                file: Some("/s.toml".into()),
                line: Some(3),
            },
        }
    }

    fn facts() -> Facts {
        Facts {
            groups: ControlGroups::default(),
            kernel: (6, 1),
            uid: 1000,
            linux: true,
        }
    }

    fn all() -> LimitsPolicy {
        LimitsPolicy {
            memory: Some(of(1 << 30)),
            pids: Some(of(10)),
            cpu_seconds: Some(of(5)),
            files: Some(of(64)),
            wall_seconds: Some(of(9)),
        }
    }

    #[test]
    fn without_a_control_group_processes_are_limited() {
        let builtin = Chosen::Builtin(None);
        let held = hold(&all(), &builtin, &facts()).unwrap();
        assert_eq!(
            held.own,
            [
                (Limit::Data, 1 << 30),
                (Limit::Processes, 11),
                (Limit::Cpu, 5),
                (Limit::Files, 64)
            ]
        );
        assert_eq!(
            (held.group, held.wall),
            (None, Some(Duration::from_secs(9)))
        );
        assert_eq!(
            held.words.join(","),
            "memory:1073741824(data-of-each-process),pids:10(user-namespace),cpu_seconds:5(each-process),\
             files:64(each-process),wall_seconds:9(run)"
        );
        let nothing = hold(&LimitsPolicy::default(), &builtin, &facts()).unwrap();
        assert_eq!(nothing, Held::default());
    }

    #[test]
    fn what_cannot_be_held_is_refused() {
        let none = Chosen::None(String::new());
        let builtin = Chosen::Builtin(None);
        let landlock = Chosen::Landlock("/tmp/x".into());
        for (chosen, kernel, uid, why) in [
            (&none, (6, 1), 1000, "without a user namespace"),
            (&landlock, (6, 1), 1000, "without a user namespace"),
            (&builtin, (5, 13), 1000, "before Linux 5.14"),
            (&builtin, (6, 1), 0, "exempts root"),
        ] {
            let facts = Facts {
                kernel,
                uid,
                ..facts()
            };
            let e = hold(&all(), chosen, &facts).unwrap_err();
            assert!(e.message.contains(why), "{}", e.message);
            assert!(e.message.contains("/s.toml:3"), "{}", e.message);
            let mac = hold(&all(), &Chosen::Seatbelt, &facts).unwrap_err();
            assert!(mac.message.contains("on macOS"), "{}", mac.message);
            let rest = LimitsPolicy {
                pids: None,
                ..all()
            };
            assert!(hold(&rest, chosen, &facts).is_ok());
        }
    }

    #[test]
    fn this_kernel_has_a_number() {
        assert!(kernel() >= (2, 6));
    }
}
