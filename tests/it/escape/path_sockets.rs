//! Sockets of host services by path: a read-only mount does not stop connect(2).

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};

use super::{Site, callers, python, ran};

const ATTACK: &str = "
t = os.environ['T']
for path in (t + '/host.sock', t + '/ws/host.sock', '/proc/self/root' + t + '/host.sock'):
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        try: socket.socket(socket.AF_UNIX, kind).connect(path)
        except OSError: pass
for path in (t + '/host.dgram', t + '/ws/host.dgram'):
    try: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', path)
    except OSError: pass
    # Half of a pair is a socket too, and a datagram one takes any address.
    for kind in (socket.SOCK_DGRAM, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, socket.SOCK_RAW, socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        try: pair = socket.socketpair(socket.AF_UNIX, kind)
        except OSError: continue
        for action in (lambda: pair[0].sendto(b'x', path), lambda: pair[0].connect(path), lambda: pair[0].connect(t + '/host.sock')):
            try: action()
            except OSError: pass
        try: pair[0].send(b'x')
        except OSError: pass
a, b = socket.socketpair(); a.send(b'own'); print(b.recv(3).decode())
";

#[test]
fn no_path_socket_is_reached() {
    for caller in callers() {
        let site = Site::new(caller);
        let names = ["host.sock", "ws/host.sock", "host.dgram", "ws/host.dgram"];
        let paths = names.map(|name| site.path(name));
        let streams = [&paths[0], &paths[1]].map(|path| UnixListener::bind(path).unwrap());
        let datagrams = [&paths[2], &paths[3]].map(|path| UnixDatagram::bind(path).unwrap());
        for path in &paths {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        let reached = || {
            let mut count = 0;
            for stream in &streams {
                stream.set_nonblocking(true).unwrap();
                while stream.accept().is_ok() {
                    count += 1;
                }
            }
            for datagram in &datagrams {
                datagram.set_nonblocking(true).unwrap();
                while datagram.recv(&mut [0; 8]).is_ok() {
                    count += 1;
                }
            }
            count
        };
        let control = ran(site.outside(&python(ATTACK)));
        assert!(reached() >= 6, "{control:?}");
        let attack = ran(site.inside(&python(ATTACK)));
        assert_eq!(reached(), 0, "{attack:?}");
        assert!(attack.has("own"), "stream pairs work");
    }
}
