//! The rows, and the cells of each.

use super::Cell::{Holds, Names, Refuses};
use super::{Engine, Row, check};

/// One test a cell.
macro_rules! table {
    ($($name:ident: [$bwrap:expr, $builtin:expr, $landlock:expr] $row:expr;)*) => {
        $(mod $name {
            use super::*;
            const ROW: Row = $row;
            #[test]
            fn bwrap() {
                check(Engine::Bwrap, &ROW, &$bwrap);
            }
            #[test]
            fn builtin() {
                check(Engine::Builtin, &ROW, &$builtin);
            }
            #[test]
            fn classic() {
                check(Engine::Classic, &ROW, &$builtin);
            }
            #[test]
            fn landlock() {
                check(Engine::Landlock, &ROW, &$landlock);
            }
        })*
    };
}

/// A row that needs nothing but the usual spec.
const PLAIN: Row = Row {
    top: "",
    files: "",
    more: "",
    before: "",
    steps: "",
    prints: "",
};

table! {
    the_workspace_is_writable: [Holds, Holds, Holds] Row {
        steps: "$R sh -c 'mkdir d && echo one > d/f && mv d/f d/g && chmod 700 d/g && touch -d @5 d/g && ln d/g d/h && rm d/h'
            cat ws/d/g; stat -c '%a %Y' ws/d/g",
        prints: "one\n700 5\n",
        ..PLAIN
    };
    nothing_else_is: [Holds, Holds, Holds] Row {
        before: "mkdir own; echo KEEP > own/f; chmod 640 own/f; touch -d @7 own/f",
        steps: "$R sh -c 'cd ..; echo x > own/f; echo x > own/new; rm -f own/f; mv own o2; chmod 777 own/f own; touch -d @9 own/f; ln own/f ws/alias
              python3 -c \"import os; f = os.open(\\\"own/f\\\", os.O_RDONLY)
for call in (lambda: os.fchmod(f, 0o777), lambda: os.utime(f, (1, 1)), lambda: os.setxattr(f, \\\"user.x\\\", b\\\"1\\\"), lambda: os.truncate(\\\"own/f\\\", 0)):
    try: call(); print(\\\"done\\\")
    except OSError: pass\"' 2>/dev/null
            cat own/f; ls own; stat -c '%a %Y' own/f; getfattr -d own/f 2>/dev/null; ls ws",
        prints: "KEEP\nf\n640 7\n",
        ..PLAIN
    };
    protected_paths_stay: [Holds, Holds, Holds] Row {
        top: "protected_paths = [\"ws/prot\", \"ws/later\"]",
        before: "mkdir ws/prot; echo KEEP > ws/prot/f; chmod 644 ws/prot/f",
        steps: "$R sh -c 'echo x > prot/f; echo x > prot/n; rm -rf prot; mv prot p; chmod 600 prot/f; touch -d @9 prot/f; echo x > later; mkdir later' 2>/dev/null
            cat ws/prot/f; ls ws ws/prot; stat -c %a ws/prot/f",
        prints: "KEEP\nws:\nprot\n\nws/prot:\nf\n644\n",
        ..PLAIN
    };
    names_hold_at_creation: [Holds, Holds, Holds] Row {
        files: "deny_write = [\"*.secret\"]",
        steps: "$R sh -c 'echo x > a.secret; echo x > b; mv b b.secret; ln b c.secret; ln -s b d.secret; mkdir e.secret; mkdir n; echo x > n/f.secret; echo ok' 2>/dev/null; find ws | sort",
        prints: "ok\nws\nws/b\nws/n\n",
        ..PLAIN
    };
    hidden_files_stay_hidden: [Holds, Holds, Holds] Row {
        files: "deny_read = [\"vault\", \"key\"]",
        before: "mkdir vault; echo SECRET > vault/k; echo SECRET > key; echo open > beside; printf '#!/bin/sh\\necho SECRET\\n' > vault/x; chmod +x vault/x",
        steps: "$R sh -c 'cat ../vault/k; cat ../key; ../vault/x; cp ../key copy; (exec 3< ../key; cat <&3); cat /proc/self/cwd/../key; cat ../beside' 2>/dev/null; cat ws/copy 2>/dev/null",
        prints: "open\n",
        ..PLAIN
    };
    a_bound_view_shows_what_is_bound: [Holds, Holds, Holds] Row {
        files: "# the last one counts",
        before: "sed -i 's/view = \"host\"/view = \"bound\"/' spec.toml; echo SECRET > ../home/f; echo mine > ws/f",
        steps: "$R sh -c 'cat f; cat \"$HOME\"/f; ls \"$HOME\"; cat /usr/bin/env > /dev/null && echo system' 2>/dev/null",
        prints: "mine\nsystem\n",
        ..PLAIN
    };
    read_only_modes: [Holds, Holds, Holds] Row {
        top: "mode = \"review\"",
        before: "echo KEEP > ws/f",
        steps: "$R sh -c 'echo x > f; echo x > n; rm -f f; chmod 777 f; echo t > $TMPDIR/t && cat $TMPDIR/t' 2>/dev/null; cat ws/f; ls ws",
        prints: "t\nKEEP\nf\n",
        ..PLAIN
    };
    temporary_files_are_the_runs_own: [Holds, Holds, Holds] Row {
        steps: "$R sh -c 'f=$(mktemp) && echo t > $f && cat $f; mkdir -p $TMPDIR/a/b; chmod 0 $TMPDIR/a; stat -c %u $TMPDIR | grep -qx $(id -u) && echo own'",
        prints: "t\nown\n",
        ..PLAIN
    };
    the_network_is_off: [Holds, Holds, Holds] Row {
        before: "python3 -c '
import socket, threading, sys
s = socket.socket(); s.bind((\"127.0.0.1\", 0)); s.listen(); s.settimeout(20)
open(\"port\", \"w\").write(str(s.getsockname()[1]))
try: s.accept(); open(\"reached\", \"w\")
except OSError: pass' > /dev/null 2>&1 & while ! [ -s port ]; do sleep 0.05; done",
        steps: "$R python3 -c '
import socket
port = int(open(\"../port\").read())
for family in socket.AF_INET, socket.AF_INET6:
    for form in socket.SOCK_STREAM, socket.SOCK_DGRAM:
        try:
            s = socket.socket(family, form); s.settimeout(2)
            s.connect((\"127.0.0.1\" if family == socket.AF_INET else \"::ffff:127.0.0.1\", port))
            if form == socket.SOCK_STREAM: print(\"connected\")
        except OSError: pass
print(\"end\")' 2>/dev/null
            ls reached 2>/dev/null; kill %1",
        prints: "end\n",
        ..PLAIN
    };
    processes_outside_are_out_of_reach: [Holds, Holds, Holds] Row {
        before: "MARK=outside sleep 30 & echo $! > pid",
        steps: "$R sh -c 'p=$(cat ../pid); kill -9 $p; grep -a MARK /proc/$p/environ; readlink /proc/$p/fd/0; prlimit --pid $p --cpu=1; echo end' 2>/dev/null
            kill -0 $(cat pid) && echo alive; kill $(cat pid)",
        prints: "end\nalive\n",
        ..PLAIN
    };
    no_capability_is_left: [Holds, Holds, Holds] Row {
        steps: "$R sh -c 'grep -E \"^(CapEff|CapPrm|CapInh|CapAmb|NoNewPrivs|Seccomp):\" /proc/self/status | tr -d \"\\t\" | tr \"\\n\" \" \"; unshare -Ur true && echo unshared; mount -t tmpfs t /mnt && echo mounted' 2>/dev/null; echo",
        prints: "CapInh:0000000000000000 CapPrm:0000000000000000 CapEff:0000000000000000 CapAmb:0000000000000000 NoNewPrivs:1 Seccomp:2 \n",
        ..PLAIN
    };
    the_ending_is_the_commands: [Holds, Holds, Holds] Row {
        steps: "$R sh -c 'exit 7'; echo $?; $R sh -c 'kill -9 $$'; echo $?; $R ./nothing 2>/dev/null; echo $?; echo in | $R cat",
        prints: "7\n137\n127\nin\n",
        ..PLAIN
    };
    nothing_outlives_the_run: [Holds, Holds, Holds] Row {
        steps: "$R sh -c 'setsid sh -c \"sleep 3; echo late > late\" & setsid -f sleep $((71700+17)); echo end'; pgrep -f '^sleep 71717'; sleep 4; ls ws",
        prints: "end\n",
        ..PLAIN
    };
    git_works_and_its_hooks_stay_closed: [Holds, Holds, Holds] Row {
        steps: "$R sh -c 'git init -q r && cd r && echo x > f && git add f && git -c user.name=a -c user.email=b commit -qm one && git log --oneline | wc -l; echo evil > .git/hooks/pre-commit; git config core.fsmonitor evil' 2>/dev/null
            ls ws/r/.git/hooks 2>/dev/null | grep -v sample; grep fsmonitor ws/r/.git/config",
        prints: "1\n",
        ..PLAIN
    };
    git_works_where_its_configuration_is_not_shown: [Holds, Holds, Holds] Row {
        files: "# the last one counts",
        before: "sed -i 's/view = \"host\"/view = \"bound\"/' spec.toml; git config --file ../home/.gitconfig user.name SECRET",
        steps: "$R sh -c 'git init -q r && cd r && git config user.name || echo none' 2>/dev/null",
        prints: "none\n",
        ..PLAIN
    };
    programs_in_writable_places_are_closed: [Holds, Holds, Holds] Row {
        more: "[exec]\ndeny_writable = true",
        before: "cp /bin/true ws/tool",
        steps: "$R sh -c './tool && echo ran; cp /bin/true $TMPDIR/t; $TMPDIR/t && echo ran; env true && echo system' 2>/dev/null",
        prints: "system\n",
        ..PLAIN
    };
    devices_and_pipes_work: [Holds, Holds, Holds] Row {
        steps: "$R bash -c 'echo x > /dev/null; head -c 4 /dev/zero | wc -c; cat <(echo pipe); echo out > /dev/stdout; head -c 1 /dev/urandom | wc -c; head -c 1 /dev/kmsg /dev/mem /dev/vda /dev/sda' 2>/dev/null | cat",
        prints: "4\npipe\nout\n1\n",
        ..PLAIN
    };
    shared_memory_of_the_host_is_closed: [Holds, Holds, Holds] Row {
        before: "ipcmk -M 4096 -p 666 | grep -o '[0-9]*$' > id; echo SECRET > /dev/shm/ccbox-it-$$; echo $$ > shm",
        steps: "$R sh -c 'python3 -c \"import ctypes; l = ctypes.CDLL(None); l.shmat.restype = ctypes.c_long; print(l.shmat($(cat ../id), None, 0))\"; cat /dev/shm/ccbox-it-$(cat ../shm); echo x > /dev/shm/ccbox-it-new; echo end' 2>/dev/null; ls /dev/shm/ccbox-it-new 2>/dev/null; ipcrm -m $(cat id); rm /dev/shm/ccbox-it-$$",
        prints: "-1\nend\n",
        ..PLAIN
    };
    another_path_inside: [Holds, Holds, Refuses(&["guest_path", "spec.toml:", "needs a mount"])] Row {
        more: "[[bind_mounts]]\nhost_path = \"@T@/ws\"\nguest_path = \"/mnt\"",
        steps: "$R sh -c 'echo x > /mnt/f'; cat ws/f",
        prints: "x\n",
        ..PLAIN
    };
    a_pattern_of_what_is_hidden: [Holds, Holds, Refuses(&["a pattern in deny_read", "spec.toml:"])] Row {
        files: "deny_read = [\"*.key\"]",
        before: "echo SECRET > ws/a.key",
        steps: "$R cat a.key 2>/dev/null; echo $?",
        prints: "1\n",
        ..PLAIN
    };
    hidden_inside_a_writable_tree: [Holds, Holds, Refuses(&["/ws/hidden` hidden inside the writable `"])] Row {
        files: "deny_read = [\"ws/hidden\"]",
        before: "echo SECRET > ws/hidden",
        steps: "$R cat hidden 2>/dev/null; echo $?",
        prints: "1\n",
        ..PLAIN
    };
    sockets_of_the_host_by_path: [Holds, Holds, Holds] Row {
        more: "[network]\nallow_unix_sockets = [\"s\"]",
        before: "python3 -c '
import socket
s = socket.socket(socket.AF_UNIX); s.bind(\"s\"); s.listen(); open(\"up\", \"w\"); s.settimeout(4); s.accept()[0].send(b\"hello\")' > /dev/null 2>&1 & while ! [ -e up ]; do sleep 0.05; done",
        steps: "$R python3 -c '
import socket
s = socket.socket(socket.AF_UNIX); s.connect(\"../s\"); print(s.recv(9).decode())'",
        prints: "hello\n",
        ..PLAIN
    };
    an_open_network_is_the_hosts: [Holds, Holds, Holds] Row {
        more: "[network]\nmode = \"open\"",
        before: "sed -i /network_enabled/d spec.toml; python3 -c '
import socket
s = socket.socket(); s.bind((\"127.0.0.1\", 0)); s.listen(); s.settimeout(20)
open(\"port\", \"w\").write(str(s.getsockname()[1]))
s.accept()[0].send(b\"hello\")' > /dev/null 2>&1 & while ! [ -s port ]; do sleep 0.05; done",
        steps: "$R python3 -c '
import os, socket
s = socket.create_connection((\"127.0.0.1\", int(open(\"../port\").read())), 5); print(s.recv(9).decode())
for call in (lambda: socket.socket(socket.AF_UNIX).connect(\"/run/x\"), lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW), lambda: os.kill(os.getppid(), 0) or os.kill(1, 9)):
    try: call(); print(\"done\")
    except OSError: pass
os.mkdir(\"d\"); print(open(\"/proc/self/status\").read().count(\"CapEff:\\t0000000000000000\"))' 2>/dev/null",
        prints: "hello\n1\n",
        ..PLAIN
    };
    limits_end_what_goes_beyond: [Holds, Holds, Holds] Row {
        more: "[limits]\nfiles = 40\ncpu_seconds = 1\nwall_seconds = 30\nmemory = \"200M\"",
        steps: "$R sh -c 'ulimit -n; ulimit -Hn'; $R sh -c 'while :; do :; done' 2>/dev/null; echo $?
            $R python3 -c 'print(len(bytearray(400 << 20)))' 2>/dev/null; sed -i s/wall_seconds.*/wall_seconds=1/ spec.toml; $R sleep 60 2>/dev/null; echo $?",
        prints: "40\n40\n152\n143\n",
        ..PLAIN
    };
    a_refused_read_is_told: [Holds, Holds, Names("reads=contents(names-visible,denials-not-reported)")] Row {
        files: "deny_read = [\"key\"]",
        before: "echo SECRET > key",
        steps: "$R cat ../key 2>&1 | grep -c 'ccbox: denied file-read-data .*/key'",
        prints: "1\n",
        ..PLAIN
    };
    a_limit_of_temporary_files: [Holds, Holds, Refuses(&["limits.tmp", "spec.toml:"])] Row {
        more: "[limits]\ntmp = \"1M\"",
        steps: "$R sh -c 'head -c 2000000 /dev/zero > $TMPDIR/f' 2>/dev/null; echo $?",
        prints: "1\n",
        ..PLAIN
    };
    sockets_of_the_commands_own: [Holds, Holds, Holds] Row {
        more: "[network]\nallow_unix_sockets = [\"none\"]",
        steps: "$R python3 -c '
import os, socket
for place in \".\", os.environ[\"TMPDIR\"]:
    s = socket.socket(socket.AF_UNIX); s.bind(place + \"/own\"); s.listen()
    c = socket.socket(socket.AF_UNIX); c.connect(place + \"/own\"); c.send(b\"hi\"); print(s.accept()[0].recv(9).decode())
for form in socket.SOCK_DGRAM, socket.SOCK_RAW:
    try: socket.socket(socket.AF_UNIX, form); print(\"made\")
    except OSError: pass'; rm -f ws/own",
        prints: "hi\nhi\n",
        ..PLAIN
    };
    every_socket_of_the_host: [Holds, Holds, Refuses(&["allow_all_unix_sockets", "spec.toml:"])] Row {
        more: "[network]\nallow_all_unix_sockets = true",
        steps: "$R echo hi",
        prints: "hi\n",
        ..PLAIN
    };
    hosts_by_name: [Holds, Holds, Holds] Row {
        before: "sed -i 's/network_enabled = false/egress_allowlist = [\"nobody.invalid\"]/' spec.toml",
        steps: "$R bash -c 'echo ${HTTPS_PROXY:+proxy}; for host in nobody.invalid else.invalid; do
              curl -s -o /dev/null -m 20 -w \"%{http_connect}\\n\" https://$host/; done' 2>/dev/null",
        prints: "proxy\n502\n403\n",
        ..PLAIN
    };
    a_port_of_the_host: [Holds, Holds, Holds] Row {
        before: "python3 -c '
import http.server, threading
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(200); self.end_headers(); self.wfile.write(b\"granted\\n\" if self.server is a else b\"SECRET\\n\")
a, b = (http.server.HTTPServer((\"127.0.0.1\", 0), H) for _ in range(2))
threading.Thread(target=a.serve_forever, daemon=True).start()
open(\"ports\", \"w\").write(f\"{a.server_port} {b.server_port}\"); b.timeout = 30; b.handle_request()' > /dev/null 2>&1 & while ! [ -s ports ]; do sleep 0.05; done
            read a b < ports; sed -i \"s/network_enabled = false/egress_allowlist = [\\\"127.0.0.1:$a\\\"]/\" spec.toml",
        steps: "$R bash -c \"curl -s -m 20 --noproxy '*' http://127.0.0.1:$a/; curl -s -m 20 --noproxy '*' http://127.0.0.1:$b/; curl -s -m 20 -o /dev/null -w '%{http_code}\\n' http://127.0.0.1:$b/\" 2>/dev/null; kill %1",
        prints: "granted\n000\n",
        ..PLAIN
    };
}
