use proptest::prelude::*;

use super::*;

fn to(text: &str) -> Authority {
    Authority::parse(text.as_bytes(), None).unwrap()
}

#[test]
fn addresses_of_proxies() {
    for (text, shown, login) in [
        ("http://proxy.corp:3128", "http://proxy.corp:3128", None),
        ("proxy.corp:3128", "http://proxy.corp:3128", None),
        ("proxy.corp", "http://proxy.corp:80", None),
        ("HTTP://Proxy.Corp./", "http://proxy.corp:80", None),
        ("https://proxy.corp", "https://proxy.corp:443", None),
        (
            " https://[2001:db8::1]:8443/ ",
            "https://[2001:db8::1]:8443",
            None,
        ),
        (
            "http://me:pw@10.0.0.1:8080",
            "http://10.0.0.1:8080",
            Some("me:pw"),
        ),
        ("http://me@proxy:1", "http://proxy:1", Some("me:")),
        (
            r"http://corp%5Cme:p%40s%3as%2f@proxy:1",
            "http://proxy:1",
            Some(r"corp\me:p@s:s/"),
        ),
        ("socks5h://Proxy", "socks5h://proxy:1080", None),
        (
            "SOCKS5://me:pw@127.0.0.1:9050/",
            "socks5h://127.0.0.1:9050",
            Some("me:pw"),
        ),
        // Nobody's spelling by the book, and everybody's in practice.
        (
            "http://me:a@b/c@proxy:1",
            "http://proxy:1",
            Some("me:a@b/c"),
        ),
    ] {
        let proxy = ProxyUrl::parse(text).unwrap();
        assert_eq!(proxy.to_string(), shown, "{text}");
        let got = proxy
            .login
            .as_ref()
            .map(|l| std::str::from_utf8(l.user_pass()).unwrap());
        assert_eq!(got, login, "{text}");
        assert!(
            !format!("{proxy:?}").contains("pw"),
            "a password is not printed"
        );
    }
    for (text, why) in [
        ("socks4a://proxy:1080", ProxyUrlError::Scheme),
        ("socks://proxy:1080", ProxyUrlError::Scheme),
        ("ftp://proxy", ProxyUrlError::Scheme),
        ("http://", ProxyUrlError::Address(HostError::Empty)),
        ("http://proxy:0", ProxyUrlError::Address(HostError::Port)),
        (
            "http://proxy:99999",
            ProxyUrlError::Address(HostError::Port),
        ),
        (
            "http://0x7f.1:3128",
            ProxyUrlError::Address(HostError::Numeric),
        ),
        ("http://proxy:1/path", ProxyUrlError::Path),
        ("http://a%zz@proxy:1", ProxyUrlError::Login),
        ("http://a%3ab:c@proxy:1", ProxyUrlError::Login),
        ("http://a:b%0d%0aX@proxy:1", ProxyUrlError::Login),
    ] {
        assert_eq!(ProxyUrl::parse(text), Err(why), "{text}");
    }
}

/// R46: every form of an entry, what it covers and what it leaves.
#[test]
fn no_proxy() {
    for (list, covered, left) in [
        ("", &[][..], &["a.test:443", "10.0.0.1:80"][..]),
        ("*", &["a.test:443", "10.0.0.1:80", "[2001:db8::1]:1"], &[]),
        (
            "corp.test",
            &["corp.test:443", "a.corp.test:443", "a.b.corp.test:1"],
            &["evilcorp.test:443", "corp.test.evil:443", "test:443"],
        ),
        (
            ".corp.test",
            &["corp.test:443", "a.corp.test:443"],
            &["evilcorp.test:443"],
        ),
        (
            "*.corp.test",
            &["corp.test:443", "a.corp.test:443"],
            &["evilcorp.test:443"],
        ),
        (
            "CORP.Test.",
            &["corp.test:443", "A.corp.test:443"],
            &["corp:443"],
        ),
        (
            "corp.test:8080",
            &["corp.test:8080", "a.corp.test:8080"],
            &["corp.test:443"],
        ),
        (
            "10.1.2.3",
            &["10.1.2.3:80"],
            &["10.1.2.30:80", "110.1.2.3:80"],
        ),
        ("10.1.2.3:80", &["10.1.2.3:80"], &["10.1.2.3:81"]),
        (
            "10.0.0.0/8",
            &["10.1.2.3:80", "10.255.255.255:1"],
            &["11.0.0.1:80", "a.test:80"],
        ),
        ("10.1.2.3/8", &["10.200.0.1:80"], &["11.0.0.1:80"]),
        (
            "0.0.0.0/0",
            &["10.1.2.3:80"],
            &["[2001:db8::1]:80", "a.test:80"],
        ),
        ("192.168.7.7/32", &["192.168.7.7:1"], &["192.168.7.6:1"]),
        (
            "2001:db8::1",
            &["[2001:db8::1]:443"],
            &["[2001:db8::2]:443"],
        ),
        (
            "[2001:db8::1]:443",
            &["[2001:db8::1]:443"],
            &["[2001:db8::1]:80"],
        ),
        (
            "2001:db8::/32",
            &["[2001:db8:1::9]:443"],
            &["[2001:db9::]:443", "10.0.0.1:1"],
        ),
        ("[fd00::]/8", &["[fd12::1]:443"], &["[fe80::1]:443"]),
        (
            "a.test, b.test  c.test",
            &["a.test:1", "b.test:1", "c.test:1"],
            &["d.test:1"],
        ),
        // Neither an error nor everything.
        (
            "<local>,192.168.*,10.0.0.0/33,x/8,a b:0,,",
            &["a:1"],
            &["192.168.1.1:80", "10.1.1.1:80", "b:1"],
        ),
    ] {
        let parsed = NoProxy::parse(list);
        for host in covered {
            assert!(parsed.covers(&to(host)), "`{list}` covers {host}");
        }
        for host in left {
            assert!(!parsed.covers(&to(host)), "`{list}` leaves {host}");
        }
    }
}

