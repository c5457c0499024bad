//! Unix sockets by path: what is open, what is not, and what is connected is what was judged.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket, socketpair};

use super::harness::{Setup, rounds, scratch, short};
use crate::broker::supervise::Cause;
use crate::sys::unix;

/// Somebody outside, who answers everybody with one letter.
struct Host(Arc<AtomicBool>);

impl Host {
    fn listens(path: &Path, letter: u8) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&over);
        std::thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                match listener.accept() {
                    Ok((mut stream, _)) => {
                        let _gone = stream.write_all(&[letter]);
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        });
        Self(over)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The letter of whoever answers there, or the errno of connect(2).
fn ask(path: impl AsRef<Path>) -> Result<u8, i32> {
    let mut stream = UnixStream::connect(path).map_err(|e| e.raw_os_error().unwrap_or(0))?;
    let mut letter = [0];
    stream.read_exact(&mut letter).unwrap();
    Ok(letter[0])
}

fn closed(path: &Path) -> (&'static str, PathBuf, Cause) {
    let cause = Cause::Socket { always: false };
    ("connect", path.to_owned(), cause)
}

fn stream_socket() -> OwnedFd {
    let flags = SockFlag::SOCK_CLOEXEC;
    socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap()
}

fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.unwrap_err().raw_os_error().unwrap()
}

#[test]
fn granted_ones_are_open_and_others_are_not() {
    let (_keep, dir) = scratch();
    let (_other, host) = scratch();
    let [granted, inside, outside] = [host.join("g"), dir.join("i"), host.join("o")];
    let _hosts = [(&granted, b'g'), (&inside, b'i'), (&outside, b'o')]
        .map(|(path, letter)| Host::listens(path, letter));
    assert_eq!(ask(&outside), Ok(b'o'));
    symlink(&granted, dir.join("to-granted")).unwrap();
    symlink(&outside, dir.join("to-outside")).unwrap();
    drop(UnixListener::bind(host.join("dead")).unwrap());
    let setup = Setup::new(&dir).sockets(&[&granted]);
    let (at, far) = (granted.clone(), host.clone());
    let ((), denials) = setup.run(move || {
        assert_eq!(ask(&at), Ok(b'g'));
        assert_eq!(ask("to-granted"), Ok(b'g'));
        assert_eq!(ask(format!("/proc/self/root{}", at.display())), Ok(b'g'));
        let held = fs::File::open(&far).unwrap();
        let by_descriptor = format!("/proc/thread-self/fd/{}/g", held.as_raw_fd());
        assert_eq!(ask(by_descriptor), Ok(b'g'));
        for path in ["i", "./i", "to-outside", "/proc/thread-self/cwd/i"] {
            assert_eq!(ask(path), Err(libc::EACCES), "{path}");
        }
        assert_eq!(ask(far.join("o")), Err(libc::EACCES));
        // What fails outside as well fails the same way.
        assert_eq!(ask(far.join("dead")), Err(libc::ECONNREFUSED));
        assert_eq!(ask("nothing"), Err(libc::ENOENT));
        fs::write("file", "").unwrap();
        assert_eq!(ask("file"), Err(libc::ECONNREFUSED));
        assert_eq!(ask("file/x"), Err(libc::ENOTDIR));
    });
    let (i, o) = (closed(&inside), closed(&outside));
    let told = short(&denials);
    assert_eq!(told, [i.clone(), i.clone(), o.clone(), i, o]);
}

