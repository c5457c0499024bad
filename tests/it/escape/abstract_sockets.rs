//! Abstract sockets of host services (X11, D-Bus, containerd's shims): names without a file, so no mount hides them.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use super::{Site, callers, python, ran};

#[test]
fn no_abstract_socket_is_reached() {
    for caller in callers() {
        let name = format!("ccbox-escape-{}-{caller:?}", std::process::id());
        let listener =
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        listener.set_nonblocking(true).unwrap();
        let site = Site::new(caller);
        let attack = python(&format!(
            "
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
    try: socket.socket(socket.AF_UNIX, kind).connect('\\0{name}')
    except OSError as e: print('errno', e.errno)"
        ));
        ran(site.outside(&attack));
        assert!(listener.accept().is_ok(), "control");

        // Network off and filtered are the same namespace; open shares the host's, where only the filter or a scope helps.
        for more in ["", "network.mode = \"filtered\"", "network.mode = \"open\""] {
            let spec = site.spec(more);
            let spec = if more.is_empty() {
                spec
            } else {
                spec.replace("network_enabled = false\n", "")
            };
            site.file("spec.toml", &spec);
            let confined = ran(site.inside(&attack));
            assert_eq!(
                confined.stdout.matches("errno").count(),
                3,
                "{more}: {confined:?}"
            );
            assert!(listener.accept().is_err(), "{more}");
        }
    }
}
