use proptest::prelude::*;

use super::*;

fn name(text: &str) -> Host {
    Host::Name(text.to_owned())
}

fn ip(text: &str) -> Host {
    Host::Ip(text.parse().unwrap())
}

#[test]
fn canonical_forms() {
    for (raw, host) in [
        ("example.com", name("example.com")),
        ("EXAMPLE.Com", name("example.com")),
        ("example.com.", name("example.com")),
        ("münchen.de", name("xn--mnchen-3ya.de")),
        ("MÜNCHEN.DE", name("xn--mnchen-3ya.de")),
        ("xn--mnchen-3ya.de", name("xn--mnchen-3ya.de")),
        ("ｅｘａｍｐｌｅ。com", name("example.com")),
        ("exa\u{ad}mple.com", name("example.com")),
        ("_dmarc.example.com", name("_dmarc.example.com")),
        ("a-b.example", name("a-b.example")),
        ("1password.com", name("1password.com")),
        ("0x.example", name("0x.example")),
        ("localhost", name("localhost")),
        ("127.0.0.1", ip("127.0.0.1")),
        ("127.0.0.1.", ip("127.0.0.1")),
        ("１２７.0.0.1", ip("127.0.0.1")),
        ("[::1]", ip("::1")),
        ("::1", ip("::1")),
        ("[0:0:0:0:0:0:0:1]", ip("::1")),
        ("[2001:DB8::A]", ip("2001:db8::a")),
        ("[::ffff:127.0.0.1]", ip("127.0.0.1")),
        ("::ffff:7f00:1", ip("127.0.0.1")),
    ] {
        assert_eq!(Host::parse(raw.as_bytes()), Ok(host), "{raw}");
    }
}

#[test]
fn refused_spellings() {
    use HostError as E;
    let long_label = format!("{}.com", "a".repeat(64));
    let long_name = format!("{}com", "abcdefg.".repeat(32));
    for (raw, err) in [
        (&b""[..], E::Empty),
        (b".", E::Empty),
        (b"..", E::Label),
        (b".example.com", E::Label),
        (b"a..b", E::Label),
        (b"example.com..", E::Label),
        (b"good.com\0.evil.com", E::Control),
        (b"a\r\nb", E::Control),
        (b"a b", E::Control),
        (b"a\tb", E::Control),
        (b" a.com", E::Control),
        (b"a.com\x7f", E::Control),
        (b"good.com@evil.com", E::Userinfo),
        (b"ex%61mple.com", E::Percent),
        (b"fe80::1%lo", E::Percent),
        (b"[fe80::1%25lo]", E::Percent),
        (b"[::1", E::Bracket),
        (b"[::1]x", E::Bracket),
        (b"[127.0.0.1]", E::Bracket),
        (b"[]", E::Bracket),
        (b"a.com:80", E::Bracket),
        (b"1:2:3", E::Bracket),
        (b"2130706433", E::Numeric),
        (b"0x7f000001", E::Numeric),
        (b"0X7F.1", E::Numeric),
        (b"0x7f.1", E::Numeric),
        (b"127.1", E::Numeric),
        (b"0177.0.0.1", E::Numeric),
        (b"127.0.0.01", E::Numeric),
        (b"0", E::Numeric),
        (b"1.2.3.4.5", E::Numeric),
        (b"256.1.1.1", E::Numeric),
        (b"example.0x", E::Numeric),
        (b"example.123", E::Numeric),
        ("１２７.１".as_bytes(), E::Numeric),
        (b"\xff\xfe", E::Idna),
        (b"evil.com/good.com", E::Idna),
        (b"evil.com\\good.com", E::Idna),
        (b"evil.com#good.com", E::Idna),
        (b"evil.com?good.com", E::Idna),
        ("evil.com\u{ff0f}good.com".as_bytes(), E::Idna),
        (b"*.com", E::Label),
        (b"a,b", E::Label),
        (b"a\"b", E::Label),
        (b"a'b", E::Label),
        (b"a!b", E::Label),
        (b"a~b", E::Label),
        (b"xn--a", E::Idna),
        (long_label.as_bytes(), E::Label),
        (long_name.as_bytes(), E::TooLong),
        (&[b'a'; 2000], E::TooLong),
    ] {
        assert_eq!(
            Host::parse(raw),
            Err(err),
            "{:?}",
            String::from_utf8_lossy(raw)
        );
    }
}

