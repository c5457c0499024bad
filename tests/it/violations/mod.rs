//! Violations (R70): what is told, what is not, and whether the line that would allow it does.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up has failed"
)]

mod connects;
mod execs;
mod faithful;
mod hints;
mod storm;

use std::process::{Command, Stdio};

use crate::support::{Box, Ran};

/// Standard error of a run, without the lines of programs.
fn own_lines(ran: &Ran) -> Vec<String> {
    let own = ran.stderr.lines().filter(|l| l.starts_with("ccbox: "));
    own.map(str::to_owned).collect()
}

/// A line with the process it names left out.
fn without_pid(line: &str) -> String {
    match (line.find(" ["), line.find("]: ")) {
        (Some(from), Some(to)) if from < to => {
            let name = line[from + 2..to].split(' ').next().unwrap();
            format!("{} [{name}]{}", &line[..from], &line[to + 1..])
        }
        _ => line.to_owned(),
    }
}

/// `python3 -c SCRIPT` in a network namespace of its own, where 192.0.2.9 is an address of this machine and nothing else has a route.
/// `ccbox(argv)` runs an argument vector inside and gives its output.
fn in_own_network(b: &Box, script: &str) -> Ran {
    let prelude = format!(
        "import os, socket, subprocess, sys
subprocess.run('ip link set lo up && ip addr add 192.0.2.9/32 dev lo', shell=True, check=True)
def listen(ip, port=0):
    s = socket.socket()
    s.bind((ip, port))
    s.listen()
    return s
def ccbox(*argv, options=()):
    call = ['{}', 'run', *options, '--spec', '../spec.toml', '--', *argv]
    done = subprocess.run(call, capture_output=True, text=True)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
",
        crate::support::CCBOX
    );
    let mut c = Command::new("unshare");
    c.args(["-Urn", "python3", "-c", &format!("{prelude}\n{script}")])
        .current_dir(b.ws())
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", b.path().join("home"))
        .env("XDG_CONFIG_HOME", b.path().join("config"))
        .env("XDG_STATE_HOME", b.path().join("state"))
        .stdin(Stdio::null());
    Ran::of(&mut c)
}