#[test]
fn the_childs_own_sockets_work_and_keep_their_words() {
    let (_keep, dir) = scratch();
    let ((), denials) = Setup::new(&dir).pattern("*.closed").sockets(&[]).run(|| {
        let here = std::env::current_dir().unwrap();
        fs::create_dir("sub").unwrap();
        let long = "x".repeat(107);
        let whole = here.join("sub/a").into_os_string().into_string().unwrap();
        for path in ["a", "sub/b", "./c", &long, &whole] {
            let listener = UnixListener::bind(path).unwrap();
            let shown = listener.local_addr().unwrap();
            assert_eq!(shown.as_pathname(), Some(Path::new(path)));
            let mut stream = UnixStream::connect(path).unwrap();
            let peer = stream.peer_addr().unwrap();
            assert_eq!(peer.as_pathname(), Some(Path::new(path)));
            stream.write_all(b"x").unwrap();
            let (mut other, _) = listener.accept().unwrap();
            other.read_exact(&mut [0]).unwrap();
            assert_eq!(errno(UnixListener::bind(path)), libc::EADDRINUSE);
        }
        // It stays its own under another name, and a stale one is nobody's.
        let listener = UnixListener::bind("d").unwrap();
        fs::rename("d", "sub/d").unwrap();
        UnixStream::connect("sub/d").unwrap();
        fs::hard_link("sub/d", "e").unwrap();
        UnixStream::connect("e").unwrap();
        drop(listener);
        assert_eq!(ask("e"), Err(libc::ECONNREFUSED));
        // A pinned directory by another way: it works, by its bare name.
        symlink("sub", "link").unwrap();
        let listener = UnixListener::bind("link/f").unwrap();
        UnixStream::connect("sub/f").unwrap();
        drop(listener);
        // Every kind of name is covered by a rule, and errors are the kernel's.
        assert_eq!(errno(UnixListener::bind("n.closed")), libc::EACCES);
        assert_eq!(errno(UnixListener::bind("link/n.closed")), libc::EACCES);
        assert_eq!(errno(UnixListener::bind("sub")), libc::EADDRINUSE);
        assert_eq!(errno(UnixListener::bind("no/x")), libc::ENOENT);
        assert_eq!(errno(UnixListener::bind("new/")), libc::ENOENT);
        assert_eq!(errno(UnixListener::bind(".")), libc::EADDRINUSE);
        crate::sys::task::set_umask(0o027);
        UnixListener::bind("mode").unwrap();
        let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata("mode").unwrap());
        assert_eq!(mode & 0o777, 0o750);
    });
    let rule = |name: &str| ("bind", dir.join(name), Cause::Rule(0));
    assert_eq!(short(&denials), [rule("n.closed"), rule("sub/n.closed")]);
    assert!(!dir.join("n.closed").exists());
}

#[test]
fn only_sockets_that_are_connected_first_are_open() {
    let (_keep, dir) = scratch();
    let path = dir.join("host");
    let receiver = UnixDatagram::bind(&path).unwrap();
    receiver.set_nonblocking(true).unwrap();
    // Control: outside a datagram arrives, and an inherited socket is what it is.
    UnixDatagram::unbound()
        .unwrap()
        .send_to(b"x", &path)
        .unwrap();
    assert_eq!(receiver.recv(&mut [0]).unwrap(), 1);
    let setup = Setup::new(&dir).sockets(&[&path]);
    let ((), _) = setup.run(|| {
        let make = |kind| {
            let flags = SockFlag::SOCK_CLOEXEC;
            socket(AddressFamily::Unix, kind, flags, None).map(drop)
        };
        assert_eq!(make(SockType::Datagram), Err(Errno::EACCES));
        assert_eq!(make(SockType::Raw), Err(Errno::EACCES));
        assert_eq!(make(SockType::Stream), Ok(()));
        assert_eq!(make(SockType::SeqPacket), Ok(()));
        let pair = |kind| {
            let flags = SockFlag::SOCK_CLOEXEC;
            socketpair(AddressFamily::Unix, kind, None, flags).map(drop)
        };
        assert_eq!(pair(SockType::Datagram), Err(Errno::EACCES));
        assert_eq!(pair(SockType::Raw), Err(Errno::EACCES));
        assert_eq!(pair(SockType::Stream), Ok(()));
        assert_eq!(pair(SockType::SeqPacket), Ok(()));
        let vsock = socket(
            AddressFamily::Vsock,
            SockType::Stream,
            SockFlag::empty(),
            None,
        );
        assert_eq!(vsock.map(drop), Err(Errno::EAFNOSUPPORT));
        // A granted socket of the wrong type is not one that can be connected to.
        assert_eq!(ask("host"), Err(libc::EPROTOTYPE));
    });
    assert_eq!(
        receiver.recv(&mut [0]).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
}

#[test]
fn packets_in_sequence_are_as_streams() {
    let (_keep, dir) = scratch();
    let (_other, host) = scratch();
    let [granted, outside] = [host.join("g"), host.join("o")];
    let listen = |path: &Path| {
        let flags = SockFlag::SOCK_CLOEXEC;
        let s = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap();
        unix::bind(
            s.as_fd(),
            &unix::address(path.as_os_str().as_bytes()).unwrap(),
        )
        .unwrap();
        nix::sys::socket::listen(&s, nix::sys::socket::Backlog::new(4).unwrap()).unwrap();
        s
    };
    let _held = [listen(&granted), listen(&outside)];
    let setup = Setup::new(&dir).sockets(&[&granted]);
    let ((), denials) = setup.run(move || {
        let connect = |path: &Path| {
            let flags = SockFlag::SOCK_CLOEXEC;
            let s = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).unwrap();
            let address = unix::address(path.as_os_str().as_bytes()).unwrap();
            unix::connect(s.as_fd(), &address)
        };
        assert_eq!(connect(&host.join("g")), Ok(()));
        assert_eq!(connect(&host.join("o")), Err(Errno::EACCES));
    });
    assert_eq!(short(&denials), [closed(&outside)]);
}

