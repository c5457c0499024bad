//! Building without a network: make with its job server, gcc, and what shells hand over as `/dev/fd`.

use super::{Lab, lab::CCBOX, sh};

/// Compiles and runs.
#[test]
fn gcc_builds_a_program() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        desk.write(
            "ws/a.c",
            "#include <stdio.h>\nint main(void) { puts(\"built\"); return 0; }\n",
        );
        let argv = sh("gcc -O2 -Wall -o a a.c && ./a");
        for command in [
            desk.control(&argv),
            desk.boxed(&[], &argv),
            desk.bare(&argv),
        ] {
            let out = command.output().success();
            assert_eq!(
                (out.stdout.as_str(), out.stderr.as_str()),
                ("built\n", ""),
                "{out}"
            );
        }
    }
}

/// Each target waits until another one runs too, so the file cannot be made one target at a time.
const PARALLEL: &str = "all: a b
a b:
\t@touch $@.started; for i in $$(seq 500); do [ -e a.started ] && [ -e b.started ] && exit 0; sleep 0.02; done; exit 1
";

/// `make -j` inside runs targets side by side.
#[test]
fn make_runs_in_parallel() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        for how in ["control", "boxed", "bare"] {
            let desk = lab.desk(caller);
            desk.write("ws/Makefile", PARALLEL);
            let argv = ["make", "-j2", "-s"];
            let command = match how {
                "control" => desk.control(&argv),
                "boxed" => desk.boxed(&[], &argv),
                _ => desk.bare(&argv),
            };
            let out = command.output().success();
            assert_eq!(
                (out.stdout.as_str(), out.stderr.as_str()),
                ("", ""),
                "{out}"
            );
        }
    }
}

/// PR-13: a make outside shares its job server with a make inside.
#[test]
fn the_job_server_passes_in() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        for how in ["", &format!("{CCBOX} run --")] {
            let desk = lab.desk(caller);
            desk.write(
                "ws/Makefile",
                format!("outer:\n\t+@{how} $(MAKE) -s -f inner.mk\n"),
            );
            desk.write("ws/inner.mk", PARALLEL);
            let out = desk.control(&["make", "-j3", "-s"]).output().success();
            assert!(!out.stderr.contains("jobserver"), "{how}: {out}");
            assert_eq!(out.stderr, "", "{how}: {out}");
        }
    }
}

/// PR-13: an interrupted make leaves no sandbox behind.
#[test]
fn an_interrupted_make_leaves_nothing() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        for how in ["", &format!("{CCBOX} run --")] {
            let desk = lab.desk(caller);
            let word = format!("6{}.25", std::process::id());
            desk.write(
                "ws/Makefile",
                format!("a b:\n\t@touch $@.up; exec {how} sleep {word}\n"),
            );
            let script = format!(
                "make -s -j2 a b & m=$!; until [ -e a.up ] && [ -e b.up ] && [ $(pgrep -fc '(^| )sleep {word}$') -ge 2 ]; do sleep 0.02; done
                kill -TERM $m; wait $m; for i in $(seq 100); do pgrep -f '(^| )sleep {word}$' >/dev/null || exit 0; sleep 0.05; done; exit 1"
            );
            let out = desk.control(&["bash", "-c", &script]).output();
            assert_eq!(out.code, Some(0), "{how}: {out}");
        }
    }
}

/// A pipe that an argument names is kept (semantics 25).
#[test]
fn process_substitution_works() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        for (how, same) in [("", true), (CCBOX, true), ("", false), (CCBOX, false)] {
            let prefix = if how.is_empty() {
                String::new()
            } else {
                format!("{how} run --")
            };
            let script = format!(
                "{prefix} diff <(echo one; echo two) <(echo one; echo {})",
                if same { "two" } else { "three" }
            );
            let out = desk.control(&["bash", "-c", &script]).output();
            assert_eq!(out.code, Some(i32::from(!same)), "{out}");
            assert_eq!(
                out.stdout,
                if same {
                    ""
                } else {
                    "2c2\n< two\n---\n> three\n"
                },
                "{out}"
            );
            assert_eq!(out.stderr, "", "{out}");
        }
    }
}
