//! Writing past a protection.

use super::cases;

/// FW-1: the protection does not travel with a renamed directory above, and the old name does not come free.
#[test]
fn an_ancestor_of_a_protected_file_cannot_be_renamed() {
    for c in cases() {
        c.spec("protected_paths = [\"ws/dir/prot\"]", "", "");
        let control = "mkdir ws/dir; echo KEEP > ws/dir/prot; cd ws
            mv dir d2 && mkdir dir && echo evil > dir/prot; cat dir/prot; rm -r dir d2; cd ..";
        c.steps(control).prints("evil\n");
        let script = "mkdir ws/dir; echo KEEP > ws/dir/prot; I=$(stat -c %i ws/dir)
            $R sh -c 'mv dir d2 && mkdir dir && echo evil > dir/prot'; echo rc=$?
            $R python3 -c 'import os
for a, b in ((\"dir\", \"d2\"), (\"../ws/dir\", \"d2\"), (\"/proc/self/cwd/dir\", \"d2\")):
    try: os.rename(a, b); print(\"renamed\")
    except OSError: pass'
            cat ws/dir/prot; ls ws; [ $I = $(stat -c %i ws/dir) ] && echo same
            $R sh -c 'mkdir free; mv free free2 && rmdir free2'; echo rc2=$?";
        c.steps(script)
            .prints("rc=1\nKEEP\ndir\nsame\nrc2=0\n")
            .says(&[
                "denied file-write-unlink",
                "ws/dir ",
                "protected_paths",
                "ws/dir/prot",
            ]);
    }
}

/// FW-2: a host program that saves a protected file by rename takes the mount away, and not the rule.
#[test]
fn a_protected_file_that_the_host_replaces_stays_protected() {
    for c in cases() {
        c.spec("protected_paths = [\"ws/prot\"]", "", "");
        let script = "echo KEEP > ws/prot
            $R sh -c 'touch up; until [ -e go ]; do sleep 0.05; done; grep -q HOST prot && echo seen
                echo evil > prot && echo WROTE; mv prot away && echo MOVED; rm -f prot && echo REMOVED; true' &
            until [ -e ws/up ]; do sleep 0.05; done
            echo HOST > ws/prot.tmp && mv ws/prot.tmp ws/prot; touch ws/go; wait; cat ws/prot";
        c.control(script).prints("seen\nWROTE\nMOVED\nREMOVED\n");
        c.steps(script).prints("seen\nHOST\n").says(&[
            "denied file-write-data",
            "ws/prot ",
            "protected_paths",
        ]);
    }
}

/// FW-3: a protected name that is not there is not made, by whatever call, and nothing is put in its place.
#[test]
fn an_absent_protected_file_cannot_be_made() {
    for c in cases() {
        c.spec("protected_paths = [\"ws/.env\"]", "", "");
        let attack = "import os, shutil
def opened(flags): os.close(os.open('.env', flags, 0o644))
ways = [lambda: opened(os.O_CREAT | os.O_WRONLY), lambda: opened(os.O_CREAT | os.O_EXCL | os.O_RDWR),
        lambda: os.mkdir('.env'), lambda: os.mkfifo('.env'), lambda: os.symlink('x', '.env'), lambda: os.mknod('.env'),
        lambda: os.link('made', '.env'), lambda: os.rename('made', '.env'), lambda: os.rename('dir', '.ENV'),
        lambda: os.close(os.open('sub/../.env', os.O_CREAT | os.O_WRONLY))]
for way in ways:
    for name in ('.env', '.ENV'):
        if os.path.isdir(name): shutil.rmtree(name)
        elif os.path.lexists(name): os.unlink(name)
    os.makedirs('dir', exist_ok=True); open('made', 'a').close()
    try: way(); print('done')
    except PermissionError: print('denied')";
        let script = format!(
            "cat > attack.py <<'X'\n{attack}\nX
            $R sh -c 'echo SECRET=1 > .env'; echo rc=$?; $R sh -c 'mkdir .env'; echo rc=$?; ls -A ws | wc -l
            mkdir -p ws/dir ws/sub; echo m > ws/made; $R python3 $T/attack.py | sort | uniq -c; ls -A ws"
        );
        c.control(&script)
            .prints("rc=0\nrc=1\n1\n     10 done\n.env\ndir\nmade\nsub\n");
        c.steps(&script)
            .prints("rc=2\nrc=1\n0\n     10 denied\ndir\nmade\nsub\n")
            .says(&["denied file-write-create", "ws/.env ", "protected_paths"]);
    }
}

/// FW-4: neither is a protected directory whose parents are absent too.
#[test]
fn an_absent_chain_of_protected_directories_cannot_be_made() {
    for c in cases() {
        c.spec(
            "protected_paths = [\"ws/.git/hooks\", \"ws/.git/config\"]",
            "",
            "",
        );
        let script = r##"$R bash -c 'git init -q . ; mkdir -p .git/hooks; printf "#!/bin/sh\ntouch %s/PWNED\n" "$HOME" > .git/hooks/post-checkout
                chmod +x .git/hooks/post-checkout; git config core.fsmonitor evil'
            test -s ws/.git/hooks/post-checkout && echo PLANTED; grep -s fsmonitor ws/.git/config && echo CONFIGURED; echo end"##;
        c.control(script)
            .prints("PLANTED\n\tfsmonitor = evil\nCONFIGURED\nend\n");
        c.steps(script)
            .prints("end\n")
            .says(&["denied", "ws/.git/", "protected_paths"]);
    }
}

/// FW-5: a protected name that nobody inside can create needs no mount point and stops nothing.
#[test]
fn an_absent_protected_name_below_a_foreign_directory_stops_nothing() {
    for c in cases() {
        c.spec("protected_paths = [\"/usr/.conf\", \"/.conf/x\"]", "", "");
        let script = "$R sh -c 'touch made; touch /usr/.conf || echo no; mkdir /.conf || echo no'; echo rc=$?; ls ws; ls -A /.conf /usr/.conf";
        c.steps(script).prints("no\nno\nrc=0\nmade\n");
        c.raw_spec(
            "network_enabled = false\nprotected_paths = [\"@T@/foreign/.conf\", \"/usr/.conf\"]\n\
             [[bind_mounts]]\nhost_path = \"@T@/foreign/ws\"\n",
        );
        let script = "mkdir -p foreign/ws; chmod 777 foreign/ws; chmod 755 foreign; chown 0:0 foreign
            $AS env -C foreign/ws ccbox run --spec $T/spec.toml -- sh -c 'touch made; touch ../.conf'; echo rc=$?; find foreign -type f";
        if nix::unistd::geteuid().is_root() {
            c.root_steps(script)
                .prints("rc=0\nforeign/ws/made\n")
                .says_nothing();
        }
    }
}

/// FW-6: a write into a hidden directory fails instead of being lost.
#[test]
fn a_hidden_directory_takes_no_writes() {
    for c in cases() {
        c.spec("", "deny_read = [\"ws/vault\"]", "");
        let script = "mkdir ws/vault; echo s > ws/vault/key
            $R bash -c 'echo x > vault/new || echo w; cat vault/key || echo r; mkdir vault/d || echo d; ln -s x vault/l || echo l'
            ls ws/vault; cat ws/vault/key";
        c.control(script).prints("s\nd\nkey\nl\nnew\ns\n");
        c.steps(script).prints("w\nr\nd\nl\nkey\ns\n");
    }
}

/// FW-7: in a read-only mode only the runner's own state and the private temporary directory are writable.
#[test]
fn read_only_modes_leave_only_runner_state_writable() {
    for mode in ["review", "plan", "orchestrate"] {
        for c in cases() {
            c.spec(
                &format!("mode = \"{mode}\"\nrunner_state_dirs = [\"st\"]"),
                "",
                "[[bind_mounts]]\nhost_path = \"@T@/ws2\"\n",
            );
            let script = "mkdir ws2 st
                $RH sh -c 'touch ws/a || echo a; touch ws2/b || echo b; touch st/c; f=$(mktemp) && echo tmp=ok'
                find . -type f | sort";
            c.control(script)
                .prints("tmp=ok\n./spec.toml\n./st/c\n./ws/a\n./ws2/b\n");
            c.steps(script)
                .prints("a\nb\ntmp=ok\n./spec.toml\n./st/c\n");
        }
    }
}

/// FW-8: mode, times, length, attributes, owner and link count of a protected file stay.
#[test]
fn metadata_of_a_protected_file_stays() {
    for c in cases() {
        c.spec("protected_paths = [\"ws/prot\"]", "", "");
        let attack = "import os
for f in (lambda: os.chmod('prot', 0o777), lambda: os.utime('prot', (1, 1)), lambda: os.truncate('prot', 0),
          lambda: os.setxattr('prot', 'user.x', b'y'), lambda: os.chown('prot', os.getuid(), os.getgid()),
          lambda: os.link('prot', 'alias'), lambda: os.rename('prot', 'other'), lambda: os.unlink('prot'),
          lambda: os.replace('made', 'prot')):
    try: f(); print('done')
    except OSError: pass";
        let script = format!(
            "fresh() {{ rm -f ws/*; echo KEEP > ws/prot; echo m > ws/made; chmod 644 ws/prot; touch -d 2001-01-01 ws/prot; }}
            show() {{ TZ=UTC stat -c '%a %y %s %h' ws/prot; python3 -c 'import os; print(os.listxattr(\"ws/prot\"))'; ls ws; }}
            cat > attack.py <<'X'
{attack}
X
            fresh; env -C ws python3 $T/attack.py | sort -u; fresh; $R python3 $T/attack.py; show"
        );
        c.steps(&script)
            .prints("done\n644 2001-01-01 00:00:00.000000000 +0000 5 1\n[]\nmade\nprot\n");
    }
}

/// Whatever is tried on a protected file that exists, or on a file that is shown read-only in a writable directory, is refused with a
/// line that names the rule; what it does outside is the control, and reading it is no attempt.
#[test]
fn every_attempt_on_a_read_only_file_is_reported() {
    let ways = [
        ("file-write-data", "echo e > F"),
        ("file-write-data", "echo e >> ./F"),
        (
            "file-write-data",
            "python3 -c \"import os; os.truncate(\\\"F\\\", 0)\"",
        ),
        ("file-write-data", "touch F"),
        ("file-write-unlink", "rm -f F"),
        ("file-write-unlink", "mv F other"),
        ("file-write-mode", "chmod 777 F"),
        ("file-write-times", "touch -h F"),
        ("file-write-owner", "chgrp $(id -g) F"),
        (
            "file-write-xattr",
            "python3 -c \"import os; os.setxattr(\\\"F\\\", \\\"user.a\\\", bytes(1))\"",
        ),
    ];
    for c in cases() {
        c.spec(
            "protected_paths = [\"ws/prot\", \"ws/dir\"]",
            "",
            "[[bind_mounts]]\nhost_path = \"@T@/ws/shown\"\nread_only = true\n",
        );
        for (file, rule) in [
            ("prot", "protected_paths"),
            ("dir/f", "protected_paths"),
            ("shown", "bind_mounts"),
        ] {
            for (action, way) in ways {
                let way = way.replace('F', file);
                let script = format!(
                    "mkdir -p ws/dir; for f in prot dir/f shown; do echo KEEP > ws/$f; done
                    $R sh -c 'cat < {file} > /dev/null; flock {file} true; {way}' || echo refused; ls -l ws/{file} | cut -c1-10; cat ws/{file}"
                );
                let control = c.control(&script);
                assert!(!control.out.contains("refused"), "{way} {control:?}");
                let done = c.steps(&script);
                done.prints("refused\n-rw-r--r--\nKEEP\n").says(&[
                    "denied",
                    action,
                    &format!("ws/{file} "),
                    rule,
                ]);
                let lines = done
                    .err
                    .lines()
                    .filter(|l| l.starts_with("ccbox: denied"))
                    .count();
                // Two calls: an open, and where that fails the times by path.
                let calls = if way.starts_with("touch -h") || !way.starts_with("touch") {
                    1
                } else {
                    2
                };
                assert_eq!(lines, calls, "{way}: {}", done.err);
            }
        }
        // The spec is protected as well, and no line of it says so.
        let script = "$R sh -c 'echo e > ../spec.toml'; grep -c ^e$ spec.toml";
        let done = c.steps(script);
        done.prints("0\n").says(&["denied", "spec.toml "]);
        assert!(!done.err.contains("hint: remove"), "{}", done.err);
    }
}

/// FW-9: atomic saves work in a writable directory; on a single-file grant they fail, and a notice says why.
#[test]
fn atomic_saves_work_in_directories_and_single_files_say_why_not() {
    for c in cases() {
        c.spec("", "", "[[bind_mounts]]\nhost_path = \"@T@/conf.json\"\n");
        let script = "echo '{}' > conf.json
            $R sh -c 'echo 1 > a.tmp && mv a.tmp a; echo ws=$?; mv a ../conf.json 2>/dev/null; echo 3 > ../conf.json; echo inplace=$?'
            cat conf.json";
        c.steps(script).prints("ws=0\ninplace=0\n3\n").says(&[
            "notice",
            "conf.json",
            "rename",
            "directory",
        ]);
    }
}

/// FW-10: what would make git run a program is not planted, ccbox runs no git of its own in the project, and ordinary names stay usable.
#[test]
fn a_planted_repository_runs_nothing() {
    for c in cases() {
        c.spec("", "protect_git = true", "");
        let script = r#"git init -q ws; mkdir ws/sub
            $R bash -c 'cd sub && mkdir objects refs && echo "ref: refs/heads/x" > HEAD && printf "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = \"touch %s/PWNED; false\"\n" "'$T'" > config'
            $R true; env -C ws/sub ccbox run -- true; env -C ws/sub ccbox explain -- true > /dev/null; ls PWNED 2>/dev/null
            $R bash -c 'mkdir -p config refs2 && echo ok > config/app.toml && echo x > HEADLINE; git status --short'
            ls -A ws; git -C ws/sub status >/dev/null 2>&1; ls PWNED 2>/dev/null
            # Control: git itself would have run it.
            printf "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = \"touch $T/PWNED; false\"\n" > ws/sub/config
            git -C ws/sub status >/dev/null 2>&1; ls PWNED"#;
        c.steps(script).prints(
            "?? HEADLINE\n?? config/\n?? sub/\n.git\nHEADLINE\nconfig\nrefs2\nsub\nPWNED\n",
        );
    }
}

/// What the command writes beside the host's directories is seen by the host all the same: the private caches. A `.git` file in the work
/// tree can lead to a home-made git directory there, and git on the host would run what its configuration says.
#[test]
fn a_git_directory_made_in_a_private_cache_runs_nothing() {
    for c in cases() {
        c.spec("", "", "");
        let script = r#"mkdir -p $HOME/.npm $HOME/.cargo/registry ws/sub; S=$HOME/.local/state/ccbox/caches
            plant() { mkdir -p $1/objects $1/refs && echo 'ref: refs/heads/m' > $1/HEAD &&
                printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = "touch %s/PWNED; false"\n' $T > $1/config; }
            try() { rm -f PWNED; $R sh -c "echo gitdir: $1 > sub/.git" 2>/dev/null; git -C ws/sub status >/dev/null 2>&1; ls PWNED 2>/dev/null; }
            # Every way to make it: in place, the last piece by rename, by link, whole from the private /tmp, and as .git.
            $R bash -c "T=$T; $(declare -f plant)"'
                for d in ~/.npm ~/.cargo/registry /run/ccbox-caches; do
                    cd $d || continue
                    plant a; plant b; mv b/HEAD b/h; mv b/h b/HEAD
                    mkdir -p c/objects c/refs; plant c2; ln c2/HEAD c/HEAD; ln c2/config c/config
                    plant /tmp/d; cp -r /tmp/d d; cp -r /tmp/d e; mv e .git; plant f/.git
                done 2>/dev/null; echo tried'
            for g in $(find $S -name HEAD); do try ${g%/HEAD}; done
            # Control: made outside it runs.
            plant $S/control; try $S/control"#;
        c.steps(script).prints("tried\nPWNED\n");
    }
}