fn chain(vars: &[(&str, &str)]) -> (Chain, Vec<String>) {
    Chain::from_variables(|name| {
        let found = vars.iter().find(|(n, _)| *n == name);
        found.map(|(_, v)| (*v).to_owned())
    })
}

#[test]
fn which_variable_counts() {
    for (vars, tunnel, request) in [
        (&[][..], None, None),
        (
            &[("HTTPS_PROXY", "http://t:1")][..],
            Some("http://t:1"),
            None,
        ),
        (&[("HTTP_PROXY", "http://r:1")], None, Some("http://r:1")),
        (
            &[("ALL_PROXY", "http://a:1")],
            Some("http://a:1"),
            Some("http://a:1"),
        ),
        (
            &[
                ("HTTPS_PROXY", "http://t:1"),
                ("https_proxy", "http://l:1"),
                ("all_proxy", "a:1"),
            ],
            Some("http://l:1"),
            Some("http://a:1"),
        ),
        (
            &[("https_proxy", ""), ("HTTPS_PROXY", "http://t:1")],
            Some("http://t:1"),
            None,
        ),
        (
            &[("HTTPS_PROXY", "t:1"), ("NO_PROXY", "x.test")],
            None,
            None,
        ),
        (
            &[
                ("HTTPS_PROXY", "t:1"),
                ("NO_PROXY", "x.test"),
                ("no_proxy", "y"),
            ],
            Some("http://t:1"),
            None,
        ),
    ] {
        let (chain, said) = chain(vars);
        assert_eq!(said, Vec::<String>::new());
        for (what, want) in [(Use::Tunnel, tunnel), (Use::Request, request)] {
            let got = chain
                .hop(&to("x.test:443"), what)
                .map(|h| h.proxy.to_string());
            assert_eq!(got.as_deref(), want, "{vars:?} {what:?}");
        }
    }
}

#[test]
fn what_cannot_be_used_is_said_without_the_password() {
    let (chain, said) = chain(&[
        ("ALL_PROXY", "socks4://me:pw@p:1080"),
        ("HTTPS_PROXY", "https://me:pw@p:99999"),
    ]);
    assert_eq!(chain, Chain::default());
    assert_eq!(
        said,
        [
            "`HTTPS_PROXY` cannot be used, connections do not go through it: no address of a proxy: not a port between 1 and 65535",
            "`ALL_PROXY` cannot be used, connections do not go through it: a proxy is spoken to over `http://`, `https://` or `socks5h://`",
        ]
    );
}

#[test]
fn loopback_is_never_behind_a_proxy() {
    let chain = Chain::through(ProxyUrl::parse("p:1").unwrap(), |_| None);
    for host in [
        "localhost:80",
        "a.localhost:80",
        "127.0.0.1:80",
        "127.9.9.9:80",
        "[::1]:80",
    ] {
        assert_eq!(chain.hop(&to(host), Use::Tunnel), None, "{host}");
    }
    for host in ["10.0.0.1:80", "169.254.1.1:80", "x.test:80"] {
        assert!(chain.hop(&to(host), Use::Tunnel).is_some(), "{host}");
    }
    assert_eq!(
        chain.words(),
        ["everything through http://p:1 (network.upstream_proxy)"]
    );
    let (chain, _) = self::chain(&[("https_proxy", "https://u:p@t"), ("HTTP_PROXY", "r")]);
    assert_eq!(
        chain.words(),
        [
            "tunnels and HTTPS through https://t:443 (https_proxy)",
            "plain HTTP through http://r:80 (HTTP_PROXY)"
        ]
    );
}

proptest! {
    #[test]
    fn nothing_panics(text in "\\PC*", url in "[a-z%:/@.0-9\\[\\]]*") {
        let _ = ProxyUrl::parse(&text);
        let _ = ProxyUrl::parse(&url);
        let list = NoProxy::parse(&text);
        let _ = list.covers(&to("10.0.0.1:80"));
        let _ = NoProxy::parse(&url).covers(&to("a.b.test:80"));
    }

    #[test]
    fn what_is_read_is_shown_the_same(host in "[a-z]{1,8}(\\.[a-z]{1,8}){0,3}", port in 1_u16..) {
        let proxy = ProxyUrl::parse(&format!("{host}:{port}")).unwrap();
        prop_assert_eq!(ProxyUrl::parse(&proxy.to_string()), Ok(proxy));
    }
}
