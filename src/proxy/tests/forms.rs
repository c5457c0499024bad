//! Absolute-form requests: what reaches the server, what comes back, and over which connection.

use std::fmt::Write as _;
use std::sync::mpsc;

use super::*;

fn allowed() -> Fixture {
    fixture(
        &[
            "private allowed.test",
            "private api.allowed.test",
            "private xn--bcher-kva.test",
        ],
        &[],
    )
}

#[test]
fn the_server_sees_its_own_host_and_no_hop_by_hop_field() {
    let server = Server::echo_heads();
    let f = allowed();
    let port = server.port;
    let answer = f.exchange_text(&format!(
        "GET http://ALLOWED.Test.:{port}/a?b=c HTTP/1.1\r\nHost: evil.test\r\nX-Case: 1\r\nProxy-Connection: keep-alive\r\n\
         Proxy-Authorization: Basic eHg=\r\nConnection: X-Mine, close\r\nX-Mine: 1\r\nAuthorization: Bearer t\r\n\r\n"
    ));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    insta::assert_snapshot!(body.replace(&port.to_string(), "PORT").replace("\r\n", "\n"), @r#"
    GET /a?b=c HTTP/1.1
    Host: allowed.test:PORT
    X-Case: 1
    Authorization: Bearer t
    "#);
    insta::assert_snapshot!(head.replace("\r\n", "\n").replace(&(body.len()).to_string(), "LEN"), @r#"
    HTTP/1.1 200 OK
    Content-Length: LEN
    X-Kept: 1
    Connection: close
    "#);
    assert_eq!(f.violations(), Vec::<String>::new());
}

#[test]
fn one_kept_connection_per_client_and_authority() {
    let server = Server::echo_heads();
    let f = allowed();
    let request = |host: &str| {
        format!(
            "GET http://{host}:{}/ HTTP/1.1\r\nHost: x\r\n\r\n",
            server.port
        )
    };
    let mut one = f.dial();
    let ask = |s: &mut TcpStream, host: &str| {
        s.write_all(request(host).as_bytes()).unwrap();
        let head = head(s);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        read_until(s, b"\r\n\r\n")
    };
    for _ in 0..5 {
        ask(&mut one, "allowed.test");
    }
    assert_eq!(server.connections(), 1);
    // The same authority in another spelling is the same connection.
    ask(&mut one, "ALLOWED.test.");
    assert_eq!(server.connections(), 1);
    // Another name is another connection even where the address is the same.
    assert!(ask(&mut one, "api.allowed.test").contains("Host: api.allowed.test"));
    assert_eq!(server.connections(), 2);
    // Never shared between clients.
    let mut two = f.dial();
    ask(&mut two, "api.allowed.test");
    assert_eq!(server.connections(), 3);
}

/// Twenty in a row, as a package manager does; pipelined too.
#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Server::echo_heads();
    let f = allowed();
    let mut requests = String::new();
    for i in 0..20 {
        let port = server.port;
        let _ = write!(
            requests,
            "GET http://allowed.test:{port}/{i} HTTP/1.1\r\nHost: x\r\n\r\n"
        );
    }
    let answers = f.exchange_text(&requests);
    let order: Vec<usize> = answers
        .lines()
        .filter_map(|l| l.strip_prefix("GET /")?.split(' ').next()?.parse().ok())
        .collect();
    assert_eq!(order, (0..20).collect::<Vec<_>>());
    assert_eq!(server.connections(), 1);
}

/// The server closes the kept connection between two requests without saying so.
#[test]
fn a_kept_connection_that_the_server_closed_is_replaced() {
    let (closed, wait_closed) = mpsc::channel();
    let closed = Mutex::new(closed);
    let server = Server::start(move |mut s, n| {
        if try_head(&mut s).is_some() {
            let _ = s
                .write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{n}\n").as_bytes());
        }
        drop(s);
        closed.lock().unwrap().send(()).unwrap();
    });
    let f = allowed();
    let mut s = f.dial();
    for n in 0..5 {
        s.write_all(
            format!(
                "GET http://allowed.test:{}/ HTTP/1.1\r\nHost: x\r\n\r\n",
                server.port
            )
            .as_bytes(),
        )
        .unwrap();
        head(&mut s);
        assert_eq!(read_until(&mut s, b"\n"), format!("{n}\n"));
        wait_closed.recv_timeout(PATIENCE).unwrap();
    }
}

#[test]
fn chunked_both_ways_with_trailers() {
    let (seen, body) = mpsc::channel();
    let seen = Mutex::new(seen);
    let server = Server::start(move |mut s, _| {
        let head = try_head(&mut s).unwrap();
        let body = read_until(&mut s, b"\r\n\r\n");
        seen.lock().unwrap().send((head, body)).unwrap();
        s.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n6\r\nhello \r\n5\r\nworld\r\n0\r\nX-End: yes\r\n\r\n")
            .unwrap();
    });
    let f = allowed();
    let answer = f.exchange_text(&format!(
        "POST http://allowed.test:{}/up HTTP/1.1\r\nHost: x\r\nTE: trailers\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n",
        server.port
    ));
    let (head, body) = body.recv_timeout(PATIENCE).unwrap();
    let head = head.to_ascii_lowercase();
    assert!(head.contains("transfer-encoding: chunked\r\n"), "{head}");
    assert!(head.contains("te: trailers\r\n"), "{head}");
    assert_eq!(body, "3\r\nabc\r\n0\r\nx-sum: 7\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let head = head.to_ascii_lowercase();
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    assert_eq!(body, "6\r\nhello \r\n5\r\nworld\r\n0\r\nx-end: yes\r\n\r\n");
}

#[test]
fn expect_100_continue() {
    let server = Server::start(|mut s, _| {
        let head = try_head(&mut s).unwrap();
        assert!(!head.to_ascii_lowercase().contains("expect"), "{head}");
        let mut body = [0; 5];
        s.read_exact(&mut body).unwrap();
        let answer = [
            &b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\n"[..],
            &body,
        ]
        .concat();
        s.write_all(&answer).unwrap();
    });
    let f = allowed();
    let mut s = f.dial();
    s.write_all(
        format!(
            "PUT http://allowed.test:{}/f HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
            server.port
        )
        .as_bytes(),
    )
    .unwrap();
    assert_eq!(head(&mut s), "HTTP/1.1 100 Continue\r\n\r\n");
    s.write_all(b"12345").unwrap();
    assert!(head(&mut s).starts_with("HTTP/1.1 201 Created\r\n"));
    assert_eq!(read_until(&mut s, b"5"), "12345");
}

/// Server-sent events: each event arrives before the server sends the next.
#[test]
fn answers_stream() {
    let (go, next) = mpsc::channel::<()>();
    let next = Mutex::new(next);
    let server = Server::start(move |mut s, _| {
        try_head(&mut s).unwrap();
        s.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            .unwrap();
        let next = next.lock().unwrap();
        for i in 0..3 {
            s.write_all(format!("data: {i}\n\n").as_bytes()).unwrap();
            next.recv_timeout(PATIENCE).unwrap();
        }
    });
    let f = allowed();
    let mut s = f.dial();
    s.write_all(
        format!(
            "GET http://allowed.test:{}/ HTTP/1.1\r\nHost: x\r\n\r\n",
            server.port
        )
        .as_bytes(),
    )
    .unwrap();
    head(&mut s);
    for i in 0..3 {
        assert!(read_until(&mut s, b"\n\n").ends_with(&format!("data: {i}\n\n")));
        go.send(()).unwrap();
    }
    read_until(&mut s, b"\r\n0\r\n\r\n");
}

#[test]
fn http_1_0_gets_an_answer_that_ends_with_the_connection() {
    let server = Server::start(|mut s, _| {
        let head = try_head(&mut s).unwrap();
        assert!(head.starts_with("GET / HTTP/1.1\r\n"), "{head}");
        s.write_all(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        )
        .unwrap();
    });
    let f = allowed();
    let mut s = f.dial();
    // Bare line feeds, as old clients send them.
    s.write_all(format!("GET http://allowed.test:{}/ HTTP/1.0\n\n", server.port).as_bytes())
        .unwrap();
    let answer = String::from_utf8(read_to_end(&mut s)).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.0 200 OK") || head.starts_with("HTTP/1.1 200 OK"),
        "{head}"
    );
    assert!(!head.contains("chunked"), "{head}");
    assert_eq!(body, "hello");
}

#[test]
fn upgrades_go_both_ways() {
    let server = Server::start(|mut s, _| {
        let head = try_head(&mut s).unwrap().to_ascii_lowercase();
        assert!(
            head.contains("upgrade: websocket") && head.contains("connection: upgrade"),
            "{head}"
        );
        assert!(head.contains("sec-websocket-key: k"), "{head}");
        s.write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: a\r\n\r\nfirst").unwrap();
        let data = read_to_end(&mut s);
        s.write_all(checksum(&data).as_bytes()).unwrap();
    });
    let f = allowed();
    let mut s = f.dial();
    s.write_all(
        format!(
            "GET http://allowed.test:{}/ws HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n",
            server.port
        )
        .as_bytes(),
    )
    .unwrap();
    let head = head(&mut s).to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    assert!(
        head.contains("upgrade: websocket") && head.contains("connection: upgrade"),
        "{head}"
    );
    assert!(head.contains("sec-websocket-accept: a"), "{head}");
    assert_eq!(read_until(&mut s, b"first"), "first");
    s.write_all(b"frame").unwrap();
    s.shutdown(Shutdown::Write).unwrap();
    assert_eq!(
        String::from_utf8(read_to_end(&mut s)).unwrap(),
        checksum(b"frame")
    );
}

/// Inside HTTP/2 requests for other hosts would pass unseen.
#[test]
fn h2c_is_not_offered_to_the_server() {
    let server = Server::echo_heads();
    let f = allowed();
    let answer = f.exchange_text(&format!(
        "GET http://allowed.test:{}/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
        server.port
    ));
    let lower = answer.to_ascii_lowercase();
    assert!(lower.starts_with("http/1.1 200 ok"), "{answer}");
    assert!(
        !lower.contains("h2c") && !lower.contains("http2-settings"),
        "{answer}"
    );
}

#[test]
fn internationalised_names_travel_in_ascii() {
    let server = Server::echo_heads();
    let f = allowed();
    let answer = f.exchange_text(&format!(
        "GET http://XN--bcher-KVA.test:{}/ HTTP/1.1\r\nHost: x\r\n\r\n",
        server.port
    ));
    assert!(answer.contains("Host: xn--bcher-kva.test:"), "{answer}");
}

/// Two different lengths would let two readers see two different answers.
#[test]
fn a_broken_answer_is_a_502() {
    for broken in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        b"",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    ] {
        let server = Server::start(move |mut s, _| {
            try_head(&mut s);
            let _ = s.write_all(broken);
        });
        let f = allowed();
        let answer = f.exchange_text(&format!(
            "GET http://allowed.test:{}/ HTTP/1.1\r\nHost: x\r\n\r\n",
            server.port
        ));
        assert!(answer.starts_with("HTTP/1.1 502 "), "{broken:?}: {answer}");
        assert!(answer.contains("x-ccbox-error: upstream"), "{answer}");
        assert_eq!(f.violations(), Vec::<String>::new());
    }
}

