//! A loopback port of the host, bound in the namespace under the same number and forwarded (semantics 42).

use std::sync::Arc;

use tokio::net::TcpStream;

use super::server::{Seat, Shared};
use super::tunnel::Early;

/// Serves one connection to its end. A host port that nobody listens on looks like one: the client is reset.
pub(super) async fn serve(client: TcpStream, port: u16, shared: &Shared, _seat: &Arc<Seat>) {
    match shared.dial_forward(port).await {
        Some(upstream) => {
            let early = Early::default();
            let to = upstream.link.socket().peer_addr().ok();
            let entry = to.and_then(|to| shared.entry_of(to.to_string(), &upstream));
            shared
                .tunnel_unchecked(client, upstream, early, entry)
                .await;
        }
        None => {
            // Latency only: without it the client sees an end instead of a reset.
            let _ = client.set_zero_linger();
        }
    }
}
