//! Neighbours of the cases: homes, users, temporary directories and roots as they are found in containers.

use super::cases;
use crate::escape::{Caller, machine_root};

/// A home that is not there, is no directory, or is spelled oddly.
#[test]
fn odd_homes_neither_stop_a_run_nor_open_secrets() {
    for c in cases() {
        let script = "mkdir -p h/.ssh h/p; echo SECRET > h/.ssh/k; ln -s h hl; cd h/p
            for v in $T/none relative '' /etc/passwd /dev/null /; do HOME=$v ccbox run -- sh -c 'echo \"$HOME\"; touch made'; rm made; done
            for v in $T/h/../h/./ $T/hl $T//h/; do HOME=$v ccbox run --ro $T -- sh -c 'cat ~/.ssh/k '$T'/h/.ssh/k '$T'/hl/.ssh/k ../.ssh/k; touch made'; rm made; done; cat ../.ssh/k";
        let t = c.t();
        c.steps(script).prints(&format!(
            "{}/none\nrelative\n\n/etc/passwd\n/dev/null\n/\nSECRET\n",
            t.display()
        ));
    }
}

/// Secrets that are links, and a home inside another one.
#[test]
fn secrets_behind_links_and_in_nested_homes_are_hidden() {
    for c in cases() {
        let script = "mkdir -p h/p/h2/.aws h/p/h2/w real h/.ssh2; echo SECRET > h/p/h2/.aws/c; echo SECRET > real/k; ln -s ../real h/.ssh; echo SECRET > real.netrc; ln -s ../real.netrc h/.netrc
            cd h/p; HOME=$T/h ccbox run --ro $T -- sh -c 'cat ~/.ssh/k '$T'/real/k ~/.netrc '$T'/real.netrc; echo ran'
            cd h2/w; HOME=$T/h/p/h2 ccbox run --ro $T -- sh -c 'cat ~/.aws/c; ls ~; touch made && echo wrote'";
        c.steps(script).prints("ran\nw\nwrote\n");
    }
}

/// Root's own home, as in a container: readable but for its secrets, never writable by accident, and a place to work in.
#[test]
fn roots_own_home_works() {
    for c in cases()
        .into_iter()
        .filter(|c| c.caller == Caller::Root && machine_root(Caller::Root))
    {
        let script = "unshare -m --propagation private bash -c '
            mount -t tmpfs t /root; chmod 700 /root; cd /root; export HOME=/root; mkdir -p p .ssh .config/ccbox; echo SECRET > .ssh/k; echo rc > .bashrc; echo file > file
            printf \"[[bind_mounts]]\\nhost_path = \\\"/root/p\\\"\\n\" > $T/spec.toml
            cd p; ccbox run -- sh -c \"pwd; cat ~/file; cat ~/.ssh/k; touch made && ls; touch ~/no; git init -q . && git status --short\"
            ccbox run --spec $T/spec.toml -- sh -c \"ls -A ~; touch two && ls; touch ~/no\"
            cd ..; ccbox run -- sh -c \"touch no; pwd\"; ls -A; exit 0'";
        let done = c.root_steps(script);
        done.prints(
            "/root/p\nfile\nmade\n?? made\np\nmade\ntwo\n/root\n.bashrc\n.config\n.local\n.ssh\nfile\np\n",
        )
        .says(&["notice", "`/root` stays read-only"]);
    }
}

/// A uid that the user database does not know, with the homes containers give it.
#[test]
fn a_uid_without_an_account_can_run() {
    for c in cases().into_iter().filter(|c| c.caller == Caller::Root) {
        c.raw_spec("[[bind_mounts]]\nhost_path = \"ws\"\n");
        let script = "chmod 755 $T; chmod 777 ws; A='setpriv --reuid=54329 --regid=54329 --clear-groups'
            for e in 'HOME=/' '-u HOME' 'HOME=/nonexistent' \"HOME=$T\"; do for s in '' \"--spec $T/spec.toml\"; do
              $A env -C ws $e ccbox run $s -- sh -c 'touch made && id -u && getent passwd 54329 | cut -d: -f1,3 && f=$(mktemp) && echo tmp && go env GOPATH >/dev/null && touch $GOPATH/x && echo cache'; done; done";
        c.root_steps(script)
            .prints(&"54329\n54329:54329\ntmp\ncache\n".repeat(8))
            .says_nothing();
    }
}

/// A read-only root file system with nothing writable but the workspace.
#[test]
fn a_read_only_root_can_run() {
    for c in cases().into_iter().filter(|_| machine_root(Caller::Root)) {
        let script = "unshare -m --propagation private bash -c '
            mount --bind / /mnt; mount -o remount,bind,ro /mnt; mount --rbind /proc /mnt/proc; mount --rbind /dev /mnt/dev; mount --bind $T /mnt$T
            mount --bind /mnt$T/ws /mnt$T/ws; mount -o remount,bind,ro /mnt$T; mount --rbind /sys /mnt/sys
            cd /mnt; mkdir -p $T/ws/old; pivot_root . .$T/ws/old; umount -l $T/ws/old; rmdir $T/ws/old; cd $T/ws
            touch $HOME/no; $AS ccbox run -- sh -c \"touch made && ls; f=\\$(mktemp) && echo tmp\"'";
        let done = c.root_steps(script);
        done.prints("made\ntmp\n");
        assert!(done.err.contains("Read-only file system"), "{}", done.err);
    }
}

