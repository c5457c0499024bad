//! What is refused, how it is said, and that nothing was resolved or dialled for it.

use super::*;

fn status(answer: &str) -> &str {
    answer.split("\r\n").next().unwrap()
}

/// NA-2, NA-8, NP-7: plain requests are filtered as strictly as tunnels, and the answer says what it is.
#[test]
fn a_refusal_names_the_rule_and_the_line() {
    let policy = network(&["*.allowed.test"], &["bad.allowed.test"]);
    let f = fixture_of(&policy, |c| c.hint_file = Some("/w/ccbox.toml".into()));
    let get = f.exchange_text(
        "GET http://denied.test/log?token=SECRET HTTP/1.1\r\nHost: allowed.test\r\nAuthorization: Bearer SECRET\r\n\r\n",
    );
    insta::assert_snapshot!(get.replace("\r\n", "\n"), @r#"
    HTTP/1.1 403 Refused by sandbox policy: denied.test:80 not on the allow list
    content-type: text/plain; charset=utf-8
    x-ccbox-error: not-allowed
    connection: close
    content-length: 200

    ccbox: the sandbox policy refused denied.test:80: not on the allow list. Retrying, or trying another way, will not help.
    To allow it, add to /w/ccbox.toml: [network] allowed_domains = ["denied.test"]
    "#);
    let tunnel = f.exchange_text("CONNECT denied.test:8443 HTTP/1.1\r\n\r\n");
    insta::assert_snapshot!(tunnel.replace("\r\n", "\n"), @r#"
    HTTP/1.1 403 Refused by sandbox policy: denied.test:8443 not on the allow list
    content-type: text/plain; charset=utf-8
    x-ccbox-error: not-allowed
    connection: close
    content-length: 207

    ccbox: the sandbox policy refused denied.test:8443: not on the allow list. Retrying, or trying another way, will not help.
    To allow it, add to /w/ccbox.toml: [network] allowed_domains = ["denied.test:8443"]
    "#);
    let denied = f.exchange_text("CONNECT bad.allowed.test:443 HTTP/1.1\r\n\r\n");
    insta::assert_snapshot!(denied.replace("\r\n", "\n"), @r#"
    HTTP/1.1 403 Refused by sandbox policy: bad.allowed.test:443 denied_domains "bad.allowed.test" (/w/spec.toml:2)
    content-type: text/plain; charset=utf-8
    x-ccbox-error: denied
    connection: close
    content-length: 191

    ccbox: the sandbox policy refused bad.allowed.test:443: denied_domains "bad.allowed.test" (/w/spec.toml:2). Retrying, or trying another way, will not help.
    To allow it: remove /w/spec.toml:2
    "#);
    insta::assert_snapshot!(f.violations().join("\n"), @r#"
    denied.test:80: not on the allow list | [network] allowed_domains = ["denied.test"]
    denied.test:8443: not on the allow list | [network] allowed_domains = ["denied.test:8443"]
    bad.allowed.test:443: denied_domains "bad.allowed.test" (/w/spec.toml:2) | remove /w/spec.toml:2
    "#);
    assert_eq!(f.asked(), Vec::<String>::new());
}

/// NA-1.
#[test]
fn network_off_is_the_same_path_with_an_empty_list() {
    let mut policy = network(&["*", "allowed.test"], &[]);
    policy.mode = NetworkMode::Off;
    let f = fixture_of(&policy, |_| {});
    let answer = f.exchange_text("GET http://allowed.test/ HTTP/1.1\r\nHost: x\r\n\r\n");
    insta::assert_snapshot!(answer.replace("\r\n", "\n"), @r#"
    HTTP/1.1 403 Refused by sandbox policy: allowed.test:80 network is off for this run
    content-type: text/plain; charset=utf-8
    x-ccbox-error: network-off
    connection: close
    content-length: 128

    ccbox: the sandbox policy refused allowed.test:80: network is off for this run. Retrying, or trying another way, will not help.
    "#);
    assert_eq!(
        f.violations(),
        ["allowed.test:80: network is off for this run | -"]
    );
    assert_eq!(f.asked(), Vec::<String>::new());
}

/// NA-10: whoever controls the DNS of an allowed name does not control where the proxy connects.
#[test]
fn names_that_lead_inside() {
    let server = Server::banner();
    let rules = [
        "loop.test",
        "meta.test",
        "priv.test",
        "mixed.test",
        "*.local.test",
    ];
    let f = fixture(&rules, &[]);
    for (target, word) in [
        (format!("loop.test:{}", server.port), "private-address"),
        ("meta.test:80".to_owned(), "denied"),
        ("priv.test:80".to_owned(), "private-address"),
        // One bad address among good ones is enough.
        ("mixed.test:80".to_owned(), "private-address"),
    ] {
        for request in [
            format!("GET http://{target}/ HTTP/1.1\r\nHost: x\r\n\r\n"),
            format!("CONNECT {target} HTTP/1.1\r\n\r\n"),
        ] {
            let answer = f.exchange_text(&request);
            assert!(status(&answer).starts_with("HTTP/1.1 403 "), "{answer}");
            assert!(
                answer.contains(&format!("x-ccbox-error: {word}\r\n")),
                "{answer}"
            );
        }
    }
    assert_eq!(server.connections(), 0);
    let said = f
        .violations()
        .join("\n")
        .replace(&server.port.to_string(), "PORT");
    insta::assert_snapshot!(said, @r#"
    loop.test:PORT: resolves to 127.0.0.1, a loopback address | [network] allowed_domains = [{ host = "loop.test:PORT", allow_private = true }]
    loop.test:PORT: resolves to 127.0.0.1, a loopback address | [network] allowed_domains = [{ host = "loop.test:PORT", allow_private = true }]
    meta.test:80: resolves to 169.254.169.254: fixed deny list "169.254.169.254" (metadata) | -
    meta.test:80: resolves to 169.254.169.254: fixed deny list "169.254.169.254" (metadata) | -
    priv.test:80: resolves to 10.77.0.5, a private address | [network] allowed_domains = [{ host = "priv.test", allow_private = true }]
    priv.test:80: resolves to 10.77.0.5, a private address | [network] allowed_domains = [{ host = "priv.test", allow_private = true }]
    mixed.test:80: resolves to 127.0.0.1, a loopback address | [network] allowed_domains = [{ host = "mixed.test", allow_private = true }]
    mixed.test:80: resolves to 127.0.0.1, a loopback address | [network] allowed_domains = [{ host = "mixed.test", allow_private = true }]
    "#);
}

/// NA-9: a literal has to be named as such.
#[test]
fn literal_addresses() {
    let server = Server::echo_heads();
    let port = server.port;
    let f = fixture(&["allowed.test", "*.allowed.test"], &[]);
    for host in [
        "127.0.0.1",
        "[::ffff:127.0.0.1]",
        "[::1]",
        "localhost",
        "0.0.0.0",
        "[::]",
    ] {
        let answer = f.exchange_text(&format!(
            "GET http://{host}:{port}/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n"
        ));
        assert!(
            status(&answer).starts_with("HTTP/1.1 403 "),
            "{host}: {answer}"
        );
    }
    for host in ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0"] {
        let answer = f.exchange_text(&format!(
            "GET http://{host}:{port}/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n"
        ));
        assert!(
            status(&answer).starts_with("HTTP/1.1 400 "),
            "{host}: {answer}"
        );
    }
    assert_eq!(server.connections(), 0);
    assert_eq!(f.asked(), Vec::<String>::new());
    let named = fixture(&[&format!("127.0.0.1:{port}")], &[]);
    let answer = named.exchange_text(&format!(
        "GET http://[::ffff:7f00:1]:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n"
    ));
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(
        answer.contains(&format!("Host: 127.0.0.1:{port}")),
        "{answer}"
    );
}

/// NA-5, and what hyper lets through: user information, ports, forms that are no proxy requests.
#[test]
fn malformed_targets_are_a_400() {
    let f = fixture(&["*", "private allowed.test"], &[]);
    for request in [
        &b"CONNECT denied.test\0.allowed.test:443 HTTP/1.1"[..],
        b"CONNECT denied.test%00.allowed.test:443 HTTP/1.1",
        b"CONNECT denied.test .allowed.test:443 HTTP/1.1",
        b"CONNECT denied.test\t.allowed.test:443 HTTP/1.1",
        b"CONNECT allowed.test HTTP/1.1",
        b"CONNECT allowed.test: HTTP/1.1",
        b"CONNECT allowed.test:0 HTTP/1.1",
        b"CONNECT allowed.test:0443 HTTP/1.1",
        b"CONNECT allowed.test:65536 HTTP/1.1",
        b"CONNECT allowed.test:443:80 HTTP/1.1",
        b"CONNECT allowed.test:443/ HTTP/1.1",
        b"CONNECT http://allowed.test:443 HTTP/1.1",
        b"CONNECT user@allowed.test:443 HTTP/1.1",
        b"CONNECT ::1:443 HTTP/1.1",
        b"CONNECT [::1:443 HTTP/1.1",
        b"CONNECT [fe80::1%25lo]:443 HTTP/1.1",
        b"CONNECT  HTTP/1.1",
        b"CONNECT * HTTP/1.1",
        b"CONNECT a..b:443 HTTP/1.1",
        b"CONNECT allowed.test:443 HTTP/1.1\r\nContent-Length: 5",
        b"CONNECT allowed.test:443 HTTP/1.1\r\nTransfer-Encoding: chunked",
        b"GET http://user:SECRET@allowed.test/ HTTP/1.1",
        b"GET http://allowed.test@evil.test/ HTTP/1.1",
        b"GET http://allowed.test:0/ HTTP/1.1",
        b"GET http://allowed%2etest/ HTTP/1.1",
        b"GET http:///x HTTP/1.1",
        b"GET https://allowed.test/ HTTP/1.1",
        b"GET ftp://allowed.test/ HTTP/1.1",
        b"GET /x HTTP/1.1",
        b"OPTIONS * HTTP/1.1",
        b"GET allowed.test HTTP/1.1",
        b"GET",
        b"GET http://allowed.test/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2",
        b"GET http://allowed.test/ HTTP/1.1\r\nContent-Length: +0",
        b"GET http://allowed.test/ HTTP/1.1\r\nTransfer-Encoding: xchunked",
        b"GET http://allowed.test/ HTTP/1.1\r\nX : y",
        b"GET http://allowed.test/ HTTP/1.1\r\nX: y\0z",
    ] {
        let bytes = [request, b"\r\n\r\n"].concat();
        let answer = String::from_utf8(f.exchange(&bytes)).unwrap();
        let shown = String::from_utf8_lossy(request).into_owned();
        assert!(
            status(&answer).starts_with("HTTP/1.1 400 "),
            "{shown:?}: {answer}"
        );
        assert!(!answer.contains("SECRET"), "{answer}");
    }
    let long = format!(
        "CONNECT {}.allowed.test:443 HTTP/1.1\r\n\r\n",
        "a".repeat(300)
    );
    assert!(f.exchange_text(&long).starts_with("HTTP/1.1 400 "));
    assert_eq!(f.asked(), Vec::<String>::new());
    assert_eq!(f.violations(), Vec::<String>::new());
}

/// NP-7: a host that is down is no violation, and looks different.
#[test]
fn unreachable_is_not_refused() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let f = fixture(&["private allowed.test", "nosuch.test", "empty.test"], &[]);
    let answer = f.exchange_text(&format!(
        "GET http://allowed.test:{closed}/ HTTP/1.1\r\nHost: x\r\n\r\n"
    ));
    insta::assert_snapshot!(answer.replace("\r\n", "\n").replace(&closed.to_string(), "PORT"), @r#"
    HTTP/1.1 502 Bad Gateway
    content-type: text/plain; charset=utf-8
    x-ccbox-error: unreachable
    connection: close
    content-length: 64

    ccbox: cannot connect to allowed.test:PORT: connection refused
    "#);
    let answer = f.exchange_text("CONNECT nosuch.test:443 HTTP/1.1\r\n\r\n");
    insta::assert_snapshot!(answer.replace("\r\n", "\n"), @r#"
    HTTP/1.1 502 Bad Gateway
    content-type: text/plain; charset=utf-8
    x-ccbox-error: unresolved
    connection: close
    content-length: 50

    ccbox: cannot resolve nosuch.test: name not known
    "#);
    let answer = f.exchange_text("CONNECT empty.test:443 HTTP/1.1\r\n\r\n");
    assert!(
        answer.contains("ccbox: cannot resolve empty.test: it has no address"),
        "{answer}"
    );
    assert_eq!(f.violations(), Vec::<String>::new());
}

/// The proxy does not talk to itself, even where a rule names its port.
#[test]
fn no_loops() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let f = fixture_of(&network(&[&format!("localhost:{port}")], &[]), |c| {
        c.listeners.push(listener);
    });
    let answer = f.exchange_text(&format!("CONNECT localhost:{port} HTTP/1.1\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert!(answer.contains("is this proxy itself"), "{answer}");
}

/// Bytes behind a refused CONNECT are tunnel bytes, not a request.
#[test]
fn nothing_is_read_after_a_refused_connect() {
    let server = Server::echo_heads();
    let f = fixture(&["private allowed.test"], &[]);
    let answer = f.exchange_text(&format!(
        "CONNECT denied.test:443 HTTP/1.1\r\n\r\nGET http://allowed.test:{}/ HTTP/1.1\r\nHost: x\r\n\r\n",
        server.port
    ));
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    assert_eq!(server.connections(), 0);
}

/// A client that sends all of its body before it looks for the answer still gets it.
#[test]
fn a_refused_upload_sees_the_answer() {
    let f = fixture(&["priv.test", "nosuch.test"], &[]);
    // Refused by name, by address, and not to be had.
    for (host, status) in [
        ("denied.test", 403),
        ("priv.test", 403),
        ("nosuch.test", 502),
    ] {
        let head = format!("POST http://{host}/ HTTP/1.1\r\nHost: x\r\n");
        let mut request = format!("{head}Content-Length: 4000000\r\n\r\n").into_bytes();
        request.resize(request.len() + 4_000_000, b'x');
        let answer = String::from_utf8(f.exchange(&request)).unwrap();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        // One that asks first is not asked for it.
        let answer = f.exchange_text(&format!(
            "{head}Expect: 100-continue\r\nContent-Length: 9\r\n\r\n"
        ));
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
    }
}

/// CR-4, where the namespace is not the boundary.
#[test]
fn the_token_dance() {
    let server = Server::echo_heads();
    let policy = network(&["private allowed.test"], &[]);
    let f = fixture_of(&policy, |c| c.token = Some("s3cret".to_owned()));
    let mut s = f.dial();
    let request = format!(
        "GET http://allowed.test:{}/ HTTP/1.1\r\nHost: x\r\n",
        server.port
    );
    s.write_all(format!("{request}\r\n").as_bytes()).unwrap();
    let first = head(&mut s);
    assert!(first.starts_with("HTTP/1.1 407 "), "{first}");
    assert!(
        first.contains("proxy-authenticate: Basic realm=\"ccbox\"\r\n"),
        "{first}"
    );
    let mut body = vec![
        0;
        first
            .split("content-length: ")
            .nth(1)
            .unwrap()
            .split("\r\n")
            .next()
            .unwrap()
            .parse()
            .unwrap()
    ];
    s.read_exact(&mut body).unwrap();
    // The same connection goes on.
    s.write_all(format!("{request}Proxy-Authorization: Basic Y2Nib3g6czNjcmV0\r\n\r\n").as_bytes())
        .unwrap();
    assert!(head(&mut s).starts_with("HTTP/1.1 200 OK"));
    let echoed = head(&mut s);
    assert!(!echoed.contains("Y2Nib3g6czNjcmV0"), "{echoed}");
    for credentials in ["", "Proxy-Authorization: Basic Y2Nib3g6d3Jvbmc=\r\n"] {
        let answer = f.exchange_text(&format!(
            "CONNECT denied.test:443 HTTP/1.1\r\n{credentials}\r\n"
        ));
        assert!(answer.starts_with("HTTP/1.1 407 "), "{answer}");
    }
    assert_eq!(f.violations(), Vec::<String>::new());
}

/// R44 has nothing to say about a run without a namespace of its own: such a policy has no proxies.
#[test]
fn an_open_policy_is_not_served() {
    let mut policy = network(&[], &[]);
    policy.mode = NetworkMode::Open;
    let config = ProxyConfig {
        identify: None,
        admit: None,
        access: None,
        egress: EgressPolicy::new(&policy),
        upstream: Chain::default(),
        user_ports: vec![],
        listeners: vec![],
        forwards: vec![],
        catch: None,
        token: None,
        hint_file: None,
    };
    let error = ProxySet::start(config, Arc::new(Recorder::default())).unwrap_err();
    assert_eq!(error.to_string(), "an open network has no proxies");
}
