//! R46: a proxy of the caller's network behind ours, over HTTP and over TLS, and proxies of the caller in place of ours.

use super::lab::{CA, Caller, Desk, Lab, LabCommand};

/// As an address has it: the backslash, the at sign, the slash and the colon escaped.
const LOGIN: &str = "corp%5Cme:p%40ss%2Fw%3Ard";

fn sh(script: &str) -> [&str; 3] {
    ["sh", "-c", script]
}

/// Both kinds of proxy.
fn proxies(login: &str) -> [(&'static str, String); 2] {
    [
        ("plain", format!("http://{login}@proxy.test:3128")),
        ("tls", format!("https://{login}@proxy.test:3129/")),
    ]
}

/// A command whose caller has these proxy variables.
fn behind(command: LabCommand, proxy: &str, no_proxy: &str) -> LabCommand {
    command
        .env("HTTPS_PROXY", proxy)
        .env("http_proxy", proxy)
        .env("NO_PROXY", no_proxy)
        .env("SSL_CERT_FILE", CA)
}

const EVERYTHING: &str = "curl -sS -m5 http://intranet.test/plain; curl -sS -m5 --cacert /opt/lab/ca.pem https://allowed.test/tunnel; \
    curl -sS -m5 --proxy $CCBOX_SOCKS_PROXY --cacert /opt/lab/ca.pem https://allowed.test/socks";

/// Names go to the proxy as they are, with the login; the sandbox sees neither.
#[test]
fn allowed_hosts_are_reached_through_it() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        for (kind, proxy) in proxies(LOGIN) {
            let desk = lab.desk(caller);
            let control = desk.control(&sh("curl -sS -m5 http://intranet.test/; test $? = 6"));
            control.output().success();
            lab.forget_hits();
            let command = desk.boxed(&["intranet.test", "allowed.test"], &sh(EVERYTHING));
            let out = behind(command, &proxy, "").output().success();
            assert_eq!(out.stdout.matches("ORIGIN allowed").count(), 3, "{out}");
            assert_eq!(out.notes(), Vec::<&str>::new(), "{out}");
            let seen = lab.hits_of("PROXY");
            assert_eq!(
                seen,
                [
                    format!("PROXY {kind} GET http://intranet.test:80/plain login"),
                    format!("PROXY {kind} CONNECT allowed.test:443 login"),
                    format!("PROXY {kind} CONNECT allowed.test:443 login"),
                ]
            );
            assert_eq!(lab.hits_of("DNS intranet"), Vec::<String>::new());
            let command = desk.boxed(&["allowed.test"], &sh("env; cat /proc/1/environ"));
            let out = behind(command, &proxy, "").output();
            assert!(
                !out.stdout.contains("proxy.test") && !out.stdout.contains("p%40ss"),
                "{out}"
            );
        }
    }
}

