use proptest::prelude::*;

use super::*;

fn allow(text: &str) -> HostRule {
    HostRule::parse_allow(text, false).unwrap_or_else(|e| panic!("{e}"))
}

fn host(text: &str) -> Host {
    Host::parse(text.as_bytes()).unwrap()
}

#[test]
fn matching() {
    for (rule, target, port, want) in [
        ("example.com", "example.com", 1, true),
        ("example.com", "EXAMPLE.com.", 1, true),
        ("EXAMPLE.com.", "example.com", 1, true),
        ("example.com", "www.example.com", 1, false),
        ("example.com", "evilexample.com", 1, false),
        ("example.com", "example.com.evil.test", 1, false),
        ("*.example.com", "a.example.com", 1, true),
        ("*.example.com", "a.b.example.com", 1, true),
        ("*.example.com", "example.com", 1, false),
        ("*.example.com", "evilexample.com", 1, false),
        ("*.example.com", "a.example.com.evil.test", 1, false),
        ("*.com", "example.com", 1, true),
        ("*.com", "com", 1, false),
        (
            "bedrock.*.amazonaws.com",
            "bedrock.us-east-1.amazonaws.com",
            1,
            true,
        ),
        (
            "bedrock.*.amazonaws.com",
            "bedrock.evil.attacker.amazonaws.com",
            1,
            false,
        ),
        ("bedrock.*.amazonaws.com", "bedrock.amazonaws.com", 1, false),
        (
            "bedrock.*.amazonaws.com",
            "x.bedrock.us-east-1.amazonaws.com",
            1,
            false,
        ),
        ("a.b.*.c.d", "a.b.x.c.d", 1, true),
        ("a.b.*.c.d", "a.b.x.y.c.d", 1, false),
        ("example.com:443", "example.com", 443, true),
        ("example.com:443", "example.com", 80, false),
        ("*.example.com:8443", "a.example.com", 8443, true),
        ("*.example.com:8443", "a.example.com", 443, false),
        ("[::1]", "0:0:0:0:0:0:0:1", 5, true),
        ("[::1]:443", "[::1]", 443, true),
        ("[::1]:443", "[::1]", 80, false),
        ("127.0.0.1", "[::ffff:7f00:1]", 80, true),
        ("[::ffff:127.0.0.1]:80", "127.0.0.1", 80, true),
        ("127.0.0.1", "127.0.0.2", 80, false),
        ("münchen.de", "xn--mnchen-3ya.de", 1, true),
        ("xn--mnchen-3ya.de", "MÜNCHEN.DE", 1, true),
        ("*.münchen.de", "a.xn--mnchen-3ya.de", 1, true),
        ("*", "example.com", 1, true),
        ("*", "10.0.0.1", 1, true),
        ("*:443", "example.com", 443, true),
        ("*:443", "example.com", 80, false),
        ("localhost:80", "localhost", 80, true),
        ("localhost:80", "127.0.0.1", 80, true),
        ("localhost:80", "[::1]", 80, true),
        ("localhost:80", "127.0.0.1", 81, false),
        ("localhost:80", "127.0.0.2", 80, false),
        ("localhost:80", "8.8.8.8", 80, false),
        ("app.localhost:80", "localhost", 80, false),
        ("127.0.0.1:80", "localhost", 80, false),
    ] {
        assert_eq!(
            allow(rule).allows(&host(target), port),
            want,
            "{rule} {target}:{port}"
        );
    }
}

#[test]
fn a_denied_loopback_name_denies_every_loopback_address() {
    let (rules, note) = HostRule::parse_deny("localhost").unwrap();
    assert_eq!(note, None);
    for target in ["localhost", "127.0.0.1", "127.0.0.53", "[::1]"] {
        assert!(rules[0].denies(&host(target), 9), "{target}");
    }
    assert!(!rules[0].denies(&host("10.0.0.1"), 9));
}

