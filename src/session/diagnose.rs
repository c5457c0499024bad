//! Why a sandbox cannot be built here: found out by trying, after the failure, never from another program's words
//! (CO-2, CO-3).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::{getgid, getuid};

use super::SessionError;
use super::prestage::give_up_privileges;
use crate::backend::NetSetup;
use crate::sys::libc;
use crate::sys::namespaces::CloneFlags;
use crate::sys::process::{Forked, WaitFor, exit_now, fork_into, wait};
use crate::sys::{fds, namespaces, netlink, prctl};

/// What a trial process does; each trial includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trial {
    /// A user namespace with the caller's ids mapped.
    UserNamespace,
    /// A network namespace with its loopback interface up.
    Network,
    /// A user namespace inside that, after all privileges are dropped: what bubblewrap makes below the pre-stage.
    NestedUserNamespace,
    /// A mount in a mount namespace.
    Mount,
    /// A fresh /proc in a process namespace.
    Proc,
}

/// Tries it in a process of its own: what the kernel said to the first thing that failed. The outer error is one of
/// trying, which says nothing about the trial.
pub fn attempt(trial: Trial) -> io::Result<Result<(), Errno>> {
    let (ours, theirs) = fds::packet_pair()?;
    match fork_into(CloneFlags::empty())? {
        Forked::Parent(pid) => {
            drop(theirs);
            let verdict = verdict(&ours);
            wait(pid.as_raw(), WaitFor::End)?;
            verdict
        }
        Forked::Child => {
            drop(ours);
            // ccbox is not dumpable by now, and the id maps of a process that is not belong to root (proc(5)): every trial of an
            // ordinary user would end there, whatever the real obstacle is. This process ends before anything else runs.
            let errno = match prctl::set_dumpable(true).and_then(|()| try_it(trial)) {
                Ok(()) => 0,
                Err(e) => e.raw_os_error().unwrap_or(libc::EIO),
            };
            let _ = fds::send(&theirs, &errno.to_ne_bytes(), &[]);
            exit_now(0)
        }
    }
}

/// The errno a trial process sends, 0 for success.
fn verdict(socket: &OwnedFd) -> io::Result<Result<(), Errno>> {
    let mut bytes = [0; 4];
    fds::poll([socket.as_fd()], Some(std::time::Duration::from_secs(5)))?;
    match fds::receive(socket, &mut bytes)? {
        Some((4, _)) if bytes == [0; 4] => Ok(Ok(())),
        Some((4, _)) => Ok(Err(Errno::from_raw(i32::from_ne_bytes(bytes)))),
        Some(_) | None => Err(Errno::EIO.into()),
    }
}

fn try_it(trial: Trial) -> io::Result<()> {
    let ids = (getuid().as_raw(), getgid().as_raw());
    namespaces::enter(CloneFlags::CLONE_NEWUSER)?;
    namespaces::map_own_ids(ids.0, ids.1)?;
    match trial {
        Trial::UserNamespace => Ok(()),
        Trial::Network => {
            namespaces::enter(CloneFlags::CLONE_NEWNET)?;
            netlink::loopback_up()
        }
        Trial::NestedUserNamespace => {
            give_up_privileges(ids.0)?;
            namespaces::enter(CloneFlags::CLONE_NEWUSER)?;
            namespaces::map_own_ids(ids.0, ids.1)
        }
        Trial::Mount => {
            namespaces::enter(CloneFlags::CLONE_NEWNS)?;
            namespaces::make_mounts_private()
        }
        Trial::Proc => {
            namespaces::enter(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID)?;
            namespaces::make_mounts_private()?;
            in_new_process_namespace()
        }
    }
}

/// /proc shows the process namespace of the process that mounts it, which is the next child.
fn in_new_process_namespace() -> io::Result<()> {
    let (ours, theirs) = fds::packet_pair()?;
    match fork_into(CloneFlags::empty())? {
        Forked::Child => {
            drop(ours);
            let errno = namespaces::mount_proc()
                .err()
                .and_then(|e| e.raw_os_error())
                .unwrap_or(0);
            let _ = fds::send(&theirs, &errno.to_ne_bytes(), &[]);
            exit_now(0)
        }
        Forked::Parent(pid) => {
            drop(theirs);
            let verdict = verdict(&ours);
            wait(pid.as_raw(), WaitFor::End)?;
            Ok(verdict??)
        }
    }
}

