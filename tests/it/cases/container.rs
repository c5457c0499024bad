//! Root, containers, and hosts on which something is missing.

use super::{Case, cases};
use crate::escape::{Caller, machine_root};

/// Cases whose set-up needs the rights of a machine's root.
fn with_machine_root() -> impl Iterator<Item = Case> {
    cases().into_iter().filter(|_| machine_root(Caller::Root))
}

/// CO-1: uid 0 is an ordinary user inside, who can work.
#[test]
fn root_has_no_capabilities_inside_and_can_work() {
    for c in cases() {
        c.spec(
            "protected_paths = [\"ws/prot\"]",
            "deny_read = [\"ws/vault\"]",
            "",
        );
        let script = r#"echo KEEP > ws/prot; mkdir ws/vault; echo SECRET > ws/vault/k
            $R bash -c 'grep -E "Cap(Eff|Bnd|Prm|Inh|Amb)|NoNewPrivs" /proc/self/status | tr -d "\t\n"; echo
              umount prot && echo e > prot; mount -o remount,bind,rw prot && echo e > prot; umount -l vault; cat vault/k; mknod b b 254 0 && echo made
              touch /etc/x /usr/x /x && echo touched; nsenter -t 1 -m true && echo entered; unshare -Urm true && echo unshared
              echo 1 > /proc/sys/kernel/printk && echo set; dmesg -c >/dev/null 2>&1 && echo dmesg'
            cat ws/prot; ls /etc/x /usr/x /x 2>/dev/null
            $R sh -c 'git init -q r; cd r; printf "all:\n\techo made > out\n" > Makefile; make -s; git add out
              git -c user.name=a -c user.email=b commit -qm x; git log --oneline | wc -l'; cat ws/r/out"#;
        let zero = "0".repeat(16);
        c.steps(script).prints(&format!(
            "CapInh:{zero}CapPrm:{zero}CapEff:{zero}CapBnd:{zero}CapAmb:{zero}NoNewPrivs:1\nKEEP\n1\nmade\n"
        ));
    }
}

/// CO-2: where /proc cannot be mounted afresh, the run is refused with that reason and the remedy, found out by trying.
#[test]
fn a_covered_proc_is_named_with_its_remedy() {
    for c in with_machine_root() {
        c.spec("", "", "");
        let script = "unshare -m --propagation private sh -c 'mount -t tmpfs t /proc/tty && exec $AS $R echo STARTED'; echo rc=$?";
        c.root_steps(script)
            .prints("rc=125\n")
            .refuses(&["/proc", "systempaths=unconfined"]);
    }
}

/// CO-3: where user namespaces are forbidden the message names the switch; nothing runs.
#[test]
fn forbidden_user_namespaces_are_named_with_their_switch() {
    for c in cases() {
        c.spec("", "", "");
        for inner in ["setpriv --no-new-privs $R", "$R"] {
            let script = format!(
                "unshare -Ur sh -c 'echo 0 > /proc/sys/user/max_user_namespaces; exec {inner} echo STARTED'; echo rc=$?"
            );
            c.steps(&script).prints("rc=125\n").refuses(&[
                "user namespaces",
                "max_user_namespaces is 0",
                "sysctl",
            ]);
        }
    }
}

/// A uid 0 without CAP_SETFCAP may not be mapped into a user namespace (Linux 5.12): the hint is the capability.
#[test]
fn root_without_capabilities_is_told_which_one_is_missing() {
    for c in with_machine_root().filter(|c| c.caller == Caller::Root) {
        c.spec("", "", "");
        let script = "setpriv --bounding-set=-all --inh-caps=-all $R echo STARTED; echo rc=$?";
        c.root_steps(script)
            .prints("rc=125\n")
            .refuses(&["user namespaces", "CAP_SETFCAP"]);
    }
}

/// CO-4: a missing engine is refused with what to install, and an unknown or later back end is an error.
#[test]
fn a_missing_or_unknown_backend_is_never_replaced() {
    for c in cases() {
        for (word, says) in [
            ("microvm", "not supported yet"),
            ("nonsense", "unknown value `nonsense`"),
            ("docker", "unknown value `docker`"),
            ("", "empty string"),
            ("NATIVE ", "unknown value"),
        ] {
            c.spec(&format!("backend = \"{word}\""), "", "");
            c.steps("$R echo STARTED; echo rc=$?")
                .prints("rc=125\n")
                .refuses(&[says]);
        }
        c.spec("", "", "");
        for word in ["microvm", "nonsense", "docker", ""] {
            let script = format!(
                "env -C ws ccbox run --backend '{word}' --spec $T/spec.toml -- echo STARTED; echo rc=$?"
            );
            c.steps(&script).prints("rc=125\n").refuses(&["--backend"]);
        }
    }
    for c in with_machine_root() {
        c.spec("", "", "");
        for hide in [
            "mount --bind /bin/false /usr/bin/bwrap",
            "mount -t tmpfs t /mnt; cp -a /usr/bin /mnt/bin; rm /mnt/bin/bwrap; mount --bind /mnt/bin /usr/bin",
        ] {
            let script = format!(
                "unshare -m --propagation private sh -c '{hide}; exec $AS env -C ws ccbox run --engine bwrap --spec $T/spec.toml -- echo STARTED'; echo rc=$?"
            );
            c.root_steps(&script)
                .prints("rc=125\n")
                .refuses(&["no sandbox on this host", "install"]);
        }
    }
}