#[test]
fn odd_addresses_are_answered_as_the_kernel_does_and_open_nothing() {
    let (_keep, dir) = scratch();
    let path = dir.join("s");
    let _host = Host::listens(&path, b's');
    let name = format!("ccbox-test-{}", std::process::id());
    let abstract_name = [&[1, 0, 0][..], name.as_bytes()].concat();
    let listener = stream_socket();
    unix::bind(listener.as_fd(), &abstract_name).unwrap();
    nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(4).unwrap()).unwrap();
    assert_eq!(
        unix::connect(stream_socket().as_fd(), &abstract_name),
        Ok(())
    );
    let setup = Setup::new(&dir).sockets(&[]);
    let ((), _) = setup.run(move || {
        let long = vec![b'x'; 108];
        let unix_family = |rest: &[u8]| [&[1, 0][..], rest].concat();
        for (address, to_connect, to_bind) in [
            (unix_family(b"s"), Errno::EACCES, Errno::EADDRINUSE),
            (unix_family(b""), Errno::EACCES, Errno::EACCES),
            (abstract_name.clone(), Errno::EACCES, Errno::EACCES),
            (unix_family(&[b'x'; 109]), Errno::EINVAL, Errno::EINVAL),
            (vec![1], Errno::EINVAL, Errno::EINVAL),
            (vec![0; 16], Errno::EINVAL, Errno::EINVAL),
            (vec![2, 0, b's', 0], Errno::EINVAL, Errno::EINVAL),
            (vec![0; 129], Errno::EINVAL, Errno::EINVAL),
            (unix_family(&long), Errno::ENOENT, Errno::EEXIST),
        ] {
            let socket = stream_socket();
            assert_eq!(
                unix::connect(socket.as_fd(), &address),
                Err(to_connect),
                "{address:?}"
            );
            if to_bind != Errno::EEXIST {
                assert_eq!(
                    unix::bind(socket.as_fd(), &address),
                    Err(to_bind),
                    "{address:?}"
                );
            }
        }
        // 108 bytes without a NUL are a name.
        let socket = stream_socket();
        unix::bind(socket.as_fd(), &unix_family(&long)).unwrap();
        nix::sys::socket::listen(&socket, nix::sys::socket::Backlog::new(4).unwrap()).unwrap();
        let caller = stream_socket();
        unix::connect(caller.as_fd(), &unix_family(&long)).unwrap();
        // Connected and listening ones are not connected again, and none is disconnected.
        let again = unix::connect(caller.as_fd(), &unix_family(&long));
        assert_eq!(again, Err(Errno::EISCONN));
        let listening = unix::connect(socket.as_fd(), &unix_family(&long));
        assert_eq!(listening, Err(Errno::EINVAL));
        assert_eq!(unix::connect(caller.as_fd(), &[0; 16]), Err(Errno::EINVAL));
        let bytes = unix::address(b"s").unwrap();
        let null = fs::File::open("/dev/null").unwrap();
        assert_eq!(unix::connect(null.as_fd(), &bytes), Err(Errno::ENOTSOCK));
        assert_eq!(unix::connect(caller.as_fd(), &[]), Err(Errno::EINVAL));
    });
}

#[test]
fn sockets_of_the_network_go_on_as_before() {
    let (_keep, dir) = scratch();
    let ((), _) = Setup::new(&dir).sockets(&[]).run(|| {
        use std::net::{TcpListener, TcpStream, UdpSocket};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let mut stream = TcpStream::connect(at).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        other.write_all(b"x").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        let short = TcpStream::connect_timeout(&at, Duration::from_secs(5)).unwrap();
        drop((short, listener));
        assert_eq!(errno(TcpStream::connect(at)), libc::ECONNREFUSED);
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.connect(udp.local_addr().unwrap()).unwrap();
        udp.send(b"x").unwrap();
        assert_eq!(udp.recv(&mut [0]).unwrap(), 1);
        // Dissolved again.
        unix::connect(udp.as_fd(), &[0; 16]).unwrap();
        assert!(udp.peer_addr().is_err());
    });
}

