//! Runs without the creation broker: those that need none, and those of a kernel or a container that cannot carry it.

use super::cases;

/// Each way a host can lack it, with the words that say so.
const LACKS: [(&str, &str); 4] = [
    ("landlock", "the kernel has no Landlock"),
    ("notification", "no seccomp user notification"),
    ("listener", "no seccomp user notification"),
    ("owned", "traps system calls already"),
];

const ENGINES: [&str; 2] = ["builtin", "bwrap"];

/// `$C` is the call with `--engine`.
fn prepared(engine: &str, script: &str) -> String {
    format!("C=\"env -C $T/ws ccbox run --engine {engine} --spec $T/spec.toml\"\n{script}")
}

/// A rule that only the broker can hold keeps the command from starting: one line names rule and reason, 125, nothing is left.
#[test]
fn a_rule_that_needs_the_broker_is_refused_without_it() {
    for top in [
        "protected_paths = [\"ws/absent\"]",
        "protected_paths = [\"ws/**/*.pem\"]",
    ] {
        for c in cases() {
            c.spec(top, "", "");
            let rule = top.split('"').nth(1).unwrap();
            for engine in ENGINES {
                let script = |what: &str| {
                    let steps = format!(
                        "$L {what} $C -- sh -c 'echo started'; echo rc=$?; ls -A ws; pgrep -f $T/spec.toml"
                    );
                    prepared(engine, &steps)
                };
                for (what, why) in LACKS {
                    c.steps(&script(what)).prints("rc=125\n").refuses(&[
                        rule.rsplit('/').next().unwrap(),
                        "the creation broker",
                        why,
                    ]);
                }
                c.steps(&script("nothing"))
                    .prints("started\nrc=0\n")
                    .says_nothing();
            }
        }
    }
}

/// A spec without such a rule runs: mounts hold what exists, and the enforced line says what nobody holds.
#[test]
fn what_needs_no_broker_runs_without_it_and_says_so() {
    for c in cases() {
        c.spec(
            "protected_paths = [\"ws/prot\"]",
            "deny_read = [\"ws/hidden\"]",
            "",
        );
        for engine in ENGINES {
            let steps = |what: &str| {
                let script = format!(
                    "rm -rf ws/*; echo KEEP > ws/prot; echo SECRET > ws/hidden
                    $L {what} $C -v -- sh -c 'echo e > prot || echo held; cat hidden; echo x > made && mv made moved; (echo x > .env) && echo open'
                    echo rc=$?; cat ws/prot; ls -A ws; rm -f ws/.env; pgrep -f $T/spec.toml"
                );
                c.steps(&prepared(engine, &script))
            };
            let line = |err: &str| {
                let mut lines = err.lines().filter(|l| l.starts_with("ccbox: enforced: "));
                lines.next().unwrap().to_owned()
            };
            for (what, _) in LACKS {
                let done = steps(what);
                done.prints("held\nopen\nrc=0\nKEEP\n.env\nhidden\nmoved\nprot\n");
                let line = line(&done.err);
                assert!(!line.contains("+broker"), "{line}");
                for gap in ["absent-names", "name-patterns"] {
                    assert!(line.contains(gap), "{line}");
                }
                assert_eq!(line.contains("landlock=none"), what == "landlock", "{line}");
            }
            let done = steps("nothing");
            done.prints("held\nrc=2\nKEEP\nhidden\nmoved\nprot\n");
            let line = line(&done.err);
            assert!(line.contains("+broker"), "{line}");
            assert!(!line.contains("absent-names"), "{line}");
        }
    }
}

/// The probe names the same reasons.
#[test]
fn the_probe_says_why_there_is_no_broker() {
    for c in cases() {
        for (what, why) in LACKS {
            let script = format!("$L {what} ccbox probe | grep '^  broker'");
            let done = c.steps(&prepared("auto", &script));
            assert!(
                done.out.contains("missing") && done.out.contains(why),
                "{done:?}"
            );
        }
        let done = c.steps(&prepared(
            "auto",
            "$L nothing ccbox probe | grep '^  broker'",
        ));
        assert!(done.out.contains("ok:"), "{done:?}");
    }
}

/// Without a rule about writing nothing traps and nothing is floored: ccbox has no listener, serves no call, and a name that a floor
/// would refuse is written by the kernel itself.
#[test]
fn without_write_rules_nothing_is_trapped() {
    // With an exemption for all paths, with no writable directory, and with the usual rules.
    for (top, files, broker) in [
        ("", "disabled = true", false),
        ("mode = \"review\"", "", false),
        ("", "", true),
    ] {
        for c in cases() {
            c.spec(top, files, "");
            let (as_caller, look) = if nix::unistd::geteuid().is_root() {
                ("$AS", "ls -l /proc/$P/fd | grep -c 'seccomp notify'")
            } else if broker {
                ("", "echo 1")
            } else {
                ("", "echo 0")
            };
            let place = if top.is_empty() { "." } else { "/tmp/x" };
            for engine in ENGINES {
                // Five hundred files are made while ccbox's own switches between tasks are counted. Its descriptors are root's to see.
                let script = format!(
                    "{as_caller} rm -rf ws up go; {as_caller} mkdir ws; {as_caller} mkfifo up go
                    {as_caller} $C -- sh -c 'mkdir -p {place}; cd {place}; echo up; read x; seq 500 | xargs touch; touch .env; ls -A | wc -l; read x' <go >up & P=$!
                    exec 3>go 4<up; said() {{ read -r -t 30 -u 4 x; echo $x; }}
                    switches() {{ cat /proc/$P/task/*/status | awk '/^voluntary/ {{ n += $2 }} END {{ print n }}'; }}
                    said; {look}; a=$(switches); echo >&3; said; b=$(switches)
                    [ $((b - a)) -lt 100 ] && echo idle; [ $((b - a)) -ge 500 ] && echo busy; echo >&3; wait $P"
                );
                let want = if broker {
                    "up\n1\n500\nbusy\n"
                } else {
                    "up\n0\n501\nidle\n"
                };
                c.root_steps(&prepared(engine, &script)).prints(want);
            }
        }
    }
}