/// The errno of a trial that was refused. What could not even be tried (ccbox has other threads by now, no memory) is
/// not taken for a cause.
fn refusal(trial: Trial) -> Option<Errno> {
    attempt(trial).ok()?.err()
}

/// Why user namespaces cannot be made, if so.
#[must_use]
pub fn namespaces() -> Option<SessionError> {
    let errno = refusal(Trial::UserNamespace)?;
    Some(user_namespaces_refused(errno, &Switches::read()))
}

/// Why bubblewrap could not build the sandbox, if one of the known causes is there.
pub(super) fn engine() -> Option<SessionError> {
    if let Some(cause) = namespaces() {
        return Some(cause);
    }
    if let Some(e) = refusal(Trial::NestedUserNamespace) {
        let mut error = SessionError::new(format!(
            "a user namespace inside another is refused here: {}",
            e.desc()
        ));
        error.retry = Some(NetSetup::Inner);
        error.host_refuses = true;
        return Some(error);
    }
    if let Some(e) = refusal(Trial::Mount) {
        let mut error = SessionError::new(format!(
            "mounting is refused in a user namespace here: {}",
            e.desc()
        ));
        error.hint = Some(
            "inside a container, run it with a seccomp and AppArmor profile that allows mount, e.g. `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`"
                .to_owned(),
        );
        error.host_refuses = true;
        return Some(error);
    }
    if let Some(e) = refusal(Trial::Proc) {
        let mut error = SessionError::new(format!(
            "a fresh /proc cannot be mounted here: {}; parts of /proc are covered, as in a container",
            e.desc()
        ));
        error.hint = Some(
            "run the container with `--security-opt systempaths=unconfined` (podman: `--security-opt unmask=ALL`)"
                .to_owned(),
        );
        error.host_refuses = true;
        return Some(error);
    }
    None
}

/// CAP_SETFCAP (linux/capability.h).
const SETFCAP: u32 = 31;

/// Switches of the kernel that forbid user namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Switches {
    /// user.max_user_namespaces
    max: Option<i64>,
    /// kernel.unprivileged_userns_clone (Debian's patch)
    debian: Option<i64>,
    /// kernel.apparmor_restrict_unprivileged_userns (Ubuntu)
    apparmor: Option<i64>,
    /// A seccomp filter is already installed on this process.
    filtered: bool,
    /// uid 0 without CAP_SETFCAP.
    powerless_root: bool,
    /// The process's root is not that of its mount namespace.
    chrooted: bool,
    /// This program.
    exe: Option<PathBuf>,
}

impl Switches {
    fn read() -> Self {
        let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse().ok();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|l| l.strip_prefix(name));
        let mode = field("Seccomp:");
        let effective = field("CapEff:").and_then(|c| u64::from_str_radix(c.trim(), 16).ok());
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        // proc_pid_mountinfo(5): the fifth field is the mount point, seen from the process's root.
        let mut points = mounts.lines().filter_map(|l| l.split(' ').nth(4));
        Self {
            max: number("/proc/sys/user/max_user_namespaces"),
            debian: number("/proc/sys/kernel/unprivileged_userns_clone"),
            apparmor: number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
            filtered: mode.is_some_and(|m| m.trim() != "0"),
            powerless_root: getuid().is_root() && effective.is_some_and(|c| c & 1 << SETFCAP == 0),
            chrooted: !mounts.is_empty() && !points.any(|p| p == "/"),
            exe: std::env::current_exe().ok(),
        }
    }
}

/// Ubuntu 23.10 and later: a profile that lets exactly this program make user namespaces. One whose path would need quoting in it gets
/// the other two ways.
fn apparmor_fix(exe: Option<&Path>) -> String {
    let plain = |path: &&str| {
        path.starts_with('/')
            && path
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"/._-+".contains(&b))
    };
    match exe.and_then(Path::to_str).filter(plain) {
        Some(exe) => format!(
            "printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile ccbox {exe} flags=(unconfined) {{ userns, }}\\n' \
             | sudo tee /etc/apparmor.d/ccbox && sudo apparmor_parser -r /etc/apparmor.d/ccbox"
        ),
        None => "install bubblewrap's AppArmor profile (package `apparmor-profiles`, `bwrap-userns-restrict`), or \
                 `sysctl kernel.apparmor_restrict_unprivileged_userns=0` as root"
            .to_owned(),
    }
}

