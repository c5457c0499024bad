//! Programs that ignore proxy variables: filtered all the same, and they work.

use super::lab::{CA, Lab};

/// No variable, no proxy.
const BARE: &str = "unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy";

/// Names of the laboratory's DNS, not of its hosts file.
#[test]
fn programs_without_a_proxy_reach_what_is_allowed() {
    let lab = Lab::start();
    let script = format!(
        "{BARE}; curl -sS -m5 http://allowed.test/; echo a=$?; curl -sS -m5 --cacert {CA} https://allowed.test/; echo b=$?; curl -sS -m5 http://denied.test/; echo c=$?; /usr/bin/python3 -c \"import urllib.request as u; print(u.urlopen('http://allowed.test/', timeout=5).read().decode())\"; echo d=$?; curl -sS -m5 -H 'Host: denied.test' http://allowed.test/; echo e=$?; curl -sS -m5 http://203.0.113.10/; echo f=$?"
    );
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        lab.forget_hits();
        let spec = desk.spec(&["allowed.test"], "");
        let out = desk
            .with_spec(&spec, &[], &["sh", "-c", &script])
            .output()
            .success();
        for end in ["a=0", "b=0", "d=0"] {
            assert!(out.stdout.contains(end), "{out}");
        }
        assert!(out.stdout.contains("c=6"), "the name does not exist: {out}");
        assert!(!out.stdout.contains("f=0"), "{out}");
        assert_eq!(out.stdout.matches("ORIGIN allowed").count(), 3, "{out}");
        assert!(
            out.stdout.contains("policy refused denied.test:80"),
            "the Host field of another: {out}"
        );
        // A question does not tell the port.
        assert_eq!(
            out.stderr
                .matches("network-outbound denied.test [curl ")
                .count(),
            1,
            "{out}"
        );
        assert!(
            out.stderr.contains("allowed_domains = [\"denied.test\"]"),
            "{out}"
        );
        out.names_denied("denied.test:80");
        // What no name led to is not caught, and told as everywhere.
        out.names_denied("203.0.113.10:80");
        assert!(
            !lab.hits().iter().any(|h| h.contains("denied")),
            "{:?}",
            lab.hits()
        );
    }
}
