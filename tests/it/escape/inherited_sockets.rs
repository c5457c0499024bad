//! Sockets the caller has open: they stay in the network they were made in, and whoever holds one can point it elsewhere.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Command, Stdio};

use crate::support::{Box, Ran, require_sandbox};

/// Lets go of whom standard input is connected to, or of its port, and goes to another; as a datagram where it takes those.
const ATTACK: &str = "
import ctypes, os, socket, struct, sys
libc, port, path = ctypes.CDLL(None), int(sys.argv[1]), sys.argv[2]
s = socket.socket(fileno=os.dup(0))
to = struct.pack('=H', socket.AF_INET) + struct.pack('>H', port) + socket.inet_aton('127.0.0.1') + bytes(8)
if s.family == socket.AF_UNIX:
    try: s.sendto(b'moved', path)
    except OSError: pass
else:
    try: s.sendto(b'moved', ('127.0.0.1', port))
    except OSError: pass
    try: s.shutdown(socket.SHUT_RD)
    except OSError: pass
    libc.connect(0, struct.pack('=H14x', socket.AF_UNSPEC), 16)
    libc.connect(0, to, 16)
    try: os.write(0, b'moved')
    except OSError: pass
";

/// A socket, and its other end.
type Handed = (OwnedFd, Option<TcpStream>);
/// A way to make one, by its name.
type Make = (&'static str, fn() -> Handed);

fn connected() -> (OwnedFd, TcpStream) {
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let far = TcpStream::connect(door.local_addr().unwrap()).unwrap();
    (door.accept().unwrap().0.into(), far)
}

#[test]
fn a_socket_of_the_host_leads_nowhere_else() {
    if !require_sandbox() {
        return;
    }
    let site = Box::new().workspace_spec();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let datagrams = UdpSocket::bind(("127.0.0.1", port)).unwrap();
    datagrams.set_nonblocking(true).unwrap();
    let path = site.path().join("host.dgram");
    let service = UnixDatagram::bind(&path).unwrap();
    service.set_nonblocking(true).unwrap();
    let reached = || {
        let mut got = [0; 8];
        let stream = listener
            .accept()
            .is_ok_and(|(mut s, _)| s.read(&mut got).is_ok_and(|n| n > 0));
        let mut count = usize::from(stream);
        while datagrams.recv(&mut got).is_ok() || service.recv(&mut got).is_ok() {
            count += 1;
        }
        count > 0
    };
    let port = port.to_string();
    let command = [
        "/usr/bin/python3",
        "-c",
        ATTACK,
        &port,
        path.to_str().unwrap(),
    ];
    let spec = site.path().join("spec.toml");
    let mut far_ends = Vec::new();
    let sockets: [Make; 4] = [
        ("connected", || {
            let (near, far) = connected();
            (near, Some(far))
        }),
        ("listening", || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            (listener.into(), None)
        }),
        ("datagrams", || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            (socket.into(), None)
        }),
        ("unix datagrams", || {
            (UnixDatagram::pair().unwrap().0.into(), None)
        }),
    ];
    for (what, make) in &sockets {
        let (near, far) = make();
        far_ends.push(far);
        let mut outside = Command::new(command[0]);
        let control = Ran::of(outside.args(&command[1..]).stdin(near));
        assert!(reached(), "{what}: {control:?}");

        let (near, far) = make();
        far_ends.push(far);
        let mut inside = site.ccbox(&["run", "--spec", spec.to_str().unwrap(), "--"]);
        let attack = Ran::of(inside.args(command).stdin(near));
        assert!(!reached(), "{what}: {attack:?}");
        assert_eq!(
            (attack.code, attack.stdout.as_str()),
            (125, ""),
            "{attack:?}"
        );
        let said = "ccbox: error: standard input is a socket of the host";
        assert!(attack.stderr.contains(said), "{attack:?}");
    }
}

/// Programs talk to what they start through these.
#[test]
fn a_connected_unix_socket_is_as_good_as_a_pipe() {
    if !require_sandbox() {
        return;
    }
    let site = Box::new().workspace_spec();
    let spec = site.path().join("spec.toml");
    let (near, mut far) = UnixStream::pair().unwrap();
    far.write_all(b"asked").unwrap();
    far.shutdown(std::net::Shutdown::Write).unwrap();
    let args = ["run", "--spec", spec.to_str().unwrap(), "--", "cat"];
    let ran = Ran::of(site.ccbox(&args).stdin(OwnedFd::from(near)));
    ran.expect(0, "asked", "");
}

/// With the host's network there is nowhere that a socket could lead and the command not.
#[test]
fn with_an_open_network_any_socket_passes() {
    if !require_sandbox() {
        return;
    }
    let site =
        Box::new().spec("[[bind_mounts]]\nhost_path = \"@T@/ws\"\n[network]\nmode = \"open\"\n");
    let spec = site.path().join("spec.toml");
    let (near, mut far) = connected();
    far.write_all(b"asked").unwrap();
    far.shutdown(std::net::Shutdown::Write).unwrap();
    let args = ["run", "--spec", spec.to_str().unwrap(), "-q", "--", "cat"];
    let mut run = site.ccbox(&args);
    let ran = Ran::of(run.stdin(near).stderr(Stdio::piped()));
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "asked"), "{ran:?}");
}
