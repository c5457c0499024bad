//! Known kinds of failure in containers and of cost (`tests/it/cases/README.md`), on each engine.

use super::places::{ENGINES, around};
use super::{Engine, nothing_is_left};
use crate::cases::{Case, cases};
use crate::escape::machine_root;

fn on_each(top: &str, files: &str, check: impl Fn(Engine, &Case)) {
    for case in cases() {
        for engine in ENGINES {
            let top = format!("engine = \"{}\"\n{top}", engine.name());
            case.spec(&top, files, "");
            check(engine, &case);
            nothing_is_left(&case);
            case.steps("rm -rf ws store; mkdir ws");
        }
    }
}

/// CO-1: root is an ordinary user inside, who can work.
#[test]
fn root_takes_nothing_off_and_can_work() {
    let top = "protected_paths = [\"ws/prot\"]";
    on_each(top, "deny_read = [\"vault\"]", |engine, case| {
        let script = r#"echo KEEP > ws/prot; mkdir -p vault; echo SECRET > vault/k
            $R bash -c 'grep -E "Cap(Eff|Prm)|NoNewPrivs" /proc/self/status | tr -d "\t\n"; echo
              umount prot && echo e > prot; mount -o remount,bind,rw prot && echo e > prot; umount -l ../vault; cat ../vault/k; mknod b b 254 0 && echo made
              touch /etc/x /usr/x /x && echo touched; nsenter -t 1 -m true && echo entered; unshare -Urm true && echo unshared
              echo 1 > /proc/sys/kernel/printk && echo set; dmesg -c >/dev/null 2>&1 && echo dmesg' 2>/dev/null
            cat ws/prot; ls /etc/x /usr/x /x 2>/dev/null
            $R sh -c 'git init -q r; cd r; printf "all:\n\techo made > out\n" > Makefile; make -s; git add out
              git -c user.name=a -c user.email=b commit -qm x; git log --oneline | wc -l'; cat ws/r/out"#;
        let zero = "0".repeat(16);
        let done = case.steps(&around(engine, script));
        done.prints(&format!(
            "CapPrm:{zero}CapEff:{zero}NoNewPrivs:1\nKEEP\n1\nmade\n"
        ));
    });
}

/// CO-4: an engine that was asked for and cannot be had is not replaced, by another one or by none.
#[test]
fn a_missing_engine_is_not_replaced() {
    const STARTS: &str = "ccbox run --engine ENGINE --spec $T/spec.toml -- echo STARTED";
    for case in cases() {
        case.spec("", "", "");
        let none = "unshare -Ur sh -c \"echo 0 > /proc/sys/user/max_user_namespaces; exec";
        for (engine, how, words) in [
            ("builtin", none, "max_user_namespaces is 0"),
            ("bwrap", none, "max_user_namespaces is 0"),
            (
                "landlock",
                "sh -c \"exec $L landlock",
                "the kernel has none, or it is off",
            ),
        ] {
            let call = STARTS.replace("ENGINE", engine);
            let script = format!("{how} env -C ws {call}\"; echo rc=$?");
            case.steps(&script).prints("rc=125\n").refuses(&[words]);
        }
        if machine_root(case.caller) {
            let call = STARTS.replace("ENGINE", "bwrap");
            let script = format!(
                "unshare -m --propagation private sh -c 'mount --bind /bin/false /usr/bin/bwrap; exec $AS env -C ws {call}'; echo rc=$?"
            );
            case.root_steps(&script)
                .prints("rc=125\n")
                .refuses(&["`/usr/bin/bwrap` does not work", "install"]);
        }
    }
}

/// CO-5: a call inside ends soon, says why, and the outer rules hold, whatever the inner call asks for.
#[test]
fn a_call_inside_itself_says_so() {
    on_each("protected_paths = [\"ws/prot\"]", "", |engine, case| {
        let script = "echo KEEP > ws/prot; sed /protected_paths/d spec.toml > inner.toml
            timeout 20 $R sh -c \"ccbox run --spec $T/inner.toml -- sh -c 'echo inner; echo e > prot'; echo rc=\\$?
              ccbox run -- sh -c 'echo plain; echo e > prot' 2>/dev/null\"; cat ws/prot";
        let done = case.steps(&around(engine, script));
        done.prints("rc=125\nplain\nKEEP\n")
            .says(&["error", "inside a ccbox sandbox"]);
    });
}

