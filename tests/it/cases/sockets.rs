//! Unix sockets by path with the programs that use them: agents, and servers of the command's own.

use super::{Case, cases};

const ENGINES: [&str; 2] = ["builtin", "bwrap"];

/// `$T` read-only, `ws` writable, these sockets granted; `$E` is the call with an engine.
fn prepared(case: &Case, granted: &str, engine: &str, script: &str) -> String {
    case.raw_spec(&format!(
        "[[bind_mounts]]\nhost_path = \"@T@\"\nread_only = true\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n\
         [network]\nallow_unix_sockets = [{granted}]\n"
    ));
    format!("E=\"env -C $T/ws ccbox run --engine {engine} --spec $T/spec.toml --\"\n{script}")
}

/// A real ssh-agent, in a directory that is shown and in one that is private inside; started again while the command runs.
#[test]
fn an_ssh_agent_is_asked_for_keys() {
    for c in cases() {
        for engine in ENGINES {
            let setup = "rm -rf key* a.sock p; ssh-keygen -q -t ed25519 -N '' -C the-key -f key
                agent() { ssh-agent -D -a $1 >/dev/null 2>&1 & P=$!; while [ ! -S $1 ]; do sleep .02; done
                  SSH_AUTH_SOCK=$1 ssh-add -q key; }
                agent $T/a.sock";
            let script = format!(
                "{setup}
                export SSH_AUTH_SOCK=$T/a.sock
                $E ssh-add -l | cut -d' ' -f3
                kill $P; wait $P; rm -f a.sock"
            );
            c.steps(&prepared(&c, "\"a.sock\"", engine, &script))
                .prints("the-key\n");
            // Not granted: neither the variable nor the socket.
            let script = format!(
                "{setup}
                export SSH_AUTH_SOCK=$T/a.sock
                $E sh -c 'echo [$SSH_AUTH_SOCK]; SSH_AUTH_SOCK='$T'/a.sock ssh-add -l; echo rc=$?'
                kill $P; wait $P; rm -f a.sock"
            );
            c.steps(&prepared(&c, "\"/dev/shm\"", engine, &script))
                .prints("[]\nrc=2\n");
        }
        // Below a directory that is private inside, and another agent at the same path later on.
        let dir = tempfile::Builder::new()
            .prefix("agent-")
            .tempdir_in("/tmp")
            .unwrap();
        c.give(dir.path());
        let socket = dir.path().join("s");
        let script = format!(
            "S={}; ssh-keygen -q -t ed25519 -N '' -C first -f k1; ssh-keygen -q -t ed25519 -N '' -C second -f k2
            agent() {{ ssh-agent -D -a $S >/dev/null 2>&1 & P=$!; while [ ! -S $S ]; do sleep .02; done
              SSH_AUTH_SOCK=$S ssh-add -q $1; }}
            agent k1
            (while [ ! -e ws/asked ]; do sleep .02; done; kill $P; while [ -S $S ]; do sleep .02; done; rm -f $S; agent k2; echo > $T/again
             while [ ! -e ws/over ]; do sleep .02; done; kill $P) &
            SSH_AUTH_SOCK=$S $E sh -c 'ssh-add -l | cut -d\" \" -f3; : > asked; while [ ! -e ../again ]; do sleep .02; done
              ssh-add -l | cut -d\" \" -f3; : > over'
            wait; kill $P 2>/dev/null; true",
            socket.display()
        );
        let granted = format!("\"{}\"", socket.display());
        c.steps(&prepared(&c, &granted, "builtin", &script))
            .prints("first\nsecond\n");
    }
}

