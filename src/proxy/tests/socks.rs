//! The SOCKS5 front end over real sockets.

use super::*;

fn name_request(name: &[u8], port: u16) -> Vec<u8> {
    let mut out = vec![5, 1, 0, 3, u8::try_from(name.len()).unwrap()];
    out.extend(name);
    out.extend(port.to_be_bytes());
    out
}

fn greet(f: &Fixture) -> TcpStream {
    let mut s = f.dial();
    s.write_all(&[5, 1, 0]).unwrap();
    let mut method = [0; 2];
    s.read_exact(&mut method).unwrap();
    assert_eq!(method, [5, 0]);
    s
}

/// The reply code for a request; the connection is closed after a refusal.
fn ask(f: &Fixture, request: &[u8]) -> u8 {
    let mut s = greet(f);
    s.write_all(request).unwrap();
    let mut reply = [0; 10];
    s.read_exact(&mut reply).unwrap();
    assert_eq!([reply[0], reply[2], reply[3]], [5, 0, 1]);
    if reply[1] != 0 {
        assert_eq!(read_to_end(&mut s), b"");
    }
    reply[1]
}

#[test]
fn names_and_addresses() {
    let server = Server::banner();
    let port = server.port;
    let f = fixture(
        &[
            "private allowed.test",
            &format!("127.0.0.1:{port}"),
            "nosuch.test",
        ],
        &[],
    );
    let v4 = |ip: [u8; 4]| [&[5, 1, 0, 1][..], &ip, &port.to_be_bytes()].concat();
    let v6 = |ip: &str| {
        let ip: std::net::Ipv6Addr = ip.parse().unwrap();
        [&[5, 1, 0, 4][..], &ip.octets(), &port.to_be_bytes()].concat()
    };
    for (request, want) in [
        (name_request(b"allowed.test", port), 0),
        (name_request(b"ALLOWED.Test.", port), 0),
        (name_request(b"127.0.0.1", port), 0),
        (v4([127, 0, 0, 1]), 0),
        (v6("::ffff:127.0.0.1"), 0),
        (v6("::1"), 2),
        (v4([10, 0, 0, 1]), 2),
        (v4([169, 254, 169, 254]), 2),
        (name_request(b"denied.test", port), 2),
        (name_request(b"2130706433", port), 2),
        (name_request(b"", port), 2),
        (name_request(b"allowed.test", 0), 1),
        (name_request(b"nosuch.test", 80), 4),
    ] {
        assert_eq!(ask(&f, &request), want, "{request:?}");
    }
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    assert_eq!(ask(&f, &name_request(b"allowed.test", closed)), 5);
}

/// NP-8: IPv6 destinations, where this machine has IPv6; a clean refusal by the network where it does not.
#[test]
fn ipv6_destinations() {
    let (port, want, want_http) = match TcpListener::bind("[::1]:0") {
        Ok(listener) => {
            let server = Server::on(listener, |mut s, _| {
                try_head(&mut s);
                let _ = s.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            });
            (server.port, 0, "HTTP/1.1 200 OK")
        }
        Err(_) => (9, 5, "HTTP/1.1 502 "),
    };
    let f = fixture(&[&format!("[::1]:{port}")], &[]);
    let request = [
        &[5, 1, 0, 4][..],
        &std::net::Ipv6Addr::LOCALHOST.octets(),
        &port.to_be_bytes(),
    ]
    .concat();
    assert_eq!(ask(&f, &request), want);
    assert_eq!(ask(&f, &name_request(b"::1", port)), want);
    for request in [
        format!("GET http://[0:0:0:0:0:0:0:1]:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n"),
        format!("CONNECT [::1]:{port} HTTP/1.1\r\n\r\n"),
    ] {
        let answer = f.exchange_text(&request);
        assert!(answer.starts_with(want_http), "{answer}");
    }
}

/// NA-4: what the matcher would read and what the C resolver would read are two names; neither is looked up.
#[test]
fn a_nul_in_a_name() {
    let f = fixture(&["private allowed.test", "*.allowed.test"], &[]);
    assert_eq!(ask(&f, &name_request(b"denied.test\0.allowed.test", 80)), 2);
    assert_eq!(ask(&f, &name_request(b"u:SECRET@\xff.allowed.test", 80)), 2);
    assert_eq!(f.asked(), Vec::<String>::new());
    assert_eq!(
        f.violations(),
        [
            "denied.test\0.allowed.test:80: control character or blank in the host | -",
            "\u{fffd}.allowed.test:80: user information before the host | -",
        ]
    );
}