/// Working directories in and at temporary directories, and specs that come through a pipe.
#[test]
fn temporary_directories_and_piped_specs() {
    for c in cases() {
        let script = "cd ws; mkdir -p a/b; ccbox run -- sh -c 'touch x && ls; ls -A /tmp | wc -l'; cd a/b
            printf '[[bind_mounts]]\\nhost_path = \"..\"\\n' | ccbox run --spec - -- sh -c 'touch ../y; pwd'; ls ..
            ccbox run --spec <(printf '[[bind_mounts]]\\nhost_path = \"../..\"\\n') -- touch ../../z; ls $T/ws
            printf '[[bind_mounts]]\\nhost_path = \"../..\"\\n' > ../s.toml; ccbox run --spec ../s.toml -- sh -c 'touch ../../w; echo > ../s.toml'";
        let t = c.t();
        let done = c.steps(script);
        done.prints(&format!("a\nx\n1\n{}/ws/a/b\nb\ny\na\nx\nz\n", t.display()));
        assert!(!c.t().join("w").exists());
    }
}

/// Three hundred binds.
#[test]
fn many_binds_start() {
    for c in cases() {
        let binds: String = (0..300).fold(String::new(), |all, i| {
            let read_only = i % 2 == 0;
            all + &format!(
                "[[bind_mounts]]\nhost_path = \"@T@/ws/d{i}\"\nread_only = {read_only}\n"
            )
        });
        c.raw_spec(&format!(
            "network_enabled = false\n{binds}[[bind_mounts]]\nhost_path = \"@T@/ws\"\n"
        ));
        let script = "for i in $(seq 0 299); do mkdir ws/d$i; done; $R sh -c 'touch d0/x d298/x || echo ro; touch d1/x d299/x x'; find ws -type f | sort";
        c.steps(script).prints("ro\nws/d1/x\nws/d299/x\nws/x\n");
    }
}

/// The names that lead out of a mount: /proc/self/root, descriptors, bind over, links made by the command itself.
#[test]
fn names_of_procfs_lead_nowhere_else() {
    for c in cases() {
        c.spec(
            "protected_paths = [\"ws/prot\"]",
            "deny_read = [\"ws/vault\", \"hidden\"]",
            "",
        );
        let attack = r#"import os
for p in ("prot", "/proc/self/root%s/ws/prot", "/proc/self/cwd/prot", "/proc/thread-self/root%s/ws/prot", "l/prot", "/dev/fd/9/prot", "../ws/prot"):
    p = p % T if "%s" in p else p
    for how in ("w", "a", "r+"):
        try: open(p, how).write("evil")
        except OSError: pass
for p in ("vault/k", "/proc/self/root%s/hidden/k" % T, "../hidden/k", "l/vault/k", "/dev/fd/9/vault/k", "/proc/1/root%s/hidden/k" % T):
    try: print(open(p).read(), end="")
    except OSError: pass
"#;
        let script = format!(
            "mkdir ws/vault hidden; echo SECRET > ws/vault/k; echo SECRET > hidden/k; echo KEEP > ws/prot; ln -s . ws/l
            cat > attack.py <<'X'
import sys; T = sys.argv[1]
{attack}
X
            $R bash -c 'exec 9< .; python3 '$T'/attack.py '$T; cat ws/prot
            env -C ws bash -c 'exec 9< .; python3 '$T'/attack.py '$T | sort | uniq -c | tr -d ' '; grep -c evil ws/prot"
        );
        c.steps(&script).prints("KEEP\n5SECRET\n1\n");
    }
}

/// A spec that binds a directory at /tmp itself (a harness keeps it between calls), with home, binary and source below the host's.
#[test]
fn a_bind_at_tmp_replaces_the_private_one() {
    for c in cases() {
        c.raw_spec("network_enabled = false\n[[bind_mounts]]\nhost_path = \"@T@/keep\"\nguest_path = \"/tmp\"\n");
        let script = "mkdir keep; cd /; ccbox run --spec $T/spec.toml --chdir /tmp -- sh -c 'touch one; f=$(mktemp)'; ls $T/keep | wc -l";
        c.steps(script).prints("2\n");
    }
}

/// A user namespace without privileges has one group, and overlayfs keeps the group of what it copies up: a cache of another group
/// starts empty and says so; a single file in a cache cannot be changed, only replaced.
#[test]
fn caches_of_another_group() {
    for c in cases()
        .into_iter()
        .filter(|c| c.caller == Caller::User && machine_root(Caller::Root))
    {
        let script = r"D=$(dirname $T); H=$D/home; mkdir -p $H/.cache/d; echo old > $H/.cache/f; echo old > $H/.cache/d/g; chown -R --reference=$H $H/.cache
            chgrp 54329 $H/.cache/f $H/.cache/d
            RUN='env -C ws '$D'/bin/ccbox run --spec '$T/spec.toml
            LC_ALL=C $AS $RUN -- sh -c 'cat ~/.cache/f; echo x >> ~/.cache/f; echo x > ~/.cache/d/new; echo n > ~/.cache/n && rm ~/.cache/f && echo new > ~/.cache/f && cat ~/.cache/f'
            cat $H/.cache/f
            chgrp 54329 $H/.cache; $AS $RUN -- sh -c 'ls ~/.cache; mkdir ~/.cache/d && touch ~/.cache/d/ok && ls ~/.cache'";
        c.raw_spec("network_enabled = false\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n[filesystem]\nallow_read = [\"~\"]\n");
        let done = c.root_steps(script);
        done.prints("old\nnew\nold\nd\n")
            .says(&["notice", "/home/.cache` starts empty"]);
        assert_eq!(
            done.err
                .matches("Value too large for defined data type")
                .count(),
            2,
            "{}",
            done.err
        );
    }
}
