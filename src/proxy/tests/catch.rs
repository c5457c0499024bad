//! Connections without a proxy. In these tests the range is one of loopback addresses, which need no route, and listeners stand on
//! the addresses of the first two names, beside the server on 127.0.0.1.

use std::net::{Ipv6Addr, UdpSocket};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use super::super::catch::Book;
use super::super::client_hello::tests::hello;
use super::super::dns::tests::query;
use super::super::vet::ALERT;
use super::*;

const FIRST: Ipv4Addr = Ipv4Addr::new(127, 77, 0, 0);
const FIRST_V6: Ipv6Addr = Ipv6Addr::new(0xfd63, 0, 0, 0, 0, 0, 0, 0);
const ONE: Ipv4Addr = Ipv4Addr::new(127, 77, 0, 1);
const TWO: Ipv4Addr = Ipv4Addr::new(127, 77, 0, 2);

struct Caught {
    fixture: Fixture,
    udp: SocketAddr,
    tcp: SocketAddr,
}

fn caught(allowed: &[&str], denied: &[&str], port: u16) -> Caught {
    let stand = [ONE, TWO].map(|ip| TcpListener::bind((ip, port)).unwrap());
    caught_with(allowed, denied, stand.into(), 0, &[])
}

fn caught_with(
    allowed: &[&str],
    denied: &[&str],
    listeners: Vec<TcpListener>,
    spare: usize,
    by_address: &[u16],
) -> Caught {
    let (stream, flags) = (
        SockType::Stream,
        SockFlag::from_bits_retain(crate::sys::libc::SOCK_CLOEXEC),
    );
    let spare = (0..spare).map(|_| socket(AddressFamily::Inet6, stream, flags, None).unwrap());
    let dns = UdpSocket::bind("127.0.0.1:0").unwrap();
    let dns_tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let (udp, tcp) = (dns.local_addr().unwrap(), dns_tcp.local_addr().unwrap());
    let fixture = fixture_of(&network(allowed, denied), |config| {
        config.catch = Some(Catch {
            dns,
            dns_tcp,
            listeners,
            spare: spare.collect(),
            by_address: by_address.to_vec(),
            book: Book::default(),
            first: FIRST,
            first_v6: Some(FIRST_V6),
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
    let six = Ipv6Addr::from_bits(FIRST_V6.to_bits() | u128::from(ONE.to_bits()));
    assert!(c.ask("allowed.test", 28).ends_with(&six.octets()));
    assert_eq!(gist(&c.ask("allowed.test", 65)), (0, 0));
    assert_eq!(gist(&c.ask("5.0.18.198.in-addr.arpa", 12)), (3, 0));
    assert_eq!(c.fixture.violations(), Vec::<String>::new());
    assert_eq!(gist(&c.ask("denied.test", 1)), (3, 0));
    // As programs ask: for both families. It is one refusal.
    assert_eq!(gist(&c.ask("denied.test", 28)), (3, 0));
    assert_eq!(gist(&c.ask_tcp("bad.wild.test", 1)), (3, 0));
    let said = c.fixture.violations();
    let line = "denied.test: not on the allow list | [network] allowed_domains = [\"denied.test\"]";
    assert!(said[0].starts_with(line), "{said:?}");
    assert!(said[1].starts_with("bad.wild.test: "), "{said:?}");
    assert_eq!(said.len(), 2, "{said:?}");
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

/// A port that the command may bind itself is caught where a name's address is given out, and nowhere else.
#[test]
fn a_high_port_is_caught_by_address() {
    let server = Server::banner();
    let port = server.port;
    let rules = [
        format!("private allowed.test:{port}"),
        format!("private *.wild.test:{port}"),
    ];
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let c = caught_with(&rules, &[], Vec::new(), 2, &[port]);
    assert!(
        TcpStream::connect((ONE, port)).is_err(),
        "before it is asked for"
    );
    for _ in 0..2 {
        assert!(c.ask("allowed.test", 1).ends_with(&ONE.octets()));
    }
    let mut s = dial((ONE, port).into());
    assert_eq!(read_until(&mut s, b"\n"), "BANNER\n");
    assert!(
        TcpListener::bind((TWO, port)).is_ok(),
        "free for the command"
    );
    assert!(c.ask("a.wild.test", 1).ends_with(&TWO.octets()));
    assert!(TcpListener::bind((TWO, port)).is_err());
    assert!(c.fixture.warnings().is_empty());
    // No socket is left.
    let three = Ipv4Addr::new(127, 77, 0, 3);
    assert!(c.ask("b.wild.test", 1).ends_with(&three.octets()));
    assert!(TcpStream::connect((three, port)).is_err());
    let said = c.fixture.warnings();
    assert!(
        said[0].starts_with(&format!(
            "connections without a proxy to b.wild.test:{port} are not caught: too many"
        )),
        "{said:?}"
    );
}

/// Who is there first keeps the port, and is told why nothing is caught.
#[test]
fn a_port_of_the_commands_own_stays_its_own() {
    let server = Server::banner();
    let port = server.port;
    let rule = format!("private allowed.test:{port}");
    let c = caught_with(&[&rule], &[], Vec::new(), 1, &[port]);
    let own = TcpListener::bind((ONE, port)).unwrap();
    assert!(c.ask("allowed.test", 1).ends_with(&ONE.octets()));
    let said = c.fixture.warnings();
    assert!(
        said[0].contains("the command itself listens at that port"),
        "{said:?}"
    );
    drop(own);
    assert!(c.ask("allowed.test", 1).ends_with(&ONE.octets()));
    let mut s = dial((ONE, port).into());
    assert_eq!(read_until(&mut s, b"\n"), "BANNER\n");
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

/// A TLS client on a caught connection says the same name, and no other, allowed or not.
#[test]
fn the_tls_name_is_checked() {
    let server = Server::start(|mut s, _| {
        let data = read_to_end(&mut s);
        let _ = s.write_all(checksum(&data).as_bytes());
    });
    let rules = ["private allowed.test", "private other.test"];
    let c = caught(&rules, &[], server.port);
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
    assert_eq!(say(&hello(Some("other.test"))), ALERT);
    assert_eq!(say(&hello(None)), ALERT);
    assert_eq!(c.fixture.violations().len(), 3);
}
