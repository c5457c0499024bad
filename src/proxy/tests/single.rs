//! Connections that lead to one host, at the port where the Host field is in the open.

use std::net::UdpSocket;

use super::super::catch::{Book, Catch};
use super::super::client_hello::tests::hello;
use super::super::dns::tests::query;
use super::super::vet::ALERT;
use super::*;

const ONE: Ipv4Addr = Ipv4Addr::new(127, 79, 0, 1);

/// One allowed host, a second one that is allowed as well, and a third that is denied; all at this server.
fn open(server: &Server) -> Fixture {
    let address = format!("127.0.0.1:{}", server.port);
    let names = ["private allowed.test", "private api.allowed.test", &address];
    let limits = Limits {
        http: server.port,
        ..Limits::default()
    };
    fixture_with(&network(&names, &["bad.test"]), limits, |_| {})
}

/// A CONNECT tunnel, a SOCKS tunnel.
fn tunnels(f: &Fixture, host: &str, port: u16) -> [TcpStream; 2] {
    let mut connect = f.dial();
    write!(connect, "CONNECT {host}:{port} HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(head(&mut connect), "HTTP/1.1 200 OK\r\n\r\n");
    let mut socks = f.dial();
    let mut request = b"\x05\x01\0\x05\x01\0\x03".to_vec();
    request.push(u8::try_from(host.len()).unwrap());
    request.extend(host.as_bytes());
    request.extend(port.to_be_bytes());
    socks.write_all(&request).unwrap();
    let mut answer = [0; 12];
    socks.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..4], [5, 0, 5, 0]);
    [connect, socks]
}

fn say(s: &mut TcpStream, text: &str) -> String {
    s.write_all(text.as_bytes()).unwrap();
    s.shutdown(Shutdown::Write).unwrap();
    String::from_utf8(read_to_end(s)).unwrap()
}

#[test]
fn a_tunnel_is_read_request_by_request() {
    let server = Server::echo_heads();
    let port = server.port;
    let f = open(&server);
    for mut s in tunnels(&f, "allowed.test", port) {
        let got = say(
            &mut s,
            "GET /a HTTP/1.1\r\nHost: Allowed.Test.\r\n\r\nPOST /b HTTP/1.1\r\nHost:\r\nContent-Length: 3\r\n\r\nabc\
             GET /c HTTP/1.1\r\nHost: allowed.test:81\r\n\r\nGET /d HTTP/1.1\r\nHost: api.allowed.test\r\n\r\nGET /e HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
        );
        for path in ["GET /a ", "POST /b ", "GET /c "] {
            assert!(got.contains(path), "{got}");
        }
        // The first three at the host that was allowed, whatever they said; the fourth ends the connection.
        assert_eq!(
            got.to_ascii_lowercase()
                .matches(&format!("host: allowed.test:{port}\r\n"))
                .count(),
            3,
            "{got}"
        );
        assert!(
            got.contains("HTTP/1.1 403 Refused by sandbox policy: api.allowed.test"),
            "{got}"
        );
        assert!(!got.contains("GET /d") && !got.contains("GET /e"), "{got}");
    }
    // Over the tunnels themselves.
    assert_eq!(server.connections(), 2);
    let line = format!(
        "api.allowed.test:{port}: HTTP host in a connection to allowed.test:{port}, not its own | -"
    );
    assert_eq!(f.violations(), [line.clone(), line]);
}

/// What came along with the CONNECT is the first request.
#[test]
fn early_requests_are_read_too() {
    let server = Server::echo_heads();
    let f = open(&server);
    let to = format!("allowed.test:{}", server.port);
    let many = "x".repeat(20_000);
    for (host, code) in [("allowed.test", "200 OK"), ("bad.test", "403 Refused")] {
        let got = f.exchange_text(&format!(
            "CONNECT {to} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nX: {many}\r\nHost: {host}\r\n\r\n"
        ));
        let wanted = format!("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 {code}");
        assert!(got.starts_with(&wanted), "{got}");
    }
    assert_eq!(f.violations().len(), 1);
}

