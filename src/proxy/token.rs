//! The per-run secret of clients, where the network namespace is not the boundary (egress-proxy §5).

use hyper::header::{HeaderMap, PROXY_AUTHORIZATION};

/// The user name that goes with the token.
pub(super) const USER: &str = "ccbox";

/// A per-run token.
pub(super) struct Token {
    secret: String,
    basic: String,
}

impl Token {
    pub(super) fn new(secret: String) -> Self {
        let basic = base64(format!("{USER}:{secret}").as_bytes());
        Self { secret, basic }
    }

    /// `Proxy-Authorization: Basic base64(ccbox:token)`.
    pub(super) fn accepts_header(&self, headers: &HeaderMap) -> bool {
        let Some(value) = headers.get(PROXY_AUTHORIZATION) else {
            return false;
        };
        let Some((scheme, credentials)) = value.as_bytes().split_at_checked(6) else {
            return false;
        };
        scheme.eq_ignore_ascii_case(b"basic ")
            && same(credentials.trim_ascii(), self.basic.as_bytes())
    }

    /// RFC 1929 user name and password.
    pub(super) fn accepts_login(&self, user: &[u8], password: &[u8]) -> bool {
        // Both are compared, so that the time does not tell which one was wrong.
        same(user, USER.as_bytes()) & same(password, self.secret.as_bytes())
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Compares without stopping at the first difference; only the length, which is no secret, shows in the time.
fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let difference = a.iter().zip(b).fold(0_u8, |acc, (x, y)| acc | (x ^ y));
    std::hint::black_box(difference) == 0
}

/// RFC 4648 §4, encoding only: credentials are compared encoded, never decoded.
pub(super) fn base64(data: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(data.len().div_ceil(3) * 4);
    for chunk in data.chunks(3) {
        let word = chunk
            .iter()
            .chain([0, 0].iter())
            .take(3)
            .fold(0_usize, |acc, b| (acc << 8) | usize::from(*b));
        for i in 0..4 {
            let digit = ALPHABET.get((word >> (18 - 6 * i)) & 63).copied();
            let digit = digit.filter(|_| i <= chunk.len()).unwrap_or(b'=');
            out.push(char::from(digit));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_4648_vectors() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn headers_and_logins() {
        let token = Token::new("s3cret".to_owned());
        for (value, want) in [
            ("Basic Y2Nib3g6czNjcmV0", true),
            ("basic  Y2Nib3g6czNjcmV0", true),
            ("Basic Y2Nib3g6czNjcmV1", false),
            ("Basic Y2Nib3g6czNjcmV0x", false),
            ("Bearer Y2Nib3g6czNjcmV0", false),
            ("Basic", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(PROXY_AUTHORIZATION, value.parse().unwrap());
            assert_eq!(token.accepts_header(&headers), want, "{value}");
        }
        assert!(!token.accepts_header(&HeaderMap::new()));
        assert!(token.accepts_login(b"ccbox", b"s3cret"));
        assert!(!token.accepts_login(b"ccbox", b"s3creT"));
        assert!(!token.accepts_login(b"other", b"s3cret"));
        assert!(!token.accepts_login(b"", b""));
        assert!(!format!("{token:?}").contains("s3cret"));
    }
}
