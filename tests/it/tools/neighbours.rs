//! Cases of our own beside the known ones: programs that leave the proxy out, or know it by other ways.

use super::{Lab, sh};

/// Told to go without a proxy, tools work and are filtered all the same.
#[test]
fn tools_told_to_use_no_proxy() {
    let lab = Lab::start();
    let tries = [
        "curl -fsS -m5 --noproxy '*' http://HOST/",
        "wget -q --no-proxy -T5 -t1 -O- http://HOST/",
        "/usr/bin/python3 -c 'import requests; s = requests.Session(); s.trust_env = False; r = s.get(\"http://HOST/\", timeout=5); r.raise_for_status(); print(r.text)'",
        "/usr/bin/python3 -c 'import http.client as h; c = h.HTTPConnection(\"HOST\", timeout=5); c.request(\"GET\", \"/\"); r = c.getresponse(); assert r.status == 200; print(r.read().decode())'",
        "perl -MHTTP::Tiny -e '$r = HTTP::Tiny->new(http_proxy => undef, proxy => undef, timeout => 5)->get(\"http://HOST/\"); die $r->{reason} unless $r->{success}; print $r->{content}'",
        "env -i PATH=$PATH curl -fsS -m5 http://HOST/",
    ];
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        for line in tries {
            let allowed = line.replace("HOST", "allowed.test");
            let out = desk
                .boxed(&["allowed.test"], &sh(&allowed))
                .output()
                .success();
            assert!(out.stdout.contains("ORIGIN allowed"), "{line}: {out}");
            let denied = line.replace("HOST", "denied.test");
            desk.control(&sh(&denied)).output().success();
            lab.forget_hits();
            let out = desk
                .boxed(&["allowed.test"], &sh(&denied))
                .output()
                .failure();
            // By name: a question does not tell the port.
            assert!(
                out.stderr
                    .contains("ccbox: denied network-outbound denied.test ["),
                "{line}: {out}"
            );
            assert_eq!(lab.hits(), Vec::<String>::new(), "{line}");
        }
    }
}

/// Perl's own client reads the variables.
#[test]
fn perl_finds_the_proxy() {
    let lab = Lab::start();
    let get = "perl -MHTTP::Tiny -e '$r = HTTP::Tiny->new(timeout => 5)->get($ARGV[0]); print \"$r->{status} $r->{reason}\\n\"' http://HOST/";
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        let line = get.replace("HOST", "allowed.test");
        let out = desk.boxed(&["allowed.test"], &sh(&line)).output().success();
        assert!(out.stdout.starts_with("200 "), "{out}");
        let line = get.replace("HOST", "denied.test");
        let out = desk.boxed(&["allowed.test"], &sh(&line)).output().success();
        assert_eq!(
            out.stdout, "403 Refused by sandbox policy: denied.test:80 not on the allow list\n",
            "{out}"
        );
        out.names_denied("denied.test:80");
    }
}

/// Programs that look a name up before they ask a proxy (`socks5://`, SOCKS4 and CONNECT by address).
#[test]
fn names_looked_up_before_the_proxy_is_asked() {
    let lab = Lab::start();
    let line = "curl -fsS -m5 --proxy socks5://${http_proxy#http://} http://HOST/ && A=$(getent ahostsv4 HOST | head -n1 | cut -d' ' -f1) \
        && curl -fsS -m5 -p --connect-to HOST:443:$A:443 --cacert /opt/lab/ca.pem https://HOST/";
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        let allowed = line.replace("HOST", "allowed.test");
        let out = desk
            .boxed(&["allowed.test"], &sh(&allowed))
            .output()
            .success();
        assert_eq!(out.stdout.matches("ORIGIN allowed").count(), 2, "{out}");
        let out = desk
            .boxed(&["allowed.test"], &sh(&line.replace("HOST", "denied.test")))
            .output()
            .failure();
        assert!(
            out.stderr
                .contains("ccbox: denied network-outbound denied.test ["),
            "{out}"
        );
    }
}

/// git with its proxy turned off, and with one of its own that is not there: the setting is git's, the rules are not.
#[test]
fn git_with_proxy_settings_of_its_own() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        for setting in ["-c http.proxy=", "-c http.proxy=$http_proxy"] {
            let line = format!("git {setting} ls-remote http://allowed.test/r 2>&1; true");
            lab.forget_hits();
            desk.boxed(&["allowed.test"], &sh(&line)).output().success();
            assert!(
                lab.hits_of("HTTP allowed")
                    .iter()
                    .any(|h| h.contains("/r/info/refs")),
                "{setting}: {:?}",
                lab.hits()
            );
            let line = format!("git {setting} ls-remote http://denied.test/r");
            lab.forget_hits();
            let out = desk.boxed(&["allowed.test"], &sh(&line)).output().failure();
            assert!(
                out.stderr
                    .contains("ccbox: denied network-outbound denied.test"),
                "{out}"
            );
            assert_eq!(lab.hits(), Vec::<String>::new());
        }
    }
}