#[test]
fn only_http_and_tls_pass() {
    let server = Server::start(|mut s, _| {
        let data = read_to_end(&mut s);
        let _ = s.write_all(checksum(&data).as_bytes());
    });
    let f = open(&server);
    let ask = |bytes: &[u8]| {
        tunnels(&f, "allowed.test", server.port).map(|mut s| {
            let _ = s.write_all(bytes);
            let _ = s.shutdown(Shutdown::Write);
            read_to_end(&mut s)
        })
    };
    let good = hello(Some("allowed.test"));
    for got in ask(&good) {
        assert_eq!(got, checksum(&good).as_bytes());
    }
    assert_eq!(f.violations(), Vec::<String>::new());
    for got in ask(&hello(Some("api.allowed.test"))) {
        assert_eq!(got, ALERT);
    }
    assert_eq!(f.violations().len(), 2);
    let rule = format!(
        "neither HTTP/1 nor TLS in a connection to allowed.test:{0}",
        server.port
    );
    for (n, bytes) in [
        &b"\x05\x01\x00"[..],
        b"\0\0\0\x08\x04\xd2\x16\x2f",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\r\n\r\n\0\r\nQUIT\n",
        b"GET /\r\nHost: api.allowed.test\r\n\r\n",
        b"GET / HTTP/3.0\r\nHost: api.allowed.test\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : api.allowed.test\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\r\n Host: api.allowed.test\r\n\r\n",
    ]
    .iter()
    .enumerate()
    {
        for got in ask(bytes) {
            let got = String::from_utf8_lossy(&got).into_owned();
            assert!(
                got.is_empty() || got.starts_with("HTTP/1.1 400 "),
                "{n}: {got}"
            );
        }
        // Told once the answer is out.
        let begun = std::time::Instant::now();
        while f.violations().len() < 4 + 2 * n && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(2));
        }
        let said = f.violations();
        assert_eq!(said.len(), 4 + 2 * n, "{said:?}");
        assert!(said.last().unwrap().contains(&rule), "{said:?}");
    }
}

