use std::io::IoSliceMut;
use std::os::unix::net::UnixStream;

use nix::sys::socket::{ControlMessageOwned, recv, recvmsg, send, shutdown};

use super::*;
use crate::proxy::tests::{Server, fixture, fixture_of, network};

fn proxy(text: &str) -> Result<Proxy, String> {
    Proxy::parse(OsStr::new(text)).map_err(|e| e.to_string())
}

#[test]
fn the_variable() {
    let plain = |host: &str, port| Proxy {
        address: (host.to_owned(), port),
        login: None,
    };
    assert_eq!(
        proxy("socks5h://127.0.0.1:1080"),
        Ok(plain("127.0.0.1", 1080))
    );
    assert_eq!(proxy("socks5h://[::1]:1080"), Ok(plain("::1", 1080)));
    assert_eq!(
        proxy("socks5h://ccbox:t0k@127.0.0.1:1"),
        Ok(Proxy {
            login: Some(("ccbox".to_owned(), "t0k".to_owned())),
            ..plain("127.0.0.1", 1)
        })
    );
    for bad in [
        "",
        "http://127.0.0.1:1",
        "socks5h://127.0.0.1",
        "socks5h://u@127.0.0.1:1",
        "127.0.0.1:1",
    ] {
        assert_eq!(
            proxy(bad),
            Err("`CCBOX_SOCKS_PROXY` is not an address of a SOCKS proxy".to_owned()),
            "{bad}"
        );
    }
    let error = run("a.test", 22, &[]).unwrap_err();
    assert_eq!(error.to_string(), "`CCBOX_SOCKS_PROXY` is not set");
    assert_eq!(error.exit_code(), 125);
}

fn address(f: &crate::proxy::tests::Fixture, login: Option<(&str, &str)>) -> Proxy {
    Proxy {
        address: ("127.0.0.1".to_owned(), f.addr.port()),
        login: login.map(|(u, p)| (u.to_owned(), p.to_owned())),
    }
}

#[test]
fn connects_and_says_why_not() {
    let server = Server::banner();
    let port = server.port;
    let f = fixture(&["private allowed.test", "nosuch.test"], &[]);
    let mut stream = open(&address(&f, None), "allowed.test", port).unwrap();
    // Not one byte of the server's was taken by the handshake.
    stream.shutdown(Shutdown::Write).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert_eq!(said, "BANNER\nGOT 0 0\n");
    for (host, port, want) in [
        ("evil.test", 22, "the sandbox policy refused evil.test:22"),
        (
            "nosuch.test",
            22,
            "cannot connect to nosuch.test:22: it cannot be resolved",
        ),
        ("", 22, "`` is no host name"),
    ] {
        assert_eq!(
            open(&address(&f, None), host, port)
                .unwrap_err()
                .to_string(),
            want
        );
    }
    let denied = open(&address(&f, None), "evil.test", 22).unwrap_err();
    assert_eq!(
        denied.hint().unwrap(),
        "why, and what would allow it, is in the line of the ccbox that runs this sandbox"
    );
}

#[test]
fn logs_in() {
    let server = Server::banner();
    let policy = network(&["private allowed.test"], &[]);
    let f = fixture_of(&policy, |c| c.token = Some("t0k".to_owned()));
    assert!(
        open(
            &address(&f, Some(("ccbox", "t0k"))),
            "allowed.test",
            server.port
        )
        .is_ok()
    );
    for login in [Some(("ccbox", "wrong")), None] {
        let error = open(&address(&f, login), "allowed.test", server.port).unwrap_err();
        assert!(matches!(error, ConnectError::Login), "{error}");
    }
}

/// As OpenSSH receives it (`mm_receive_fd`): one byte, one descriptor.
#[test]
fn hands_the_connection_over() {
    let server = Server::banner();
    let f = fixture(&["private allowed.test"], &[]);
    let stream = open(&address(&f, None), "allowed.test", server.port).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    assert!(is_unix_socket(ours.as_fd()));
    pass(ours.as_fd(), &stream).unwrap();
    drop((ours, stream));

    let mut byte = [9];
    let mut space = nix::cmsg_space!([std::os::fd::RawFd; 1]);
    let mut iov = [IoSliceMut::new(&mut byte)];
    let message = recvmsg::<()>(
        theirs.as_raw_fd(),
        &mut iov,
        Some(&mut space),
        MsgFlags::empty(),
    )
    .unwrap();
    assert_eq!(message.bytes, 1);
    let fds: Vec<i32> = message
        .cmsgs()
        .unwrap()
        .filter_map(|c| {
            let ControlMessageOwned::ScmRights(fds) = c else {
                return None;
            };
            Some(fds)
        })
        .flatten()
        .collect();
    let [fd] = fds[..] else { panic!("{fds:?}") };
    // The received descriptor is the tunnel, although the sender's copy is closed.
    assert_eq!(send(fd, b"query", MsgFlags::empty()), Ok(5));
    shutdown(fd, nix::sys::socket::Shutdown::Write).unwrap();
    let mut got = Vec::new();
    let mut buffer = [0; 100];
    while let Ok(n @ 1..) = recv(fd, &mut buffer, MsgFlags::empty()) {
        got.extend(&buffer[..n]);
    }
    nix::unistd::close(fd).unwrap();
    assert!(got.starts_with(b"BANNER\nGOT 5 "), "{got:?}");
}

/// Without a socket on standard output: bytes both ways, half-close included.
#[test]
fn relays_between_pipes() {
    let server = Server::banner();
    let f = fixture(&["private allowed.test"], &[]);
    let stream = open(&address(&f, None), "allowed.test", server.port).unwrap();
    let (input, mut typed) = io::pipe().unwrap();
    let (mut shown, output) = io::pipe().unwrap();
    assert!(!is_unix_socket(output.as_fd()));
    let relaying = std::thread::spawn(move || {
        relay(&stream, input.as_fd(), output.as_fd()).unwrap();
    });
    typed.write_all(b"query").unwrap();
    drop(typed);
    let mut said = String::new();
    shown.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("BANNER\nGOT 5 "), "{said}");
    relaying.join().unwrap();
}
