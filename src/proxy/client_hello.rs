//! The name in a TLS ClientHello (RFC 8446 §4.1.2, RFC 6066 §3): a pure parser of the first bytes of a tunnel.
//!
//! A tunnel that was allowed for one name must not ask the server for another (domain fronting at the TLS layer). What is inside
//! the encryption cannot be seen without terminating it. With Encrypted ClientHello (RFC 9849) the outer name counts.

/// More than any real ClientHello, post-quantum key shares and all.
pub(super) const MAX_HELLO: usize = 16 * 1024;

/// TLS record type of handshake messages; nothing else begins with this byte on purpose.
pub(super) const HANDSHAKE_RECORD: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const ALERT_RECORD: u8 = 21;
/// change_cipher_spec, application_data, heartbeat.
const OTHER_RECORDS: [u8; 3] = [20, 23, 24];
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;

/// What the first bytes of a tunnel say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hello {
    /// Not enough bytes yet.
    Partial,
    /// Not TLS.
    Other,
    /// TLS, for this name, or for none.
    Tls(Option<Vec<u8>>),
    /// TLS in the form of SSL 2, which has no room for a name.
    Old,
    /// Begins like TLS, but is not a well-formed ClientHello: another record before it, too.
    Malformed,
}

/// Reads the first bytes of what a client sends.
pub(super) fn parse(bytes: &[u8]) -> Hello {
    // Go's servers take a first record of nearly any version, and skip warning alerts before the ClientHello. A packet of MySQL begins
    // with its length, which may look like a type and a version, but goes on otherwise.
    match bytes {
        [] => return Hello::Partial,
        [HANDSHAKE_RECORD] | [HANDSHAKE_RECORD, 3, ..] => {}
        [HANDSHAKE_RECORD, ..] => {
            return match bytes.get(3..6) {
                None => Hello::Partial,
                Some([0, 0, _] | [_, _, CLIENT_HELLO]) => Hello::Malformed,
                Some(_) => Hello::Other,
            };
        }
        [ALERT_RECORD, 3, ..] => return Hello::Malformed,
        [ALERT_RECORD, ..] => {
            return match bytes.get(3..5) {
                None => Hello::Partial,
                Some([0, 2]) => Hello::Malformed,
                Some(_) => Hello::Other,
            };
        }
        [first] if OTHER_RECORDS.contains(first) => return Hello::Partial,
        [first, 3, ..] if OTHER_RECORDS.contains(first) => return Hello::Malformed,
        [0x80..=0x8f, ..] => return old(bytes),
        [_, ..] => return Hello::Other,
    }
    // A message may be cut into records anywhere (RFC 8446 §5.1).
    let mut message = Vec::new();
    let mut r = Reader(bytes);
    loop {
        if let Some(result) = message_of(&message) {
            return result;
        }
        let (Some(kind), Some(major), Some(_minor)) = (r.u8(), r.u8(), r.u8()) else {
            return Hello::Partial;
        };
        if kind != HANDSHAKE_RECORD || major != 3 {
            return Hello::Malformed;
        }
        let Some(length) = r.u16() else {
            return Hello::Partial;
        };
        if length == 0 || usize::from(length) > MAX_HELLO {
            return Hello::Malformed;
        }
        // What is there of an unfinished record counts: its message may already be whole.
        let wanted = usize::from(length);
        let Some(fragment) = r.take(wanted) else {
            message.extend(r.0);
            return message_of(&message).unwrap_or(Hello::Partial);
        };
        message.extend(fragment);
    }
}

/// RFC 5246 appendix E.2: a ClientHello in the form of SSL 2, which servers still take for one of TLS 1.2. What it says of its lengths
/// tells it from other protocols that begin with such a byte.
fn old(bytes: &[u8]) -> Hello {
    // Kind, and the version: 3, and what there is of minor ones.
    let kind = bytes.get(2).is_none_or(|b| *b == CLIENT_HELLO);
    let major = bytes.get(3).is_none_or(|b| *b == 3);
    let minor = bytes.get(4).is_none_or(|b| *b <= 4);
    if !(kind && major && minor) {
        return Hello::Other;
    }
    let word = |at: usize| -> Option<u32> {
        let pair = bytes.get(at..)?.first_chunk()?;
        Some(u32::from(u16::from_be_bytes(*pair)))
    };
    let (Some(head), Some(suites), Some(session), Some(challenge)) =
        (word(0), word(5), word(7), word(9))
    else {
        return Hello::Partial;
    };
    let whole = head & 0x7fff == 9 + suites + session + challenge;
    if whole && suites > 0 && suites % 3 == 0 {
        Hello::Old
    } else {
        Hello::Other
    }
}