/// `ALL_PROXY=socks5h://…`, as an ssh(1) forward or a corporate SOCKS server has it: names go there as they are, requests
/// in origin form, and its failures are its own.
#[test]
fn a_socks_proxy_is_one_as_well() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        let allow = ["intranet.test", "allowed.test", "blocked.test"];
        for scheme in ["socks5h", "socks5"] {
            let proxy = format!("{scheme}://{LOGIN}@proxy.test:1080");
            lab.forget_hits();
            let through = |script: &str| desk.boxed(&allow, &sh(script)).env("ALL_PROXY", &proxy);
            let script = format!("{EVERYTHING}; curl -sS -m5 http://denied.test/; true");
            let out = through(&script).output().success();
            assert_eq!(out.stdout.matches("ORIGIN allowed").count(), 3, "{out}");
            out.names_denied("denied.test:80");
            assert_eq!(
                lab.hits_of("PROXY"),
                [
                    "PROXY socks 1 intranet.test:80 login",
                    "PROXY socks 1 allowed.test:443 login",
                    "PROXY socks 1 allowed.test:443 login",
                ]
            );
            assert!(
                lab.hits_of("HTTP").iter().any(|h| h.contains("GET /plain")),
                "{:?}",
                lab.hits()
            );
            assert_eq!(lab.hits_of("DNS intranet"), Vec::<String>::new());
            let out = through("curl -s -m5 -i http://blocked.test/").output();
            assert!(
                out.stdout.contains("x-ccbox-error: upstream-proxy"),
                "{out}"
            );
            let who = "ccbox: warning: the upstream proxy socks5h://proxy.test:1080 (ALL_PROXY)";
            let told = "did not open a connection to blocked.test:80: its rules do not allow it";
            assert_eq!(out.notes(), [format!("{who} {told}")], "{out}");
        }
        for (login, words) in [
            ("", "wants a login, and its address has none"),
            ("me:SEKRET@", "does not accept the login in its address"),
        ] {
            let command = desk.boxed(&allow, &sh("curl -s -m5 https://allowed.test/; true"));
            let proxy = format!("socks5h://{login}proxy.test:1080");
            let out = command.env("ALL_PROXY", proxy).output().success();
            assert!(out.notes()[0].ends_with(words), "{out}");
            assert!(!out.stderr.contains("SEKRET"), "{out}");
        }
        // What cannot be spoken is said, with what can.
        let command = desk.boxed(&allow, &sh("curl -s -m5 http://allowed.test/"));
        let out = command
            .env("ALL_PROXY", "socks4://proxy.test:1080")
            .output()
            .success();
        assert!(out.stdout.contains("ORIGIN allowed"), "{out}");
        assert!(
            out.notes()[0].ends_with("over `http://`, `https://` or `socks5h://`"),
            "{out}"
        );
    }
}

/// The rules come first: what they refuse the proxy never hears of.
#[test]
fn refused_hosts_never_reach_it() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let script = "curl -s -m5 -o /dev/null -w '%{http_code} ' http://denied.test/; curl -s -m5 -o /dev/null -w '%{http_connect} ' https://denied.test/; \
        curl -s -m5 -o /dev/null -w '%{http_connect}' https://10.77.0.5/; true";
    for (_, proxy) in proxies(LOGIN) {
        let control = behind(
            desk.control(&sh(
                "curl -s -m5 --proxy-cacert /opt/lab/ca.pem http://denied.test/",
            )),
            &proxy,
            "",
        );
        assert!(control.output().success().stdout.contains("ORIGIN denied"));
        lab.forget_hits();
        let out = behind(desk.boxed(&["allowed.test"], &sh(script)), &proxy, "").output();
        assert_eq!(out.stdout, "403 403 403", "{out}");
        out.names_denied("denied.test:80")
            .names_denied("denied.test:443");
        assert_eq!(lab.hits(), Vec::<String>::new());
    }
}

/// Hosts of the caller's `NO_PROXY`, and every host with `upstream_proxy = "none"`, are dialled directly.
#[test]
fn some_hosts_are_reached_without_it() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let script = "curl -sS -m5 http://allowed.test/; curl -sS -m5 http://api.allowed.test/; curl -sS -m5 http://203.0.113.10/";
    let allow = ["allowed.test", "api.allowed.test", "203.0.113.10"];
    let proxied = |command: LabCommand, no_proxy: &str| {
        lab.forget_hits();
        let (_, proxy) = &proxies(LOGIN)[0];
        let out = behind(command, proxy, no_proxy).output().success();
        assert_eq!(out.stdout.matches("ORIGIN allowed").count(), 3, "{out}");
        lab.hits_of("PROXY").len()
    };
    for (no_proxy, want) in [
        ("", 3),
        ("*", 0),
        ("allowed.test", 1),
        (".allowed.test,203.0.113.0/24", 0),
        ("allowed.test:443,203.0.113.10:80", 2),
    ] {
        let got = proxied(desk.boxed(&allow, &sh(script)), no_proxy);
        assert_eq!(got, want, "NO_PROXY={no_proxy}");
    }
    let spec = desk.spec(&allow, "upstream_proxy = \"none\"");
    assert_eq!(proxied(desk.with_spec(&spec, &[], &sh(script)), ""), 0);
}