/// Text, reason, suggested spelling.
#[test]
fn refused_rules_and_their_suggestions() {
    for (text, reason, hint) in [
        ("", "empty host", None),
        (
            " a.com",
            "control character or blank in the host",
            Some("a.com"),
        ),
        (
            "a.com b.com",
            "control character or blank in the host",
            None,
        ),
        ("**.a.com", "at most one `*` in a rule", Some("*.a.com")),
        ("*.*.a.com", "at most one `*` in a rule", Some("*.a.com")),
        (
            "a.*.b.*.c.com",
            "at most one `*` in a rule",
            Some("*.c.com"),
        ),
        ("*.*", "at most one `*` in a rule", None),
        (
            "a*.com",
            "`*` stands for whole labels, first or in the middle",
            Some("*.com"),
        ),
        (
            "*a.com",
            "`*` stands for whole labels, first or in the middle",
            Some("*.com"),
        ),
        (
            "foo*.bar.com",
            "`*` stands for whole labels, first or in the middle",
            Some("*.bar.com"),
        ),
        (
            "x.y*.bar.com",
            "`*` stands for whole labels, first or in the middle",
            Some("*.bar.com"),
        ),
        (
            "a.*",
            "`*` stands for whole labels, first or in the middle",
            None,
        ),
        (
            "*com",
            "`*` stands for whole labels, first or in the middle",
            None,
        ),
        (
            "a.*.com",
            "a `*` in the middle needs at least four labels",
            Some("*.com"),
        ),
        ("*.", "empty host", None),
        ("*.1.2.3.4", "`*` cannot be part of an address", None),
        (
            "1.*.2.3",
            "an IPv4 address must be written as four decimal numbers",
            None,
        ),
        (
            "[::*]",
            "`*` stands for whole labels, first or in the middle",
            None,
        ),
        ("[::1", "not an IPv6 address in brackets", None),
        (
            "::1:443",
            "an IPv6 address is written in brackets",
            Some("[::1]:443"),
        ),
        (
            "::1",
            "an IPv6 address is written in brackets",
            Some("[::1]"),
        ),
        (
            "2001:db8::1",
            "an IPv6 address is written in brackets",
            Some("[2001:db8::1]"),
        ),
        (
            "a.com:443:80",
            "an IPv6 address is written in brackets",
            None,
        ),
        ("a.com:0", "not a port between 1 and 65535", Some("a.com")),
        (
            "a.com:0443",
            "not a port between 1 and 65535",
            Some("a.com:443"),
        ),
        ("a.com:99999", "not a port between 1 and 65535", None),
        ("a.com:", "not a port between 1 and 65535", Some("a.com")),
        ("a.com:*", "not a port between 1 and 65535", Some("a.com")),
        (
            "a.com:80-90",
            "not a port between 1 and 65535",
            Some("a.com"),
        ),
        ("[::1]:", "not a port between 1 and 65535", Some("[::1]")),
        ("[::1]x", "not an IPv6 address in brackets", Some("[::1]")),
        (
            "http://a.com",
            "a URL, where a host is wanted",
            Some("a.com"),
        ),
        (
            "https://u:p@a.com:8443/x?y",
            "a URL, where a host is wanted",
            Some("a.com:8443"),
        ),
        (
            "ssh://git@a.com",
            "a URL, where a host is wanted",
            Some("a.com"),
        ),
        (
            "a.com/x",
            "a path or address range, where a host is wanted",
            Some("a.com"),
        ),
        (
            "10.0.0.0/8",
            "a path or address range, where a host is wanted",
            None,
        ),
        ("x@y.com", "user information before the host", Some("y.com")),
        (".a.com", "not a host name", Some("a.com")),
        ("a..com", "not a host name", None),
        ("a,b", "not a host name", None),
        ("a%2ecom", "percent sign in the host", None),
        (
            "127.1",
            "an IPv4 address must be written as four decimal numbers",
            Some("127.0.0.1"),
        ),
        (
            "0177.0.0.1:80",
            "an IPv4 address must be written as four decimal numbers",
            Some("127.0.0.1:80"),
        ),
        (
            "2130706433",
            "an IPv4 address must be written as four decimal numbers",
            Some("127.0.0.1"),
        ),
        (
            "0x7f.1",
            "an IPv4 address must be written as four decimal numbers",
            Some("127.0.0.1"),
        ),
        (
            "300.1.1.1",
            "an IPv4 address must be written as four decimal numbers",
            None,
        ),
    ] {
        let error = HostRule::parse_allow(text, false).unwrap_err();
        assert_eq!(error.reason, format!("`{text}`: {reason}"));
        assert_eq!(error.hint, hint.map(|h| format!("write `{h}`")), "{text}");
    }
}

#[test]
fn loopback_names_need_a_port() {
    for text in ["localhost", "LOCALHOST.", "app.localhost", "*.localhost"] {
        let error = HostRule::parse_allow(text, false).unwrap_err();
        assert_eq!(
            error.reason,
            format!("`{text}` would open every port of this machine's loopback")
        );
        assert_eq!(error.hint, Some(format!("name the port, `{text}:PORT`")));
    }
    assert!(HostRule::parse_allow("localhost", true).is_err());
    assert_eq!(allow("localhost:3000").port(), Some(3000));
    assert!(HostRule::parse_deny("localhost").is_ok());
}

#[test]
fn rules_too_wide_to_mean() {
    assert_eq!(
        HostRule::parse_allow("*", true).unwrap_err().reason,
        "`allow_private` on `*` would open every private network"
    );
    for text in ["0.0.0.0:80", "[::]"] {
        assert!(HostRule::parse_allow(text, false).is_err(), "{text}");
    }
    assert!(HostRule::parse_deny("0.0.0.0").is_ok());
}