#[test]
fn refusals_are_reported_like_those_of_http() {
    let f = fixture(&["loop.test"], &["bad.test"]);
    for name in [&b"evil.test"[..], b"bad.test", b"loop.test"] {
        assert_eq!(ask(&f, &name_request(name, 22)), 2);
    }
    insta::assert_snapshot!(f.violations().join("\n"), @r#"
    evil.test:22: not on the allow list | [network] allowed_domains = ["evil.test:22"]
    bad.test:22: denied_domains "bad.test" (/w/spec.toml:2) | remove /w/spec.toml:2
    loop.test:22: resolves to 127.0.0.1, a loopback address | [network] allowed_domains = [{ host = "loop.test:22", allow_private = true }]
    "#);
}

/// Everything in one write, before any answer, and the sending side closed: what scripts do.
#[test]
fn all_at_once_with_early_data() {
    let server = Server::banner();
    let f = fixture(&["private allowed.test"], &[]);
    let sent = [
        &[5, 2, 0, 2][..],
        &name_request(b"allowed.test", server.port),
        b"EARLY",
    ]
    .concat();
    let answer = f.exchange(&sent);
    let want = [
        &[5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0][..],
        b"BANNER\n",
        checksum(b"EARLY").as_bytes(),
    ]
    .concat();
    assert_eq!(answer, want);
}

#[test]
fn half_close_of_three_megabytes() {
    let server = Server::banner();
    let f = fixture(&["private allowed.test"], &[]);
    let mut s = greet(&f);
    s.write_all(&name_request(b"allowed.test", server.port))
        .unwrap();
    let data = pattern(3_000_000);
    s.write_all(&data).unwrap();
    s.shutdown(Shutdown::Write).unwrap();
    let answer = read_to_end(&mut s);
    assert_eq!(
        String::from_utf8_lossy(&answer[10..]),
        format!("BANNER\n{}", checksum(&data))
    );
}

#[test]
fn other_commands_and_malformed_messages() {
    let f = fixture(&["*"], &[]);
    for (request, want) in [
        (&[5, 2, 0, 1, 127, 0, 0, 1, 0, 80][..], 7),
        (&[5, 3, 0, 1, 0, 0, 0, 0, 0, 0], 7),
        (&[5, 9, 0, 1, 0, 0, 0, 0, 0, 0], 7),
        (&[5, 1, 0, 9], 8),
    ] {
        assert_eq!(ask(&f, request), want, "{request:?}");
    }
    assert_eq!(f.exchange(&[5, 1, 1]), [5, 0xff]);
    assert_eq!(f.exchange(&[5, 0]), [5, 0xff]);
    assert_eq!(f.exchange(&[5, 1, 0, 4, 1]), [5, 0]);
    assert_eq!(f.exchange(&[5]), b"");
    assert_eq!(f.violations(), Vec::<String>::new());
}

#[test]
fn logins() {
    let server = Server::banner();
    let policy = network(&["private allowed.test"], &[]);
    let request = name_request(b"allowed.test", server.port);
    let login = |user: &[u8], password: &[u8]| {
        [
            &[5, 1, 2, 1][..],
            &[u8::try_from(user.len()).unwrap()],
            user,
            &[u8::try_from(password.len()).unwrap()],
            password,
            &request,
        ]
        .concat()
    };
    let f = fixture_of(&policy, |c| c.token = Some("s3cret".to_owned()));
    assert!(
        f.exchange(&login(b"ccbox", b"s3cret"))
            .starts_with(&[5, 2, 1, 0, 5, 0])
    );
    assert_eq!(f.exchange(&login(b"ccbox", b"wrong!")), [5, 2, 1, 1]);
    assert_eq!(f.exchange(&login(b"", b"")), [5, 2, 1, 1]);
    assert_eq!(f.exchange(&[&[5, 1, 0][..], &request].concat()), [5, 0xff]);
    // Without a token any login is accepted: the namespace is the boundary.
    let open = fixture(&["private allowed.test"], &[]);
    assert!(
        open.exchange(&login(b"x", b"y"))
            .starts_with(&[5, 2, 1, 0, 5, 0])
    );
}