/// The proxy in the spec, without any variable; and what `explain` says of it.
#[test]
fn the_spec_names_it() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    for (kind, proxy) in proxies(LOGIN) {
        let spec = desk.spec(&["intranet.test"], &format!("upstream_proxy = \"{proxy}\""));
        lab.forget_hits();
        let script = "curl -sS -m5 http://intranet.test/";
        let command = desk
            .with_spec(&spec, &[], &sh(script))
            .env("SSL_CERT_FILE", CA);
        assert!(command.output().success().stdout.contains("ORIGIN allowed"));
        let want = format!("PROXY {kind} GET http://intranet.test:80/ login");
        assert_eq!(lab.hits_of("PROXY"), [want]);
        let file = format!("{}/spec.toml", desk.inner);
        let explain = ["ccbox", "explain", "--spec", &file, "--", "true"];
        let out = desk.control(&explain).output().success();
        let at = if kind == "tls" {
            "https://proxy.test:3129"
        } else {
            "http://proxy.test:3128"
        };
        let line = format!("upstream proxy: everything through {at} (network.upstream_proxy)\n");
        assert!(out.stdout.contains(&line), "{out}");
        assert!(
            !out.stdout.contains("p%40ss") && !out.stdout.contains("p@ss"),
            "{out}"
        );
    }
}

/// What the proxy refuses is told from what the rules refuse, to the tool and to the user.
#[test]
fn its_failures_are_its_own() {
    let lab = Lab::start();
    let script = "curl -sS -m5 -i http://blocked.test/; curl -sS -m5 https://blocked.test/; curl -s -m5 --proxy $CCBOX_SOCKS_PROXY https://blocked.test/; true";
    for &caller in lab.callers() {
        for (kind, proxy) in proxies(LOGIN) {
            let desk = lab.desk(caller);
            let out = behind(desk.boxed(&["blocked.test"], &sh(script)), &proxy, "")
                .output()
                .success();
            assert!(
                out.stdout.starts_with("HTTP/1.1 403 Blocked By Corp"),
                "{out}"
            );
            assert!(!out.stdout.contains("ccbox"), "{out}");
            assert!(out.stderr.contains("response 502"), "{out}");
            let (scheme, port) = if kind == "tls" {
                ("https", 3129)
            } else {
                ("http", 3128)
            };
            let who = format!(
                "ccbox: warning: the upstream proxy {scheme}://proxy.test:{port} (HTTPS_PROXY)"
            );
            assert_eq!(
                out.notes(),
                [format!(
                    "{who} did not open a connection to blocked.test:443: 403 Blocked By Corp"
                )],
                "{out}"
            );
        }
        let each = "for s in http https; do curl -s -m5 -o /dev/null -w '%{http_code}%{http_connect} ' -D /dev/stdout $s://allowed.test/; done | grep -i -e error -e 502; true";
        for login in ["corp%5Cme:wrong", ""] {
            for (_, proxy) in proxies(login) {
                let desk = lab.desk(caller);
                let proxy = proxy.replace("//@", "//");
                let out = behind(desk.boxed(&["allowed.test"], &sh(each)), &proxy, "").output();
                assert_eq!(
                    out.stdout.matches("x-ccbox-error: upstream-proxy").count(),
                    2,
                    "{out}"
                );
                let words = if login.is_empty() {
                    "wants a login, and its address has none (407)"
                } else {
                    "does not accept the login in its address (407)"
                };
                assert!(out.notes().iter().all(|n| n.ends_with(words)), "{out}");
                assert!(
                    !out.notes().is_empty() && !out.stderr.contains("wrong"),
                    "{out}"
                );
            }
        }
    }
}