/// The verdict once the handshake message is whole.
fn message_of(message: &[u8]) -> Option<Hello> {
    let mut r = Reader(message);
    let kind = r.u8()?;
    if kind != CLIENT_HELLO {
        return Some(Hello::Malformed);
    }
    let length = r.u24()?;
    if length > MAX_HELLO {
        return Some(Hello::Malformed);
    }
    let body = r.take(length)?;
    Some(server_name(body).unwrap_or(Hello::Malformed))
}

/// `None` is a malformed body.
fn server_name(body: &[u8]) -> Option<Hello> {
    let mut r = Reader(body);
    // legacy_version, random
    r.take(2 + 32)?;
    // legacy_session_id
    let session = r.u8()?;
    r.take(session.into())?;
    let suites = r.u16()?;
    r.take(suites.into())?;
    let compressions = r.u8()?;
    r.take(compressions.into())?;
    if r.0.is_empty() {
        return Some(Hello::Tls(None));
    }
    let length = r.u16()?;
    let mut extensions = Reader(r.take(length.into())?);
    if !r.0.is_empty() {
        return None;
    }
    let mut name = None;
    while !extensions.0.is_empty() {
        let kind = extensions.u16()?;
        let length = extensions.u16()?;
        let data = extensions.take(length.into())?;
        if kind == SERVER_NAME {
            // Two of them, or two names in one, could be read in two ways.
            if name.is_some() {
                return None;
            }
            name = Some(host_name(data)?);
        }
    }
    Some(Hello::Tls(name))
}

