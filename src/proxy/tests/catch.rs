//! Connections without a proxy. In these tests the range is one of loopback addresses, which need no route, and listeners stand on
//! the addresses of the first two names, beside the server on 127.0.0.1.

use std::net::UdpSocket;

use super::super::client_hello::tests::hello;
use super::super::dns::tests::query;
use super::super::vet::ALERT;
use super::*;

const FIRST: Ipv4Addr = Ipv4Addr::new(127, 77, 0, 0);
const ONE: Ipv4Addr = Ipv4Addr::new(127, 77, 0, 1);
const TWO: Ipv4Addr = Ipv4Addr::new(127, 77, 0, 2);

struct Caught {
    fixture: Fixture,
    udp: SocketAddr,
    tcp: SocketAddr,
}

fn caught(allowed: &[&str], denied: &[&str], port: u16) -> Caught {
    let dns = UdpSocket::bind("127.0.0.1:0").unwrap();
    let dns_tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let (udp, tcp) = (dns.local_addr().unwrap(), dns_tcp.local_addr().unwrap());
    let ports = [ONE, TWO]
        .map(|ip| TcpListener::bind((ip, port)).unwrap())
        .into();
    let fixture = fixture_of(&network(allowed, denied), |config| {
        config.catch = Some(Catch {
            dns,
            dns_tcp,
            ports,
            first: FIRST,
        });
    });
    Caught { fixture, udp, tcp }
}

impl Caught {
    fn ask(&self, name: &str, kind: u16) -> Vec<u8> {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send_to(&query(name, kind), self.udp).unwrap();
        let mut answer = vec![0; 1024];
        let n = socket.recv(&mut answer).unwrap();
        answer.truncate(n);
        answer
    }

    fn ask_tcp(&self, name: &str, kind: u16) -> Vec<u8> {
        let mut s = dial(self.tcp);
        let question = query(name, kind);
        let length = u16::try_from(question.len()).unwrap().to_be_bytes();
        let mut answer = Vec::new();
        // Twice over one connection.
        for _ in 0..2 {
            s.write_all(&length).unwrap();
            s.write_all(&question).unwrap();
            let mut length = [0; 2];
            s.read_exact(&mut length).unwrap();
            answer = vec![0; usize::from(u16::from_be_bytes(length))];
            s.read_exact(&mut answer).unwrap();
        }
        answer
    }
}

/// Response code and number of answers.
fn gist(answer: &[u8]) -> (u8, u8) {
    (answer[3] & 0x0f, answer[7])
}

#[test]
fn names_are_answered_without_asking_anybody() {
    let server = Server::banner();
    let c = caught(
        &["allowed.test", "*.wild.test"],
        &["bad.wild.test"],
        server.port,
    );
    let answer = c.ask("allowed.test", 1);
    assert_eq!(gist(&answer), (0, 1));
    assert!(answer.ends_with(&ONE.octets()));
    assert!(c.ask_tcp("ALLOWED.test", 1).ends_with(&ONE.octets()));
    assert!(c.ask("a.wild.test", 1).ends_with(&TWO.octets()));
    assert!(c.ask("localhost", 1).ends_with(&[127, 0, 0, 1]));
    assert_eq!(gist(&c.ask("allowed.test", 28)), (0, 0));
    assert_eq!(gist(&c.ask("5.0.18.198.in-addr.arpa", 12)), (3, 0));
    assert_eq!(c.fixture.violations(), Vec::<String>::new());
    assert_eq!(gist(&c.ask("denied.test", 1)), (3, 0));
    assert_eq!(gist(&c.ask_tcp("bad.wild.test", 1)), (3, 0));
    let said = c.fixture.violations();
    assert!(
        said[0].starts_with(&format!(
            "denied.test:{}: not on the allow list | [network] allowed_domains",
            server.port
        )),
        "{said:?}"
    );
    assert!(said[1].starts_with("bad.wild.test:"), "{said:?}");
    assert_eq!(c.fixture.asked(), Vec::<String>::new());
}

#[test]
fn a_connection_is_its_names() {
    let server = Server::banner();
    let c = caught(&["private allowed.test"], &[], server.port);
    assert!(c.ask("allowed.test", 1).ends_with(&ONE.octets()));
    let mut s = dial((ONE, server.port).into());
    assert_eq!(read_until(&mut s, b"\n"), "BANNER\n");
    s.write_all(b"hello").unwrap();
    s.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut s), checksum(b"hello").as_bytes());
    assert_eq!(c.fixture.asked(), ["allowed.test"]);
}

/// The policy is asked again when a connection comes; an address that no name has leads nowhere.
#[test]
fn what_is_not_allowed_is_reset() {
    let server = Server::banner();
    let c = caught(&["allowed.test"], &[], server.port);
    // Allowed by name, but it leads to 127.0.0.1.
    assert!(c.ask("allowed.test", 1).ends_with(&ONE.octets()));
    for ip in [ONE, TWO] {
        let mut s = dial((ip, server.port).into());
        assert_eq!(read_to_end(&mut s), b"");
    }
    let said = c.fixture.violations();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with(&format!(
        "allowed.test:{}: resolves to 127.0.0.1",
        server.port
    )));
    assert_eq!(server.connections(), 0);
}

/// A TLS client on a caught connection says the same name, or another that is allowed.
#[test]
fn the_tls_name_is_checked() {
    let server = Server::start(|mut s, _| {
        let data = read_to_end(&mut s);
        let _ = s.write_all(checksum(&data).as_bytes());
    });
    let c = caught(&["private allowed.test"], &[], server.port);
    assert!(c.ask("allowed.test", 1).ends_with(&ONE.octets()));
    let say = |bytes: &[u8]| {
        let mut s = dial((ONE, server.port).into());
        // In two segments.
        let (first, second) = bytes.split_at(40);
        s.write_all(first).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        s.write_all(second).unwrap();
        s.shutdown(Shutdown::Write).unwrap();
        read_to_end(&mut s)
    };
    let good = hello(Some("allowed.test"));
    assert_eq!(say(&good), checksum(&good).as_bytes());
    assert_eq!(say(&hello(Some("denied.test"))), ALERT);
    assert_eq!(say(&hello(None)), ALERT);
    assert_eq!(c.fixture.violations().len(), 2);
}
