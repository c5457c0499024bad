//! Reading what is denied.

use super::cases;

/// FR-1: the narrower deny wins over the directory grant; the rest of the directory stays usable.
#[test]
fn a_denied_file_inside_a_grant_stays_unreadable() {
    for c in cases() {
        c.spec("", "deny_read = [\"ws/secret.txt\", \"ws/vault/\"]", "");
        let script = "echo SECRET > ws/secret.txt; mkdir ws/vault; echo SECRET > ws/vault/k; S=$(stat -c %s ws/secret.txt)
            [ $(env -C ws tar c . | grep -ac SECRET) -gt 0 ] && echo control
            $R sh -c 'cat secret.txt; cat vault/k; ls vault; cp secret.txt c; tar c . 2>/dev/null | grep -ac SECRET; dd if=secret.txt 2>/dev/null
              cat /proc/self/root'$T'/ws/secret.txt /proc/self/cwd/secret.txt ./vault/../secret.txt; ls >/dev/null; echo ls=$?'
            cat ws/c 2>/dev/null; cat ws/secret.txt";
        c.steps(script).prints("control\n0\nls=0\nSECRET\n");
    }
}

/// FR-2: neither moving nor linking makes a denied file readable.
#[test]
fn a_denied_file_cannot_be_moved_to_a_readable_name() {
    for c in cases() {
        c.spec("", "deny_read = [\"ws/vault\"]", "");
        let script = "mkdir ws/vault; echo SECRET > ws/vault/k
            env -C ws bash -c 'mv vault v2; cat v2/k; mv v2 vault'
            $R bash -c 'mv vault v2; cat v2/k; ln vault/k l; cat l; mv vault/k k2; cat k2; ln -s vault/k s; cat s; rm s
              cp -r vault v3; cat v3/k; rmdir v3; true' | grep -c SECRET; ls ws ws/vault";
        c.steps(script)
            .prints("SECRET\n0\nws:\nvault\n\nws/vault:\nk\n");
    }
}

/// FR-3: denying the parent of the working directory hides the parent only.
#[test]
fn a_denied_parent_leaves_the_granted_cwd_in_place() {
    for c in cases() {
        c.raw_spec(
            "network_enabled = false\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n[filesystem]\nview = \"host\"\ndeny_read = [\"@T@\"]\n",
        );
        let script =
            "echo SECRET > sib; $R sh -c 'pwd; touch here && echo wrote; cat ../sib'; ls ws";
        let ws = c.t().join("ws");
        let ws = ws.display();
        c.control(script)
            .prints(&format!("{ws}\nwrote\nSECRET\nhere\n"));
        c.steps(script).prints(&format!("{ws}\nwrote\nhere\n"));
    }
}

/// FR-4: the most specific entry wins in both directions, whatever the order in the file.
#[test]
fn the_deepest_entry_wins_in_both_directions() {
    let files = [
        "deny_read = [\"~\", \"~/proj/.env\"]\nallow_read = [\"~/proj\"]",
        "allow_read = [\"~/proj\"]\ndeny_read = [\"~/proj/.env\", \"~\"]",
    ];
    for files in files {
        for c in cases() {
            c.raw_spec(&format!(
                "network_enabled = false\n[[bind_mounts]]\nhost_path = \"@T@/ws\"\n[filesystem]\nview = \"host\"\n{files}\n"
            ));
            let script = "mkdir -p h/proj h/other; echo A > h/proj/a; echo SECRET > h/proj/.env; echo SECRET > h/other/s
                HOME=$T/h $R sh -c 'cat ~/proj/a; cat ~/proj/.env; cat ~/other/s; ls -A ~'";
            c.control(script).prints("A\nSECRET\nSECRET\nother\nproj\n");
            let done = c.steps(script);
            assert!(
                ["A\n", "A\nproj\n"].contains(&done.out.as_str()),
                "{done:?}"
            );
        }
    }
}

/// FR-5: the host's processes are neither listed, signalled nor read.
#[test]
fn processes_of_the_host_are_out_of_reach() {
    for c in cases() {
        c.spec("", "", "");
        let script = r#"env TOKEN=HOSTSECRET sleep 60 & H=$!
            until grep -q HOSTSECRET /proc/$H/environ; do sleep .02; done; cat /proc/$H/environ | tr '\0' '\n' | grep -c HOSTSECRET
            $R bash -c 'cat /proc/[0-9]*/environ 2>/dev/null | tr "\0" "\n" | grep -c HOSTSECRET; [ $(ls -d /proc/[0-9]* | wc -l) -lt 10 ] && echo few
              kill -0 '$H' || echo k; ls /proc/'$H'/root >/dev/null 2>&1 || echo r'; kill $H"#;
        c.steps(script).prints("1\n0\nfew\nk\nr\n");
    }
}

