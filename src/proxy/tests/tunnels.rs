//! CONNECT tunnels, forwarded ports, and the end of a run.

use super::*;

fn connect(f: &Fixture, target: &str, early: &[u8]) -> TcpStream {
    let mut s = f.dial();
    let mut request = format!(
        "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nProxy-Connection: Keep-Alive\r\n\r\n"
    )
    .into_bytes();
    request.extend(early);
    s.write_all(&request).unwrap();
    s
}

/// NP-1: the server speaks first, the client's bytes arrive together with the head.
#[test]
fn early_data_and_a_server_that_speaks_first() {
    let server = Server::banner();
    let f = fixture(&["private allowed.test"], &[]);
    let mut s = connect(&f, &format!("allowed.test:{}", server.port), b"EARLY");
    s.shutdown(Shutdown::Write).unwrap();
    let answer = String::from_utf8(read_to_end(&mut s)).unwrap();
    assert_eq!(
        answer,
        format!("HTTP/1.1 200 OK\r\n\r\nBANNER\n{}", checksum(b"EARLY"))
    );
}

/// NP-2: what one side still has to say arrives after the other has finished.
#[test]
fn half_close_of_three_megabytes() {
    let server = Server::banner();
    let f = fixture(&["private allowed.test"], &[]);
    let mut s = connect(&f, &format!("allowed.test:{}", server.port), b"");
    assert_eq!(head(&mut s), "HTTP/1.1 200 OK\r\n\r\n");
    let data = pattern(3_000_000);
    s.write_all(&data).unwrap();
    s.shutdown(Shutdown::Write).unwrap();
    let answer = String::from_utf8(read_to_end(&mut s)).unwrap();
    assert_eq!(answer, format!("BANNER\n{}", checksum(&data)));
}

#[test]
fn half_close_by_the_server() {
    let data = pattern(3_000_000);
    let sent = data.clone();
    let server = Server::start(move |mut s, _| {
        s.write_all(&sent).unwrap();
        s.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_to_end(&mut s), b"thanks");
    });
    let f = fixture(&["private allowed.test"], &[]);
    let mut s = connect(&f, &format!("allowed.test:{}", server.port), b"");
    head(&mut s);
    assert!(read_to_end(&mut s) == data);
    s.write_all(b"thanks").unwrap();
}

/// Both directions at once, past the point where copying turns into splicing, in pieces of every size.
#[test]
fn both_directions_at_once() {
    let server = Server::start(|mut s, _| {
        let mut buffer = [0; 10_000];
        while let Ok(n @ 1..) = s.read(&mut buffer) {
            s.write_all(&buffer[..n]).unwrap();
        }
    });
    let f = fixture(&["private allowed.test"], &[]);
    let mut s = connect(&f, &format!("allowed.test:{}", server.port), b"");
    head(&mut s);
    let data = pattern(5_000_000);
    let mut writer = s.try_clone().unwrap();
    let sent = data.clone();
    let sending = std::thread::spawn(move || {
        let mut rest = &sent[..];
        let mut size = 1;
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(size.min(rest.len()));
            writer.write_all(piece).unwrap();
            rest = later;
            size = size * 3 % 100_003 + 1;
        }
        writer.shutdown(Shutdown::Write).unwrap();
    });
    assert!(read_to_end(&mut s) == data);
    sending.join().unwrap();
}

