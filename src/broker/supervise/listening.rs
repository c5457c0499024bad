//! Who listens on a port: for the question whether it is the sandbox that makes a connection fail.
//!
//! Read from procfs, as proc_pid_net(5) has it. The kernel lists listening sockets before all others, so the first line that is none
//! ends the search, however many connections there are.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};

/// TCP_LISTEN of include/net/tcp_states.h; a UDP socket that is not connected is TCP_CLOSE.
const LISTENS: &str = "0A";
const BOUND: &str = "07";

/// Whether a socket in the network namespace of process `of` (`self`, or a number) takes what is sent to `to`.
pub(super) fn at(of: &str, to: SocketAddr, datagrams: bool) -> bool {
    let (table, state) = if datagrams {
        ("udp", BOUND)
    } else {
        ("tcp", LISTENS)
    };
    // A socket of IPv6 that is bound to all addresses takes IPv4, too.
    let tables: &[&str] = if to.is_ipv4() { &["", "6"] } else { &["6"] };
    tables.iter().any(|six| {
        let path = format!("/proc/{of}/net/{table}{six}");
        // A kernel without IPv6 has no such table.
        File::open(path).is_ok_and(|file| search(BufReader::new(file), to, state))
    })
}

fn search(table: impl BufRead, to: SocketAddr, state: &str) -> bool {
    for line in table.lines().skip(1).map_while(Result::ok) {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (Some(local), Some(is)) = (words.next(), words.nth(1)) else {
            return false;
        };
        if is == state {
            if takes(local, to) {
                return true;
            }
        } else if state == LISTENS {
            return false;
        }
    }
    false
}

/// `0100007F:0C38`: each 32-bit word of the address in this machine's byte order, and the port.
fn takes(local: &str, to: SocketAddr) -> bool {
    let Some((address, port)) = local.split_once(':') else {
        return false;
    };
    if u16::from_str_radix(port, 16) != Ok(to.port()) {
        return false;
    }
    address.bytes().all(|b| b == b'0') || bytes(address).as_deref() == Some(&octets(to.ip()))
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for at in (0..hex.len()).step_by(8) {
        let word = u32::from_str_radix(hex.get(at..at + 8)?, 16).ok()?;
        out.extend(word.to_ne_bytes());
    }
    // An IPv4 address of a socket of IPv6.
    Some(match out.strip_prefix(&MAPPED) {
        Some(v4) => v4.to_vec(),
        None => out,
    })
}

const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn listeners_are_found_and_connections_are_none() {
        let to = |ip: &str, port| SocketAddr::new(ip.parse().unwrap(), port);
        let one = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = one.local_addr().unwrap().port();
        let client = TcpStream::connect(one.local_addr().unwrap()).unwrap();
        assert!(at("self", to("127.0.0.1", port), false));
        assert!(!at("self", to("127.0.0.2", port), false));
        assert!(!at("self", to("127.0.0.1", port), true));
        let ours = client.local_addr().unwrap();
        assert!(!at("self", ours, false), "connected");
        let any = TcpListener::bind("[::]:0").unwrap();
        let port = any.local_addr().unwrap().port();
        for ip in ["127.0.0.1", "127.9.9.9", "::1", "192.0.2.1"] {
            assert!(at("self", to(ip, port), false), "{ip}");
        }
        let udp = UdpSocket::bind("[::1]:0").unwrap();
        let port = udp.local_addr().unwrap().port();
        assert!(at("self", to("::1", port), true));
        assert!(!at("self", to("127.0.0.1", port), true));
        assert!(!at("0", to("127.0.0.1", port), true), "no such process");
    }
}
