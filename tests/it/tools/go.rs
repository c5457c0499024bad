//! Go with a module that is not in the cache yet.

use super::{Desk, Lab, LabCommand, sh};

const TEST: &str = "package app

import (
	\"testing\"

	\"example.test/lab\"
)

func TestAnswer(t *testing.T) {
	t.Log(lab.Answer())
}
";

fn project(desk: &Desk<'_>) {
    desk.write(
        "ws/go.mod",
        "module lab.example/app\n\ngo 1.16\n\nrequire example.test/lab v1.0.0\n",
    );
    desk.write("ws/app_test.go", TEST);
}

/// No checksum database knows the module; `go.sum` is written by the run.
fn go(command: LabCommand, proxy: &str) -> LabCommand {
    command
        .env("GOFLAGS", "-mod=mod")
        .env("GONOSUMDB", "example.test")
        .env("GOPROXY", proxy)
        .env("GOTOOLCHAIN", "local")
}

const RUN: &str = "go test -v ./...";

/// A module proxy that the spec allows.
#[test]
fn go_test_from_an_allowed_proxy() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        // The refused one first: what an allowed run or the control fetches stays in the caches that later runs see.
        for allow in [Some("allowed.test"), Some("goproxy.test"), None] {
            let desk = lab.desk(caller);
            project(&desk);
            let command =
                allow.map_or_else(|| desk.control(&sh(RUN)), |a| desk.boxed(&[a], &sh(RUN)));
            let out = go(command, "http://goproxy.test").output();
            if allow == Some("allowed.test") {
                let out = out.failure();
                out.names_denied("goproxy.test:80");
                assert!(out.stderr.contains("403"), "the tool says it too: {out}");
            } else {
                let out = out.success();
                assert!(out.stdout.contains("from the module"), "{out}");
            }
        }
    }
}

/// `ccbox run -- go test` with no spec: the baseline has the public module proxy, the caches are private.
#[test]
fn go_test_without_a_spec() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        for bare in [false, true, true] {
            let desk = lab.desk(caller);
            project(&desk);
            let command = if bare {
                desk.bare(&sh(RUN))
            } else {
                desk.control(&sh(RUN))
            };
            let out = go(command, "https://proxy.golang.org,direct")
                .trust_lab()
                .output()
                .success();
            assert!(out.stdout.contains("from the module"), "{out}");
        }
    }
}