#[test]
fn whoever_waits_for_room_holds_nobody_up() {
    let (_keep, dir) = scratch();
    let (_other, host) = scratch();
    let path = host.join("full");
    let listener = stream_socket();
    let address = unix::address(path.as_os_str().as_bytes()).unwrap();
    unix::bind(listener.as_fd(), &address).unwrap();
    nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(0).unwrap()).unwrap();
    let setup = Setup::new(&dir).sockets(&[&path]);
    let (accept, accepts) = std::sync::mpsc::channel::<()>();
    let host_side = std::thread::spawn(move || {
        accepts.recv().unwrap();
        let listener = UnixListener::from(listener);
        for _ in 0..41 {
            listener.accept().unwrap();
        }
    });
    let ((), _) = setup.run(move || {
        let _first = UnixStream::connect(&path).unwrap();
        let waiting: Vec<_> = (0..40)
            .map(|_| {
                let path = path.clone();
                std::thread::spawn(move || UnixStream::connect(path).map(drop))
            })
            .collect();
        let hurried = stream_socket();
        nix::fcntl::fcntl(
            &hurried,
            nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK),
        )
        .unwrap();
        assert_eq!(unix::connect(hurried.as_fd(), &address), Err(Errno::EAGAIN));
        // Its own limit counts.
        let patient = stream_socket();
        let limit = nix::sys::time::TimeVal::new(0, 50_000);
        nix::sys::socket::setsockopt(&patient, nix::sys::socket::sockopt::SendTimeout, &limit)
            .unwrap();
        let begun = Instant::now();
        assert_eq!(unix::connect(patient.as_fd(), &address), Err(Errno::EAGAIN));
        assert!(begun.elapsed() >= Duration::from_millis(50));
        for n in 0..200 {
            fs::write(format!("f{n}"), "x").unwrap();
        }
        assert!(waiting.iter().any(|w| !w.is_finished()));
        accept.send(()).unwrap();
        for one in waiting {
            one.join().unwrap().unwrap();
        }
    });
    host_side.join().unwrap();
}

/// Another thread changes what the address says, between two looks of anybody.
#[test]
fn what_is_judged_is_what_is_connected() {
    let (_keep, dir) = scratch();
    let (_other, host) = scratch();
    let [granted, secret] = [host.join("granted"), host.join("secret!")];
    let _hosts = [(&granted, b'g'), (&secret, b's')].map(|(p, l)| Host::listens(p, l));
    let setup = Setup::new(&dir).sockets(&[&granted]).crowd(2);
    let tries = rounds();
    let attack = move || -> [usize; 2] {
        let bytes = |path: &Path| {
            let mut address = unix::address(path.as_os_str().as_bytes()).unwrap();
            address.resize(unix::LONGEST, 0);
            address
        };
        let (good, bad) = (bytes(&granted), bytes(&secret));
        let shared: Arc<Vec<std::sync::atomic::AtomicU8>> =
            Arc::new(good.iter().map(|&b| b.into()).collect());
        let over = Arc::new(AtomicBool::new(false));
        let flipper = {
            let (shared, over) = (Arc::clone(&shared), Arc::clone(&over));
            std::thread::spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    for words in [&bad, &good] {
                        for (to, from) in shared.iter().zip(words) {
                            to.store(*from, Ordering::SeqCst);
                        }
                        for _ in 0..200 {
                            std::hint::spin_loop();
                        }
                    }
                }
            })
        };
        let mut seen = [0; 2];
        for _ in 0..tries {
            let socket = stream_socket();
            if crate::sys::direct::connect_shared(&socket, &shared).is_ok() {
                let mut letter = [0];
                UnixStream::from(socket).read_exact(&mut letter).unwrap();
                seen[usize::from(letter[0] == b's')] += 1;
            }
        }
        over.store(true, Ordering::SeqCst);
        flipper.join().unwrap();
        seen
    };
    let outside = setup.outside(attack.clone());
    assert!(outside[1] > 0, "the control never reached it: {outside:?}");
    let (inside, _) = setup.run(attack);
    assert_eq!(inside[1], 0, "{inside:?}");
}

