use super::*;
use crate::policy::egress::DenyReason;
use crate::policy::host::Authority;

fn refused(hint: Option<Hint>, file: Option<&str>) -> String {
    let to = Authority::parse(b"[2001:db8::1]:22", None).unwrap();
    let denial = Denial {
        reason: DenyReason::Denied,
        rule: "the rule".to_owned(),
        hint,
    };
    text(&Refusal::Policy(to, denial), file.map(Path::new))
}

#[test]
fn second_lines() {
    let first = "ccbox: the sandbox policy refused [2001:db8::1]:22: the rule. Retrying, or trying another way, will not help.\n";
    for (hint, file, second) in [
        (None, Some("/f"), ""),
        (
            Some(Hint::Add("L".into())),
            Some("/f"),
            "To allow it, add to /f: L\n",
        ),
        (
            Some(Hint::Add("L".into())),
            None,
            "To allow it, add to the spec: L\n",
        ),
        (
            Some(Hint::Remove("remove /f:3".into())),
            Some("/g"),
            "To allow it: remove /f:3\n",
        ),
        (
            Some(Hint::SetBy("set by /m:3".into())),
            Some("/g"),
            "The rule is set by /m:3.\n",
        ),
        (
            Some(Hint::Add("L".into())),
            Some("/a\nb\x1b[0m"),
            "To allow it, add to /a\nb\u{fffd}[0m: L\n",
        ),
    ] {
        assert_eq!(refused(hint, file), format!("{first}{second}"));
    }
}

/// A rule's file name must not end the status line or the head.
#[test]
fn heads_hold_no_line_breaks() {
    let to = Authority::parse(b"a.test:443", None).unwrap();
    let denial = Denial {
        reason: DenyReason::Denied,
        rule: "denied_domains \"x\" (/w/a\r\nX-Injected: 1:3)".to_owned(),
        hint: None,
    };
    let response = answer(&Refusal::Policy(to, denial), None);
    let reason = response.extensions().get::<ReasonPhrase>();
    assert!(reason.is_none_or(|r| !r.as_bytes().iter().any(|b| b"\r\n".contains(b))));
}

#[test]
fn status_and_word_of_each() {
    let to = Authority::parse(b"a.test:443", None).unwrap();
    let host = to.host.clone();
    let policy = |reason| {
        Refusal::Policy(
            to.clone(),
            Denial {
                reason,
                rule: String::new(),
                hint: None,
            },
        )
    };
    for (refusal, status, word) in [
        (policy(DenyReason::NotAllowed), 403, Some("not-allowed")),
        (policy(DenyReason::Denied), 403, Some("denied")),
        (
            policy(DenyReason::PrivateAddress),
            403,
            Some("private-address"),
        ),
        (policy(DenyReason::NetworkOff), 403, Some("network-off")),
        (
            Refusal::Dial(DialError::Unresolved(host.clone(), String::new())),
            502,
            Some("unresolved"),
        ),
        (
            Refusal::Dial(DialError::ResolveTimeout(host)),
            504,
            Some("unresolved"),
        ),
        (
            Refusal::Dial(DialError::Unreachable(to.clone(), String::new())),
            502,
            Some("unreachable"),
        ),
        (
            Refusal::Dial(DialError::ConnectTimeout(to.clone())),
            504,
            Some("unreachable"),
        ),
        (
            Refusal::Dial(DialError::Loop(to.clone())),
            502,
            Some("unreachable"),
        ),
        (
            Refusal::Upstream(to.clone(), String::new()),
            502,
            Some("upstream"),
        ),
        (Refusal::Malformed(String::new()), 400, None),
        (Refusal::Login, 407, None),
        (Refusal::Crowded, 503, None),
    ] {
        let response = answer(&refusal, None);
        assert_eq!(response.status().as_u16(), status, "{refusal:?}");
        let header = response
            .headers()
            .get(ERROR_HEADER)
            .map(|v| v.to_str().unwrap());
        assert_eq!(header, word, "{refusal:?}");
        let closes = response.headers().contains_key(CONNECTION);
        assert_eq!(closes, status != 407, "{refusal:?}");
    }
}
