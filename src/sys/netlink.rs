//! rtnetlink(7): the loopback interface of a fresh network namespace, and addresses that lead to it.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType};

/// `lo` is interface 1 of every network namespace (LOOPBACK_IFINDEX, net/core/net_namespace).
const LOOPBACK_INDEX: i32 = 1;
/// Length of `struct nlmsghdr` plus `struct ifinfomsg`.
const LINK_MESSAGE: usize = 32;

/// Brings `lo` up; the kernel then gives it 127.0.0.1/8 and ::1.
pub fn loopback_up() -> io::Result<()> {
    ask(&link_up_message())
}

/// Makes every address of an IPv4 range local: a socket bound to no address in particular gets what is sent to any of them
/// (`ip route add local RANGE dev lo`).
pub fn local_range(first: Ipv4Addr, prefix: u8) -> io::Result<()> {
    ask(&local_range_message(first, prefix))
}

/// Sends one request and hears whether it was done.
fn ask(message: &[u8]) -> io::Result<()> {
    let socket = nix::sys::socket::socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )?;
    nix::sys::socket::send(socket.as_raw_fd(), message, MsgFlags::empty())?;
    let mut answer = [0u8; 256];
    let length = nix::sys::socket::recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    match acknowledged(answer.get(..length).unwrap_or_default()) {
        Some(0) => Ok(()),
        Some(errno) => Err(io::Error::from_raw_os_error(errno)),
        None => Err(Errno::EPROTO.into()),
    }
}

/// RTM_NEWLINK that sets IFF_UP on `lo` and asks for an acknowledgement.
fn link_up_message() -> [u8; LINK_MESSAGE] {
    let up = u32::try_from(libc::IFF_UP).unwrap_or(1).to_ne_bytes();
    let flags = u16::try_from(libc::NLM_F_REQUEST | libc::NLM_F_ACK)
        .unwrap_or(5)
        .to_ne_bytes();
    let mut message = Vec::with_capacity(LINK_MESSAGE);
    // nlmsghdr: length, type, flags, sequence, port
    message.extend(32u32.to_ne_bytes());
    message.extend(libc::RTM_NEWLINK.to_ne_bytes());
    message.extend(flags);
    message.extend([0; 8]);
    // ifinfomsg: family and padding, type, index, flags, change mask
    message.extend([0; 4]);
    message.extend(LOOPBACK_INDEX.to_ne_bytes());
    message.extend(up);
    message.extend(up);
    let mut fixed = [0; LINK_MESSAGE];
    for (to, from) in fixed.iter_mut().zip(message) {
        *to = from;
    }
    fixed
}

/// RTM_NEWROUTE of type RTN_LOCAL in the table `local`, through `lo`.
fn local_range_message(first: Ipv4Addr, prefix: u8) -> Vec<u8> {
    /// `struct nlmsghdr`, `struct rtmsg`, and two attributes of four bytes each.
    const LENGTH: u32 = 16 + 12 + 8 + 8;
    /// NLM_F_REQUEST, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL (netlink(7)).
    const FLAGS: u16 = 0x1 | 0x4 | 0x400 | 0x200;
    const ATTRIBUTE: u16 = 8;
    let mut message = Vec::new();
    message.extend(LENGTH.to_ne_bytes());
    message.extend(libc::RTM_NEWROUTE.to_ne_bytes());
    message.extend(FLAGS.to_ne_bytes());
    message.extend([0; 8]);
    // rtmsg: family, lengths of destination and source, type of service; table, protocol, scope, type; flags.
    message.extend([2, prefix, 0, 0]);
    message.extend([
        libc::RT_TABLE_LOCAL,
        libc::RTPROT_BOOT,
        libc::RT_SCOPE_HOST,
        libc::RTN_LOCAL,
    ]);
    message.extend([0; 4]);
    message.extend(ATTRIBUTE.to_ne_bytes());
    message.extend(libc::RTA_DST.to_ne_bytes());
    message.extend(first.octets());
    message.extend(ATTRIBUTE.to_ne_bytes());
    message.extend(libc::RTA_OIF.to_ne_bytes());
    message.extend(LOOPBACK_INDEX.to_ne_bytes());
    message
}

/// errno of an NLMSG_ERROR answer (0 is the acknowledgement).
fn acknowledged(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let error = i32::from_ne_bytes(answer.get(16..20)?.try_into().ok()?);
    (i32::from(kind) == libc::NLMSG_ERROR).then(|| error.saturating_neg())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_as_long_as_it_says() {
        let message = link_up_message();
        assert_eq!(message[0..4], 32u32.to_ne_bytes());
        assert_eq!(message[4..6], 16u16.to_ne_bytes());
        assert_eq!(message[6..8], 5u16.to_ne_bytes());
        assert_eq!(message[20..24], 1i32.to_ne_bytes());
        assert_eq!(message[24..28], 1u32.to_ne_bytes());
        assert_eq!(message[28..32], 1u32.to_ne_bytes());
    }

    #[test]
    fn a_route_is_as_long_as_it_says() {
        let message = local_range_message(Ipv4Addr::new(198, 18, 0, 0), 15);
        assert_eq!(message.len(), 44);
        assert_eq!(message[0..4], 44u32.to_ne_bytes());
        assert_eq!(message[16..24], [2, 15, 0, 0, 255, 3, 254, 2]);
        assert_eq!(message[32..36], [198, 18, 0, 0]);
    }

    #[test]
    fn answers_are_decoded() {
        let mut answer = vec![0u8; 36];
        answer[4..6].copy_from_slice(&2u16.to_ne_bytes());
        assert_eq!(acknowledged(&answer), Some(0));
        answer[16..20].copy_from_slice(&(-1i32).to_ne_bytes());
        assert_eq!(acknowledged(&answer), Some(1));
        answer[4..6].copy_from_slice(&3u16.to_ne_bytes());
        assert_eq!(acknowledged(&answer), None);
        assert_eq!(acknowledged(&answer[..10]), None);
    }
}
