//! What a rule means: wildcards, spellings, ports, and deny before allow (NA-6 to NA-8, NA-12).

use super::lab::{Caller, Lab};
use super::{client, client_with, codes, lines};

/// NA-6: `*.d` is any depth of labels below `d`, never `d`, never a string that ends in it.
#[test]
fn a_suffix_wildcard_matches_labels() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let argv = codes(&[
        "api.allowed.test",
        "a.b.allowed.test",
        "allowed.test",
        "evilallowed.test",
        "allowed.test.denied.test",
    ]);
    assert_eq!(
        desk.control(&argv)
            .output()
            .success()
            .stdout
            .matches(" 200")
            .count(),
        5
    );
    let out = desk.boxed(&["*.allowed.test"], &argv).output().success();
    let want = [
        "api.allowed.test 200",
        "a.b.allowed.test 200",
        "allowed.test 403",
        "evilallowed.test 403",
        "allowed.test.denied.test 403",
    ];
    assert_eq!(lines(&out.stdout), want, "{out}");
}

/// R42: a star in the middle is exactly one label.
#[test]
fn a_middle_wildcard_is_one_label() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let argv = codes(&[
        "svc.one.allowed.test",
        "svc.one.two.allowed.test",
        "api.allowed.test",
    ]);
    assert_eq!(
        desk.control(&argv)
            .output()
            .success()
            .stdout
            .matches(" 200")
            .count(),
        3
    );
    let out = desk
        .boxed(&["svc.*.allowed.test"], &argv)
        .output()
        .success();
    assert_eq!(
        lines(&out.stdout),
        [
            "svc.one.allowed.test 200",
            "svc.one.two.allowed.test 403",
            "api.allowed.test 403"
        ],
        "{out}"
    );
}

/// NA-7: case and one trailing dot do not matter, neither for allowing nor for denying; IDN folds to ASCII.
#[test]
fn names_are_compared_in_one_spelling() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let spec = desk.spec(
        &[
            "allowed.test",
            "*.denied.test",
            "denied.test",
            "bücher.test",
        ],
        "denied_domains = [\"Denied.Test\", \"*.Denied.Test\", \"bad.allowed.test\"]",
    );
    let argv = codes(&[
        "ALLOWED.Test",
        "allowed.test.",
        "xn--bcher-kva.test",
        "denied.test",
        "denied.test.",
        "DENIED.TEST",
        "allowed.test.denied.test",
    ]);
    assert_eq!(
        desk.control(&argv)
            .output()
            .success()
            .stdout
            .matches(" 200")
            .count(),
        5, // a name with a final dot is not looked up in the hosts file, from which the rest comes
    );
    lab.forget_hits();
    let out = desk.with_spec(&spec, &[], &argv).output().success();
    let want: Vec<bool> = lines(&out.stdout)
        .iter()
        .map(|l| l.ends_with(" 200"))
        .collect();
    assert_eq!(
        want,
        [true, true, true, false, false, false, false],
        "{out}"
    );
    assert_eq!(out.stdout.matches(" 403").count(), 4, "{out}");
    assert_eq!(lab.hits_of("HTTP denied"), Vec::<String>::new());
}

/// NA-8: deny beats allow for plain HTTP, CONNECT and SOCKS alike.
#[test]
fn deny_beats_allow_on_every_path() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let spec = desk.spec(
        &["*.allowed.test", "allowed.test"],
        "denied_domains = [\"bad.allowed.test\"]",
    );
    let script = "curl -s -m5 -o /dev/null -w '%{http_code}\\n' http://bad.allowed.test/; curl -s -m5 -k -o /dev/null -w '%{http_connect}\\n' https://bad.allowed.test/; \
        curl -s -m5 --proxy \"$CCBOX_SOCKS_PROXY\" -o /dev/null -w '%{exitcode}\\n' http://bad.allowed.test/; curl -s -m5 http://api.allowed.test/";
    assert!(
        desk.control(&["curl", "-s", "http://bad.allowed.test/"])
            .output()
            .success()
            .stdout
            .contains("ORIGIN")
    );
    lab.forget_hits();
    let out = desk
        .with_spec(&spec, &[], &["sh", "-c", script])
        .output()
        .success();
    let got = lines(&out.stdout);
    assert_eq!(got[..2], ["403", "403"], "{out}");
    assert_ne!(got[2], "0", "{out}");
    assert!(got[3].starts_with("ORIGIN allowed"), "{out}");
    assert_eq!(lab.hits_of("CONN").len(), 1, "{:?}", lab.hits());
}

/// NA-12: a rule with a port opens that port; a rule without opens any port of the host (semantics 13).
#[test]
fn a_port_in_a_rule_narrows_it() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let args = [
        "connect",
        "allowed.test:8443",
        "allowed.test:22",
        "allowed.test:443",
    ];
    let out = client(&desk, &["allowed.test:8443"], &args)
        .output()
        .success();
    let ok: Vec<bool> = lines(&out.stdout)
        .iter()
        .map(|l| l.contains(" 200"))
        .collect();
    assert_eq!(ok, [true, false, false], "{out}");
    assert_eq!(out.stdout.matches(" 403").count(), 2, "{out}");
    assert_eq!(
        lab.hits_of("CONN").len() + lab.hits_of("TRAP").len(),
        1,
        "{:?}",
        lab.hits()
    );
    let out = client(&desk, &["allowed.test"], &args).output().success();
    assert_eq!(out.stdout.matches(" 200").count(), 3, "{out}");
}

/// A lone star means public hosts; the fixed deny list and private addresses stay closed under it.
#[test]
fn a_star_is_not_everything() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let spec = desk.spec(&["*"], "");
    let out = desk
        .with_spec(
            &spec,
            &[],
            &codes(&[
                "allowed.test",
                "denied.test",
                "priv.test",
                "meta.test",
                "loop.test:9099",
                "169.254.169.254",
            ]),
        )
        .output()
        .success();
    let ok: Vec<bool> = lines(&out.stdout)
        .iter()
        .map(|l| l.ends_with(" 200"))
        .collect();
    assert_eq!(ok, [true, true, false, false, false, false], "{out}");
    let out = client_with(&desk, &spec, &["connect", "metadata.google.internal:80"])
        .output()
        .success();
    assert!(out.stdout.contains(" 403"), "{out}");
    assert!(
        lab.hits_of("DNS").iter().all(|h| !h.contains("metadata")),
        "{:?}",
        lab.hits()
    );
}