/// CO-6: a resolver configuration that links into a private directory stops nothing.
#[test]
fn a_linked_resolver_configuration_stops_nothing() {
    on_each("", "", |engine, case| {
        if !machine_root(case.caller) {
            return;
        }
        let script = "unshare -m --propagation private sh -c '
            mount -t tmpfs t /mnt; cp -a /etc /mnt/etc; mount -t tmpfs t /run; mkdir /run/x; echo nameserver 192.0.2.1 > /run/x/stub.conf
            chmod 755 /run /run/x; ln -sf /run/x/stub.conf /mnt/etc/resolv.conf; mount --bind /mnt/etc /etc
            $AS $R echo up; rm /run/x/stub.conf; $AS $R echo up'";
        case.root_steps(&around(engine, script)).prints("up\nup\n");
        // With names to be asked for.
        case.steps(
            "sed -i s/network_enabled.*/egress_allowlist=[\\\"nobody.invalid\\\"]/ spec.toml",
        );
        case.root_steps(&around(engine, script)).prints("up\nup\n");
    });
}

/// CO-7, imitated: neither variable nor socket of the interop server.
#[test]
fn interop_is_out_of_reach() {
    on_each("", "", |engine, case| {
        let script = "export WSL_INTEROP=$T/interop
            python3 -c 'import socket
s = socket.socket(socket.AF_UNIX); s.bind(\"interop\"); s.listen(); open(\"up\", \"w\"); s.settimeout(20); s.accept(); print(\"CONNECTED\")' & while ! [ -e up ]; do sleep .05; done
            $R sh -c 'echo \"[$WSL_INTEROP]\"; python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect(\\\"../interop\\\")\"' 2>/dev/null
            kill %1; rm -f interop up";
        case.steps(&around(engine, script)).prints("[]\n");
    });
}

/// CO-8: no shell and no usual layout is needed.
#[test]
fn a_static_program_needs_nothing_else() {
    on_each("", "", |engine, case| {
        case.steps("sed -i 's/view = \"host\"/view = \"bound\"/' spec.toml");
        let script = r#"mkdir -p store; printf '#include <stdio.h>\nint main(){puts("up");return 3;}\n' > b.c; gcc -static -o store/box b.c
            export SHELL=/nonexistent/sh; $R $T/store/box; echo rc=$?; PATH=$T/store:$PATH; $R box; echo rc=$?"#;
        case.steps(&around(engine, script))
            .prints("up\nrc=3\nup\nrc=3\n")
            .says_nothing();
    });
}

/// PF-1: thousands of protected and hidden paths start, and hold.
#[test]
fn thousands_of_paths_hold() {
    let many = |dir: &str| {
        let all: Vec<String> = (0..5000).map(|n| format!("\"{dir}/{n}.key\"")).collect();
        all.join(",")
    };
    let listed = format!("protected_paths = [{}]", many("ws/d"));
    let hidden = format!("deny_read = [{}]", many("h"));
    for (top, files) in [
        (listed.as_str(), hidden.as_str()),
        ("protected_paths = [\"ws/d/*.key\"]", ""),
    ] {
        on_each(top, files, |engine, case| {
            let script = "mkdir -p ws/d h; (cd ws/d; seq -f %.0f.key 0 4999 | xargs touch); (cd h; seq -f %.0f.key 0 4999 | xargs touch); echo K > ws/d/17.key; echo SECRET > h/4999.key
                timeout 20 $R sh -c 'echo e > d/17.key; echo e > d/4999.key; echo e > d/new.txt; echo up' 2>/dev/null; cat ws/d/17.key; find ws/d -type f -size +0 | wc -l";
            let done = case.steps(&around(engine, script));
            done.prints("up\nK\n2\n");
            if !files.is_empty() {
                let script = "$R cat ../h/4999.key 2>/dev/null; echo rc=$?; rm -rf h";
                case.steps(&around(engine, script)).prints("rc=1\n");
            }
        });
    }
}

/// PF-2: no pattern makes anybody walk the tree. `tests/soak` has it with 300,000 files and a clock.
#[test]
fn a_pattern_walks_no_tree() {
    on_each("protected_paths = [\"**/.env\"]", "", |engine, case| {
        let script = "mkdir -p $(seq -f 'ws/n/%.0f/x' 0 2999); echo K > ws/n/1500/x/.env
            strace -f -qq -e trace=getdents64 -e signal=none -o trace $R true; [ $(wc -l < trace) -lt 600 ] || wc -l trace
            $R sh -c 'echo e > n/1500/x/.env; echo e > n/7/.env; echo e > n/7/env' 2>/dev/null; cat ws/n/1500/x/.env; ls -A ws/n/7; rm trace";
        case.steps(&around(engine, script)).prints("K\nenv\nx\n");
    });
}
