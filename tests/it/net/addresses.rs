//! Addresses: by themselves, behind allowed names, and named in a rule (NA-9, NA-10).

use super::lab::{Caller, Lab};
use super::{client, codes, lines};

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