fn host_name(data: &[u8]) -> Option<Vec<u8>> {
    let mut r = Reader(data);
    let length = r.u16()?;
    let mut list = Reader(r.take(length.into())?);
    if list.u8()? != HOST_NAME {
        return None;
    }
    let length = list.u16()?;
    let name = list.take(length.into())?;
    (r.0.is_empty() && list.0.is_empty()).then(|| name.to_vec())
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u24(&mut self) -> Option<usize> {
        let [a, b, c]: [u8; 3] = self.take(3)?.try_into().ok()?;
        Some((usize::from(a) << 16) | (usize::from(b) << 8) | usize::from(c))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counted16(data: &[u8]) -> Vec<u8> {
        [&u16::try_from(data.len()).unwrap().to_be_bytes()[..], data].concat()
    }

    fn message(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.push(4);
        body.extend([1, 2, 3, 4]);
        body.extend(counted16(&[0x13, 1, 0x13, 2]));
        body.extend([1, 0]);
        let list: Vec<u8> = extensions
            .iter()
            .flat_map(|(kind, data)| [kind.to_be_bytes().to_vec(), counted16(data)].concat())
            .collect();
        body.extend(counted16(&list));
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[CLIENT_HELLO][..], &length[1..], &body].concat()
    }

    fn sni(name: &[u8]) -> (u16, Vec<u8>) {
        (
            SERVER_NAME,
            counted16(&[&[HOST_NAME][..], &counted16(name)].concat()),
        )
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        message
            .chunks(size)
            .flat_map(|c| [&[HANDSHAKE_RECORD, 3, 1][..], &counted16(c)].concat())
            .collect()
    }

    /// A ClientHello for a name, as a test client sends it.
    pub(in crate::proxy) fn hello(name: Option<&str>) -> Vec<u8> {
        let mut extensions = vec![(10, vec![0; 4])];
        extensions.extend(name.map(|n| sni(n.as_bytes())));
        extensions.push((0xfe0d, vec![0; 200]));
        records(&message(&extensions), 5000)
    }

    fn named(name: &str) -> Hello {
        Hello::Tls(Some(name.as_bytes().to_vec()))
    }

    #[test]
    fn names() {
        assert_eq!(parse(&hello(Some("allowed.test"))), named("allowed.test"));
        assert_eq!(parse(&hello(None)), Hello::Tls(None));
        assert_eq!(parse(b""), Hello::Partial);
        assert_eq!(parse(b"SSH-2.0-OpenSSH\r\n"), Hello::Other);
        assert_eq!(parse(b"GET / HTTP/1.1\r\n"), Hello::Other);
        assert_eq!(parse(&[21]), Hello::Partial);
        // What MySQL's clients say first: three bytes of length, a number, capabilities.
        for length in 20..=24 {
            let login = [length, 1, 0, 1, 0x85, 0xa6, 0xff, 0x19, 0, 0, 0, 1];
            assert_eq!(parse(&login), Hello::Other, "{length}");
        }
        // No extensions at all: TLS 1.0 clients.
        let mut old = message(&[]);
        old.truncate(old.len() - 2);
        let length = u32::try_from(old.len() - 4).unwrap().to_be_bytes();
        old[1..4].copy_from_slice(&length[1..]);
        assert_eq!(parse(&records(&old, 5000)), Hello::Tls(None));
    }

    /// As OpenSSL takes it: no name, so no way past the check of names.
    #[test]
    fn the_form_of_ssl_2() {
        let suites = [0, 0xc0, 0x2f, 0, 0, 0x2f];
        let body = [&[1, 3, 3, 0, 6, 0, 0, 0, 32][..], &suites, &[7; 32]].concat();
        let bytes = [&[0x80, u8::try_from(body.len()).unwrap()][..], &body].concat();
        assert_eq!(parse(&bytes), Hello::Old);
        for end in 1..11 {
            assert_eq!(parse(&bytes[..end]), Hello::Partial, "{end}");
        }
        for (at, byte) in [(0, 0x90), (1, 48), (2, 2), (3, 2), (4, 9), (6, 7), (10, 31)] {
            let mut other = bytes.clone();
            other[at] = byte;
            assert_eq!(parse(&other), Hello::Other, "{at}");
        }
        // Telnet's options, a frame of WebSocket.
        for bytes in [&[0xff, 0xfd, 1][..], &[0x81, 0x85, 9, 9]] {
            assert_eq!(parse(bytes), Hello::Other);
        }
    }

    #[test]
    fn malformed() {
        let twice = message(&[sni(b"a.test"), sni(b"b.test")]);
        let two = [&[0][..], &counted16(b"a.test"), &[0], &counted16(b"b.test")].concat();
        let two = message(&[(SERVER_NAME, counted16(&two))]);
        let trailing = message(&[(SERVER_NAME, [sni(b"a.test").1, vec![0]].concat())]);
        for bytes in [
            records(&twice, 5000),
            records(&two, 5000),
            records(&trailing, 5000),
            records(&[2, 0, 0, 0], 5000),
            [&[21, 3, 1, 0, 2, 1, 100][..], &hello(Some("a.test"))].concat(),
            [&[20, 3, 3, 0, 1, 1][..], &hello(Some("a.test"))].concat(),
            vec![23, 3, 1, 0, 0],
            vec![24, 3],
            vec![22, 2, 0, 0, 5, 1],
            vec![22, 3, 1, 0, 0],
            vec![22, 3, 1, 0xff, 0xff, 1],
            vec![22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff],
            [records(&message(&[])[..20], 5000), vec![23, 3, 3, 0, 1, 0]].concat(),
            [&[21, 3, 1, 0, 2, 1, 90][..], &hello(Some("a.test"))].concat(),
            [&[20, 3, 3, 0, 1, 1][..], &hello(Some("a.test"))].concat(),
            [&[23, 3, 3, 0, 0][..], &hello(Some("a.test"))].concat(),
            vec![24, 3],
            // Of a version that Go's servers take at the beginning.
            [&[21, 1, 0, 0, 2, 1, 90][..], &hello(Some("a.test"))].concat(),
            [&[22, 1][..], &hello(Some("a.test"))[2..]].concat(),
            [&[22, 15, 0, 0, 0][..], &hello(Some("a.test"))].concat(),
        ] {
            assert_eq!(parse(&bytes), Hello::Malformed, "{bytes:?}");
        }
    }

    proptest! {
        /// The same verdict however the message is cut into records; `Partial` for every proper prefix.
        #[test]
        fn cuts_do_not_matter(name in "[a-z.]{1,40}", size in 1usize..300, at in any::<prop::sample::Index>()) {
            let message = message(&[(10, vec![0; 30]), sni(name.as_bytes()), (43, vec![1; 9])]);
            let bytes = records(&message, size);
            prop_assert_eq!(parse(&bytes), named(&name));
            let cut = at.index(bytes.len());
            prop_assert_eq!(parse(&bytes[..cut]), Hello::Partial);
        }

        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut bytes = bytes;
            let _ = parse(&bytes);
            if let Some(first) = bytes.first_mut() { *first = HANDSHAKE_RECORD; }
            let _ = parse(&bytes);
        }

        /// A message with one byte changed never yields another verdict for a shorter prefix.
        #[test]
        fn damaged_messages_are_stable(at in any::<prop::sample::Index>(), byte: u8, cut in any::<prop::sample::Index>()) {
            let mut bytes = hello(Some("allowed.test"));
            let i = at.index(bytes.len());
            bytes[i] = byte;
            let early = parse(&bytes[..cut.index(bytes.len())]);
            if early != Hello::Partial {
                prop_assert_eq!(early, parse(&bytes));
            }
        }
    }
}