/// Links and directories are exchanged while the path is walked.
#[test]
fn a_path_that_changes_leads_to_nothing_that_is_closed() {
    let (_keep, dir) = scratch();
    let (_other, host) = scratch();
    let [granted, secret] = [host.join("g"), host.join("s")];
    let _hosts = [(&granted, b'g'), (&secret, b's')].map(|(p, l)| Host::listens(p, l));
    let setup = Setup::new(&dir).sockets(&[&granted]).crowd(2);
    let tries = rounds();
    let ((), _) = setup.run(move || {
        let over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&over);
        let flipper = std::thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                for target in [&secret, &granted] {
                    let _busy = fs::remove_file("new");
                    symlink(target, "new").unwrap();
                    fs::rename("new", "link").unwrap();
                }
            }
        });
        let mut reached = 0;
        for _ in 0..tries {
            match ask("link") {
                Ok(letter) => {
                    assert_eq!(letter, b'g');
                    reached += 1;
                }
                Err(errno) => assert!([libc::EACCES, libc::ENOENT].contains(&errno), "{errno}"),
            }
        }
        over.store(true, Ordering::SeqCst);
        flipper.join().unwrap();
        assert!(reached > 0);
    });
}

/// The name of a granted socket cannot be given to another one, and directories of sockets open what is below.
#[test]
fn names_of_granted_sockets_stay_theirs() {
    let (_keep, dir) = scratch();
    let [granted, other] = [dir.join("g"), dir.join("o")];
    let _other = Host::listens(&other, b'o');
    let setup = Setup::new(&dir).sockets(&[&granted]).protected(&granted);
    let ((), _) = setup.run(|| {
        assert_eq!(errno(fs::rename("o", "g")), libc::EACCES);
        assert_eq!(errno(fs::hard_link("o", "g")), libc::EACCES);
        assert_eq!(errno(symlink("o", "g")), libc::EACCES);
        assert_eq!(errno(UnixListener::bind("g")), libc::EACCES);
        assert_eq!(ask("g"), Err(libc::ENOENT));
    });
    // A link at that name, whoever made it, is not followed.
    symlink(&other, &granted).unwrap();
    assert_eq!(ask(&granted), Ok(b'o'));
    let ((), denials) = setup.run(|| assert_eq!(ask("g"), Err(libc::EACCES)));
    assert_eq!(short(&denials), [closed(&other)]);
    fs::remove_file(&granted).unwrap();
    // One that has come since the start is open.
    let again = granted.clone();
    let _late = std::thread::spawn(move || Host::listens(&again, b'g'))
        .join()
        .unwrap();
    let ((), _) = setup.run(|| assert_eq!(ask("g"), Ok(b'g')));
}

#[test]
fn a_directory_opens_what_is_below_but_for_ways_to_everywhere() {
    let (_keep, dir) = scratch();
    let (_other, host) = scratch();
    fs::create_dir_all(host.join("d/e")).unwrap();
    let [below, deep, beside, never] = ["d/a", "d/e/b", "c", "d/never"].map(|n| host.join(n));
    let _hosts = [&below, &deep, &beside, &never].map(|path| Host::listens(path, b'x'));
    fs::hard_link(&never, host.join("d/alias")).unwrap();
    let mut setup = Setup::new(&dir).sockets(&[&host.join("d")]);
    setup.plan.sockets.as_mut().unwrap().closed = vec![never.clone()];
    let far = host.clone();
    let ((), denials) = setup.run(move || {
        for (name, reached) in [
            ("d/a", true),
            ("d/e/b", true),
            ("c", false),
            ("d/never", false),
            ("d/alias", false),
        ] {
            assert_eq!(ask(far.join(name)).is_ok(), reached, "{name}");
        }
    });
    let always = Cause::Socket { always: true };
    assert_eq!(
        short(&denials),
        [
            closed(&beside),
            ("connect", never, always.clone()),
            ("connect", host.join("d/alias"), always),
        ]
    );
    setup.plan.sockets.as_mut().unwrap().all = true;
    let ((), _) = setup.run(move || {
        assert_eq!(ask(host.join("c")), Ok(b'x'));
        assert_eq!(ask(host.join("d/alias")), Err(libc::EACCES));
    });
}