/// An address may be asked for the names that are allowed.
#[test]
fn an_address_has_any_name() {
    let server = Server::echo_heads();
    let f = open(&server);
    for (host, passes) in [
        ("allowed.test", true),
        ("other.test", false),
        ("bad.test", false),
        ("", true),
    ] {
        for mut s in tunnels(&f, "127.0.0.1", server.port) {
            let got = say(&mut s, &format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            assert_eq!(got.starts_with("HTTP/1.1 200 "), passes, "{got}");
            let host = if host.is_empty() { "127.0.0.1" } else { host };
            assert_eq!(got.contains(&format!("ost: {host}")), passes, "{got}");
        }
    }
    let said = f.violations();
    assert_eq!(said.len(), 4);
    assert!(
        said[0].starts_with(&format!("other.test:{}: not on", server.port)),
        "{said:?}"
    );
    assert!(said[0].contains(" | [network] allowed_domains"), "{said:?}");
    assert!(
        said[2].starts_with(&format!("bad.test:{}: ", server.port)),
        "{said:?}"
    );
}

/// Two readings of one request, and other ways to have a second one taken for a part of the first.
#[test]
fn smuggled_requests() {
    let server = Server::echo_heads();
    let f = open(&server);
    let evil = "GET /evil HTTP/1.1\r\nHost: api.allowed.test\r\n\r\n";
    let own = "Host: allowed.test\r\n";
    for head in [
        format!(
            "POST / HTTP/1.1\r\n{own}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        ),
        format!("POST / HTTP/1.1\r\n{own}Content-Length: 0\r\nContent-Length: 40\r\n\r\n"),
        format!("POST / HTTP/1.1\r\n{own}Content-Length: +0\r\n\r\n"),
        format!("POST / HTTP/1.1\r\n{own}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
        format!("POST / HTTP/1.1\r\n{own}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
        format!("POST / HTTP/1.1\r\n{own}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        format!("POST / HTTP/1.1\r\n{own}Transfer-Encoding: chunked\r\n\r\n0;x\r\n\r\n"),
        format!("GET / HTTP/1.1\r\n{own}Host: api.allowed.test\r\n\r\n"),
        format!("GET http://api.allowed.test/evil HTTP/1.1\r\n{own}\r\n"),
        format!("GET https://allowed.test/evil HTTP/1.1\r\n{own}\r\n"),
        format!(
            "CONNECT api.allowed.test:{} HTTP/1.1\r\n{own}\r\n",
            server.port
        ),
        format!("CONNECT allowed.test:{} HTTP/1.1\r\n{own}\r\n", server.port),
    ] {
        for mut s in tunnels(&f, "allowed.test", server.port) {
            let got = say(&mut s, &format!("{head}{evil}"));
            assert!(!got.contains("GET /evil"), "{head:?}: {got}");
            assert!(
                !got.contains("host: api") && !got.contains("Host: api"),
                "{head:?}: {got}"
            );
        }
    }
}

/// Inside HTTP/2 or TLS, requests for other hosts would pass unseen.
#[test]
fn switches_to_what_cannot_be_seen() {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&heads);
    let server = Server::start(move |mut s, _| {
        while let Some(head) = try_head(&mut s) {
            let answer = if head.contains("/switch") {
                "HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nunseen"
            } else {
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
            };
            keep.lock().unwrap().push(head.to_ascii_lowercase());
            let _ = s.write_all(answer.as_bytes());
        }
    });
    let f = open(&server);
    let own = "Host: allowed.test\r\nConnection: Upgrade, HTTP2-Settings\r\n";
    for upgrade in [
        "Upgrade: h2c",
        "Upgrade: websocket, h2c",
        "Upgrade: websocket\r\nUpgrade: h2c",
        "Upgrade: foo,bar",
        "Upgrade: TLS/1.2",
        "Upgrade: HTTP/2.0",
    ] {
        for mut s in tunnels(&f, "allowed.test", server.port) {
            let got = say(
                &mut s,
                &format!("GET / HTTP/1.1\r\n{own}{upgrade}\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"),
            );
            assert!(got.starts_with("HTTP/1.1 200 "), "{upgrade}: {got}");
        }
    }
    assert!(
        heads.lock().unwrap().iter().all(|h| !h.contains("upgrade")),
        "{heads:?}"
    );
    for mut s in tunnels(&f, "allowed.test", server.port) {
        let got = say(
            &mut s,
            &format!("GET /switch HTTP/1.1\r\n{own}Upgrade: websocket\r\n\r\n"),
        );
        assert!(
            got.starts_with("HTTP/1.1 502 ") && !got.contains("unseen"),
            "{got}"
        );
    }
}

/// A protocol that turns to TLS after a switch says the name of its host.
#[test]
fn tls_behind_a_switch_is_checked() {
    let server = Server::start(|mut s, _| {
        try_head(&mut s);
        let _ = s.write_all(b"HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: odd\r\n\r\n");
        let data = read_to_end(&mut s);
        let _ = s.write_all(checksum(&data).as_bytes());
    });
    let f = open(&server);
    for (name, passes) in [("allowed.test", true), ("api.allowed.test", false)] {
        for mut s in tunnels(&f, "allowed.test", server.port) {
            s.write_all(b"GET / HTTP/1.1\r\nHost: allowed.test\r\nConnection: upgrade\r\nUpgrade: odd\r\n\r\n").unwrap();
            assert!(head(&mut s).starts_with("HTTP/1.1 101 "));
            let said = hello(Some(name));
            s.write_all(&said).unwrap();
            s.shutdown(Shutdown::Write).unwrap();
            let got = read_to_end(&mut s);
            let wanted = if passes {
                checksum(&said).into_bytes()
            } else {
                ALERT.to_vec()
            };
            assert_eq!(got, wanted, "{name}");
        }
    }
}

/// Whoever answers TRACE repeats what it was sent, an upstream proxy the caller's login.
#[test]
fn trace_is_not_passed_on() {
    let server = Server::echo_heads();
    let f = open(&server);
    let got = f.exchange_text(&format!(
        "TRACE http://allowed.test:{}/ HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n\r\n",
        server.port
    ));
    assert!(got.starts_with("HTTP/1.1 405 "), "{got}");
    for mut s in tunnels(&f, "allowed.test", server.port) {
        let got = say(&mut s, "TRACE / HTTP/1.1\r\nHost: allowed.test\r\n\r\n");
        assert!(got.starts_with("HTTP/1.1 405 "), "{got}");
    }
}

/// Connections of programs without a proxy are read in the same way, and refusals are told.
#[test]
fn caught_connections_are_read_request_by_request() {
    let server = Server::echo_heads();
    let dns = UdpSocket::bind("127.0.0.1:0").unwrap();
    let asked = dns.local_addr().unwrap();
    let stand = TcpListener::bind((ONE, server.port)).unwrap();
    let limits = Limits {
        http: server.port,
        ..Limits::default()
    };
    let policy = network(&["private allowed.test", "private api.allowed.test"], &[]);
    let f = fixture_with(&policy, limits, |config| {
        config.catch = Some(Catch {
            dns,
            dns_tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            listeners: vec![stand],
            spare: vec![],
            by_address: vec![],
            book: Book::default(),
            first: Ipv4Addr::new(127, 79, 0, 0),
            first_v6: None,
        });
    });
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send_to(&query("allowed.test", 1), asked).unwrap();
    socket.recv(&mut [0; 512]).unwrap();
    let ask = |text: &str| say(&mut dial((ONE, server.port).into()), text);
    let got = ask("GET /a HTTP/1.1\r\nHost: allowed.test\r\n\r\n");
    assert!(got.contains("GET /a "), "{got}");
    assert_eq!(f.violations(), Vec::<String>::new());
    let target = format!("http://allowed.test:{}/b", server.port);
    let got = ask(&format!(
        "GET {target} HTTP/1.1\r\nHost: allowed.test\r\n\r\n"
    ));
    assert!(got.contains("GET /b "), "{got}");
    for (n, text) in [
        "GET / HTTP/1.1\r\nHost: api.allowed.test\r\n\r\n".to_owned(),
        "GET http://denied.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n".to_owned(),
        "GET https://denied.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n".to_owned(),
        "CONNECT denied.test:443 HTTP/1.1\r\nHost: allowed.test\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: a b\r\n\r\n".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        let got = ask(text);
        assert!(got.starts_with("HTTP/1.1 403 "), "{text}: {got}");
        assert_eq!(f.violations().len(), n + 1, "{text}");
    }
    let said = f.violations();
    for (line, target) in said.iter().zip([
        "api.allowed.test:",
        "denied.test:80",
        "denied.test:443",
        "denied.test:443",
        "allowed.test:",
    ]) {
        assert!(line.starts_with(target), "{said:?}");
    }
    assert!(!f.asked().contains(&"denied.test".to_owned()));
    // Who looked the name up before asking the proxy: the address is the name's, and so is the decision.
    let got = f.exchange_text(&format!(
        "GET http://{ONE}:{}/c HTTP/1.1\r\nHost: x\r\n\r\n",
        server.port
    ));
    assert!(
        got.contains("GET /c ") && got.contains("ost: allowed.test:"),
        "{got}"
    );
    for mut s in tunnels(&f, &ONE.to_string(), server.port) {
        let got = say(&mut s, "GET /d HTTP/1.1\r\nHost: allowed.test\r\n\r\n");
        assert!(got.contains("GET /d "), "{got}");
    }
    let nobodys = Ipv4Addr::new(127, 79, 0, 9);
    let got = f.exchange_text(&format!("CONNECT {nobodys}:80 HTTP/1.1\r\n\r\n"));
    assert!(got.starts_with("HTTP/1.1 403 "), "{got}");
}
