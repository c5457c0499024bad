//! The real obstacle behind a failed sandbox, and the exact fix (R11).

use super::observe::{Observed, OsRelease, Trial};
use crate::host::bwrap::Bwrap;

/// Why there can be no sandbox, and what helps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// In words.
    pub reason: String,
    /// The next step.
    pub fix: Option<String>,
}

/// Finds the cause. Ordered from the most specific sign to the least; `said` is bubblewrap's own last line.
pub(super) fn obstacle(o: &Observed, b: &Bwrap, said: &str) -> Obstacle {
    let reason = |what: &str| format!("{what} (bubblewrap said: {})", brief(said));
    let found = |what: &str, fix: String| Obstacle {
        reason: reason(what),
        fix: Some(fix),
    };
    if o.bwrap_without_proc == Some(Trial::Works) {
        return found(
            "a fresh /proc may not be mounted here: an outer container covers parts of its own",
            match o.container.as_deref() {
                Some("docker" | "podman") => {
                    "start the container with --security-opt systempaths=unconfined".to_owned()
                }
                _ => "let the container unmask /proc (Kubernetes: procMount: Unmasked)".to_owned(),
            },
        );
    }
    if o.max_user_namespaces == Some(0) {
        return found(
            "user namespaces are not available: user.max_user_namespaces is 0",
            as_root(o.uid, "sysctl -w user.max_user_namespaces=28633"),
        );
    }
    if o.unprivileged_userns_clone == Some(0) && o.uid != 0 {
        return found(
            "user namespaces are not available: kernel.unprivileged_userns_clone is 0",
            as_root(o.uid, "sysctl -w kernel.unprivileged_userns_clone=1"),
        );
    }
    if o.apparmor_restricts && o.uid != 0 {
        return found(
            "AppArmor restricts unprivileged user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1)",
            apparmor_fix(b),
        );
    }
    if said.contains("setuid") && o.no_new_privs {
        return found(
            "bubblewrap is setuid root, and no_new_privs is set",
            "use a kernel with unprivileged user namespaces and a bubblewrap that is not setuid"
                .to_owned(),
        );
    }
    if let Some(container) = o.container.as_deref() {
        let fix = match container {
            "docker" | "podman" => "start the container with --security-opt seccomp=unconfined \
                 --security-opt apparmor=unconfined --security-opt systempaths=unconfined"
                .to_owned(),
            _ => "let the container make user namespaces (its seccomp or AppArmor profile refuses them)"
                .to_owned(),
        };
        return found(
            &format!("the {container} container refuses user namespaces"),
            fix,
        );
    }
    if o.seccomp_filtered {
        return found(
            "user namespaces are not available: a seccomp filter around this process refuses them",
            "allow clone and unshare with CLONE_NEWUSER in the filter of the service or container around this process"
                .to_owned(),
        );
    }
    Obstacle {
        reason: reason("bubblewrap cannot make a sandbox"),
        fix: None,
    }
}

/// The fix for a ccbox that may not make user namespaces itself, where one is known.
pub(super) fn userns_fix(o: &Observed) -> Option<String> {
    if o.max_user_namespaces == Some(0) {
        Some(as_root(o.uid, "sysctl -w user.max_user_namespaces=28633"))
    } else if o.unprivileged_userns_clone == Some(0) {
        Some(as_root(
            o.uid,
            "sysctl -w kernel.unprivileged_userns_clone=1",
        ))
    } else {
        None
    }
}

/// Ubuntu 23.10 and later: a profile that lets exactly this program make user namespaces.
fn apparmor_fix(b: &Bwrap) -> String {
    format!(
        "printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap {} flags=(unconfined) {{ userns, }}\\n' \
         | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap",
        b.path.display()
    )
}

fn as_root(uid: u32, command: &str) -> String {
    if uid == 0 {
        command.to_owned()
    } else {
        format!("sudo {command}")
    }
}

/// bubblewrap's words without its name in front.
fn brief(said: &str) -> &str {
    said.strip_prefix("bwrap: ").unwrap_or(said)
}

/// The distribution's own command that installs bubblewrap.
#[must_use]
pub fn install_hint(os: &OsRelease, uid: u32) -> String {
    let families = std::iter::once(os.id.as_str()).chain(os.like.iter().map(String::as_str));
    for family in families {
        let command = match family {
            "debian" | "ubuntu" => "apt-get install bubblewrap",
            "fedora" | "rhel" | "centos" | "amzn" => "dnf install bubblewrap",
            "arch" | "archlinux" => "pacman -S bubblewrap",
            "alpine" => "apk add bubblewrap",
            "suse" | "opensuse" | "opensuse-leap" | "opensuse-tumbleweed" | "sles" => {
                "zypper install bubblewrap"
            }
            "gentoo" => "emerge --ask sys-apps/bubblewrap",
            "void" => "xbps-install -S bubblewrap",
            "mageia" => "urpmi bubblewrap",
            "nixos" => return "add pkgs.bubblewrap to environment.systemPackages".to_owned(),
            "guix" => {
                return "add bubblewrap to the packages of the system configuration".to_owned();
            }
            _ => continue,
        };
        return as_root(uid, command);
    }
    "install the package bubblewrap with the system's package manager".to_owned()
}
