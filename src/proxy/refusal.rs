//! What a client is told when it does not get through, and what the user is told about it.
//!
//! Only a refusal by policy is a violation; a host that is down is not. A refusal says that it is one, because tools and agents
//! that take it for a broken proxy try to get around it.

use std::fmt::Write as _;
use std::path::Path;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full, combinators::BoxBody};
use hyper::ext::ReasonPhrase;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, PROXY_AUTHENTICATE};
use hyper::{Response, StatusCode};

use super::Process;
use super::dial::DialError;
use crate::policy::egress::{Denial, Hint};
use crate::policy::host::Authority;
use crate::report::{Sink, Violation};

/// Body of every answer.
pub(super) type Body = BoxBody<Bytes, hyper::Error>;

const ERROR_HEADER: HeaderName = HeaderName::from_static("x-ccbox-error");

/// An answer that is not the upstream's.
#[derive(Debug)]
pub(super) enum Refusal {
    /// By policy: 403.
    Policy(Authority, Denial),
    /// The upstream cannot be reached: 502 or 504.
    Dial(DialError),
    /// The upstream broke off or spoke no HTTP: 502.
    Upstream(Authority, String),
    /// The request cannot be understood or is not for a proxy: 400.
    Malformed(String),
    /// A request that would be repeated to whoever asks: 405.
    Trace,
    /// The token is missing or wrong: 407.
    Login,
    /// Too many connections: 503.
    Crowded,
}

impl Refusal {
    /// A failed dial; one that the policy stopped at the address is a policy refusal.
    pub(super) fn dial(to: &Authority, error: DialError) -> Self {
        match error {
            DialError::Denied(denial) => Self::Policy(to.clone(), denial),
            error @ (DialError::Unresolved(..)
            | DialError::ResolveTimeout(_)
            | DialError::Unreachable(..)
            | DialError::ConnectTimeout(_)
            | DialError::Proxy(_)
            | DialError::Loop(_)) => Self::Dial(error),
        }
    }
}

/// The violation line of a refused destination.
pub(super) fn report(sink: &dyn Sink, target: String, denial: &Denial, asked: Option<Process>) {
    let (pid, process) = asked.map(|p| (p.pid, p.name)).unzip();
    sink.violation(Violation {
        action: "network-outbound",
        target,
        process,
        pid,
        rule: denial.rule.clone(),
        hint: denial.hint.as_ref().map(Hint::to_string),
    });
}

/// The text for people: one line that says what and why, and, for a policy refusal that can be lifted, one that says how.
pub(super) fn text(refusal: &Refusal, hint_file: Option<&Path>) -> String {
    match refusal {
        Refusal::Policy(to, denial) => {
            let mut text = format!(
                "ccbox: the sandbox policy refused {to}: {}. Retrying, or trying another way, will not help.\n",
                denial.rule
            );
            // Writing to a String does not fail.
            let _ = match (&denial.hint, hint_file) {
                (Some(Hint::Add(line)), Some(file)) => {
                    writeln!(text, "To allow it, add to {}: {line}", file.display())
                }
                (Some(Hint::Add(line)), None) => {
                    writeln!(text, "To allow it, add to the spec: {line}")
                }
                (Some(Hint::Remove(what)), _) => writeln!(text, "To allow it: {what}"),
                (Some(Hint::SetBy(who)), _) => writeln!(text, "The rule is {who}."),
                (None, _) => Ok(()),
            };
            printable(&text)
        }
        Refusal::Dial(error) => printable(&format!("ccbox: {error}\n")),
        Refusal::Upstream(to, why) => printable(&format!("ccbox: no answer from {to}: {why}\n")),
        Refusal::Malformed(why) => printable(&format!("ccbox: {why}\n")),
        Refusal::Trace => {
            "ccbox: TRACE is not passed on, it repeats fields that are not the client's\n"
                .to_owned()
        }
        Refusal::Login => {
            "ccbox: the proxy of this sandbox wants the token that is in HTTP_PROXY\n".to_owned()
        }
        Refusal::Crowded => {
            "ccbox: too many connections at once through the proxy of this sandbox\n".to_owned()
        }
    }
}

/// The HTTP answer.
pub(super) fn answer(refusal: &Refusal, hint_file: Option<&Path>) -> Response<Body> {
    let (status, word) = match refusal {
        Refusal::Policy(_, denial) => (StatusCode::FORBIDDEN, Some(denial.reason.word())),
        Refusal::Dial(DialError::Unresolved(..)) => (StatusCode::BAD_GATEWAY, Some("unresolved")),
        Refusal::Dial(DialError::ResolveTimeout(_)) => {
            (StatusCode::GATEWAY_TIMEOUT, Some("unresolved"))
        }
        Refusal::Dial(DialError::ConnectTimeout(_)) => {
            (StatusCode::GATEWAY_TIMEOUT, Some("unreachable"))
        }
        // Not 407: the client would take it for a question of ours.
        Refusal::Dial(DialError::Proxy(_)) => (StatusCode::BAD_GATEWAY, Some("upstream-proxy")),
        Refusal::Dial(DialError::Denied(_) | DialError::Unreachable(..) | DialError::Loop(_)) => {
            (StatusCode::BAD_GATEWAY, Some("unreachable"))
        }
        Refusal::Upstream(..) => (StatusCode::BAD_GATEWAY, Some("upstream")),
        Refusal::Malformed(_) => (StatusCode::BAD_REQUEST, None),
        Refusal::Trace => (StatusCode::METHOD_NOT_ALLOWED, None),
        Refusal::Login => (StatusCode::PROXY_AUTHENTICATION_REQUIRED, None),
        Refusal::Crowded => (StatusCode::SERVICE_UNAVAILABLE, None),
    };
    let mut response = Response::new(full(text(refusal, hint_file)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    if let Some(word) = word {
        headers.insert(ERROR_HEADER, HeaderValue::from_static(word));
    }
    match refusal {
        // git never sends credentials first: it has to be asked, and asks again on the same connection.
        Refusal::Login => {
            headers.insert(
                PROXY_AUTHENTICATE,
                HeaderValue::from_static("Basic realm=\"ccbox\""),
            );
        }
        // What follows a refused CONNECT may be tunnel bytes already, and must not be read as a request.
        Refusal::Policy(..)
        | Refusal::Dial(_)
        | Refusal::Upstream(..)
        | Refusal::Malformed(_)
        | Refusal::Trace
        | Refusal::Crowded => {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
    if let Refusal::Policy(to, denial) = refusal {
        // curl and git hide the body of a refused CONNECT but can be made to show the status line.
        let reason = printable(&format!("Refused by sandbox policy: {to} {}", denial.rule));
        if let Ok(reason) = ReasonPhrase::try_from(reason) {
            response.extensions_mut().insert(reason);
        }
    }
    response
}

/// A body that is all there.
pub(super) fn full(text: String) -> Body {
    Full::new(Bytes::from(text)).map_err(|e| match e {}).boxed()
}

/// No body.
pub(super) fn empty() -> Body {
    Empty::new().map_err(|e| match e {}).boxed()
}

/// File names in a rule may hold anything; an answer holds lines of text.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_control() && c != '\n' {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
