//! DNS messages of the sandbox' own name server (RFC 1035 §4): reads a question, writes an answer. Pure.
//!
//! Nothing of a question goes any further than here: what is asked of the outside is asked by ccbox, for names that the policy
//! allows.

use std::net::IpAddr;

use crate::policy::host::Host;

/// RFC 1035 §4.2.1: what every client takes over UDP; no answer made here is longer.
pub const MAX_MESSAGE: usize = 512;
/// Answers live shorter than any run; an address stays with its name for the whole of it.
const TIME_TO_LIVE: u32 = 60;
const HEADER: usize = 12;
const TYPE_A: u16 = 1;
/// RFC 3596.
const TYPE_AAAA: u16 = 28;
const CLASS_IN: u16 = 1;

/// A question that can be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    id: [u8; 2],
    /// Opcode and the wish for recursion are given back.
    flags: u8,
    /// Name, type and class as they came.
    raw: Vec<u8>,
    /// What is asked about; `None` is a name that no host can have (`_sip._tcp`, bytes that are no text).
    pub host: Option<Host>,
    /// What is asked for.
    pub wants: Wants,
}

/// What a question asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wants {
    /// IPv4 addresses.
    V4,
    /// IPv6 addresses.
    V6,
    /// Something else.
    Other,
}

/// What came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Too short, or itself an answer: nothing goes back, so that two servers never talk to each other for ever.
    Ignored,
    /// What goes back at once: FORMERR or NOTIMP.
    Refused(Vec<u8>),
    /// A question.
    Question(Question),
}

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The name has this address.
    Address(IpAddr),
    /// The name exists, but not with what was asked for.
    Nothing,
    /// There is no such name.
    NoName,
    /// No address is left.
    Failure,
}

/// Reads one message.
#[must_use]
pub fn parse(message: &[u8]) -> Message {
    let Some((&[id0, id1, flags, _, questions @ ..], body)) = message.split_first_chunk::<HEADER>()
    else {
        return Message::Ignored;
    };
    if flags & 0x80 != 0 {
        return Message::Ignored;
    }
    let id = [id0, id1];
    let refused = |code| Message::Refused(header(id, flags, code, 0, 0).to_vec());
    // Standard queries only (RFC 1035 §4.1.1).
    if flags & 0x78 != 0 {
        return refused(4);
    }
    let [q0, q1, ..] = questions;
    if u16::from_be_bytes([q0, q1]) != 1 {
        return refused(1);
    }
    let Some((name, length)) = name(body) else {
        return refused(1);
    };
    let end = length.saturating_add(4);
    let (Some(raw), Some(&[t0, t1, c0, c1])) = (body.get(..end), body.get(length..end)) else {
        return refused(1);
    };
    if u16::from_be_bytes([c0, c1]) != CLASS_IN {
        return refused(4);
    }
    Message::Question(Question {
        id,
        flags,
        raw: raw.to_vec(),
        host: name.and_then(|n| Host::parse(&n).ok()),
        wants: match u16::from_be_bytes([t0, t1]) {
            TYPE_A => Wants::V4,
            TYPE_AAAA => Wants::V6,
            _ => Wants::Other,
        },
    })
}

impl Question {
    /// The message that goes back.
    #[must_use]
    pub fn answer(&self, answer: Answer) -> Vec<u8> {
        let (code, count) = match answer {
            Answer::Address(_) => (0, 1),
            Answer::Nothing => (0, 0),
            Answer::NoName => (3, 0),
            Answer::Failure => (2, 0),
        };
        let mut message = header(self.id, self.flags, code, 1, count).to_vec();
        message.extend(&self.raw);
        if let Answer::Address(address) = answer {
            let (kind, octets) = match address {
                IpAddr::V4(v4) => (TYPE_A, v4.octets().to_vec()),
                IpAddr::V6(v6) => (TYPE_AAAA, v6.octets().to_vec()),
            };
            // A pointer to the name in the question (RFC 1035 §4.1.4).
            message.extend([0xc0, 12]);
            message.extend(kind.to_be_bytes());
            message.extend(CLASS_IN.to_be_bytes());
            message.extend(TIME_TO_LIVE.to_be_bytes());
            message.extend([0, u8::try_from(octets.len()).unwrap_or(0)]);
            message.extend(octets);
        }
        message
    }
}

/// QR, AA and RA are set, RD is given back.
fn header(id: [u8; 2], flags: u8, code: u8, questions: u8, answers: u8) -> [u8; HEADER] {
    let [id0, id1] = id;
    let first = 0x84 | (flags & 0x79);
    let second = 0x80 | (code & 0x0f);
    [
        id0, id1, first, second, 0, questions, 0, answers, 0, 0, 0, 0,
    ]
}

