//! Awkward places: what each engine does where the host gives less.

use super::Engine;
use crate::cases::cases;
use crate::escape::machine_root;

pub(super) const ENGINES: [Engine; 4] = [
    Engine::Bwrap,
    Engine::Builtin,
    Engine::Classic,
    Engine::Landlock,
];

pub(super) fn around(engine: Engine, script: &str) -> String {
    format!("{}\n{script}", engine.around())
}

/// Without user namespaces two engines say so, and the third does its work.
#[test]
fn without_user_namespaces() {
    for case in cases() {
        for engine in ENGINES {
            case.spec(&format!("engine = \"{}\"", engine.name()), "", "");
            let script = "unshare -Ur sh -c 'echo 0 > /proc/sys/user/max_user_namespaces; exec $R sh -c \"echo hi > f; cat f; rm f\"'; echo rc=$?";
            let done = case.steps(&around(engine, script));
            match engine {
                Engine::Landlock => {
                    done.prints("hi\nrc=0\n").says_nothing();
                }
                Engine::Bwrap | Engine::Builtin | Engine::Classic => {
                    done.prints("rc=125\n")
                        .refuses(&["max_user_namespaces is 0", "sysctl"]);
                }
            }
        }
    }
}

/// Where /proc cannot be mounted afresh.
#[test]
fn with_a_covered_proc() {
    for case in cases().into_iter().filter(|c| machine_root(c.caller)) {
        for engine in ENGINES {
            case.spec(&format!("engine = \"{}\"", engine.name()), "", "");
            let script = "unshare -m --propagation private sh -c 'mount -t tmpfs t /proc/tty && exec $AS $R echo hi'; echo rc=$?";
            let done = case.root_steps(&around(engine, script));
            match engine {
                Engine::Landlock => {
                    done.prints("hi\nrc=0\n").says_nothing();
                }
                Engine::Bwrap | Engine::Builtin | Engine::Classic => {
                    done.prints("rc=125\n").refuses(&["/proc"]);
                }
            }
        }
    }
}

/// A uid 0 that may not be mapped into a user namespace.
#[test]
fn as_a_root_without_capabilities() {
    for case in cases().into_iter().filter(|c| machine_root(c.caller)) {
        for engine in ENGINES {
            case.spec(&format!("engine = \"{}\"", engine.name()), "", "");
            let script = "setpriv --bounding-set=-all --inh-caps=-all $R sh -c 'echo hi > f; cat f'; echo rc=$?";
            let done = case.root_steps(&around(engine, script));
            match engine {
                Engine::Landlock => {
                    done.prints("hi\nrc=0\n").says_nothing();
                }
                Engine::Bwrap | Engine::Builtin | Engine::Classic => {
                    done.prints("rc=125\n").refuses(&["user namespaces"]);
                }
            }
        }
    }
}

/// Every engine works on a root that is read-only, without /dev/fuse and without /dev/pts.
#[test]
fn with_little_in_the_file_system() {
    for case in cases().into_iter().filter(|c| machine_root(c.caller)) {
        for engine in ENGINES {
            case.spec(
                &format!("engine = \"{}\"", engine.name()),
                "deny_read = [\"vault\"]",
                "",
            );
            for less in [
                "mount --bind /tmp /tmp; mount -o bind,remount,ro /",
                "mount --bind $T/empty /dev/fuse",
                "umount -l /dev/pts",
            ] {
                let script = format!(
                    "mkdir -p vault; echo SECRET > vault/k; touch empty; chmod 0 empty
                     unshare -m --propagation private sh -c '{less}; exec $AS $R sh -c \"echo hi > f; cat f ../vault/k\" 2>/dev/null'; cat ws/f; rm -f ws/f"
                );
                case.root_steps(&around(engine, &script)).prints("hi\nhi\n");
            }
        }
    }
}

/// ccbox inside itself: the outer rules hold, whatever the inner call asks for.
#[test]
fn inside_itself() {
    for case in cases() {
        for engine in ENGINES {
            case.spec(
                &format!(
                    "engine = \"{}\"\nprotected_paths = [\"ws/prot\"]",
                    engine.name()
                ),
                "",
                "",
            );
            let script = "echo KEEP > ws/prot; $R timeout 20 ccbox run --spec ../spec.toml -- sh -c 'echo e > prot; echo inner' > /dev/null 2>&1; cat ws/prot";
            case.steps(&around(engine, script)).prints("KEEP\n");
        }
    }
}

/// What `auto` takes: ccbox itself where the host lets it. Where it does not, nobody gets less than was asked for without a word: the
/// refusal names the engine that would do, and `sandbox = "on"` takes it loudly.
#[test]
fn the_ladder() {
    const FORBIDDEN: &str = "unshare -Ur sh -c 'echo 0 > /proc/sys/user/max_user_namespaces; exec $R echo hi'; echo rc=$?";
    for case in cases() {
        case.spec("", "", "");
        case.steps("env -C ws ccbox run -v --spec ../spec.toml -- echo hi")
            .prints("hi\n")
            .says(&["sandbox ON (native, builtin)"]);
        case.steps(FORBIDDEN).prints("rc=125\n").refuses(&[
            "max_user_namespaces is 0",
            "sysctl",
            "or `--engine landlock`, which can hold this policy",
        ]);
        case.spec("sandbox = \"on\"", "", "");
        case.steps(FORBIDDEN)
            .prints("hi\nrc=0\n")
            .says(&["max_user_namespaces is 0", "engine landlock instead"]);
        // A policy that does not fit has no such rung, and a pinned engine none at all.
        case.spec("", "", "[network]\nallow_all_unix_sockets = true");
        let done = case.steps(FORBIDDEN);
        done.prints("rc=125\n")
            .refuses(&["max_user_namespaces is 0"]);
        assert!(!done.err.contains("landlock"), "{}", done.err);
        case.spec("engine = \"builtin\"", "", "");
        let done = case.steps(FORBIDDEN);
        done.prints("rc=125\n")
            .refuses(&["max_user_namespaces is 0"]);
        assert!(!done.err.contains("landlock"), "{}", done.err);
    }
}

/// A bubblewrap that does not work is nobody's business where ccbox makes the sandbox, with an open network as well.
#[test]
fn without_bubblewrap() {
    for case in cases().into_iter().filter(|c| machine_root(c.caller)) {
        for more in [
            "",
            "[network]\nmode = \"open\"",
            "[network]\nmode = \"filtered\"",
        ] {
            case.spec("", "", more);
            let script = "sed -i /network_enabled/d spec.toml; unshare -m --propagation private sh -c 'mount --bind /bin/false /usr/bin/bwrap
                exec $AS env -C ws ccbox run -v --spec ../spec.toml -- echo hi'";
            case.root_steps(script)
                .prints("hi\n")
                .says(&["sandbox ON (native, builtin)"]);
        }
    }
}

/// Without a /dev of its own the devices are the host's: what may be written there is not changed.
#[test]
fn devices_of_the_host_stay_as_they_are() {
    for case in cases() {
        case.spec("engine = \"landlock\"", "", "");
        let script = "stat -c '%a %u %Y' /dev/zero > a
            $R sh -c 'chmod 600 /dev/zero; touch -d @5 /dev/zero; rm -f /dev/zero; mv /dev/zero /dev/z; head -c 1 /dev/zero > /dev/null && echo end' 2>/dev/null
            stat -c '%a %u %Y' /dev/zero | cmp a -";
        case.steps(script).prints("end\n");
    }
}
