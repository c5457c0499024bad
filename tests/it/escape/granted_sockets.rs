//! One granted Unix socket is no way to another: not by another table of system calls, not by another name of it, not by what changes
//! while it is connected.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

use super::{Caller, Ran, Site, callers, python, ran, sh};

/// `good/s` is granted; `bad/s`, `ws/s`, `bad/d` (for datagrams) and an abstract name are not.
struct Services {
    site: Site,
    granted: UnixListener,
    closed: Vec<UnixListener>,
    datagrams: UnixDatagram,
    abstract_name: String,
}

impl Services {
    fn new(caller: Caller) -> Self {
        let site = Site::new(caller);
        for name in ["good", "bad"] {
            std::fs::create_dir(site.path(name)).unwrap();
            site.give(&site.path(name));
        }
        let t = site.path("");
        let grant = format!("network.allow_unix_sockets = [\"{}good/s\"]", t.display());
        let spec = site.spec(&grant);
        site.file("spec.toml", &spec.replace("network_enabled = false\n", ""));
        let bound = |name: &str| {
            let path = site.path(name);
            let listener = UnixListener::bind(&path).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
            listener.set_nonblocking(true).unwrap();
            listener
        };
        let granted = bound("good/s");
        let mut closed = vec![bound("bad/s"), bound("ws/s")];
        let datagrams = UnixDatagram::bind(site.path("bad/d")).unwrap();
        datagrams.set_nonblocking(true).unwrap();
        let all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(site.path("bad/d"), all).unwrap();
        // As unique as the directory.
        let abstract_name = format!("ccbox-granted{}", site.path("s").display());
        let name = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let listener = UnixListener::bind_addr(&name).unwrap();
        listener.set_nonblocking(true).unwrap();
        closed.push(listener);
        Self {
            site,
            granted,
            closed,
            datagrams,
            abstract_name,
        }
    }

    /// Connections to what is closed, and to what is granted, since the last look.
    fn reached(&self) -> (usize, usize) {
        let of = |listener: &UnixListener| std::iter::from_fn(|| listener.accept().ok()).count();
        let letters = std::iter::from_fn(|| self.datagrams.recv(&mut [0; 8]).ok()).count();
        let closed = self.closed.iter().map(of).sum::<usize>() + letters;
        (closed, of(&self.granted))
    }

    /// The attack reaches what is closed outside of the sandbox, and nothing of it inside.
    #[track_caller]
    fn attacked(&self, attack: &[String]) -> Ran {
        let control = ran(self.site.outside(attack));
        assert!(
            self.reached().0 > 0,
            "the control reached nothing: {control:?}"
        );
        let confined = ran(self.site.inside(attack));
        assert_eq!(self.reached().0, 0, "{confined:?}");
        confined
    }

