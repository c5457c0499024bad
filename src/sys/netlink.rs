//! rtnetlink(7): the loopback interface of a fresh network namespace, and addresses that lead to it.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType};

/// `lo` is interface 1 of every network namespace (LOOPBACK_IFINDEX, net/core/net_namespace).
const LOOPBACK_INDEX: i32 = 1;
/// Length of `struct nlmsghdr` plus `struct ifinfomsg`.
const LINK_MESSAGE: usize = 32;

/// Brings `lo` up; the kernel then gives it 127.0.0.1/8 and ::1.
pub fn loopback_up() -> io::Result<()> {
    Netlink::open()?.ask(&link_up_message())
}

/// A socket that changes what is local in this process's network namespace.
#[derive(Debug)]
pub struct Netlink(OwnedFd);

impl Netlink {
    /// Opens it.
    pub fn open() -> io::Result<Self> {
        Ok(Self(nix::sys::socket::socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkRoute,
        )?))
    }

    /// Gives `lo` an address; on a loopback interface the kernel makes every address of its network local, as it does with 127.0.0.1/8
    /// (`ip addr add ADDRESS/PREFIX dev lo`).
    pub fn address(&self, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        self.ask(&address_message(address, prefix))
    }

    /// Makes every address of a range local: a socket bound to no address in particular gets what is sent to any of them
    /// (`ip route add local RANGE dev lo`).
    pub fn local(&self, first: IpAddr, prefix: u8) -> io::Result<()> {
        self.ask(&local_message(first, prefix))
    }

    /// Sends one request and hears whether it was done.
    fn ask(&self, message: &[u8]) -> io::Result<()> {
        let socket = self.0.as_raw_fd();
        nix::sys::socket::send(socket, message, MsgFlags::empty())?;
        let mut answer = [0u8; 256];
        let length = nix::sys::socket::recv(socket, &mut answer, MsgFlags::empty())?;
        match acknowledged(answer.get(..length).unwrap_or_default()) {
            Some(0) => Ok(()),
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            None => Err(Errno::EPROTO.into()),
        }
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

/// NLM_F_REQUEST, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL (netlink(7)).
const MAKE: u16 = 0x1 | 0x4 | 0x400 | 0x200;

/// RTM_NEWADDR on `lo`.
fn address_message(address: Ipv4Addr, prefix: u8) -> Vec<u8> {
    // ifaddrmsg: family, prefix, flags, scope; index.
    let mut body = vec![2, prefix, 0, libc::RT_SCOPE_UNIVERSE];
    body.extend(LOOPBACK_INDEX.to_ne_bytes());
    attribute(&mut body, libc::IFA_LOCAL, &address.octets());
    request(libc::RTM_NEWADDR, &body)
}

/// RTM_NEWROUTE of type RTN_LOCAL in the table `local`, through `lo`.
fn local_message(first: IpAddr, prefix: u8) -> Vec<u8> {
    // rtmsg: family, lengths of destination and source, type of service; table, protocol, scope, type; flags.
    let family = match first {
        IpAddr::V4(_) => 2,
        IpAddr::V6(_) => 10,
    };
    let mut body = vec![family, prefix, 0, 0];
    body.extend([
        libc::RT_TABLE_LOCAL,
        libc::RTPROT_BOOT,
        libc::RT_SCOPE_HOST,
        libc::RTN_LOCAL,
    ]);
    body.extend([0; 4]);
    match first {
        IpAddr::V4(ip) => attribute(&mut body, libc::RTA_DST, &ip.octets()),
        IpAddr::V6(ip) => attribute(&mut body, libc::RTA_DST, &ip.octets()),
    }
    attribute(&mut body, libc::RTA_OIF, &LOOPBACK_INDEX.to_ne_bytes());
    request(libc::RTM_NEWROUTE, &body)
}

/// A `struct rtattr` and its value; every length here is a multiple of four, as the next one's place must be.
fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(value.len().saturating_add(4)).unwrap_or(u16::MAX);
    body.extend(length.to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
}

/// The body behind its `struct nlmsghdr`: length, type, flags, sequence, port.
fn request(kind: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len().saturating_add(16)).unwrap_or(u32::MAX);
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(MAKE.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
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
    fn requests_are_as_long_as_they_say() {
        let route = local_message(IpAddr::V4(Ipv4Addr::new(198, 18, 0, 0)), 15);
        assert_eq!(route.len(), 44);
        assert_eq!(route[0..4], 44u32.to_ne_bytes());
        assert_eq!(route[16..24], [2, 15, 0, 0, 255, 3, 254, 2]);
        assert_eq!(route[32..36], [198, 18, 0, 0]);
        let six = local_message("fd00::".parse().unwrap(), 64);
        assert_eq!(six.len(), 56);
        assert_eq!(six[0..4], 56u32.to_ne_bytes());
        assert_eq!(six[16..24], [10, 64, 0, 0, 255, 3, 254, 2]);
        let address = address_message(Ipv4Addr::new(198, 18, 0, 1), 15);
        assert_eq!(address[0..4], 32u32.to_ne_bytes());
        assert_eq!(address[16..24], [2, 15, 0, 0, 1, 0, 0, 0]);
        assert_eq!(address[24..], [8, 0, 2, 0, 198, 18, 0, 1]);
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
