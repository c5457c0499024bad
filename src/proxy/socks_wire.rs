//! SOCKS5 on the wire (RFC 1928, RFC 1929): pure parsers of what a client sends, and the replies.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Protocol version.
pub(super) const VERSION: u8 = 5;
/// Sub-negotiation version of RFC 1929.
pub(super) const LOGIN_VERSION: u8 = 1;

/// What a prefix of the stream says: not enough yet, or a value and the bytes it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Parsed<T> {
    /// More bytes are needed.
    Partial,
    /// A whole message, and its length.
    Done(T, usize),
}

/// Not SOCKS5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum WireError {
    /// Another version number.
    #[error("not SOCKS5")]
    Version,
    /// An address type that RFC 1928 does not have.
    #[error("unknown address type")]
    AddressType,
}

/// The methods a client offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Greeting {
    /// 0: no authentication.
    pub(super) none: bool,
    /// 2: user name and password.
    pub(super) login: bool,
}

/// `05 n method…`
pub(super) fn greeting(bytes: &[u8]) -> Result<Parsed<Greeting>, WireError> {
    let mut r = Reader::new(bytes);
    let Some(version) = r.u8() else {
        return Ok(Parsed::Partial);
    };
    if version != VERSION {
        return Err(WireError::Version);
    }
    let Some(methods) = r.counted() else {
        return Ok(Parsed::Partial);
    };
    let greeting = Greeting {
        none: methods.contains(&0),
        login: methods.contains(&2),
    };
    Ok(Parsed::Done(greeting, r.taken))
}

/// User name and password.
pub(super) type Login = (Vec<u8>, Vec<u8>);

/// `01 n user… m password…`
pub(super) fn login(bytes: &[u8]) -> Result<Parsed<Login>, WireError> {
    let mut r = Reader::new(bytes);
    let Some(version) = r.u8() else {
        return Ok(Parsed::Partial);
    };
    if version != LOGIN_VERSION {
        return Err(WireError::Version);
    }
    let Some(user) = r.counted() else {
        return Ok(Parsed::Partial);
    };
    let Some(password) = r.counted() else {
        return Ok(Parsed::Partial);
    };
    Ok(Parsed::Done((user.to_vec(), password.to_vec()), r.taken))
}

/// Where a client wants to go, as it said it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Destination {
    /// Types 1 and 4.
    Ip(IpAddr),
    /// Type 3: any bytes, still to be judged.
    Name(Vec<u8>),
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    /// 1 CONNECT, 2 BIND, 3 UDP ASSOCIATE.
    pub(super) command: u8,
    /// Where to.
    pub(super) to: Destination,
    /// Which port.
    pub(super) port: u16,
}

/// CONNECT.
pub(super) const CONNECT: u8 = 1;

/// `05 command 00 type address port`
pub(super) fn request(bytes: &[u8]) -> Result<Parsed<Request>, WireError> {
    let mut r = Reader::new(bytes);
    let Some([version, command, _reserved, kind]) = r.array() else {
        // A wrong version must not wait for the rest of a message that is none.
        return match bytes.first() {
            Some(v) if *v != VERSION => Err(WireError::Version),
            Some(_) | None => Ok(Parsed::Partial),
        };
    };
    if version != VERSION {
        return Err(WireError::Version);
    }
    let to = match kind {
        1 => r
            .array::<4>()
            .map(|a| Destination::Ip(Ipv4Addr::from(a).into())),
        3 => r.counted().map(|n| Destination::Name(n.to_vec())),
        4 => r
            .array::<16>()
            .map(|a| Destination::Ip(Ipv6Addr::from(a).into())),
        _ => return Err(WireError::AddressType),
    };
    let (Some(to), Some(port)) = (to, r.array::<2>()) else {
        return Ok(Parsed::Partial);
    };
    let request = Request {
        command,
        to,
        port: u16::from_be_bytes(port),
    };
    Ok(Parsed::Done(request, r.taken))
}

/// Reply codes of RFC 1928 §6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// 0
    Succeeded,
    /// 1
    Failure,
    /// 2: refused by policy.
    NotAllowed,
    /// 4
    HostUnreachable,
    /// 5
    Refused,
    /// 6, the nearest there is to a time-out.
    Expired,
    /// 7
    Command,
    /// 8
    AddressType,
}

impl Reply {
    /// The reply with no bound address: nothing useful can be said about a socket in another namespace.
    pub(super) fn bytes(self) -> [u8; 10] {
        let code = match self {
            Self::Succeeded => 0,
            Self::Failure => 1,
            Self::NotAllowed => 2,
            Self::HostUnreachable => 4,
            Self::Refused => 5,
            Self::Expired => 6,
            Self::Command => 7,
            Self::AddressType => 8,
        };
        [VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]
    }
}

