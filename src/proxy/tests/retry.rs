//! A server that asks a TLS client to try again, and a client that says another name then.

use super::super::client_hello::tests::hello;
use super::super::vet::ALERT;
use super::*;

/// A HelloRetryRequest, and a ServerHello of another kind.
fn server_hello(retry: bool) -> Vec<u8> {
    let random: Vec<u8> = if retry {
        "cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c"
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    } else {
        vec![7; 32]
    };
    let body = [&[3, 3][..], &random, &[0, 0x13, 1, 0, 0, 0]].concat();
    let message = [&[2, 0, 0, u8::try_from(body.len()).unwrap()][..], &body].concat();
    [
        &[22, 3, 3, 0, u8::try_from(message.len()).unwrap()][..],
        &message,
    ]
    .concat()
}

/// Answers the first hello with `answer`, reads to the end, and keeps all that came.
fn server(answer: Vec<u8>) -> (Server, Arc<Mutex<Vec<u8>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&seen);
    let length = hello(Some("allowed.test")).len();
    let server = Server::start(move |mut s, _| {
        let mut first = vec![0; length];
        if s.read_exact(&mut first).is_err() {
            return;
        }
        let _ = s.write_all(&answer);
        let rest = read_to_end(&mut s);
        *keep.lock().unwrap() = [first, rest].concat();
        let _ = s.write_all(b"END");
    });
    (server, seen)
}

fn tunnel(f: &Fixture, server: &Server) -> TcpStream {
    let mut s = f.dial();
    write!(s, "CONNECT allowed.test:{} HTTP/1.1\r\n\r\n", server.port).unwrap();
    head(&mut s);
    s
}

#[test]
fn the_second_hello_is_read_as_well() {
    let own = hello(Some("allowed.test"));
    let other = hello(Some("api.allowed.test"));
    let change = [20, 3, 3, 0, 1, 1];
    let data = [&[23, 3, 3, 0, 4][..], b"data"].concat();
    let cut = [&[22, 3, 3, 0, 1][..], &other[5..6], &[22, 3, 3, 0, 200]].concat();
    for (second, passes) in [
        (vec![own.clone()], true),
        (vec![change.to_vec(), own.clone(), data.clone()], true),
        (vec![data.clone(), change.to_vec(), own.clone()], true),
        (vec![vec![21, 3, 3, 0, 2, 2, 40]], true),
        (vec![other.clone()], false),
        (vec![change.to_vec(), other.clone()], false),
        (
            vec![data.clone(), data.clone(), change.to_vec(), other.clone()],
            false,
        ),
        (vec![cut], false),
        (vec![hello(None)], false),
        (vec![vec![24, 3, 3, 0, 1, 0], other.clone()], false),
    ] {
        let second = second.concat();
        // With the first, before the server has asked; after it; and byte by byte.
        for way in 0..3 {
            let (server, seen) = server(server_hello(true));
            let f = fixture(&["private allowed.test", "private api.allowed.test"], &[]);
            let mut s = tunnel(&f, &server);
            if way == 0 {
                s.write_all(&[&own[..], &second].concat()).unwrap();
            } else {
                s.write_all(&own).unwrap();
                let mut asked = vec![0; server_hello(true).len()];
                s.read_exact(&mut asked).unwrap();
                assert_eq!(asked, server_hello(true));
                let step = if way == 1 { second.len() } else { 1 };
                for piece in second.chunks(step) {
                    let _ = s.write_all(piece);
                }
            }
            let _ = s.shutdown(Shutdown::Write);
            let got = read_to_end(&mut s);
            if passes {
                assert!(got.ends_with(b"END"), "{way} {second:?}: {got:?}");
                assert_eq!(*seen.lock().unwrap(), [&own[..], &second].concat());
                assert_eq!(f.violations(), Vec::<String>::new());
            } else {
                assert!(got.ends_with(&ALERT), "{way} {second:?}: {got:?}");
                assert!(!seen.lock().unwrap().windows(3).any(|w| w == b"api"));
                assert_eq!(f.violations().len(), 1, "{way} {second:?}");
            }
        }
    }
}

/// A server that takes the first hello has the rest as it comes, whatever it looks like, and a slow one is waited for.
#[test]
fn what_follows_a_taken_hello_is_not_read() {
    let own = hello(Some("allowed.test"));
    let other = hello(Some("api.allowed.test"));
    for answer in [server_hello(false), vec![21, 3, 3, 0, 2, 1, 0]] {
        let (server, seen) = server(answer.clone());
        let f = fixture(&["private allowed.test"], &[]);
        let mut s = tunnel(&f, &server);
        s.write_all(&[&own[..], &other].concat()).unwrap();
        let mut got = vec![0; answer.len()];
        s.read_exact(&mut got).unwrap();
        assert_eq!(got, answer);
        s.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_to_end(&mut s), b"END");
        assert_eq!(*seen.lock().unwrap(), [&own[..], &other].concat());
        assert_eq!(f.violations(), Vec::<String>::new());
    }
}
