//! A connection to an allowed host is no way to another host of the same server.

use super::lab::{CA, Lab};

/// No variable, no proxy.
const BARE: &str =
    "env -u http_proxy -u https_proxy -u HTTP_PROXY -u HTTPS_PROXY -u ALL_PROXY -u all_proxy";
/// Ways to ask `allowed.test` for `denied.test` over plain HTTP.
const WAYS: [(&str, &str); 3] = [
    ("caught", "BARE curl"),
    ("tunnel", "curl -p"),
    ("socks", "curl --proxy $CCBOX_SOCKS_PROXY"),
];

/// The Host field of a connection that leads to one host.
#[test]
fn plain_http_asks_for_its_own_host() {
    let lab = Lab::start();
    let control = lab.desk(lab.callers()[0]);
    let argv = [
        "curl",
        "-sS",
        "-m5",
        "-H",
        "Host: denied.test",
        "http://allowed.test/",
    ];
    let out = control.control(&argv).output().success();
    assert!(
        out.stdout.contains("host=denied.test"),
        "the server has both: {out}"
    );
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        for (name, way) in WAYS {
            let way = way.replace("BARE", BARE);
            lab.forget_hits();
            let script = format!(
                "{way} -sS -m5 http://allowed.test/1; {way} -sS -m5 http://allowed.test/2; {way} -sS -m5 -H 'Host: denied.test' http://allowed.test/3; true"
            );
            let out = desk
                .with_spec(
                    &desk.spec(&["allowed.test"], ""),
                    &[],
                    &["sh", "-c", &script],
                )
                .output()
                .success();
            out.names_denied("denied.test:80");
            assert_eq!(
                out.stdout.matches("ORIGIN allowed").count(),
                2,
                "{name}: {out}"
            );
            assert!(
                out.stdout.contains("policy refused denied.test:80"),
                "{name}: {out}"
            );
            assert!(
                out.stderr
                    .contains("HTTP host in a connection to allowed.test:80, not its own"),
                "{name}: {out}"
            );
            assert!(
                !lab.hits().iter().any(|h| h.contains("denied")),
                "{name}: {:?}",
                lab.hits()
            );
        }
    }
}

/// HTTP/2 says its host where nobody reads it.
#[test]
fn http2_without_tls_does_not_pass() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        for way in [BARE.to_owned() + " curl", "curl -p".to_owned()] {
            let script =
                format!("{way} -sS -m5 --http2-prior-knowledge http://allowed.test/; true");
            let spec = desk.spec(&["allowed.test"], "");
            let out = desk
                .with_spec(&spec, &[], &["sh", "-c", &script])
                .output()
                .success();
            out.names_denied("allowed.test:80");
            assert!(!out.stdout.contains("ORIGIN"), "{out}");
            assert!(out.stderr.contains("neither HTTP/1 nor TLS"), "{out}");
        }
    }
}

/// The TLS name, in tunnels and on caught connections.
#[test]
fn tls_asks_for_its_own_host() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        for (way, reached) in [
            (BARE.to_owned() + " curl", false),
            ("curl".to_owned(), false),
            ("curl --proxy $CCBOX_SOCKS_PROXY".to_owned(), false),
            ("curl".to_owned(), true),
        ] {
            let name = if reached {
                "allowed.test"
            } else {
                "denied.test"
            };
            let script = format!(
                "{way} -sS -m5 --cacert {CA} --connect-to {name}:443:allowed.test:443 https://{name}/; true"
            );
            lab.forget_hits();
            let spec = desk.spec(&["allowed.test"], "");
            let out = desk
                .with_spec(&spec, &[], &["sh", "-c", &script])
                .output()
                .success();
            assert_eq!(
                out.stdout.contains("ORIGIN allowed"),
                reached,
                "{way}: {out}"
            );
            if !reached {
                let out = out.names_denied("denied.test:443");
                assert!(
                    out.stderr
                        .contains("TLS name in a tunnel to allowed.test:443"),
                    "{way}: {out}"
                );
                assert!(
                    !lab.hits().iter().any(|h| h.contains("HTTP")),
                    "{way}: {:?}",
                    lab.hits()
                );
            }
        }
    }
}