/// A certificate nobody vouches for is no proxy: nothing is sent to it, the login least of all.
#[test]
fn an_untrusted_certificate_is_refused() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let script = "curl -s -m5 -o /dev/null -w '%{http_code}' http://allowed.test/";
    for (proxy, authority) in [
        (
            "https://me:pw@proxy.test:3129",
            "/etc/ssl/certs/ca-certificates.crt",
        ),
        ("https://me:pw@203.0.113.32:3129", CA),
    ] {
        lab.forget_hits();
        let command = behind(desk.boxed(&["allowed.test"], &sh(script)), proxy, "");
        let out = command.env("SSL_CERT_FILE", authority).output();
        assert_eq!(out.stdout, "502", "{out}");
        assert!(
            out.stderr.contains("(http_proxy) cannot be trusted: "),
            "{out}"
        );
        assert_eq!(lab.hits_of("PROXY"), Vec::<String>::new(), "{out}");
    }
}

/// Larger than any buffer, both ways, and a server that speaks first, inside TLS to the proxy.
#[test]
fn tunnels_inside_tls_carry_everything() {
    let lab = Lab::start();
    let desk = lab.desk(Caller::User);
    let script = "import hashlib, os, socket
at = os.environ['https_proxy'].rpartition(':')
s = socket.create_connection(('127.0.0.1', int(at[2])))
s.sendall(b'CONNECT allowed.test:7000 HTTP/1.1\\r\\n\\r\\nEARLY')
data = os.urandom(5000000)
s.sendall(data)
s.shutdown(socket.SHUT_WR)
got = b''
while x := s.recv(65536): got += x
print(b'BANNER lab' in got, ('GOT 5000005 ' + hashlib.sha256(b'EARLY' + data).hexdigest()).encode() in got)";
    let big = "curl -s -m60 -o /dev/null -w '%{size_download}' --cacert /opt/lab/ca.pem https://allowed.test/big?50000000";
    // TLS has no half-close that every proxy honours; this one ends both directions, after the answer of the plain one.
    let argv = ["/usr/bin/python3", "-c", script];
    let (_, plain) = &proxies(LOGIN)[0];
    let out = behind(desk.boxed(&["allowed.test"], &argv), plain, "")
        .output()
        .success();
    assert_eq!(out.stdout, "True True\n", "{out}");
    for (_, proxy) in proxies(LOGIN) {
        let out = behind(desk.boxed(&["allowed.test"], &sh(big)), &proxy, "")
            .output()
            .success();
        assert_eq!(out.stdout, "50000000", "{out}");
    }
}

fn with_port(desk: &Desk<'_>, key: &str, argv: &[&str]) -> LabCommand {
    let spec = desk.spec(&["allowed.test"], &format!("{key} = 9099"));
    desk.with_spec(&spec, &[], argv)
}

/// `http_proxy_port`: the tools are sent to the caller's own proxy, and the run says whose rules hold there. Other ports of the
/// host stay closed, and so does the rest of the network.
#[test]
fn a_proxy_of_the_caller_takes_the_place_of_ours() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        let script = "curl -s -m5 http://denied.test/; curl -s -m5 --noproxy '*' http://127.0.0.1:80/; curl -s -m5 --proxy $CCBOX_SOCKS_PROXY http://denied.test/; echo $?";
        let out = with_port(&desk, "http_proxy_port", &sh(script))
            .output()
            .success();
        assert_eq!(out.stdout, "HOST-LOOPBACK\n97\n", "{out}");
        let note = out.notes()[0].to_owned();
        assert!(
            note.starts_with("ccbox: notice: `network.http_proxy_port` (")
                && note.ends_with(": what goes through the proxy on port 9099 is under its rules, not under those of this sandbox"),
            "{out}"
        );
        out.names_denied("denied.test:80");
        // The other key: SOCKS alone goes there.
        let script = "echo $CCBOX_SOCKS_PROXY; curl -s -m5 -o /dev/null -w '%{http_code}\\n' http://denied.test/; curl -s -m5 http://allowed.test/";
        let out = with_port(&desk, "socks_proxy_port", &sh(script))
            .output()
            .success();
        assert!(
            out.stdout
                .starts_with("socks5h://127.0.0.1:9099\n403\nORIGIN allowed"),
            "{out}"
        );
    }
}
