//! Python: urllib, requests, pip. Case PT-4.

use super::{Lab, sh};

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
