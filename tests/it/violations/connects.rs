//! Connections past the proxies: told where the sandbox is what makes them fail, and nowhere else.

use crate::support::{Box, require_sandbox};

use super::{in_own_network, own_lines, without_pid};

/// Tries each `family:ip:port` of its arguments and prints what came.
const TRY: &str = r"
import errno, socket, sys
for what in sys.argv[1:]:
    how, ip, port = what.split(',')
    family = socket.AF_INET6 if ':' in ip or how.endswith('6') else socket.AF_INET
    s = socket.socket(family, socket.SOCK_DGRAM if how.startswith('u') else socket.SOCK_STREAM)
    if how.startswith('n'):
        s.setblocking(False)
    try:
        if how.startswith('us'):
            s.sendto(b'x', (ip, int(port)))
        else:
            s.connect((ip, int(port)))
        print('ok')
    except OSError as e:
        print(errno.errorcode[e.errno])
";

#[test]
fn a_connection_past_the_proxy_is_told() {
    if !require_sandbox() {
        return;
    }
    let addresses = ["192.0.2.9:7001", "192.0.2.9:7003", "192.0.2.9:7004"];
    let caught: Vec<String> = addresses
        .iter()
        .flat_map(|to| {
            [
                format!("ccbox: denied network-outbound {to} [python3]: not on the allow list"),
                format!("ccbox: hint: [network] allowed_domains = [\"{to}\"]"),
            ]
        })
        .collect();
    // Where nothing is caught no line would open the call that failed.
    let around = "it went around the proxy in HTTP_PROXY, the only way out";
    let uncaught =
        addresses.map(|to| format!("ccbox: denied network-outbound {to} [python3]: {around}"));
    for (network, streams, names) in [
        (
            "",
            caught,
            "names are looked up by the name server in /etc/resolv.conf, and no other",
        ),
        (
            "[network]\ntransparent_ports = []\n",
            uncaught.into(),
            "names are not looked up inside, but by the proxy in HTTP_PROXY",
        ),
    ] {
        let spec = format!("{network}[[bind_mounts]]\nhost_path = \"@T@/ws\"\n");
        let b = Box::new().spec(&spec);
        let script = format!(
            "
there, here = listen('192.0.2.9', 7001), listen('127.0.0.1', 7002)
for s in (there, here):
    socket.create_connection(s.getsockname()).close()
ccbox('python3', '-c', {TRY:?}, 't,192.0.2.9,7001', 'n,192.0.2.9,7003', 't6,::ffff:192.0.2.9,7004', 'us,192.0.2.9,7005',
      'u,192.0.2.9,53', 't,127.0.0.1,7002', 't,0.0.0.0,7002')
"
        );
        let ran = in_own_network(&b, &script);
        let unreachable = "ENETUNREACH\n".repeat(5);
        assert_eq!(
            ran.stdout,
            format!("{unreachable}ECONNREFUSED\nECONNREFUSED\n"),
            "{}",
            ran.stderr
        );
        let lines: Vec<String> = own_lines(&ran).iter().map(|l| without_pid(l)).collect();
        let others = [
            "ccbox: denied network-outbound 192.0.2.9:7005 [python3]: only TCP leaves the sandbox".to_owned(),
            format!("ccbox: denied network-outbound 192.0.2.9:53 [python3]: {names}"),
            "ccbox: denied network-outbound 127.0.0.1:7002 [python3]: a port of the host, which is not forwarded".to_owned(),
            "ccbox: hint: [network] allowed_domains = [\"127.0.0.1:7002\"]".to_owned(),
            "ccbox: 2 times: network-outbound 127.0.0.1:7002 [python3]".to_owned(),
        ];
        let expected: Vec<String> = streams.into_iter().chain(others).collect();
        assert_eq!(lines, expected);
    }
}

/// What fails outside as well, what does not fail, and what only asks.
#[test]
fn a_connection_that_fails_everywhere_is_not_told() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let script = format!(
        "
own = '''
import socket
l = socket.socket(); l.bind((\"127.0.0.1\", 0)); l.listen()
socket.create_connection(l.getsockname())
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.sendto(b\"x\", (\"127.0.0.1\", 9))
c = socket.create_connection(l.getsockname())
try: c.connect((\"192.0.2.9\", 7001))
except OSError: pass
print(\"own\")
'''
ccbox('python3', '-c', {TRY:?}, 't,192.0.2.10,80', 't,127.0.0.1,9', 't,192.0.2.9,0', 'u,192.0.2.9,7001', 't,224.0.0.1,80')
ccbox('python3', '-c', own)
ccbox('python3', '-c', 'import os, socket; p = os.environ[\"HTTP_PROXY\"].rsplit(\":\", 1)[1].strip(\"/\"); '
      'socket.create_connection((\"127.0.0.1\", int(p))); print(\"proxy\")')
"
    );
    let ran = in_own_network(&b, &script);
    assert_eq!(
        ran.stdout,
        "ENETUNREACH\nECONNREFUSED\nENETUNREACH\nENETUNREACH\nENETUNREACH\nown\nproxy\n",
        "{}",
        ran.stderr
    );
    assert_eq!(own_lines(&ran), Vec::<String>::new());
}

/// The line a report gives for a port of the host opens that very call.
#[test]
fn the_line_for_a_port_of_the_host_opens_it() {
    if !require_sandbox() {
        return;
    }
    let t = "[[bind_mounts]]\nhost_path = \"@T@/ws\"\n";
    let call = |b: &Box| {
        let script = format!(
            "here = listen('127.0.0.1', 7002)\nccbox('python3', '-c', {TRY:?}, 't,127.0.0.1,7002')\n"
        );
        in_own_network(b, &script)
    };
    let refused = call(&Box::new().spec(t));
    assert_eq!(refused.stdout, "ECONNREFUSED\n", "{}", refused.stderr);
    let lines = own_lines(&refused);
    let line = lines[1].strip_prefix("ccbox: hint: ").unwrap();
    let (table, entry) = line.split_once(' ').unwrap();
    let allowed = call(&Box::new().spec(&format!("{t}{table}\n{entry}\n")));
    assert_eq!(allowed.stdout, "ok\n", "{}", allowed.stderr);
    assert_eq!(own_lines(&allowed), Vec::<String>::new());
}

/// Events have what standard error does not show.
#[test]
fn a_mere_question_is_an_event() {
    if !require_sandbox() {
        return;
    }
    let b = Box::new().workspace_spec();
    let script = format!(
        "ccbox('python3', '-c', {TRY:?}, 'u,192.0.2.9,7001', 'u,192.0.2.9,7001', options=('--events', '../events'))"
    );
    let ran = in_own_network(&b, &script);
    assert_eq!(own_lines(&ran), Vec::<String>::new(), "{}", ran.stdout);
    let events = std::fs::read_to_string(b.path().join("events")).unwrap();
    let told: Vec<serde_json::Value> = events
        .lines()
        .map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap())
        .filter(|e| e["type"] == "violation")
        .collect();
    assert_eq!(told.len(), 1, "{events}");
    assert_eq!(told[0]["target"], "192.0.2.9:7001");
}
