//! What passes through the proxies passes whole: cases NP-1 to NP-9, and their neighbours.

use std::fmt::Write as _;
use std::fs;
use std::process::Stdio;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::lab::{CA, Caller, Lab};
use super::{client, client_outside, codes};

fn sha256(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

/// NP-1: the server speaks first, and bytes that came with the request reach it.
#[test]
fn early_bytes_and_server_first() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let want = format!("GOT 5 {}", sha256(b"qqqqq"));
    for (how, spec) in [
        ("direct", None),
        ("http", Some("allowed.test:7000")),
        ("socks", Some("allowed.test:7000")),
    ] {
        let args = ["tunnel", how, "allowed.test", "7000", "5"];
        let command = spec.map_or_else(
            || client_outside(&desk, &args),
            |s| client(&desk, &[s], &args),
        );
        let out = command.output().success();
        assert!(
            out.stdout.contains("BANNER lab") && out.stdout.contains(&want),
            "{how}: {out}"
        );
        assert!(how != "http" || out.stdout.contains(" 200"), "{out}");
    }
}

/// NP-2: one side may finish while the other still speaks; the end of the server's side ends the tunnel at once.
#[test]
fn half_close_carries_the_answer() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let want = format!("GOT 3000000 {}", sha256(&vec![b'q'; 3_000_000]));
    for how in ["direct", "http", "socks"] {
        let args = ["tunnel", how, "allowed.test", "7000", "3000000"];
        let command = if how == "direct" {
            client_outside(&desk, &args)
        } else {
            client(&desk, &["allowed.test"], &args)
        };
        let out = command.output().success();
        assert!(out.stdout.contains(&want), "{how}: {out}");
        let seconds: f32 = out
            .stdout
            .rsplit("seconds ")
            .next()
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        assert!(seconds < 10.0, "{how}: ends when the server does: {out}");
    }
}

/// NP-3: bodies stream in both directions; ccbox holds no body in memory; 100-continue is passed on.
#[test]
fn large_bodies_stream() {
    const SIZE: u64 = 256 << 20;
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    desk.write("ws/big", "");
    fs::File::options()
        .write(true)
        .open(desk.outer.join("ws/big"))
        .unwrap()
        .set_len(SIZE)
        .unwrap();
    let script = format!(
        "curl -s -m100 -T big -H 'Expect: 100-continue' http://allowed.test/up; curl -s -m100 -o /dev/null -w '%{{size_download}}\\n' 'http://allowed.test/big?{SIZE}'"
    );
    let control = desk.control(&["sh", "-c", &script]).output().success();

    let session = format!("lab-{}-stream", std::process::id());
    let run = desk.with_spec(
        &desk.spec(&["allowed.test"], ""),
        &["--session", &session],
        &["sh", "-c", &script],
    );
    let mut child = run
        .to_command()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        peak = peak.max(peak_memory_of(&session));
        std::thread::sleep(Duration::from_millis(20));
    }
    let out = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert_eq!(
        text,
        control.stdout,
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    assert!(
        text.contains(&format!("len={SIZE}")) && text.ends_with(&format!("{SIZE}\n")),
        "{text}"
    );
    assert!(peak > 0, "ccbox was seen");
    assert!(peak < 64 << 10, "peak resident memory {peak} KiB");
}

/// The largest peak resident size (KiB) among processes of the binary with `word` on their command line.
fn peak_memory_of(word: &str) -> u64 {
    let mut peak = 0;
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let of = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
        let command = String::from_utf8_lossy(&of("cmdline")).into_owned();
        // The wrappers around it (`timeout`, `env`) carry the same words.
        if command
            .split('\0')
            .next()
            .is_some_and(|c| c.ends_with("/ccbox"))
            && command.contains(word)
        {
            let status = String::from_utf8_lossy(&of("status")).into_owned();
            let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
            peak = peak.max(
                line.and_then(|l| l.trim().trim_end_matches(" kB").parse().ok())
                    .unwrap_or(0),
            );
        }
    }
    peak
}

/// NP-4: chunked requests and answers arrive whole; a trailer never ends up in the body.
#[test]
fn chunked_bodies_and_trailers() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let script = "printf abc | curl -s -m5 -H 'Transfer-Encoding: chunked' -T - http://allowed.test/up; curl -s -m5 http://allowed.test/chunk; echo; curl -s -m5 --raw http://allowed.test/chunk";
    for command in [
        desk.control(&["sh", "-c", script]),
        desk.boxed(&["allowed.test"], &["sh", "-c", script]),
    ] {
        let out = command.output().success();
        assert!(
            out.stdout
                .contains(&format!("len=3 sha={}", sha256(b"abc"))),
            "{out}"
        );
        assert!(out.stdout.contains("\nhello world\n"), "{out}");
        assert!(
            out.stdout.trim_end().ends_with('0') || out.stdout.contains("0\r\nX-T: yes\r\n"),
            "{out}"
        );
    }
}