/// A real gpg-agent signs for a gpg that cannot read its keys.
#[test]
fn a_gpg_agent_signs() {
    for c in cases() {
        let script = "mkdir -m 700 g; export GNUPGHOME=$T/g
            gpg -q --batch --passphrase '' --quick-gen-key tester@example.com default default never 2>/dev/null
            gpg -q --list-keys >/dev/null
            GPG='gpg -q --batch --no-tty --no-auto-check-trustdb --lock-never'
            echo text > ws/text
            $E $GPG --sign --output signed text; echo sign=$?
            $E sh -c 'cat '$T'/g/private-keys-v1.d/* | grep -c .' 2>/dev/null
            $GPG --verify ws/signed 2>/dev/null; echo verify=$?
            gpgconf --kill gpg-agent; rm -rf g ws/*";
        let spec = |granted: &str| {
            let text = prepared(&c, granted, "builtin", script);
            let file = c.t().join("spec.toml");
            let mut spec = std::fs::read_to_string(&file).unwrap();
            spec.push_str(
                "[filesystem]\nallow_read = [\"g\"]\ndeny_read = [\"g/private-keys-v1.d\"]\n",
            );
            std::fs::write(&file, spec).unwrap();
            text
        };
        let run = spec("\"g/S.gpg-agent\"");
        c.steps(&run).prints("sign=0\n0\nverify=0\n");
        let run = spec("\"/dev/shm\"");
        let without = c.steps(&run);
        assert!(without.out.starts_with("sign=2\n"), "{without:?}");
    }
}

/// A message bus of the caller's, granted by its path: real clients log in, call and listen. The bus of the login session is a way
/// to everywhere (its service manager starts programs), and stays closed.
#[test]
fn a_granted_message_bus_is_used() {
    for c in cases() {
        for engine in ENGINES {
            let script = "rm -f bus; dbus-daemon --session --nofork --address=unix:path=$T/bus >/dev/null 2>&1 & P=$!
                while [ ! -S bus ]; do sleep .02; done
                export DBUS_SESSION_BUS_ADDRESS=unix:path=$T/bus
                cat > call.sh <<'X'
dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames | grep -c org.freedesktop.DBus
gdbus call --session -d org.freedesktop.DBus -o /org/freedesktop/DBus -m org.freedesktop.DBus.GetConnectionUnixUser org.freedesktop.DBus
X
                sh call.sh | tr -cd '0-9a-z(),\n' > outside; $E sh ../call.sh 2>/dev/null | tr -cd '0-9a-z(),\n' > inside
                wc -l < outside; cmp outside inside && echo same
                kill $P; wait $P 2>/dev/null; rm -f bus outside inside";
            c.steps(&prepared(&c, "\"bus\"", engine, script))
                .prints("2\nsame\n");
            c.steps(&prepared(
                &c,
                "\"/dev/shm\"",
                engine,
                &script.replace("; cmp outside inside && echo same", "; wc -l < inside"),
            ))
            .prints("2\n1\n");
        }
    }
}

/// No entry opens a way to everywhere: not its own path, not a directory above it.
#[test]
fn ways_to_everywhere_stay_closed() {
    for c in cases() {
        for path in [
            "/run/docker.sock",
            "/var/run/docker.sock",
            "/run/systemd/private",
        ] {
            let script = "$E echo STARTED; echo rc=$?";
            let script = prepared(&c, &format!("\"{path}\""), "builtin", script);
            c.steps(&script)
                .prints("rc=125\n")
                .refuses(&["allow_unix_sockets", "no entry opens it"]);
        }
        let script = "mkdir run; export XDG_RUNTIME_DIR=$T/run DBUS_SESSION_BUS_ADDRESS=unix:path=$T/run/bus
            cat > serve.py <<'X'
import socket, sys, threading
def serve(name):
    s = socket.socket(socket.AF_UNIX); s.bind(name); s.listen()
    open(name + '.ready', 'w').close()
    while True: s.accept()[0].send(b'REACHED')
for name in sys.argv[1:]: threading.Thread(target=serve, args=[name]).start()
X
            python3 serve.py run/bus run/other & P=$!; while [ ! -e run/bus.ready ] || [ ! -e run/other.ready ]; do sleep .05; done
            cat > ask.py <<'X'
import os, socket
for name in ('bus', 'other'):
    try:
        s = socket.socket(socket.AF_UNIX); s.connect(os.environ['D'] + '/' + name); print(name, s.recv(9).decode())
    except OSError: print(name, 'closed')
X
            D=$T/run python3 ask.py; D=$T/run $E sh -c 'python3 ../ask.py; echo [$DBUS_SESSION_BUS_ADDRESS]'; kill $P; wait $P; rm -rf run";
        // The directory itself is private inside under that name; another way to the same sockets is not.
        for granted in ["\"run\"", "\"run/other\""] {
            let script = prepared(&c, granted, "builtin", script);
            c.steps(&script)
                .prints("bus REACHED\nother REACHED\nbus closed\nother REACHED\n[]\n");
        }
    }
}

/// Servers that Node, Python and Go make by path, in the writable tree and in the private /tmp; descriptors and credentials pass.
#[test]
fn servers_of_the_commands_own_work() {
    let python = r"
import array, asyncio, os, socket, struct, tempfile
async def main(path):
    async def serve(r, w):
        w.write(await r.read(5)); await w.drain(); w.close()
    server = await asyncio.start_unix_server(serve, path)
    r, w = await asyncio.open_unix_connection(path)
    w.write(b'hello'); print((await r.read()).decode())
    server.close()
for path in ('py.sock', os.getcwd() + '/py2.sock', '/dev/shm/py.sock'): asyncio.run(main(path))
s = socket.socket(socket.AF_UNIX); s.bind('fds.sock'); s.listen()
c = socket.socket(socket.AF_UNIX); c.connect('fds.sock'); a, _ = s.accept()
r, w = os.pipe()
socket.send_fds(c, [b'x'], [w]); _, fds, _, _ = socket.recv_fds(a, 1, 1)
os.write(fds[0], b'through'); print(os.read(r, 7).decode())
a.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
c.sendmsg([b'y'], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack('3i', os.getpid(), os.getuid(), os.getgid()))])
_, data, _, _ = a.recvmsg(1, 64)
print(struct.unpack('3i', data[0][2]) == (os.getpid(), os.getuid(), os.getgid()))
try: socket.socket().bind(('127.0.0.1', 81)); print('low')
except PermissionError: print('no low port')
_, uid, gid = struct.unpack('3i', a.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
print((uid, gid) == (os.getuid(), os.getgid()))
";
    let node = "
const net = require('net');
const s = net.createServer(c => c.end('node')).listen('node.sock', () =>
  net.connect('node.sock').on('data', d => { console.log(String(d)); s.close(); }));
";
    let go = r#"package main
import ("fmt"; "io"; "net")
func main() {
  l, err := net.Listen("unix", "go.sock"); if err != nil { panic(err) }
  go func() { c, _ := l.Accept(); c.Write([]byte("go")); c.Close() }()
  c, err := net.Dial("unix", l.Addr().String()); if err != nil { panic(err) }
  b, _ := io.ReadAll(c); fmt.Println(string(b), l.Addr())
  _, err = net.ListenPacket("unixgram", "packet.sock"); fmt.Println(err != nil)
}
"#;
    for c in cases() {
        for (name, text) in [("own.py", python), ("own.js", node), ("own.go", go)] {
            std::fs::write(c.t().join(name), text).unwrap();
        }
        for engine in ENGINES {
            let script = "rm -f ws/*; $E python3 ../own.py; $E node ../own.js
                [ -e own ] || HOME=$T/h GOFLAGS=-mod=mod GO111MODULE=off go build -o own own.go; $E ../own; ls ws";
            let script = prepared(&c, "\"/dev/shm\"", engine, script);
            c.steps(&script)
                .prints("hello\nhello\nhello\nthrough\nTrue\nno low port\nTrue\nnode\ngo go.sock\ntrue\nfds.sock\ngo.sock\npy.sock\npy2.sock\n")
                .says_nothing();
        }
    }
}

/// An unconnected socket that the caller hands over is not led anywhere else.
#[test]
fn an_inherited_socket_leads_nowhere_else() {
    let start = r"
import os, socket, subprocess, sys
t = os.environ['T']
s = socket.socket(socket.AF_UNIX); s.bind(t + '/host'); s.listen(); s.settimeout(.2)
d = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); d.bind(t + '/dgram'); d.settimeout(.2)
given = [socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)]
for one in given: os.set_inheritable(one.fileno(), True)
numbers = [str(one.fileno()) for one in given]
keep = [w for n in numbers for w in ('--keep-fd', n)] if sys.argv[1] == 'in' else []
call = ['ccbox', 'run', *keep, '--spec', t + '/spec.toml', '--'] if keep else []
subprocess.run(call + ['python3', t + '/use.py', *numbers], cwd=t + '/ws', pass_fds=[one.fileno() for one in given])
for one in (lambda: s.accept(), lambda: d.recv(1)):
    try: one(); print('REACHED')
    except OSError: print('nobody')
os.unlink(t + '/host'); os.unlink(t + '/dgram')
";
    let attack = r"
import socket, sys
print('ran', file=open('ran', 'w'))
stream, dgram = (socket.socket(fileno=int(n)) for n in sys.argv[1:])
try: stream.connect('../host')
except OSError: pass
try: dgram.connect('../dgram'); dgram.send(b'x')
except OSError: pass
";
    for c in cases() {
        std::fs::write(c.t().join("start.py"), start).unwrap();
        std::fs::write(c.t().join("use.py"), attack).unwrap();
        // Such sockets are refused at the start, unless the network is open.
        for (network, ran) in [("", ""), ("mode = \"open\"\n", "ran\n")] {
            c.raw_spec(&format!(
                "[[bind_mounts]]\nhost_path = \"@T@\"\nread_only = true\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n\
                 [network]\n{network}allow_unix_sockets = [\"/dev/shm\"]\n"
            ));
            c.steps("python3 start.py out; rm -f ws/ran; python3 start.py in; cat ws/ran 2>/dev/null; true")
                .prints(&format!("REACHED\nREACHED\nnobody\nnobody\n{ran}"));
        }
    }
}

/// With the host's network the same holds: names of the network namespace are everybody's there.
#[test]
fn with_the_hosts_network_the_same_is_closed() {
    let serve = "
import socket, sys, threading
def serve(name):
    s = socket.socket(socket.AF_UNIX); s.bind(name); s.listen()
    open('ready-' + name.strip('\\0').replace('/', '-'), 'w').close()
    while True: s.accept()[0].send(b'REACHED')
for name in sys.argv[1:]: threading.Thread(target=serve, args=[name.replace('@', '\\0')]).start()
t = socket.socket(); t.bind(('127.0.0.1', 0)); t.listen()
open('port', 'w').write(str(t.getsockname()[1])); open('ready', 'w').close()
while True: t.accept()[0].send(b'REACHED')
";
    let ask = "
import os, socket, sys
for name in sys.argv[1:]:
    try:
        s = socket.socket(socket.AF_UNIX); s.connect(name.replace('@', '\\0')); print(s.recv(9).decode())
    except OSError as e: print('closed')
s = socket.create_connection(('127.0.0.1', int(open('../port').read()))); print(s.recv(9).decode())
o = socket.socket(socket.AF_UNIX); o.bind('own'); o.listen()
c = socket.socket(socket.AF_UNIX); c.connect('own'); os.unlink('own'); print('own')
";
    for c in cases() {
        std::fs::write(c.t().join("serve.py"), serve).unwrap();
        std::fs::write(c.t().join("ask.py"), ask).unwrap();
        c.raw_spec(
            "[[bind_mounts]]\nhost_path = \"@T@\"\nread_only = true\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n\
             [network]\nmode = \"open\"\nallow_unix_sockets = [\"g\"]\n",
        );
        let script = "N=@cc-sockets-$$; python3 serve.py g o $N & P=$!; while [ ! -e ready ] || [ ! -S g ] || [ ! -S o ]; do sleep .05; done; sleep .1
            $R python3 ../ask.py ../g ../o $N; kill $P; wait $P; true";
        c.steps(script)
            .prints("REACHED\nclosed\nclosed\nREACHED\nown\n");
    }
}

/// A granted connection and a refused one are lines of the access log; the command's own are nobody's business.
#[test]
fn connections_to_services_are_written_down() {
    for c in cases() {
        std::fs::create_dir(c.t().join("log")).unwrap();
        c.give(&c.t().join("log"));
        let serve = "
import socket, sys, threading
def serve(name):
    s = socket.socket(socket.AF_UNIX); s.bind(name); s.listen()
    while True: s.accept()[0].send(b'REACHED')
for name in sys.argv[1:]: threading.Thread(target=serve, args=[name]).start()
";
        let ask = "
import os, socket
for name in ('../g', '../o'):
    try: socket.socket(socket.AF_UNIX).connect(name)
    except OSError: pass
s = socket.socket(socket.AF_UNIX); s.bind('own'); s.listen()
socket.socket(socket.AF_UNIX).connect('own'); os.unlink('own')
";
        std::fs::write(c.t().join("serve.py"), serve).unwrap();
        std::fs::write(c.t().join("ask.py"), ask).unwrap();
        let script = "python3 serve.py g o & P=$!; while [ ! -S g ] || [ ! -S o ]; do sleep .05; done; sleep .2
            $E python3 ../ask.py 2>/dev/null; kill $P; wait $P; grep -o '\"front.*\"allow\"' log/a; grep -o '\"front.*\"deny\"' log/a; wc -l < log/a";
        let script = prepared(&c, "\"g\"", "builtin", script);
        let file = c.t().join("spec.toml");
        let spec = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, spec + "access_log = \"log/a\"\n").unwrap();
        let t = c.t().canonicalize().unwrap();
        let line = |name: &str, decision: &str| {
            format!(
                "\"front\":\"unix\",\"target\":\"{}/{name}\",\"decision\":\"{decision}\"\n",
                t.display()
            )
        };
        c.steps(&script)
            .prints(&format!("{}{}2\n", line("g", "allow"), line("o", "deny")));
    }
}
