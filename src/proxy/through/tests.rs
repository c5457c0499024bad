use super::*;
use crate::policy::upstream::ProxyUrl;

fn hop(url: &str) -> Hop {
    Hop {
        proxy: ProxyUrl::parse(url).unwrap(),
        named: "HTTPS_PROXY",
    }
}

fn to() -> Authority {
    Authority::parse(b"x.test:443", None).unwrap()
}

/// What a proxy that answers `answer` is asked, and what comes of it.
fn asked(url: &str, answer: &[u8]) -> (String, Result<Bytes, String>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (mut near, mut far) = tokio::io::duplex(1 << 20);
        far.write_all(answer).await.unwrap();
        far.shutdown().await.unwrap();
        let result = exchange(&mut near, &hop(url), &to()).await.unwrap();
        drop(near);
        let mut request = String::new();
        far.read_to_string(&mut request).await.unwrap();
        (request, result.map_err(|e| e.to_string()))
    })
}

#[test]
fn a_tunnel_is_asked_for_by_name() {
    let (request, early) = asked(
        "proxy:1",
        b"HTTP/1.1 200 Connection established\r\nX: y\r\n\r\nBANNER",
    );
    assert_eq!(
        request,
        "CONNECT x.test:443 HTTP/1.1\r\nHost: x.test:443\r\n\r\n"
    );
    assert_eq!(early, Ok(Bytes::from_static(b"BANNER")));
    let (request, early) = asked("http://me:p%40w@proxy:1", b"HTTP/1.0 200 OK\n\n");
    assert_eq!(
        request,
        "CONNECT x.test:443 HTTP/1.1\r\nHost: x.test:443\r\nProxy-Authorization: Basic bWU6cEB3\r\n\r\n"
    );
    assert_eq!(early, Ok(Bytes::new()));
}

#[test]
fn each_failure_has_its_words() {
    let head = "the upstream proxy http://proxy:1 (HTTPS_PROXY) ";
    let huge = [b"HTTP/1.1 200 OK\r\nX: ".to_vec(), vec![b'x'; 2 * MAX_HEAD]].concat();
    for (url, answer, want) in [
        ("proxy:1", &b""[..], "broke off: it closed the connection"),
        ("proxy:1", b"HTTP/1.1 200 OK\r\n", "did not answer in HTTP"),
        ("proxy:1", b"SSH-2.0-x\r\n\r\n", "did not answer in HTTP"),
        ("proxy:1", b"HTTP/1.1 wat\r\n\r\n", "did not answer in HTTP"),
        ("proxy:1", b"HTTP/1.1 2\xc3\xa9\r\n\r\n", "did not answer in HTTP"),
        ("proxy:1", &huge, "did not answer in HTTP"),
        (
            "proxy:1",
            b"HTTP/1.1 407 Auth\r\nProxy-Authenticate: Basic realm=x\r\n\r\n",
            "wants a login, and its address has none (407)",
        ),
        (
            "me:pw@proxy:1",
            b"HTTP/1.1 407 Auth\r\nProxy-Authenticate: Negotiate\r\nproxy-authenticate: basic realm=x\r\n\r\n",
            "does not accept the login in its address (407)",
        ),
        (
            "me:pw@proxy:1",
            b"HTTP/1.1 407 Auth\r\nProxy-Authenticate: Negotiate\r\nProxy-Authenticate: NTLM\r\n\r\n",
            "wants a login of another kind than Basic (407): Negotiate, NTLM; name a helper of this machine that logs in there (cntlm, px)",
        ),
        ("me:pw@proxy:1", b"HTTP/1.1 407\r\n\r\n", "does not accept the login in its address (407)"),
        (
            "proxy:1",
            b"HTTP/1.1 403 Blocked by corp\r\n\r\n",
            "did not open a connection to x.test:443: 403 Blocked by corp",
        ),
        ("proxy:1", b"HTTP/1.1 502\r\n\r\n", "did not open a connection to x.test:443: 502"),
    ] {
        assert_eq!(asked(url, answer).1, Err(format!("{head}{want}")), "{}", answer.len());
    }
}
