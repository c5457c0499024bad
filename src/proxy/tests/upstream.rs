//! Through a proxy of the caller's network (R46), and in place of ours.

use super::*;
use crate::policy::upstream::ProxyUrl;

const LOGIN: &str = "Proxy-Authorization: Basic bWU6cHc=\r\n";

/// A proxy that keeps what it was asked and connects nowhere: a tunnel says a banner and then how much it was sent.
struct Corporate {
    server: Server,
    heads: Arc<Mutex<Vec<String>>>,
}

fn corporate(answer: &'static str) -> Corporate {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&heads);
    let server = Server::start(move |mut s, _| {
        while let Some(head) = try_head(&mut s) {
            let tunnel = head.starts_with("CONNECT ");
            keep.lock().unwrap().push(head);
            if !answer.is_empty() {
                let _ = s.write_all(answer.as_bytes());
            } else if tunnel {
                let _ = s.write_all(b"HTTP/1.1 200 Established\r\n\r\nBANNER\n");
                let sent = checksum(&read_to_end(&mut s));
                let _ = s.write_all(sent.as_bytes());
                return;
            } else {
                let _ = s.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nfrom far");
            }
        }
    });
    Corporate { server, heads }
}

impl Corporate {
    fn fixture(&self, allowed: &[&str], no_proxy: &str) -> Fixture {
        let url = format!("http://me:pw@127.0.0.1:{}", self.server.port);
        through(allowed, &url, no_proxy)
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

fn through(allowed: &[&str], url: &str, no_proxy: &str) -> Fixture {
    let proxy = ProxyUrl::parse(url).unwrap();
    fixture_of(&network(allowed, &["denied.test"]), |config| {
        config.upstream = Chain::through(proxy, |name| {
            (name == "NO_PROXY").then(|| no_proxy.to_owned())
        });
    })
}

fn tunnel(f: &Fixture, target: &str) -> String {
    let mut s = f.dial();
    write!(s, "CONNECT {target} HTTP/1.1\r\n\r\nEARLY").unwrap();
    s.shutdown(Shutdown::Write).unwrap();
    String::from_utf8(read_to_end(&mut s)).unwrap()
}

#[test]
fn tunnels_lead_through_it_by_name() {
    let corp = corporate("");
    // The table of names does not have it: only the proxy could look it up.
    let f = corp.fixture(&["intranet.corp"], "");
    let want = format!("BANNER\n{}", checksum(b"EARLY"));
    assert_eq!(
        tunnel(&f, "Intranet.Corp.:9443"),
        format!("HTTP/1.1 200 OK\r\n\r\n{want}")
    );
    let mut s = f.dial();
    s.write_all(b"\x05\x01\0\x05\x01\0\x03\x0dintranet.corp\0\x16EARLY")
        .unwrap();
    s.shutdown(Shutdown::Write).unwrap();
    let answer = read_to_end(&mut s);
    assert_eq!(answer[..4], [5, 0, 5, 0]);
    assert_eq!(answer[12..], *want.as_bytes());
    let asked = |port| {
        let to = format!("intranet.corp:{port}");
        format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{LOGIN}\r\n")
    };
    assert_eq!(corp.heads(), [asked(9443), asked(22)]);
    assert_eq!(f.asked(), Vec::<String>::new());
}

#[test]
fn requests_keep_their_absolute_form() {
    let corp = corporate("");
    let f = corp.fixture(&["intranet.corp"], "");
    for _ in 0..2 {
        let answer = f.exchange_text(
            "GET http://intranet.corp/a?b HTTP/1.1\r\nHost: other\r\nProxy-Authorization: Basic eDp5\r\n\r\n\
             GET http://intranet.corp:8080/c HTTP/1.1\r\nHost: other\r\n\r\n",
        );
        assert_eq!(answer.matches("from far").count(), 2, "{answer}");
    }
    let heads = corp.heads();
    assert_eq!(heads.len(), 4);
    for (head, url, host) in [
        (&heads[0], "http://intranet.corp/a?b", "intranet.corp"),
        (
            &heads[1],
            "http://intranet.corp:8080/c",
            "intranet.corp:8080",
        ),
    ] {
        let url = url.replace("corp/", "corp:80/");
        assert!(
            head.starts_with(&format!("GET {url} HTTP/1.1\r\n")),
            "{head}"
        );
        let lower = head.to_ascii_lowercase();
        assert!(lower.contains(&format!("host: {host}\r\n")), "{head}");
        assert_eq!(lower.matches("proxy-authorization").count(), 1, "{head}");
        assert!(lower.contains(&LOGIN.to_ascii_lowercase()), "{head}");
    }
}

/// The rules come first, and hosts of `NO_PROXY` and this machine's own are reached without it.
#[test]
fn it_is_asked_for_nothing_else() {
    let corp = corporate("");
    let server = Server::echo_heads();
    let port = server.port;
    let names = [
        "private allowed.test",
        "private api.allowed.test",
        "127.0.0.1",
        "192.0.0.192",
    ];
    let names = names.map(|n| {
        if n == "127.0.0.1" {
            format!("{n}:{port}")
        } else {
            n.to_owned()
        }
    });
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let f = corp.fixture(&names, ".allowed.test");
    for host in ["allowed.test", "api.allowed.test", "127.0.0.1", "localhost"] {
        let answer = f.exchange_text(&format!(
            "GET http://{host}:{port}/x HTTP/1.1\r\nHost: x\r\n\r\n"
        ));
        if host == "localhost" {
            assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
            continue;
        }
        assert!(answer.contains("GET /x HTTP/1.1\r\n"), "{answer}");
        assert!(
            !answer.to_ascii_lowercase().contains("authorization"),
            "{answer}"
        );
    }
    for target in [
        "denied.test:443",
        "unlisted.test:443",
        "10.0.0.1:443",
        "192.0.0.192:443",
        "169.254.169.254:80",
    ] {
        assert!(tunnel(&f, target).starts_with("HTTP/1.1 403 "), "{target}");
    }
    assert_eq!(corp.server.connections(), 0);
}

/// A name that leads to a private address in this network passes: the proxy looks it up. An address does not.
#[test]
fn addresses_are_checked_where_they_are_asked_for() {
    let corp = corporate("");
    let f = corp.fixture(&["priv.test", "*"], "");
    assert!(tunnel(&f, "priv.test:443").contains("BANNER"));
    assert!(tunnel(&f, "10.77.0.5:443").starts_with("HTTP/1.1 403 "));
    assert_eq!(corp.heads().len(), 1);
}

/// Its failures are not ours: 502 and a word that says whose, no violation, and one line for the user.
#[test]
fn its_refusals_are_told_from_ours() {
    for (answer, words) in [
        (
            "HTTP/1.1 407 Login\r\nProxy-Authenticate: Basic realm=corp\r\nContent-Length: 0\r\n\r\n",
            "does not accept the login in its address (407)",
        ),
        (
            "HTTP/1.1 403 Forbidden by corp\r\nContent-Length: 0\r\n\r\n",
            "did not open a connection to allowed.test:443: 403 Forbidden by corp",
        ),
        (
            "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
            "did not open a connection to allowed.test:443: 502 Bad Gateway",
        ),
        ("nonsense\r\n\r\n", "did not answer in HTTP"),
    ] {
        let corp = corporate(answer);
        let f = corp.fixture(&["allowed.test"], "");
        let line = format!(
            "the upstream proxy http://127.0.0.1:{} (network.upstream_proxy) {words}",
            corp.server.port
        );
        for _ in 0..3 {
            let got = tunnel(&f, "allowed.test:443");
            assert!(got.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{got}");
            assert!(got.contains("x-ccbox-error: upstream-proxy\r\n"), "{got}");
            assert!(got.ends_with(&format!("ccbox: {line}\n")), "{got}");
        }
        let mut s = f.dial();
        s.write_all(b"\x05\x01\0\x05\x01\0\x03\x0callowed.test\x01\xbb")
            .unwrap();
        assert_eq!(read_to_end(&mut s)[..4], [5, 0, 5, 1]);
        assert_eq!(*f.sink.warnings.lock().unwrap(), [line]);
        assert_eq!(f.violations(), Vec::<String>::new());
    }
}

/// In absolute form a 407 is the proxy's; what else there is may be the origin's, and passes as it is.
#[test]
fn a_login_it_wants_is_not_asked_of_the_client() {
    let wants = "HTTP/1.1 407 Login\r\nProxy-Authenticate: NTLM\r\nContent-Length: 0\r\n\r\n";
    let corp = corporate(wants);
    let f = corp.fixture(&["allowed.test"], "");
    let request = "GET http://allowed.test/ HTTP/1.1\r\nHost: x\r\n\r\n";
    for _ in 0..2 {
        let got = f.exchange_text(request);
        assert!(got.starts_with("HTTP/1.1 502 "), "{got}");
        assert!(got.contains("x-ccbox-error: upstream-proxy\r\n"), "{got}");
        assert!(
            got.contains("of another kind than Basic (407): NTLM; name a helper"),
            "{got}"
        );
        assert!(
            !got.to_ascii_lowercase().contains("proxy-authenticate"),
            "{got}"
        );
    }
    assert_eq!(f.sink.warnings.lock().unwrap().len(), 1);
    let corp = corporate("HTTP/1.1 403 Origin says no\r\nContent-Length: 0\r\n\r\n");
    let f = corp.fixture(&["allowed.test"], "");
    let got = f.exchange_text(request);
    assert!(got.starts_with("HTTP/1.1 403 Origin says no\r\n"), "{got}");
    assert!(!got.contains("x-ccbox-error"), "{got}");
}

/// SOCKS5: what it is sent, byte by byte; what it answers badly; and that nothing it says hangs or passes for a yes.
#[test]
fn over_socks() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&seen);
    let server = Server::start(move |mut s, _| {
        let mut all = Vec::new();
        // Greeting, login, request: an answer to each.
        for (want, answer) in [
            (4, &b"\x05\x02"[..]),
            (7, b"\x01\0"),
            (21, b"\x05\0\0\x01\0\0\0\0\0\0"),
        ] {
            let mut got = vec![0; want];
            if s.read_exact(&mut got).is_err() {
                return;
            }
            all.extend(got);
            let _ = s.write_all(answer);
        }
        keep.lock().unwrap().push(all);
        let _ = s.write_all(b"BANNER\n");
        let sent = checksum(&read_to_end(&mut s));
        let _ = s.write_all(sent.as_bytes());
    });
    let f = through(
        &["intranet.corps"],
        &format!("socks5://me:pw@127.0.0.1:{}", server.port),
        "",
    );
    let got = tunnel(&f, "intranet.corps:9443");
    assert_eq!(
        got,
        format!("HTTP/1.1 200 OK\r\n\r\nBANNER\n{}", checksum(b"EARLY"))
    );
    assert_eq!(
        *seen.lock().unwrap(),
        [b"\x05\x02\0\x02\x01\x02me\x02pw\x05\x01\0\x03\x0eintranet.corps\x24\xe3".to_vec()]
    );
    assert_eq!(f.asked(), Vec::<String>::new());
    for (answer, words) in [
        (&b"\x04\0"[..], "did not answer in SOCKS5"),
        (b"\x05\xff", "does not accept the login in its address"),
        (b"\x05\x01", "did not answer in SOCKS5"),
        (
            b"\x05\x02\x01\x01",
            "does not accept the login in its address",
        ),
        (b"\x05\x02\x05\0", "did not answer in SOCKS5"),
        (b"\x05\0\x04\0\0\x01", "did not answer in SOCKS5"),
        (b"\x05\0\x05\0\0\x09", "did not answer in SOCKS5"),
        (
            b"\x05\0\x05\x04\0\x01\0\0\0\0\0\0",
            "to intranet.corps:9443: host unreachable",
        ),
        (
            b"\x05\0\x05\x63\0\x03\x01a\0\0",
            "to intranet.corps:9443: SOCKS reply 99",
        ),
        (b"\x05\0\x05\0\0\x01\0", "broke off: "),
        (b"", "broke off: "),
    ] {
        let server = Server::start(move |mut s, _| {
            let _ = s.write_all(answer);
            let _ = s.shutdown(Shutdown::Write);
            read_to_end(&mut s);
        });
        let f = through(
            &["intranet.corps"],
            &format!("socks5h://me:pw@127.0.0.1:{}", server.port),
            "",
        );
        let got = tunnel(&f, "intranet.corps:9443");
        assert!(
            got.starts_with("HTTP/1.1 502 ") && got.contains(words),
            "{words}: {got}"
        );
        assert!(!got.contains("pw"), "{got}");
    }
}

#[test]
fn one_that_is_not_there() {
    let gone = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    for (url, words) in [
        (
            format!("http://127.0.0.1:{gone}"),
            "cannot be reached: connection refused",
        ),
        (
            "http://nowhere.corp".to_owned(),
            "cannot be resolved: name not known",
        ),
    ] {
        let f = through(&["allowed.test"], &url, "");
        let got = tunnel(&f, "allowed.test:443");
        assert!(
            got.contains("x-ccbox-error: upstream-proxy\r\n") && got.contains(words),
            "{got}"
        );
        let got = f.exchange_text("GET http://allowed.test/ HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            got.contains("x-ccbox-error: upstream-proxy\r\n") && got.contains(words),
            "{got}"
        );
        assert_eq!(f.sink.warnings.lock().unwrap().len(), 1);
    }
}

/// A proxy that accepts and says nothing does not hold a client for ever.
#[test]
fn one_that_says_nothing() {
    let silent = Server::start(|mut s, _| {
        read_to_end(&mut s);
    });
    let proxy = ProxyUrl::parse(&format!("127.0.0.1:{}", silent.port)).unwrap();
    let limits = Limits {
        upstream: Duration::from_millis(200),
        ..Limits::default()
    };
    let f = fixture_with(&network(&["allowed.test"], &[]), limits, |config| {
        config.upstream = Chain::through(proxy, |_| None);
    });
    let got = tunnel(&f, "allowed.test:443");
    assert!(got.contains("does not answer in time"), "{got}");
}

/// `http_proxy_port`: bytes go to the caller's proxy as they are, and no rule is asked; other ports have nothing to do with it.
#[test]
fn a_proxy_of_the_callers_own() {
    let theirs = Server::echo_heads();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let inside = listener.local_addr().unwrap();
    let port = theirs.port;
    let f = fixture_of(&network(&[], &[]), |config| {
        config.user_ports = vec![port];
        config.forwards.push((listener, port));
    });
    let mut s = dial(inside);
    let request = "GET http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\n\r\n";
    s.write_all(request.as_bytes()).unwrap();
    s.shutdown(Shutdown::Write).unwrap();
    let answer = String::from_utf8(read_to_end(&mut s)).unwrap();
    assert!(answer.ends_with(request), "{answer}");
    assert!(f.exchange_text(request).starts_with("HTTP/1.1 403 "));
}