fn user_namespaces_refused(errno: Errno, switches: &Switches) -> SessionError {
    let (cause, hint) = if switches.max == Some(0) {
        (
            "user.max_user_namespaces is 0".to_owned(),
            "`sysctl user.max_user_namespaces=15000` as root".to_owned(),
        )
    } else if switches.debian == Some(0) {
        (
            "kernel.unprivileged_userns_clone is 0".to_owned(),
            "`sysctl kernel.unprivileged_userns_clone=1` as root".to_owned(),
        )
    } else if switches.apparmor == Some(1) {
        (
            "AppArmor restricts them (kernel.apparmor_restrict_unprivileged_userns is 1)"
                .to_owned(),
            apparmor_fix(switches.exe.as_deref()),
        )
    } else if switches.powerless_root {
        (
            "uid 0 without CAP_SETFCAP may not be mapped into one (Linux 5.12)".to_owned(),
            "give the container that capability, e.g. `--cap-add SETFCAP`, or run as another user"
                .to_owned(),
        )
    } else if switches.chrooted {
        (
            "this process runs in a chroot, and the kernel makes none there".to_owned(),
            "start ccbox in a container, or make the directory the root by pivot_root(2)"
                .to_owned(),
        )
    } else if switches.filtered {
        (
            format!("a seccomp filter refuses them ({})", errno.desc()),
            "inside a container, run it with a seccomp profile that allows clone with CLONE_NEWUSER, e.g. `--security-opt seccomp=unconfined`".to_owned(),
        )
    } else if errno == Errno::ENOSPC {
        (
            "the limit of nested or counted user namespaces is reached".to_owned(),
            "raise user.max_user_namespaces here and in the namespaces around".to_owned(),
        )
    } else {
        (
            errno.desc().to_owned(),
            "allow unprivileged user namespaces on this host".to_owned(),
        )
    };
    let mut refused = SessionError::new(format!("user namespaces are not available here: {cause}"));
    refused.hint = Some(hint);
    refused.host_refuses = true;
    refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_switch_has_its_own_fix() {
        let (eperm, enospc) = (Errno::EPERM, Errno::ENOSPC);
        let none = Switches::default();
        for (error, switches, message, hint) in [
            (
                enospc,
                Switches {
                    max: Some(0),
                    ..none.clone()
                },
                "max_user_namespaces is 0",
                "sysctl user.max",
            ),
            (
                eperm,
                Switches {
                    debian: Some(0),
                    max: Some(9),
                    ..none.clone()
                },
                "userns_clone is 0",
                "userns_clone=1",
            ),
            (
                eperm,
                Switches {
                    apparmor: Some(1),
                    ..none.clone()
                },
                "AppArmor",
                "AppArmor profile",
            ),
            (
                eperm,
                Switches {
                    apparmor: Some(1),
                    exe: Some("/opt/odd \"name".into()),
                    ..none.clone()
                },
                "AppArmor",
                "AppArmor profile",
            ),
            (
                eperm,
                Switches {
                    apparmor: Some(1),
                    exe: Some("/usr/local/bin/ccbox".into()),
                    ..none.clone()
                },
                "AppArmor",
                "\\nprofile ccbox /usr/local/bin/ccbox flags=(unconfined) { userns, }\\n' | sudo tee",
            ),
            (
                eperm,
                Switches {
                    filtered: true,
                    ..none.clone()
                },
                "seccomp filter",
                "seccomp=unconfined",
            ),
            (
                eperm,
                Switches {
                    powerless_root: true,
                    ..none.clone()
                },
                "CAP_SETFCAP",
                "--cap-add SETFCAP",
            ),
            (
                eperm,
                Switches {
                    chrooted: true,
                    ..none.clone()
                },
                "chroot",
                "container",
            ),
            (
                enospc,
                none.clone(),
                "limit",
                "raise user.max_user_namespaces",
            ),
            (
                eperm,
                none.clone(),
                "Operation not permitted",
                "allow unprivileged",
            ),
        ] {
            let refused = user_namespaces_refused(error, &switches);
            assert!(refused.message.contains(message), "{}", refused.message);
            assert!(
                refused.hint.clone().unwrap().contains(hint),
                "{:?}",
                refused.hint
            );
        }
    }
}
