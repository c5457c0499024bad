//! Sizes, numbers, and memory: hostile or just large traffic neither blocks others nor grows the process.

use std::sync::mpsc;
use std::time::Instant;

use super::*;
use crate::proxy::limits::SEATS;

fn works(f: &Fixture, server: &Server) {
    let answer = f.exchange_text(&format!(
        "GET http://allowed.test:{}/ HTTP/1.1\r\nHost: x\r\n\r\n",
        server.port
    ));
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
}

/// NP-9. Each is answered or closed well within the time a client that sends half a head would get.
#[test]
fn odd_sizes_and_first_bytes() {
    let server = Server::echo_heads();
    let f = fixture(&["private allowed.test"], &[]);
    let port = server.port;
    let long_value = format!(
        "GET http://allowed.test:{port}/ HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n",
        "a".repeat(65536)
    );
    let long_url = format!(
        "GET http://allowed.test:{port}/{} HTTP/1.1\r\nHost: x\r\n\r\n",
        "b".repeat(100_000)
    );
    let many = format!(
        "GET http://allowed.test:{port}/ HTTP/1.1\r\n{}\r\n",
        "X: 1\r\n".repeat(101)
    );
    let blank_lines = "\r\n".repeat(1000);
    for (sent, want) in [
        (long_value.as_bytes(), &["HTTP/1.1 431 "][..]),
        (long_url.as_bytes(), &["HTTP/1.1 431 ", "HTTP/1.1 414 "]),
        (many.as_bytes(), &["HTTP/1.1 431 "]),
        (b"GET\r\n\r\n", &["HTTP/1.1 400 "]),
        (blank_lines.as_bytes(), &["HTTP/1.1 400 ", ""]),
        (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            &["HTTP/1.1 400 ", "HTTP/1.1 505 ", ""],
        ),
        // TLS, SOCKS4, and the byte alone
        (b"\x16\x03\x01\x00\xa5", &[""]),
        (b"\x16", &[""]),
        (
            b"\x04\x01\x00\x50\x00\x00\x00\x01u\x00denied.test\x00",
            &[""],
        ),
        (b"\x04", &[""]),
        (b"\x00", &[""]),
        (b"\xff\xff", &[""]),
    ] {
        let mut s = f.dial();
        let start = Instant::now();
        // A reset while sending is an answer too.
        let _ = s.write_all(sent);
        let got = String::from_utf8_lossy(&read_to_end(&mut s)).into_owned();
        let shown: String = String::from_utf8_lossy(sent).chars().take(30).collect();
        assert!(
            want.iter().any(|w| if w.is_empty() {
                got.is_empty()
            } else {
                got.starts_with(w)
            }),
            "{shown:?}: {got}"
        );
        assert!(start.elapsed() < Duration::from_secs(5), "{shown:?}");
    }
    assert_eq!(server.connections(), 0);
    // A head just below the limit passes.
    let answer = f.exchange_text(&format!(
        "GET http://allowed.test:{port}/ HTTP/1.1\r\nHost: x\r\nEmpty:\r\nX: {}\r\n\r\n",
        "a".repeat(60_000)
    ));
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    works(&f, &server);
    assert_eq!(f.violations(), Vec::<String>::new());
}

/// NP-6.
#[test]
fn two_hundred_idle_clients_block_nobody() {
    let server = Server::echo_heads();
    let f = fixture(&["private allowed.test"], &[]);
    let _idle: Vec<TcpStream> = (0..200)
        .map(|i| {
            let mut s = f.dial();
            match i % 4 {
                1 => s.write_all(b"GET http://allo").unwrap(),
                2 => s.write_all(b"\x05\x02").unwrap(),
                3 => s
                    .write_all(b"CONNECT allowed.test:1 HTTP/1.1\r\nX:")
                    .unwrap(),
                _ => {}
            }
            s
        })
        .collect();
    let start = Instant::now();
    works(&f, &server);
    assert!(start.elapsed() < Duration::from_secs(5));
}