#[test]
fn ambiguous_denies_deny_every_reading() {
    for (text, readings, note) in [
        (
            "::1:443",
            &["[::1:443]", "[::1]:443"][..],
            "`::1:443` is read as `[::1:443]` and `[::1]:443`",
        ),
        ("::1", &["[::1]"][..], "`::1` is read as `[::1]`"),
        (
            "fe80::1:22",
            &["[fe80::1:22]", "[fe80::1]:22"][..],
            "`fe80::1:22` is read as `[fe80::1:22]` and `[fe80::1]:22`",
        ),
        (
            "1:2:3:4:5:6:7:8:443",
            &["[1:2:3:4:5:6:7:8]:443"][..],
            "`1:2:3:4:5:6:7:8:443` is read as `[1:2:3:4:5:6:7:8]:443`",
        ),
        (
            ".evil.test",
            &["evil.test", "*.evil.test"][..],
            "`.evil.test` is read as `evil.test` and `*.evil.test`",
        ),
        (
            "**.evil.test:80",
            &["evil.test:80", "*.evil.test:80"][..],
            "`**.evil.test:80` is read as `evil.test:80` and `*.evil.test:80`",
        ),
    ] {
        let (rules, said) = HostRule::parse_deny(text).unwrap();
        let got: Vec<String> = rules.iter().map(HostRule::canonical).collect();
        assert_eq!(got, readings, "{text}");
        assert_eq!(said.as_deref(), Some(note));
        assert!(rules.iter().all(|r| r.text == text));
        assert!(HostRule::parse_allow(text, false).is_err(), "{text}");
    }
    for text in ["a*.com", "http://evil.test/", "a.com:443:80", "*.*", ""] {
        assert!(HostRule::parse_deny(text).is_err(), "{text}");
    }
}

fn arb_label() -> impl Strategy<Value = String> {
    "[a-z]([a-z0-9-]{0,6}[a-z0-9])?".prop_filter("no punycode", |l| !l.contains("--"))
}

fn arb_name(labels: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    prop::collection::vec(arb_label(), labels).prop_map(|l| l.join("."))
}

proptest! {
    #[test]
    fn never_panics_and_suggestions_parse(text in "\\PC{0,40}") {
        check_suggestion(&text)?;
    }

    #[test]
    fn plausible_suggestions_parse(text in "[a-z0-9*.:/@\\[\\]x-]{0,24}") {
        check_suggestion(&text)?;
    }

    #[test]
    fn canonical_parses_back(text in "[a-z0-9*.:\\[\\]x-]{0,24}") {
        if let Ok(rule) = HostRule::parse(&text, false) {
            let again = HostRule::parse(&rule.canonical(), false).unwrap();
            prop_assert_eq!((&again.pattern, again.port), (&rule.pattern, rule.port));
        }
    }

    /// The definition of `*.d`, by labels, against the matcher, by bytes.
    #[test]
    fn below_is_by_labels(parent in arb_name(1..4), target in arb_name(1..6)) {
        let rule = allow(&format!("*.{parent}"));
        let p: Vec<&str> = parent.split('.').collect();
        let t: Vec<&str> = target.split('.').collect();
        let loopback = host(&parent).is_loopback_name();
        prop_assume!(!loopback);
        prop_assert_eq!(rule.allows(&host(&target), 1), t.len() > p.len() && t.ends_with(&p));
        let child = host(&format!("x.{parent}"));
        prop_assert!(rule.allows(&child, 1));
        prop_assert!(!rule.allows(&host(&parent), 1));
    }

    #[test]
    fn middle_is_one_label(before in arb_name(1..3), after in arb_name(2..4), middle in arb_name(0..4)) {
        let rule = allow(&format!("{before}.*.{after}"));
        let labels = if middle.is_empty() { 0 } else { middle.split('.').count() };
        let target = if labels == 0 { format!("{before}.{after}") } else { format!("{before}.{middle}.{after}") };
        // `a.a.a.a` style names can match in another place; only the count of labels decides then.
        let total = before.split('.').count() + after.split('.').count() + labels;
        let want = labels == 1;
        if want {
            prop_assert!(rule.allows(&host(&target), 1));
        } else if total != before.split('.').count() + after.split('.').count() + 1 {
            prop_assert!(!rule.allows(&host(&target), 1));
        }
    }

    /// An allow list never opens more than a deny list with the same text would close.
    #[test]
    fn denies_covers_allows(rule in "[a-z*]{1,3}(\\.[a-z*]{1,3}){0,4}(:[1-9])?", target in arb_name(1..5), port in 1u16..9) {
        if let Ok(a) = HostRule::parse_allow(&rule, false) {
            let (d, _) = HostRule::parse_deny(&rule).unwrap();
            if a.allows(&host(&target), port) {
                prop_assert!(d.iter().any(|d| d.denies(&host(&target), port)));
            }
        }
    }
}

fn check_suggestion(text: &str) -> Result<(), TestCaseError> {
    if let Err(e) = HostRule::parse(text, false)
        && let Some(hint) = e.hint
    {
        let spelled = hint.trim_start_matches("write `").trim_end_matches('`');
        prop_assert!(
            HostRule::parse(spelled, false).is_ok(),
            "{} -> {}",
            text,
            spelled
        );
    }
    let _ = HostRule::parse_deny(text);
    Ok(())
}
