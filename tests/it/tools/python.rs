//! Python: urllib, requests, httpx, pip, uv. Case PT-4.

use super::{Lab, lab::CA, sh};

const CLIENTS: &str = "import urllib.request, requests, sys
for url in sys.argv[1:]:
    print(urllib.request.urlopen(url, timeout=5).status, requests.get(url, timeout=5).status_code)
";

/// PT-4: the two common clients, over HTTP and HTTPS; no SOCKS address stands in their way.
#[test]
fn urllib_and_requests() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        let argv = [
            "/usr/bin/python3",
            "-c",
            CLIENTS,
            "http://allowed.test/",
            "https://allowed.test/",
        ];
        for command in [desk.control(&argv), desk.boxed(&["allowed.test"], &argv)] {
            assert_eq!(
                command.trust_lab().output().success().stdout,
                "200 200\n200 200\n"
            );
        }
        let argv = ["/usr/bin/python3", "-c", CLIENTS, "http://denied.test/"];
        desk.control(&argv).output().success();
        let out = desk.boxed(&["allowed.test"], &argv).output().failure();
        assert!(out.stderr.contains("403"), "{out}");
        out.names_denied("denied.test:80");
    }
}

const HTTPX: &str = "import httpx, ssl, sys
trust = ssl.create_default_context(cafile=sys.argv[1])
for url in sys.argv[2:]:
    print(httpx.Client(verify=trust).get(url, timeout=5).status_code)
";

/// PT-4: httpx makes a client for every proxy variable it sees, at once, so one it cannot use ends the program.
#[test]
fn httpx() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        let argv = |url| {
            [
                "/usr/bin/python3",
                "-c",
                HTTPX,
                CA,
                "http://allowed.test/",
                url,
            ]
        };
        let both = argv("https://allowed.test/");
        for command in [desk.control(&both), desk.boxed(&["allowed.test"], &both)] {
            assert_eq!(command.output().success().stdout, "200\n200\n");
        }
        let plain = desk.boxed(&["allowed.test"], &argv("http://denied.test/"));
        let out = plain.output().success();
        assert_eq!(out.stdout, "200\n403\n", "{out}");
        out.names_denied("denied.test:80");
        let tls = argv("https://denied.test/");
        desk.control(&tls).output().success();
        let out = desk.boxed(&["allowed.test"], &tls).output().failure();
        let why = "httpx.ProxyError: 403 Refused by sandbox policy: denied.test:443 not on the allow list";
        assert!(out.stderr.contains(why), "{out}");
        out.names_denied("denied.test:443");
    }
}

/// uv installs from an index that the spec allows, and says why it cannot from another.
#[test]
fn uv_pip_install() {
    let lab = Lab::start();
    let script = "uv pip install -q --no-config --python /usr/bin/python3 --target lib --allow-insecure-host pypi.test --default-index http://pypi.test/simple ccboxlab \
        && PYTHONPATH=lib /usr/bin/python3 -c 'import ccboxlab; print(ccboxlab.answer())'";
    for &caller in lab.callers() {
        for allow in [None, Some("pypi.test"), Some("allowed.test")] {
            let desk = lab.desk(caller);
            let command = allow.map_or_else(
                || desk.control(&sh(script)),
                |a| desk.boxed(&[a], &sh(script)),
            );
            let out = command.env("UV_HTTP_RETRIES", "0").output();
            if allow == Some("allowed.test") {
                let out = out.failure();
                out.names_denied("pypi.test:80");
                assert!(out.stderr.contains("403"), "{out}");
            } else {
                assert_eq!(out.success().stdout, "from the wheel\n");
            }
        }
    }
}

fn pip(index: &str) -> String {
    let host = index.split('/').nth(2).unwrap();
    let trusted = if index.starts_with("http:") {
        format!("--trusted-host {host}")
    } else {
        String::new()
    };
    format!(
        "/usr/bin/python3 -m pip install -q --no-input --retries 0 --timeout 10 --target lib -i {index} {trusted} ccboxlab && PYTHONPATH=lib /usr/bin/python3 -c 'import ccboxlab; print(ccboxlab.answer())'"
    )
}

/// pip installs from an index that the spec allows, and says why it cannot from another.
#[test]
fn pip_install() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let script = pip("http://pypi.test/simple");
        let out = lab.desk(caller).control(&sh(&script)).output().success();
        assert_eq!(out.stdout, "from the wheel\n", "{out}");
        let out = lab
            .desk(caller)
            .boxed(&["pypi.test"], &sh(&script))
            .output()
            .success();
        assert_eq!(out.stdout, "from the wheel\n", "{out}");
        let out = lab
            .desk(caller)
            .boxed(&["allowed.test"], &sh(&script))
            .output()
            .failure();
        out.names_denied("pypi.test:80");
        assert!(!out.stderr.to_lowercase().contains("socks"), "{out}");
    }
}

/// With no spec pip reaches the public index, because the baseline has it.
#[test]
fn pip_install_without_a_spec() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let script = pip("https://pypi.org/simple");
        for bare in [false, true] {
            let desk = lab.desk(caller);
            let command = if bare {
                desk.bare(&sh(&script))
            } else {
                desk.control(&sh(&script))
            };
            let out = command.trust_lab().output().success();
            assert_eq!(out.stdout, "from the wheel\n", "{out}");
        }
    }
}
