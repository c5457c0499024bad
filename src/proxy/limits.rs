//! How long and how much: every time-out and cap of the proxies.
//!
//! There is none on bodies: an answer may stream for hours.

use std::time::Duration;

/// Connections served at once. Each may take six descriptors: two sockets and two pipes.
pub(super) const SEATS: usize = 512;
/// Connections beyond that which are told so at once; further ones are just closed.
pub(super) const TURNED_AWAY: usize = 64;
/// Larger request heads are answered with 431. The limit of 100 fields is hyper's own.
pub(super) const MAX_HEAD: usize = 64 * 1024;
/// Heads of answers may be larger (cookies, policies), but not without end.
pub(super) const MAX_ANSWER_HEAD: usize = 256 * 1024;
/// Fields of an answer's head.
pub(super) const MAX_ANSWER_FIELDS: usize = 256;
/// How much of a refused request's body is read away, so that the client sees the answer and not a reset.
pub(super) const MAX_DRAIN: usize = 64 * 1024 * 1024;

/// The port at which the Host field is in the open.
const HTTP: u16 = 80;

/// The time-outs, and a port. Always [`Limits::default`] in the product; tests shorten them, and use a port that anybody may listen at.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// From a connection to its first byte.
    pub(super) first_byte: Duration,
    /// For a request head, and as long between two requests.
    pub(super) head: Duration,
    /// For a SOCKS handshake, from its first byte.
    pub(super) handshake: Duration,
    /// For a TLS ClientHello, from its first byte.
    pub(super) hello: Duration,
    /// For the resolver.
    pub(super) resolve: Duration,
    /// For connecting, all addresses together.
    pub(super) connect: Duration,
    /// For an upstream proxy to open a tunnel; it dials in its turn.
    pub(super) upstream: Duration,
    /// For reading a refused body away.
    pub(super) drain: Duration,
    /// A tunnel in which nothing moves for this long is dead.
    pub(super) idle: Duration,
    /// Connections to it are read as HTTP.
    pub(super) http: u16,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            first_byte: Duration::from_secs(10),
            head: Duration::from_secs(10),
            handshake: Duration::from_secs(5),
            hello: Duration::from_secs(5),
            resolve: Duration::from_secs(5),
            connect: Duration::from_secs(10),
            upstream: Duration::from_secs(30),
            drain: Duration::from_secs(2),
            idle: Duration::from_mins(15),
            http: HTTP,
        }
    }
}
