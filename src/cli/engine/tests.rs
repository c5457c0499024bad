use super::super::fixtures::policy;
use super::*;

fn offer(bwrap: Result<PathBuf, Missing>) -> Offer {
    Offer {
        platform: Platform::Linux,
        uid: 1000,
        bwrap,
        install: "apt-get install bubblewrap".into(),
        kvm: true,
    }
}

fn have() -> Offer {
    offer(Ok("/usr/bin/bwrap".into()))
}

fn lack() -> Offer {
    offer(Err(Missing::NotInstalled))
}

fn said(
    backend: BackendChoice,
    engine: EngineChoice,
    sandbox: SandboxMode,
    offer: &Offer,
) -> String {
    let p = Policy {
        backend,
        engine,
        sandbox,
        ..policy()
    };
    match choose(&p, offer) {
        Ok(Chosen::Builtin(other)) => match other {
            Some(path) => format!("builtin or bwrap {}", path.display()),
            None => "builtin".to_owned(),
        },
        Ok(Chosen::Bwrap(path)) => format!("bwrap {}", path.display()),
        Ok(Chosen::Landlock(_)) => "landlock".to_owned(),
        Ok(Chosen::Seatbelt) => "seatbelt".to_owned(),
        Ok(Chosen::None(line)) => format!("none: {line}"),
        Err(e) => format!("{}: {e}; {}", e.exit_code(), e.hint().unwrap_or_default()),
    }
}

#[test]
fn require_on_off() {
    use BackendChoice::{Auto, MicroVm, Native, None as NoBackend};
    use EngineChoice::{Auto as Any, Builtin, Bwrap, Landlock};
    use SandboxMode::{Off, On, Require};
    let runs = "bwrap /usr/bin/bwrap";
    let either = "builtin or bwrap /usr/bin/bwrap";
    let refused =
        "125: no sandbox on this host: bubblewrap is not installed; apt-get install bubblewrap";
    let loud = "none: no OS-native sandbox on this host: bubblewrap is not installed; running without; \
                hint: apt-get install bubblewrap";
    let off = "none: sandbox DISABLED by --sandbox off";
    let none = "none: backend none: nothing is isolated; only the environment is cleaned";
    let table = [
        (Auto, Any, Require, have(), either),
        (Native, Bwrap, Require, have(), runs),
        (Auto, Builtin, Require, have(), "builtin"),
        (Auto, Any, On, have(), either),
        (Auto, Any, Require, lack(), "builtin"),
        (Auto, Any, On, lack(), "builtin"),
        (Auto, Bwrap, Require, lack(), refused),
        (Native, Bwrap, Require, lack(), refused),
        (Auto, Bwrap, On, lack(), loud),
        (Auto, Any, Off, have(), off),
        (NoBackend, Any, Require, have(), none),
        (NoBackend, Any, On, lack(), none),
        (
            MicroVm,
            Any,
            On,
            have(),
            "125: backend `microvm`: not supported yet: this version has no virtual machine monitor; `--backend native`",
        ),
        (Auto, Landlock, On, have(), "landlock"),
        (Native, Landlock, Require, lack(), "landlock"),
    ];
    for (backend, engine, sandbox, offer, want) in table {
        assert_eq!(said(backend, engine, sandbox, &offer), want);
    }
}

/// An open network is no reason for another program.
#[test]
fn an_open_network_needs_no_bubblewrap() {
    let mut p = policy();
    p.net.mode = crate::policy::NetworkMode::Open;
    for (engine, offer) in [
        (EngineChoice::Auto, have()),
        (EngineChoice::Auto, lack()),
        (EngineChoice::Builtin, lack()),
    ] {
        p.engine = engine;
        assert!(matches!(choose(&p, &offer), Ok(Chosen::Builtin(_))));
    }
}

#[test]
fn other_systems_are_refused_not_run_bare() {
    let mac = Offer {
        platform: Platform::Macos,
        uid: 0,
        ..have()
    };
    let others = [Platform::Wsl1, Platform::Other].map(|platform| Offer { platform, ..have() });
    for o in others.into_iter().chain([mac]) {
        let text = said(
            BackendChoice::Auto,
            EngineChoice::Auto,
            SandboxMode::Require,
            &o,
        );
        assert!(text.starts_with("125: no sandbox on this host: "), "{text}");
    }
}

#[test]
fn the_kernel_floor_of_landlock_is_named() {
    assert_eq!(backend::landlock::ABI, crate::host::probe::LANDLOCK_ABI);
    let said = |abi, yama| match kernel(abi, yama) {
        Ok(()) => "fits".to_owned(),
        Err(e) => e.to_string(),
    };
    assert_eq!(said(6, 0), "fits");
    assert_eq!(said(7, 1), "fits");
    assert_eq!(
        said(5, 0),
        "engine `landlock` needs Landlock ABI 6 (Linux 6.12), the kernel has ABI 5"
    );
    assert!(said(0, 0).ends_with("the kernel has none, or it is off"));
    assert!(said(7, 2).contains("kernel.yama.ptrace_scope is 2"));
}

#[test]
fn macos_has_one_engine_and_none_for_root() {
    use BackendChoice::{Auto, MicroVm, Native, None as NoBackend};
    use EngineChoice::{Auto as Any, Builtin, Bwrap, Landlock};
    use SandboxMode::{Off, On, Require};
    let mac = |uid| Offer {
        platform: Platform::Macos,
        uid,
        ..lack()
    };
    let linux = "125: the engines of Linux are not on macOS; leave `--engine` out";
    let refused =
        "125: no sandbox on this host: macOS has no sandbox for root; run it as an ordinary user";
    let loud = "none: no OS-native sandbox on this host: macOS has no sandbox for root; running without; \
                hint: run it as an ordinary user";
    let none = "none: backend none: nothing is isolated; only the environment is cleaned";
    let table = [
        (Auto, Any, Require, 501, "seatbelt"),
        (Native, Any, On, 501, "seatbelt"),
        (Auto, Bwrap, Require, 501, linux),
        (Auto, Builtin, On, 501, linux),
        (Auto, Landlock, Require, 501, linux),
        (Auto, Any, Require, 0, refused),
        (Auto, Any, On, 0, loud),
        (Auto, Any, Off, 0, "none: sandbox DISABLED by --sandbox off"),
        (NoBackend, Any, Require, 0, none),
    ];
    for (backend, engine, sandbox, uid, want) in table {
        assert_eq!(said(backend, engine, sandbox, &mac(uid)), want);
    }
    assert!(said(MicroVm, Any, Require, &mac(501)).starts_with("125: backend `microvm`"));
}
