//! Which process of the run holds a connection to one of its proxies: for the violation line, so asked only on a refusal.
//!
//! Read from procfs: the connection's inode from the socket table of the run's network namespace (proc(5), `/proc/pid/net/tcp`), then
//! the descriptor that refers to it among the processes of the run. A process may be gone or lie about its name; the line then
//! says less, never something else.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::proxy::{Identify, Process};

/// Descriptors looked at per question; a run that holds more has made itself anonymous.
const DESCRIPTORS: usize = 20_000;
/// Processes whose table is read: the first few of a run stand on both sides of the namespace's border.
const TABLES: usize = 8;
/// ESTABLISHED and the states of a half-closed connection (include/net/tcp_states.h).
const OPEN_STATES: [&str; 4] = ["01", "04", "05", "08"];

/// The processes below one process of the host's process namespace.
#[derive(Debug)]
pub(super) struct Peers {
    /// What ccbox started.
    top: i32,
}

impl Peers {
    pub(super) fn below(top: i32) -> Self {
        Self { top }
    }

    /// The inode of the socket, from the table of whichever of the processes is in the run's network namespace: all but those
    /// between ccbox and the engine where the engine makes the namespace.
    fn inode(processes: &[i32], find: impl Fn(&str, &str) -> Option<String>) -> Option<String> {
        // A socket of IPv6 that speaks IPv4 is in the table of IPv6.
        let tables = ["", "6"];
        processes.iter().take(TABLES).find_map(|pid| {
            tables.iter().find_map(|six| {
                let of = format!("/proc/{pid}/net/");
                find(&of, six)
            })
        })
    }

    fn holder(processes: Vec<i32>, inode: &str) -> Option<Process> {
        let wanted = PathBuf::from(format!("socket:[{inode}]"));
        let mut left = DESCRIPTORS;
        // A shell may hold what it gave its child: the youngest holder is the one that uses it.
        for pid in processes.into_iter().rev() {
            let Ok(fds) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
                continue;
            };
            for fd in fds.flatten() {
                left = left.checked_sub(1)?;
                if std::fs::read_link(fd.path()).is_ok_and(|l| l == wanted) {
                    let name = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
                    return Some(Process {
                        pid,
                        name: String::from_utf8_lossy(name.trim_ascii_end()).into_owned(),
                    });
                }
            }
        }
        None
    }
}

/// `top` and everything below, the youngest last.
pub(super) fn below(top: i32) -> Vec<i32> {
    let mut found = vec![top];
    let mut at = 0;
    while let Some(&pid) = found.get(at) {
        at += 1;
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
            continue;
        };
        for task in tasks.flatten() {
            let children = std::fs::read_to_string(task.path().join("children"));
            found.extend(
                children
                    .iter()
                    .flat_map(|c| c.split_whitespace())
                    .filter_map(|c| c.parse::<i32>().ok()),
            );
        }
    }
    found
}

impl Identify for Peers {
    fn process(&self, peer: SocketAddr) -> Option<Process> {
        let processes = below(self.top);
        let inode = Self::inode(&processes, |of, six| {
            let text = std::fs::read_to_string(format!("{of}tcp{six}")).ok()?;
            inode_of(&text, peer).or_else(|| inode_of(&text, mapped(peer)?))
        })?;
        Self::holder(processes, &inode)
    }

    fn asker(&self, peer: SocketAddr) -> Option<Process> {
        let processes = below(self.top);
        let inode = Self::inode(&processes, |of, six| {
            let text = std::fs::read_to_string(format!("{of}udp{six}")).ok()?;
            inode_of_port(&text, peer.port())
        })?;
        Self::holder(processes, &inode)
    }
}

/// An end of an IPv4 connection as a socket of IPv6 has it.
fn mapped(peer: SocketAddr) -> Option<SocketAddr> {
    match peer {
        SocketAddr::V4(v4) => Some(SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())),
        SocketAddr::V6(_) => None,
    }
}

/// The inode of the socket for datagrams that is bound to a port; connected or not, to an address or to all.
fn inode_of_port(table: &str, port: u16) -> Option<String> {
    let wanted = format!("{port:04X}");
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_whitespace();
        let mine = words.nth(1)?;
        let is = mine
            .rsplit_once(':')
            .is_some_and(|(_, port)| port == wanted);
        is.then(|| words.nth(7).map(str::to_owned)).flatten()
    })
}

/// The inode of the open socket whose local end is `peer`, from a table as the kernel prints it.
fn inode_of(table: &str, peer: SocketAddr) -> Option<String> {
    let local = hex(peer);
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_whitespace();
        let (mine, state) = (words.nth(1)?, words.nth(1)?);
        let open = mine == local && OPEN_STATES.contains(&state);
        open.then(|| words.nth(5).map(str::to_owned)).flatten()
    })
}

/// `0100007F:0C38`: each 32-bit word of the address in this machine's byte order, the port as a number.
fn hex(end: SocketAddr) -> String {
    use std::fmt::Write as _;
    let bytes = match end {
        SocketAddr::V4(a) => a.ip().octets().to_vec(),
        SocketAddr::V6(a) => a.ip().octets().to_vec(),
    };
    let mut text = String::new();
    for word in bytes.chunks_exact(4) {
        if let [a, b, c, d] = *word {
            // Writing to a string cannot fail.
            let _ = write!(text, "{:08X}", u32::from_ne_bytes([a, b, c, d]));
        }
    }
    let _ = write!(text, ":{:04X}", end.port());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn both_families_as_the_kernel_prints_them() {
        let end = |s: &str| hex(s.parse().unwrap());
        if cfg!(target_endian = "little") {
            assert_eq!(end("127.0.0.1:3128"), "0100007F:0C38");
            assert_eq!(end("[::1]:80"), "00000000000000000000000001000000:0050");
        }
    }

    #[test]
    fn a_connection_of_this_process_is_its_own() {
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(at).unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let me = i32::try_from(std::process::id()).unwrap();
            let found = Peers::below(me)
                .process(client.local_addr().unwrap())
                .unwrap();
            assert_eq!(found.pid, me);
            let comm = std::fs::read_to_string("/proc/self/comm").unwrap();
            assert_eq!(found.name, comm.trim_end());
            drop(client);
            let udp = std::net::UdpSocket::bind(at).unwrap();
            let asked = Peers::below(me).asker(udp.local_addr().unwrap());
            assert_eq!(asked.map(|p| p.pid), Some(me));
            let gone = SocketAddr::from(([127, 0, 0, 1], 1));
            assert_eq!(Peers::below(me).asker(gone), None);
            assert_eq!(Peers::below(me).process(gone), None);
        }
    }
}