/// NP-5: WebSocket over plain HTTP and inside CONNECT, both directions.
#[test]
fn websocket_upgrades_pass() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let head = "-s -m5 -N -i -H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='";
    for extra in ["", "-p"] {
        let script = format!("curl {extra} {head} 'http://allowed.test/ws?bye'; true");
        for command in [
            desk.control(&["sh", "-c", &script]),
            desk.boxed(&["allowed.test"], &["sh", "-c", &script]),
        ] {
            let out = command.output().success();
            assert!(
                out.stdout.contains(" 101 ") && out.stdout.contains("first"),
                "{extra}: {out}"
            );
            assert!(
                out.stdout.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
                "{extra}: {out}"
            );
        }
    }
    let script = "import os, socket, urllib.parse
u = urllib.parse.urlparse(os.environ.get('http_proxy', 'http://allowed.test:80'))
s = socket.create_connection((u.hostname, u.port), 5); s.settimeout(5)
s.sendall(b'GET http://allowed.test/ws HTTP/1.1\\r\\nHost: allowed.test\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\nSec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n\\r\\n')
d = b''
while b'first' not in d: d += s.recv(4096)
s.sendall(b'\\x81\\x04ping'); d = b''
while b'ping' not in d: d += s.recv(4096)
print('echoed')
";
    let script = script.replace(
        "GET http://allowed.test/ws",
        "GET ' + (b'http://allowed.test' if 'http_proxy' in os.environ else b'') + b'/ws",
    );
    for command in [
        desk.control(&["/usr/bin/python3", "-c", &script]),
        desk.boxed(&["allowed.test"], &["/usr/bin/python3", "-c", &script]),
    ] {
        assert_eq!(command.output().success().stdout, "echoed\n");
    }
}

/// NP-6: clients that say nothing, or half a line, do not keep others waiting.
#[test]
fn idle_clients_do_not_block_others() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let out = client(
        &desk,
        &["allowed.test"],
        &["idle", "200", "curl", "-s", "-m5", "http://allowed.test/"],
    )
    .output()
    .success();
    assert!(
        out.stdout.starts_with("ORIGIN allowed") && out.stdout.ends_with("fast\n"),
        "{out}"
    );
}

/// NP-7: refused by policy, refused by the host and unknown are three different answers, and only the first is a violation.
#[test]
fn answers_say_what_failed() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let out = desk
        .boxed(
            &["allowed.test", "nosuch.test"],
            &["curl", "-s", "-i", "-m5", "http://denied.test/"],
        )
        .output()
        .success();
    assert!(out.stdout.starts_with("HTTP/1.1 403 "), "{out}");
    assert!(
        out.stdout.contains("denied.test") && out.stdout.len() < 2000,
        "the body names the host and is short: {out}"
    );
    out.names_denied("denied.test:80");
    let out = desk
        .boxed(
            &["allowed.test", "nosuch.test"],
            &codes(&["allowed.test:81", "nosuch.test"]),
        )
        .output()
        .success();
    let got: Vec<&str> = out.stdout.lines().collect();
    assert_eq!(got[0], "allowed.test:81 502", "{out}");
    assert!(
        ["nosuch.test 502", "nosuch.test 504"].contains(&got[1]),
        "{out}"
    );
    assert_eq!(out.notes(), Vec::<&str>::new(), "{out}");
    let out = desk
        .boxed(
            &["allowed.test"],
            &["curl", "-sS", "-m5", "https://denied.test/"],
        )
        .output()
        .failure();
    out.names_denied("denied.test:443");
}

/// NP-8: an IPv6-only host through both proxies; with IPv6 off a clean answer, and IPv4 goes on working.
#[test]
fn ipv6_targets_work() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let script = format!(
        "curl -s -m5 http://six.test/; curl -s -m5 --cacert {CA} https://six.test/; curl -s -m5 ${{CCBOX_SOCKS_PROXY:+--proxy $CCBOX_SOCKS_PROXY}} http://six.test/"
    );
    for command in [
        desk.control(&["sh", "-c", &script]),
        desk.boxed(&["six.test"], &["sh", "-c", &script]),
    ] {
        let out = command.output().success();
        assert_eq!(out.stdout.matches("ORIGIN six").count(), 3, "{out}");
    }
    let literal = ["curl", "-s", "-g", "-m5", "http://[2001:db8::10]/"];
    assert!(
        desk.boxed(&["[2001:db8::10]"], &literal)
            .output()
            .success()
            .stdout
            .contains("ORIGIN six")
    );
    lab.administer(&[
        "sh",
        "-c",
        "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6",
    ]);
    let hosts = ["six.test", "allowed.test"];
    assert_eq!(
        desk.control(&codes(&hosts)).output().success().stdout,
        "six.test 000\nallowed.test 200\n"
    );
    let out = desk.boxed(&hosts, &codes(&hosts)).output().success();
    assert_eq!(out.stdout, "six.test 502\nallowed.test 200\n", "{out}");
}

