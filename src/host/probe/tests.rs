use super::super::bwrap::Bwrap;
use super::observe::{Deep, OsRelease};
use super::*;

fn healthy() -> Observed {
    Observed {
        platform: Platform::Linux,
        kernel: "6.1.0".into(),
        uid: 1000,
        os: OsRelease::parse("ID=debian\nPRETTY_NAME=\"Debian 12\"\n"),
        container: None,
        nested: false,
        bwrap: Ok(Bwrap {
            path: "/usr/bin/bwrap".into(),
            setuid: false,
        }),
        bwrap_version: Some("0.8.0".into()),
        bwrap_trial: Trial::Works,
        bwrap_without_proc: None,
        userns: Trial::Works,
        builtin: Trial::Works,
        yama: None,
        landlock_abi: 7,
        broker: BrokerHost::Works,
        seccomp_actions: Some("kill_process errno user_notif allow\n".into()),
        seccomp_filtered: false,
        no_new_privs: false,
        fuse: Ok(()),
        apparmor_restricts: false,
        max_user_namespaces: Some(60000),
        unprivileged_userns_clone: None,
        kvm: false,
        seatbelt: None,
        deep: None,
    }
}

fn failing(said: &str) -> Observed {
    Observed {
        bwrap_trial: Trial::Fails(said.into()),
        bwrap_without_proc: Some(Trial::Fails(said.into())),
        userns: Trial::Fails("unshare(CLONE_NEWUSER): Operation not permitted".into()),
        builtin: Trial::Fails("unshare(CLONE_NEWUSER): Operation not permitted".into()),
        ..healthy()
    }
}

fn native(o: &Observed) -> BackendStatus {
    judge(o).native().cloned().unwrap()
}

#[test]
fn a_healthy_host_is_available_with_the_note_of_the_contract() {
    for platform in [Platform::Linux, Platform::Wsl2] {
        let n = native(&Observed {
            platform,
            ..healthy()
        });
        assert!(n.available && !n.requires_install);
        assert_eq!(n.note.as_deref(), Some(BWRAP_NOTE));
    }
    let checks = judge(&healthy()).checks;
    assert!(checks.iter().all(|c| c.ok && c.fix.is_none()), "{checks:?}");
}

#[test]
fn systems_without_a_sandbox_say_why() {
    for (platform, word) in [
        (Platform::Wsl1, "WSL1"),
        (Platform::Other, "no supported sandbox"),
        (Platform::Macos, "no profile was tried"),
    ] {
        let n = native(&Observed {
            platform,
            ..healthy()
        });
        assert!(!n.available && n.reason.unwrap().contains(word));
    }
}

#[test]
fn a_missing_bubblewrap_names_the_distributions_own_command() {
    let table = [
        ("ID=debian", 1000, "sudo apt-get install bubblewrap"),
        ("ID=debian", 0, "apt-get install bubblewrap"),
        (
            "ID=linuxmint\nID_LIKE=\"ubuntu debian\"",
            1000,
            "sudo apt-get install bubblewrap",
        ),
        ("ID=fedora", 1000, "sudo dnf install bubblewrap"),
        (
            "ID=rocky\nID_LIKE=\"rhel centos fedora\"",
            1000,
            "sudo dnf install bubblewrap",
        ),
        ("ID=arch", 1000, "sudo pacman -S bubblewrap"),
        ("ID=alpine", 0, "apk add bubblewrap"),
        (
            "ID=opensuse-leap\nID_LIKE=\"suse opensuse\"",
            1000,
            "sudo zypper install bubblewrap",
        ),
        (
            "ID=nixos",
            1000,
            "add pkgs.bubblewrap to environment.systemPackages",
        ),
        (
            "ID=plan9",
            1000,
            "install the package bubblewrap with the system's package manager",
        ),
    ];
    for (os, uid, want) in table {
        let n = native(&Observed {
            os: OsRelease::parse(os),
            uid,
            bwrap: Err(Missing::NotInstalled),
            bwrap_without_proc: None,
            ..failing("no bubblewrap")
        });
        assert!(!n.available && n.requires_install);
        assert_eq!(n.hint.as_deref(), Some(want));
        assert_eq!(n.reason.as_deref(), Some("bubblewrap is not installed"));
    }
}

