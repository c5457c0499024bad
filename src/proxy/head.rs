//! Request and response heads on their way through: what is for this hop only, and what is left out (RFC 9110 §7.6.1).

use hyper::Method;
use hyper::header::{
    CONNECTION, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE,
};

use crate::policy::host::Authority;

/// Hop-by-hop fields that HTTP/1.1 names, and the ones browsers invented.
const HOP_BY_HOP: [HeaderName; 5] = [
    CONNECTION,
    PROXY_AUTHORIZATION,
    PROXY_AUTHENTICATE,
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("keep-alive"),
];

/// Why a head cannot be passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum HeadError {
    /// `Transfer-Encoding: gzip, chunked`: the framing would be lost with the field.
    #[error("transfer codings other than chunked are not supported")]
    TransferCoding,
}

/// Makes a request head fit for the next hop. `upgrade` is what [`wanted_upgrade`] found.
pub(super) fn outgoing_request(
    headers: &mut HeaderMap,
    to: &Authority,
    upgrade: Option<HeaderValue>,
) -> Result<(), HeadError> {
    let trailers = headers
        .get_all(TE)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
        .any(|v| v.trim().eq_ignore_ascii_case("trailers"));
    strip(headers)?;
    headers.remove(TE);
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers.append(CONNECTION, HeaderValue::from_static("te"));
    }
    // This hop answers the expectation itself, when the body is first asked for; the next hop is sent the body unasked.
    headers.remove(EXPECT);
    if let Some(protocol) = upgrade {
        headers.insert(UPGRADE, protocol);
        headers.append(CONNECTION, HeaderValue::from_static("upgrade"));
    }
    // RFC 9112 §3.2.2: the target decides. A different Host would let an allowed name carry a request for another.
    let host = match to.port {
        80 => to.host.to_string(),
        _ => to.to_string(),
    };
    if let Ok(value) = HeaderValue::try_from(host) {
        headers.insert(HOST, value);
    }
    Ok(())
}

/// Makes a response head fit for the client. A switch of protocols keeps what says so.
pub(super) fn incoming_response(headers: &mut HeaderMap, switching: bool) -> Result<(), HeadError> {
    let protocol = headers.get(UPGRADE).filter(|_| switching).cloned();
    strip(headers)?;
    if let Some(protocol) = protocol {
        headers.insert(UPGRADE, protocol);
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    }
    Ok(())
}

fn strip(headers: &mut HeaderMap) -> Result<(), HeadError> {
    let coded = headers
        .get_all(TRANSFER_ENCODING)
        .iter()
        .any(|v| !v.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"));
    if coded {
        return Err(HeadError::TransferCoding);
    }
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
    // The connection to the next hop is framed anew, from what the body says about itself.
    headers.remove(TRANSFER_ENCODING);
    headers.remove(UPGRADE);
    Ok(())
}

/// The protocol a client asks to switch to. One is enough: of several the server would choose, and the answer need not say which.
pub(super) fn wanted_upgrade(method: &Method, headers: &HeaderMap) -> Option<HeaderValue> {
    let asked = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
        .any(|v| v.trim().eq_ignore_ascii_case("upgrade"));
    let mut fields = headers.get_all(UPGRADE).iter();
    let protocol = fields.next()?;
    let one = fields.next().is_none() && !protocol.as_bytes().contains(&b',');
    let seen = one && !switches_unseen(headers);
    (asked && seen && *method != Method::CONNECT).then(|| protocol.clone())
}

/// Whether an Upgrade field has a protocol in which requests for other hosts would pass unseen: HTTP of any version (RFC 9113 §3.1
/// and RFC 9110 §7.8) or TLS (RFC 2817).
pub(super) fn switches_unseen(headers: &HeaderMap) -> bool {
    headers
        .get_all(UPGRADE)
        .iter()
        .flat_map(|value| value.as_bytes().split(|b| *b == b','))
        .map(|name| name.trim_ascii().to_ascii_lowercase())
        .any(|name| {
            [&b"h2"[..], b"h3", b"http", b"tls"]
                .iter()
                .any(|p| name.starts_with(p))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                value.parse().unwrap(),
            );
        }
        map
    }

    fn out(fields: &[(&str, &str)]) -> HeaderMap {
        let mut headers = map(fields);
        let upgrade = wanted_upgrade(&Method::GET, &headers);
        let to = Authority::parse(b"Allowed.Test:8080", None).unwrap();
        outgoing_request(&mut headers, &to, upgrade).unwrap();
        headers
    }

    #[test]
    fn only_end_to_end_fields_pass() {
        assert_eq!(
            out(&[
                ("host", "evil.test"),
                ("accept", "*/*"),
                ("authorization", "Bearer x"),
                ("proxy-authorization", "Basic eA=="),
                ("proxy-connection", "keep-alive"),
                ("keep-alive", "timeout=5"),
                ("connection", "close, X-Hop"),
                ("x-hop", "1"),
                ("transfer-encoding", "Chunked"),
                ("upgrade", "h2c"),
                ("expect", "100-continue"),
                ("te", "gzip"),
                ("x-end", "2"),
            ]),
            map(&[
                ("host", "allowed.test:8080"),
                ("accept", "*/*"),
                ("authorization", "Bearer x"),
                ("x-end", "2"),
            ])
        );
    }

    #[test]
    fn host_is_the_target_without_the_default_port() {
        for (target, host) in [
            ("Allowed.Test.:80", "allowed.test"),
            ("allowed.test:81", "allowed.test:81"),
            ("[::1]:80", "[::1]"),
            ("[::1]:81", "[::1]:81"),
        ] {
            let mut headers = map(&[("host", "a"), ("host", "b"), ("connection", "host")]);
            let to = Authority::parse(target.as_bytes(), None).unwrap();
            outgoing_request(&mut headers, &to, None).unwrap();
            assert_eq!(headers, map(&[("host", host)]));
        }
    }

    #[test]
    fn trailers_and_upgrades_are_announced_anew() {
        assert_eq!(
            out(&[("te", "deflate, trailers"), ("connection", "te")]),
            map(&[
                ("te", "trailers"),
                ("connection", "te"),
                ("host", "allowed.test:8080")
            ])
        );
        assert_eq!(
            out(&[
                ("connection", "keep-alive, Upgrade"),
                ("upgrade", "websocket")
            ]),
            map(&[
                ("upgrade", "websocket"),
                ("connection", "upgrade"),
                ("host", "allowed.test:8080")
            ])
        );
        for fields in [
            &[("connection", "upgrade"), ("upgrade", "h2c")][..],
            &[("upgrade", "websocket")],
            &[("connection", "upgrade")],
        ] {
            assert_eq!(wanted_upgrade(&Method::GET, &map(fields)), None);
        }
    }

    #[test]
    fn other_transfer_codings_are_refused() {
        for value in ["gzip, chunked", "gzip", "chunked, chunked"] {
            let mut headers = map(&[("transfer-encoding", value)]);
            assert_eq!(
                incoming_response(&mut headers, false),
                Err(HeadError::TransferCoding)
            );
        }
    }

    #[test]
    fn responses_keep_the_switch() {
        let fields = [("connection", "Upgrade"), ("upgrade", "websocket")];
        let mut headers = map(&fields);
        incoming_response(&mut headers, true).unwrap();
        assert_eq!(
            headers,
            map(&[("connection", "upgrade"), ("upgrade", "websocket")])
        );
        let mut headers = map(&fields);
        incoming_response(&mut headers, false).unwrap();
        assert!(headers.is_empty());
    }
}