/// NP-9: nothing a client says ends the proxy, and nothing odd reaches a refused host.
#[test]
fn odd_requests_are_answered_or_closed() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let out = client(&desk, &["allowed.test"], &["odd"])
        .output()
        .success();
    assert_eq!(out.stdout.lines().count(), 18, "{out}");
    for line in out.stdout.lines() {
        assert!(
            !line.contains("TIMEOUT") && line.ends_with("fast"),
            "{line}\n{out}"
        );
    }
    let two: Vec<&str> = out
        .stdout
        .lines()
        .filter(|l| {
            ["two lengths", "length and chunked", "chunked and length"]
                .iter()
                .any(|name| l.starts_with(name))
        })
        .collect();
    assert!(
        two.len() == 3 && two.iter().all(|l| l.contains(" 400 ")),
        "requests that two parsers read differently are not forwarded: {two:?}"
    );
    assert!(
        !lab.hits().iter().any(|h| h.contains("/up")),
        "also not as the second on a connection: {:?}",
        lab.hits()
    );
    assert!(
        !lab.hits().iter().any(|h| h.contains("denied")),
        "{:?}",
        lab.hits()
    );
    let after = client(&desk, &["allowed.test"], &["odd"])
        .output()
        .success();
    assert_eq!(
        after.stdout, out.stdout,
        "the answers do not depend on what was said before"
    );
}

/// Events are passed on as they come, not when the body ends.
#[test]
fn server_sent_events_are_not_held_back() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let script = "import time, urllib.request
t = time.monotonic(); r = urllib.request.urlopen('http://allowed.test/sse', timeout=10)
first = r.readline(); early = time.monotonic() - t
rest = r.read(); late = time.monotonic() - t
print(first, rest.count(b'data:'), early < late - 0.5)
";
    for command in [
        desk.control(&["/usr/bin/python3", "-c", script]),
        desk.boxed(&["allowed.test"], &["/usr/bin/python3", "-c", script]),
    ] {
        assert_eq!(command.output().success().stdout, "b'data: 0\\n' 3 True\n");
    }
}

/// A body that the server cuts short ends as an error for the client, not as a shorter file.
#[test]
fn a_cut_body_is_an_error() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    for command in [
        desk.control(&["curl", "-s", "-m5", "http://allowed.test/cut"]),
        desk.boxed(
            &["allowed.test"],
            &["curl", "-s", "-m5", "http://allowed.test/cut"],
        ),
    ] {
        command.output().failure();
    }
}

/// Hop-by-hop fields end at the proxy; nothing of the proxy's own is added that names the user's side.
#[test]
fn hop_by_hop_fields_end_here() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let argv = [
        "curl",
        "-s",
        "-m5",
        "-H",
        "Connection: X-Hop, keep-alive",
        "-H",
        "X-Hop: 1",
        "-H",
        "Proxy-Authorization: Basic c2VjcmV0",
        "-H",
        "Proxy-Connection: keep-alive",
        "-H",
        "X-End: 2",
        "http://allowed.test/headers",
    ];
    let control = desk.control(&argv).output().success();
    assert!(
        control.stdout.contains("x-hop") && control.stdout.contains("c2VjcmV0"),
        "{control}"
    );
    let out = desk.boxed(&["allowed.test"], &argv).output().success();
    assert!(out.stdout.contains("x-end"), "{out}");
    for name in [
        "x-hop",
        "proxy-",
        "c2VjcmV0",
        "127.0.0.1",
        "x-forwarded",
        "forwarded",
    ] {
        assert!(!out.stdout.contains(name), "{name}: {out}");
    }
}

/// Bodiless answers (HEAD, 204, 304) do not hang and do not desynchronise the connection.
#[test]
fn bodiless_answers_keep_the_connection() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let script = "curl -s -m9 -I http://allowed.test/head | head -1; curl -s -m9 -o /dev/null -w '%{http_code} ' http://allowed.test/204 -o /dev/null http://allowed.test/status?304 -o /dev/null http://allowed.test/status?404 -o /dev/null http://allowed.test/";
    for command in [
        desk.control(&["sh", "-c", script]),
        desk.boxed(&["allowed.test"], &["sh", "-c", script]),
    ] {
        let out = command.output().success();
        assert!(out.stdout.starts_with("HTTP/1.1 200 OK"), "{out}");
        assert!(out.stdout.ends_with("204 304 404 200 "), "{out}");
    }
}

/// Upstream connections are kept alive across the requests of one client connection.
#[test]
fn upstream_connections_are_reused() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let mut argv = vec!["curl", "-s", "-m9"];
    argv.extend(["http://allowed.test/keep"; 20]);
    assert_eq!(
        desk.control(&argv)
            .output()
            .success()
            .stdout
            .lines()
            .count(),
        20
    );
    assert_eq!(lab.hits_of("CONN allowed").len(), 1);
    lab.forget_hits();
    let out = desk.boxed(&["allowed.test"], &argv).output().success();
    assert_eq!(out.stdout.matches("request ").count(), 20, "{out}");
    assert_eq!(lab.hits_of("CONN allowed").len(), 1, "{:?}", lab.hits());
}