/// The name at the head of a question in text, and its length on the wire. A question comes first in a message, so there is nothing
/// that a compression pointer could point to. A label with a dot or a byte that is not printable is no host's.
fn name(body: &[u8]) -> Option<(Option<Vec<u8>>, usize)> {
    let mut text = Vec::new();
    let mut fit = true;
    let mut at = 0usize;
    loop {
        let length = usize::from(*body.get(at)?);
        at = at.checked_add(1)?;
        if length == 0 {
            let fit = fit && !text.is_empty();
            return Some((fit.then_some(text), at));
        }
        // RFC 1035 §2.3.4: 63 octets a label, 255 with the lengths and the root.
        let end = at.checked_add(length)?;
        if length > 63 || end > 254 {
            return None;
        }
        let label = body.get(at..end)?;
        fit &= label.iter().all(|b| b.is_ascii_graphic() && *b != b'.');
        if !text.is_empty() {
            text.push(b'.');
        }
        text.extend(label);
        at = end;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A question as a client sends it.
    pub(in crate::proxy) fn query(name: &str, kind: u16) -> Vec<u8> {
        let mut message = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.').filter(|l| !l.is_empty()) {
            message.push(u8::try_from(label.len()).unwrap());
            message.extend(label.as_bytes());
        }
        message.push(0);
        message.extend(kind.to_be_bytes());
        message.extend([0, 1]);
        message
    }

    fn question(message: &[u8]) -> Question {
        match parse(message) {
            Message::Question(question) => question,
            other @ (Message::Ignored | Message::Refused(_)) => panic!("{other:?}"),
        }
    }

    #[test]
    fn questions() {
        let asked = question(&query("Allowed.TEST", 1));
        assert_eq!(asked.host, Some(Host::Name("allowed.test".into())));
        assert_eq!(asked.wants, Wants::V4);
        assert_eq!(question(&query("allowed.test", 28)).wants, Wants::V6);
        assert_eq!(question(&query("allowed.test", 65)).wants, Wants::Other);
        // EDNS and whatever else follows is of no interest.
        let mut long = query("a.test", 1);
        long[11] = 1;
        long.extend([0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(question(&long).host, Some(Host::Name("a.test".into())));
        for odd in [
            "",
            "a.0x7f",
            "a b.test",
            "a%b.test",
            "a@b.test",
            "2130706433",
        ] {
            assert_eq!(question(&query(odd, 1)).host, None, "{odd}");
        }
        // A dot or NUL inside a label must not make another name of it.
        for byte in [b'.', 0, b'\n', 0xff] {
            let mut message = query("axb.test", 1);
            message[14] = byte;
            assert_eq!(question(&message).host, None);
        }
    }

    #[test]
    fn malformed() {
        let good = query("allowed.test", 1);
        for length in 0..HEADER {
            assert_eq!(parse(&good[..length]), Message::Ignored);
        }
        for length in HEADER..good.len() {
            let Message::Refused(answer) = parse(&good[..length]) else {
                panic!("{length}")
            };
            assert_eq!(answer[3] & 0x0f, 1);
            assert_eq!(answer[..2], good[..2]);
        }
        let with = |at: usize, byte: u8| {
            let mut message = good.clone();
            message[at] = byte;
            parse(&message)
        };
        assert_eq!(with(2, 0x81), Message::Ignored);
        for (at, byte, code) in [
            (2, 0x28, 4),
            (5, 0, 1),
            (5, 2, 1),
            (12, 0xc0, 1),
            (12, 64, 1),
        ] {
            let Message::Refused(answer) = with(at, byte) else {
                panic!("{at} {byte}")
            };
            assert_eq!(answer[3] & 0x0f, code, "{at} {byte}");
        }
        assert!(matches!(with(good.len() - 1, 3), Message::Refused(_)));
        let label = "a".repeat(63);
        let long = [label.as_str(); 4].join(".");
        assert!(matches!(parse(&query(&long, 1)), Message::Refused(_)));
    }

    #[test]
    fn answers() {
        let asked = question(&query("allowed.test", 1));
        let got = asked.answer(Answer::Address([198, 18, 0, 1].into()));
        let mut expected = query("allowed.test", 1);
        expected[2..4].copy_from_slice(&[0x85, 0x80]);
        expected[7] = 1;
        expected.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 18, 0, 1]);
        assert_eq!(got, expected);
        let six = question(&query("allowed.test", 28))
            .answer(Answer::Address("fd00::1".parse().unwrap()));
        assert_eq!(six[30..42], [0xc0, 12, 0, 28, 0, 1, 0, 0, 0, 60, 0, 16]);
        assert_eq!((six.len(), six[57]), (58, 1));
        for (answer, code) in [
            (Answer::Nothing, 0),
            (Answer::NoName, 3),
            (Answer::Failure, 2),
        ] {
            let got = asked.answer(answer);
            assert_eq!((got[3] & 0x0f, got[7]), (code, 0));
        }
    }

    proptest! {
        /// Whatever comes, an answer fits, repeats the id and says that it is one.
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..600), shaped: bool) {
            let mut bytes = bytes;
            if shaped && bytes.len() > 6 {
                bytes[2..6].copy_from_slice(&[1, 0, 0, 1]);
            }
            let answer = match parse(&bytes) {
                Message::Ignored => return Ok(()),
                Message::Refused(answer) => answer,
                Message::Question(q) => q.answer(Answer::Address("fd00::1".parse().unwrap())),
            };
            prop_assert!(answer.len() <= MAX_MESSAGE);
            prop_assert_eq!(&answer[..2], &bytes[..2]);
            prop_assert!(answer[2] & 0x80 != 0);
        }

        #[test]
        fn names_are_read_back(labels in prop::collection::vec("[a-z][a-z0-9-]{0,20}[a-z]", 1..6), kind: u16) {
            let name = labels.join(".");
            let asked = question(&query(&name, kind));
            prop_assert_eq!(asked.wants == Wants::V4, kind == 1);
            prop_assert_eq!(asked.wants == Wants::V6, kind == 28);
            if let Some(host) = asked.host {
                prop_assert_eq!(host.to_string(), name);
            }
        }
    }
}