/// Answers whose length is said but not sent, and requests with and without bodies: the kept connection stays in step.
#[test]
fn answers_without_bodies_keep_the_connection_in_step() {
    let server = Server::start(|mut s, _| {
        while let Some(head) = try_head(&mut s) {
            let line = head.lines().next().unwrap();
            let answer = match line.split(' ').next().unwrap() {
                "HEAD" => "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".to_owned(),
                "DELETE" => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
                "OPTIONS" => "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n".to_owned(),
                _ => {
                    let length = head
                        .to_ascii_lowercase()
                        .lines()
                        .find_map(|l| l.strip_prefix("content-length: ")?.parse().ok())
                        .unwrap_or(0);
                    let mut body = vec![0; length];
                    s.read_exact(&mut body).unwrap();
                    format!(
                        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{line}",
                        line.len()
                    )
                }
            };
            s.write_all(answer.as_bytes()).unwrap();
        }
    });
    let f = allowed();
    let mut s = f.dial();
    let mut ask = |method: &str, body: &str| {
        s.write_all(
            format!(
                "{method} http://allowed.test:{}/{method} HTTP/1.1\r\nHost: x\r\n{body}",
                server.port
            )
            .as_bytes(),
        )
        .unwrap();
        head(&mut s)
    };
    for _ in 0..3 {
        assert!(ask("HEAD", "\r\n").contains("1000"));
        assert!(ask("DELETE", "\r\n").starts_with("HTTP/1.1 204 "));
        assert!(ask("OPTIONS", "\r\n").starts_with("HTTP/1.1 304 "));
    }
    for body in [
        "Content-Length: 0\r\n\r\n",
        "Content-Length: 4\r\n\r\nbody",
        "\r\n",
    ] {
        s.write_all(
            format!(
                "POST http://allowed.test:{}/ HTTP/1.1\r\nHost: x\r\n{body}",
                server.port
            )
            .as_bytes(),
        )
        .unwrap();
        head(&mut s);
        assert_eq!(read_until(&mut s, b"HTTP/1.1"), "POST / HTTP/1.1");
    }
    assert_eq!(server.connections(), 1);
}