/// A host program that replaces a hidden file (write new, rename over) takes the cover away with it, and what does not exist has none:
/// in a tree the command can write to their names hold them, and each refusal is told.
#[test]
fn hidden_paths_that_the_host_replaces_or_makes_stay_closed() {
    for c in cases() {
        c.spec(
            "",
            "deny_read = [\"ws/key\", \"ws/vault\", \"ws/late\", \"ws/dir/late\"]",
            "",
        );
        let script = r"mkdir ws/vault; echo OLD > ws/key; echo OLD > ws/vault/k
            $R sh -c 'cat key vault/k; touch up; while [ ! -e go ]; do sleep .02; done; cat key vault/k late dir/late; echo x > late; echo free' 2>err &
            while [ ! -e ws/up ]; do sleep .02; done
            echo NEW > n; mv n ws/key; rm -r ws/vault; mkdir ws/vault ws/dir; echo NEW | tee ws/vault/k ws/late ws/dir/late >/dev/null; touch ws/go; wait
            sed -n 's,^ccbox: denied \([a-z-]*\) [^ ]*/ws/\([a-z/]*\) .*,\1 \2,p' err | sort -u; cat ws/late
            ccbox explain --spec $T/spec.toml -- true > text; grep -o 'every open for reading is decided by name' text | sort -u; grep -E 'host-replace|late-secrets' text";
        c.steps(script).prints(
            "free\nfile-read-data dir/late\nfile-read-data key\nfile-read-data late\nfile-read-data vault/k\nfile-write-data late\nNEW\nevery open for reading is decided by name\n",
        );
    }
}

/// Neighbours of FR-1: a denied file is not read by other ways than open and read.
#[test]
fn a_denied_file_is_not_read_by_other_ways() {
    for c in cases() {
        c.spec("", "deny_read = [\"ws/secret.sh\", \"ws/vault\"]", "");
        let script = "echo 'echo SECRET' > ws/secret.sh; chmod 755 ws/secret.sh; mkdir ws/vault; echo SECRET > ws/vault/k; echo x > ws/free
            $R bash -c '. ./secret.sh; ./secret.sh; bash secret.sh; bash < secret.sh; read l < vault/k; echo $l
              python3 -c \"import mmap; f = open(\\\"vault/k\\\"); print(mmap.mmap(f.fileno(), 0, prot=1)[:])\"
              python3 -c \"import os; print(os.sendfile(1, os.open(\\\"vault/k\\\", 0), 0, 9))\"
              cp --reflink=auto vault/k c; diff vault/k free; sort vault/k free; find vault -type f -exec cat {} +; awk 1 vault/k; perl -pe 1 vault/k
              exec 3< vault; cat /proc/self/fd/3/k; cd vault; cat k; cat ../vault/../vault/k' 2>/dev/null | grep -c SECRET; cat ws/c 2>/dev/null; ls ws";
        c.control(
            "echo SECRET > ws/k; $R bash -c 'sort k; awk 1 k; perl -pe 1 k' | grep -c SECRET",
        )
        .prints("3\n");
        c.steps(script).prints("0\nfree\nsecret.sh\nvault\n");
    }
}

/// Neighbours of FR-2: what is copied, linked or moved around a denied directory takes nothing of it along.
#[test]
fn what_is_around_a_denied_directory_can_be_moved_without_it() {
    for c in cases() {
        c.spec("", "deny_read = [\"ws/p/vault\"]", "");
        let script = "mkdir -p ws/p/vault ws/p/docs; echo SECRET > ws/p/vault/k; echo FREE > ws/p/docs/f
            $R bash -c 'mv p q; mv p/docs docs && cat docs/f; cp -al p linked; cp -a p copied; cat q/vault/k linked/vault/k copied/vault/k; mkdir s; mv p/vault s/; tar cf t p; cat t; true' 2>/dev/null | grep -ac -e SECRET -e FREE
            cat ws/p/vault/k; find ws -name k | sort";
        c.steps(script).prints("1\nSECRET\nws/p/vault/k\n");
    }
}
