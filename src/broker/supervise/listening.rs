//! Whether anybody inside takes a connection: for the question whether it is the sandbox that makes it fail.
//!
//! Read from procfs (proc_pid_net(5)), which takes the kernel a millisecond or two, so it is asked last. The routes are asked for once: the
//! command cannot make any, having no capability.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// TCP_LISTEN of include/net/tcp_states.h; a UDP socket that is not connected is TCP_CLOSE.
const LISTENS: &str = "0A";
const BOUND: &str = "07";

/// Where a network namespace leads to beside the loopback. Where connections are caught those are the ranges of names and the addresses
/// that rules name, and no way to anywhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Routes {
    /// First address and length of the prefix.
    v4: Vec<(Ipv4Addr, u32)>,
    v6: Vec<(Ipv6Addr, u32)>,
}

/// Any address.
const ANY: (Ipv4Addr, u32) = (Ipv4Addr::UNSPECIFIED, 0);

impl Routes {
    /// Those of a thread's network namespace. What cannot be read may be there.
    pub(super) fn of(tid: i32) -> Self {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{tid}/net/{name}"));
        Self {
            v4: read("fib_trie").map_or_else(|_| vec![ANY], |text| routes_v4(&text)),
            // Without IPv6 there is no table, and no route.
            v6: read("ipv6_route").map_or_else(|_| Vec::new(), |text| routes_v6(&text)),
        }
    }

    pub(super) fn lead_to(&self, to: SocketAddr) -> bool {
        match to.ip() {
            IpAddr::V4(ip) => self.v4.iter().any(|(first, length)| {
                let prefix =
                    |ip: &Ipv4Addr| ip.to_bits().checked_shr(32u32.saturating_sub(*length));
                prefix(first).unwrap_or(0) == prefix(&ip).unwrap_or(0)
            }),
            IpAddr::V6(ip) => self.v6.iter().any(|(first, length)| {
                let prefix =
                    |ip: &Ipv6Addr| ip.to_bits().checked_shr(128u32.saturating_sub(*length));
                prefix(first).unwrap_or(0) == prefix(&ip).unwrap_or(0)
            }),
        }
    }
}

/// `|-- 198.18.0.0`, a leaf of the tree of routes, and below it a line for each length: `/15 host LOCAL`. What is not understood may lead
/// anywhere.
fn routes_v4(table: &str) -> Vec<(Ipv4Addr, u32)> {
    let mut out = Vec::new();
    let mut leaf = Ipv4Addr::LOCALHOST;
    for line in table.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse().unwrap_or(Ipv4Addr::UNSPECIFIED);
        } else if let Some(rest) = line.strip_prefix('/')
            && !leaf.is_loopback()
        {
            let length = rest.split_ascii_whitespace().next();
            out.push((leaf, length.and_then(|l| l.parse().ok()).unwrap_or(0)));
        }
    }
    out
}

/// Destination and the length of its prefix first, in hexadecimal; flags last but one. RTF_REJECT (linux/route.h) is no route. What is
/// not understood may lead anywhere.
fn routes_v6(table: &str) -> Vec<(Ipv6Addr, u32)> {
    const REJECT: u32 = 0x200;
    let route = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let first = Ipv6Addr::from_bits(u128::from_str_radix(words.first()?, 16).ok()?);
        let length = u32::from_str_radix(words.get(1)?, 16).ok()?;
        let flags = u32::from_str_radix(words.iter().rev().nth(1)?, 16).ok()?;
        Some((first, length, flags))
    };
    table
        .lines()
        .map(|line| route(line).unwrap_or((Ipv6Addr::UNSPECIFIED, 0, 0)))
        .filter(|(first, _, flags)| !first.is_loopback() && flags & REJECT == 0)
        .map(|(first, length, _)| (first, length))
        .collect()
}

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

    /// As a new network namespace of Linux 6.18 has it once `lo` is up.
    const OWN_V6: &str = "00000000000000000000000000000001 80 00000000000000000000000000000000 00 \
        00000000000000000000000000000000 00000000 00000002 00000000 80200001       lo\n\
        00000000000000000000000000000000 00 00000000000000000000000000000000 00 \
        00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n";

    #[test]
    fn a_namespace_of_its_own_has_no_route() {
        // As a new network namespace of Linux 6.18 has them once `lo` is up.
        let v4 = "Main:\n  +-- 0.0.0.0/0 2 0 2\n     +-- 127.0.0.0/8 2 0 2\n        +-- 127.0.0.0/31 1 0 0\n           |-- 127.0.0.0\n\
                  \x20             /8 host LOCAL\n           |-- 127.0.0.1\n              /32 host LOCAL\n        |-- 127.255.255.255\n";
        assert_eq!(routes_v4(v4), []);
        // The way that caught connections take leads to nobody else.
        let leads = |table: &str, to: &str| {
            let routes = Routes {
                v4: routes_v4(&format!("{v4}{table}")),
                v6: routes_v6(OWN_V6),
            };
            routes.lead_to(SocketAddr::new(to.parse().unwrap(), 443))
        };
        let caught = "     |-- 198.18.0.0\n        /15 host LOCAL\n";
        for (table, to, expected) in [
            ("", "198.18.0.1", false),
            (caught, "198.18.0.1", true),
            (caught, "198.19.255.255", true),
            (caught, "198.20.0.0", false),
            (caught, "192.0.2.1", false),
            (caught, "2001:db8::1", false),
            (
                "     |-- 0.0.0.0\n        /0 host LOCAL\n",
                "192.0.2.1",
                true,
            ),
            (
                "     |-- 192.0.2.1\n        /32 link UNICAST\n",
                "192.0.2.1",
                true,
            ),
            (
                "     |-- 192.0.2.1\n        /32 link UNICAST\n",
                "192.0.2.2",
                false,
            ),
            ("     |-- what\n        /x\n", "192.0.2.1", true),
        ] {
            assert_eq!(leads(table, to), expected, "{table} {to}");
        }
        assert_eq!(routes_v6(OWN_V6), []);
        let caught = "fd6363626f7800000000000000000000 40 00000000000000000000000000000000 00 \
                      00000000000000000000000000000000 00000400 00000001 00000000 80200001       lo\n";
        let leads = |table: &str, to: &str| {
            let routes = Routes {
                v4: Vec::new(),
                v6: routes_v6(&format!("{OWN_V6}{table}")),
            };
            routes.lead_to(SocketAddr::new(to.parse().unwrap(), 443))
        };
        let all = caught
            .replace("fd6363626f78", "000000000000")
            .replace(" 40 ", " 00 ");
        for (table, to, expected) in [
            (caught, "fd63:6362:6f78::1", true),
            (caught, "fd63:6362:6f79::1", false),
            (caught, "2001:db8::1", false),
            (all.as_str(), "2001:db8::1", true),
            ("what", "2001:db8::1", true),
        ] {
            assert_eq!(leads(table, to), expected, "{table} {to}");
        }
        // This process is somewhere, and can say so.
        let _ = Routes::of(i32::try_from(std::process::id()).unwrap());
    }

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