/// Length of a reply with the address type and, for names, the length byte that follow its first four or five bytes.
pub(super) fn reply_length(start: &[u8]) -> Result<Option<usize>, WireError> {
    match start {
        [version, ..] if *version != VERSION => Err(WireError::Version),
        [_, _, _, 1, ..] => Ok(Some(10)),
        [_, _, _, 4, ..] => Ok(Some(22)),
        [_, _, _, 3, n, ..] => Ok(Some(7 + usize::from(*n))),
        [_, _, _, 3] | [] | [_] | [_, _] | [_, _, _] => Ok(None),
        [_, _, _, _, ..] => Err(WireError::AddressType),
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    taken: usize,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            taken: 0,
        }
    }

    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        self.taken += n;
        Some(head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// One byte of length, then that many bytes.
    fn counted(&mut self) -> Option<&'a [u8]> {
        let n = self.u8()?;
        self.take(usize::from(n))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn greetings() {
        for (bytes, want) in [
            (&[][..], Ok(Parsed::Partial)),
            (&[5], Ok(Parsed::Partial)),
            (&[5, 2, 0], Ok(Parsed::Partial)),
            (
                &[5, 1, 0],
                Ok(Parsed::Done(
                    Greeting {
                        none: true,
                        login: false,
                    },
                    3,
                )),
            ),
            (
                &[5, 3, 0, 1, 2, 99],
                Ok(Parsed::Done(
                    Greeting {
                        none: true,
                        login: true,
                    },
                    5,
                )),
            ),
            (
                &[5, 0],
                Ok(Parsed::Done(
                    Greeting {
                        none: false,
                        login: false,
                    },
                    2,
                )),
            ),
            (&[4, 1, 0], Err(WireError::Version)),
            (b"GET ", Err(WireError::Version)),
        ] {
            assert_eq!(greeting(bytes), want, "{bytes:?}");
        }
    }

    #[test]
    fn logins() {
        assert_eq!(
            login(&[1, 1, b'u', 2, b'p', b'w', 9]),
            Ok(Parsed::Done((b"u".to_vec(), b"pw".to_vec()), 6))
        );
        assert_eq!(login(&[1, 1, b'u', 2, b'p']), Ok(Parsed::Partial));
        assert_eq!(login(&[5]), Err(WireError::Version));
    }

    #[test]
    fn requests() {
        let name = |n: &[u8], port| Request {
            command: 1,
            to: Destination::Name(n.to_vec()),
            port,
        };
        for (bytes, want) in [
            (
                &[5, 1, 0, 3, 3, b'a', b'\0', b'b', 1, 187, 7][..],
                Ok(Parsed::Done(name(b"a\0b", 443), 10)),
            ),
            (&[5, 1, 0, 3, 0, 0, 80], Ok(Parsed::Done(name(b"", 80), 7))),
            (
                &[5, 1, 0, 1, 127, 0, 0, 1, 0, 80],
                Ok(Parsed::Done(
                    Request {
                        command: 1,
                        to: Destination::Ip([127, 0, 0, 1].into()),
                        port: 80,
                    },
                    10,
                )),
            ),
            (&[5, 1, 0, 1, 127, 0, 0, 1, 0], Ok(Parsed::Partial)),
            (&[5, 1, 0, 3, 200, 1], Ok(Parsed::Partial)),
            (&[5, 1, 0], Ok(Parsed::Partial)),
            (&[5, 1, 0, 2], Err(WireError::AddressType)),
            (&[4, 1], Err(WireError::Version)),
        ] {
            assert_eq!(request(bytes), want, "{bytes:?}");
        }
    }

    #[test]
    fn reply_lengths() {
        assert_eq!(reply_length(&Reply::Succeeded.bytes()), Ok(Some(10)));
        assert_eq!(reply_length(&[5, 0, 0, 4]), Ok(Some(22)));
        assert_eq!(reply_length(&[5, 0, 0, 3, 4]), Ok(Some(11)));
        assert_eq!(reply_length(&[5, 0, 0, 3]), Ok(None));
        assert_eq!(reply_length(&[5, 0]), Ok(None));
        assert_eq!(reply_length(&[5, 0, 0, 9]), Err(WireError::AddressType));
        assert_eq!(reply_length(b"HTTP"), Err(WireError::Version));
    }

    proptest! {
        /// No panic; never more bytes than were given; once done, later bytes change nothing.
        #[test]
        fn parsers_are_stable(bytes in prop::collection::vec(any::<u8>(), 0..300), extra in prop::collection::vec(any::<u8>(), 0..9), v in prop::sample::select(vec![1u8, 5])) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() { *first = v; }
            let mut longer = bytes.clone();
            longer.extend(&extra);
            macro_rules! check { ($f:ident) => {
                match $f(&bytes) {
                    Ok(Parsed::Done(value, n)) => {
                        prop_assert!(n <= bytes.len());
                        prop_assert_eq!($f(&longer), Ok(Parsed::Done(value.clone(), n)));
                        prop_assert_eq!($f(&bytes[..n]), Ok(Parsed::Done(value, n)));
                        if n > 0 { prop_assert_eq!($f(&bytes[..n - 1]), Ok(Parsed::Partial)); }
                    }
                    Err(e) => prop_assert_eq!($f(&longer), Err(e)),
                    Ok(Parsed::Partial) => {}
                }
            } }
            check!(greeting);
            check!(login);
            check!(request);
            let _ = reply_length(&bytes);
        }
    }
}