#[test]
fn loopback_names() {
    for (raw, want) in [
        ("localhost", true),
        ("LOCALHOST.", true),
        ("app.localhost", true),
        ("ip6-localhost", true),
        ("localhost.localdomain", true),
        ("localhost.com", false),
        ("notlocalhost", false),
        ("127.0.0.1", false),
    ] {
        assert_eq!(
            Host::parse(raw.as_bytes()).unwrap().is_loopback_name(),
            want,
            "{raw}"
        );
    }
}

#[test]
fn authorities() {
    for (raw, default, want) in [
        ("a.com:443", None, Ok("a.com:443")),
        ("A.com.:443", None, Ok("a.com:443")),
        ("a.com", Some(80), Ok("a.com:80")),
        ("a.com:", Some(80), Ok("a.com:80")),
        ("[::1]:22", None, Ok("[::1]:22")),
        ("[::1]", Some(80), Ok("[::1]:80")),
        ("1.2.3.4:65535", None, Ok("1.2.3.4:65535")),
        ("a.com", None, Err(HostError::Port)),
        ("a.com:", None, Err(HostError::Port)),
        ("a.com:0", None, Err(HostError::Port)),
        ("a.com:080", Some(80), Err(HostError::Port)),
        ("a.com:+80", None, Err(HostError::Port)),
        ("a.com:65536", None, Err(HostError::Port)),
        ("a.com:99999999999", None, Err(HostError::Port)),
        ("a.com:http", None, Err(HostError::Port)),
        ("a.com:443:80", None, Err(HostError::Bracket)),
        ("::1:443", None, Err(HostError::Bracket)),
        ("[::1]443", None, Err(HostError::Bracket)),
        ("[::1", None, Err(HostError::Bracket)),
        (":443", None, Err(HostError::Empty)),
        ("", None, Err(HostError::Empty)),
        ("u@a.com:443", None, Err(HostError::Userinfo)),
        ("u:p@a.com:443", None, Err(HostError::Bracket)),
        ("a\0.com:443", None, Err(HostError::Control)),
    ] {
        assert_eq!(
            Authority::parse(raw.as_bytes(), default).map(|a| a.to_string()),
            want.map(str::to_owned),
            "{raw:?}"
        );
    }
}

proptest! {
    /// Whatever the bytes: no panic, and what comes out is canonical, harmless to print, and a fixed point.
    #[test]
    fn output_is_canonical(raw in prop::collection::vec(any::<u8>(), 0..300)) {
        check_canonical(&raw)?;
    }

    #[test]
    fn text_output_is_canonical(raw in "\\PC{0,80}") {
        check_canonical(raw.as_bytes())?;
    }

    #[test]
    fn plausible_output_is_canonical(raw in "[a-zA-Z0-9xX.:\\[\\]%@_*。．ü-]{0,40}") {
        check_canonical(raw.as_bytes())?;
        if let Ok(a) = Authority::parse(raw.as_bytes(), Some(80)) {
            prop_assert_eq!(Authority::parse(a.to_string().as_bytes(), None), Ok(a));
        }
    }

    /// What the C resolver would read as an address, the parser either reads as the same address or refuses.
    #[test]
    fn numeric_names_never_stay_names(parts in prop::collection::vec(any::<u32>(), 1..5), hex in any::<bool>()) {
        let text = parts
            .iter()
            .map(|n| if hex { format!("{n:#x}") } else { n.to_string() })
            .collect::<Vec<_>>()
            .join(".");
        prop_assert!(!matches!(Host::parse(text.as_bytes()), Ok(Host::Name(_))), "{}", text);
    }

    #[test]
    fn addresses_survive(n: u128, m: u32) {
        let v6 = Ipv6Addr::from(n);
        prop_assert_eq!(Host::parse(format!("[{v6}]").as_bytes()), Ok(Host::Ip(address::canonical(v6.into()))));
        let v4 = Ipv4Addr::from(m);
        prop_assert_eq!(Host::parse(v4.to_string().as_bytes()), Ok(Host::Ip(v4.into())));
    }
}

fn check_canonical(raw: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(host) = Host::parse(raw) {
        let text = host.to_string();
        prop_assert!(text.len() <= MAX_NAME);
        prop_assert!(
            text.bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.:[]".contains(&b)),
            "{}",
            text
        );
        prop_assert_eq!(Host::parse(text.as_bytes()), Ok(host));
    }
    Ok(())
}
