//! Standard streams and other descriptors (PR-8, PR-9), and readers that do not read.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::{code, script};
use crate::support::{Box, CCBOX, require_sandbox};

/// A shell line in the workspace, where `$R` runs a command in the sandbox.
fn line(b: &Box, text: &str) -> std::process::Output {
    let model = b.ccbox(&["run"]);
    let mut shell = Command::new("bash");
    shell
        .arg("-c")
        .arg(text)
        .current_dir(b.ws())
        .env_clear()
        .envs(model.get_envs().filter_map(|(k, v)| Some((k, v?))))
        .env("R", format!("{CCBOX} run --spec ../spec.toml --"))
        .stdin(Stdio::null());
    shell.output().unwrap()
}

/// PR-8: pipes in and out, SIGPIPE, a closed or empty input, output of any size, stdout apart from stderr.
#[test]
fn streams_are_the_callers() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    for (text, want) in [
        ("$R yes | head -1; echo ${PIPESTATUS[0]}", "y\n141\n"),
        ("echo hi | $R cat", "hi\n"),
        ("$R cat", ""),
        (
            "printf '1\\n2\\n' | while read l; do $R true; echo $l; done",
            "1\n2\n",
        ),
        ("$R sh -c 'echo o; echo e >&2' 2>/dev/null", "o\n"),
        (
            "$R sh -c 'head -c 3000000 /dev/zero' | wc -c | tr -d ' '",
            "3000000\n",
        ),
        ("$R sh -c 'exec 0<&-; echo noin' <&-", "noin\n"),
        ("$R sh -c 'exec 0<&- 1>&- 2>&-; exit 6'; echo $?", "6\n"),
        ("$R sh -c 'echo out; exit 4' 2>&-; echo $?", "out\n4\n"),
        ("$R sh -c 'exit 4' <&- >&- 2>&-; echo $?", "4\n"),
        ("$R sh -c 'exit 4' 2>/dev/full; echo $?", "4\n"),
        ("$R no-such-command <&- 2>&-; echo $?", "127\n"),
        ("$R cat <(echo via)", "via\n"),
    ] {
        let out = line(&b, text);
        assert_eq!(
            String::from_utf8_lossy(&out.stdout),
            want,
            "{text}\n{}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
}

/// PR-9: of the caller's descriptors only 0, 1 and 2 pass, whatever they lead to.
#[test]
fn no_other_descriptor_passes() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    std::fs::write(b.path().join("home/secret"), "SECRET\n").unwrap();
    let text = "exec 7<../home 8>>../out 9<../home/secret
        $R bash -c 'cat /proc/self/fd/7/secret; cd /proc/self/fd/7 && cat secret; cat <&9; echo leak >&8; ls /proc/self/fd | wc -l' 2>&1; cat ../out";
    let out = line(&b, text);
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(!text.contains("SECRET") && !text.contains("leak"), "{text}");
    // 0, 1, 2 and the directory that ls reads.
    assert_eq!(text.lines().last(), Some("4"), "{text}");
}

/// Threads share ccbox's table of descriptors; it does not grow under them, which would take the kernel some 10 ms each time, the start of
/// every run with caught connections included.
#[test]
fn the_table_of_descriptors_is_large_before_there_are_threads() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let mut run = b
        .ccbox(&["run", "--spec", "../spec.toml", "--"])
        .args(["sh", "-c", "echo there; cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut there = [0; 6];
    run.stdout.as_mut().unwrap().read_exact(&mut there).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", run.id())).unwrap();
    drop(run.stdin.take());
    assert!(run.wait().unwrap().success());
    let size = status
        .lines()
        .find_map(|line| line.strip_prefix("FDSize:"))
        .unwrap();
    assert!(size.trim().parse::<u32>().unwrap() >= 1024, "{status}");
}

/// A pipe that is full and that nobody reads; its other end is kept open.
fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = nix::unistd::pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    let mut file = std::fs::File::from(writer);
    while file.write(&[b'x'; 4096]).is_ok() {}
    while file.write(b"x").is_ok() {}
    fcntl(&file, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    (reader, file.into())
}

/// A reader of stderr or of the events that has stopped reading holds up neither ccbox nor the command.
#[test]
fn a_reader_that_does_not_read_holds_up_nothing() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().spec("network_enabled = false\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n");
    let text =
        "for i in 1 2 3 4 5; do curl -s -m5 http://h$i.test/ >/dev/null; done; echo done; exit 3";
    for events in [false, true] {
        let (_reader, writer) = full_pipe();
        let mut c = if events {
            // The pipe becomes a descriptor above 2, which is what `--events` takes.
            let run =
                format!("exec {CCBOX} run --events fd:9 --spec ../spec.toml -- \"$@\" 9>&0 <&-");
            let mut c = Command::new("bash");
            c.args(["-c", &run, "bash", "bash", "-c", text]);
            let model = b.ccbox(&["run"]);
            c.current_dir(b.ws()).env_clear();
            c.envs(model.get_envs().filter_map(|(k, v)| Some((k, v?))));
            c.stdin(Stdio::from(writer)).stderr(Stdio::piped());
            c
        } else {
            let mut c = script(&b, text);
            c.stderr(Stdio::from(writer));
            c
        };
        let out = c.stdout(Stdio::piped()).spawn().unwrap();
        let out = out.wait_with_output().unwrap();
        assert_eq!(
            (code(out.status), out.stdout.as_slice()),
            (3, &b"done\n"[..]),
            "{events} {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
}

/// A file size limit that is too low for set-up is one line, not death by SIGXFSZ; one that is not is the command's.
#[test]
fn a_low_file_size_limit_is_said() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let out = line(&b, "ulimit -f 0; exec $R echo STARTED");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!((code(out.status), out.stdout.len()), (125, 0), "{said}");
    assert!(
        said.starts_with("ccbox: error: cannot set up the run:") && said.contains("ulimit -f"),
        "{said}"
    );
    let out = line(
        &b,
        "ulimit -f 1000; $R dd if=/dev/zero of=big bs=1M count=2 2>/dev/null; echo $?",
    );
    assert_eq!(String::from_utf8_lossy(&out.stdout), "153\n");
}

/// Debuggers work on what they start themselves.
#[test]
fn a_tracer_works_inside() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    b.run(&[
        "strace",
        "-f",
        "-qq",
        "-o",
        "trace",
        "sh",
        "-c",
        "true; exit 8",
    ])
    .expect(8, "", "");
    let trace = std::fs::read_to_string(b.ws().join("trace")).unwrap();
    assert!(trace.contains("execve("), "{trace}");
}

/// PR-12: a spec that asks for what this engine cannot hold starts nothing, and the key is named.
#[test]
fn what_cannot_be_enforced_is_refused() {
    let b = Box::new();
    for (text, key) in [
        ("[exec]\ndeny = [\"/usr/bin/curl\"]\n", "exec.deny"),
        (
            "[[credentials.env_vars]]\nname = \"TOKEN\"\nmode = \"mask\"\n",
            "credentials",
        ),
        (
            "[network]\ntls_terminate = { hosts = [\"a.test\"] }\n",
            "tls_terminate",
        ),
    ] {
        std::fs::write(b.path().join("spec.toml"), text).unwrap();
        b.run(&["echo", "STARTED"]).expect_own_failure(125, &[key]);
    }
}
