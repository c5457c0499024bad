//! curl, wget and apt each read another spelling of the proxy variables: case PT-9.

use super::{Lab, lab::CA, sh};

/// PT-9: all spellings are there, and each tool finds its own.
#[test]
fn curl_wget_and_apt_find_the_proxy() {
    let lab = Lab::start();
    let script = "curl -s -m5 http://allowed.test/1 | head -c 14; echo
        wget -q -T5 -t1 -O- http://allowed.test/2 | head -c 14; echo
        f=$(mktemp -d)/f; /usr/lib/apt/apt-helper -o APT::Sandbox::User=\"$(id -un)\" download-file http://allowed.test/3 $f >/dev/null 2>&1; head -c 14 $f; echo";
    let variables =
        "env | grep -iE '^(http|https|all|no)_proxy=' | cut -d= -f1 | LC_ALL=C sort | tr '\\n' ' '";
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        let want = "ORIGIN allowed\n".repeat(3);
        assert_eq!(desk.control(&sh(script)).output().success().stdout, want);
        let out = desk
            .boxed(&["allowed.test"], &sh(script))
            .output()
            .success();
        assert_eq!(out.stdout, want, "{out}");
        assert_eq!(
            out.notes(),
            Vec::<&str>::new(),
            "silent on a clean run: {out}"
        );
        let out = desk
            .boxed(&["allowed.test"], &sh(variables))
            .output()
            .success();
        assert_eq!(
            out.stdout,
            "ALL_PROXY HTTPS_PROXY HTTP_PROXY NO_PROXY all_proxy http_proxy https_proxy no_proxy ",
            "{out}"
        );
    }
}

/// Each tool fails on a refused host, and the user reads which one and where to allow it.
#[test]
fn a_refusal_is_seen() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        for (script, target) in [
            ("curl -fsS -m5 http://denied.test/", "denied.test:80"),
            ("curl -fsSk -m5 https://denied.test/", "denied.test:443"),
            ("wget -q -T5 -t1 -O- http://denied.test/", "denied.test:80"),
            (
                "wget -q -T5 -t1 --no-check-certificate -O- https://denied.test/",
                "denied.test:443",
            ),
        ] {
            assert!(
                desk.control(&sh(script))
                    .output()
                    .success()
                    .stdout
                    .contains("ORIGIN denied")
            );
            lab.forget_hits();
            let out = desk
                .boxed(&["allowed.test"], &sh(script))
                .output()
                .failure();
            out.names_denied(target);
            assert!(
                out.stderr.contains("ccbox: hint: ") && out.stderr.contains("denied.test"),
                "{out}"
            );
            assert_eq!(lab.hits(), Vec::<String>::new(), "{script}");
        }
    }
}

/// HTTPS with certificate checks through CONNECT and through SOCKS.
#[test]
fn https_through_both_proxies() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        let script = format!(
            "curl -s -m5 --cacert {CA} https://allowed.test/; wget -q -T5 -t1 --ca-certificate={CA} -O- https://allowed.test/; \
            curl -s -m5 ${{CCBOX_SOCKS_PROXY:+--proxy $CCBOX_SOCKS_PROXY}} --cacert {CA} https://allowed.test/"
        );
        for command in [
            desk.control(&sh(&script)),
            desk.boxed(&["allowed.test"], &sh(&script)),
        ] {
            let out = command.output().success();
            assert_eq!(out.stdout.matches("ORIGIN allowed").count(), 3, "{out}");
        }
    }
}

/// apt reads an index and takes a package from a host that the spec allows, and says why it does not from another.
#[test]
fn apt_update_and_download() {
    let lab = Lab::start();
    let script = "mkdir -p a/lists/partial a/cache/archives/partial a/parts && : >a/status && echo 'deb [trusted=yes] http://apt.test/ ./' >a/sources.list
        apt() { apt-get -q -o APT::Sandbox::User=$(id -un) -o Dir::Etc::SourceList=$PWD/a/sources.list -o Dir::Etc::SourceParts=$PWD/a/parts \
            -o Dir::State=$PWD/a -o Dir::State::status=$PWD/a/status -o Dir::Cache=$PWD/a/cache -o Acquire::Languages=none -o Acquire::Retries=0 \
            -o APT::Update::Error-Mode=any \"$@\"; }
        apt update >&2 && apt download ccbox-lab >&2 && cat ccbox-lab_1.0.0_all.deb";
    for &caller in lab.callers() {
        for allow in [None, Some("apt.test"), Some("allowed.test")] {
            let desk = lab.desk(caller);
            let command = allow.map_or_else(
                || desk.control(&sh(script)),
                |a| desk.boxed(&[a], &sh(script)),
            );
            let out = command.output();
            if allow == Some("allowed.test") {
                let out = out.failure();
                out.names_denied("apt.test:80");
                assert!(out.stderr.contains("403"), "{out}");
            } else {
                assert_eq!(out.success().stdout, "from the archive\n");
            }
        }
    }
}