/// CO-5: a call inside a sandbox ends soon and keeps the outer rules.
#[test]
fn a_nested_call_keeps_the_outer_rules() {
    for c in cases() {
        c.spec("", "", "");
        std::fs::rename(c.t().join("spec.toml"), c.t().join("inner.toml")).unwrap();
        c.spec("protected_paths = [\"ws/prot\"]", "", "");
        let script = "echo KEEP > ws/prot
            timeout 20 $R sh -c \"ccbox run --spec $T/inner.toml -- sh -c 'echo inner; echo e > prot'; echo rc=\\$?
              ccbox run -- sh -c 'echo plain; echo e > prot'\"; cat ws/prot";
        c.steps(script)
            .prints("rc=125\nplain\nKEEP\n")
            .says(&["error", "inside a ccbox sandbox"]);
    }
}

/// CO-6: a resolver configuration that links into a private directory is readable, and its absence harms nothing. It is the
/// sandbox' own where connections are caught, and else the host's.
#[test]
fn a_linked_resolver_configuration_is_followed() {
    for c in with_machine_root() {
        let caught = ("", "nameserver 127.0.0.1\nsearch .\nup\n");
        let not_caught = (
            "[network]\ntransparent_ports = []\n",
            "nameserver 192.0.2.1\nup\n",
        );
        for (view, (network, said)) in ["bound", "host"]
            .into_iter()
            .flat_map(|view| [(view, caught), (view, not_caught)])
        {
            c.raw_spec(&format!(
                "[[bind_mounts]]\nhost_path = \"@T@/ws\"\n[filesystem]\nview = \"{view}\"\n{network}"
            ));
            let script = "unshare -m --propagation private sh -c '
                mount -t tmpfs t /mnt; cp -a /etc /mnt/etc; mount -t tmpfs t /run; mkdir /run/x; echo nameserver 192.0.2.1 > /run/x/stub.conf
                chmod 755 /run /run/x; ln -sf /run/x/stub.conf /mnt/etc/resolv.conf; mount --bind /mnt/etc /etc
                $AS $R cat /etc/resolv.conf; rm /run/x/stub.conf; $AS $R echo up'";
            c.root_steps(script).prints(said).says_nothing();
        }
    }
}

/// CO-7, as far as it can be had without Windows: neither the variable nor the socket of the interop server is there.
#[test]
fn windows_interop_is_out_of_reach() {
    for c in with_machine_root() {
        c.spec("", "", "");
        let script = r#"cat > serve.py <<'X'
import os, socket
s = socket.socket(socket.AF_UNIX); s.bind("/run/WSL/1_interop"); os.chmod("/run/WSL/1_interop", 0o777); s.listen(); s.settimeout(20)
open("ready", "w").close()
while True:
    c, _ = s.accept()
    if c.recv(9) == b"end": break
    c.send(b"REACHED")
X
            cat > call.py <<'X'
import os, socket, sys
try:
    s = socket.socket(socket.AF_UNIX); s.connect("/run/WSL/1_interop"); s.send(sys.argv[1].encode()); print(s.recv(9).decode())
except OSError: print("closed")
X
            export WSL_INTEROP=/run/WSL/1_interop
            unshare -m --propagation private bash -c 'mount -t tmpfs t /run; chmod 755 /run; mkdir /run/WSL; python3 serve.py & 
              while [ ! -e ready ]; do sleep .05; done
              $AS python3 call.py hi; $AS $R sh -c "echo \"[\$WSL_INTEROP]\"; python3 $T/call.py hi"; python3 call.py end; wait'"#;
        c.root_steps(script).prints("REACHED\n[]\nclosed\n\n");
    }
}

/// CO-8: the command is started without a shell and without the usual layout.
#[test]
fn a_static_program_needs_nothing_else() {
    for c in cases() {
        c.raw_spec(
            "network_enabled = false\n[[bind_mounts]]\nhost_path = \"@T@/store\"\nread_only = true\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n",
        );
        let script = r#"mkdir -p store/bin; printf '#include <stdio.h>\nint main(){puts("up");return 3;}\n' > b.c; gcc -static -o store/bin/box b.c
            export SHELL=/nonexistent/sh; $R $T/store/bin/box; echo rc=$?; PATH=$T/store/bin:$PATH; $R box; echo rc=$?"#;
        c.steps(script)
            .prints("up\nrc=3\nup\nrc=3\n")
            .says_nothing();
    }
}