/// A cut transfer must not look like a complete one.
#[test]
fn a_reset_is_passed_on_as_a_reset() {
    let server = Server::start(|mut s, _| {
        s.write_all(b"partial").unwrap();
        let mut byte = [0];
        s.read_exact(&mut byte).unwrap();
        // Unread bytes at close make the kernel send a reset.
    });
    let f = fixture(&["private allowed.test"], &[]);
    let mut s = connect(&f, &format!("allowed.test:{}", server.port), b"");
    head(&mut s);
    assert_eq!(read_until(&mut s, b"partial"), "partial");
    s.write_all(b"xyz").unwrap();
    let error = s.read(&mut [0; 9]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

/// Semantics 42.
/// The same behind so much that the pipe is wide and is filled several times before it is emptied: a cut transfer never looks whole.
#[test]
fn a_reset_behind_megabytes_is_never_an_end() {
    const MUCH: usize = 6 << 20;
    let server = Server::start(|mut s, _| {
        // All of it is on its way before the byte that nobody reads makes closing a reset.
        s.write_all(&vec![b'x'; MUCH]).unwrap();
        s.peek(&mut [0]).unwrap();
    });
    let f = fixture(&["private allowed.test"], &[]);
    for turn in 0..20 {
        let mut s = connect(&f, &format!("allowed.test:{}", server.port), b"");
        head(&mut s);
        s.write_all(b"y").unwrap();
        let (mut total, mut block) = (0, vec![0; 1 << (10 + turn % 10)]);
        let error = loop {
            match s.read(&mut block) {
                Ok(0) => panic!("turn {turn}: an end after {total} of {MUCH} bytes"),
                Ok(n) => total += n,
                Err(e) => break e,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert!(total <= MUCH);
    }
}

#[test]
fn forwarded_ports_lead_to_the_host() {
    let server = Server::banner();
    let inside = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = inside.local_addr().unwrap();
    let rule = format!("localhost:{}", server.port);
    let policy = network(&[&rule], &[]);
    assert_eq!(EgressPolicy::new(&policy).forwarded_ports(), [server.port]);
    let f = fixture_of(&policy, |c| c.forwards.push((inside, server.port)));
    let mut s = dial(addr);
    s.write_all(b"query").unwrap();
    s.shutdown(Shutdown::Write).unwrap();
    let answer = String::from_utf8(read_to_end(&mut s)).unwrap();
    assert_eq!(answer, format!("BANNER\n{}", checksum(b"query")));
    assert_eq!(f.violations(), Vec::<String>::new());
}

#[test]
fn a_forwarded_port_nobody_listens_on_looks_closed() {
    let unused = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let inside = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = inside.local_addr().unwrap();
    let rule = format!("127.0.0.1:{unused}");
    let _f = fixture_of(&network(&[&rule], &[]), |c| {
        c.forwards.push((inside, unused));
    });
    let mut s = dial(addr);
    assert_eq!(
        s.read(&mut [0; 9]).unwrap_err().kind(),
        io::ErrorKind::ConnectionReset
    );
}

/// A forward is only as open as the rules: a socket handed in for a port that no rule names leads nowhere.
#[test]
fn a_forward_without_a_rule_leads_nowhere() {
    let server = Server::banner();
    let inside = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = inside.local_addr().unwrap();
    let _f = fixture_of(&network(&["*"], &[]), |c| {
        c.forwards.push((inside, server.port));
    });
    assert!(dial(addr).read(&mut [0; 9]).is_err());
    assert_eq!(server.connections(), 0);
}

/// What the child had sent when it ended still arrives.
#[test]
fn dropping_the_set_sends_on_what_was_sent() {
    let (done, got) = std::sync::mpsc::channel();
    let done = Mutex::new(done);
    let server = Server::start(move |mut s, _| {
        let n = read_to_end(&mut s).len();
        done.lock().unwrap().send(n).unwrap();
    });
    let mut f = fixture(&["private allowed.test"], &[]);
    let mut s = connect(&f, &format!("allowed.test:{}", server.port), b"");
    head(&mut s);
    s.write_all(&pattern(100_000)).unwrap();
    drop(s);
    drop(f.set.take());
    assert_eq!(got.recv_timeout(PATIENCE).unwrap(), 100_000);
    assert!(TcpStream::connect(f.addr).is_err());
}

/// Idle clients and open downloads do not delay the end.
#[test]
fn dropping_the_set_does_not_wait_for_answers() {
    let server = Server::start(|mut s, _| {
        read_to_end(&mut s);
        std::thread::sleep(PATIENCE);
    });
    let mut f = fixture(&["private allowed.test"], &[]);
    let mut s = connect(&f, &format!("allowed.test:{}", server.port), b"");
    head(&mut s);
    s.shutdown(Shutdown::Write).unwrap();
    let _idle = f.dial();
    let start = std::time::Instant::now();
    drop(f.set.take());
    assert!(start.elapsed() < PATIENCE / 2);
}

/// A server that answers before it has read everything, and closes, is still heard.
#[test]
fn an_early_answer_to_an_unfinished_upload() {
    let server = Server::start(|mut s, _| {
        let mut first = [0; 1000];
        s.read_exact(&mut first).unwrap();
        s.write_all(b"413 too large\n").unwrap();
        s.shutdown(Shutdown::Write).unwrap();
        // Unread bytes make this close a reset.
        std::thread::sleep(Duration::from_millis(100));
    });
    let f = fixture(&["private allowed.test"], &[]);
    let mut s = connect(&f, &format!("allowed.test:{}", server.port), b"");
    head(&mut s);
    s.set_write_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let data = pattern(1 << 20);
    while s.write(&data).is_ok() {}
    assert_eq!(read_until(&mut s, b"\n"), "413 too large\n");
}

/// A tunnel for one name must not ask the TLS server for another.
#[test]
fn tls_names_in_tunnels() {
    use crate::proxy::client_hello::tests::hello;

    let server = Server::start(|mut s, _| {
        let mut buffer = [0; 600];
        let n = s.read(&mut buffer).unwrap_or(0);
        let _ = s.write_all(format!("GOT {n}\n").as_bytes());
    });
    let port = server.port;
    let f = fixture(
        &[
            "private allowed.test",
            "private api.allowed.test",
            &format!("localhost:{port}"),
            &format!("127.0.0.1:{port}"),
        ],
        &["bad.test"],
    );
    for (target, name, passes) in [
        ("allowed.test", Some("allowed.test"), true),
        ("allowed.test", Some("ALLOWED.Test"), true),
        // Allowed as well, but in a tunnel of its own.
        ("allowed.test", Some("api.allowed.test"), false),
        ("allowed.test", Some("evil.test"), false),
        ("allowed.test", Some("bad.test"), false),
        ("allowed.test", Some("allowed.test\0.evil.test"), false),
        ("allowed.test", Some("127.0.0.1"), false),
        ("allowed.test", Some("10.0.0.1"), false),
        ("allowed.test", None, false),
        ("localhost", None, true),
        ("localhost", Some("evil.test"), false),
        ("127.0.0.1", Some("evil.test"), true),
        ("127.0.0.1", Some("bad.test"), false),
        ("127.0.0.1", None, true),
    ] {
        let hello = hello(name);
        for early in [true, false] {
            let target = format!("{target}:{port}");
            let mut s = connect(&f, &target, if early { &hello } else { b"" });
            assert_eq!(head(&mut s), "HTTP/1.1 200 OK\r\n\r\n");
            if !early {
                // In pieces, so that the verdict has to wait.
                let (one, two) = hello.split_at(hello.len() / 2);
                s.write_all(one).unwrap();
                std::thread::sleep(Duration::from_millis(10));
                let _ = s.write_all(two);
            }
            let answer = read_to_end(&mut s);
            if passes {
                assert!(answer.starts_with(b"GOT "), "{target} {name:?}: {answer:?}");
            } else {
                assert_eq!(answer, crate::proxy::vet::ALERT, "{target} {name:?}");
            }
        }
    }
    let mut said = f.violations();
    said.dedup();
    insta::assert_snapshot!(said.join("\n").replace(&port.to_string(), "PORT"), @r#"
    api.allowed.test:PORT: TLS name in a tunnel to allowed.test:PORT, not its own | -
    evil.test:PORT: TLS name in a tunnel to allowed.test:PORT, not its own | -
    bad.test:PORT: TLS name in a tunnel to allowed.test:PORT, not its own | -
    allowed.test:PORT: TLS client hello with a malformed server name | -
    127.0.0.1:PORT: TLS name in a tunnel to allowed.test:PORT, not its own | -
    10.0.0.1:PORT: TLS name in a tunnel to allowed.test:PORT, not its own | -
    allowed.test:PORT: TLS client hello without a server name | -
    evil.test:PORT: TLS name in a tunnel to localhost:PORT, not its own | -
    bad.test:PORT: denied_domains "bad.test" (/w/spec.toml:5) (TLS name in a tunnel to 127.0.0.1:PORT) | remove /w/spec.toml:5
    "#);
}

#[test]
fn a_broken_hello_does_not_pass() {
    let server = Server::banner();
    let f = fixture(&["private allowed.test"], &[]);
    let target = format!("allowed.test:{}", server.port);
    let mut s = connect(&f, &target, b"\x16\x03\x01\x00\x05\x02\x00\x00\x00\x00");
    head(&mut s);
    let answer = read_to_end(&mut s);
    assert!(answer.ends_with(&crate::proxy::vet::ALERT), "{answer:?}");
    assert_eq!(
        f.violations(),
        [format!("{target}: malformed TLS client hello | -")]
    );
}

/// The form of SSL 2 has no name, and a record in front hides none.
#[test]
fn no_other_hello_passes() {
    use crate::proxy::client_hello::tests::hello;

    let server = Server::banner();
    let f = fixture(&["private allowed.test"], &[]);
    let target = format!("allowed.test:{}", server.port);
    let old = b"\x80\x1c\x01\x03\x03\0\x03\0\0\0\x10\0\0\x2f0123456789abcdef";
    let warned = [
        b"\x15\x03\x01\0\x02\x01\x64".to_vec(),
        hello(Some("evil.test")),
    ]
    .concat();
    for said in [old.to_vec(), warned] {
        let mut s = connect(&f, &target, &said);
        head(&mut s);
        let answer = read_to_end(&mut s);
        assert!(answer.ends_with(&crate::proxy::vet::ALERT), "{answer:?}");
    }
    assert_eq!(
        f.violations(),
        [
            format!("{target}: TLS client hello without a server name | -"),
            format!("{target}: malformed TLS client hello | -"),
        ]
    );
}

/// Go's servers skip warning alerts before the ClientHello, so a name behind one would be another's.
#[test]
fn records_before_the_hello_do_not_hide_it() {
    use crate::proxy::client_hello::tests::hello;

    let server = Server::start(|mut s, _| {
        let n = s.read(&mut [0; 600]).unwrap_or(0);
        let _ = s.write_all(format!("GOT {n}\n").as_bytes());
    });
    let f = fixture(&["private allowed.test"], &[]);
    for before in [
        &[21, 3, 1, 0, 2, 1, 90][..],
        &[21, 3, 3, 0, 4, 1, 90, 1, 112],
        &[21, 1, 0, 0, 2, 1, 90],
        &[20, 3, 3, 0, 1, 1],
        &[23, 3, 3, 0, 0],
        &[22, 3, 1, 0, 0],
    ] {
        for name in ["evil.test", "allowed.test"] {
            let sent = [before, &hello(Some(name))].concat();
            for cut in [sent.len(), 1, 3] {
                let (one, two) = sent.split_at(cut);
                let mut s = connect(&f, &format!("allowed.test:{}", server.port), one);
                assert_eq!(head(&mut s), "HTTP/1.1 200 OK\r\n\r\n");
                let _ = s.write_all(two);
                assert_eq!(read_to_end(&mut s), crate::proxy::vet::ALERT, "{before:?}");
            }
        }
    }
}

/// A hello is put together from as many records and segments as it comes in, up to 16 KiB of them.
#[test]
fn a_hello_in_many_pieces() {
    use crate::proxy::client_hello::tests::hello;

    let server = Server::start(|mut s, _| {
        let data = read_to_end(&mut s);
        let _ = s.write_all(checksum(&data).as_bytes());
    });
    let f = fixture(&["private allowed.test"], &[]);
    let records = |message: &[u8]| -> Vec<u8> {
        let record = |byte: &u8| [22, 3, 1, 0, 1, *byte];
        message.iter().flat_map(record).collect()
    };
    // One record, whose header is not the message's.
    let message = |name: &str| hello(Some(name))[5..].to_vec();
    let endless = [&[1, 0, 0x0f, 0xff][..], &[0; 2800]].concat();
    for (bytes, passes) in [
        (records(&message("allowed.test")), true),
        (records(&message("denied.test")), false),
        (records(&endless), false),
    ] {
        let target = format!("allowed.test:{}", server.port);
        let mut s = connect(&f, &target, b"");
        head(&mut s);
        for segment in bytes.chunks(997) {
            // Whoever is refused may have been told already.
            let _ = s.write_all(segment);
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = s.shutdown(Shutdown::Write);
        let answer = read_to_end(&mut s);
        if passes {
            assert_eq!(answer, checksum(&bytes).as_bytes());
        } else {
            assert_eq!(answer, crate::proxy::vet::ALERT);
        }
    }
    let port = server.port;
    assert_eq!(
        f.violations(),
        [
            format!(
                "denied.test:{port}: TLS name in a tunnel to allowed.test:{port}, not its own | -"
            ),
            format!("allowed.test:{port}: malformed TLS client hello | -"),
        ]
    );
}
