//! Engine `landlock` on the host's network: the proxies of the run are the only way out, and nobody else's.

use crate::cases::cases;

/// A server that must not be reached, and one that the spec grants; `$A` and `$B` are their ports.
const SERVERS: &str = r#"
cat > servers.py <<'X'
import socket, threading
hits = open("hits", "a", buffering=1)
def serve(s, name):
    while True:
        try:
            c, _ = s.accept(); hits.write(name + "\n"); c.sendall(name.encode()); c.close()
        except OSError: pass
made = []
for name in "granted", "SECRET":
    s = socket.socket(socket.AF_INET6); s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    s.bind(("::", 0)); s.listen(64); made.append(s.getsockname()[1])
    threading.Thread(target=serve, args=(s, name), daemon=True).start()
u = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); u.bind(("::", made[1]))
open("ports.new", "w").write(f"{made[0]} {made[1]}")
import os; os.rename("ports.new", "ports")
u.settimeout(50)
try:
    while True: u.recv(9); hits.write("SECRET\n")
except OSError: pass
X
python3 servers.py & while ! [ -e ports ]; do sleep 0.05; done; read A B < ports; export A B
sed -i "s/network_enabled = false/egress_allowlist = [\"127.0.0.1:$A\"]/" spec.toml
"#;

/// Each way around, with the host's server as witness. What the same calls do outside is the control.
const WAYS: &str = r#"
import ctypes, os, socket, struct, sys, threading
A, B = int(os.environ["A"]), int(os.environ["B"])
libc = ctypes.CDLL(None, use_errno=True)
def t(name, call):
    try: print(name, call())
    except OSError as e: print(name, e.strerror)
def say(s, to):
    s.settimeout(5); s.connect(to); return s.recv(9).decode()
four, six = lambda: socket.socket(), lambda: socket.socket(socket.AF_INET6)
t("direct", lambda: say(four(), ("127.0.0.1", B)))
t("six", lambda: say(six(), ("::1", B)))
t("mapped", lambda: say(six(), ("::ffff:127.0.0.1", B)))
t("any", lambda: say(four(), ("0.0.0.0", B)))
def later():
    s = four(); s.setblocking(False); s.connect_ex(("127.0.0.1", B)); s.setblocking(True); return say_again(s)
def say_again(s): s.settimeout(5); return s.recv(9).decode()
t("without waiting", later)
def fastopen():
    s = four(); s.sendto(b"x", 0x20000000, ("127.0.0.1", B)); return say_again(s)
t("fast open", fastopen)
def fastopen_message():
    s = four(); s.sendmsg([b"x"], [], 0x20000000, ("127.0.0.1", B)); return say_again(s)
t("fast open message", fastopen_message)
def deferred():
    s = four(); s.setsockopt(socket.IPPROTO_TCP, 30, 1); s.connect(("127.0.0.1", B)); s.send(b"x"); return say_again(s)
t("deferred", deferred)
t("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", B)))
t("mptcp", lambda: say(socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262), ("127.0.0.1", B)))
t("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).fileno() > 0)
def again():
    s = four(); s.connect(("127.0.0.1", A)); libc.connect(s.fileno(), struct.pack("H14x", 0), 16); return say(s, ("127.0.0.1", B))
t("after another", again)
t("bind", lambda: four().bind(("127.0.0.1", 0)))
t("listen", lambda: four().listen())
# Another thread changes the address, and the socket, under the call.
address = lambda port: struct.pack("!2xH4s8x", port, bytes([127, 0, 0, 1]))
buffer = ctypes.create_string_buffer(16); stop = []
def fill(port): ctypes.memmove(buffer, struct.pack("H", 2) + address(port)[2:], 16)
def flip():
    while not stop: fill(A); fill(B)
threading.Thread(target=flip, daemon=True).start()
got = set()
for _ in range(200):
    s = four(); s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 5, 0))
    if libc.connect(s.fileno(), buffer, 16) == 0:
        try: got.add(s.recv(9).decode())
        except OSError: pass
    s.close()
stop.append(1)
print("flipped", *sorted(got))
"#;

#[test]
fn nothing_but_the_granted_is_reached() {
    for case in cases() {
        case.spec("engine = \"landlock\"", "", "");
        let script = format!(
            "{SERVERS}\ncat > ways.py <<'X'\n{WAYS}\nX\npython3 ways.py > control; sort -u hits | tr '\\n' ' '; grep -c SECRET control; : > hits
            $R python3 ../ways.py > attack 2> said; sort -u hits; grep -v -E ' (Permission denied|Operation not permitted|Transport endpoint is not connected)$' attack
            grep -c \"ccbox: denied network-outbound 127.0.0.1:$B\" said; kill %1"
        );
        let done = case.steps(&script);
        let (control, attack) = done.out().split_once('\n').unwrap();
        let (hits, reached) = control.rsplit_once(' ').unwrap();
        assert_eq!(hits.trim(), "SECRET granted", "{}", done.out());
        assert!(reached.parse::<u32>().unwrap() >= 9, "{}", done.out());
        assert_eq!(attack, "granted\nflipped granted\n1\n", "{}", done.err);
    }
}

/// Other programs on this machine find the ports of the run's proxies and get nothing there; they are not the command's.
#[test]
fn strangers_are_not_served() {
    for case in cases() {
        case.spec("engine = \"landlock\"", "", "");
        let script = r#"sed -i 's/network_enabled = false/egress_allowlist = ["nobody.invalid"]/' spec.toml
            $R bash -c 'echo > up; while [ -e up ]; do sleep 0.05; done; curl -s -o /dev/null -m 20 -w "%{http_connect}\n" https://nobody.invalid/' &
            while ! [ -e ws/up ]; do sleep 0.05; done
            python3 -c '
import os, socket
ports = set()
listening = [l.split() for l in open("/proc/net/tcp").readlines()[1:]]
for l in listening:
    if l[3] == "0A" and l[1].startswith("0100007F:") and int(l[7]) == os.getuid(): ports.add(int(l[1].split(":")[1], 16))
served = 0
for port in ports:
    try:
        s = socket.create_connection(("127.0.0.1", port), 5)
        s.settimeout(5); s.sendall(b"CONNECT else.invalid:443 HTTP/1.1\r\nHost: else.invalid:443\r\n\r\n")
        served += len(s.recv(4096)) > 0
    except OSError: pass
print(len(ports) > 0, served)'
            rm ws/up; wait"#;
        case.steps(script).prints("True 0\n502\n");
    }
}

/// Where descriptors of others cannot be copied nobody could connect: that is said before anything runs.
#[test]
fn without_pidfd_getfd_it_is_refused() {
    for case in cases() {
        for more in ["", "[network]\nallow_unix_sockets = [\"s\"]"] {
            case.spec("engine = \"landlock\"", "", more);
            let on = "sed -i /network_enabled/d spec.toml; ";
            let on = if more.is_empty() { on } else { "" };
            case.steps(&format!("{on}$L descriptors $R echo STARTED; echo rc=$?"))
                .prints("rc=125\n")
                .refuses(&["pidfd_getfd", "seccomp=unconfined"]);
        }
        case.spec("engine = \"landlock\"", "", "");
        case.steps("$L descriptors $R sh -c 'echo hi > f; cat f'")
            .prints("hi\n");
    }
}
