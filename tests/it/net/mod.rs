//! Egress: what the sandbox may reach, and that what it may reach works. Every test has its control outside the sandbox.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends by panicking"
)]

mod access_log;
mod addresses;
mod allow;
mod astray;
mod bare;
mod caught;
mod connector;
mod fronting;
mod isolation;
mod load;
mod names;
mod neighbours;
mod protocol;
mod rules;
mod tls;
mod upstream;

#[path = "../../lab/lab.rs"]
pub(crate) mod lab;

use lab::{Desk, LabCommand};

/// `client.py`: raw words to the proxy.
const CLIENT: &str = include_str!("client.py");

/// The client in the sandbox.
fn client(desk: &Desk<'_>, allow: &[&str], args: &[&str]) -> LabCommand {
    client_with(desk, &desk.spec(allow, ""), args)
}

/// The client in the sandbox, with a whole spec.
fn client_with(desk: &Desk<'_>, spec: &str, args: &[&str]) -> LabCommand {
    desk.write("client.py", CLIENT);
    desk.with_spec(spec, &[], client_argv(desk, args).as_slice())
}

/// The client outside, for what needs no proxy.
fn client_outside(desk: &Desk<'_>, args: &[&str]) -> LabCommand {
    desk.write("client.py", CLIENT);
    desk.control(client_argv(desk, args).as_slice())
}

fn client_argv(desk: &Desk<'_>, args: &[&str]) -> Vec<String> {
    let script = format!("{}/client.py", desk.inner);
    ["/usr/bin/python3", &script]
        .into_iter()
        .chain(args.iter().copied())
        .map(str::to_owned)
        .collect()
}

/// Lines of a shell loop that prints `HOST CODE` for each host over plain HTTP.
fn codes(hosts: &[&str]) -> [String; 3] {
    let script = format!(
        "for h in {}; do curl -g -s -m10 -o /dev/null -w \"$h %{{http_code}}\\n\" \"http://$h/\"; done; true",
        hosts.join(" ")
    );
    ["sh".into(), "-c".into(), script]
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}