/// The cap refuses in words, and gives the seats back.
#[test]
fn more_connections_than_seats() {
    let server = Server::echo_heads();
    let f = fixture(&["private allowed.test"], &[]);
    let held: Vec<TcpStream> = (0..SEATS)
        .map(|_| {
            let mut s = f.dial();
            s.write_all(b"GET http://allo").unwrap();
            s
        })
        .collect();
    // The last one is sure to be seated once a later one is turned away.
    let answer = loop {
        let answer = f.exchange_text("GET http://allowed.test/ HTTP/1.1\r\n\r\n");
        if !answer.is_empty() {
            break answer;
        }
    };
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(
        answer.ends_with("ccbox: too many connections at once through the proxy of this sandbox\n"),
        "{answer}"
    );
    assert_eq!(f.exchange(b"\x05\x01\x00"), b"\x05\xff");
    assert_eq!(
        *f.sink.warnings.lock().unwrap(),
        ["more than 512 connections at once through the proxies; further ones are refused"]
    );
    drop(held);
    let start = Instant::now();
    loop {
        let answer = f.exchange_text(&format!(
            "GET http://allowed.test:{}/ HTTP/1.1\r\nHost: x\r\n\r\n",
            server.port
        ));
        if answer.starts_with("HTTP/1.1 200 OK") {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{answer}");
    }
}

const UPLOAD: usize = 200 << 20;
/// What may be under way between a client and a server that does not read: four socket buffers, a pipe, hyper's buffers. Linux
/// lets a socket buffer grow to 6 MiB (tcp_rmem, tcp_wmem).
const IN_FLIGHT: usize = 32 << 20;

/// NP-3: a proxy that buffers would take everything while the server reads nothing.
fn upload_is_not_buffered(head: &str, tail: &[u8]) {
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let tunnel = head.starts_with("CONNECT");
    let server = Server::start(move |mut s, _| {
        wait.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        if !tunnel {
            try_head(&mut s).unwrap();
        }
        let mut buffer = vec![0; 1 << 20];
        let mut total = 0;
        while total < UPLOAD {
            match s.read(&mut buffer) {
                Ok(n @ 1..) => total += n,
                other => panic!("{other:?} after {total}"),
            }
        }
        tell.lock().unwrap().send(total).unwrap();
        let _ = s.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        read_to_end(&mut s);
    });
    let f = fixture(&["private allowed.test"], &[]);
    let mut s = f.dial();
    s.write_all(head.replace("PORT", &server.port.to_string()).as_bytes())
        .unwrap();
    if tunnel {
        super::head(&mut s);
    }
    s.write_all(tail).unwrap();
    // Push until the way is full: nothing moves for half a second.
    s.set_write_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let block = vec![0x5a; 1 << 20];
    let mut sent = 0;
    while sent < UPLOAD {
        match s.write(&block[..block.len().min(UPLOAD - sent)]) {
            Ok(n) => sent += n,
            Err(_) => break,
        }
    }
    assert!(sent < IN_FLIGHT, "{sent} bytes disappeared into the proxy");
    go.send(()).unwrap();
    s.set_write_timeout(Some(PATIENCE)).unwrap();
    while sent < UPLOAD {
        sent += s.write(&block[..block.len().min(UPLOAD - sent)]).unwrap();
    }
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), UPLOAD);
    assert!(super::head(&mut s).starts_with("HTTP/1.1 200 OK"));
}

#[test]
fn a_large_upload_by_request_is_not_buffered() {
    upload_is_not_buffered(
        &format!(
            "PUT http://allowed.test:PORT/f HTTP/1.1\r\nHost: x\r\nContent-Length: {UPLOAD}\r\n\r\n"
        ),
        b"",
    );
}

#[test]
fn a_large_upload_by_tunnel_is_not_buffered() {
    upload_is_not_buffered("CONNECT allowed.test:PORT HTTP/1.1\r\n\r\n", b"");
}

/// The same for a client that does not read a large answer.
#[test]
fn a_large_download_is_not_buffered() {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let server = Server::start(move |mut s, _| {
        try_head(&mut s).unwrap();
        s.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {UPLOAD}\r\n\r\n").as_bytes())
            .unwrap();
        s.set_write_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        let block = vec![0x5a; 1 << 20];
        let mut sent = 0;
        while let Ok(n) = s.write(&block[..block.len().min(UPLOAD - sent)]) {
            sent += n;
            if sent == UPLOAD {
                break;
            }
        }
        tell.lock().unwrap().send(sent).unwrap();
    });
    let f = fixture(&["private allowed.test"], &[]);
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
    let sent = told.recv_timeout(PATIENCE).unwrap();
    assert!(sent < IN_FLIGHT, "{sent} bytes disappeared into the proxy");
}

/// Each kind of silence ends by itself. The limits are shortened, the mechanisms are the product's.
#[test]
fn silence_ends() {
    let server = Server::start(|mut s, _| {
        read_to_end(&mut s);
    });
    let short = Duration::from_millis(200);
    let limits = Limits {
        first_byte: short,
        head: short,
        handshake: short,
        hello: short,
        resolve: short,
        connect: short,
        upstream: short,
        drain: short,
        // Longer than the others, so that it is not what ends them.
        idle: short * 4,
        http: 80,
    };
    let policy = network(&["private allowed.test", "slow.test"], &[]);
    let f = fixture_with(&policy, limits, |_| {});
    let target = format!("allowed.test:{}", server.port);
    let tunnel = format!("CONNECT {target} HTTP/1.1\r\n\r\n");
    let hello = [tunnel.as_bytes(), b"\x16\x03\x01\x02\x00\x01"].concat();
    let upload = b"POST http://denied.test/ HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc";
    for (sent, want) in [
        (&b""[..], &b""[..]),
        (b"GET http://allo", b""),
        (b"\x05", b""),
        (b"\x05\x01\x00\x05\x01", b"\x05\x00"),
        (tunnel.as_bytes(), b"HTTP/1.1 200 OK\r\n\r\n"),
        (&hello, b"HTTP/1.1 200 OK\r\n\r\n\x15\x03\x03"),
        (b"CONNECT slow.test:443 HTTP/1.1\r\n\r\n", b"HTTP/1.1 504 "),
        (
            b"\x05\x01\x00\x05\x01\x00\x03\x09slow.test\x01\xbb",
            b"\x05\x00\x05\x06",
        ),
        // A refused upload that never comes is answered all the same.
        (upload, b"HTTP/1.1 403 "),
    ] {
        let mut s = f.dial();
        s.write_all(sent).unwrap();
        let got = read_to_end(&mut s);
        let shown = String::from_utf8_lossy(sent);
        assert!(
            got.starts_with(want),
            "{shown:?}: {:?}",
            String::from_utf8_lossy(&got)
        );
        assert_eq!(want.is_empty(), got.is_empty(), "{shown:?}");
    }
}
