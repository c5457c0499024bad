//! Without termination TLS is end to end: cases TL-1, TL-2.

use super::lab::{CA, Caller, Lab};

/// TL-1: the child sees the origin's own certificate and ALPN, and no trust is added.
#[test]
fn the_certificate_is_the_origins() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let argv = [
        "curl",
        "-sv",
        "-m5",
        "--cacert",
        CA,
        "https://allowed.test/",
    ];
    for command in [desk.control(&argv), desk.boxed(&["allowed.test"], &argv)] {
        let out = command.output().success();
        assert!(out.stderr.contains("issuer: CN=Lab CA"), "{out}");
        assert!(out.stderr.contains("ALPN"), "{out}");
        assert!(out.stdout.starts_with("ORIGIN allowed"), "{out}");
    }
    let argv = ["curl", "-s", "-m5", "https://allowed.test/"];
    for command in [desk.control(&argv), desk.boxed(&["allowed.test"], &argv)] {
        assert_eq!(
            command.output().code,
            Some(60),
            "an unknown authority stays unknown"
        );
    }
    assert!(lab.hits_of("SNI allowed.test").len() >= 2);
}

/// TL-2, D16: the caller's CA variables pass, and the file they name is readable in every view.
#[test]
fn the_callers_authority_keeps_working() {
    let lab = Lab::start();
    let ca = std::fs::read(lab.outer("opt/lab/ca.pem")).unwrap();
    let python = "import os, ssl, urllib.request, requests
print(urllib.request.urlopen('https://allowed.test/').status)
print(requests.get('https://allowed.test/').status_code)";
    let script = format!(
        "curl -s -m5 https://allowed.test/ | head -c 14; echo; /usr/bin/python3 -c \"{python}\""
    );
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        desk.write("corp/ca.pem", &ca);
        let file = format!("{}/corp/ca.pem", desk.inner);
        let bound = desk
            .spec(&["allowed.test"], "")
            .replace("view = \"host\"", "view = \"bound\"");
        let argv = ["sh", "-c", &script];
        for command in [
            desk.control(&argv),
            desk.boxed(&["allowed.test"], &argv),
            desk.with_spec(&bound, &[], &argv),
        ] {
            let names = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"];
            let out = names
                .into_iter()
                .fold(command, |c, n| c.env(n, &file))
                .output()
                .success();
            assert_eq!(out.stdout, "ORIGIN allowed\n200\n200\n", "{out}");
        }
        let out = desk
            .boxed(
                &["allowed.test"],
                &["curl", "-s", "-m5", "https://allowed.test/"],
            )
            .output();
        assert_eq!(
            out.code,
            Some(60),
            "without the variable there is no trust: {out}"
        );
    }
}
