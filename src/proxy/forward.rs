//! A loopback port of the host, bound in the namespace under the same number and forwarded (semantics 42).

use std::sync::Arc;

use tokio::net::TcpStream;

use super::server::{Seat, Shared};
use super::tunnel::Early;
use crate::policy::host::{Authority, Host};

/// Serves one connection to its end. A host port that nobody listens on looks like one: the client is reset.
pub(super) async fn serve(client: TcpStream, port: u16, shared: &Shared, _seat: &Arc<Seat>) {
    for ip in shared.forward_targets(port) {
        let to = Authority {
            host: Host::Ip(ip),
            port,
        };
        if let Ok(upstream) = shared.dialer.dial(&to).await {
            let entry = shared.entry(&to, Some(&upstream));
            shared
                .tunnel_unchecked(client, upstream, Early::default(), entry)
                .await;
            return;
        }
    }
    let _ = client.set_zero_linger();
}