    /// The grant holds: what was tried before was not just a sandbox without sockets.
    #[track_caller]
    fn still_open(&self) {
        let ask = "socket.socket(socket.AF_UNIX).connect(os.environ['T'] + '/good/s')";
        ran(self.site.inside(&python(ask)));
        assert_eq!(self.reached(), (0, 1));
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn other_tables_of_calls_lead_nowhere() {
    // 32-bit: socketcall(102), socket(359), connect(362); x32: socket(41), connect(42). Addresses lie below 4 GiB.
    let source = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
static long old(long n, long a, long b, long c) {
    long r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(n), "b"(a), "c"(b), "d"(c) : "memory", "r8", "r9", "r10", "r11");
    return (int)r;
}
int main(void) {
    char *low = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    struct sockaddr_un *to = (void *)low;
    unsigned *args = (void *)(low + 1024);
    to->sun_family = AF_UNIX;
    snprintf(to->sun_path, sizeof to->sun_path, "%s/bad/s", getenv("T"));
    /* A socket of the ordinary table, connected by the others. */
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    args[0] = s; args[1] = (unsigned)(long)to; args[2] = sizeof *to;
    printf("call %ld\n", old(102, 3, (long)args, 0));
    s = socket(AF_UNIX, SOCK_STREAM, 0);
    printf("own %ld\n", old(362, s, (long)to, sizeof *to));
    args[0] = AF_UNIX; args[1] = SOCK_STREAM; args[2] = 0;
    s = old(102, 1, (long)args, 0);
    if (s < 0) s = old(359, AF_UNIX, SOCK_STREAM, 0);
    if (s >= 0) old(362, s, (long)to, sizeof *to);
    s = syscall(0x40000000 + 41, AF_UNIX, SOCK_STREAM, 0);
    if (s < 0) s = socket(AF_UNIX, SOCK_STREAM, 0);
    printf("x32 %ld\n", syscall(0x40000000 + 42, s, to, sizeof *to));
    puts("__done__");
    return 0;
}
"#;
    for caller in callers() {
        let services = Services::new(caller);
        let program = services.site.compile("tables", source, &[]);
        let attack = [program.to_str().unwrap().to_owned()];
        services.attacked(&attack);
        services.still_open();
    }
}

/// Rings connect without a call that a filter could see; there are none, with a grant as without.
#[test]
fn there_are_no_rings() {
    for caller in callers() {
        let services = Services::new(caller);
        let attack = python("print('setup', call(425, 4, ctypes.create_string_buffer(120))[1])");
        let confined = ran(services.site.inside(&attack));
        assert!(confined.has("setup 38"), "{confined:?}");
        services.still_open();
    }
}

/// The closed socket under the name of the granted one, and under others.
#[test]
fn other_names_lead_nowhere() {
    for caller in callers() {
        let services = Services::new(caller);
        let ask =
            "python3 -c 'import socket,sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])'";
        // In a mount namespace of one's own, and back in place by a mount over the directory.
        services.attacked(&sh(&format!(
            "unshare -Urm sh -c \"mount --bind $T/bad/s $T/good/s; {ask} $T/good/s\" 2>/dev/null
             unshare -Urm sh -c \"mount --bind $T/bad $T/good; {ask} $T/good/s\" 2>/dev/null"
        )));
        // Links, hard links, descriptors, the way round, other kinds of sockets.
        services.attacked(&python(&format!(
            r"
t = os.environ['T']
held = os.open(t + '/bad/s', os.O_PATH)
there = os.open(t + '/bad', os.O_PATH)
names = [t + '/bad/s', t + '/good/../bad/s', '/proc/self/fd/%d' % held, '/proc/self/fd/%d/s' % there, '/proc/self/root' + t + '/bad/s',
    '/proc/%d/cwd/s' % os.getpid(), 's', './s', t + '/ws/s', 'alias', 'link', 'linked/s', '\0{}']
try: os.link(t + '/bad/s', 'alias')
except OSError: pass
for to, name in ((t + '/bad/s', 'link'), (t + '/bad', 'linked')):
    try: os.symlink(to, name)
    except OSError: pass
for name in names:
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK):
        try: socket.socket(socket.AF_UNIX, kind).connect(name)
        except OSError: pass
os.chdir(t + '/bad')
for name in ('s', '../bad/s'):
    try: socket.socket(socket.AF_UNIX).connect(name)
    except OSError: pass
for make in (lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0]):
    try: make().sendto(b'x', t + '/bad/d')
    except OSError: pass
    try: make().sendmsg([b'x'], [], 0, t + '/bad/d')
    except OSError: pass
try: socket.socket(40, socket.SOCK_STREAM); print('vsock')
except OSError: pass
os.chdir(t + '/ws')
for name in ('alias', 'link', 'linked'):
    try: os.unlink(name)
    except OSError: pass
",
            services.abstract_name
        )));
        services.still_open();
    }
}

/// A directory on the way and the last link change places with others for as long as it takes.
#[test]
fn what_changes_on_the_way_leads_nowhere() {
    for caller in callers() {
        let services = Services::new(caller);
        let attack = python(
            r"
import threading, time
t = os.environ['T']
for name, to in (('a', '/good'), ('b', '/bad'), ('s1', '/good/s'), ('s2', '/bad/s')):
    os.symlink(t + to, name)
over = False
def flip(x, y):
    # renameat2(RENAME_EXCHANGE)
    number = 316 if os.uname().machine == 'x86_64' else 276
    while not over: call(number, -100, x, -100, y, 2)
threads = [threading.Thread(target=flip, args=pair) for pair in ((b'a', b'b'), (b's1', b's2'))]
for one in threads: one.start()
end = time.monotonic() + 1.5
while time.monotonic() < end:
    for name in ('a/s', 's1'):
        # Nobody accepts meanwhile: a full queue is not waited for.
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try: s.connect(name)
        except OSError: pass
over = True
for one in threads: one.join()
for name in ('a', 'b', 's1', 's2'): os.unlink(name)
",
        );
        let control = ran(services.site.outside(&attack));
        let (closed, granted) = services.reached();
        assert!(closed > 0 && granted > 0, "{control:?}");
        let confined = ran(services.site.inside(&attack));
        let (closed, granted) = services.reached();
        assert!(closed == 0 && granted > 0, "{granted}: {confined:?}");
        services.still_open();
    }
}
