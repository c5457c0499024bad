//! Sockets of host services and well-known secrets.

use super::cases;

const SERVE: &str = r#"cat > serve.py <<'X'
import os, socket, sys
name = sys.argv[1].replace("@", "\0", 1) if sys.argv[1].startswith("@") else sys.argv[1]
s = socket.socket(socket.AF_UNIX); s.bind(name); s.listen(); s.settimeout(30)
open("ready", "w").close()
while True:
    c, _ = s.accept(); c.settimeout(5)
    if c.recv(9) == b"end": break
    c.send(b"REACHED")
X
cat > call.py <<'X'
import os, socket, sys
for n in sys.argv[2:]:
    n = n.replace("@", "\0", 1) if n.startswith("@") else n
    try:
        s = socket.socket(socket.AF_UNIX); s.connect(n); s.send(sys.argv[1].encode()); print(s.recv(9).decode())
    except OSError: print("closed")
X
"#;

/// CR-1: a socket of the host is out of reach by every name, and the variables that lead to it are gone.
#[test]
fn path_sockets_of_the_host_are_closed() {
    for c in cases() {
        for network in ["network_enabled = false", ""] {
            c.raw_spec(&format!(
                "{network}\n[[bind_mounts]]\nhost_path = \"@T@\"\nread_only = true\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n[filesystem]\nview = \"host\"\n"
            ));
            let script = format!(
                "rm -f ready host.sock; {SERVE} python3 serve.py $T/host.sock & while [ ! -e ready ]; do sleep .05; done
                ln -sf ../host.sock ws/l; python3 call.py hi $T/host.sock
                SSH_AUTH_SOCK=$T/host.sock DOCKER_HOST=unix://$T/host.sock $R sh -c \"python3 $T/call.py hi $T/host.sock /proc/self/root$T/host.sock ../host.sock l
                  echo [\\$SSH_AUTH_SOCK\\$DOCKER_HOST]\"; python3 call.py end $T/host.sock; wait"
            );
            c.steps(&script)
                .prints("REACHED\nclosed\nclosed\nclosed\nclosed\n[]\n\n");
        }
        // A grant of one path opens that one and no other, and brings back the variable that names it.
        c.raw_spec("[[bind_mounts]]\nhost_path = \"@T@\"\nread_only = true\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n[network]\nallow_unix_sockets = [\"host.sock\"]\n");
        let script = format!(
            "rm -f ready *.sock; {SERVE} for n in host other; do rm -f ready; python3 serve.py $T/$n.sock & while [ ! -e ready ]; do sleep .05; done; done
            ln -sf ../host.sock ws/l; ln -sf ../other.sock ws/o
            SSH_AUTH_SOCK=$T/host.sock DOCKER_HOST=unix://$T/other.sock $R sh -c \"python3 $T/call.py hi $T/host.sock l /proc/self/root$T/host.sock $T/other.sock o ../other.sock
              echo [\\$DOCKER_HOST] \\${{SSH_AUTH_SOCK##*/}}\"; python3 call.py end $T/host.sock $T/other.sock; wait"
        );
        c.steps(&script)
            .prints("REACHED\nREACHED\nREACHED\nclosed\nclosed\nclosed\n[] host.sock\n\n\n")
            .says(&[
                "denied network-outbound",
                "/other.sock",
                "a socket of the host",
            ])
            .says(&["hint: [network] allow_unix_sockets = [\"", "/other.sock\"]"]);
    }
}

/// CR-2: abstract sockets of the host are closed, also where the network is the host's own or no path rule holds.
#[test]
fn abstract_sockets_of_the_host_are_closed() {
    for c in cases() {
        for spec in [
            "network_enabled = false\n",
            "",
            "[network]\nmode = \"open\"\n",
            "[filesystem]\ndisabled = true\n",
            "[network]\nmode = \"open\"\n[filesystem]\ndisabled = true\n",
        ] {
            let binds = "[[bind_mounts]]\nhost_path = \"@T@\"\n";
            c.raw_spec(&format!("{spec}{binds}").replace(
                "network_enabled = false\n[[",
                "network_enabled = false\n\n[[",
            ));
            let script = format!(
                "rm -f ready; {SERVE} N=@cc-$$-test; python3 serve.py $N & while [ ! -e ready ]; do sleep .05; done
                python3 call.py hi $N; $R python3 $T/call.py hi $N; python3 call.py end $N; wait"
            );
            c.steps(&script).prints("REACHED\nclosed\n\n");
        }
    }
}

/// CR-3: whole secret directories are hidden, not single files of them; the rest of home is readable where the view shows it.
#[test]
fn well_known_secrets_are_hidden() {
    for c in cases() {
        c.spec("", "", "");
        let script = "mkdir -p h/.ssh h/.aws h/.gnupg h/.config/gh
            for f in .ssh/id_x .ssh/config .aws/credentials .aws/sso.json .gnupg/k .config/gh/hosts.yml .config/gh/extra .netrc .git-credentials; do echo SECRET > h/$f; done
            echo fine > h/readme
            HOME=$T/h $R sh -c 'cat ~/.ssh/* ~/.ssh/id_x ~/.aws/sso.json ~/.gnupg/k ~/.config/gh/extra ~/.netrc ~/.git-credentials; ls -A ~/.ssh ~/.aws; cat ~/readme
              echo x > ~/.ssh/authorized_keys; cat '$T'/h/.ssh/id_x /proc/self/root'$T'/h/.ssh/config; true'
            ls h/.ssh";
        c.steps(script).prints("fine\nconfig\nid_x\n");
    }
}

/// CR-6: what the command needs among its own processes works; sockets by path where a spec asks for a decision by path.
#[test]
fn sockets_of_the_commands_own_work() {
    for c in cases() {
        c.spec("", "", "");
        let script = r#"$R python3 -c "
import socket, multiprocessing as m
try:
    s = socket.socket(socket.AF_UNIX); s.bind('a.sock'); print('path')
except PermissionError: print('no path')
a, b = socket.socketpair(); a.send(b'x'); print('pair', b.recv(1))
t = socket.socket(); t.bind(('127.0.0.1', 0)); t.listen(); u = socket.create_connection(t.getsockname()); print('loop')
with m.Pool(2) as p: print(p.map(abs, [-1]))""#;
        c.steps(script)
            .prints("no path\npair b'x'\nloop\n[1]\n")
            .says_nothing();
        // That directory is a private one inside, so this opens none of the host.
        c.spec("", "", "[network]\nallow_unix_sockets = [\"/dev/shm\"]");
        c.steps(script)
            .prints("path\npair b'x'\nloop\n[1]\n")
            .says_nothing();
    }
}