#[test]
fn the_real_obstacle_is_named_with_its_fix() {
    let uid_map = "bwrap: setting up uid map: Permission denied";
    let table: [(Observed, &str, &str); 8] = [
        (
            Observed {
                max_user_namespaces: Some(0),
                ..failing("bwrap: Creating new namespace failed: No space left on device")
            },
            "user.max_user_namespaces is 0",
            "sudo sysctl -w user.max_user_namespaces=28633",
        ),
        (
            Observed {
                unprivileged_userns_clone: Some(0),
                ..failing("bwrap: No permissions to create new namespace")
            },
            "kernel.unprivileged_userns_clone is 0",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        (
            Observed {
                apparmor_restricts: true,
                ..failing(uid_map)
            },
            "AppArmor restricts unprivileged user namespaces",
            "printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap /usr/bin/bwrap flags=(unconfined) { userns, }\\n' | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap",
        ),
        (
            Observed {
                bwrap_without_proc: Some(Trial::Works),
                container: Some("docker".into()),
                ..failing("bwrap: Can't mount proc on /newroot/proc: Operation not permitted")
            },
            "a fresh /proc may not be mounted here",
            "start the container with --security-opt systempaths=unconfined",
        ),
        (
            Observed {
                bwrap_without_proc: Some(Trial::Works),
                container: Some("kubepods".into()),
                ..failing("bwrap: Can't mount proc")
            },
            "a fresh /proc may not be mounted here",
            "let the container unmask /proc (Kubernetes: procMount: Unmasked)",
        ),
        (
            Observed {
                container: Some("docker".into()),
                seccomp_filtered: true,
                ..failing("bwrap: No permissions to create new namespace")
            },
            "the docker container refuses user namespaces",
            "start the container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined",
        ),
        (
            Observed {
                seccomp_filtered: true,
                ..failing("bwrap: Creating new namespace failed: Operation not permitted")
            },
            "a seccomp filter around this process refuses them",
            "allow clone and unshare with CLONE_NEWUSER in the filter of the service or container around this process",
        ),
        (
            failing("bwrap: Something new"),
            "bubblewrap said: Something new",
            "",
        ),
    ];
    for (o, reason, fix) in table {
        let n = native(&o);
        assert!(!n.available);
        let said = n.reason.unwrap();
        assert!(said.contains(reason), "{said}");
        assert_eq!(n.hint.unwrap_or_default(), fix);
    }
}

#[test]
fn a_bubblewrap_that_others_can_write_is_not_used() {
    let n = native(&Observed {
        bwrap: Err(Missing::NotTrusted {
            path: "/usr/local/bin/bwrap".into(),
            why: "it is not owned by root",
        }),
        ..failing("no bubblewrap")
    });
    assert!(!n.available && n.reason.unwrap().contains("it is not owned by root"));
}

#[test]
fn a_program_that_is_not_bubblewrap_asks_for_an_installation() {
    let n = native(&Observed {
        bwrap_version: None,
        ..failing("it failed and did not say why")
    });
    assert!(!n.available && n.requires_install);
    assert_eq!(n.hint.as_deref(), Some("sudo apt-get install bubblewrap"));
}

/// A fresh machine needs no package.
#[test]
fn without_bubblewrap_ccbox_is_enough() {
    let o = Observed {
        bwrap: Err(Missing::NotInstalled),
        bwrap_trial: Trial::Fails("no bubblewrap".into()),
        ..healthy()
    };
    let n = native(&o);
    assert!(n.available && !n.requires_install);
    assert_eq!(n.note.as_deref(), Some(BUILTIN_NOTE));
    let checks = judge(&o).checks;
    assert!(checks.iter().all(|c| c.ok || !c.required), "{checks:?}");
}

#[test]
fn every_engine_says_whether_it_works_and_why_not() {
    let said = |o: &Observed| -> Vec<String> {
        let engines = judge(o).engines.into_iter();
        let words = |e: EngineStatus| match (e.available, e.reason) {
            (true, None) => e.name.to_owned(),
            (_, reason) => format!("{} not: {}", e.name, reason.unwrap_or_default()),
        };
        engines.map(words).collect()
    };
    assert_eq!(said(&healthy()), ["builtin", "bwrap", "landlock"]);
    let forbidden = Observed {
        max_user_namespaces: Some(0),
        ..failing("bwrap: No space left on device")
    };
    let [builtin, bwrap, landlock] = said(&forbidden).try_into().unwrap();
    assert!(builtin.contains("CLONE_NEWUSER") && bwrap.contains("max_user_namespaces is 0"));
    assert_eq!(landlock, "landlock");
    let hint = |o: &Observed| judge(o).engines[0].hint.clone().unwrap();
    assert!(hint(&forbidden).contains("sysctl -w user.max_user_namespaces"));
    for (o, why) in [
        (
            Observed {
                landlock_abi: 5,
                ..healthy()
            },
            "landlock not: it needs Landlock ABI 6, the kernel has ABI 5",
        ),
        (
            Observed {
                broker: BrokerHost::Lacks("a filter traps already".into()),
                ..healthy()
            },
            "landlock not: a filter traps already",
        ),
        (
            Observed {
                yama: Some(2),
                ..healthy()
            },
            "landlock not: kernel.yama.ptrace_scope is 2",
        ),
    ] {
        assert_eq!(said(&o)[2], why);
    }
    let mac = Observed {
        platform: Platform::Macos,
        ..healthy()
    };
    assert!(said(&mac).is_empty());
}

#[test]
fn microvm_says_what_is_missing() {
    let p = judge(&healthy());
    let m = p.backends.iter().find(|b| b.name == "microvm").unwrap();
    assert!(!m.available && m.reason.as_ref().unwrap().contains("/dev/kvm is missing"));
}

#[test]
fn text_and_json_carry_the_same_answers() {
    let o = Observed {
        deep: Some(Deep {
            run: Trial::Works,
            millis: 7,
        }),
        landlock_abi: 0,
        broker: BrokerHost::Lacks("the kernel has no Landlock".into()),
        ..healthy()
    };
    let p = Probe {
        version: "0.0.0",
        ..judge(&o)
    };
    insta::assert_snapshot!(render(&p), @r"
    ccbox            0.0.0
    platform         linux, kernel 6.1.0
    distribution     Debian 12

    backends
      native           available: bubblewrap: namespace isolation, no kernel boundary
      none             available: no isolation; the environment is still scrubbed
      microvm          unavailable: not supported yet: this version has no virtual machine monitor; /dev/kvm is missing too

    engines
      builtin          available: ccbox makes the namespaces itself
      bwrap            available: bubblewrap makes the namespaces
      landlock         unavailable: it needs Landlock ABI 6, the kernel has none, or it is off
                       hint: Linux 6.12 or later with `landlock` in the kernel parameter lsm=

    mechanisms
      bubblewrap       ok: /usr/bin/bwrap (0.8.0)
      sandbox          ok: bubblewrap made every namespace
      user-namespaces  ok: ccbox can make them itself
      landlock         missing (optional): the kernel has none, or it is off
                       fix: Linux 5.13 or later with `landlock` in the kernel parameter lsm=
      seccomp          ok: errno, user_notif
      broker           missing (optional): names that do not exist yet and name patterns cannot be held: the kernel has no Landlock
      fuse             ok: /dev/fuse can be opened
      run              ok: a whole `ccbox run` took 7 ms

    not enforced yet
      absent-names: protected and mandatory paths that do not exist at the start are not held against creation inside writable directories; a spec that asks for it is refused
      name-patterns: those of built-in profiles do not hold; a spec with one of its own is refused
      host-replace: a file that is hidden without an entry in deny_read, and that a host program replaces during the run, can be read where the command can write to its directory
    ");
    let whole = judge(&healthy());
    assert!(whole.gaps.iter().all(|g| !g.starts_with("absent-names")));
    assert!(whole.checks.iter().any(|c| c.name == "broker" && c.ok));
    let v: serde_json::Value = serde_json::to_value(&p).unwrap();
    assert_eq!(v["backends"][0]["name"], "native");
    assert_eq!(v["backends"][0]["available"], true);
    assert_eq!(v["platform"], "linux");
    assert_eq!(v["schema"], 1);
}

/// R11.
#[test]
fn macos_is_available_where_a_profile_is_applied() {
    let mac = |uid, seatbelt| Observed {
        platform: Platform::Macos,
        uid,
        seatbelt: Some(seatbelt),
        ..healthy()
    };
    let good = judge(&mac(501, Ok(())));
    let n = good.native().unwrap();
    assert!(n.available && !n.requires_install);
    assert_eq!(n.note.as_deref(), Some(SEATBELT_NOTE));
    assert!(good.checks.iter().all(|c| c.ok) && good.gaps.len() == GAPS_OF_MACOS.len());
    let obstacle = Obstacle {
        reason: "already inside a sandbox".into(),
        fix: Some("start this call outside of it".into()),
    };
    let bad = judge(&mac(501, Err(obstacle.clone())));
    let n = bad.native().unwrap();
    assert!(!n.available && n.note.is_none());
    assert_eq!(
        (n.reason.clone(), n.hint.clone()),
        (Some(obstacle.reason), obstacle.fix)
    );
    assert!(bad.checks.iter().all(|c| !c.ok && c.fix.is_some()));
    let n = native(&mac(0, Ok(())));
    assert!(!n.available && n.reason.unwrap().contains("root"));
}
